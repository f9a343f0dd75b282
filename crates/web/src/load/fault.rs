//! What a request can end with instead of its reply.

use rustix::io::Errno;

use crate::reply::ReplyError;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nobody listens there.
    Refused,
    /// Another error of connect(2): no route, no free port.
    ConnectFailed,
    /// The connection was reset.
    Reset,
    /// The connection ended before the reply did.
    ClosedEarly,
    /// The reply was not whole in time.
    Timeout,
    /// Another status than 200.
    Status(u16),
    /// The body is longer or shorter than the file or page, as told or as sent.
    WrongLength,
    /// A byte of the body is not what it has to be.
    WrongBytes,
    /// The head, a chunk's line or the trailers are longer than a bound.
    HeadTooLong,
    /// Not HTTP.
    Malformed,
    /// No descriptor was to be had for a connection.
    TooManyFiles,
    /// Another error of this machine.
    System,
}

/// Kinds of faults.
pub(crate) const FAULTS: usize = 12;

impl Fault {
    /// Names, in the order of [`Fault::index`].
    pub(crate) const NAMES: [&'static str; FAULTS] = [
        "connect_refused",
        "connect_failed",
        "reset",
        "closed_early",
        "timeout",
        "bad_status",
        "wrong_length",
        "wrong_bytes",
        "head_too_long",
        "malformed",
        "too_many_open_files",
        "system",
    ];

    pub(crate) const fn index(self) -> usize {
        match self {
            Fault::Refused => 0,
            Fault::ConnectFailed => 1,
            Fault::Reset => 2,
            Fault::ClosedEarly => 3,
            Fault::Timeout => 4,
            Fault::Status(_) => 5,
            Fault::WrongLength => 6,
            Fault::WrongBytes => 7,
            Fault::HeadTooLong => 8,
            Fault::Malformed => 9,
            Fault::TooManyFiles => 10,
            Fault::System => 11,
        }
    }

    /// Of making a connection.
    pub(crate) const fn of_connecting(errno: Errno) -> Self {
        match errno {
            Errno::CONNREFUSED => Fault::Refused,
            Errno::MFILE | Errno::NFILE => Fault::TooManyFiles,
            Errno::NOBUFS | Errno::NOMEM => Fault::System,
            Errno::TIMEDOUT => Fault::Timeout,
            _ => Fault::ConnectFailed,
        }
    }

    /// Of sending or receiving.
    pub(crate) const fn of_moving(errno: Errno) -> Self {
        match errno {
            Errno::CONNRESET | Errno::PIPE => Fault::Reset,
            Errno::TIMEDOUT => Fault::Timeout,
            _ => Fault::System,
        }
    }
}

impl From<ReplyError> for Fault {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::HeadTooLong => Fault::HeadTooLong,
            ReplyError::Malformed => Fault::Malformed,
        }
    }
}
