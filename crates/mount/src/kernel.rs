//! The kernel's side of a mount: /dev/fuse, mount(2) or fusermount3, umount, settings under /sys.
//!
//! Decisions: mounting is done here and not by fuser, whose unmounting takes a file system that is
//! gone for one that is there and would unmount whatever lies below it. Root mounts by mount(2);
//! others by fusermount3, which hands the descriptor over a socket (its protocol since FUSE 2).

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::error::MountError;
use crate::general::GeneralOptions;

/// What `/proc/mounts` shows as the type.
pub const FILE_SYSTEM_TYPE: &str = "fuse.nfslab";
const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
/// Where the helper finds the socket that it sends the descriptor over.
const HELPER_SOCKET: &str = "_FUSE_COMMFD";

/// A folder that FUSE is mounted on.
pub(crate) struct Attached {
    pub directory: PathBuf,
    /// The minor number of the mount's device: its name under /sys/fs/fuse/connections.
    pub connection: Option<u32>,
}

/// How hard an unmount tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Fails with EBUSY while somebody uses it.
    Normal,
    /// Takes it out of sight at once; it ends when nobody uses it any more.
    Lazy,
    /// Ends it: whoever uses it, or waits in it, gets an error.
    Force,
}

/// Looks at the folder before anything is asked of a server.
pub(crate) fn check_directory(directory: &Path) -> Result<PathBuf, MountError> {
    let refused = |why: String| MountError::Directory {
        directory: directory.to_owned(),
        why,
    };
    let why = |error: io::Error| match error.raw_os_error() {
        Some(libc::ENOENT) => refused("there is no such folder".to_owned()),
        Some(libc::ENOTCONN) => refused("a mount whose process is gone lies on it".to_owned()),
        _ => refused(error.to_string()),
    };
    let found = directory.canonicalize().map_err(why)?;
    let facts = found.metadata().map_err(why)?;
    if !facts.is_dir() {
        return Err(refused("is not a folder".to_owned()));
    }
    let user = rustix::process::geteuid();
    if !user.is_root() && facts.uid() != user.as_raw() {
        return Err(refused("belongs to another user".to_owned()));
    }
    Ok(found)
}

/// Mounts; `source` is what `/proc/mounts` shows first.
pub(crate) fn attach(
    directory: PathBuf,
    source: &str,
    general: GeneralOptions,
) -> Result<(OwnedFd, Attached), MountError> {
    let device = if rustix::process::geteuid().is_root() {
        attach_as_root(&directory, source, general)?
    } else {
        attach_by_helper(&directory, source, general)?
    };
    let connection = connection_of(&directory);
    let attached = Attached {
        directory,
        connection,
    };
    Ok((device, attached))
}

fn attach_as_root(
    directory: &Path,
    source: &str,
    general: GeneralOptions,
) -> Result<OwnedFd, MountError> {
    let opened = OpenOptions::new().read(true).write(true).open(DEVICE);
    let device = opened.map_err(|error| MountError::Fuse {
        why: format!("{DEVICE}: {error}"),
    })?;
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let data = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions,allow_other",
        device.as_raw_fd(),
    );
    let data = std::ffi::CString::new(data).map_err(|error| MountError::system("mount", error))?;
    rustix::mount::mount(
        source,
        directory,
        FILE_SYSTEM_TYPE,
        general.flags(),
        data.as_c_str(),
    )
    .map_err(|error| match error {
        Errno::PERM | Errno::NODEV => MountError::Fuse {
            why: format!("mount(2): {error}"),
        },
        error => MountError::system(format!("mounting on {}", directory.display()), error),
    })?;
    Ok(device.into())
}

