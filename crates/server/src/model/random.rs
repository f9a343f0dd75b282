//! Seeded randomness: SplitMix64 (Steele, Lea, Flood 2014), enough for draws of a model.

/// A stream of numbers that a seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform in 0..1 (1 excluded), 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with a probability; draws nothing for 0.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// Exponential with a mean, rounded to whole nanoseconds.
    pub fn exponential_ns(&mut self, mean_ns: u64) -> u64 {
        (-(1.0 - self.unit()).ln() * mean_ns as f64).round() as u64
    }

    /// Uniform in 0..=limit.
    pub fn up_to(&mut self, limit: u64) -> u64 {
        if limit == 0 {
            return 0;
        }
        (self.unit() * (limit as f64 + 1.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs for seed 1234567, as published with the reference implementation.
    #[test]
    fn is_splitmix64() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
        assert_eq!(random.bits(), 9_817_491_932_198_370_423);
    }

    #[test]
    fn means_are_right() {
        let mut random = Random::new(1);
        let n = 100_000;
        let mean = (0..n)
            .map(|_| random.exponential_ns(1000) as f64)
            .sum::<f64>()
            / f64::from(n);
        // Standard error 1000 / sqrt(n) = 3.2; five of them.
        assert!((mean - 1000.0).abs() < 16.0, "{mean}");
        let hits = (0..n).filter(|_| random.chance(0.25)).count() as f64;
        assert!((hits / f64::from(n) - 0.25).abs() < 0.007);
    }
}
