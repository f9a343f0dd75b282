//! Credentials and verifiers: `opaque_auth` (RFC 5531 section 8.2), AUTH_SYS (appendix A).

use super::gss::GssCredential;
use crate::error::Result;
use crate::limits::{MAX_AUTH_BYTES, MAX_AUTH_SYS_GIDS, MAX_MACHINE_NAME_BYTES};
use crate::xdr::{Encode, Reader, padding, put_length, put_opaque};

/// `AUTH_NONE` (RFC 5531 section 8.2).
pub const AUTH_NONE: u32 = 0;
/// `AUTH_SYS` (RFC 5531 section 8.2).
pub const AUTH_SYS: u32 = 1;
/// `AUTH_SHORT` (RFC 5531 section 8.2).
pub const AUTH_SHORT: u32 = 2;
/// `AUTH_DH` (RFC 5531 section 8.2).
pub const AUTH_DH: u32 = 3;
/// `RPCSEC_GSS` (RFC 2203 section 5).
pub const RPCSEC_GSS: u32 = 6;
/// `AUTH_TLS` (RFC 9289 section 4.1).
pub const AUTH_TLS: u32 = 7;

/// `struct opaque_auth` as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// Authentication flavour.
    pub flavor: u32,
    /// Body, without length and padding.
    pub body: &'a [u8],
}

impl<'a> OpaqueAuth<'a> {
    /// `AUTH_NONE` with an empty body.
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth {
        flavor: AUTH_NONE,
        body: &[],
    };

    /// Takes flavour and body.
    #[inline(always)]
    pub fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        let flavor = reader.u32(field)?;
        let body = reader.opaque(MAX_AUTH_BYTES, field)?;
        Ok(OpaqueAuth { flavor, body })
    }
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.flavor.encode(out)?;
        put_opaque(out, self.body, MAX_AUTH_BYTES, "opaque_auth.body")
    }
}

/// What a call's credential says about the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<'a> {
    /// `AUTH_NONE`: nobody.
    None,
    /// `AUTH_SYS`: Unix ids, unchecked by anyone.
    Sys(AuthSys<'a>),
    /// `RPCSEC_GSS` header (RFC 2203 section 5.3.1).
    Gss(GssCredential<'a>),
    /// `AUTH_TLS`: the probe of RFC 9289.
    Tls,
    /// Another flavour, or a body that its flavour does not allow.
    Other(OpaqueAuth<'a>),
}

impl<'a> Credential<'a> {
    /// Reads the body by its flavour; what does not parse stays [`Credential::Other`].
    #[inline]
    pub fn from_opaque(auth: OpaqueAuth<'a>) -> Self {
        match auth.flavor {
            AUTH_NONE => Credential::None,
            AUTH_SYS => AuthSys::decode(auth.body).map_or(Credential::Other(auth), Credential::Sys),
            RPCSEC_GSS => {
                GssCredential::decode(auth.body).map_or(Credential::Other(auth), Credential::Gss)
            }
            AUTH_TLS if auth.body.is_empty() => Credential::Tls,
            _ => Credential::Other(auth),
        }
    }

    /// User and group id, where the credential states them.
    pub fn ids(&self) -> Option<(u32, u32)> {
        match self {
            Credential::Sys(sys) => Some((sys.uid, sys.gid)),
            _ => None,
        }
    }
}

/// `authsys_parms` (RFC 5531 appendix A), borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// Arbitrary id of the caller's machine.
    pub stamp: u32,
    /// Name of the caller's machine.
    pub machine_name: &'a [u8],
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    gids: &'a [u8],
}

/// The big-endian word at this place. (Written out where words are taken: neither loops nor
/// closures over arrays are sure to be unrolled.)
#[inline(always)]
pub(super) fn word<const BYTES: usize>(bytes: &[u8; BYTES], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl<'a> AuthSys<'a> {
    /// Reads a whole credential body.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let stamp = reader.u32("authsys_parms.stamp")?;
        let machine_name = reader.opaque(MAX_MACHINE_NAME_BYTES, "authsys_parms.machinename")?;
        let uid = reader.u32("authsys_parms.uid")?;
        let gid = reader.u32("authsys_parms.gid")?;
        let count = reader.length(MAX_AUTH_SYS_GIDS, "authsys_parms.gids")?;
        let gids = reader.opaque_fixed(count as usize * 4, "authsys_parms.gids")?;
        reader.finish("authsys_parms")?;
        Ok(AuthSys {
            stamp,
            machine_name,
            uid,
            gid,
            gids,
        })
    }

    /// The same by lengths alone; `None`: not well-formed, [`AuthSys::decode`] says why.
    #[inline(always)]
    pub(super) fn of_plain(body: &'a [u8]) -> Option<Self> {
        let (front, behind) = body.split_first_chunk::<8>()?;
        let (stamp, name_bytes) = (word(front, 0), word(front, 4));
        let name_bytes = (name_bytes <= MAX_MACHINE_NAME_BYTES).then_some(name_bytes as usize)?;
        let machine_name = behind.get(..name_bytes)?;
        let behind = behind.get(name_bytes + padding(name_bytes)..)?;
        let (ids, gids) = behind.split_first_chunk::<12>()?;
        let [uid, gid, count] = [word(ids, 0), word(ids, 4), word(ids, 8)];
        let whole = count <= MAX_AUTH_SYS_GIDS && gids.len() == count as usize * 4;
        whole.then_some(AuthSys {
            stamp,
            machine_name,
            uid,
            gid,
            gids,
        })
    }

    /// The supplementary groups.
    pub fn gids(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        let (words, _) = self.gids.as_chunks::<4>();
        words.iter().map(|word| u32::from_be_bytes(*word))
    }
}

/// `authsys_parms` to be written by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSysParms<'a> {
    /// Arbitrary id of the caller's machine.
    pub stamp: u32,
    /// Name of the caller's machine, 255 bytes at most.
    pub machine_name: &'a [u8],
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups, 16 at most.
    pub gids: &'a [u32],
}

impl Encode for AuthSysParms<'_> {
    /// Appends the whole `opaque_auth`: flavour, length and body.
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        AUTH_SYS.encode(out)?;
        let mut body = Vec::with_capacity(MAX_AUTH_BYTES as usize);
        self.stamp.encode(&mut body)?;
        let field = "authsys_parms.machinename";
        put_opaque(&mut body, self.machine_name, MAX_MACHINE_NAME_BYTES, field)?;
        self.uid.encode(&mut body)?;
        self.gid.encode(&mut body)?;
        put_length(
            &mut body,
            self.gids.len(),
            MAX_AUTH_SYS_GIDS,
            "authsys_parms.gids",
        )?;
        self.gids.iter().try_for_each(|gid| gid.encode(&mut body))?;
        put_opaque(out, &body, MAX_AUTH_BYTES, "opaque_auth.body")
    }
}
