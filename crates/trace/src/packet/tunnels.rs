//! Tunnels of clouds and overlays: where the inner packet begins.
//!
//! IP in IP (RFC 2003, RFC 2473), GRE (RFC 2784, RFC 2890), VXLAN (RFC 7348), Geneve (RFC 8926).

use super::View;
use super::link::Link;

/// Tunnels within tunnels that are followed.
pub(super) const MAX_TUNNELS: usize = 4;
const VXLAN: u16 = 4789;
const GENEVE: u16 = 6081;
const TRANSPARENT_ETHERNET: u16 = 0x6558;

/// What an IP packet's payload holds.
pub(super) enum Inside<'a> {
    /// No tunnel.
    Payload,
    /// An inner packet, and the link layer that it begins with.
    Packet(Link, View<'a>),
    /// A tunnel of something else, or one whose header is cut.
    Unknown,
}

/// Looks for a tunnel in an IP packet's payload.
#[inline]
pub(super) fn inside<'a>(protocol: u8, view: &View<'a>) -> Inside<'a> {
    match protocol {
        4 | 41 => Inside::Packet(Link::Raw, *view),
        47 => gre(view).unwrap_or(Inside::Unknown),
        17 => match u16_at(view.bytes, 2) {
            Some(VXLAN) => vxlan(view).unwrap_or(Inside::Unknown),
            Some(GENEVE) => geneve(view).unwrap_or(Inside::Payload),
            _ => Inside::Payload,
        },
        _ => Inside::Payload,
    }
}

/// A header of four bytes, and four more for each of checksum, key and sequence number.
fn gre<'a>(view: &View<'a>) -> Option<Inside<'a>> {
    let flags = u16_at(view.bytes, 0)?;
    let kind = u16_at(view.bytes, 2)?;
    // Routing of RFC 1701, and PPTP's version 1.
    if flags & 0x4007 != 0 {
        return None;
    }
    let optional = [0x8000, 0x2000, 0x1000]
        .iter()
        .filter(|&&flag| flags & flag != 0)
        .count();
    of_kind(kind, view, 4 + 4 * optional)
}

/// UDP, then flags of which one tells that there is a network's number.
fn vxlan<'a>(view: &View<'a>) -> Option<Inside<'a>> {
    let flags = view.bytes.get(8)?;
    (flags & 8 != 0).then(|| Inside::Packet(Link::Ethernet, view.skip(16)))
}

/// UDP, then eight bytes and options counted in words; bit 7 of the second byte: a control message.
fn geneve<'a>(view: &View<'a>) -> Option<Inside<'a>> {
    let [first, second] = *view.bytes.get(8..)?.first_chunk::<2>()?;
    if first >> 6 != 0 || second & 0x80 != 0 {
        return None;
    }
    let options = usize::from(first & 0x3f) * 4;
    of_kind(u16_at(view.bytes, 10)?, view, 16 + options)
}

fn of_kind<'a>(kind: u16, view: &View<'a>, header_bytes: usize) -> Option<Inside<'a>> {
    let link = match kind {
        TRANSPARENT_ETHERNET => Link::Ethernet,
        0x0800 | 0x86dd => Link::Raw,
        _ => return None,
    };
    Some(Inside::Packet(link, view.skip(header_bytes)))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}
