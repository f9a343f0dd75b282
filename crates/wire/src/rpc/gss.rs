//! RPCSEC_GSS (RFC 2203): the credential header, and what lies around arguments and results.
//!
//! With service *integrity* the arguments are readable between a sequence number and a checksum,
//! which is not verified here (that needs the context's key). With *privacy* they are opaque.
//! Context creation and destruction carry tokens instead of arguments (section 5.2).

use crate::error::Result;
use crate::limits::{MAX_AUTH_BYTES, MAX_RECORD_BYTES};
use crate::xdr::Reader;

/// `rpc_gss_service_t` (RFC 2203 section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GssService {
    /// Header authenticated only.
    None,
    /// Arguments and results carry a checksum.
    Integrity,
    /// Arguments and results are encrypted.
    Privacy,
}

/// `RPCSEC_GSS_DATA`: a call of the protocol above.
pub const RPCSEC_GSS_DATA: u32 = 0;

/// `rpc_gss_cred_vers_1_t` (RFC 2203 section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GssCredential<'a> {
    /// `RPCSEC_GSS_DATA` for ordinary calls, else context control.
    pub procedure: u32,
    /// Sequence number within the context.
    pub sequence: u32,
    /// Protection of arguments and results.
    pub service: GssService,
    /// The server's handle of the context.
    pub handle: &'a [u8],
}

impl<'a> GssCredential<'a> {
    /// Reads a whole credential body. Versions 1 and 2 (RFC 5403) share this layout.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let version = reader.u32("rpc_gss_cred_t.vers")?;
        if !(1..=2).contains(&version) {
            return Err(reader.bad_value(version, "rpc_gss_cred_t.vers"));
        }
        let procedure = reader.u32("rpc_gss_cred_vers_1_t.gss_proc")?;
        let sequence = reader.u32("rpc_gss_cred_vers_1_t.seq_num")?;
        let service = match reader.u32("rpc_gss_cred_vers_1_t.service")? {
            1 => GssService::None,
            2 => GssService::Integrity,
            3 => GssService::Privacy,
            // Context control may leave it unset (RFC 2203 section 5.2.2).
            0 if procedure != RPCSEC_GSS_DATA => GssService::None,
            value => return Err(reader.bad_value(value, "rpc_gss_cred_vers_1_t.service")),
        };
        let handle = reader.opaque(MAX_AUTH_BYTES, "rpc_gss_cred_vers_1_t.handle")?;
        reader.finish("rpc_gss_cred_t")?;
        Ok(GssCredential {
            procedure,
            sequence,
            service,
            handle,
        })
    }
}

/// The arguments or results behind an RPC header, seen through the call's protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Unprotected, or with an authenticated header only.
    Plain(&'a [u8]),
    /// Taken out of `rpc_gss_integ_data` (RFC 2203 section 5.3.2.2). Shorter than stated if the
    /// message was cut.
    Integrity {
        /// Sequence number inside the protected body.
        sequence: u32,
        /// The arguments or results.
        bytes: &'a [u8],
        /// Whether all of them are there.
        complete: bool,
    },
    /// `rpc_gss_priv_data`: encrypted; only its size is known.
    Private {
        /// Bytes present.
        bytes: usize,
    },
    /// Tokens of a context's creation or end; no arguments of the program.
    Control,
    /// An integrity body too short or malformed to unwrap.
    Unreadable,
}

impl<'a> Payload<'a> {
    /// Unwraps `body` as the call's credential says. A reply is protected as its call was, unless
    /// it reports an RPC error (then its body is empty anyway).
    #[inline]
    pub fn unwrap_body(credential: Option<&GssCredential<'_>>, body: &'a [u8]) -> Self {
        let Some(gss) = credential else {
            return Payload::Plain(body);
        };
        if gss.procedure != RPCSEC_GSS_DATA {
            return Payload::Control;
        }
        match gss.service {
            GssService::None => Payload::Plain(body),
            GssService::Privacy => Payload::Private { bytes: body.len() },
            GssService::Integrity => Self::integrity(body).unwrap_or(Payload::Unreadable),
        }
    }

    fn integrity(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let field = "rpc_gss_integ_data.databody_integ";
        let length = reader.length(MAX_RECORD_BYTES, field)? as usize;
        let sequence = reader.u32("rpc_gss_data_t.seq_num")?;
        let stated = length.saturating_sub(4);
        let there = reader.rest();
        let bytes = there.get(..stated).unwrap_or(there);
        Ok(Payload::Integrity {
            sequence,
            bytes,
            complete: bytes.len() == stated,
        })
    }
}
