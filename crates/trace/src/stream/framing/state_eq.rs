//! Whether two framers will do the same with the bytes that come.

use super::super::plausibility::Trust;
use super::{Framer, Step};

impl Framer {
    /// Whether it goes on as `other` does. Frame numbers are left out: they count from where
    /// reading began.
    pub(in crate::stream) fn state_eq(&self, other: &Self) -> bool {
        let steady = |it: &Self| {
            (
                (it.step, it.trust, it.role, it.found_rpc, it.found_tls),
                (it.found_mpa, it.recognised, it.resynchronised, it.passed),
                (it.mark_bytes, it.fragments, it.skipped, it.lost_step),
            )
        };
        // What is written anew when a record begins.
        let under_way = |it: &Self| {
            (
                (it.missing, it.last, it.mark, it.left),
                (it.first.time_ns, it.seen.time_ns),
            )
        };
        steady(self) == steady(other)
            && (self.is_at_record() || under_way(self) == under_way(other))
            && self.kept == other.kept
            && self.carry.is_none()
            && other.carry.is_none()
    }

    /// Whether a record is due, as after many.
    pub(in crate::stream) fn is_sure(&self) -> bool {
        let plain = !self.resynchronised && !self.recognised && !self.lost_step && !self.found_tls;
        self.step == Step::Mark && self.trust == Trust::Sure && plain && self.skipped == 0
    }

    /// Whether nothing is under way.
    pub(in crate::stream) fn is_quiet(&self) -> bool {
        self.is_at_record() && self.carry.is_none()
    }
}
