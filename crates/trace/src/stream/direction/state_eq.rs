//! Whether two directions will do the same with the segments that come.
//!
//! What only old bytes are compared with (packets remembered, holes given up, the first byte) is
//! left out: that old bytes came is told by [`Direction::horizons`].

use super::Direction;

impl Direction {
    /// Whether it goes on as `other` does, unless bytes from before now are sent again, or segments
    /// come that are not well behind `since_ns`.
    pub(in crate::stream) fn state_eq(&self, other: &Self, since_ns: i64) -> bool {
        // Positions count from where reading began, 2^32 apart or not at all.
        let from_next = |it: &Self, position: u64| position.wrapping_sub(it.next);
        // What was acknowledged of the past says nothing.
        let acknowledged = |it: &Self| from_next(it, it.acknowledged.max(it.next));
        let steady = |it: &Self| {
            (
                (it.started, it.closed, it.lost, it.next as u32),
                (from_next(it, it.highest), acknowledged(it)),
                (
                    it.saw_data(),
                    it.asked_again_ns.filter(|at| *at >= since_ns),
                ),
            )
        };
        let calm = |it: &Self| it.old_run.bytes == 0 || it.old_run.end != it.next;
        steady(self) == steady(other)
            && self.held.is_none()
            && other.held.is_none()
            && calm(self)
            && calm(other)
            && self.framer.state_eq(&other.framer)
    }

    /// The next sequence number, if a record is due there, and surely.
    pub(in crate::stream) fn next_record(&self) -> Option<u32> {
        let due = self.started && !self.closed && self.acknowledged <= self.next;
        (due && self.is_quiet() && self.framer.is_sure()).then_some(self.next as u32)
    }

    /// Whether nothing of it waits for more.
    pub(in crate::stream) fn is_quiet(&self) -> bool {
        self.held.is_none() && self.framer.is_quiet()
    }

    /// A checkpoint: bytes in front of the next one are old from now on.
    pub(in crate::stream) fn note_horizon(&mut self, checkpoint: usize) {
        self.horizons.resize(checkpoint, 0);
        self.horizons.push(self.next);
    }
}
