//! Stable memory before the disk: it takes writes at once until it is full, and drains steadily.
//!
//! Exact in integers: contents are kept in byte-nanoseconds per second (bytes times 1e9), so that
//! a drain over any number of nanoseconds loses nothing to rounding.

const SCALE: u128 = 1_000_000_000;

/// The memory's state as of an instant.
#[derive(Clone, Debug)]
pub struct Nvram {
    size: u128,
    rate: u128,
    used: u128,
    as_of_ns: u64,
}

impl Nvram {
    /// Empty; drains at `rate_bytes_per_s` (above 0).
    pub fn new(size_bytes: u64, rate_bytes_per_s: u64) -> Self {
        Nvram {
            size: u128::from(size_bytes) * SCALE,
            rate: u128::from(rate_bytes_per_s.max(1)),
            used: 0,
            as_of_ns: 0,
        }
    }

    /// Takes bytes that came at `now_ns`; returns when they are in: at once if they fit, else when
    /// enough has drained. First come, first served.
    pub fn take(&mut self, bytes: u64, now_ns: u64) -> u64 {
        let at_ns = now_ns.max(self.as_of_ns);
        let drained = u128::from(at_ns - self.as_of_ns) * self.rate;
        self.used = self.used.saturating_sub(drained) + u128::from(bytes) * SCALE;
        let over = self.used.saturating_sub(self.size);
        let wait = over.div_ceil(self.rate);
        self.used = self.used.saturating_sub(wait * self.rate);
        self.as_of_ns = at_ns.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX));
        self.as_of_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_until_full_then_at_the_disks_speed() {
        // 1000 bytes, 1 byte per microsecond.
        let mut nvram = Nvram::new(1000, 1_000_000);
        assert_eq!(nvram.take(600, 0), 0);
        assert_eq!(nvram.take(400, 0), 0);
        assert_eq!(nvram.take(100, 0), 100_000);
        assert_eq!(nvram.take(100, 0), 200_000);
        // Half a millisecond later 500 bytes are free again.
        assert_eq!(nvram.take(500, 700_000), 700_000);
        assert_eq!(nvram.take(1, 700_000), 701_000);
        // More than fits at all: what is above the size drains first.
        let mut nvram = Nvram::new(1000, 1_000_000);
        assert_eq!(nvram.take(1500, 0), 500_000);
        // Long idle: empty, not negative.
        assert_eq!(nvram.take(1000, 10_000_000), 10_000_000);
        assert_eq!(nvram.take(1, 10_000_000), 10_001_000);
    }
}
