//! Columns over time, bounded in memory.

use crate::catalog::{Field, Kind};

/// The value that means "not known at that time"; no kernel counter reaches it.
pub const MISSING: i64 = i64::MIN;

/// Most values kept in all: 64 MiB. With 200 columns that is 70 minutes at 10 Hz, then 5 Hz.
pub const MAX_CELLS: usize = 8 << 20;

/// One quantity over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Full name, ending in the unit.
    pub name: String,
    /// "ns", "bytes" or "count".
    pub unit: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// One value a sample.
    pub values: Vec<i64>,
}

impl Kind {
    /// The word in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// All columns; each sample adds one value to each of them.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<Column>,
    samples: usize,
    max_cells: usize,
    halvings: u32,
}

/// Position of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(usize);

impl Columns {
    /// None yet; at most `max_cells` values later on.
    pub const fn new(max_cells: usize) -> Self {
        Self {
            columns: Vec::new(),
            samples: 0,
            max_cells,
            halvings: 0,
        }
    }

    /// A new column; samples taken before hold `before`.
    pub fn add(&mut self, prefix: &str, field: &Field, before: i64) -> Place {
        let name = format!("{prefix}{}", field.name);
        let values = vec![before; self.samples];
        self.columns.push(Column {
            name,
            unit: field.unit(),
            kind: field.kind,
            values,
        });
        Place(self.columns.len() - 1)
    }

    /// Sets the value of the sample being taken; once a sample, between [`Self::next_sample`]s.
    pub fn set(&mut self, place: Place, value: i64) {
        if let Some(column) = self.columns.get_mut(place.0) {
            column.values.resize(self.samples, MISSING);
            column.values.push(value);
        }
    }

    /// Forgets what was set of the sample being taken.
    pub fn begin_again(&mut self) {
        for column in &mut self.columns {
            column.values.truncate(self.samples);
        }
    }

    /// Ends the sample being taken. True when every second sample was dropped to make room.
    pub fn next_sample(&mut self) -> bool {
        self.samples += 1;
        for column in &mut self.columns {
            column.values.resize(self.samples, MISSING);
        }
        // At an odd number the newest sample stays, so the coarser grid goes on from it.
        let odd = self.samples > 2 && self.samples % 2 == 1;
        let full = odd && (self.samples + 2) * self.columns.len() > self.max_cells;
        if full {
            self.halve();
        }
        full
    }

    /// Keeps the first sample and every second one after it.
    fn halve(&mut self) {
        for column in &mut self.columns {
            let mut index = 0;
            column.values.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.samples = self.samples.div_ceil(2);
        self.halvings += 1;
    }

    /// Samples kept.
    pub const fn samples(&self) -> usize {
        self.samples
    }

    /// How often every second sample was dropped.
    pub const fn halvings(&self) -> u32 {
        self.halvings
    }

    /// All columns.
    pub fn into_columns(self) -> Vec<Column> {
        self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{CPU, MEMINFO};

    #[test]
    fn gaps_and_late_columns_are_missing_or_what_was_known() {
        let mut columns = Columns::new(1000);
        let first = columns.add("", &CPU[0], MISSING);
        columns.set(first, 10);
        columns.next_sample();
        columns.next_sample(); // nothing known of this one
        let late = columns.add("x.", &MEMINFO[0], 0);
        columns.set(first, 30);
        columns.set(late, 6);
        columns.begin_again();
        columns.set(first, 30);
        columns.set(late, 7);
        columns.next_sample();
        let all = columns.into_columns();
        assert_eq!(all[0].values, [10, MISSING, 30]);
        assert_eq!(all[1].values, [0, 0, 7]);
        assert_eq!(
            (all[1].name.as_str(), all[1].unit),
            ("x.memory.total_bytes", "bytes")
        );
    }

    #[test]
    fn a_full_store_keeps_every_second_sample() {
        let mut columns = Columns::new(8);
        let place = columns.add("", &CPU[0], MISSING);
        let mut halved = Vec::new();
        for value in 0..9 {
            columns.set(place, value);
            if columns.next_sample() {
                halved.push(value);
            }
        }
        // Seven samples (0 to 6) were kept when two more would not have fitted.
        assert_eq!(halved, [6]);
        assert_eq!((columns.samples(), columns.halvings()), (6, 1));
        assert_eq!(columns.into_columns()[0].values, [0, 2, 4, 6, 7, 8]);
    }
}
