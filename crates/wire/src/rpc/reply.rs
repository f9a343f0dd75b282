//! `reply_body` (RFC 5531 section 9): accepted or denied, and why.

use super::REPLY;
use super::auth::OpaqueAuth;
use crate::error::{Error, ErrorKind, Result};
use crate::xdr::{Encode, Reader};

/// What became of a call, as RPC sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyStatus {
    /// `SUCCESS`: results follow.
    Success,
    /// `PROG_UNAVAIL`.
    ProgramUnavailable,
    /// `PROG_MISMATCH` with the lowest and highest version served.
    ProgramMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// `PROC_UNAVAIL`.
    ProcedureUnavailable,
    /// `GARBAGE_ARGS`.
    GarbageArguments,
    /// `SYSTEM_ERR`.
    SystemError,
    /// `RPC_MISMATCH` with the lowest and highest RPC version served.
    RpcMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// `AUTH_ERROR` with its `auth_stat`.
    AuthError(u32),
}

impl ReplyStatus {
    /// The RFC's name.
    pub fn name(self) -> &'static str {
        match self {
            ReplyStatus::Success => "SUCCESS",
            ReplyStatus::ProgramUnavailable => "PROG_UNAVAIL",
            ReplyStatus::ProgramMismatch { .. } => "PROG_MISMATCH",
            ReplyStatus::ProcedureUnavailable => "PROC_UNAVAIL",
            ReplyStatus::GarbageArguments => "GARBAGE_ARGS",
            ReplyStatus::SystemError => "SYSTEM_ERR",
            ReplyStatus::RpcMismatch { .. } => "RPC_MISMATCH",
            ReplyStatus::AuthError(_) => "AUTH_ERROR",
        }
    }
}

/// Behind the transaction id: REPLY, MSG_ACCEPTED, AUTH_NONE of no bytes, SUCCESS.
const PLAIN_REPLY: [u8; 20] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A reply's header, read from bytes that may be cut behind `reply_stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Transaction id.
    pub xid: u32,
    /// What became of the call; `None` if it was cut.
    pub status: Option<ReplyStatus>,
    /// The server's verifier; `None` if it was cut or the call was denied.
    pub verifier: Option<OpaqueAuth<'a>>,
    /// Results as they stand on the wire (see [`Reply::results`]); `None` unless the status is
    /// `SUCCESS`.
    pub body: Option<&'a [u8]>,
    /// Offset of the results in the message; where the header was cut, the cut's place.
    pub body_offset: usize,
}

