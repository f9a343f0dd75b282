//! Points kept besides the counts when there are too many calls to keep each: a fair sample, and
//! the slowest.

use super::Point;
use super::word::{CODE_MASK, UNANSWERED};

/// Every call with the same chance of 1 in `k`, `k` a power of two that grows as needed.
///
/// Which ones is decided by a hash of the call's number and the seed, so that two passes over one
/// capture pick the same calls.
#[derive(Debug)]
pub(super) struct Sample {
    limit: usize,
    seed: u64,
    mask: u64,
    kept: Vec<(u64, Point)>,
}

/// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): all bits of the result depend on all of the
/// number's.
#[inline]
fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Sample {
    pub(super) fn new(limit: usize, seed: u64) -> Self {
        Sample {
            limit: limit.max(1),
            seed,
            mask: 0,
            kept: Vec::new(),
        }
    }

    /// Offers call `number`.
    #[inline]
    pub(super) fn offer(&mut self, number: u64, point: &Point) {
        let hash = mix(number ^ self.seed);
        if hash & self.mask != 0 {
            return;
        }
        self.keep(hash, point);
    }

    #[cold]
    fn keep(&mut self, hash: u64, point: &Point) {
        self.kept.push((hash, *point));
        while self.kept.len() > self.limit && self.mask < u64::MAX >> 1 {
            self.mask = self.mask << 1 | 1;
            let mask = self.mask;
            self.kept.retain(|(hash, _)| hash & mask == 0);
        }
    }

    /// The `k` of "1 in k".
    pub(super) fn one_in(&self) -> u64 {
        self.mask + 1
    }

    /// The points, by time.
    pub(super) fn take(&mut self) -> Vec<Point> {
        let mut points: Vec<Point> = std::mem::take(&mut self.kept)
            .into_iter()
            .map(|(_, point)| point)
            .collect();
        points.sort_unstable_by_key(|point| point.key);
        points
    }
}

/// All answered calls from some latency on, as many as fit.
#[derive(Debug)]
pub(super) struct Slowest {
    limit: usize,
    from_code: u16,
    kept: Vec<Point>,
}

impl Slowest {
    pub(super) fn new(limit: usize) -> Self {
        Slowest {
            limit: limit.max(1),
            from_code: 0,
            kept: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn offer(&mut self, point: Point) {
        let code = point.word() & CODE_MASK;
        if code < self.from_code || code == UNANSWERED {
            return;
        }
        self.kept.push(point);
        if self.kept.len() >= self.limit * 2 {
            self.shed();
        }
    }

    // Raises the threshold to the lowest code from which all calls fit: "all" stays true.
    fn shed(&mut self) {
        let mut counts = vec![0_usize; usize::from(CODE_MASK) + 1];
        for point in &self.kept {
            if let Some(count) = counts.get_mut(usize::from(point.word() & CODE_MASK)) {
                *count += 1;
            }
        }
        let mut fitting = 0;
        let mut from = usize::from(CODE_MASK) + 1;
        while let Some(count) = from.checked_sub(1).and_then(|code| counts.get(code))
            && fitting + count <= self.limit
        {
            fitting += count;
            from -= 1;
        }
        self.from_code = from as u16;
        let from_code = self.from_code;
        self.kept
            .retain(|point| point.word() & CODE_MASK >= from_code);
    }

    /// The code from which all answered calls are here, and they, by time.
    pub(super) fn take(&mut self) -> (u16, Vec<Point>) {
        if self.kept.len() > self.limit {
            self.shed();
        }
        let mut points = std::mem::take(&mut self.kept);
        points.sort_unstable_by_key(|point| point.key);
        (self.from_code, points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_fair_and_the_same_each_time() {
        let run = || {
            let mut sample = Sample::new(1000, 7);
            for number in 0..100_000_u64 {
                sample.offer(number, &Point::new(number, 5, number as u32, 0));
            }
            (sample.one_in(), sample.take())
        };
        let (k, points) = run();
        assert_eq!(k, 128);
        // Binomial with n 100,000 and p 1/128: mean 781, standard deviation 28.
        assert!((670..=893).contains(&points.len()), "{}", points.len());
        let early = points.iter().filter(|p| p.step() < 50_000).count();
        assert!((300..=481).contains(&early), "{early}");
        assert_eq!(run(), (k, points));
    }

    #[test]
    fn all_of_the_slowest_are_kept() {
        let mut slowest = Slowest::new(100);
        for number in 0..10_000_u64 {
            let code = (number * 7919 % 4000) as u16;
            slowest.offer(Point::new(number, code, 1, 0));
        }
        let (from, points) = slowest.take();
        let want = (0..10_000_u64)
            .filter(|n| (n * 7919 % 4000) as u16 >= from)
            .count();
        assert_eq!(points.len(), want);
        assert!(want <= 100 && want > 90, "{want}");
        assert!(points.windows(2).all(|w| w[0].key <= w[1].key));
    }

    #[test]
    fn equal_latencies_that_do_not_fit_are_left_out_together() {
        let mut slowest = Slowest::new(10);
        for number in 0..50_u64 {
            slowest.offer(Point::new(number, 700, 1, 0));
        }
        let (from, points) = slowest.take();
        assert_eq!((from, points.len()), (701, 0));
    }
}
