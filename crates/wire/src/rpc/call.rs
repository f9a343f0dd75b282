//! `call_body` (RFC 5531 section 9): six fixed words, credential, verifier, arguments.

use super::auth::{AUTH_SYS, AuthSys, Credential, OpaqueAuth, word};
use super::gss::Payload;
use super::{CALL, RPC_VERSION};
use crate::error::{Error, ErrorKind, Result};
use crate::fixed::put_words;
use crate::limits::MAX_AUTH_BYTES;
use crate::xdr::{Encode, Reader};

/// The fixed words of a call: xid, msg_type, rpcvers, prog, vers, proc.
pub const CALL_FIXED_BYTES: usize = 24;

/// The same with flavour and length of the credential.
const PLAIN_FIXED_BYTES: usize = 32;

/// A call's header, read from bytes that may be cut behind the fixed words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Transaction id.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Who calls; `None` if it was cut.
    pub credential: Option<Credential<'a>>,
    /// The credential's proof; `None` if it was cut.
    pub verifier: Option<OpaqueAuth<'a>>,
    /// Arguments as they stand on the wire (see [`Call::arguments`]); `None` if the header was cut.
    pub body: Option<&'a [u8]>,
    /// Offset of the arguments in the message; where the header was cut, the cut's place.
    pub body_offset: usize,
}

impl<'a> Call<'a> {
    /// Reads a call. Fewer than 24 bytes, another message type or RPC version, or an oversized
    /// credential are errors; a message that ends inside credential or verifier is not.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self> {
        match Self::parse_plain(message) {
            Some(call) => Ok(call),
            None => Self::parse_in_full(message),
        }
    }

    /// The call that nearly all are: AUTH_SYS that is well-formed, an empty verifier, nothing cut.
    /// `None` says nothing of the message: [`Call::parse`] takes it from there.
    #[inline(always)]
    pub fn parse_plain(message: &'a [u8]) -> Option<Self> {
        let head: &[u8; PLAIN_FIXED_BYTES] = message.first_chunk()?;
        let [xid, kind, rpc_version] = [word(head, 0), word(head, 4), word(head, 8)];
        let [program, version, procedure] = [word(head, 12), word(head, 16), word(head, 20)];
        let [flavor, length] = [word(head, 24), word(head, 28)];
        let plain = (kind == CALL)
            & (rpc_version == RPC_VERSION)
            & (flavor == AUTH_SYS)
            & (length <= MAX_AUTH_BYTES)
            & (length % 4 == 0);
        if !plain {
            return None;
        }
        let behind = message.get(PLAIN_FIXED_BYTES..)?;
        let (credential, behind) = behind.split_at_checked(length as usize)?;
        let (verifier, body) = behind.split_first_chunk::<8>()?;
        if *verifier != [0; 8] {
            return None;
        }
        Some(Call {
            xid,
            program,
            version,
            procedure,
            credential: Some(Credential::Sys(AuthSys::of_plain(credential)?)),
            verifier: Some(OpaqueAuth::NONE),
            body: Some(body),
            body_offset: PLAIN_FIXED_BYTES + length as usize + 8,
        })
    }

    #[inline(never)]
    fn parse_in_full(message: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(message);
        let words: &[u8; CALL_FIXED_BYTES] = reader.array("rpc_msg.call_body")?;
        let [xid, kind, rpc_version] = [word(words, 0), word(words, 4), word(words, 8)];
        let [program, version, procedure] = [word(words, 12), word(words, 16), word(words, 20)];
        if kind != CALL {
            return Err(Error::new(
                ErrorKind::BadValue { value: kind },
                4,
                "rpc_msg.msg_type",
            ));
        }
        if rpc_version != RPC_VERSION {
            let kind = ErrorKind::BadValue { value: rpc_version };
            return Err(Error::new(kind, 8, "call_body.rpcvers"));
        }
        let mut call = Call {
            xid,
            program,
            version,
            procedure,
            credential: None,
            verifier: None,
            body: None,
            body_offset: CALL_FIXED_BYTES,
        };
        match OpaqueAuth::decode(&mut reader, "call_body.cred") {
            Ok(auth) => call.credential = Some(Credential::from_opaque(auth)),
            Err(error) if error.is_short() => return Ok(call),
            Err(error) => return Err(error),
        }
        call.body_offset = reader.offset();
        match OpaqueAuth::decode(&mut reader, "call_body.verf") {
            Ok(auth) => call.verifier = Some(auth),
            Err(error) if error.is_short() => return Ok(call),
            Err(error) => return Err(error),
        }
        call.body_offset = reader.offset();
        call.body = Some(reader.rest());
        Ok(call)
    }

    /// The arguments, taken out of their RPCSEC_GSS protection; empty if the header was cut.
    #[inline]
    pub fn arguments(&self) -> Payload<'a> {
        let body = self.body.unwrap_or_default();
        match &self.credential {
            Some(Credential::Gss(gss)) => Payload::unwrap_body(Some(gss), body),
            _ => Payload::Plain(body),
        }
    }

    /// True for the probe that asks a server for TLS (RFC 9289 section 4.1): NULL with AUTH_TLS.
    pub fn is_tls_probe(&self) -> bool {
        self.procedure == 0 && self.credential == Some(Credential::Tls)
    }
}

