//! The protocol without sockets: request bytes and who sent them in, reply bytes out.
//!
//! [`receive`] reads a call's header; the caller may then look into its reply cache or its model;
//! [`Service::answer`] runs the procedure and appends the reply. READ data does not pass through:
//! it comes back as a [`Payload`] to be sent behind the head, with its padding already counted in.
//!
//! Programs: NFS version 3 (RFC 1813), MOUNT versions 1 to 3 (its appendix I, RFC 1094 appendix
//! A). Whatever is wrong with a call is answered as RFC 5531 section 9 has it; only what is no call
//! at all gets no answer. AUTH_SYS is asked for; without it (RFC 2623 section 2.3.2) NULL, GETATTR
//! and FSINFO are open to nobody, all else is AUTH_TOOWEAK.

mod export;
mod mounts;
mod nfs;
mod nfs_directory;
mod nfs_names;

use std::net::SocketAddr;

use wire::nfs3::procedure;
use wire::programs;
use wire::rpc::{CALL, Call, Credential, OpaqueAuth, RPC_VERSION, ReplyStatus, encode_reply};

use crate::Caller;
use crate::store::Payload;
pub use export::{Export, ExportOptions, MAX_EXPORTS, Service, Squash};

/// `AUTH_BADCRED` (RFC 5531 section 9).
const AUTH_BADCRED: u32 = 1;
/// `AUTH_REJECTEDCRED` (RFC 5531 section 9); also "no TLS here" (RFC 9289 section 4.1).
const AUTH_REJECTEDCRED: u32 = 2;
/// `AUTH_TOOWEAK` (RFC 5531 section 9).
const AUTH_TOOWEAK: u32 = 5;
/// The only NFS version served.
const NFS_VERSION: u32 = 3;
/// Lowest and highest MOUNT version served.
const MOUNT_VERSIONS: [u32; 2] = [1, 3];

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A call with a whole header.
    Call(Call<'a>),
    /// A call that is refused before its program is looked at.
    Refused(u32, ReplyStatus),
    /// Nothing that could be answered: too short, or a reply.
    Ignored,
}

/// Reads the header of a message.
#[must_use]
pub fn receive(message: &[u8]) -> Received<'_> {
    let call = Call::parse(message);
    if let Ok(call) = call {
        return match call.body {
            Some(_) => Received::Call(call),
            None => Received::Refused(call.xid, ReplyStatus::GarbageArguments),
        };
    }
    let word = |index: usize| {
        let bytes = message.get(index * 4..index * 4 + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    match (word(0), word(1), word(2)) {
        (Some(xid), Some(CALL), Some(version)) if version != RPC_VERSION => {
            let (low, high) = (RPC_VERSION, RPC_VERSION);
            Received::Refused(xid, ReplyStatus::RpcMismatch { low, high })
        }
        (Some(xid), Some(CALL), Some(_)) if message.len() >= wire::rpc::call::CALL_FIXED_BYTES => {
            Received::Refused(xid, ReplyStatus::AuthError(AUTH_BADCRED))
        }
        _ => Received::Ignored,
    }
}

/// Appends a reply without results.
pub fn refuse(xid: u32, status: ReplyStatus, head: &mut Vec<u8>) {
    let start = head.len();
    // Fixed words alone cannot be too long.
    if encode_reply(head, xid, &OpaqueAuth::NONE, status).is_err() {
        head.truncate(start);
    }
}

/// How a call ended, for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The procedure ran; its own status (`nfsstat3`, `mountstat3`; 0 where there is none).
    Done(u32),
    /// RPC refused the call.
    Refused(ReplyStatus),
}

/// Why a procedure gives no result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused(ReplyStatus);
impl From<wire::Error> for Refused {
    /// Only encoding gets here: a result that its own type does not allow.
    fn from(_: wire::Error) -> Self {
        Refused(ReplyStatus::SystemError)
    }
}

