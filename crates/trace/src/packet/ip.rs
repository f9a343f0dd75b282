//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers.

use super::anomaly::{Anomalies, Anomaly};
use super::fragments::{Fragment, Key};
use super::{Context, Frame, View};
use crate::block::Host;

/// Extension headers that are followed: RFC 8200 section 4.1 knows six kinds, once or twice each.
const MAX_EXTENSION_HEADERS: usize = 12;

/// What an IP packet holds.
pub(super) enum Parsed<'a> {
    /// A whole payload.
    Whole {
        protocol: u8,
        view: View<'a>,
        context: Context,
    },
    /// A part of one.
    Fragment(Fragment<'a>),
}

/// Reads an IP packet; `view` begins at its header.
///
/// # Errors
/// Why there is no payload; what is merely odd is counted.
pub(super) fn packet<'a>(
    view: View<'a>,
    frame: &Frame,
    anomalies: &mut Anomalies,
) -> Result<Parsed<'a>, Anomaly> {
    match view.bytes.first() {
        None => Err(Anomaly::TruncatedHeaders),
        Some(first) => match first >> 4 {
            4 => version_4(view, frame, anomalies),
            6 => version_6(view, frame, anomalies),
            _ => Err(Anomaly::MalformedIp),
        },
    }
}

fn context(source: Host, destination: Host, frame: &Frame, ip_id: u32) -> Context {
    Context {
        source,
        destination,
        time_ns: frame.time_ns,
        first_ns: frame.time_ns,
        frame: frame.number,
        ip_id,
    }
}

/// The packet by its own length: without padding, and not longer than the frame.
fn by_length<'a>(view: View<'a>, total: usize, anomalies: &mut Anomalies) -> View<'a> {
    if total > view.wire {
        anomalies.count(Anomaly::LengthExceedsFrame);
    }
    view.first(total)
}

fn version_4<'a>(
    view: View<'a>,
    frame: &Frame,
    anomalies: &mut Anomalies,
) -> Result<Parsed<'a>, Anomaly> {
    let head: &[u8; 20] = view.bytes.first_chunk().ok_or(Anomaly::TruncatedHeaders)?;
    let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let header_bytes = usize::from(head[0] & 15) * 4;
    // 0: segmentation offload on the capturing machine; the frame knows the length.
    let total = match u16_at(2) {
        0 => view.wire,
        stated => usize::from(stated),
    };
    if header_bytes < 20 || total < header_bytes {
        return Err(Anomaly::MalformedIp);
    }
    let payload = by_length(view, total, anomalies).skip(header_bytes);
    let source = Host::from_v4([head[12], head[13], head[14], head[15]]);
    let destination = Host::from_v4([head[16], head[17], head[18], head[19]]);
    let (id, place, protocol) = (u32::from(u16_at(4)), u16_at(6), head[9]);
    let context = context(source, destination, frame, id);
    if place & 0x3fff == 0 {
        return Ok(Parsed::Whole {
            protocol,
            view: payload,
            context,
        });
    }
    let key = Key {
        source,
        destination,
        id,
        protocol,
        version: 4,
    };
    Ok(Parsed::Fragment(Fragment {
        key,
        protocol,
        offset: usize::from(place & 0x1fff) * 8,
        more: place & 0x2000 != 0,
        bytes: payload.bytes,
        wire: payload.wire,
        context,
    }))
}

fn version_6<'a>(
    view: View<'a>,
    frame: &Frame,
    anomalies: &mut Anomalies,
) -> Result<Parsed<'a>, Anomaly> {
    let head: &[u8; 40] = view.bytes.first_chunk().ok_or(Anomaly::TruncatedHeaders)?;
    // 0: a jumbogram (RFC 2675) or segmentation offload; the frame knows the length.
    let total = match u16::from_be_bytes([head[4], head[5]]) {
        0 => view.wire,
        stated => usize::from(stated) + 40,
    };
    let (mut source, mut destination) = ([0; 16], [0; 16]);
    source.copy_from_slice(&head[8..24]);
    destination.copy_from_slice(&head[24..40]);
    let (source, destination) = (Host::from_v6(source), Host::from_v6(destination));
    let view = by_length(view, total, anomalies).skip(40);
    let upper = extensions(head[6], view)?;
    let id = upper.fragment.map_or(0, |header| header.id);
    let context = context(source, destination, frame, id);
    let (protocol, view) = (upper.protocol, upper.view);
    match upper.fragment {
        Some(header) if header.offset != 0 || header.more => Ok(Parsed::Fragment(Fragment {
            key: Key {
                source,
                destination,
                id,
                protocol: 0,
                version: 6,
            },
            protocol,
            offset: header.offset,
            more: header.more,
            bytes: view.bytes,
            wire: view.wire,
            context,
        })),
        _ => Ok(Parsed::Whole {
            protocol,
            view,
            context,
        }),
    }
}

/// RFC 8200 section 4.5.
#[derive(Clone, Copy)]
struct FragmentHeader {
    offset: usize,
    more: bool,
    id: u32,
}

struct Upper<'a> {
    protocol: u8,
    view: View<'a>,
    fragment: Option<FragmentHeader>,
}

/// Follows extension headers; behind a fragment header that is none of a whole packet it stops,
/// since what follows may be the inside of anything.
fn extensions<'a>(mut protocol: u8, mut view: View<'a>) -> Result<Upper<'a>, Anomaly> {
    let mut fragment = None;
    for _ in 0..=MAX_EXTENSION_HEADERS {
        if !matches!(protocol, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140) {
            return Ok(Upper {
                protocol,
                view,
                fragment,
            });
        }
        let head: &[u8; 8] = view.bytes.first_chunk().ok_or(Anomaly::TruncatedHeaders)?;
        let header_bytes = match protocol {
            44 => 8,
            // RFC 4302 section 2.2: in words of four bytes, minus two.
            51 => (usize::from(head[1]) + 2) * 4,
            _ => (usize::from(head[1]) + 1) * 8,
        };
        if header_bytes > view.wire {
            return Err(Anomaly::MalformedIp);
        }
        view = view.skip(header_bytes);
        if protocol == 44 {
            let place = u16::from_be_bytes([head[2], head[3]]);
            let header = FragmentHeader {
                offset: usize::from(place & !7),
                more: place & 1 != 0,
                id: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            };
            fragment = Some(header);
            if header.offset != 0 || header.more {
                return Ok(Upper {
                    protocol: head[0],
                    view,
                    fragment,
                });
            }
        }
        protocol = head[0];
    }
    Err(Anomaly::MalformedIp)
}

/// Extension headers behind the fragment header, once the fragments are together.
///
/// # Errors
/// They are cut or wrong, or hold fragments again.
pub(super) fn after_fragment_header(
    protocol: u8,
    view: View<'_>,
) -> Result<(u8, View<'_>), Anomaly> {
    let upper = extensions(protocol, view)?;
    match upper.fragment {
        Some(_) => Err(Anomaly::MalformedIp),
        None => Ok((upper.protocol, upper.view)),
    }
}
