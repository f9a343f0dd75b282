//! Latency histograms of many rows in one bounded pool.
//!
//! A row's histogram is a chain of blocks, one per kind of call and power of two that occurred,
//! each cut into `PARTS` equal parts: rows with few calls stay small, however many rows there are.
//! The quantile given is the middle of its part, so it is off by at most `1 / (2 * PARTS)` of its
//! value ([`Pool::RELATIVE_ERROR`]). When the pool is full, a latency is not held and the caller is
//! told: such a row has no quantiles any more, rather than wrong ones.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::latencies::{part, rank};
use super::operations::Unfit;

const NONE: u32 = u32::MAX;

/// Counts one more; false if that many cannot be told.
#[inline(always)]
fn add(count: &mut u32) -> bool {
    let room = *count < u32::MAX;
    *count += u32::from(room);
    room
}

#[derive(Clone, Copy, Debug)]
struct Block<const PARTS: usize> {
    counts: [u32; PARTS],
    next: u32,
    /// Bits of its values: 0 holds the value 0, 1 the value 1, 2 the values 2 and 3, ...
    bits: u8,
    kind: u8,
}

/// A row's blocks.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    head: u32,
    last: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Chain {
            head: NONE,
            last: NONE,
        }
    }
}

/// The blocks of all rows. `PARTS` is a power of two.
#[derive(Debug)]
pub struct Pool<const PARTS: usize> {
    blocks: Vec<Block<PARTS>>,
    most: usize,
}

impl<const PARTS: usize> Pool<PARTS> {
    /// Largest error of a quantile, relative to the true one, above or below.
    pub const RELATIVE_ERROR: f64 = 0.5 / PARTS as f64;
    const SHIFT: u32 = PARTS.ilog2();

    /// An empty pool that grows to `most` blocks.
    pub fn new(most: usize) -> Self {
        Pool {
            blocks: Vec::new(),
            most: most.min(NONE as usize),
        }
    }

    /// Counts a latency in a row's chain; false if there was no room for it.
    #[inline(always)]
    #[must_use]
    pub fn record(&mut self, chain: &mut Chain, kind: u8, value: u64) -> bool {
        let bits = (64 - value.leading_zeros()) as u8;
        match self.blocks.get_mut(chain.last as usize) {
            Some(block) if block.bits == bits && block.kind == kind => {
                add(&mut block.counts[Self::part(value, bits)])
            }
            _ => self.record_elsewhere(chain, kind, value, bits),
        }
    }

    #[inline]
    fn record_elsewhere(&mut self, chain: &mut Chain, kind: u8, value: u64, bits: u8) -> bool {
        let Some(at) = self.block(chain, kind, bits) else {
            return false;
        };
        add(&mut self.blocks[at as usize].counts[Self::part(value, bits)])
    }

    /// The chain's block of this kind and so many bits, which is then its last one used; `None` if
    /// there is no room for it.
    #[inline(always)]
    fn block(&mut self, chain: &mut Chain, kind: u8, bits: u8) -> Option<u32> {
        let mut at = chain.head;
        while let Some(block) = self.blocks.get(at as usize) {
            if block.bits == bits && block.kind == kind {
                break;
            }
            at = block.next;
        }
        if at == NONE {
            if self.blocks.len() >= self.most {
                return None;
            }
            at = self.blocks.len() as u32;
            self.blocks.push(Block {
                counts: [0; PARTS],
                next: chain.head,
                bits,
                kind,
            });
            chain.head = at;
        }
        chain.last = at;
        Some(at)
    }

    /// What a chain holds: kind, bits, part and count of each part that is not empty.
    pub fn counted(&self, chain: &Chain) -> Vec<(u8, u8, usize, u32)> {
        let mut found = Vec::new();
        let mut at = chain.head;
        while let Some(block) = self.blocks.get(at as usize) {
            let counts = block.counts.iter().copied().enumerate();
            let counts = counts.filter(|(_, count)| *count > 0);
            found.extend(counts.map(|(part, count)| (block.kind, block.bits, part, count)));
            at = block.next;
        }
        found
    }

    /// Adds what another pool's chain holds, of fewer than so many kinds.
    ///
    /// # Errors
    /// `Full` if there was no room for it; `Wrong` if no chain can hold that.
    pub fn add_counted(
        &mut self,
        chain: &mut Chain,
        counted: &[(u8, u8, usize, u32)],
        kinds: usize,
    ) -> Result<(), Unfit> {
        for &(kind, bits, part, count) in counted {
            if usize::from(kind) >= kinds || bits > 64 || part >= PARTS {
                return Err(Unfit::Wrong);
            }
            let at = self.block(chain, kind, bits).ok_or(Unfit::Full)?;
            let held = &mut self.blocks[at as usize].counts[part];
            *held = held.checked_add(count).ok_or(Unfit::Full)?;
        }
        Ok(())
    }

    /// The part of its power of two that a value lies in.
    #[inline(always)]
    fn part(value: u64, bits: u8) -> usize {
        if bits < 2 {
            return 0;
        }
        // The bits behind the leading one, moved to the front.
        ((value << (65 - u32::from(bits))) >> (64 - Self::SHIFT)) as usize
    }

