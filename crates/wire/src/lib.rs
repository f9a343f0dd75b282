//! Pure codec for XDR, ONC RPC, NFS v2 to v4.2 and the protocols around them. No sockets, no clock.
//!
//! Two users, two levels:
//!
//! * **Capture analysis** reads hostile or cut bytes, millions of messages a second:
//!   [`rpc::Call::parse`] and [`rpc::Reply::parse`] for headers, [`summarise_call`] and
//!   [`summarise_reply`] for bodies, [`rpc::recognise`] to find messages without knowing ports.
//!   Nothing is allocated, payloads are not touched, cut messages give what is known.
//! * **Client and server** encode and decode whole values in RFC spelling: [`nfs3`], [`mount`],
//!   [`portmap`], [`rpc::encode_call`], [`rpc::encode_reply`], and [`record`] for byte streams.
//!
//! Decisions: every length from the wire is compared with a named bound ([`limits`]) and with the
//! bytes that are there before it is used; errors carry byte offset and field path ([`Error`]);
//! no function panics, whatever the bytes.
//!
//! Limits: NFSv4 has summaries but no full encoder yet. RPCSEC_GSS checksums are not verified and
//! privacy bodies stay opaque. NFSACL bodies are passed over behind the file handle.

pub(crate) mod companions;
pub mod error;
pub mod fixed;
pub mod limits;
pub mod mount;
pub mod nfs2;
pub mod nfs3;
pub mod nfs4;
mod numbers;
pub mod portmap;
pub mod programs;
pub mod record;
pub mod rpc;
mod summarise;
pub mod summary;
pub mod xdr;
mod xdr_macros;

pub use error::{Error, ErrorKind, Result};
pub use summarise::{
    Body, summarise_call, summarise_call_with, summarise_reply, summarise_reply_with,
};
pub use summary::{CallSummary, End, Ignore, ReplySummary, Visitor};
pub use xdr::{Decode, Encode, Reader};
