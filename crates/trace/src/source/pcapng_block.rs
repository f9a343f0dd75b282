//! The inside of pcapng blocks: interfaces, packets, statistics and their options.

use crate::packet::Link;

/// `epb_dropcount`.
pub(super) const OPTION_DROPS: u16 = 4;
const OPTION_END: u16 = 0;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
const OPTION_INTERFACE_DROPS: u16 = 5;
const OPTION_SYSTEM_DROPS: u16 = 7;
/// `drops_count` of an obsolete packet block that does not know.
const DROPS_UNKNOWN: u16 = u16::MAX;
const NS_PER_S: i64 = 1_000_000_000;
/// Furthest time from 1970: 146 years, more than a pcap file can state. The distance of any two
/// times then fits into 64 bits with its sign.
const MAX_TIME_NS: u64 = 1 << 62;

/// Byte order of a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub big_endian: bool,
}

impl Order {
    #[inline(always)]
    pub(super) fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        Some(if self.big_endian {
            word.swap_bytes()
        } else {
            word
        })
    }

    #[inline(always)]
    pub(super) fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        let word = u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        Some(if self.big_endian {
            word.swap_bytes()
        } else {
            word
        })
    }

    fn u64_of(self, bytes: &[u8]) -> Option<u64> {
        let word = u64::from_le_bytes(*bytes.first_chunk()?);
        Some(if self.big_endian {
            word.swap_bytes()
        } else {
            word
        })
    }
}

/// Options of one block: code and value, bounded by the block.
struct Options<'a> {
    order: Order,
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let code = self.order.u16_at(self.rest, 0)?;
        let length = usize::from(self.order.u16_at(self.rest, 2)?);
        let value = self.rest.get(4..4 + length)?;
        self.rest = self
            .rest
            .get(4 + length.next_multiple_of(4)..)
            .unwrap_or_default();
        (code != OPTION_END).then_some((code, value))
    }
}

/// Sum of the counters with this code among options.
#[inline(never)]
pub(super) fn options(order: Order, bytes: &[u8], code: u16) -> u64 {
    Options { order, rest: bytes }
        .filter(|(found, _)| *found == code)
        .filter_map(|(_, value)| order.u64_of(value))
        .fold(0, u64::saturating_add)
}

/// How an interface's times become nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// Units of 10^-9 or coarser: so many nanoseconds each.
    Times(u64),
    /// Finer decimal units: so many to a nanosecond.
    Divided(u64),
    /// Units of two to the power of minus this.
    Binary(u32),
}

impl Scale {
    /// From `if_tsresol`; units are microseconds where it is missing.
    fn of(resolution: Option<u8>) -> Option<Self> {
        match resolution.unwrap_or(6) {
            power @ 0..=9 => Some(Scale::Times(10_u64.pow(9 - u32::from(power)))),
            power @ 10..=28 => Some(Scale::Divided(10_u64.pow(u32::from(power) - 9))),
            power @ 128.. => Some(Scale::Binary(u32::from(power & 0x7f))),
            _ => None,
        }
    }

    #[inline(always)]
    fn to_ns(self, units: u64) -> u128 {
        match self {
            Scale::Times(factor) => u128::from(units) * u128::from(factor),
            Scale::Divided(divisor) => u128::from(units / divisor),
            Scale::Binary(power) => (u128::from(units) * NS_PER_S as u128) >> power,
        }
    }
}

/// An interface description block.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub link_type: u32,
    /// `None`: a link type that is not read.
    pub link: Option<Link>,
    /// 0: no bound.
    pub snap_bytes: u32,
    scale: Scale,
    offset_ns: i64,
    drops_in_all: u64,
    drops_before_packets: u64,
}

impl Interface {
    pub(super) fn of(order: Order, block: &[u8]) -> Option<Self> {
        let link_type = u32::from(order.u16_at(block, 8)?);
        let snap_bytes = order.u32_at(block, 12)?;
        let (mut resolution, mut offset_s) = (None, 0);
        let rest = block.get(16..block.len() - 4)?;
        for (code, value) in (Options { order, rest }) {
            match (code, value) {
                (OPTION_RESOLUTION, [power, ..]) => resolution = Some(*power),
                (OPTION_OFFSET, value) => offset_s = order.u64_of(value)? as i64,
                _ => {}
            }
        }
        Some(Interface {
            link_type,
            link: Link::of_type(link_type),
            snap_bytes,
            scale: Scale::of(resolution)?,
            offset_ns: offset_s.checked_mul(NS_PER_S)?,
            drops_in_all: 0,
            drops_before_packets: 0,
        })
    }

