//! What was counted of some of a capture's calls, as plain numbers that travel and add up.
//!
//! Whatever stands in them is checked when they are added: they may come from anywhere.

use serde::{Deserialize, Serialize};

use super::{Counts, MAX_ERRORS, MAX_PROTOCOLS, MAX_ROWS, OTHER, Operations};
use crate::call::Outcome;
use crate::calls::REFUSALS;
use crate::lens::latencies;
use crate::names::Names;

/// Above any count of a capture; so many times this still fits a number that 65,536 of them do.
pub const MOST: u64 = 1 << 48;

/// Why counts do not add up to those of all calls read in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A table was full: what is told apart depends on the order of the calls.
    Full,
    /// They contradict themselves: nobody counted them.
    Wrong,
}

/// Rows of one program and version.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    program: u32,
    version: u32,
    minor_versions: [u64; 4],
    unlisted: u64,
    rows: Vec<CountedRow>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct CountedRow {
    operation: u32,
    /// As [`Counts`] lists them.
    counts: [u64; 9],
    errors: Vec<(Failure, u64)>,
    other_errors: u64,
    latencies: latencies::Counted,
}

/// An outcome that is an error, as it travels.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::lens) enum Failure {
    /// The protocol's.
    Status(u32),
    /// Its place among the refusals.
    Refused(usize),
}

impl Counts {
    fn numbers(&self) -> [u64; 9] {
        [
            self.calls,
            self.answered,
            self.not_executed,
            self.unreadable,
            self.refused,
            self.retransmissions,
            self.duplicate_replies,
            self.bytes_read,
            self.bytes_written,
        ]
    }

    fn numbers_mut(&mut self) -> [&mut u64; 9] {
        [
            &mut self.calls,
            &mut self.answered,
            &mut self.not_executed,
            &mut self.unreadable,
            &mut self.refused,
            &mut self.retransmissions,
            &mut self.duplicate_replies,
            &mut self.bytes_read,
            &mut self.bytes_written,
        ]
    }
}

/// `more` in all, if a capture can have as many.
pub(in crate::lens) fn add(to: &mut u64, more: u64) -> Result<(), Unfit> {
    *to = to
        .checked_add(more)
        .filter(|_| more <= MOST)
        .ok_or(Unfit::Wrong)?;
    Ok(())
}

impl Operations {
    /// What was counted; `names` has the lists of operations.
    pub fn counted(&mut self, names: &Names) -> Vec<Counted> {
        for at in 0..self.protocols.len() {
            self.spread_lists(at, names);
        }
        let rows = |places: &[u16]| {
            let rows = places
                .iter()
                .filter_map(|place| self.rows.get(usize::from(*place)));
            rows.map(|row| CountedRow {
                operation: row.operation,
                counts: row.counts.numbers(),
                errors: row
                    .errors
                    .iter()
                    .filter_map(|(outcome, count)| Some((Failure::of(*outcome)?, *count)))
                    .collect(),
                other_errors: row.other_errors,
                latencies: row.latencies.counted(),
            })
            .collect()
        };
        let counted = self.protocols.iter().map(|protocol| Counted {
            program: protocol.program,
            version: protocol.version,
            minor_versions: protocol.minor_versions,
            unlisted: protocol.unlisted,
            rows: rows(&protocol.places),
        });
        counted.collect()
    }

    /// Adds what was counted of other calls.
    ///
    /// # Errors
    /// They do not add up; some may be in already.
    pub fn add(&mut self, counted: &[Counted]) -> Result<(), Unfit> {
        for one in counted {
            if one.program == OTHER {
                return Err(Unfit::Full);
            }
            let at = self.protocol(one.program, one.version);
            let protocol = &mut self.protocols[at];
            add(&mut protocol.unlisted, one.unlisted)?;
            for (to, more) in protocol.minor_versions.iter_mut().zip(one.minor_versions) {
                add(to, more)?;
            }
            for row in &one.rows {
                self.add_row(at, row)?;
            }
        }
        let full = self.protocols.len() >= MAX_PROTOCOLS || self.rows.len() >= MAX_ROWS;
        if full { Err(Unfit::Full) } else { Ok(()) }
    }

    fn add_row(&mut self, at: usize, from: &CountedRow) -> Result<(), Unfit> {
        let row = self.row(at, from.operation);
        for (to, more) in row.counts.numbers_mut().into_iter().zip(from.counts) {
            add(to, more)?;
        }
        let Counts {
            calls,
            answered,
            not_executed,
            ..
        } = row.counts;
        if answered + not_executed > calls {
            return Err(Unfit::Wrong);
        }
        add(&mut row.other_errors, from.other_errors)?;
        for (error, more) in &from.errors {
            let outcome = error.outcome().ok_or(Unfit::Wrong)?;
            match row.errors.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, count)) => add(count, *more)?,
                None if *more > MOST => return Err(Unfit::Wrong),
                None => row.errors.push((outcome, *more)),
            }
            if row.errors.len() >= MAX_ERRORS {
                return Err(Unfit::Full);
            }
        }
        row.latencies.add_counted(&from.latencies)
    }
}

impl Failure {
    /// `None` if it is none.
    pub(in crate::lens) fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Status(status) => Some(Failure::Status(status)),
            Outcome::Refused(name) => {
                let place = REFUSALS.iter().position(|refusal| *refusal == name);
                place.map(Failure::Refused)
            }
            Outcome::Unanswered | Outcome::Accepted | Outcome::Unreadable => None,
        }
    }

    /// `None` if nobody can have met that.
    pub(in crate::lens) fn outcome(self) -> Option<Outcome> {
        match self {
            Failure::Status(status) => Some(Outcome::Status(status)),
            Failure::Refused(place) => REFUSALS.get(place).copied().map(Outcome::Refused),
        }
    }
}

/// A sum in two halves, the upper one first.
pub(in crate::lens) fn halves(sum: i128) -> (i64, u64) {
    ((sum >> 64) as i64, sum as u64)
}

/// `more` in halves added to a sum, if a capture can have as much.
pub(in crate::lens) fn add_halves(sum: i128, more: (i64, u64)) -> Result<i128, Unfit> {
    let more = i128::from(more.0) << 64 | i128::from(more.1);
    let sum = sum.checked_add(more);
    sum.filter(|sum| sum.unsigned_abs() >> 120 == 0)
        .ok_or(Unfit::Wrong)
}
