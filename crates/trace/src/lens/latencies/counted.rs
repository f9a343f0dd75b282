//! Latencies as plain numbers that travel and add up.

use measure::histogram::HIGHEST_NS;
use serde::{Deserialize, Serialize};

use super::{Latencies, bucket};
use crate::ends::Ends;
use crate::lens::operations::{Unfit, add, add_halves, halves};

/// What was counted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    digits: u8,
    negative: u64,
    zeros: u64,
    above: u64,
    /// Upper and lower half of the sum.
    sum_ns: (i64, u64),
    /// Least and largest; `None` if there are none.
    ends_ns: Option<(i64, i64)>,
    max_held_ns: i64,
    /// Bucket and count of those that are not empty.
    buckets: Vec<(usize, u64)>,
}

impl Latencies {
    /// What was counted.
    pub fn counted(&self) -> Counted {
        let buckets = self.counts.iter().copied().enumerate();
        Counted {
            digits: self.digits,
            negative: self.negative,
            zeros: self.zeros,
            above: self.above,
            sum_ns: halves(self.sum_ns),
            ends_ns: self.ends_ns.known(),
            max_held_ns: self.max_held_ns,
            buckets: buckets.filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// Adds what was counted elsewhere.
    ///
    /// # Errors
    /// Nobody can have counted that.
    pub fn add_counted(&mut self, from: &Counted) -> Result<(), Unfit> {
        let highest = bucket(HIGHEST_NS, self.bits);
        if from.digits != self.digits || from.buckets.iter().any(|(at, _)| *at > highest) {
            return Err(Unfit::Wrong);
        }
        for (to, more) in [
            (&mut self.negative, from.negative),
            (&mut self.zeros, from.zeros),
            (&mut self.above, from.above),
        ] {
            add(to, more)?;
            add(&mut self.count, more)?;
        }
        for (at, more) in &from.buckets {
            if *at >= self.counts.len() {
                self.counts.resize(at + 1, 0);
            }
            add(&mut self.counts[*at], *more)?;
            add(&mut self.count, *more)?;
        }
        self.sum_ns = add_halves(self.sum_ns, from.sum_ns)?;
        self.max_held_ns = self.max_held_ns.max(from.max_held_ns);
        if let Some((least, most)) = from.ends_ns {
            self.ends_ns.add(Ends { least, most });
        }
        let Ends { least, most } = self.ends_ns;
        let believable = match self.count {
            0 => self.ends_ns.known().is_none() && self.sum_ns == 0,
            _ => {
                least <= most
                    && most < i64::MAX
                    && (0..=HIGHEST_NS as i64).contains(&self.max_held_ns)
            }
        };
        if believable {
            Ok(())
        } else {
            Err(Unfit::Wrong)
        }
    }
}
