//! What can go wrong with a call, and the errno that a program expects for it.
//!
//! One enum for a call's whole life: it could not be queued, sent or answered, the RPC layer
//! refused it, or NFS (or MOUNT) did. [`CallError::errno`] maps each to what POSIX expects, NFS
//! statuses as Linux's `nfs_stat_to_errno` (fs/nfs_common/common.c) does.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;
use wire::mount::mountstat3;
use wire::nfs3::nfsstat3;
use wire::rpc::ReplyStatus;

/// The RFC's name, with the versions that are served where the one asked for is not.
fn refusal(status: &ReplyStatus) -> String {
    let name = status.name();
    match status {
        ReplyStatus::ProgramMismatch { low, high } => {
            format!("{name} (it serves versions {low} to {high} of that program)")
        }
        _ => name.to_owned(),
    }
}

/// Why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The file service refused.
    #[error("the server answered {}", status_name(.0))]
    Nfs(nfsstat3),
    /// The mount service refused.
    #[error("the mount service answered {0:?}")]
    Mount(mountstat3),
    /// The RPC layer refused.
    #[error("the server refused the call: {}", refusal(.0))]
    Rpc(ReplyStatus),
    /// The reply, or the call's own arguments, break the protocol.
    #[error("malformed message: {0}")]
    Malformed(wire::Error),
    /// A reply contradicts itself or the call, though each field is well formed.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// `soft`: no answer within the major timeout.
    #[error("the server did not answer in time (soft mount)")]
    TimedOut {
        /// EIO with `soft`, ETIMEDOUT with `softerr`.
        errno: Errno,
    },
    /// The message can never be sent (a datagram too large, for instance).
    #[error("the call cannot be sent: {0}")]
    Unsendable(Errno),
    /// The client was shut down first.
    #[error("the client was shut down")]
    Closed,
    /// Bounded queues are full.
    #[error("too many calls are waiting")]
    Full,
    /// A call that waits, made by a continuation in the reactor's own thread.
    #[error("a continuation must not wait for another call")]
    WouldDeadlock,
    /// The portmapper does not know the program.
    #[error("the server's portmapper does not know program {program} version {version}")]
    NotRegistered {
        /// RPC program.
        program: u32,
        /// Its version.
        version: u32,
    },
}

fn status_name(status: &nfsstat3) -> String {
    status.name().map_or_else(
        || format!("unknown status {}", status.code),
        |name| name.to_owned(),
    )
}

impl CallError {
    /// The errno that a program gets.
    pub fn errno(&self) -> Errno {
        match self {
            CallError::Nfs(status) => errno_of_status(*status),
            CallError::Mount(status) => errno_of_mount(*status),
            CallError::Rpc(status) => errno_of_rpc(*status),
            CallError::Malformed(_) | CallError::Protocol(_) => Errno::IO,
            CallError::TimedOut { errno } | CallError::Unsendable(errno) => *errno,
            CallError::Closed => Errno::SHUTDOWN,
            CallError::Full => Errno::AGAIN,
            CallError::WouldDeadlock => Errno::DEADLK,
            CallError::NotRegistered { .. } => Errno::PROTONOSUPPORT,
        }
    }
}

impl From<CallError> for io::Error {
    fn from(error: CallError) -> Self {
        io::Error::from_raw_os_error(error.errno().raw_os_error())
    }
}

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server could not be reached.
    #[error("no connection to {address}: {source}")]
    Unreachable {
        /// Where to.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// This machine would not give what a client needs (a socket, a reserved port, a thread).
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// `proto=tcp6` or `udp6` with an IPv4 address.
    #[error("{address} is no IPv6 address, which the option proto asks for")]
    Family {
        /// The server's address.
        address: SocketAddr,
    },
    /// MOUNT, portmapper or the first calls of NFS failed.
    #[error("{what}: {source}")]
    Call {
        /// What was asked for.
        what: String,
        /// What came back.
        source: CallError,
    },
}

impl ConnectError {
    /// The errno that a program gets.
    pub fn errno(&self) -> Errno {
        match self {
            ConnectError::Unreachable { source, .. } | ConnectError::System { source, .. } => {
                Errno::from_io_error(source).unwrap_or(Errno::IO)
            }
            ConnectError::Family { .. } => Errno::AFNOSUPPORT,
            ConnectError::Call { source, .. } => source.errno(),
        }
    }
}

