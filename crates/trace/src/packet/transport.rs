//! TCP and UDP headers (RFC 9293 section 3.1, RFC 768).

use super::anomaly::{Anomalies, Anomaly};
use super::{Context, View};
use crate::block::{NO_SCALE, SYN, Sack, Segment, Transport};

/// A header with nothing but timestamps behind it, as most are, and how its options begin.
pub(super) const PLAIN_BYTES: usize = 32;
pub(super) const TIMESTAMPS_ALONE: [u8; 4] = [1, 1, 8, 10];
/// A keep-alive or window probe may carry a byte that came before (RFC 9293 section 3.8.4).
const PROBE_BYTES: u32 = 1;
/// Port of VXLAN (RFC 7348).
const VXLAN: u16 = 4789;
/// Port of RDMA over Ethernet, version 2 (InfiniBand Architecture, annex A17).
const ROCE: u16 = 4791;
/// The least of it: a base transport header, and the invariant checksum behind all.
const ROCE_BYTES: usize = 12 + 4;
/// Ports of RPC servers, whose replies may go to any port.
const NFS_AND_PORTMAPPER: [u16; 2] = [2049, 111];
/// Largest window shift (RFC 7323 section 2.3: larger ones mean this).
const MAX_SHIFT: u8 = 14;

/// The segment of an IP packet's payload.
///
/// # Errors
/// Why there is none; what is merely odd is counted.
pub(super) fn segment(
    protocol: u8,
    view: &View<'_>,
    context: &Context,
    anomalies: &mut Anomalies,
) -> Result<Segment, Anomaly> {
    match protocol {
        6 => tcp(view, context),
        17 => udp(view, context, anomalies),
        4 | 41 | 47 => Err(Anomaly::Tunnelled),
        _ => Err(Anomaly::NotTcpUdp),
    }
}

fn tcp(view: &View<'_>, context: &Context) -> Result<Segment, Anomaly> {
    let header = short(view, 20)?;
    let header: &[u8; 20] = header.first_chunk().ok_or(Anomaly::TruncatedHeaders)?;
    let header_bytes = usize::from(header[12] >> 4) * 4;
    if header_bytes < 20 || header_bytes > view.wire {
        return Err(Anomaly::MalformedTransport);
    }
    let flags = header[13];
    let mut segment = context.segment(view, header_bytes, Transport::Tcp);
    segment.source.port = u16::from_be_bytes([header[0], header[1]]);
    segment.destination.port = u16::from_be_bytes([header[2], header[3]]);
    segment.sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    segment.acknowledgement = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    segment.flags = flags;
    segment.window = u16::from_be_bytes([header[14], header[15]]);
    if header_bytes > 20 {
        let end = header_bytes.min(view.bytes.len());
        let options = view.bytes.get(20..end).unwrap_or_default();
        if flags & SYN != 0 {
            segment.window_scale = window_scale(options);
        } else if header_bytes != PLAIN_BYTES || !options.starts_with(&TIMESTAMPS_ALONE) {
            segment.sack = sack(options, segment.acknowledgement);
        }
    }
    Ok(segment)
}

/// The first block of a selective acknowledgement (kind 5): a duplicate if it lies below the
/// acknowledgement or within the second block (RFC 2883 section 4). A probe's byte tells nothing.
fn sack(options: &[u8], acknowledgement: u32) -> Option<Sack> {
    let mut options = options;
    while let [kind, rest @ ..] = options {
        match (kind, rest) {
            (0, _) => break,
            (1, _) => options = rest,
            (5, [length, blocks @ ..]) => {
                let blocks = blocks.get(..usize::from(*length).checked_sub(2)?)?;
                let (first, others) = blocks.split_first_chunk::<8>()?;
                let (left, right) = edges(first);
                let within = others
                    .first_chunk()
                    .map(edges)
                    .is_some_and(|(from, to)| is_in_front(from, left) && is_in_front(right, to));
                let old = is_in_front(right, acknowledgement);
                if old && right.wrapping_sub(left) <= PROBE_BYTES {
                    return None;
                }
                return Some(match old || within {
                    true => Sack::Duplicate,
                    false => Sack::Missing,
                });
            }
            (_, [length, ..]) if *length >= 2 => {
                options = options.get(usize::from(*length)..).unwrap_or_default();
            }
            _ => break,
        }
    }
    None
}

/// Both edges of a block.
fn edges(block: &[u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = *block;
    (
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    )
}

/// Whether a sequence number is another one, or in front of it.
fn is_in_front(one: u32, other: u32) -> bool {
    other.wrapping_sub(one).cast_signed() >= 0
}

/// The shift in a SYN's options (kind 3, RFC 7323 section 2.2).
fn window_scale(mut options: &[u8]) -> u8 {
    while let [kind, rest @ ..] = options {
        match (kind, rest) {
            (0, _) => break,
            (1, _) => options = rest,
            (3, [3, shift, ..]) => return (*shift).min(MAX_SHIFT),
            (_, [length, ..]) if *length >= 2 => {
                options = options.get(usize::from(*length)..).unwrap_or_default();
            }
            _ => break,
        }
    }
    NO_SCALE
}

fn udp(view: &View<'_>, context: &Context, anomalies: &mut Anomalies) -> Result<Segment, Anomaly> {
    let header = short(view, 8)?;
    let header: &[u8; 8] = header.first_chunk().ok_or(Anomaly::TruncatedHeaders)?;
    let stated = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut view = *view;
    // 0: a jumbogram (RFC 2675) or segmentation offload; the IP header's length holds.
    if stated != 0 {
        if stated < 8 {
            return Err(Anomaly::MalformedTransport);
        }
        if stated > view.wire {
            anomalies.count(Anomaly::LengthExceedsFrame);
        }
        view = view.first(stated);
    }
    let mut segment = context.segment(&view, 8, Transport::Udp);
    segment.source.port = u16::from_be_bytes([header[0], header[1]]);
    segment.destination.port = u16::from_be_bytes([header[2], header[3]]);
    if segment.destination.port == VXLAN {
        return Err(Anomaly::Tunnelled);
    }
    if segment.destination.port == ROCE
        && !NFS_AND_PORTMAPPER.contains(&segment.source.port)
        && is_roce(&view.skip(8))
    {
        return Err(Anomaly::Rdma);
    }
    Ok(segment)
}

/// Whether a base transport header may begin here: its version is 0 (InfiniBand Architecture,
/// section 9.2.3).
fn is_roce(view: &View<'_>) -> bool {
    view.wire >= ROCE_BYTES && view.bytes.get(1).is_none_or(|flags| flags & 0x0f == 0)
}

/// The captured bytes if the header is whole; else whose fault it is.
fn short<'a>(view: &View<'a>, header_bytes: usize) -> Result<&'a [u8], Anomaly> {
    if view.wire < header_bytes {
        Err(Anomaly::MalformedTransport)
    } else if view.bytes.len() < header_bytes {
        Err(Anomaly::TruncatedHeaders)
    } else {
        Ok(view.bytes)
    }
}
