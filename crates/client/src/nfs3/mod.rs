//! NFS version 3, MOUNT and the portmapper as typed calls: all that knows the version is here.
//!
//! A [`Procedure`] ties a number to the types of its arguments and results in [`wire`]. The engine
//! takes it with [`Engine::submit_typed`] and gives results borrowed from its receive buffer with
//! [`decode`]; the threaded [`crate::Client`] has calls that wait and calls that do not
//! ([`crate::handle`]). [`export`] finds ports, mounts and asks FSINFO.

mod export;
mod once;
mod portmap;
mod procedures;

pub use export::{Export, MountService, MountedEngine};
pub use once::call_once;
pub use portmap::{PortQuery, find_port};
pub use procedures::*;

use measure::Clock;
use wire::nfs3::{WRITE3args, nfs_fh3};
use wire::{Decode, Encode};

use crate::engine::{Caller, Engine, Reply, Request, SharedBytes};
use crate::error::CallError;

/// A remote procedure: its number, and the types of what goes there and comes back.
pub trait Procedure: 'static {
    /// Program, version, procedure.
    const TARGET: [u32; 3];
    /// Arguments.
    type Arguments<'a>: Encode;
    /// Results, borrowed from the reply.
    type Results<'a>: Decode<'a>;
}

/// Decodes a completion's results.
///
/// # Errors
/// The call's own error, or [`CallError::Malformed`].
pub fn decode<P: Procedure>(
    result: Result<Reply<'_>, CallError>,
) -> Result<P::Results<'_>, CallError> {
    result.and_then(|reply| reply.decode())
}

/// WRITE's arguments up to its payload, which is sent behind them without a copy.
#[derive(Clone, Copy, Debug)]
pub struct WriteHead<'a>(
    /// The arguments; of their `data` only the length is encoded.
    pub WRITE3args<'a>,
);

impl Encode for WriteHead<'_> {
    fn encode(&self, out: &mut Vec<u8>) -> wire::Result<()> {
        self.0.encode_head(out)
    }
}

impl<C: Clock> Engine<C> {
    /// [`Engine::submit`] with arguments of their type; a payload in them is copied.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    #[inline]
    pub fn submit_typed<P: Procedure>(
        &mut self,
        arguments: &P::Arguments<'_>,
        token: u64,
    ) -> Result<(), CallError> {
        let request = Request {
            target: P::TARGET,
            caller: None,
            arguments,
            payload: None,
        };
        self.submit(request, token)
    }

    /// WRITE of shared bytes, which are not copied.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub fn submit_write(
        &mut self,
        caller: Option<&Caller>,
        arguments: WRITE3args<'_>,
        payload: SharedBytes,
        token: u64,
    ) -> Result<(), CallError> {
        let request = Request {
            target: Write::TARGET,
            caller,
            arguments: &WriteHead(arguments),
            payload: Some(payload),
        };
        self.submit(request, token)
    }
}

/// A file handle that owns its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    length: u8,
    bytes: [u8; 64],
}

impl FileHandle {
    /// Copies a handle.
    ///
    /// # Errors
    /// [`CallError::Protocol`] for more than 64 bytes (the decoder refuses such before).
    pub fn new(bytes: &[u8]) -> Result<Self, CallError> {
        let mut handle = FileHandle {
            length: u8::try_from(bytes.len()).unwrap_or(u8::MAX),
            bytes: [0; 64],
        };
        match handle.bytes.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Ok(handle)
            }
            None => Err(CallError::Protocol("a file handle of more than 64 bytes")),
        }
    }

    /// As an argument.
    pub fn as_fh(&self) -> nfs_fh3<'_> {
        let length = usize::from(self.length);
        nfs_fh3(self.bytes.get(..length).unwrap_or_default())
    }
}

impl TryFrom<nfs_fh3<'_>> for FileHandle {
    type Error = CallError;

    fn try_from(handle: nfs_fh3<'_>) -> Result<Self, CallError> {
        FileHandle::new(handle.0)
    }
}

impl std::fmt::Debug for FileHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_fh()
            .0
            .iter()
            .try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}