/// Takes a procedure's arguments. Bytes behind them are ignored, as Linux does.
fn arguments<'a, T: wire::Decode<'a>>(body: &'a [u8]) -> Result<T, Refused> {
    let mut reader = wire::Reader::new(body);
    T::decode(&mut reader, "arguments").map_err(|_| Refused(ReplyStatus::GarbageArguments))
}

/// True for procedures that must not run twice: their replies are kept (RFC 1813 section 4.1 calls
/// them non-idempotent; WRITE is kept too, so that a late duplicate cannot undo a newer write).
#[must_use]
pub fn runs_once(call: &Call<'_>) -> bool {
    call.program == programs::NFS
        && matches!(
            call.procedure,
            procedure::SETATTR | procedure::WRITE..=procedure::LINK
        )
}

impl Service {
    /// Runs a call and appends its reply to `head`; the data of a READ goes to `payload` (empty
    /// before) and is to be sent behind `head`, padded with zeros to a multiple of four bytes.
    pub fn answer(
        &self,
        address: SocketAddr,
        call: &Call<'_>,
        head: &mut Vec<u8>,
        payload: &mut Payload,
    ) -> Outcome {
        let start = head.len();
        match self.run(address, call, head, payload) {
            Ok(status) => Outcome::Done(status),
            Err(Refused(status)) => {
                head.truncate(start);
                payload.clear();
                refuse(call.xid, status, head);
                Outcome::Refused(status)
            }
        }
    }

    fn run(
        &self,
        address: SocketAddr,
        call: &Call<'_>,
        head: &mut Vec<u8>,
        payload: &mut Payload,
    ) -> Result<u32, Refused> {
        let body = call.body.unwrap_or_default();
        match (call.program, call.version) {
            (programs::NFS, NFS_VERSION) => {
                let caller = nfs_caller(address, call)?;
                success(call.xid, head)?;
                self.nfs(&caller, call.procedure, body, head, payload)
            }
            (programs::NFS, _) => Err(Refused(ReplyStatus::ProgramMismatch {
                low: NFS_VERSION,
                high: NFS_VERSION,
            })),
            (programs::MOUNT, version) => {
                let [low, high] = MOUNT_VERSIONS;
                if !(low..=high).contains(&version) {
                    return Err(Refused(ReplyStatus::ProgramMismatch { low, high }));
                }
                no_tls(call)?;
                success(call.xid, head)?;
                self.mount(address, version, call.procedure, body, head)
            }
            _ => Err(Refused(ReplyStatus::ProgramUnavailable)),
        }
    }
}

fn success(xid: u32, head: &mut Vec<u8>) -> Result<(), Refused> {
    Ok(encode_reply(
        head,
        xid,
        &OpaqueAuth::NONE,
        ReplyStatus::Success,
    )?)
}

fn no_tls(call: &Call<'_>) -> Result<(), Refused> {
    match call.credential {
        Some(Credential::Tls) => Err(Refused(ReplyStatus::AuthError(AUTH_REJECTEDCRED))),
        _ => Ok(()),
    }
}

fn nfs_caller(address: SocketAddr, call: &Call<'_>) -> Result<Caller, Refused> {
    no_tls(call)?;
    match &call.credential {
        Some(Credential::Sys(sys)) => Ok(Caller::from_auth_sys(address, sys)),
        _ if call.procedure == procedure::NULL => Ok(Caller::anonymous(address)),
        Some(Credential::None)
            if matches!(call.procedure, procedure::GETATTR | procedure::FSINFO) =>
        {
            Ok(Caller::anonymous(address))
        }
        Some(Credential::Other(auth)) if auth.flavor == wire::rpc::auth::AUTH_SYS => {
            Err(Refused(ReplyStatus::AuthError(AUTH_BADCRED)))
        }
        _ => Err(Refused(ReplyStatus::AuthError(AUTH_TOOWEAK))),
    }
}
