//! Pseudo-random numbers: fast, seeded, the same on every machine.
//!
//! xoshiro256++ (Blackman and Vigna, <https://prng.di.unimi.it>, public domain) seeded by
//! splitmix64 as its authors advise. Not for secrets.

/// A seeded stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random([u64; 4]);

impl Random {
    /// The stream of `seed`; different `streams` of one seed are independent.
    #[must_use]
    pub fn new(seed: u64, streams: &[u64]) -> Self {
        let mut state = seed;
        for &stream in streams {
            state = splitmix(&mut state) ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Self(std::array::from_fn(|_| splitmix(&mut state)))
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `bound` (at least 1), by multiplication (Lemire); bias below bound / 2^64.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Uniform in [0, 1): 53 bits.
    #[inline]
    #[allow(clippy::cast_precision_loss)]
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) as f64) * 2.0_f64.powi(-53)
    }

    /// True with probability `share`.
    #[inline]
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Exponential with mean 1: the gaps of a Poisson process of rate 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln() // 1 - u is never 0
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

const fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_published_sequence() {
        // Seed 1234567, from the reference C implementation (prng.di.unimi.it/splitmix64.c).
        let mut state = 1_234_567;
        let words: Vec<u64> = (0..3).map(|_| splitmix(&mut state)).collect();
        let reference = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(words, reference);
    }

    #[test]
    fn xoshiro_gives_the_published_sequence() {
        // State 1, 2, 3, 4: the vector of rand_xoshiro, made with xoshiro256plusplus.c.
        let mut random = Random([1, 2, 3, 4]);
        let words: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(
            words,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386
            ]
        );
    }

    #[test]
    fn below_is_uniform_and_chance_keeps_its_share() {
        let mut random = Random::new(7, &[1]);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[usize::try_from(random.below(10)).unwrap()] += 1;
        }
        // 10,000 expected each, standard deviation 95: five of them.
        assert!(
            seen.iter().all(|&count| count.abs_diff(10_000) < 475),
            "{seen:?}"
        );
        let hits = (0..100_000).filter(|_| random.chance(0.1)).count();
        assert!(hits.abs_diff(10_000) < 475, "{hits}");
        assert!(!(0..1000).any(|_| random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
    }

    #[test]
    fn exponential_gaps_have_mean_and_variance_one() {
        let mut random = Random::new(3, &[]);
        let gaps: Vec<f64> = (0..200_000).map(|_| random.exponential()).collect();
        let mean = gaps.iter().sum::<f64>() / 200_000.0;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 200_000.0;
        // Standard errors: 1/sqrt(n) = 0.0022 and sqrt(8/n) = 0.0063; five of them.
        assert!((mean - 1.0).abs() < 0.011, "{mean}");
        assert!((variance - 1.0).abs() < 0.032, "{variance}");
    }

    #[test]
    fn streams_differ() {
        let first = Random::new(1, &[0, 1]).next_u64();
        assert_ne!(first, Random::new(1, &[1, 0]).next_u64());
        assert_ne!(first, Random::new(2, &[0, 1]).next_u64());
        assert_eq!(first, Random::new(1, &[0, 1]).next_u64());
    }
}
