//! System calls that rustix does not have, and errors as NFS status.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use wire::nfs3::nfsstat3;

use crate::handle::MAX_EXTRA_BYTES;

/// Bytes of the handle's type word in front of the kernel's bytes.
const TYPE_BYTES: usize = 4;
/// Room for the kernel's bytes (`MAX_HANDLE_SZ` is 128; larger ones do not fit NFSv3 handles).
const KERNEL_BYTES: usize = MAX_EXTRA_BYTES - TYPE_BYTES;

/// `struct file_handle` (open_by_handle_at(2)).
#[repr(C)]
struct FileHandle {
    handle_bytes: u32,
    handle_type: i32,
    bytes: [u8; KERNEL_BYTES],
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The kernel's handle of an open object: room with type word and bytes in front, and how many.
pub fn kernel_handle(fd: impl AsFd) -> Result<([u8; MAX_EXTRA_BYTES], usize), Errno> {
    let mut handle = FileHandle {
        handle_bytes: KERNEL_BYTES as u32,
        handle_type: 0,
        bytes: [0; KERNEL_BYTES],
    };
    let mut mount = 0i32;
    // SAFETY: the path is a NUL-terminated empty string, `handle` states its own room, both
    // pointers are to locals that outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_fd().as_raw_fd(),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if result != 0 {
        return Err(last_errno());
    }
    let mut bytes = [0; MAX_EXTRA_BYTES];
    let (kind, rest) = bytes.split_at_mut(TYPE_BYTES);
    kind.copy_from_slice(&handle.handle_type.to_be_bytes());
    rest.copy_from_slice(&handle.bytes);
    let length = handle.handle_bytes as usize;
    if length > KERNEL_BYTES {
        return Err(Errno::OVERFLOW);
    }
    Ok((bytes, TYPE_BYTES + length))
}

/// Opens what a kernel handle names (needs CAP_DAC_READ_SEARCH), without following or reading it.
pub fn open_kernel_handle(mount: impl AsFd, sealed: &[u8]) -> Result<OwnedFd, Errno> {
    let (kind, bytes) = sealed
        .split_first_chunk::<TYPE_BYTES>()
        .ok_or(Errno::STALE)?;
    let mut handle = FileHandle {
        handle_bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        handle_type: i32::from_be_bytes(*kind),
        bytes: [0; KERNEL_BYTES],
    };
    let room = handle.bytes.get_mut(..bytes.len()).ok_or(Errno::STALE)?;
    room.copy_from_slice(bytes);
    // SAFETY: `handle` is a whole struct file_handle that outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_fd().as_raw_fd(),
            &raw mut handle,
            libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(last_errno());
    }
    let fd = i32::try_from(fd).map_err(|_| Errno::BADF)?;
    // SAFETY: the call has just made this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// True if the thread's own ids (its fsuid among them) have access `mode` to an open object.
pub fn may_access(fd: impl AsFd, mode: i32) -> bool {
    // SAFETY: an empty NUL-terminated path and plain integers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            fd.as_fd().as_raw_fd(),
            c"".as_ptr(),
            mode,
            libc::AT_EMPTY_PATH | libc::AT_EACCESS,
        )
    };
    result == 0
}

/// The path under /proc that stands for an open object itself.
pub fn proc_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// The NFS status of an error (RFC 1813 section 2.6).
pub fn status_of(error: Errno) -> nfsstat3 {
    match error {
        Errno::PERM => nfsstat3::NFS3ERR_PERM,
        Errno::NOENT => nfsstat3::NFS3ERR_NOENT,
        Errno::NXIO => nfsstat3::NFS3ERR_NXIO,
        // A mount point inside the export or a link on the way: out of bounds.
        Errno::ACCESS | Errno::LOOP | Errno::TXTBSY => nfsstat3::NFS3ERR_ACCES,
        Errno::EXIST => nfsstat3::NFS3ERR_EXIST,
        Errno::XDEV => nfsstat3::NFS3ERR_XDEV,
        Errno::NODEV => nfsstat3::NFS3ERR_NODEV,
        Errno::NOTDIR => nfsstat3::NFS3ERR_NOTDIR,
        Errno::ISDIR => nfsstat3::NFS3ERR_ISDIR,
        Errno::INVAL => nfsstat3::NFS3ERR_INVAL,
        Errno::FBIG => nfsstat3::NFS3ERR_FBIG,
        Errno::NOSPC => nfsstat3::NFS3ERR_NOSPC,
        Errno::ROFS => nfsstat3::NFS3ERR_ROFS,
        Errno::MLINK => nfsstat3::NFS3ERR_MLINK,
        Errno::NAMETOOLONG => nfsstat3::NFS3ERR_NAMETOOLONG,
        Errno::NOTEMPTY => nfsstat3::NFS3ERR_NOTEMPTY,
        Errno::DQUOT => nfsstat3::NFS3ERR_DQUOT,
        Errno::STALE => nfsstat3::NFS3ERR_STALE,
        Errno::OPNOTSUPP | Errno::NOSYS => nfsstat3::NFS3ERR_NOTSUPP,
        // Out of descriptors or memory: the client may try later.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => nfsstat3::NFS3ERR_JUKEBOX,
        _ => nfsstat3::NFS3ERR_IO,
    }
}
