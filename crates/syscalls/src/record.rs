//! What is known of system calls on files: the records that every way of watching gives.
//!
//! Decisions. A file is its device and inode, with a generation where an inode number is used
//! again; its path is what was seen first, and each later name is a row of its own with the
//! same `file_id`. Durations are counted in buckets of a quarter octave ([`bucket`]), sizes in
//! octaves ([`octave`]): both can be kept by a program in the kernel. The place of an access is
//! judged against the access of the same kind (reading or writing) before it on the same file,
//! whoever made it ([`Place::of`]): PostgreSQL's backends write one log by turns.
//!
//! A copy within the kernel (sendfile, copy_file_range, splice) is two calls: one of the file that
//! is read, one of the file that is written; a socket or a pipe on one side is none.
//!
//! Limits: what a program does through mmap or io_uring is not seen here.

macro_rules! calls {
    ($($call:ident $name:literal: $of:literal,)+) => {
        /// A system call on a file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Call {
            $(#[doc = $of] $call,)+
        }

        /// Every call, in the order of its number.
        pub const CALLS: [Call; [$($name),+].len()] = [$(Call::$call),+];

        impl Call {
            /// As tables show it: Linux's name of the first of the kind.
            pub fn name(self) -> &'static str {
                match self {
                    $(Call::$call => $name,)+
                }
            }
        }
    };
}

// Numbered by their order, from 0: as the programs in the kernel and the shim know them.
calls! {
    Open "open": "open, openat, openat2, creat.",
    Close "close": "close.",
    Read "read": "read.",
    Write "write": "write.",
    Pread "pread64": "pread64.",
    Pwrite "pwrite64": "pwrite64.",
    Readv "readv": "readv.",
    Writev "writev": "writev.",
    Preadv "preadv": "preadv, preadv2.",
    Pwritev "pwritev": "pwritev, pwritev2.",
    Lseek "lseek": "lseek.",
    Fsync "fsync": "fsync.",
    Fdatasync "fdatasync": "fdatasync.",
    SyncFileRange "sync_file_range": "sync_file_range.",
    Truncate "ftruncate": "ftruncate, truncate.",
    Fallocate "fallocate": "fallocate.",
    Unlink "unlink": "unlink, unlinkat, rmdir.",
    Rename "rename": "rename, renameat, renameat2.",
    Mmap "mmap": "mmap of a file.",
    Sync "sync": "sync, syncfs.",
    Sendfile "sendfile": "sendfile, of the file that it reads.",
    SendfileTo "sendfile_to": "sendfile, of the file that it writes.",
    CopyFileRange "copy_file_range": "copy_file_range, of the file that it reads.",
    CopyFileRangeTo "copy_file_range_to": "copy_file_range, of the file that it writes.",
    Splice "splice": "splice, of the file that it reads.",
    SpliceTo "splice_to": "splice, of the file that it writes.",
    Msync "msync": "msync with MS_SYNC; of which file is not told. MS_ASYNC does nothing.",
}

impl Call {
    /// The call of this number; None when there is none.
    pub fn numbered(number: u8) -> Option<Call> {
        CALLS.get(usize::from(number)).copied()
    }

    /// Does it read a file's bytes?
    pub fn reads(self) -> bool {
        use Call::{CopyFileRange, Pread, Preadv, Read, Readv, Sendfile, Splice};
        matches!(
            self,
            Read | Pread | Readv | Preadv | Sendfile | CopyFileRange | Splice
        )
    }

    /// Does it write a file's bytes?
    pub fn writes(self) -> bool {
        use Call::{CopyFileRangeTo, Pwrite, Pwritev, SendfileTo, SpliceTo, Write, Writev};
        matches!(
            self,
            Write | Pwrite | Writev | Pwritev | SendfileTo | CopyFileRangeTo | SpliceTo
        )
    }

    /// Is it there to make bytes durable? (A write may be, too: [`SyncRecord::synchronous`].)
    pub fn syncs(self) -> bool {
        matches!(
            self,
            Call::Fsync | Call::Fdatasync | Call::SyncFileRange | Call::Sync | Call::Msync
        )
    }
}

