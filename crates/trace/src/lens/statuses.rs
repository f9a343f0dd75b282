//! Errors of many rows by their status, in one bounded table.
//!
//! Errors are few, and their kinds fewer: a row costs nothing until its first one. Errors beyond
//! [`MAX_STATUSES`] different ones of all rows together are told as `OTHER`, so that those of a row
//! always add up to its count of errors.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::ledger::is_error;
use super::operations::{Failure, Unfit, add};
use crate::call::{Call, Outcome};
use crate::names::failure_name;

/// Different statuses of all rows together; 5 MB.
pub const MAX_STATUSES: usize = 1 << 16;

/// Whose status: the same number has another name in another protocol.
type Kind = (u32, u32, Outcome);

/// How often each row met each error.
#[derive(Debug, Default)]
pub struct Statuses(BTreeMap<(u32, Kind), u64>);

impl Statuses {
    /// Counts a call of a row, if it failed.
    #[inline(always)]
    pub fn count(&mut self, row: u32, call: &Call) {
        if is_error(call.outcome) {
            self.failed(row, (call.program, call.version, call.outcome));
        }
    }

    #[cold]
    fn failed(&mut self, row: u32, kind: Kind) {
        if let Some(count) = self.0.get_mut(&(row, kind)) {
            *count += 1;
        } else if self.0.len() < MAX_STATUSES {
            self.0.insert((row, kind), 1);
        }
    }

    /// Whether errors may have come that are not told apart.
    pub fn is_full(&self) -> bool {
        self.0.len() >= MAX_STATUSES
    }

    /// What a row met: program, version, error and how often.
    pub(in crate::lens) fn counted(&self, row: u32) -> Vec<(u32, u32, Failure, u64)> {
        let own = self.of_row(row);
        own.filter_map(|(&(_, (program, version, outcome)), &count)| {
            Some((program, version, Failure::of(outcome)?, count))
        })
        .collect()
    }

    /// Adds what a row met elsewhere.
    ///
    /// # Errors
    /// `Full` if it is, `Wrong` if nobody can have met that.
    pub(in crate::lens) fn add_counted(
        &mut self,
        row: u32,
        counted: &[(u32, u32, Failure, u64)],
    ) -> Result<(), Unfit> {
        for (program, version, failure, more) in counted {
            let outcome = failure.outcome().ok_or(Unfit::Wrong)?;
            let count = self.0.entry((row, (*program, *version, outcome)));
            add(count.or_default(), *more)?;
        }
        if self.is_full() {
            return Err(Unfit::Full);
        }
        Ok(())
    }

    /// The errors of one row.
    fn of_row(&self, row: u32) -> impl Iterator<Item = (&(u32, Kind), &u64)> {
        let first: Kind = (0, 0, Outcome::Unanswered);
        let own = self.0.range((row, first)..);
        own.take_while(move |it| it.0.0 == row)
    }

    /// Name and count of each error of rows that have `errors` of them in all.
    pub fn json(&self, rows: impl Iterator<Item = u32>, errors: u64) -> Value {
        let mut named: BTreeMap<String, u64> = BTreeMap::new();
        let mut told = 0;
        for row in rows {
            for ((_, (program, version, outcome)), count) in self.of_row(row) {
                if let Some(name) = failure_name(*program, *version, *outcome) {
                    *named.entry(name.into_owned()).or_default() += count;
                    told += count;
                }
            }
        }
        if errors > told {
            named.insert("OTHER".to_owned(), errors - told);
        }
        let named = named.into_iter().map(|(name, count)| (name, json!(count)));
        Value::Object(named.collect::<Map<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lens::tests::hand_made::read;

    fn failed(outcome: Outcome) -> Call {
        Call {
            outcome,
            ..read(0, Some(1))
        }
    }

    #[test]
    fn errors_of_rows_by_name_and_what_is_no_error() {
        let mut statuses = Statuses::default();
        for (row, outcome) in [
            (7, Outcome::Status(2)),
            (7, Outcome::Status(2)),
            (7, Outcome::Refused("AUTH_ERROR")),
            (7, Outcome::Status(0)),
            (7, Outcome::Accepted),
            (7, Outcome::Unanswered),
            (7, Outcome::Unreadable),
            (8, Outcome::Status(123_456)),
            (u32::MAX, Outcome::Status(5)),
        ] {
            statuses.count(row, &failed(outcome));
        }
        let json = |rows: &[u32], errors| statuses.json(rows.iter().copied(), errors);
        assert_eq!(json(&[7], 3), json!({"NFS3ERR_NOENT": 2, "AUTH_ERROR": 1}));
        assert_eq!(json(&[8], 1), json!({"123456": 1}));
        assert_eq!(json(&[6, 9], 0), json!({}));
        let all = json!({"NFS3ERR_NOENT": 2, "AUTH_ERROR": 1, "123456": 1, "NFS3ERR_IO": 1});
        assert_eq!(json(&[7, 8, u32::MAX], 5), all);
    }

    #[test]
    fn beyond_the_bound_errors_are_other() {
        let mut statuses = Statuses::default();
        let rows = MAX_STATUSES as u32 + 3;
        for row in 0..rows {
            statuses.count(row, &failed(Outcome::Status(70)));
        }
        let found = statuses.json(0..rows, rows.into());
        assert_eq!(found, json!({"NFS3ERR_STALE": MAX_STATUSES, "OTHER": 3}));
    }
}
