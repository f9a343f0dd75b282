//! Finding the next record: behind a hole, and in streams that the capture did not see begin.
//!
//! Every offset is looked at, most are refused by three bytes. What looks like a call is believed
//! unless bytes behind its end say otherwise. A reply's header is weaker: it has to stand at the
//! front of a segment (as most do), to be awaited by its xid, or to be followed by another record.
//! A header that goes on in the next segment is carried over to it. Records found this way are
//! marked [`super::Message::resynchronised`]; the next one has to look like a record again.
//!
//! Limits: a record whose first fragment is shorter than its RPC header is not found, the one
//! behind it is.

use wire::limits::MAX_RECORD_BYTES;
use wire::record::{MARK_BYTES, RecordMark};
use wire::rpc::looks_like_tls_record;
use wire::rpc::recognise::{Found, looks_like_record};

use super::Sink;
use super::anomaly::Anomaly;
use super::framing::{Framer, Step};
use super::plausibility::Trust;
use super::shared::Scene;
use crate::call::Stamp;

/// Longest front of a record that is needed to judge it: mark, fixed words, longest verifier.
const DECISIVE_BYTES: usize = MARK_BYTES + 24 + 400;
/// Mark and fixed words of a call.
const CALL_BYTES: usize = MARK_BYTES + 24;
/// What a connection of iWARP begins with, from either side (RFC 5044 section 7.1.1).
const MPA_KEYS: [&[u8]; 2] = [b"MPA ID Req Frame", b"MPA ID Rep Frame"];
const MIN_CALL_BYTES: u32 = 40;
const MIN_REPLY_BYTES: u32 = 20;
/// Segments from which carried bytes may come; a header in more pieces is not searched for.
const MAX_CARRIED_SEGMENTS: usize = 64;
/// What a carry is charged: its bytes and stamps.
pub(super) const CARRY_BYTES: usize = DECISIVE_BYTES + MAX_CARRIED_SEGMENTS * 24;

/// Bytes at the end of a segment that may begin a record, with the segments they came from.
#[derive(Debug, Default)]
pub(super) struct Carry {
    bytes: Vec<u8>,
    /// Offset in `bytes` from which on this segment's bytes lie.
    stamps: Vec<(usize, Stamp)>,
}

enum Verdict<'a> {
    Yes(RecordMark, Found<'a>),
    No,
    /// It may be one; more bytes will tell.
    Open,
}

impl Framer {
    /// Looks for a record in the next bytes; returns those from its mark on.
    #[inline(never)]
    pub(super) fn search<'b, S: Sink>(
        &mut self,
        rest: &'b [u8],
        stamp: Stamp,
        scene: &mut Scene<'_, S>,
    ) -> &'b [u8] {
        if let Some(carry) = self.take_carry(scene)
            && let Some(rest) = self.search_carried(carry, rest, stamp, scene)
        {
            return rest;
        }
        let untouched = self.skipped == 0 && !self.found_rpc && !self.lost_step;
        if untouched {
            self.found_tls |= looks_like_tls_record(rest);
            self.found_mpa |= MPA_KEYS.iter().any(|key| rest.starts_with(key));
        }
        self.begun_within |= !(untouched && self.trust == Trust::Fresh && begins_with_record(rest));
        let mut at = 0;
        while let Some(offset) = candidate(rest, at) {
            let front = rest.get(offset..).unwrap_or_default();
            match judge(front) {
                Verdict::Yes(mark, found) if credible(mark, &found, front, offset, scene) => {
                    self.skipped += offset as u64;
                    self.found(scene);
                    return front;
                }
                Verdict::Open => {
                    self.skipped += offset as u64;
                    let mut carry = Carry::default();
                    carry.append(front, stamp);
                    self.put_carry(carry, scene);
                    return &[];
                }
                _ => at = offset + 1,
            }
        }
        self.skipped += rest.len() as u64;
        &[]
    }

    /// Looks for a record that begins in carried bytes. `None`: there is none.
    fn search_carried<'b, S: Sink>(
        &mut self,
        mut carry: Carry,
        rest: &'b [u8],
        stamp: Stamp,
        scene: &mut Scene<'_, S>,
    ) -> Option<&'b [u8]> {
        let carried = carry.bytes.len();
        let all_joined = rest.len() <= DECISIVE_BYTES;
        let joined = rest.get(..rest.len().min(DECISIVE_BYTES))?;
        carry.append(joined, stamp);
        let mut at = 0;
        while let Some(offset) = candidate(&carry.bytes, at).filter(|offset| *offset < carried) {
            let front = carry.bytes.get(offset..).unwrap_or_default();
            match judge(front) {
                Verdict::Yes(mark, found) if credible(mark, &found, front, usize::MAX, scene) => {
                    self.skipped += offset as u64;
                    self.found(scene);
                    let first = carry.stamp_at(offset);
                    let front = carry.bytes.get(offset..carried).unwrap_or_default();
                    self.bytes_of_found_record(front, first, scene);
                    return Some(rest);
                }
                Verdict::Open if all_joined => {
                    self.skipped += offset as u64;
                    carry.drop_front(offset);
                    self.put_carry(carry, scene);
                    return Some(&[]);
                }
                _ => at = offset + 1,
            }
        }
        self.skipped += carried as u64;
        None
    }

    fn found<S: Sink>(&mut self, scene: &mut Scene<'_, S>) {
        if self.lost_step {
            scene.shared.anomalies.count(Anomaly::Resynchronised);
        }
        let skipped = std::mem::take(&mut self.skipped);
        scene
            .shared
            .anomalies
            .add(Anomaly::UnsynchronisedBytes, skipped);
        self.lost_step = false;
        self.step = Step::Mark;
        self.trust = Trust::Found;
        self.recognised = true;
        self.resynchronised = true;
    }

    fn take_carry<S: Sink>(&mut self, scene: &mut Scene<'_, S>) -> Option<Carry> {
        let carry = self.carry.take()?;
        scene.shared.release_partial(CARRY_BYTES);
        Some(*carry)
    }

    fn put_carry<S: Sink>(&mut self, carry: Carry, scene: &mut Scene<'_, S>) {
        let small = carry.stamps.len() <= MAX_CARRIED_SEGMENTS;
        if small && scene.shared.reserve_partial(CARRY_BYTES) {
            self.carry = Some(Box::new(carry));
        } else {
            self.skipped += carry.bytes.len() as u64;
        }
    }

    /// Passes over carried bytes: what follows them is missing.
    pub(super) fn drop_carry<S: Sink>(&mut self, scene: &mut Scene<'_, S>) {
        if let Some(carry) = self.take_carry(scene) {
            self.skipped += carry.bytes.len() as u64;
        }
    }
}