/// Appends a call header; the arguments follow. `credential` and `verifier` append themselves
/// (for instance [`super::AuthSysParms`] and [`OpaqueAuth::NONE`]).
pub fn encode_call(
    out: &mut Vec<u8>,
    xid: u32,
    [program, version, procedure]: [u32; 3],
    credential: &impl Encode,
    verifier: &impl Encode,
) -> Result<()> {
    put_words::<6, 24>(out, [xid, CALL, RPC_VERSION, program, version, procedure]);
    credential.encode(out)?;
    verifier.encode(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Calls with a credential of some words behind the fixed ones, whole, odd or cut.
        #[test]
        fn the_plain_way_agrees_with_the_full_one(
            fixed in prop::sample::select(vec![[CALL, 2], [1, 2], [CALL, 3]]),
            flavor in prop_oneof![6 => Just(1u32), 1 => 0u32..8],
            words in prop::collection::vec(prop_oneof![6 => 0u32..6, 1 => any::<u32>()], 0..12),
            verifier in prop_oneof![6 => Just([0u32, 0]), 1 => Just([0, 4]), 1 => Just([6, 4])],
            arguments in 0usize..12,
            odd in -1i32..2,
            kept in 0usize..120,
        ) {
            let bytes = (words.len() as i32 * 4 + odd.min(words.len() as i32)) as u32;
            let mut message = vec![9, fixed[0], fixed[1], 100_003, 3, 1, flavor, bytes];
            message.extend(&words);
            message.extend(verifier);
            let mut message: Vec<u8> =
                message.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
            message.resize(message.len() + arguments, 5);
            message.truncate(kept.max(24));
            if let Some(plain) = Call::parse_plain(&message) {
                prop_assert_eq!(Ok(plain), Call::parse_in_full(&message));
            }
        }
    }

    #[test]
    fn a_usual_call_is_plain() {
        let mut message = Vec::new();
        let parms = crate::rpc::AuthSysParms {
            stamp: 7,
            machine_name: b"client",
            uid: 1000,
            gid: 100,
            gids: &[100, 4],
        };
        let place = [100_003, 3, 1];
        assert!(encode_call(&mut message, 3, place, &parms, &OpaqueAuth::NONE).is_ok());
        message.extend([1, 2, 3, 4]);
        let plain = Call::parse_plain(&message);
        assert_eq!(plain.map(Ok), Some(Call::parse_in_full(&message)));
        assert_eq!(plain.and_then(|call| call.body), Some(&[1, 2, 3, 4][..]));
    }
}
