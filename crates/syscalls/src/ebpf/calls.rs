//! Which system calls have a descriptor as their first argument (x86-64).

/// Numbers of calls that the programs can tell.
const CALLS: usize = 512;

/// 1: the first argument is the descriptor that it is about.
pub const WITH_DESCRIPTOR: [u8; CALLS] = table();

/// read, write, close, fstat, lseek, pread64, pwrite64, readv, writev, sendto, recvfrom, sendmsg,
/// recvmsg, fcntl, flock, fsync, fdatasync, ftruncate, getdents64, fadvise64, sync_file_range,
/// fallocate, preadv, pwritev, syncfs, preadv2, pwritev2.
const NUMBERS: [usize; 27] = [
    0, 1, 3, 5, 8, 17, 18, 19, 20, 44, 45, 46, 47, 72, 73, 74, 75, 77, 217, 221, 277, 285, 295,
    296, 306, 327, 328,
];

const fn table() -> [u8; CALLS] {
    let mut made = [0; CALLS];
    let mut at = 0;
    while at < NUMBERS.len() {
        made[NUMBERS[at]] = 1;
        at += 1;
    }
    made
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_c_library() {
        let known = [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_close,
            libc::SYS_fstat,
            libc::SYS_lseek,
            libc::SYS_pread64,
            libc::SYS_pwrite64,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_sendto,
            libc::SYS_recvfrom,
            libc::SYS_sendmsg,
            libc::SYS_recvmsg,
            libc::SYS_fcntl,
            libc::SYS_flock,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_ftruncate,
            libc::SYS_getdents64,
            libc::SYS_fadvise64,
            libc::SYS_sync_file_range,
            libc::SYS_fallocate,
            libc::SYS_preadv,
            libc::SYS_pwritev,
            libc::SYS_syncfs,
            libc::SYS_preadv2,
            libc::SYS_pwritev2,
        ];
        assert_eq!(known.map(|number| number as usize), NUMBERS);
    }
}