    /// Nanoseconds since 1970 of a time in this interface's units; `None` if it has none that is
    /// believed ([`MAX_TIME_NS`]).
    #[inline(always)]
    pub(super) fn time_ns(&self, units: u64) -> Option<i64> {
        let ns = i64::try_from(self.scale.to_ns(units)).ok()?;
        let time_ns = ns.checked_add(self.offset_ns)?;
        (time_ns.unsigned_abs() <= MAX_TIME_NS).then_some(time_ns)
    }

    pub(super) fn dropped_before(&mut self, drops: u64) {
        self.drops_before_packets = self.drops_before_packets.saturating_add(drops);
    }

    /// Statistics count from the capture's begin: the newest is the largest.
    pub(super) fn dropped_in_all(&mut self, drops: u64) {
        self.drops_in_all = self.drops_in_all.max(drops);
    }

    pub(super) fn drops(&self) -> u64 {
        self.drops_in_all.max(self.drops_before_packets)
    }
}

/// A packet within its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub interface: u32,
    /// In the interface's units.
    pub time: Option<u64>,
    pub captured: u32,
    pub wire: u32,
    /// Where its bytes begin in the block.
    pub at: usize,
    /// Packets dropped before it, of an obsolete packet block.
    pub drops: u16,
    pub options: &'a [u8],
}

/// An enhanced packet block; `None` if it contradicts itself.
#[inline(always)]
pub(super) fn enhanced(order: Order, block: &[u8]) -> Option<Packet<'_>> {
    packet(order, block, order.u32_at(block, 8)?, 0)
}

/// An obsolete packet block.
pub(super) fn obsolete(order: Order, block: &[u8]) -> Option<Packet<'_>> {
    let interface = u32::from(order.u16_at(block, 8)?);
    let drops = order.u16_at(block, 10)?;
    let drops = if drops == DROPS_UNKNOWN { 0 } else { drops };
    packet(order, block, interface, drops)
}

/// What both kinds share.
#[inline(always)]
fn packet(order: Order, block: &[u8], interface: u32, drops: u16) -> Option<Packet<'_>> {
    let head: &[u8; 28] = block.first_chunk()?;
    let word = |at: usize| order.u32_at(head, at);
    let time = u64::from(word(12)?) << 32 | u64::from(word(16)?);
    let captured = word(20)?;
    let padded = (captured as usize).next_multiple_of(4);
    // The packet lies in the block, of which only the front may be there.
    let behind = block.len().checked_sub(28 + 4)?.checked_sub(padded)?;
    let options_at = 28 + padded;
    Some(Packet {
        interface,
        time: Some(time),
        captured,
        wire: word(24)?,
        at: 28,
        drops,
        options: block.get(options_at..options_at + behind)?,
    })
}

/// A simple packet block: no time, first interface, captured up to its snap length.
pub(super) fn simple(order: Order, block: &[u8], snap_bytes: u32) -> Option<Packet<'_>> {
    let wire = order.u32_at(block, 8)?;
    let room = u32::try_from(block.len().checked_sub(16)?).ok()?;
    let snap_bytes = if snap_bytes == 0 {
        u32::MAX
    } else {
        snap_bytes
    };
    Some(Packet {
        interface: 0,
        time: None,
        captured: wire.min(snap_bytes).min(room),
        wire,
        at: 12,
        drops: 0,
        options: &[],
    })
}

/// Interface and dropped packets (`isb_ifdrop` and `isb_osdrop`) of a statistics block.
pub(super) fn statistics_drops(order: Order, block: &[u8]) -> Option<(u32, u64)> {
    let interface = order.u32_at(block, 8)?;
    let rest = block.get(20..block.len() - 4)?;
    let by_interface = options(order, rest, OPTION_INTERFACE_DROPS);
    let by_system = options(order, rest, OPTION_SYSTEM_DROPS);
    Some((interface, by_interface.saturating_add(by_system)))
}