impl Carry {
    fn append(&mut self, bytes: &[u8], stamp: Stamp) {
        self.stamps.push((self.bytes.len(), stamp));
        self.bytes.extend_from_slice(bytes);
    }

    fn stamp_at(&self, offset: usize) -> Stamp {
        let behind = self.stamps.partition_point(|(from, _)| *from <= offset);
        self.stamps
            .get(behind.saturating_sub(1))
            .map_or_else(Stamp::default, |(_, stamp)| *stamp)
    }

    fn drop_front(&mut self, bytes: usize) {
        let behind = self.stamps.partition_point(|(from, _)| *from <= bytes);
        self.stamps.drain(..behind.saturating_sub(1));
        for (from, _) in &mut self.stamps {
            *from = from.saturating_sub(bytes);
        }
        self.bytes.drain(..bytes.min(self.bytes.len()));
    }
}

/// First offset from `at` on where a record may begin, by the cheapest signs: its length and the
/// message type, as far as they are there.
#[inline]
fn candidate(bytes: &[u8], at: usize) -> Option<usize> {
    const LENGTHS: std::ops::RangeInclusive<u32> = MIN_REPLY_BYTES..=MAX_RECORD_BYTES;
    let mut at = at;
    while let Some(window) = bytes.get(at..at + 12) {
        if let [m0, m1, m2, m3, .., 0, 0, 0, 0 | 1] = window
            && LENGTHS.contains(&u32::from_be_bytes([m0 & 0x7f, *m1, *m2, *m3]))
        {
            return Some(at);
        }
        at += 1;
    }
    let highest = (MAX_RECORD_BYTES >> 24) as u8;
    let rest = bytes.get(at..)?;
    rest.iter()
        .position(|mark| mark & 0x7f <= highest)
        .map(|offset| at + offset)
}

/// Whether `front` begins a record.
fn judge(front: &[u8]) -> Verdict<'_> {
    let Some((mark, message)) = front.split_first_chunk::<MARK_BYTES>() else {
        return Verdict::Open;
    };
    let Ok(mark) = RecordMark::parse(*mark) else {
        return Verdict::No;
    };
    if mark.length < MIN_REPLY_BYTES {
        return Verdict::No;
    }
    if let Some((mark, found)) = looks_like_record(front) {
        return Verdict::Yes(mark, found);
    }
    let behind_xid = message.get(4..).unwrap_or_default();
    let call_words = [0, 0, 0, 0, 0, 0, 0, 2];
    let looks_like_call = agree(behind_xid, &call_words) && mark.length >= MIN_CALL_BYTES;
    let accepted = agree(behind_xid, &[0, 0, 0, 1, 0, 0, 0, 0]);
    let looks_like_reply = accepted || agree(behind_xid, &[0, 0, 0, 1, 0, 0, 0, 1]);
    let reply_bytes = (mark.length as usize + MARK_BYTES).min(DECISIVE_BYTES);
    if looks_like_call && front.len() < CALL_BYTES || looks_like_reply && front.len() < reply_bytes
    {
        Verdict::Open
    } else {
        Verdict::No
    }
}

/// Whether a record is found in front, without a look at what follows.
fn begins_with_record(rest: &[u8]) -> bool {
    candidate(rest, 0) == Some(0) && matches!(judge(rest), Verdict::Yes(..))
}

/// Whether two stretches are equal as far as both go.
fn agree(bytes: &[u8], pattern: &[u8]) -> bool {
    bytes.iter().zip(pattern).all(|(one, other)| one == other)
}

/// Whether what looks like a record is to be believed.
fn credible<S: Sink>(
    mark: RecordMark,
    found: &Found<'_>,
    front: &[u8],
    offset: usize,
    scene: &Scene<'_, S>,
) -> bool {
    let behind = front.get(MARK_BYTES + mark.length as usize..);
    let followed = match behind {
        Some(behind) if mark.last && !behind.is_empty() => match judge(behind) {
            Verdict::No => return false,
            Verdict::Yes(..) => true,
            Verdict::Open => false,
        },
        _ => false,
    };
    match found {
        Found::Call(_) => true,
        Found::Reply(reply) => {
            let (from, to) = (scene.from, scene.to);
            followed
                || offset == 0
                || !scene.calls_known
                || scene.sink.expects(scene.connection, from, to, reply.xid)
        }
    }
}
