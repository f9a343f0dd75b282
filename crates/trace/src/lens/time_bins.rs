//! Time in bins of one width, at most [`MAX_BINS`] of them whatever the capture's length.
//!
//! A capture's length is not known before its end, and it may be an hour or a millisecond. Bins
//! begin narrow; when one more would be too many, neighbours are merged and the width doubles, so
//! that at the end a long capture has between half and all of [`MAX_BINS`] bins. Sums stay exact:
//! merging adds, and no event is moved to another bin.
//!
//! Times may step back, even before the first bin: bins are then added in front.
//!
//! A bin that nobody looked at takes four bytes, so that a pause costs next to nothing.

/// Most bins kept: two for each pixel of a wide screen.
pub const MAX_BINS: usize = 4096;

/// The place of a bin that was never looked at.
const NOWHERE: u32 = u32::MAX;

/// What a bin holds.
pub trait Merge: Clone + Default {
    /// Takes in the bin that follows in time; a fresh one changes nothing.
    fn merge(&mut self, later: &Self);
}

/// Bins from the first time seen to the last.
#[derive(Clone, Debug)]
pub struct TimeBins<T> {
    /// Where each bin is held.
    places: Vec<u32>,
    held: Vec<T>,
    /// What every other bin is.
    fresh: T,
    origin_ns: i64,
    width_ns: i64,
    // The bin of the last look, and its place: most events fall into it, and a division is saved.
    last: usize,
    last_place: usize,
    last_from_ns: i64,
}

impl<T: Merge> TimeBins<T> {
    /// Empty; `width_ns` (at least 1) is the width to begin with.
    pub fn new(width_ns: i64) -> Self {
        TimeBins {
            places: Vec::new(),
            held: Vec::new(),
            fresh: T::default(),
            origin_ns: 0,
            width_ns: width_ns.max(1),
            last: 0,
            last_place: 0,
            last_from_ns: i64::MAX,
        }
    }

    /// The bin of a time, made if it is not there yet.
    #[inline(always)]
    pub fn at(&mut self, time_ns: i64) -> &mut T {
        let into = time_ns.wrapping_sub(self.last_from_ns);
        if !(0..self.width_ns).contains(&into) || self.last_place >= self.held.len() {
            self.look(time_ns);
        }
        &mut self.held[self.last_place]
    }

    #[cold]
    #[inline(never)]
    fn look(&mut self, time_ns: i64) {
        if self.places.is_empty() {
            self.origin_ns = time_ns;
            self.places.push(NOWHERE);
        }
        let mut index = self.index(time_ns);
        while index >= MAX_BINS as i128 || index < self.places.len() as i128 - MAX_BINS as i128 {
            self.double();
            index = self.index(time_ns);
        }
        if index < 0 {
            let missing = index.unsigned_abs() as usize;
            self.places
                .splice(0..0, std::iter::repeat_n(NOWHERE, missing));
            self.origin_ns = self
                .origin_ns
                .saturating_sub(self.width_ns.saturating_mul(missing as i64));
            index = 0;
        }
        let index = index as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
        }
        self.last = index;
        self.last_place = self.place(index);
        self.last_from_ns = self.from_ns(index);
    }

    /// Where the bin is held, from now on.
    #[inline(always)]
    fn place(&mut self, index: usize) -> usize {
        let place = &mut self.places[index];
        if *place == NOWHERE {
            *place = self.held.len() as u32;
            self.held.push(T::default());
        }
        *place as usize
    }

    fn index(&self, time_ns: i64) -> i128 {
        (i128::from(time_ns) - i128::from(self.origin_ns)).div_euclid(i128::from(self.width_ns))
    }

    fn double(&mut self) {
        // In the order of time again.
        let mut held: Vec<T> = Vec::with_capacity(self.held.len());
        let mut places = Vec::with_capacity(MAX_BINS);
        for pair in self.places.chunks(2) {
            let mut both = pair.iter().filter(|place| **place != NOWHERE);
            let Some(first) = both.next() else {
                places.push(NOWHERE);
                continue;
            };
            let mut merged = std::mem::take(&mut self.held[*first as usize]);
            if let Some(later) = both.next() {
                merged.merge(&self.held[*later as usize]);
            }
            places.push(held.len() as u32);
            held.push(merged);
        }
        (self.places, self.held) = (places, held);
        self.width_ns = self.width_ns.saturating_mul(2);
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
            && self.last_place < self.held.len()
        {
            visit(&mut self.held[self.last_place], to_ns - from_ns);
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
            let place = self.place(index);
            visit(&mut self.held[place], end - begin);
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

    /// How many bins there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no time was seen.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A bin by its number in the order of time; a fresh one beyond the last.
    #[inline(always)]
    pub fn bin(&self, index: usize) -> &T {
        let place = self.places.get(index).copied().unwrap_or(NOWHERE);
        self.held.get(place as usize).unwrap_or(&self.fresh)
    }

    /// All bins in the order of time.
    pub fn bins(&self) -> impl ExactSizeIterator<Item = &T> {
        (0..self.places.len()).map(|index| self.bin(index))
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
        let counts: Vec<i64> = bins.bins().map(|bin| bin.0).collect();
        assert_eq!((bins.origin_ns(), counts), (100, vec![3, 1, 0, 1]));
    }

    #[test]
    fn an_hour_and_a_step_back_stay_bounded_and_exact() {
        let mut bins = TimeBins::<Sum>::new(1_000_000);
        for millisecond in 0..3_600_000_i64 {
            bins.at(1_000_000_000_000 + millisecond * 1_000_000).0 += 1;
        }
        bins.at(999_000_000_000).0 += 1;
        assert!((MAX_BINS / 4..=MAX_BINS).contains(&bins.len()));
        assert_eq!(bins.bins().map(|bin| bin.0).sum::<i64>(), 3_600_001);
        assert!(bins.origin_ns() <= 999_000_000_000);
        // Every full bin holds one event a millisecond.
        let each = bins.width_ns() / 1_000_000;
        assert_eq!(bins.bin(bins.len() / 2).0, each);
    }

    #[test]
    fn the_wildest_times_neither_panic_nor_grow() {
        let mut bins = TimeBins::<Sum>::new(1);
        for time in [0, i64::MAX, i64::MIN, 5, i64::MIN + 1, i64::MAX - 1] {
            bins.at(time).0 += 1;
        }
        assert!(bins.len() <= MAX_BINS);
        assert_eq!(bins.bins().map(|bin| bin.0).sum::<i64>(), 6);
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
        assert_eq!(bins.bin(3).0, 2);
    }

    #[test]
    fn what_is_held_is_what_a_plain_list_would_hold() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20 {
            let mut bins = TimeBins::<Sum>::new(1);
            let mut events = Vec::new();
            let mut time = 0;
            for _ in 0..200 {
                let most = 1 << random.u32(6..14);
                time += random.i64(-50..most);
                let value = random.i64(1..100);
                bins.at(time).0 += value;
                events.push((time, value));
            }
            assert!(bins.held.len() <= events.len(), "pauses take no bins");
            let mut expected = vec![0; bins.len()];
            for (time, value) in events {
                let index = (time - bins.origin_ns()).div_euclid(bins.width_ns());
                expected[index as usize] += value;
            }
            let found: Vec<i64> = bins.bins().map(|bin| bin.0).collect();
            assert_eq!(found, expected);
        }
    }
}
