//! The file in which the key of an export's handles outlives the server.
//!
//! Whoever has the key can seal handles, so it is nobody else's to read: a file of mode 0600 in a
//! folder of mode 0700, both the server's own user's. One that others may read, that somebody else
//! owns or that is not [`KEY_BYTES`] long is not believed: another key takes its place, and the
//! handles that clients hold are stale. A lock beside it lets one server at a time look, so that
//! two that start at once have one key; a new file is stable before it gets its name.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, fsync, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;

use crate::handle::{HandleKey, KEY_BYTES};

/// Between two tries for the lock, and how many: ten seconds.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
const LOCK_TRIES: u32 = 1000;
const LOCK_NAME: &str = "lock";
const OTHERS: u32 = 0o077;

/// Where a key came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOrigin {
    /// The file had it.
    Kept,
    /// There was no file.
    Made,
    /// What was there could not be believed, for this reason.
    MadeAnew(String),
}

/// The key could not be read or made.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct KeyFileError {
    /// The file or folder.
    pub path: PathBuf,
    /// Why not.
    pub why: String,
}

/// The key that `path` keeps, made if it is not there. The folder above it is made too, and is
/// for such keys alone: the server's user is the only one let into it.
pub fn kept_in(path: &Path) -> Result<(HandleKey, KeyOrigin), KeyFileError> {
    let failed = |at: &Path, why: String| KeyFileError {
        path: at.to_owned(),
        why,
    };
    let system = |error: Errno| failed(path, io::Error::from(error).to_string());
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(path, "this is no file's path".to_owned()));
    };
    let folder = own_folder(above).map_err(|why| failed(above, why))?;
    let lock = lock(&folder).map_err(|why| failed(&above.join(LOCK_NAME), why))?;
    let origin = match openat(&folder, name, READ, Mode::empty()) {
        Ok(fd) => match believed(fd) {
            Ok(key) => return Ok((HandleKey::new(&key), KeyOrigin::Kept)),
            Err(why) => KeyOrigin::MadeAnew(why),
        },
        Err(Errno::NOENT) => KeyOrigin::Made,
        Err(Errno::LOOP) => KeyOrigin::MadeAnew("it is a symbolic link".to_owned()),
        Err(Errno::ACCESS) => KeyOrigin::MadeAnew("it cannot be read".to_owned()),
        Err(error) => return Err(system(error)),
    };
    let key = HandleKey::random_bytes().map_err(|error| failed(path, error.to_string()))?;
    write(&folder, name, &key).map_err(|error| failed(path, error.to_string()))?;
    drop(lock);
    Ok((HandleKey::new(&key), origin))
}

/// Without waiting for the other end of a pipe, and not through a link.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

fn own_folder(path: &Path) -> Result<OwnedFd, String> {
    let told = |error: io::Error| error.to_string();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(told)?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || -> Result<_, Errno> {
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        let seen = fstat(&folder)?;
        Ok((folder, seen))
    };
    let (folder, seen) = open().map_err(|error| told(error.into()))?;
    let me = rustix::process::geteuid().as_raw();
    if seen.st_uid != me {
        return Err(format!("it belongs to user {}, not to {me}", seen.st_uid));
    }
    if seen.st_mode & OTHERS != 0 {
        fchmod(&folder, Mode::RWXU).map_err(|error| told(error.into()))?;
    }
    Ok(folder)
}

fn lock(folder: &OwnedFd) -> Result<OwnedFd, String> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = openat(folder, LOCK_NAME, flags, Mode::RUSR | Mode::WUSR);
    let lock = lock.map_err(|error| io::Error::from(error).to_string())?;
    for _ in 0..LOCK_TRIES {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(io::Error::from(error).to_string()),
        }
    }
    Err("another server has held the lock for ten seconds: end it, or start again".to_owned())
}

/// The key in a file, or why it is none.
fn believed(fd: OwnedFd) -> Result<[u8; KEY_BYTES], String> {
    let told = |error: io::Error| error.to_string();
    let seen = fstat(&fd).map_err(|error| told(error.into()))?;
    if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
        return Err("it is no file".to_owned());
    }
    let me = rustix::process::geteuid().as_raw();
    if seen.st_uid != me {
        return Err(format!("it belonged to user {}, not to {me}", seen.st_uid));
    }
    if seen.st_mode & OTHERS != 0 {
        return Err(format!(
            "others could read or change it (mode {:04o})",
            seen.st_mode & 0o7777
        ));
    }
    let mut bytes = Vec::new();
    let most = KEY_BYTES as u64 + 1;
    let read = File::from(fd).take(most).read_to_end(&mut bytes);
    read.map_err(told)?;
    <[u8; KEY_BYTES]>::try_from(bytes).map_err(|_| format!("it was not {KEY_BYTES} bytes long"))
}

fn write(folder: &OwnedFd, name: &OsStr, key: &[u8]) -> io::Result<()> {
    // Under the lock there is one at a time: what a killed server left goes.
    let mut temporary = name.as_bytes().to_vec();
    temporary.extend_from_slice(b".new");
    let temporary = OsStr::from_bytes(&temporary);
    match unlinkat(folder, temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let made = openat(folder, temporary, flags | OFlags::NOFOLLOW, mode)?;
    // Whatever the process's umask is.
    fchmod(&made, mode)?;
    let mut file = File::from(made);
    file.write_all(key)?;
    file.sync_all()?;
    renameat(folder, temporary, folder, name)?;
    fsync(folder.as_fd())?;
    Ok(())
}
