//! The pcapng format (draft-ietf-opsawg-pcapng).
//!
//! A file is a row of blocks, each with its length in front and behind. A section header tells the
//! byte order; interface descriptions follow, to which packets refer by number. Read are enhanced,
//! simple and obsolete packet blocks, and what interfaces dropped (statistics blocks,
//! `epb_dropcount`); all other blocks are passed over, however long.
//!
//! A block whose two lengths differ, or whose length is impossible, is damaged: the reader looks
//! for the next bytes that are a block of a known type with two equal lengths. Such a place is no
//! accident: its length stands twice, in the right distance.

use super::pcapng_block::{
    Interface, OPTION_DROPS, Order, Packet, enhanced, obsolete, options, simple, statistics_drops,
};
use super::sink::{Record, Sink};
use super::start::Refused;
use crate::packet::Anomaly;

/// Bytes of a section header that decide whether it can be read.
pub(super) const SECTION_HEADER_BYTES: usize = 16;
/// Longest block that can be true (Wireshark's and libpcap's bound).
const MAX_BLOCK_BYTES: u32 = 16 << 20;
/// Interfaces of one section that are remembered.
const MAX_INTERFACES: usize = 4096;
/// Shortest block: type and two lengths.
const MIN_BLOCK_BYTES: u32 = 12;
/// Bytes of a packet block besides the packet, without options.
const PACKET_OVERHEAD_BYTES: usize = 32;
/// Bytes of options behind a packet that are waited for, so that its trailing length is seen.
const OPTION_BYTES: usize = 1024;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const SECRETS: u32 = 10;

/// A pcapng file being read.
#[derive(Debug)]
pub(super) struct PcapNg {
    order: Order,
    frame_bytes: u32,
    interfaces: Vec<Interface>,
    /// Whether an interface of the file has a link type that is read.
    any_readable: bool,
    /// Time of the packet before, for those that have none.
    last_ns: i64,
    /// Bytes of a long block that are passed over.
    skip: u64,
    lost: bool,
    /// Of sections that ended.
    drops: u64,
}

/// What to do about the block at a place.
enum Step {
    /// Go on behind it.
    Next(usize),
    /// More bytes have to be seen.
    Later,
    Damaged,
}

impl PcapNg {
    /// From the file's first bytes, at least [`SECTION_HEADER_BYTES`].
    pub(super) fn new(bytes: &[u8], frame_bytes: u32) -> Result<Self, Refused> {
        let order = section_order(bytes)
            .ok_or_else(|| Refused::Format("pcapng with a damaged section header".to_owned()))?;
        let major = order.u16_at(bytes, 12).unwrap_or(0);
        if major != 1 {
            let found = format!("pcapng of version {major}; version 1 is read");
            return Err(Refused::Format(found));
        }
        Ok(PcapNg {
            order,
            frame_bytes,
            interfaces: Vec::new(),
            any_readable: false,
            last_ns: 0,
            skip: 0,
            lost: false,
            drops: 0,
        })
    }

    /// Whether it is looking for a plausible block.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Bytes of a long block that are still to be passed over.
    pub(super) fn missing_bytes(&self) -> u64 {
        self.skip
    }

    /// Packets dropped while they were captured. Statistics tell totals, packets what was dropped
    /// before them: of each interface the larger sum counts.
    pub(super) fn kernel_drops(&self) -> u64 {
        let of_section = self.interfaces.iter().map(Interface::drops);
        of_section.fold(self.drops, u64::saturating_add)
    }

    /// Hands all whole packets from `at` on to the sink; gives the place of what is left.
    pub(super) fn walk(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        end: bool,
        sink: &mut Sink<'_>,
    ) -> Result<usize, Refused> {
        loop {
            let skipped = self.skip.min((bytes.len() - at) as u64);
            self.skip -= skipped;
            at += skipped as usize;
            if self.lost {
                let (found, place) = self.search(bytes, at, end);
                sink.skipped(place - at);
                at = place;
                if !found {
                    return Ok(at);
                }
                self.lost = false;
            }
            match self.step(bytes, at, sink)? {
                Step::Next(next) if next > bytes.len() => {
                    self.skip = (next - bytes.len()) as u64;
                    return Ok(bytes.len());
                }
                Step::Next(next) => at = next,
                Step::Later => return Ok(at),
                Step::Damaged => {
                    sink.odd(Anomaly::DamagedPacketHeader);
                    sink.skipped(1);
                    self.lost = true;
                    at += 1;
                }
            }
        }
    }

