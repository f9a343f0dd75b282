//! Where blocks live: block numbers run through all files, one file after the other.
//!
//! Blocks are split evenly over the files (the first ones have one more when it does not come
//! out), and each thread of a phase works on its own contiguous range of block numbers. So with as
//! many files as threads, each thread has a file of its own; with fewer, threads share a file in
//! disjoint ranges; with more, a thread works through several. No two threads ever touch the same
//! block, hence every block's content is known at any time and can be checked.
//!
//! Of several processes that make one run, each has the blocks that its threads would have if all
//! threads were those of one process.

use std::ops::Range;

/// The blocks of all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    blocks: u64,
    files: u64,
    block_bytes: u64,
    /// The first block of this process, and the one behind its last.
    own: (u64, u64),
}

/// A block's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Number of the file, from 0.
    pub file: u64,
    /// Byte offset in it.
    pub offset: u64,
}

/// Part of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Number of the file, from 0.
    pub file: u64,
    /// Byte offset of the first block in it.
    pub offset: u64,
    /// Block numbers.
    pub blocks: Range<u64>,
}

impl Layout {
    /// `blocks` of `block_bytes` over `files` (at least one, at most one a block).
    #[must_use]
    pub const fn new(blocks: u64, files: u64, block_bytes: u64) -> Self {
        Self {
            blocks,
            files,
            block_bytes,
            own: (0, blocks),
        }
    }

    /// The same files, of which this process works on these blocks alone.
    #[must_use]
    pub const fn within(self, own: Range<u64>) -> Self {
        Self {
            own: (own.start, own.end),
            ..self
        }
    }

    /// The blocks of this process.
    #[must_use]
    pub const fn own(&self) -> Range<u64> {
        self.own.0..self.own.1
    }

    /// The files that it works on.
    #[must_use]
    pub const fn own_files(&self) -> Range<u64> {
        self.spot(self.own.0).file..self.spot(self.own.1 - 1).file + 1
    }

    /// Block numbers of a file.
    #[must_use]
    pub const fn file_blocks(&self, file: u64) -> Range<u64> {
        part(self.blocks, self.files, file)
    }

    /// Size of a file.
    #[must_use]
    pub const fn file_bytes(&self, file: u64) -> u64 {
        let blocks = self.file_blocks(file);
        (blocks.end - blocks.start) * self.block_bytes
    }

    /// Size of a part of a file.
    #[must_use]
    pub const fn segment_bytes(&self, segment: &Segment) -> u64 {
        (segment.blocks.end - segment.blocks.start) * self.block_bytes
    }

    /// Where a block is.
    #[inline]
    #[must_use]
    pub const fn spot(&self, block: u64) -> Spot {
        let (each, more) = (self.blocks / self.files, self.blocks % self.files);
        let long = more * (each + 1);
        let (file, within) = if block < long {
            (block / (each + 1), block % (each + 1))
        } else {
            (more + (block - long) / each, (block - long) % each)
        };
        Spot {
            file,
            offset: within * self.block_bytes,
        }
    }

    /// Block numbers of thread `index` out of `threads` of this process.
    #[must_use]
    pub const fn range(&self, threads: u64, index: u64) -> Range<u64> {
        let mine = part(self.own.1 - self.own.0, threads, index);
        self.own.0 + mine.start..self.own.0 + mine.end
    }

    /// A range of blocks as parts of files, in order.
    pub fn segments(self, range: Range<u64>) -> impl Iterator<Item = Segment> {
        let mut next = range.start;
        std::iter::from_fn(move || {
            if next >= range.end {
                return None;
            }
            let Spot { file, offset } = self.spot(next);
            let end = self.file_blocks(file).end.min(range.end);
            let blocks = next..end;
            next = end;
            Some(Segment {
                file,
                offset,
                blocks,
            })
        })
    }
}

/// The part `index` when `total` is split into `parts` that differ by one at most.
#[must_use]
pub const fn part(total: u64, parts: u64, index: u64) -> Range<u64> {
    let (each, more) = (total / parts, total % parts);
    let extra = if index < more { index } else { more };
    let start = each * index + extra;
    start..start + each + if index < more { 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_blocks_over_three_files() {
        let layout = Layout::new(10, 3, 512);
        let files: Vec<_> = (0..3).map(|file| layout.file_blocks(file)).collect();
        assert_eq!(files, [0..4, 4..7, 7..10]);
        assert_eq!(layout.file_bytes(0), 2048);
        assert_eq!(
            layout.spot(3),
            Spot {
                file: 0,
                offset: 1536
            }
        );
        assert_eq!(layout.spot(4), Spot { file: 1, offset: 0 });
        assert_eq!(
            layout.spot(9),
            Spot {
                file: 2,
                offset: 1024
            }
        );
    }

    proptest::proptest! {
        #[test]
        fn threads_cover_every_block_once_and_segments_agree_with_spots(
            blocks in 1_u64..500, files in 1_u64..500, threads in 1_u64..500,
        ) {
            let (files, threads) = (files.min(blocks), threads.min(blocks));
            let layout = Layout::new(blocks, files, 8);
            let mut seen = Vec::new();
            for thread in 0..threads {
                for segment in layout.segments(layout.range(threads, thread)) {
                    let mut offset = segment.offset;
                    for block in segment.blocks {
                        let spot = layout.spot(block);
                        assert_eq!(spot, Spot { file: segment.file, offset });
                        assert!(offset < layout.file_bytes(spot.file));
                        offset += 8;
                        seen.push(block);
                    }
                }
            }
            assert_eq!(seen, (0..blocks).collect::<Vec<_>>());
            let sizes: u64 = (0..files).map(|file| layout.file_bytes(file)).sum();
            assert_eq!(sizes, blocks * 8);
        }
    }
}
