//! What goes into the engine and what comes out of it.

use std::fmt;
use std::sync::Arc;

use wire::rpc::{AuthSysParms, OpaqueAuth};
use wire::{Decode, Encode};

use crate::error::CallError;

/// Bytes that many parties may hold at once: a WRITE's payload stays alive, without a copy, until
/// its reply is there.
#[derive(Clone)]
pub struct SharedBytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    start: usize,
    length: usize,
}

impl SharedBytes {
    /// All bytes of `owner`.
    pub fn new<T: AsRef<[u8]> + Send + Sync + 'static>(owner: T) -> Self {
        Self::from_owner(Arc::new(owner))
    }

    /// All bytes of an owner that is shared already.
    pub fn from_owner(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let length = (*owner).as_ref().len();
        SharedBytes {
            owner,
            start: 0,
            length,
        }
    }

    /// A part of these bytes, cut to what is there; nothing is copied.
    #[must_use]
    pub fn slice(&self, start: usize, length: usize) -> Self {
        let start_within = start.min(self.length);
        SharedBytes {
            owner: Arc::clone(&self.owner),
            start: self.start + start_within,
            length: length.min(self.length - start_within),
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // An owner that shrinks behind our back gives an empty slice, not a panic.
        (*self.owner)
            .as_ref()
            .get(self.start..self.start + self.length)
            .unwrap_or_default()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SharedBytes({} bytes)", self.length)
    }
}

/// Who calls: a credential and its verifier, encoded once and sent with every call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller(Arc<[u8]>);

impl Caller {
    /// AUTH_NONE.
    pub fn none() -> Self {
        let mut bytes = Vec::new();
        // AUTH_NONE has no length that could be refused.
        let _ = OpaqueAuth::NONE.encode(&mut bytes);
        let _ = OpaqueAuth::NONE.encode(&mut bytes);
        Caller(bytes.into())
    }

    /// AUTH_SYS with these ids.
    ///
    /// # Errors
    /// More than 16 groups or a machine name of more than 255 bytes.
    pub fn sys(parameters: &AuthSysParms<'_>) -> Result<Self, wire::Error> {
        let mut bytes = Vec::new();
        parameters.encode(&mut bytes)?;
        OpaqueAuth::NONE.encode(&mut bytes)?;
        Ok(Caller(bytes.into()))
    }

    /// AUTH_SYS with the effective ids of this process and its first 16 groups (AUTH_SYS has room
    /// for no more, as every kernel client).
    pub fn process() -> Self {
        let groups = rustix::process::getgroups().unwrap_or_default();
        let gids: Vec<u32> = groups.iter().map(|gid| gid.as_raw()).take(16).collect();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Self::user(uid, gid, &gids)
    }

    /// AUTH_SYS with these ids and this machine's name; groups beyond 16 are not sent.
    pub fn user(uid: u32, gid: u32, gids: &[u32]) -> Self {
        let system = rustix::system::uname();
        let name = system.nodename().to_bytes();
        let parameters = AuthSysParms {
            stamp: 0,
            machine_name: name.get(..name.len().min(255)).unwrap_or_default(),
            uid,
            gid,
            gids: gids.get(..gids.len().min(16)).unwrap_or_default(),
        };
        Self::sys(&parameters).unwrap_or_else(|_| Self::none())
    }
}

impl Encode for Caller {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) -> wire::Result<()> {
        out.extend_from_slice(&self.0);
        Ok(())
    }
}

/// Arguments that were encoded before.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a>(
    /// A multiple of four bytes.
    pub &'a [u8],
);

impl Encode for Encoded<'_> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) -> wire::Result<()> {
        out.extend_from_slice(self.0);
        Ok(())
    }
}

/// One call to be made.
#[derive(Clone)]
pub struct Request<'a> {
    /// Program, version, procedure.
    pub target: [u32; 3],
    /// Who calls; `None` for the engine's own caller.
    pub caller: Option<&'a Caller>,
    /// Arguments, all but a payload that is sent behind them.
    pub arguments: &'a dyn Encode,
    /// Payload at the message's end (WRITE), its padding excluded; it is not copied. Its length
    /// word belongs to `arguments`.
    pub payload: Option<SharedBytes>,
}

/// Instants of a call's life, nanoseconds of the engine's clock; 0 for what did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Taken by `submit`.
    pub enqueued_ns: u64,
    /// First byte of the first send went to the socket.
    pub sent_first_ns: u64,
    /// First byte of the last send went to the socket.
    pub sent_last_ns: u64,
    /// Its reply, or its failure, was noticed.
    pub completed_ns: u64,
}

/// Results of a call as they stand in the receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Results behind the RPC header.
    pub body: &'a [u8],
    /// How often the call was sent: if more than once, it may have been run more than once.
    pub sends: u32,
}

impl<'a> Reply<'a> {
    /// Decodes the whole body.
    ///
    /// # Errors
    /// [`CallError::Malformed`].
    pub fn decode<T: Decode<'a>>(&self) -> Result<T, CallError> {
        T::decode_whole(self.body, "results").map_err(CallError::Malformed)
    }
}

/// What became of a call; handed to `poll`'s sink exactly once for each that was submitted.
#[derive(Debug)]
pub struct Completion<'a> {
    /// The number given to `submit`.
    pub token: u64,
    /// Transaction id; 0 if the call never got one.
    pub xid: u32,
    /// The reply, or why there is none.
    pub result: Result<Reply<'a>, CallError>,
    /// When what happened.
    pub times: Times,
    /// How often the call was sent.
    pub sends: u32,
}
