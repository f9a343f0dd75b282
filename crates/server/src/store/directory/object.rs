//! Objects held open, and how a path is opened without leaving the folder it begins in.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, openat2, statx,
};
use rustix::io::Errno;
use wire::nfs3::{fattr3, ftype3, nfstime3, specdata3};

/// No way out: neither upwards, nor through links, nor into another mount. The kernel looks once
/// more at the end of the walk, under its rename lock, that what it found lies beneath
/// (`complete_walk` in fs/namei.c).
pub const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
/// How objects are opened to look at them: nothing is followed, read or waited for.
pub const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Deepest object.
pub const MAX_DEPTH: usize = 512;
/// Longest path of one system call, with the byte that ends it (Linux `PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;

/// An object of the export, held open.
#[derive(Debug)]
pub struct Object {
    pub fd: Arc<OwnedFd>,
    pub stat: Stat,
}

/// A name in a directory that is held open.
pub type Inside<'a> = (&'a Object, &'a [u8]);

impl Object {
    /// What a descriptor is open on.
    pub fn of(fd: OwnedFd) -> Result<Self, Errno> {
        let (stat, fd) = (fstat(&fd)?, Arc::new(fd));
        Ok(Object { fd, stat })
    }
    pub fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }
    pub fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }
    /// Attributes now.
    pub fn now(&self) -> Option<fattr3> {
        fstat(&self.fd).ok().map(|stat| attributes(&stat))
    }
}

fn time(seconds: i64, nanoseconds: u64) -> nfstime3 {
    nfstime3 {
        // 32 bits on the wire: before 1970 and after 2106 become the ends.
        seconds: u32::try_from(seconds.max(0)).unwrap_or(u32::MAX),
        nseconds: u32::try_from(nanoseconds).unwrap_or(0),
    }
}

/// Attributes on the wire.
pub fn attributes(stat: &Stat) -> fattr3 {
    let type_ = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => ftype3::NF3DIR,
        FileType::Symlink => ftype3::NF3LNK,
        FileType::BlockDevice => ftype3::NF3BLK,
        FileType::CharacterDevice => ftype3::NF3CHR,
        FileType::Socket => ftype3::NF3SOCK,
        FileType::Fifo => ftype3::NF3FIFO,
        _ => ftype3::NF3REG,
    };
    fattr3 {
        type_,
        mode: stat.st_mode & 0o7777,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        used: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        rdev: specdata3 {
            specdata1: rustix::fs::major(stat.st_rdev),
            specdata2: rustix::fs::minor(stat.st_rdev),
        },
        fsid: stat.st_dev,
        fileid: stat.st_ino,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// The birth time, which tells objects apart that had the same inode number; 0 if unknown.
pub fn birth_ns(fd: impl AsFd) -> u64 {
    let Ok(times) = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME) else {
        return 0;
    };
    let birth = times.stx_btime;
    (birth.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(birth.tv_nsec)
}

/// Opens what a path names below the folder `top`; every part of it is looked up by the calling
/// thread's rights. A path too long for one call is gone in steps, each beneath the one before.
pub fn open_below(top: &OwnedFd, path: &[u8]) -> Result<Object, Errno> {
    let mut stage: Option<OwnedFd> = None;
    let mut rest = path;
    while rest.len() >= PATH_BYTES_MAX {
        let slash = |byte: &u8| *byte == b'/';
        let front = rest.get(..PATH_BYTES_MAX).unwrap_or_default();
        let cut = front.iter().rposition(slash).ok_or(Errno::NAMETOOLONG)?;
        let (step, behind) = rest.split_at(cut);
        let flags = LOOK | OFlags::DIRECTORY;
        let from = stage.as_ref().unwrap_or(top);
        stage = Some(openat2(from, step, flags, Mode::empty(), BENEATH)?);
        rest = behind.get(1..).unwrap_or_default();
    }
    let from = stage.as_ref().unwrap_or(top);
    Object::of(openat2(from, rest, LOOK, Mode::empty(), BENEATH)?)
}
