//! Time in bins of one width, at most [`MAX_BINS`] of them whatever the capture's length.
//!
//! A capture's length is not known before its end, and it may be an hour or a millisecond. Bins
//! begin narrow; when one more would be too many, neighbours are merged and the width doubles, so
//! that at the end a long capture has between half and all of [`MAX_BINS`] bins. Sums stay exact:
//! merging adds, and no event is moved to another bin.
//!
//! Times may step back, even before the first bin: bins are then added in front.

/// Most bins kept: two for each pixel of a wide screen.
pub const MAX_BINS: usize = 4096;

/// What a bin holds.
pub trait Merge: Clone + Default {
    /// Takes in the bin that follows in time.
    fn merge(&mut self, later: &Self);
}

/// Bins from the first time seen to the last.
#[derive(Clone, Debug)]
pub struct TimeBins<T> {
    bins: Vec<T>,
    origin_ns: i64,
    width_ns: i64,
    // The bin of the last look: most events fall into it, and a division is saved.
    last: usize,
    last_from_ns: i64,
    doublings: u32,
}

impl<T: Merge> TimeBins<T> {
    /// Empty; `width_ns` (at least 1) is the width to begin with.
    pub fn new(width_ns: i64) -> Self {
        TimeBins {
            bins: Vec::new(),
            origin_ns: 0,
            width_ns: width_ns.max(1),
            last: 0,
            last_from_ns: i64::MAX,
            doublings: 0,
        }
    }

    /// The bin of a time, made if it is not there yet.
    #[inline(always)]
    pub fn at(&mut self, time_ns: i64) -> &mut T {
        let into = time_ns.wrapping_sub(self.last_from_ns);
        if !(0..self.width_ns).contains(&into) || self.last >= self.bins.len() {
            self.look(time_ns);
        }
        &mut self.bins[self.last]
    }

    #[cold]
    #[inline(never)]
    fn look(&mut self, time_ns: i64) {
        if self.bins.is_empty() {
            self.origin_ns = time_ns;
            self.bins.push(T::default());
        }
        let mut index = self.index(time_ns);
        while index >= MAX_BINS as i128 || index < self.bins.len() as i128 - MAX_BINS as i128 {
            self.double();
            index = self.index(time_ns);
        }
        if index < 0 {
            let missing = index.unsigned_abs() as usize;
            self.bins
                .splice(0..0, std::iter::repeat_n(T::default(), missing));
            self.origin_ns = self
                .origin_ns
                .saturating_sub(self.width_ns.saturating_mul(missing as i64));
            index = 0;
        }
        let index = index as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, T::default());
        }
        self.last = index;
        self.last_from_ns = self.from_ns(index);
    }

    fn index(&self, time_ns: i64) -> i128 {
        (i128::from(time_ns) - i128::from(self.origin_ns)).div_euclid(i128::from(self.width_ns))
    }

    fn double(&mut self) {
        for pair in 0..self.bins.len().div_ceil(2) {
            let mut merged = self.bins[2 * pair].clone();
            if let Some(later) = self.bins.get(2 * pair + 1) {
                merged.merge(later);
            }
            self.bins[pair] = merged;
        }
        self.bins.truncate(self.bins.len().div_ceil(2));
        self.width_ns = self.width_ns.saturating_mul(2);
        self.doublings += 1;
    }

    /// Calls `visit` with each bin that `[from_ns, to_ns)` overlaps and the length of the overlap.
    #[inline(always)]
    pub fn span(&mut self, from_ns: i64, to_ns: i64, mut visit: impl FnMut(&mut T, i64)) {
        if to_ns <= from_ns {
            return;
        }
        // Most spans lie within the bin of the last look.
        let into = from_ns.wrapping_sub(self.last_from_ns);
        if (0..self.width_ns).contains(&into)
            && to_ns.wrapping_sub(self.last_from_ns) <= self.width_ns
            && self.last < self.bins.len()
        {
            visit(&mut self.bins[self.last], to_ns - from_ns);
            return;
        }
        self.span_of_many(from_ns, to_ns, visit);
    }

    #[inline(never)]
    fn span_of_many(&mut self, from_ns: i64, to_ns: i64, mut visit: impl FnMut(&mut T, i64)) {
        // Both ends first: looking may double the width or add bins in front.
        self.look(from_ns);
        self.look(to_ns - 1);
        let first = self.index(from_ns).max(0) as usize;
        for index in first..=self.last {
            let begin = self.from_ns(index).max(from_ns);
            let end = self.from_ns(index).saturating_add(self.width_ns).min(to_ns);
            visit(&mut self.bins[index], end - begin);
        }
    }

    /// When a bin begins.
    pub fn from_ns(&self, index: usize) -> i64 {
        self.origin_ns
            .saturating_add(self.width_ns.saturating_mul(index as i64))
    }

    /// When the first bin begins; 0 if there is none.
    pub fn origin_ns(&self) -> i64 {
        self.origin_ns
    }

    /// Width of each bin.
    pub fn width_ns(&self) -> i64 {
        self.width_ns
    }

    /// Times the width was doubled.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// All bins in the order of time.
    pub fn bins(&self) -> &[T] {
        &self.bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Sum(i64);
    impl Merge for Sum {
        fn merge(&mut self, later: &Self) {
            self.0 += later.0;
        }
    }

    #[test]
    fn a_bin_holds_what_falls_between_its_bounds() {
        let mut bins = TimeBins::<Sum>::new(10);
        for time in [100, 109, 110, 135, 100] {
            bins.at(time).0 += 1;
        }
        let counts: Vec<i64> = bins.bins().iter().map(|bin| bin.0).collect();
        assert_eq!((bins.origin_ns(), counts), (100, vec![3, 1, 0, 1]));
    }

    #[test]
    fn an_hour_and_a_step_back_stay_bounded_and_exact() {
        let mut bins = TimeBins::<Sum>::new(1_000_000);
        for millisecond in 0..3_600_000_i64 {
            bins.at(1_000_000_000_000 + millisecond * 1_000_000).0 += 1;
        }
        bins.at(999_000_000_000).0 += 1;
        assert!((MAX_BINS / 4..=MAX_BINS).contains(&bins.bins().len()));
        assert_eq!(bins.bins().iter().map(|bin| bin.0).sum::<i64>(), 3_600_001);
        assert!(bins.origin_ns() <= 999_000_000_000);
        // Every full bin holds one event a millisecond.
        let each = bins.width_ns() / 1_000_000;
        assert_eq!(bins.bins()[bins.bins().len() / 2].0, each);
    }

    #[test]
    fn the_wildest_times_neither_panic_nor_grow() {
        let mut bins = TimeBins::<Sum>::new(1);
        for time in [0, i64::MAX, i64::MIN, 5, i64::MIN + 1, i64::MAX - 1] {
            bins.at(time).0 += 1;
        }
        assert!(bins.bins().len() <= MAX_BINS);
        assert_eq!(bins.bins().iter().map(|bin| bin.0).sum::<i64>(), 6);
    }

    #[test]
    fn a_span_is_cut_at_the_bounds_of_bins() {
        let mut bins = TimeBins::<Sum>::new(10);
        bins.at(0);
        let mut parts = Vec::new();
        bins.span(7, 32, |_, overlap| parts.push(overlap));
        bins.span(30, 32, |bin, overlap| bin.0 += overlap);
        bins.span(5, 5, |_, _| parts.push(-1));
        assert_eq!(parts, [3, 10, 10, 2]);
        assert_eq!(bins.bins()[3].0, 2);
    }
}
