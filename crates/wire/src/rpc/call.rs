//! `call_body` (RFC 5531 section 9): six fixed words, credential, verifier, arguments.

use super::auth::{Credential, OpaqueAuth};
use super::gss::Payload;
use super::{CALL, RPC_VERSION};
use crate::error::{Error, ErrorKind, Result};
use crate::xdr::{Encode, Reader};

/// The fixed words of a call: xid, msg_type, rpcvers, prog, vers, proc.
pub const CALL_FIXED_BYTES: usize = 24;

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
        let mut reader = Reader::new(message);
        let words: &[u8; CALL_FIXED_BYTES] = reader.array("rpc_msg.call_body")?;
        let [xid, kind, rpc_version, program, version, procedure] = words_of(words);
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

#[inline(always)]
fn words_of(bytes: &[u8; CALL_FIXED_BYTES]) -> [u32; 6] {
    let (chunks, _) = bytes.as_chunks::<4>();
    let mut words = [0; 6];
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u32::from_be_bytes(*chunk);
    }
    words
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
    for word in [xid, CALL, RPC_VERSION, program, version, procedure] {
        word.encode(out)?;
    }
    credential.encode(out)?;
    verifier.encode(out)
}