impl<'a> Reply<'a> {
    /// Reads a reply. Fewer than 12 bytes, another message type or an unknown status are errors; a
    /// message that ends inside the rest of the header is not.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self> {
        match Self::parse_plain(message) {
            Some(reply) => Ok(reply),
            None => Self::parse_in_full(message),
        }
    }

    /// The reply that nearly all are: accepted, an empty verifier, `SUCCESS`. `None` says nothing
    /// of the message: [`Reply::parse`] takes it from there.
    #[inline(always)]
    pub fn parse_plain(message: &'a [u8]) -> Option<Self> {
        let (head, body) = message.split_first_chunk::<24>()?;
        let (xid, rest) = head.split_first_chunk::<4>()?;
        (*rest == PLAIN_REPLY).then_some(Reply {
            xid: u32::from_be_bytes(*xid),
            status: Some(ReplyStatus::Success),
            verifier: Some(OpaqueAuth::NONE),
            body: Some(body),
            body_offset: 24,
        })
    }

    #[inline(never)]
    fn parse_in_full(message: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(message);
        let xid = reader.u32("rpc_msg.xid")?;
        let kind = reader.u32("rpc_msg.msg_type")?;
        if kind != REPLY {
            return Err(Error::new(
                ErrorKind::BadValue { value: kind },
                4,
                "rpc_msg.msg_type",
            ));
        }
        let mut reply = Reply {
            xid,
            status: None,
            verifier: None,
            body: None,
            body_offset: 12,
        };
        let parsed = match reader.u32("reply_body.stat")? {
            0 => reply.accepted(&mut reader),
            1 => reply.denied(&mut reader),
            value => Err(reader.bad_value(value, "reply_body.stat")),
        };
        match parsed {
            Err(error) if !error.is_short() => Err(error),
            _ => Ok(reply),
        }
    }

    #[inline(always)]
    fn accepted(&mut self, reader: &mut Reader<'a>) -> Result<()> {
        self.verifier = Some(OpaqueAuth::decode(reader, "accepted_reply.verf")?);
        self.body_offset = reader.offset();
        let field = "accepted_reply.stat";
        self.status = Some(match reader.u32(field)? {
            0 => {
                self.body = Some(reader.rest());
                ReplyStatus::Success
            }
            1 => ReplyStatus::ProgramUnavailable,
            2 => {
                let low = reader.u32("accepted_reply.mismatch_info.low")?;
                let high = reader.u32("accepted_reply.mismatch_info.high")?;
                ReplyStatus::ProgramMismatch { low, high }
            }
            3 => ReplyStatus::ProcedureUnavailable,
            4 => ReplyStatus::GarbageArguments,
            5 => ReplyStatus::SystemError,
            value => return Err(reader.bad_value(value, field)),
        });
        self.body_offset = reader.offset();
        Ok(())
    }

    #[cold]
    fn denied(&mut self, reader: &mut Reader<'a>) -> Result<()> {
        let field = "rejected_reply.stat";
        self.status = Some(match reader.u32(field)? {
            0 => {
                let low = reader.u32("rejected_reply.mismatch_info.low")?;
                let high = reader.u32("rejected_reply.mismatch_info.high")?;
                ReplyStatus::RpcMismatch { low, high }
            }
            1 => ReplyStatus::AuthError(reader.u32("rejected_reply.auth_stat")?),
            value => return Err(reader.bad_value(value, field)),
        });
        self.body_offset = reader.offset();
        Ok(())
    }
}

/// Appends a reply header with the server's `verifier`; on [`ReplyStatus::Success`] the results
/// follow.
pub fn encode_reply(
    out: &mut Vec<u8>,
    xid: u32,
    verifier: &OpaqueAuth<'_>,
    status: ReplyStatus,
) -> Result<()> {
    xid.encode(out)?;
    REPLY.encode(out)?;
    let words: &[u32] = match status {
        ReplyStatus::RpcMismatch { low, high } => &[1, 0, low, high],
        ReplyStatus::AuthError(stat) => &[1, 1, stat],
        _ => {
            0u32.encode(out)?;
            verifier.encode(out)?;
            match status {
                ReplyStatus::ProgramUnavailable => &[1],
                ReplyStatus::ProgramMismatch { low, high } => &[2, low, high],
                ReplyStatus::ProcedureUnavailable => &[3],
                ReplyStatus::GarbageArguments => &[4],
                ReplyStatus::SystemError => &[5],
                _ => &[0],
            }
        }
    };
    words.iter().try_for_each(|word| word.encode(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_way_agrees_with_the_full_one() {
        let mut message = Vec::new();
        let status = ReplyStatus::Success;
        assert!(encode_reply(&mut message, 77, &OpaqueAuth::NONE, status).is_ok());
        message.extend([0, 0, 0, 2]);
        let plain = Reply::parse_plain(&message);
        assert_eq!(plain.map(Ok), Some(Reply::parse_in_full(&message)));
        assert_eq!(plain.and_then(|reply| reply.body), Some(&[0, 0, 0, 2][..]));
        for at in 4..24 {
            let mut other = message.clone();
            other[at] ^= 1;
            assert_eq!(Reply::parse_plain(&other), None, "byte {at}");
        }
        assert_eq!(Reply::parse_plain(&message[..23]), None);
    }
}
