#![no_main]
//! Arbitrary bytes as a capture: pcap, pcapng, gzip or zstd around them. The reader never panics,
//! its counts add up, no byte is taken for two packets, and neither the pieces that the bytes come
//! in nor pauses between them change what it finds.
use std::cell::RefCell;
use std::io::{Cursor, ErrorKind, Read, Result as IoResult};

use bounded::fuzz_target;
use trace::block::{Block, Segment};
use trace::packet::Anomaly;
use trace::source::{Bounds, Reader, Totals};

/// Small sizes: an execution should not spend its time on clearing blocks.
const BOUNDS: Bounds = Bounds {
    block_bytes: 0,
    frame_bytes: 2048,
    fragment_bytes: 1 << 14,
    window_bytes: 0,
    zstd_window_bytes: 8 << 20,
};
/// Packets that a capture can hold at most in so many bytes.
const RECORD_BYTES: u64 = 16;

/// Gives bytes in pieces of a few lengths; between some of them it has nothing for a moment.
struct Pieces {
    bytes: Cursor<Vec<u8>>,
    style: usize,
    reads: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        self.reads += 1;
        let length = [0, 1 + self.style, 0, 40, 7 * self.style + 1, 3000][self.reads % 6];
        if length == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let room = buffer.len().min(length);
        self.bytes.read(&mut buffer[..room])
    }
}

/// What a reader found: segments, wherever they lie, and a sum over their payloads.
type Found = (Vec<(Segment, u64)>, Totals, bool);

fn sum(payload: &[u8]) -> u64 {
    payload.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// All blocks, or those before an error; each block's counts are checked.
fn drain(mut reader: Reader, block: &mut Block) -> Found {
    let mut found = Vec::new();
    let (mut frames, mut wire_bytes) = (0, 0);
    let whole = loop {
        match reader.read(block) {
            Ok(true) => {}
            Ok(false) => break true,
            Err(_) => break false,
        }
        frames += block.frames;
        wire_bytes += block.wire_bytes;
        for segment in &block.segments {
            let payload = block.payload(segment);
            assert_eq!(payload.len(), segment.captured_bytes as usize);
            assert!(segment.captured_bytes <= segment.payload_bytes);
            assert!((1..=frames).contains(&segment.frame));
            assert!(segment.first_ns <= segment.time_ns || segment.frame > 1);
            let placeless = Segment {
                payload_at: 0,
                ..*segment
            };
            found.push((placeless, sum(payload)));
        }
    };
    let totals = reader.totals();
    if whole {
        assert_eq!((frames, wire_bytes), (totals.frames, totals.wire_bytes));
    }
    (found, totals, whole)
}

fn is_compressed(data: &[u8]) -> bool {
    data.starts_with(&[0x1f, 0x8b])
        || data.starts_with(&[0x28, 0xb5])
        || data.get(1..4) == Some(&[0x2a, 0x4d, 0x18])
}

thread_local! {
    static BLOCK: RefCell<Block> = RefCell::default();
}

fuzz_target!(|data: &[u8]| {
    let whole = Reader::of_bytes("fuzz", Cursor::new(data.to_vec()), BOUNDS);
    let Ok(reader) = whole else { return };
    BLOCK.with_borrow_mut(|block| {
        let (segments, totals, ended) = drain(reader, block);
        assert!(totals.captured_bytes <= totals.wire_bytes);
        if !is_compressed(data) {
            let taken = totals.captured_bytes + totals.skipped_bytes;
            assert!(taken + RECORD_BYTES * totals.frames <= data.len() as u64);
        }
        let style = usize::from(data.last().copied().unwrap_or(0));
        // What a decompressor gives before it finds damage, or one within another before the outer
        // one's end is missing, depends on the pieces.
        let damaged = totals.anomalies.of(Anomaly::DamagedCompression) > 0;
        let cut = is_compressed(data) && totals.anomalies.of(Anomaly::CutAtEnd) > 0;
        if style & 1 == 0 || damaged || cut {
            return;
        }
        let pieces = Pieces {
            bytes: Cursor::new(data.to_vec()),
            style,
            reads: 0,
        };
        let reader = Reader::of_bytes("fuzz", pieces, BOUNDS).expect("it was one in one piece");
        let (again, totals_again, ended_again) = drain(reader, block);
        assert_eq!(ended, ended_again);
        assert_eq!(totals, totals_again);
        assert_eq!(segments, again);
    });
});