    /// Reads the block at `at`.
    #[inline(always)]
    fn step(&mut self, bytes: &[u8], at: usize, sink: &mut Sink<'_>) -> Result<Step, Refused> {
        let rest = bytes.get(at..).unwrap_or_default();
        let (Some(kind), Some(mut total)) =
            (self.order.u32_at(rest, 0), self.order.u32_at(rest, 4))
        else {
            return Ok(Step::Later);
        };
        if kind == SECTION {
            // The length's byte order is that of the section that begins here.
            if rest.len() < SECTION_HEADER_BYTES {
                return Ok(Step::Later);
            }
            let Some(order) = section_order(rest) else {
                return Ok(Step::Damaged);
            };
            self.end_section();
            self.order = order;
            total = order.u32_at(rest, 4).unwrap_or(0);
        }
        if total.wrapping_sub(MIN_BLOCK_BYTES) > MAX_BLOCK_BYTES || !total.is_multiple_of(4) {
            return Ok(Step::Damaged);
        }
        let whole_bytes = total as usize;
        let held_bytes = self.frame_bytes as usize + PACKET_OVERHEAD_BYTES + OPTION_BYTES;
        let block = match rest.get(..whole_bytes.min(held_bytes)) {
            Some(block) => block,
            None => return Ok(Step::Later),
        };
        if whole_bytes <= held_bytes && self.order.u32_at(block, whole_bytes - 4) != Some(total) {
            return Ok(Step::Damaged);
        }
        let good = match kind {
            ENHANCED_PACKET => self.packet(bytes, at, enhanced(self.order, block), sink)?,
            SIMPLE_PACKET => {
                let snap_bytes = self.interfaces.first().map_or(0, |it| it.snap_bytes);
                self.packet(bytes, at, simple(self.order, block, snap_bytes), sink)?
            }
            OBSOLETE_PACKET => self.packet(bytes, at, obsolete(self.order, block), sink)?,
            INTERFACE => self.describe(block),
            STATISTICS => self.statistics(block),
            _ => true,
        };
        Ok(match good {
            true => Step::Next(at + whole_bytes),
            false => Step::Damaged,
        })
    }

    /// Hands a packet on; false if its block contradicts itself.
    #[inline(always)]
    fn packet(
        &mut self,
        bytes: &[u8],
        block_at: usize,
        packet: Option<Packet<'_>>,
        sink: &mut Sink<'_>,
    ) -> Result<bool, Refused> {
        let Some(packet) = packet.filter(|it| it.captured <= self.frame_bytes) else {
            return Ok(false);
        };
        let Some(interface) = self.interfaces.get_mut(packet.interface as usize) else {
            sink.odd(Anomaly::UnknownInterface);
            return Ok(true);
        };
        let time_ns = match packet.time {
            Some(time) => interface.time_ns(time),
            None => {
                sink.odd(Anomaly::NoTimestamp);
                Some(self.last_ns)
            }
        };
        let Some(time_ns) = time_ns else {
            return Ok(false);
        };
        if interface.link.is_none() && !self.any_readable {
            return Err(Refused::LinkType(interface.link_type));
        }
        interface.dropped_before(u64::from(packet.drops));
        if !packet.options.is_empty() {
            interface.dropped_before(options(self.order, packet.options, OPTION_DROPS));
        }
        self.last_ns = time_ns;
        let record = Record {
            at: block_at + packet.at,
            captured: packet.captured as usize,
            wire: packet.wire as usize,
            time_ns,
        };
        sink.frame(bytes, record, interface.link);
        Ok(true)
    }

    #[inline(never)]
    fn describe(&mut self, block: &[u8]) -> bool {
        let Some(interface) = Interface::of(self.order, block) else {
            return false;
        };
        if self.interfaces.len() < MAX_INTERFACES {
            self.any_readable |= interface.link.is_some();
            self.interfaces.push(interface);
        }
        true
    }

    #[inline(never)]
    fn statistics(&mut self, block: &[u8]) -> bool {
        let Some((interface, drops)) = statistics_drops(self.order, block) else {
            return false;
        };
        if let Some(interface) = self.interfaces.get_mut(interface as usize) {
            interface.dropped_in_all(drops);
        }
        true
    }

    fn end_section(&mut self) {
        self.drops = self.kernel_drops();
        self.interfaces.clear();
    }

    /// Finds the next block of a known type whose two lengths agree: whether it is sure, and where
    /// it or the first place that is still undecided is.
    fn search(&self, bytes: &[u8], from: usize, end: bool) -> (bool, usize) {
        for at in from..bytes.len() {
            let rest = &bytes[at..];
            if rest.len() < MIN_BLOCK_BYTES as usize {
                return (false, if end { bytes.len() } else { at });
            }
            let kind = self.order.u32_at(rest, 0).unwrap_or(0);
            // From 1 to 6 all types are known, names (4) among them. A section's type reads the
            // same in both byte orders.
            if !matches!(kind, SECTION | INTERFACE..=ENHANCED_PACKET | SECRETS) {
                continue;
            }
            let order = section_order(rest).unwrap_or(self.order);
            let total = order.u32_at(rest, 4).unwrap_or(0);
            let longest = self.frame_bytes + (PACKET_OVERHEAD_BYTES + OPTION_BYTES) as u32;
            if !total.is_multiple_of(4) || !(MIN_BLOCK_BYTES..=longest).contains(&total) {
                continue;
            }
            match order.u32_at(rest, total as usize - 4) {
                Some(again) if again == total => return (true, at),
                Some(_) => {}
                None if end => {}
                None => return (false, at),
            }
        }
        (false, bytes.len())
    }
}

/// Byte order of the section header at the front of these bytes, if it is one.
fn section_order(bytes: &[u8]) -> Option<Order> {
    let head: &[u8; 12] = bytes.first_chunk()?;
    match (&head[..4], &head[8..]) {
        (b"\x0a\x0d\x0d\x0a", b"\x1a\x2b\x3c\x4d") => Some(Order { big_endian: true }),
        (b"\x0a\x0d\x0d\x0a", b"\x4d\x3c\x2b\x1a") => Some(Order { big_endian: false }),
        _ => None,
    }
}