fn attach_by_helper(
    directory: &Path,
    source: &str,
    general: GeneralOptions,
) -> Result<OwnedFd, MountError> {
    if File::open(DEVICE).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        let why = format!("{DEVICE} is not there");
        return Err(MountError::Fuse { why });
    }
    let socket = |error: Errno| MountError::system("a socket for fusermount3", error);
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .map_err(socket)?;
    // A comma in a name would end the option.
    let name = source.replace('\\', "\\\\").replace(',', "\\,");
    let options = format!(
        "{},default_permissions,fsname={name},subtype=nfslab",
        general.to_text()
    );
    let mut command = Command::new(HELPER);
    command
        .arg("-o")
        .arg(options)
        .arg("--")
        .arg(directory)
        .env(HELPER_SOCKET, theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let inherited = theirs.as_raw_fd();
    // SAFETY: between fork and exec only fcntl(2) is called, on a descriptor that lives until the
    // command has been started.
    unsafe {
        command.pre_exec(move || {
            if libc::fcntl(inherited, libc::F_SETFD, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = command.spawn().map_err(|error| MountError::Fuse {
        why: format!("{HELPER} (which mounts for users other than root): {error}"),
    })?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let output = child
        .wait_with_output()
        .map_err(|error| MountError::system(HELPER, error))?;
    match received {
        Ok(Some(device)) => Ok(device),
        Ok(None) => Err(MountError::Fuse {
            why: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
        Err(error) => Err(MountError::system(HELPER, error)),
    }
}

/// The descriptor that the helper sends; `None` if it ended without one.
fn receive_descriptor(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    loop {
        let mut into = [IoSliceMut::new(&mut byte)];
        match rustix::net::recvmsg(socket, &mut into, &mut ancillary, flags) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    Ok(descriptors.next())
}

/// Unmounts.
pub(crate) fn detach(attached: &Attached, how: Unmount) -> io::Result<()> {
    if connection_of(&attached.directory) != attached.connection {
        return Ok(()); // it is gone; what lies there now is not ours
    }
    unmount(&attached.directory, how)
}

/// Unmounts what lies on a folder, as root by umount(2), else by fusermount3.
///
/// # Errors
/// EBUSY while it is used, with [`Unmount::Normal`]; whatever the system says.
pub fn unmount(directory: &Path, how: Unmount) -> io::Result<()> {
    let flags = match how {
        Unmount::Normal => UnmountFlags::empty(),
        Unmount::Lazy => UnmountFlags::DETACH,
        Unmount::Force => UnmountFlags::DETACH | UnmountFlags::FORCE,
    };
    if how == Unmount::Force {
        abort(connection_of(directory));
    }
    match rustix::mount::unmount(directory, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if how != Unmount::Normal {
        command.arg("-z");
    }
    let output = command.arg("--").arg(directory).output()?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if why.contains("busy") {
        return Err(Errno::BUSY.into());
    }
    Err(io::Error::other(why))
}

/// Ends a connection where the kernel shows them: all that waits in it gets an error.
fn abort(connection: Option<u32>) {
    if let Some(number) = connection {
        // Where it is not shown, umount2's MNT_FORCE does the same for root.
        let _ = std::fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
    }
}

/// Device number of our mount on a folder, from what the kernel lists (the folder itself is not
/// asked: a mount whose server is dead would not answer).
pub(crate) fn connection_of(directory: &Path) -> Option<u32> {
    let list = std::fs::read("/proc/self/mountinfo").ok()?;
    let wanted = escaped(directory.as_os_str().as_bytes());
    let mut found = None;
    for line in list.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ');
        // proc_pid_mountinfo(5): id, parent, major:minor, root, mount point, ..., "-", type, source
        let device = fields.nth(2);
        let place = fields.nth(1);
        if place != Some(wanted.as_slice()) {
            continue;
        }
        let kind = fields.skip_while(|field| *field != b"-").nth(1);
        found = match (device, kind) {
            (Some(device), Some(kind)) if kind == FILE_SYSTEM_TYPE.as_bytes() => minor(device),
            _ => None, // something else lies on top
        };
    }
    found
}

fn minor(device: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(device).ok()?;
    text.split_once(':')?.1.parse().ok()
}

/// A path as mountinfo writes it: blank, tab, newline and backslash in octal.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => text.extend(format!("\\{byte:03o}").bytes()),
            byte => text.push(*byte),
        }
    }
    text
}

/// Sets how far the kernel reads ahead, which it caps at 128 KiB when FUSE mounts; returns what is
/// in effect.
pub(crate) fn set_read_ahead(connection: Option<u32>, kib: u32) -> Option<u32> {
    let path = format!("/sys/class/bdi/0:{}/read_ahead_kb", connection?);
    let _ = std::fs::write(&path, kib.to_string()); // only root may
    std::fs::read_to_string(&path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_the_kernel_lists_them() {
        assert_eq!(escaped(b"/a b\\c\td"), b"/a\\040b\\134c\\011d");
        assert_eq!(minor(b"0:57"), Some(57));
        assert_eq!(connection_of(Path::new("/")), None, "not ours");
    }

    #[test]
    fn only_folders_are_mounted_on() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_directory(folder.path()).is_ok());
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let said = |path: &Path| check_directory(path).unwrap_err().to_string();
        assert!(said(&file).ends_with("is not a folder"));
        assert!(said(&folder.path().join("none")).ends_with("there is no such folder"));
    }
}