/// Where an access lies, compared with the one before it on the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Place {
    /// Nothing was seen before it.
    First = 0,
    /// It begins where the one before ended.
    Sequential = 1,
    /// It begins within the one before: PostgreSQL writes its log's last page again and again.
    Rewrite = 2,
    /// It begins beyond the end of the one before.
    Forward = 3,
    /// It begins before the one before.
    Backward = 4,
}

/// Kinds of [`Place`].
pub const PLACES: usize = 5;

impl Place {
    /// Of an access at `offset` after one that began at `last_start` and ended before `last_end`.
    pub fn of(offset: u64, last: Option<(u64, u64)>) -> Place {
        let Some((last_start, last_end)) = last else {
            return Place::First;
        };
        if offset == last_end {
            Place::Sequential
        } else if offset > last_end {
            Place::Forward
        } else if offset >= last_start {
            Place::Rewrite
        } else {
            Place::Backward
        }
    }
}

/// Buckets of durations.
pub const LATENCY_BUCKETS: usize = 160;
/// Buckets of sizes.
pub const SIZE_BUCKETS: usize = 32;

/// The bucket of a duration: four to an octave, exact below 4 ns, the last one open (2^40 ns,
/// 18 minutes).
pub fn bucket(latency_ns: u64) -> usize {
    if latency_ns < 4 {
        return latency_ns as usize;
    }
    let octave = latency_ns.ilog2() as usize;
    let quarter = (latency_ns >> (octave - 2)) as usize & 3;
    (octave * 4 + quarter - 4).min(LATENCY_BUCKETS - 1)
}

/// The bucket of a size: 0 for no bytes, else 1 + the binary logarithm, the last one open.
pub fn octave(size_bytes: u64) -> usize {
    (64 - size_bytes.leading_zeros() as usize).min(SIZE_BUCKETS - 1)
}

/// A name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// The file in the other records.
    pub file_id: u32,
    /// Device, as stat(2) gives it (`major << 8 | minor` is not assumed: both apart).
    pub device: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// Absolute where it could be had, else as the program named it. Not always UTF-8.
    pub path: Vec<u8>,
    /// When this name was seen first, ns.
    pub seen_ns: u64,
}

/// One call that makes bytes durable, or one write of a descriptor that does (O_SYNC, O_DSYNC,
/// RWF_DSYNC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRecord {
    /// When it was entered, ns.
    pub start_ns: u64,
    /// Until it returned, ns.
    pub latency_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// What was called.
    pub call: Call,
    /// A write that returns when its bytes are durable.
    pub synchronous: bool,
    /// Of which file; [`NO_FILE`] for sync.
    pub file_id: u32,
    /// Where it begins: of sync_file_range and writes.
    pub offset: Option<u64>,
    /// How many bytes were asked for: of sync_file_range and writes.
    pub size: Option<u64>,
    /// What it returned: negative is -errno.
    pub result: i64,
}

/// No file, or one that could not be told.
pub const NO_FILE: u32 = u32::MAX;

/// One read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRecord {
    /// When it was entered, ns.
    pub start_ns: u64,
    /// Until it returned, ns.
    pub latency_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// What was called.
    pub call: Call,
    /// Of which file.
    pub file_id: u32,
    /// Where it begins; None when the file has no place (a pipe) or it is not known.
    pub offset: Option<u64>,
    /// How many bytes were asked for.
    pub size: u64,
    /// What it returned: bytes, or -errno.
    pub result: i64,
}

/// A call that changes a name: unlink, rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRecord {
    /// When it was entered, ns.
    pub start_ns: u64,
    /// Until it returned, ns.
    pub latency_ns: u64,
    /// Process.
    pub pid: u32,
    /// What was called.
    pub call: Call,
    /// The name that was there.
    pub path: Vec<u8>,
    /// The new one, of rename.
    pub new_path: Option<Vec<u8>>,
    /// What it returned: negative is -errno.
    pub result: i64,
}

impl NameRecord {
    /// Of its paths.
    pub fn path_bytes(&self) -> usize {
        self.path.len() + self.new_path.as_ref().map_or(0, Vec::len)
    }
}

