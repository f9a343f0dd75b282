//! Sizes of requests: by powers of two, and the most common exact ones.

use hashbrown::HashMap;
use serde_json::{Value, json};

/// Different sizes counted exactly; further ones are counted together.
const MAX_EXACT: usize = 256;
/// Exact sizes shown.
const SHOWN: usize = 12;

/// Sizes of one operation.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    powers: [u64; 65],
    exact: HashMap<u64, u64>,
    other: u64,
    // Runs of one size are the rule: they are counted here and added at their end.
    run: (u64, u64),
    pub count: u64,
    pub bytes: u128,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            powers: [0; 65],
            exact: HashMap::new(),
            other: 0,
            run: (0, 0),
            count: 0,
            bytes: 0,
        }
    }
}

impl Sizes {
    /// Adds a request.
    #[inline(always)]
    pub fn add(&mut self, size: u64) {
        self.count += 1;
        self.bytes += u128::from(size);
        self.powers[(64 - size.leading_zeros()) as usize] += 1;
        if size == self.run.0 {
            self.run.1 += 1;
        } else {
            self.end_run();
            self.run = (size, 1);
        }
    }

    fn end_run(&mut self) {
        let (size, count) = std::mem::take(&mut self.run);
        if count == 0 {
            return;
        }
        if let Some(known) = self.exact.get_mut(&size) {
            *known += count;
        } else if self.exact.len() < MAX_EXACT {
            self.exact.insert(size, count);
        } else {
            self.other += count;
        }
    }

    /// `by_power_of_two` (from `from_bytes` to below twice that), `common`, `other_calls`.
    pub fn json(&mut self) -> Value {
        self.end_run();
        let powers: Vec<Value> = self
            .powers
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(power, count)| {
                let from_bytes = if power == 0 { 0 } else { 1_u64 << (power - 1) };
                json!({"from_bytes": from_bytes, "calls": count})
            })
            .collect();
        let mut common: Vec<(u64, u64)> = self.exact.iter().map(|(a, b)| (*b, *a)).collect();
        common.sort_unstable_by_key(|&(count, size)| (std::cmp::Reverse(count), size));
        common.truncate(SHOWN);
        let common: Vec<Value> = common
            .into_iter()
            .map(|(count, size)| json!({"bytes": size, "calls": count}))
            .collect();
        json!({
            "by_power_of_two": powers,
            "common": common,
            "not_told_apart": self.other,
            "mean_bytes": (self.count > 0).then(|| self.bytes as f64 / self.count as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_by_power_and_exactly() {
        let mut sizes = Sizes::default();
        for size in [0, 1, 4095, 4096, 4096, 8191, 4096, 4097] {
            sizes.add(size);
        }
        let json = sizes.json();
        let powers = json!([
            {"from_bytes": 0, "calls": 1},
            {"from_bytes": 1, "calls": 1},
            {"from_bytes": 2048, "calls": 1},
            {"from_bytes": 4096, "calls": 5},
        ]);
        assert_eq!(json["by_power_of_two"], powers);
        assert_eq!(json["common"][0], json!({"bytes": 4096, "calls": 3}));
        assert_eq!(json["not_told_apart"], 0);
    }

    #[test]
    fn sizes_without_end_stay_bounded() {
        let mut sizes = Sizes::default();
        (0..10_000).for_each(|size| sizes.add(size));
        sizes.add(u64::MAX);
        let json = sizes.json();
        assert_eq!(sizes.exact.len(), MAX_EXACT);
        assert_eq!(json["not_told_apart"], 10_001 - MAX_EXACT);
    }
}
