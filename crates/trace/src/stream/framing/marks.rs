//! Record marks: the step from one record to the next.
//!
//! A whole, single-fragment record in one piece is handed on where it lies; all else goes the
//! slow way, byte by byte of the mark and with a look at what stands behind it.

use wire::limits::{MAX_FRAGMENTS_PER_RECORD, MAX_RECORD_BYTES};
use wire::record::{MARK_BYTES, RecordMark};
use wire::rpc::looks_like_tls_record;

use super::super::anomaly::Anomaly;
use super::super::plausibility::{Plausible, Trust, has_rpc_words, plausible};
use super::super::shared::Scene;
use super::super::{Message, Sink};
use super::{Framer, Role, role_of};
use crate::call::Stamp;

/// Shortest whole reply: a denied one.
const MIN_MESSAGE_BYTES: u32 = 20;

impl Framer {
    #[inline(always)]
    pub(super) fn at_mark<'b, S: Sink>(
        &mut self,
        rest: &'b [u8],
        stamp: Stamp,
        scene: &mut Scene<'_, S>,
    ) -> &'b [u8] {
        let whole_mark = rest.split_first_chunk::<MARK_BYTES>();
        if let (Some((mark, behind)), 0, 0) = (whole_mark, self.mark_bytes, self.fragments) {
            let word = u32::from_be_bytes(*mark);
            let length = (word & (u32::MAX >> 1)) as usize;
            if word >> 31 == 1
                && self.trust == Trust::Sure
                && let Some((message, behind)) = behind.split_at_checked(length)
                && has_rpc_words(message)
            {
                self.first = stamp;
                self.hand_on(message, stamp, scene);
                return behind;
            }
        }
        self.at_mark_slowly(rest, stamp, scene)
    }

    /// A whole, single-fragment record that lies in one piece.
    #[inline(always)]
    fn hand_on<S: Sink>(&mut self, message: &[u8], stamp: Stamp, scene: &mut Scene<'_, S>) {
        // A call's message type is 0.
        if self.role == Role::Unknown && message.get(7) == Some(&0) {
            self.role = role_of(message);
        }
        let ends = [scene.from, scene.to];
        let resynchronised = self.resynchronised;
        let whole = Message::whole(scene.connection, ends, message, stamp, resynchronised);
        scene.sink.message(&whole);
    }

    #[inline(never)]
    fn at_mark_slowly<'b, S: Sink>(
        &mut self,
        rest: &'b [u8],
        stamp: Stamp,
        scene: &mut Scene<'_, S>,
    ) -> &'b [u8] {
        if self.mark_bytes == 0 && self.fragments == 0 {
            self.first = stamp;
        }
        let had = usize::from(self.mark_bytes);
        let taken = (MARK_BYTES - had).min(rest.len());
        let (now, behind) = rest.split_at_checked(taken).unwrap_or((rest, &[]));
        if let Some(room) = self.mark.get_mut(had..had + taken) {
            room.copy_from_slice(now);
        }
        self.mark_bytes += taken as u8;
        if usize::from(self.mark_bytes) < MARK_BYTES {
            return behind;
        }
        self.mark_bytes = 0;
        let fits = self.fits();
        if let Some(mark) = fits {
            let there = behind.len().min(mark.length as usize);
            let front = behind.get(..there).unwrap_or_default();
            let ends = mark.last && there == mark.length as usize;
            let plausible = if self.recognised || self.fragments > 0 {
                Plausible::Yes
            } else {
                plausible(self.trust, front, ends)
            };
            if plausible != Plausible::No {
                self.recognised |= plausible == Plausible::Yes;
                // An empty last fragment ends the record with its mark.
                self.seen = stamp;
                self.begin_fragment(mark, scene);
                return behind;
            }
        }
        // Bytes taken from an earlier piece are gone; those of this one are searched again.
        self.skipped += had as u64;
        if had == 0 && self.trust != Trust::Found && looks_like_tls_record(rest) {
            self.found_tls = true;
        }
        self.lose_step(Anomaly::RecordMarkBad, scene);
        rest
    }

    /// The mark, if a record may go on with it.
    fn fits(&self) -> Option<RecordMark> {
        let mark = RecordMark::parse(self.mark).ok()?;
        let too_short = self.fragments == 0 && mark.last && mark.length < MIN_MESSAGE_BYTES;
        let too_long = self.passed.saturating_add(mark.length) > MAX_RECORD_BYTES;
        let too_many = self.fragments >= MAX_FRAGMENTS_PER_RECORD;
        (!too_short && !too_long && !too_many).then_some(mark)
    }
}