    /// Lowest and highest value of a part.
    fn edges(bits: u8, part: usize) -> (u64, u64) {
        if bits == 0 {
            return (0, 0);
        }
        let octave = u32::from(bits) - 1;
        let low = |part: u64| (1u128 << octave) + ((u128::from(part) << octave) >> Self::SHIFT);
        let (from, next) = (low(part as u64), low(part as u64 + 1));
        let high = (next - 1).max(from).min(u128::from(u64::MAX));
        (from as u64, high as u64)
    }

    /// The values (of one kind, or all) of these chains.
    pub fn gathered<'c>(
        &self,
        chains: impl Iterator<Item = &'c Chain>,
        kind: Option<u8>,
    ) -> Gathered {
        let mut gathered = Gathered::default();
        chains.for_each(|chain| self.gather(chain, kind, &mut gathered));
        gathered
    }

    /// Adds a chain's values (of one kind, or all) to `into`.
    pub fn gather(&self, chain: &Chain, kind: Option<u8>, into: &mut Gathered) {
        let mut at = chain.head;
        while let Some(block) = self.blocks.get(at as usize) {
            at = block.next;
            if kind.is_some_and(|kind| kind != block.kind) {
                continue;
            }
            for (part, count) in block.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
                *into.parts.entry(Self::edges(block.bits, part)).or_default() += u64::from(*count);
                into.count += u64::from(*count);
            }
        }
    }
}

/// Values of one or several chains of pools.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    parts: BTreeMap<(u64, u64), u64>,
    count: u64,
}

impl Gathered {
    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// `[[from, below, count], ...]`, at most 16 parts for each doubling.
    pub fn histogram_json(&self) -> Value {
        let mut parts: Vec<(u64, u64, u64)> = Vec::new();
        for ((low, high), count) in &self.parts {
            let (from, below) = part(*low);
            match parts.last_mut() {
                Some(last) if last.0 == from => last.2 += count,
                _ => parts.push((from, below.max(high.saturating_add(1)), *count)),
            }
        }
        json!(parts)
    }

    /// Nearest rank of a quantile in thousandths, to the middle of its part.
    pub fn quantile_ns(&self, thousandths: u64) -> Option<u64> {
        let rank = rank(self.count, thousandths);
        let mut seen = 0;
        for ((low, high), count) in &self.parts {
            seen += count;
            if seen >= rank {
                return Some(low + (high - low) / 2);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_values_once_and_are_as_narrow_as_stated() {
        let mut next = 0u128;
        for bits in 0..=64 {
            let mut last = None;
            for part in 0..8 {
                let (low, high) = Pool::<8>::edges(bits, part);
                if last == Some((low, high)) {
                    continue; // values below 8: several parts are one value
                }
                last = Some((low, high));
                if part > 0 && Pool::<8>::part(low, bits) != part {
                    continue;
                }
                assert_eq!(u128::from(low), next, "{bits} {part}");
                next = u128::from(high) + 1;
                for value in [low, low + (high - low) / 3, high] {
                    assert_eq!(64 - value.leading_zeros(), u32::from(bits));
                    let (from, to) = Pool::<8>::edges(bits, Pool::<8>::part(value, bits));
                    assert!((from..=to).contains(&value), "{value}: {from}..={to}");
                    let middle = from + (to - from) / 2;
                    let error = middle.abs_diff(value) as f64;
                    assert!(error <= Pool::<8>::RELATIVE_ERROR * value as f64, "{value}");
                }
                if low == 0 || bits == 1 {
                    break;
                }
            }
        }
        assert_eq!(next, 1 << 64);
    }

    #[test]
    fn quantiles_of_exact_values() {
        let mut pool = Pool::<64>::new(1000);
        let (mut first, mut second) = (Chain::default(), Chain::default());
        for value in 0..1000u64 {
            assert!(pool.record(&mut first, (value % 2) as u8, value * value));
            assert!(pool.record(&mut second, 0, 5));
        }
        let mut all = Gathered::default();
        pool.gather(&first, None, &mut all);
        assert_eq!(all.count(), 1000);
        for (thousandths, truth) in [(1, 0), (500, 499 * 499), (990, 989 * 989)] {
            let found = all.quantile_ns(thousandths).unwrap();
            let most = Pool::<64>::RELATIVE_ERROR * f64::from(truth);
            assert!(
                (found as f64 - f64::from(truth)).abs() <= most,
                "{found} {truth}"
            );
        }
        let mut odd = Gathered::default();
        pool.gather(&first, Some(1), &mut odd);
        assert_eq!(odd.count(), 500);
        let median = odd.quantile_ns(500).unwrap() as f64; // the 250th odd number is 499
        assert!((median / f64::from(499 * 499) - 1.0).abs() <= Pool::<64>::RELATIVE_ERROR);
        let mut fives = Gathered::default();
        pool.gather(&second, None, &mut fives);
        assert_eq!((fives.count(), fives.quantile_ns(999)), (1000, Some(5)));
        assert_eq!(Gathered::default().quantile_ns(500), None);
    }

    #[test]
    fn a_full_pool_says_so_and_what_it_holds_stays() {
        let mut pool = Pool::<8>::new(2);
        let mut chain = Chain::default();
        assert!(pool.record(&mut chain, 0, 100));
        assert!(pool.record(&mut chain, 0, 1000));
        assert!(!pool.record(&mut chain, 0, 10_000));
        assert!(!pool.record(&mut chain, 1, 100));
        assert!(pool.record(&mut chain, 0, 100));
        let mut all = Gathered::default();
        pool.gather(&chain, None, &mut all);
        assert_eq!(all.count(), 3);
    }
}
