//! Maps by small numbers (threads, descriptors, files): looked up several times a line, where the
//! standard hash would take a tenth of all time.
//!
//! The seed is drawn anew for each map, so that no text can be made to fall into one bucket.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map by numbers.
pub type Numbers<K, V> = HashMap<K, V, Scattering>;

/// Makes hashers with one seed.
#[derive(Clone, Debug)]
pub struct Scattering(u64);

impl Default for Scattering {
    fn default() -> Self {
        Scattering(RandomState::new().hash_one(0_u64) | 1)
    }
}

impl BuildHasher for Scattering {
    type Hasher = Scatter;

    fn build_hasher(&self) -> Scatter {
        Scatter(self.0)
    }
}

/// Multiplies by the seed, and folds (128 bits into 64).
#[derive(Debug)]
pub struct Scatter(u64);

impl Hasher for Scatter {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let product =
            u128::from(self.0 ^ ODD.wrapping_mul(u64::from(number) + 1)) * u128::from(self.0 | 1);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u32(number as u32);
    }
}
