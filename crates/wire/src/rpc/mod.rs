//! ONC RPC version 2 (RFC 5531) with AUTH_SYS, RPCSEC_GSS (RFC 2203) and the TLS probe (RFC 9289).
//!
//! [`Call::parse`] and [`Reply::parse`] read headers from bytes that may be cut anywhere behind the
//! fixed words: what was cut is `None`, never guessed. [`encode_call`] and [`encode_reply`] write
//! headers for client and server. [`recognise`] tells RPC from other bytes.

pub mod auth;
pub mod call;
pub mod gss;
pub mod recognise;
pub mod reply;

pub use auth::{AuthSys, AuthSysParms, Credential, OpaqueAuth};
pub use call::{Call, encode_call};
pub use gss::{GssCredential, GssService, Payload};
pub use recognise::{looks_like_call, looks_like_reply, looks_like_tls_record};
pub use reply::{Reply, ReplyStatus, encode_reply};

/// `msg_type` CALL (RFC 5531 section 9).
pub const CALL: u32 = 0;
/// `msg_type` REPLY (RFC 5531 section 9).
pub const REPLY: u32 = 1;
/// `rpcvers`: the RPC version that this crate speaks.
pub const RPC_VERSION: u32 = 2;