/// Calls of one kind on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountRecord {
    /// The file.
    pub file_id: u32,
    /// What was called.
    pub call: Call,
    /// How often.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// Bytes that were read or written.
    pub bytes: u64,
    /// All durations, ns.
    pub latency_sum_ns: u64,
    /// The longest, ns.
    pub latency_max_ns: u64,
    /// By [`bucket`].
    pub latencies: [u64; LATENCY_BUCKETS],
    /// Sizes asked for by [`octave`]: of reads and writes.
    pub sizes: [u64; SIZE_BUCKETS],
    /// Reads and writes by [`Place`]; those without a place are in none.
    pub places: [u64; PLACES],
}

impl CountRecord {
    /// No call yet.
    pub fn new(file_id: u32, call: Call) -> Self {
        CountRecord {
            file_id,
            call,
            calls: 0,
            errors: 0,
            bytes: 0,
            latency_sum_ns: 0,
            latency_max_ns: 0,
            latencies: [0; LATENCY_BUCKETS],
            sizes: [0; SIZE_BUCKETS],
            places: [0; PLACES],
        }
    }

    /// One call more: how long it took, and what it returned.
    pub fn add(&mut self, latency_ns: u64, result: i64) {
        self.calls += 1;
        self.errors += u64::from(result < 0);
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(latency_ns);
        self.latency_max_ns = self.latency_max_ns.max(latency_ns);
        self.latencies[bucket(latency_ns)] += 1;
    }
}

/// A request of a block device (only of eBPF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// When it was handed to the driver, ns.
    pub issue_ns: u64,
    /// Until the device had done it, ns.
    pub latency_ns: u64,
    /// Device: major, minor.
    pub device: (u32, u32),
    /// What it is.
    pub kind: BlockKind,
    /// Is it to be durable when done (REQ_FUA)?
    pub fua: bool,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Bytes.
    pub size: u64,
    /// Who handed it over: not always who wrote the bytes.
    pub pid: u32,
}

/// A kind of block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// A flush of the device's cache.
    Flush,
    /// Discard and all others.
    Other,
}

impl BlockKind {
    /// As tables show it.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Read => "read",
            BlockKind::Write => "write",
            BlockKind::Flush => "flush",
            BlockKind::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least duration in this bucket, ns.
    fn bucket_start(bucket: usize) -> u64 {
        if bucket < 4 {
            return bucket as u64;
        }
        let octave = (bucket + 4) / 4;
        let quarter = (bucket % 4) as u64;
        (4 + quarter) << (octave - 2)
    }

    #[test]
    fn buckets_are_quarter_octaves_and_start_where_they_say() {
        for (latency_ns, expected) in [(0, 0), (3, 3), (4, 4), (5, 5), (7, 7), (8, 8), (9, 8)] {
            assert_eq!(bucket(latency_ns), expected, "{latency_ns}");
        }
        for number in 0..LATENCY_BUCKETS {
            assert_eq!(bucket(bucket_start(number)), number);
            if number > 0 {
                assert_eq!(bucket(bucket_start(number) - 1), number - 1);
            }
        }
        assert_eq!(bucket_start(LATENCY_BUCKETS - 1), 7 << 38);
        assert_eq!(bucket(u64::MAX), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn sizes_are_octaves() {
        for (size, expected) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (8192, 14)] {
            assert_eq!(octave(size), expected, "{size}");
        }
        assert_eq!(octave(u64::MAX), SIZE_BUCKETS - 1);
    }

    #[test]
    fn the_log_page_that_is_written_again_is_a_rewrite() {
        let last = Some((8192, 16384));
        for (offset, expected) in [
            (16384, Place::Sequential),
            (8192, Place::Rewrite),
            (16383, Place::Rewrite),
            (16385, Place::Forward),
            (8191, Place::Backward),
        ] {
            assert_eq!(Place::of(offset, last), expected, "{offset}");
        }
        assert_eq!(Place::of(0, None), Place::First);
    }

    #[test]
    fn calls_are_numbered_by_their_order() {
        for (number, call) in CALLS.iter().enumerate() {
            assert_eq!(*call as usize, number);
            assert_eq!(Call::numbered(number as u8), Some(*call));
        }
        assert_eq!(Call::numbered(CALLS.len() as u8), None);
    }
}
