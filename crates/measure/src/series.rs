//! Throughput over time: bytes and operations per fixed interval.
//!
//! Bucket k counts what *completed* in [k, k+1) intervals after the start. When a run outlasts
//! [`MAX_BUCKETS`] buckets, neighbours are merged and the interval doubles, so that memory stays
//! bounded and nothing is lost; [`Series::doublings`] tells how often.

use serde::{Deserialize, Serialize};

/// Most buckets a series keeps: 100 ms intervals for almost two hours, 256 KiB.
pub const MAX_BUCKETS: usize = 1 << 16;
/// Most bytes, or operations, of a series of another process: those of a thousand can be added.
const MAX_SENT: u64 = 1 << 53;

/// What completed within one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Bytes moved.
    pub bytes: u64,
    /// Operations completed.
    pub operations: u64,
}

/// Bytes and operations per interval since a start instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Sent", try_from = "Sent")]
pub struct Series {
    start_ns: u64,
    interval_ns: u64,
    doublings: u32,
    max_buckets: usize,
    buckets: Vec<Bucket>,
    /// End of the bucket in use: spares a division per operation.
    open_until_ns: u64,
    open: Bucket,
    open_index: usize,
}

impl Series {
    /// A series that starts at `start_ns` with buckets of `interval_ns` (at least 1).
    #[must_use]
    pub fn new(start_ns: u64, interval_ns: u64) -> Self {
        Self::with_limit(start_ns, interval_ns, MAX_BUCKETS)
    }

    fn with_limit(start_ns: u64, interval_ns: u64, max_buckets: usize) -> Self {
        let interval_ns = interval_ns.max(1);
        Self {
            start_ns,
            interval_ns,
            doublings: 0,
            max_buckets,
            buckets: Vec::new(),
            open_until_ns: start_ns.saturating_add(interval_ns),
            open: Bucket::default(),
            open_index: 0,
        }
    }

    /// Counts one operation of `bytes` that completed at `now_ns` (not before earlier ones).
    #[inline]
    pub fn record(&mut self, now_ns: u64, bytes: u64) {
        if now_ns >= self.open_until_ns {
            self.turn(now_ns);
        }
        self.open.bytes += bytes;
        self.open.operations += 1;
    }

    /// Closes the bucket in use and opens the one of `now_ns`.
    #[cold]
    fn turn(&mut self, now_ns: u64) {
        self.flush();
        let mut index = self.index_of(now_ns);
        while index >= self.max_buckets {
            self.double();
            index = self.index_of(now_ns);
        }
        self.open_index = index;
        let end = (index as u64 + 1).saturating_mul(self.interval_ns);
        self.open_until_ns = self.start_ns.saturating_add(end);
    }

    fn index_of(&self, now_ns: u64) -> usize {
        usize::try_from(now_ns.saturating_sub(self.start_ns) / self.interval_ns)
            .unwrap_or(usize::MAX)
    }

    fn flush(&mut self) {
        if self.open == Bucket::default() {
            return;
        }
        if self.buckets.len() <= self.open_index {
            self.buckets.resize(self.open_index + 1, Bucket::default());
        }
        let bucket = &mut self.buckets[self.open_index];
        bucket.bytes += self.open.bytes;
        bucket.operations += self.open.operations;
        self.open = Bucket::default();
    }

    /// Merges neighbours. Only called when the open bucket was flushed.
    fn double(&mut self) {
        self.buckets = self
            .buckets
            .chunks(2)
            .map(|pair| Bucket {
                bytes: pair.iter().map(|bucket| bucket.bytes).sum(),
                operations: pair.iter().map(|bucket| bucket.operations).sum(),
            })
            .collect();
        self.interval_ns = self.interval_ns.saturating_mul(2);
        self.doublings += 1;
    }

    /// Adds a series of the same start and original interval, as another worker kept it.
    pub fn add(&mut self, mut other: Self) {
        self.flush();
        other.flush();
        while self.doublings < other.doublings {
            self.double();
        }
        while other.doublings < self.doublings {
            other.double();
        }
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), Bucket::default());
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.bytes += theirs.bytes;
            mine.operations += theirs.operations;
        }
        self.open_until_ns = 0;
    }

    /// Width of the buckets now, in nanoseconds.
    #[must_use]
    pub const fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// How often the width was doubled to stay within [`MAX_BUCKETS`].
    #[must_use]
    pub const fn doublings(&self) -> u32 {
        self.doublings
    }

    /// All buckets from the start to the last that holds anything.
    #[must_use]
    pub fn into_buckets(mut self) -> Vec<Bucket> {
        self.flush();
        self.buckets
    }
}