/// Linux's `nfs_errtbl`: RFC 1813 section 2.6 in terms of this system; unknown statuses are EIO.
///
/// `NFS3ERR_JUKEBOX` is retried before anyone asks for its errno; where it cannot be, it is
/// EAGAIN. `NFS3ERR_NOT_SYNC` (a SETATTR guard) is EAGAIN too: ask again with the new ctime.
pub fn errno_of_status(status: nfsstat3) -> Errno {
    match status {
        nfsstat3::NFS3ERR_PERM => Errno::PERM,
        nfsstat3::NFS3ERR_NOENT => Errno::NOENT,
        nfsstat3::NFS3ERR_IO => Errno::IO,
        nfsstat3::NFS3ERR_NXIO => Errno::NXIO,
        nfsstat3::NFS3ERR_ACCES => Errno::ACCESS,
        nfsstat3::NFS3ERR_EXIST => Errno::EXIST,
        nfsstat3::NFS3ERR_XDEV => Errno::XDEV,
        nfsstat3::NFS3ERR_NODEV => Errno::NODEV,
        nfsstat3::NFS3ERR_NOTDIR => Errno::NOTDIR,
        nfsstat3::NFS3ERR_ISDIR => Errno::ISDIR,
        nfsstat3::NFS3ERR_INVAL => Errno::INVAL,
        nfsstat3::NFS3ERR_FBIG => Errno::FBIG,
        nfsstat3::NFS3ERR_NOSPC => Errno::NOSPC,
        nfsstat3::NFS3ERR_ROFS => Errno::ROFS,
        nfsstat3::NFS3ERR_MLINK => Errno::MLINK,
        nfsstat3::NFS3ERR_NAMETOOLONG => Errno::NAMETOOLONG,
        nfsstat3::NFS3ERR_NOTEMPTY => Errno::NOTEMPTY,
        nfsstat3::NFS3ERR_DQUOT => Errno::DQUOT,
        nfsstat3::NFS3ERR_STALE | nfsstat3::NFS3ERR_BADHANDLE => Errno::STALE,
        nfsstat3::NFS3ERR_REMOTE => Errno::REMOTE,
        nfsstat3::NFS3ERR_NOT_SYNC | nfsstat3::NFS3ERR_JUKEBOX => Errno::AGAIN,
        nfsstat3::NFS3ERR_NOTSUPP => Errno::OPNOTSUPP,
        nfsstat3::NFS3ERR_TOOSMALL | nfsstat3::NFS3ERR_BADTYPE => Errno::INVAL,
        // NFS3ERR_SERVERFAULT and NFS3ERR_BAD_COOKIE are the server's trouble, not the caller's.
        _ => Errno::IO,
    }
}

/// `mount_errors` of Linux's fs/nfs/mount_clnt.c.
fn errno_of_mount(status: mountstat3) -> Errno {
    match status {
        mountstat3::MNT3_OK | mountstat3::MNT3ERR_IO => Errno::IO,
        mountstat3::MNT3ERR_PERM => Errno::PERM,
        mountstat3::MNT3ERR_NOENT => Errno::NOENT,
        mountstat3::MNT3ERR_ACCES => Errno::ACCESS,
        mountstat3::MNT3ERR_NOTDIR => Errno::NOTDIR,
        mountstat3::MNT3ERR_INVAL => Errno::INVAL,
        mountstat3::MNT3ERR_NAMETOOLONG => Errno::NAMETOOLONG,
        mountstat3::MNT3ERR_NOTSUPP => Errno::OPNOTSUPP,
        mountstat3::MNT3ERR_SERVERFAULT => Errno::REMOTEIO,
    }
}

/// As Linux's `rpc_decode_header` (net/sunrpc/clnt.c).
fn errno_of_rpc(status: ReplyStatus) -> Errno {
    match status {
        ReplyStatus::ProgramUnavailable => Errno::PFNOSUPPORT,
        ReplyStatus::ProgramMismatch { .. } | ReplyStatus::RpcMismatch { .. } => {
            Errno::PROTONOSUPPORT
        }
        ReplyStatus::ProcedureUnavailable => Errno::OPNOTSUPP,
        ReplyStatus::AuthError(_) => Errno::ACCESS,
        ReplyStatus::Success | ReplyStatus::GarbageArguments | ReplyStatus::SystemError => {
            Errno::IO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_rfc_1813_that_are_unix_error_numbers_stay_them() {
        // RFC 1813 took these numbers from BSD; up to 34 Linux has the same.
        for code in [1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31] {
            let errno = errno_of_status(nfsstat3 { code });
            assert_eq!(u32::try_from(errno.raw_os_error()), Ok(code));
        }
        // Above, errno(3) of Linux: ENAMETOOLONG 36, ENOTEMPTY 39, EDQUOT 122, ESTALE 116,
        // EREMOTE 66, EOPNOTSUPP 95.
        let above = [
            (63, 36),
            (66, 39),
            (69, 122),
            (70, 116),
            (71, 66),
            (10001, 116),
        ];
        for (code, errno) in above {
            assert_eq!(errno_of_status(nfsstat3 { code }).raw_os_error(), errno);
        }
        assert_eq!(errno_of_status(nfsstat3 { code: 10004 }).raw_os_error(), 95);
        assert_eq!(errno_of_status(nfsstat3 { code: 4711 }), Errno::IO);
    }

    #[test]
    fn messages_name_the_status() {
        let error = CallError::Nfs(nfsstat3::NFS3ERR_STALE);
        assert_eq!(error.to_string(), "the server answered NFS3ERR_STALE");
        let error = CallError::Nfs(nfsstat3 { code: 99 });
        assert_eq!(error.to_string(), "the server answered unknown status 99");
    }
}
