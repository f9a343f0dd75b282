//! Draws in constant time from values with weights (Walker's alias method, as Vose built it).
//!
//! One random word picks a column and decides between its two values: two multiplications, whatever
//! the number of values. Weights need not sum to 1 or 100: what they sum to is told, not assumed.

use crate::Random;

/// Most values of one distribution.
pub const MAX_VALUES: usize = 1 << 16;

/// Why weights cannot be drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    /// No value, or all weights are zero.
    #[error("no value has a weight above 0")]
    Empty,
    /// A weight is negative, infinite or no number.
    #[error("a weight is negative or no number")]
    Bad,
    /// More than [`MAX_VALUES`].
    #[error("more than {MAX_VALUES} values")]
    TooMany,
}

/// Values with their weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights<T> {
    values: Vec<T>,
    shares: Vec<f64>,
    columns: Vec<Column>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Column {
    /// Probability, in units of 2^-53, that the column's own value is meant.
    own: u64,
    other: u32,
}

const UNIT: f64 = (1_u64 << 53) as f64;

impl<T: Copy> Weights<T> {
    /// Of (value, weight) pairs; those of weight 0 are left out.
    ///
    /// # Errors
    /// [`WeightError`].
    pub fn new(pairs: impl IntoIterator<Item = (T, f64)>) -> Result<Self, WeightError> {
        let mut values = Vec::new();
        let mut weights = Vec::new();
        for (value, weight) in pairs {
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(WeightError::Bad);
            }
            if weight > 0.0 {
                values.push(value);
                weights.push(weight);
            }
        }
        let sum: f64 = weights.iter().sum();
        match values.len() {
            0 => return Err(WeightError::Empty),
            1..=MAX_VALUES => {}
            _ => return Err(WeightError::TooMany),
        }
        if !sum.is_finite() {
            return Err(WeightError::Bad);
        }
        let shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let columns = columns(&shares);
        Ok(Weights {
            values,
            shares,
            columns,
        })
    }

    /// The values and their shares, which sum to 1.
    pub fn shares(&self) -> impl Iterator<Item = (T, f64)> + '_ {
        self.values.iter().copied().zip(self.shares.iter().copied())
    }

    /// The same shares of other values.
    pub fn map<U>(&self, to: impl FnMut(T) -> U) -> Weights<U> {
        Weights {
            values: self.values.iter().copied().map(to).collect(),
            shares: self.shares.clone(),
            columns: self.columns.clone(),
        }
    }

    /// A value by its weight; `None` never happens, since there is a value.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> Option<T> {
        self.pick(random.next_u64())
    }

    /// The value that a uniform word means.
    #[inline]
    pub fn pick(&self, word: u64) -> Option<T> {
        let product = u128::from(word) * self.columns.len() as u128;
        let index = (product >> 64) as usize;
        let column = self.columns.get(index)?;
        // The product's low half is uniform within the column.
        let within = (product as u64) >> 11;
        let chosen = match within < column.own {
            true => index,
            false => column.other as usize,
        };
        self.values.get(chosen).copied()
    }
}

fn columns(shares: &[f64]) -> Vec<Column> {
    let count = shares.len() as f64;
    let mut scaled: Vec<f64> = shares.iter().map(|share| share * count).collect();
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for (index, share) in scaled.iter().enumerate() {
        match *share < 1.0 {
            true => small.push(index),
            false => large.push(index),
        }
    }
    let whole = |index: usize| Column {
        own: UNIT as u64,
        other: index as u32,
    };
    let mut columns: Vec<Column> = (0..shares.len()).map(whole).collect();
    while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
        let own = scaled.get(low).copied().unwrap_or(1.0);
        if let Some(column) = columns.get_mut(low) {
            *column = Column {
                own: (own * UNIT) as u64,
                other: high as u32,
            };
        }
        if let Some(left) = scaled.get_mut(high) {
            *left -= 1.0 - own;
            if *left < 1.0 {
                large.pop();
                small.push(high);
            }
        }
    }
    columns // what is left over is 1 but for rounding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_weights() {
        let given = [34.0, 22.0, 15.0, 13.0, 8.0, 3.0, 2.0, 1.0, 1.0, 1.0];
        let weights = Weights::new(given.into_iter().enumerate()).unwrap();
        let mut random = Random::new(11, &[]);
        let mut seen = [0_u32; 10];
        let draws = 1_000_000;
        for _ in 0..draws {
            seen[weights.draw(&mut random).unwrap()] += 1;
        }
        let square = |(seen, weight): (u32, f64)| {
            let expected = f64::from(draws) * weight / 100.0;
            (f64::from(seen) - expected).powi(2) / expected
        };
        let chi_square: f64 = seen.into_iter().zip(given).map(square).sum();
        // 9 degrees of freedom: 27.9 at 0.1 %.
        assert!(chi_square < 27.9, "{chi_square}: {seen:?}");
    }

    #[test]
    fn every_share_is_exact_in_the_table() {
        // The area of each value over all columns, by exact sums, is its share.
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let given: Vec<f64> = (0..random.usize(1..40)).map(|_| random.f64()).collect();
            let weights = Weights::new(given.iter().copied().enumerate()).unwrap();
            let mut areas = vec![0.0; given.len()];
            for (index, column) in weights.columns.iter().enumerate() {
                let own = column.own as f64 / UNIT;
                areas[weights.values[index]] += own / weights.columns.len() as f64;
                areas[weights.values[column.other as usize]] +=
                    (1.0 - own) / weights.columns.len() as f64;
            }
            let sum: f64 = given.iter().sum();
            for (area, weight) in areas.iter().zip(&given) {
                assert!((area - weight / sum).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn what_cannot_be_drawn_from_is_refused() {
        let new = |weights: &[f64]| Weights::new(weights.iter().copied().enumerate());
        assert_eq!(new(&[]).unwrap_err(), WeightError::Empty);
        assert_eq!(new(&[0.0]).unwrap_err(), WeightError::Empty);
        assert_eq!(new(&[1.0, -1.0]).unwrap_err(), WeightError::Bad);
        assert_eq!(new(&[f64::NAN]).unwrap_err(), WeightError::Bad);
        assert_eq!(new(&[f64::MAX, f64::MAX]).unwrap_err(), WeightError::Bad);
        assert_eq!(
            new(&vec![1.0; MAX_VALUES + 1]).unwrap_err(),
            WeightError::TooMany
        );
        let one = new(&[0.0, 3.0]).unwrap();
        assert!((0..100).all(|n| one.pick(n << 56) == Some(1)), "weight 0");
    }
}