/// A series on its way from one process to another.
#[derive(Serialize, Deserialize)]
struct Sent {
    start_ns: u64,
    interval_ns: u64,
    doublings: u32,
    buckets: Vec<Bucket>,
}

impl From<Series> for Sent {
    fn from(mut series: Series) -> Self {
        series.flush();
        Sent {
            start_ns: series.start_ns,
            interval_ns: series.interval_ns,
            doublings: series.doublings,
            buckets: series.buckets,
        }
    }
}

impl TryFrom<Sent> for Series {
    type Error = &'static str;

    /// Refuses what no series is, or what could not be added up.
    fn try_from(sent: Sent) -> Result<Self, Self::Error> {
        let width = 1_u64.checked_shl(sent.doublings).unwrap_or(0);
        if sent.interval_ns == 0 || width == 0 || !sent.interval_ns.is_multiple_of(width) {
            return Err("a series whose interval was never doubled so often");
        }
        if sent.buckets.len() > MAX_BUCKETS {
            return Err("a series of too many buckets");
        }
        let add = |(bytes, operations): (u64, u64), bucket: &Bucket| {
            let bytes = bucket.bytes.checked_add(bytes)?;
            Some((bytes, bucket.operations.checked_add(operations)?))
        };
        match sent.buckets.iter().try_fold((0, 0), add) {
            Some((bytes, operations)) if bytes.max(operations) <= MAX_SENT => {}
            _ => return Err("a series that counts more than there can be"),
        }
        let mut series = Series::new(sent.start_ns, sent.interval_ns);
        series.doublings = sent.doublings;
        series.buckets = sent.buckets;
        // The next record finds its bucket anew.
        series.open_until_ns = 0;
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(series: Series) -> Vec<(u64, u64)> {
        series
            .into_buckets()
            .iter()
            .map(|b| (b.bytes, b.operations))
            .collect()
    }

    #[test]
    fn operations_fall_into_the_interval_they_completed_in() {
        let mut series = Series::new(1_000, 100);
        for (now, bytes) in [(1_000, 1), (1_099, 2), (1_100, 4), (1_350, 8)] {
            series.record(now, bytes);
        }
        assert_eq!(pairs(series), [(3, 2), (4, 1), (0, 0), (8, 1)]);
    }

    #[test]
    fn reaching_the_limit_merges_neighbours_and_loses_nothing() {
        let mut series = Series::with_limit(0, 10, 4);
        for now in 0..100 {
            series.record(now, 1);
        }
        assert_eq!((series.interval_ns(), series.doublings()), (40, 2));
        assert_eq!(pairs(series), [(40, 40), (40, 40), (20, 20)]);
    }

    #[test]
    fn workers_that_doubled_differently_add_up() {
        let mut short = Series::with_limit(0, 10, 4);
        short.record(5, 1);
        short.record(15, 1);
        let mut long = Series::with_limit(0, 10, 4);
        long.record(95, 7);
        short.add(long);
        assert_eq!(short.interval_ns(), 40);
        assert_eq!(pairs(short), [(2, 2), (0, 0), (7, 1)]);
    }

    #[test]
    fn a_series_is_the_same_after_a_way_through_json() {
        let mut series = Series::with_limit(5, 10, 4);
        for now in [5, 44, 75, 95] {
            series.record(now, 3);
        }
        let text = serde_json::to_string(&series).unwrap();
        let mut sent: Series = serde_json::from_str(&text).unwrap();
        assert_eq!((sent.interval_ns(), sent.doublings()), (40, 2));
        let mut other = Series::new(5, 10);
        other.record(15, 4);
        sent.add(other);
        sent.record(90, 1);
        assert_eq!(pairs(sent), [(10, 3), (3, 1), (4, 2)]);
        for (was, is) in [
            ("\"doublings\":2", "\"doublings\":4"),
            ("\"doublings\":2", "\"doublings\":4000000000"),
            ("\"interval_ns\":40", "\"interval_ns\":0"),
            ("\"bytes\":3", "\"bytes\":18446744073709551615"),
        ] {
            assert!(text.contains(was), "{text}");
            let read = serde_json::from_str::<Series>(&text.replace(was, is));
            assert!(read.is_err(), "{is}");
        }
    }

    #[test]
    fn a_series_can_go_on_after_adding() {
        let mut series = Series::new(0, 10);
        series.record(25, 1);
        series.add(Series::new(0, 10));
        series.record(31, 2);
        assert_eq!(pairs(series), [(0, 0), (0, 0), (1, 1), (2, 1)]);
    }
}
