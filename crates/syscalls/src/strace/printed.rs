//! A call as it was printed: its name, its arguments, and what they say.

use super::line::Outcome;
use super::scan::{self, Arguments};
use crate::record::Call;
use crate::tally::files::PATH_MAX;

/// A call as it was printed, whole.
#[derive(Clone, Copy, Debug)]
pub struct Printed<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its arguments.
    pub arguments: Arguments<'a>,
    /// Are they `name: value` (perf trace), those that are 0 left out?
    pub named: bool,
    /// What it returned.
    pub outcome: Outcome<'a>,
    /// When it was entered, ns.
    pub start_ns: u64,
    /// Until it returned, ns.
    pub latency_ns: Option<u64>,
    /// Thread.
    pub tid: u32,
    /// Did another call on the same description end while it was under way?
    pub overlapped: bool,
}

impl<'a> Printed<'a> {
    /// The argument in this place, of this name.
    pub fn argument(&self, place: usize, name: &str) -> Option<&'a [u8]> {
        if self.named {
            self.arguments.named(name)
        } else {
            self.arguments.at(place)
        }
    }

    /// The number of the descriptor that comes first.
    pub fn first_descriptor(&self) -> Option<i32> {
        Some(scan::descriptor(self.argument(0, "fd")?)?.0)
    }

    /// It as a number; one that is not there is 0 where those are left out.
    pub fn number(&self, place: usize, name: &str) -> Option<i64> {
        match self.argument(place, name) {
            Some(text) => scan::number(text),
            None => self.named.then_some(0),
        }
    }

    /// It as a number without a sign.
    pub fn unsigned(&self, place: usize, name: &str) -> Option<u64> {
        self.number(place, name)
            .and_then(|value| u64::try_from(value).ok())
    }

    /// Does it have this flag, by name or by its bits?
    pub fn flag(&self, place: usize, name: &str, symbol: &str, bits: i64) -> bool {
        let Some(text) = self.argument(place, name) else {
            return false;
        };
        match scan::number(text) {
            Some(value) => bits != 0 && value & bits == bits,
            None => text
                .split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
                .any(|word| word == symbol.as_bytes() || prefixed(word, symbol)),
        }
    }

    /// It as a path.
    pub fn path(&self, place: usize, name: &str) -> Option<Vec<u8>> {
        scan::quoted(self.argument(place, name)?).filter(|path| path.len() < PATH_MAX)
    }
}

/// perf trace leaves `O_` and `RWF_` out.
pub fn prefixed(word: &[u8], symbol: &str) -> bool {
    let bare = symbol.split_once('_').map(|(_, bare)| bare);
    bare.is_some_and(|bare| bare.as_bytes() == word)
}

/// What to do with a call of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One that is recorded.
    Recorded(Call),
    /// One that makes another descriptor of a description.
    Duplicates,
    /// close_range.
    ClosesMany,
    /// clone, fork, vfork.
    Clones,
    /// chdir, fchdir.
    ChangesFolder,
    /// Moves positions in ways that are not followed.
    Moves,
    /// Copies within the kernel: what reads, and what writes.
    Copies(Call, Call),
    /// io_uring_enter, io_submit: hands requests over, which the text does not show as calls.
    Submits,
    /// Nothing.
    Passes,
}

impl Kind {
    /// Of a call's name.
    pub fn of(name: &[u8]) -> Kind {
        let call = match name {
            b"read" => Call::Read,
            b"write" => Call::Write,
            b"pread64" | b"pread" => Call::Pread,
            b"pwrite64" | b"pwrite" => Call::Pwrite,
            b"readv" => Call::Readv,
            b"writev" => Call::Writev,
            b"preadv" | b"preadv2" => Call::Preadv,
            b"pwritev" | b"pwritev2" => Call::Pwritev,
            b"open" | b"openat" | b"openat2" | b"creat" => Call::Open,
            b"close" => Call::Close,
            b"lseek" => Call::Lseek,
            b"fsync" => Call::Fsync,
            b"fdatasync" => Call::Fdatasync,
            b"sync_file_range" | b"sync_file_range2" => Call::SyncFileRange,
            b"sync" | b"syncfs" => Call::Sync,
            b"truncate" | b"ftruncate" | b"truncate64" | b"ftruncate64" => Call::Truncate,
            b"fallocate" => Call::Fallocate,
            b"unlink" | b"unlinkat" | b"rmdir" => Call::Unlink,
            b"rename" | b"renameat" | b"renameat2" => Call::Rename,
            b"mmap" | b"mmap2" => Call::Mmap,
            b"dup" | b"dup2" | b"dup3" | b"fcntl" | b"fcntl64" => return Kind::Duplicates,
            b"close_range" => return Kind::ClosesMany,
            b"clone" | b"clone3" | b"fork" | b"vfork" => return Kind::Clones,
            b"chdir" | b"fchdir" => return Kind::ChangesFolder,
            b"msync" => Call::Msync,
            b"sendfile" | b"sendfile64" => return Kind::Copies(Call::Sendfile, Call::SendfileTo),
            b"copy_file_range" => {
                return Kind::Copies(Call::CopyFileRange, Call::CopyFileRangeTo);
            }
            b"splice" => return Kind::Copies(Call::Splice, Call::SpliceTo),
            b"_llseek" => return Kind::Moves,
            b"io_uring_enter" | b"io_submit" => return Kind::Submits,
            _ => return Kind::Passes,
        };
        Kind::Recorded(call)
    }

    /// Does it use or change a description's position?
    pub fn positions(self) -> bool {
        use Call::{Lseek, Preadv, Pwritev, Read, Readv, Write, Writev};
        matches!(
            self,
            Kind::Moves
                | Kind::Copies(..)
                | Kind::Recorded(Read | Write | Readv | Writev | Preadv | Pwritev | Lseek)
        )
    }
}

/// Does it take a vector of parts?
pub fn call_is_vector(call: Call) -> bool {
    matches!(
        call,
        Call::Readv | Call::Writev | Call::Preadv | Call::Pwritev
    )
}

/// Does fcntl with this command make a descriptor?
pub fn duplicates(command: Option<&[u8]>) -> bool {
    let command = command.unwrap_or_default();
    let numbers = [i64::from(libc::F_DUPFD), i64::from(libc::F_DUPFD_CLOEXEC)];
    command.windows(5).any(|part| part == b"DUPFD")
        || scan::number(command).is_some_and(|number| numbers.contains(&number))
}

/// The sum of `iov_len` if all parts were printed.
pub fn size_of_parts(printed: &Printed<'_>) -> Option<u64> {
    let parts = printed.arguments.at(1).filter(|_| !printed.named)?;
    let asked = printed.unsigned(2, "vlen")?;
    const MARK: &[u8] = b", iov_len=";
    let (mut sum, mut found, mut at) = (0_u64, 0_u64, 0);
    // The bytes within quotes may look like anything: they are stepped over.
    while at < parts.len() {
        if parts[at] == b'"' {
            at = scan::after_quotes(parts, at);
        } else if parts[at..].starts_with(MARK) {
            let size = scan::number(&parts[at + MARK.len()..])?;
            sum = sum.checked_add(u64::try_from(size).ok()?)?;
            found += 1;
            at += MARK.len();
        } else {
            at += 1;
        }
    }
    (found == asked).then_some(sum)
}
