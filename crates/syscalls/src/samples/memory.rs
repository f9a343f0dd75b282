//! Memory of other processes: process_vm_readv(2), and which of it they share (proc(5)).

use std::fs;
use std::io;

/// Words of one process, all of them by one call.
pub struct Words {
    pid: u32,
    remote: Vec<libc::iovec>,
    words: Vec<u32>,
}

/// No process has more: IOV_MAX of Linux (UIO_MAXIOV).
pub const WORDS_MAX: usize = 1024;

impl Words {
    /// Of this process.
    pub fn of(pid: u32) -> Self {
        Words {
            pid,
            remote: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Which words: `WORDS_MAX` at most.
    pub fn set(&mut self, addresses: impl Iterator<Item = u64>) {
        self.remote.clear();
        let addresses = addresses.take(WORDS_MAX);
        self.remote.extend(addresses.map(|address| libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: size_of::<u32>(),
        }));
        self.words.clear();
        self.words.resize(self.remote.len(), 0);
    }

    /// As they are now, each whole: a word that is aligned is copied as one.
    pub fn read(&mut self) -> io::Result<&[u32]> {
        if !self.words.is_empty() {
            let size = self.words.len() * size_of::<u32>();
            let base = self.words.as_mut_ptr().cast();
            read(self.pid, base, size, &self.remote)?;
        }
        Ok(&self.words)
    }
}

/// A pointer of a process.
pub fn read_pointer(pid: u32, address: u64) -> io::Result<u64> {
    let mut pointer = 0_u64;
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: size_of::<u64>(),
    };
    let base = (&raw mut pointer).cast();
    read(pid, base, size_of::<u64>(), &[remote])?;
    Ok(pointer)
}

/// Fills `size` bytes at `base`, which is that of memory of this process that nobody else uses.
fn read(pid: u32, base: *mut libc::c_void, size: usize, remote: &[libc::iovec]) -> io::Result<()> {
    let local = libc::iovec {
        iov_base: base,
        iov_len: size,
    };
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: the local vector is memory that the callers own, of this size; remote addresses are
    // checked by the kernel, which reads there and writes nothing.
    let read = unsafe {
        libc::process_vm_readv(
            pid,
            &raw const local,
            1,
            remote.as_ptr(),
            remote.len() as _,
            0,
        )
    };
    match usize::try_from(read) {
        Ok(read) if read == size => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// A part of memory that processes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    begin: u64,
    end: u64,
    /// Offset, device and inode: what is mapped.
    of: String,
}

impl Mapping {
    /// Is a word at this address in it?
    pub fn holds(&self, address: u64) -> bool {
        let inside = self.begin <= address && address < self.end;
        inside && address.is_multiple_of(size_of::<u32>() as u64)
    }
}

/// All that a process shares.
pub fn shared_mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    Ok(shared(&fs::read_to_string(format!("/proc/{pid}/maps"))?))
}

fn shared(maps: &str) -> Vec<Mapping> {
    maps.lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (begin, end) = fields.next()?.split_once('-')?;
            fields.next().filter(|mode| mode.ends_with('s'))?;
            Some(Mapping {
                begin: u64::from_str_radix(begin, 16).ok()?,
                end: u64::from_str_radix(end, 16).ok()?,
                of: fields.take(3).collect::<Vec<_>>().join(" "),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_is_what_has_an_s() {
        let maps = "\
55e000000000-55e000001000 r--p 00000000 fe:00 12   /opt/pg/bin/postgres
7f0000000000-7f0000400000 rw-s 00000000 00:01 1034 /dev/zero (deleted)
7f0000500000-7f0000501000 rw-s 00000000 00:01 3    /SYSV0052e2c1 (deleted)
";
        let found = shared(maps);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].of, "00000000 00:01 1034");
        assert!(found[0].holds(0x7f00_003f_fffc));
        assert!(!found[0].holds(0x7f00_0040_0000));
        assert!(!found[0].holds(0x7f00_0000_0002), "not aligned");
    }

    #[test]
    fn words_of_this_process_are_as_they_are() {
        let own = [7_u32, 8, 9];
        let mut words = Words::of(std::process::id());
        words.set([2, 0, 1].map(|k| (&raw const own[k]) as u64).into_iter());
        assert_eq!(words.read().unwrap(), [9, 7, 8]);
        let pointer: *const u32 = own.as_ptr();
        let at = (&raw const pointer) as u64;
        assert_eq!(
            read_pointer(std::process::id(), at).unwrap(),
            pointer as u64
        );
        words.set([0, 8].into_iter());
        assert!(words.read().is_err(), "nothing is mapped there");
    }
}
