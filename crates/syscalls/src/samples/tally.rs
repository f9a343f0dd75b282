//! How often each process was in each state, by stretches of time of equal length.

use std::collections::HashMap;

/// Rows kept; beyond, two stretches become one each.
pub const ROWS_MAX: usize = 1 << 21;

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its begin.
    pub from_ns: u64,
    /// Its end; of the last one when it was last looked.
    pub until_ns: u64,
    /// Looks at all processes within.
    pub looks: u64,
}

/// How often a process was seen in a state within a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Place of the stretch.
    pub stretch: u32,
    /// Place of the process in the order in which processes were found.
    pub process: u32,
    /// What it said that it waits for.
    pub state: u32,
    /// How often.
    pub seen: u32,
}

/// Counts of what was verified.
pub struct Tally {
    length_ns: u64,
    rows_max: usize,
    stretches: Vec<Stretch>,
    /// Place of the first stretch of the timed part: none before is made one with it.
    timed: usize,
    counts: HashMap<(u32, u32, u32), u32>,
}

impl Tally {
    /// The first stretch begins now.
    pub fn new(now_ns: u64, length_ns: u64, rows_max: usize) -> Self {
        let mut tally = Tally {
            length_ns,
            rows_max,
            stretches: Vec::new(),
            timed: 0,
            counts: HashMap::new(),
        };
        tally.begin(now_ns);
        tally
    }

    /// The timed part begins now: with a stretch of its own.
    pub fn begin(&mut self, now_ns: u64) {
        if let Some(last) = self.stretches.last_mut() {
            last.until_ns = now_ns;
        }
        self.timed = self.stretches.len();
        self.open(now_ns);
    }

    fn open(&mut self, from_ns: u64) {
        self.stretches.push(Stretch {
            from_ns,
            until_ns: from_ns,
            looks: 0,
        });
    }

    /// In which stretch this instant is.
    pub fn stretch(&mut self, now_ns: u64) -> u32 {
        let from_ns = self.stretches.last().map_or(now_ns, |last| last.from_ns);
        let whole = now_ns.saturating_sub(from_ns) / self.length_ns;
        if whole > 0 {
            // Where nobody looked for long there is one longer stretch: that of the next look.
            if let Some(last) = self.stretches.last_mut() {
                last.until_ns = from_ns + self.length_ns;
            }
            self.open(from_ns + whole * self.length_ns);
        }
        self.stretches.len().saturating_sub(1) as u32
    }

    /// All processes were looked at, at an instant of the last stretch.
    pub fn looked(&mut self, now_ns: u64) {
        if let Some(last) = self.stretches.last_mut() {
            last.looks += 1;
            last.until_ns = now_ns;
        }
    }

    /// What a process was seen in, in one of the stretches.
    pub fn add(&mut self, process: u32, stretch: u32, state: u32, seen: u32) {
        *self.counts.entry((stretch, process, state)).or_default() += seen;
    }

    /// Keeps the bound: no place that `stretch` gave is of use afterwards.
    pub fn bound(&mut self) {
        while self.counts.len() > self.rows_max && self.stretches.len() > self.timed + 1 {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let timed = self.timed.div_ceil(2);
        let place = |k: usize| match k.checked_sub(self.timed) {
            Some(after) => timed + after / 2,
            None => timed - 1 - (self.timed - 1 - k) / 2,
        };
        let mut merged: Vec<Stretch> = Vec::new();
        for (k, one) in self.stretches.iter().enumerate() {
            match merged.get_mut(place(k)) {
                Some(pair) => {
                    pair.until_ns = one.until_ns;
                    pair.looks += one.looks;
                }
                None => merged.push(*one),
            }
        }
        let mut counts = HashMap::new();
        for ((stretch, process, state), seen) in &self.counts {
            let key = (place(*stretch as usize) as u32, *process, *state);
            *counts.entry(key).or_default() += seen;
        }
        self.counts = counts;
        self.stretches = merged;
        self.timed = timed;
        self.length_ns *= 2;
    }

    /// All stretches, and the rows in order.
    pub fn into_parts(self) -> (Vec<Stretch>, Vec<Row>) {
        let counts = self.counts.into_iter();
        let mut rows: Vec<Row> = counts
            .map(|((stretch, process, state), seen)| Row {
                stretch,
                process,
                state,
                seen,
            })
            .collect();
        rows.sort_by_key(|row| (row.stretch, row.process, row.state));
        (self.stretches, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(tally: &mut Tally, now_ns: u64) -> u32 {
        let place = tally.stretch(now_ns);
        tally.looked(now_ns);
        place
    }

    fn spans(stretches: &[Stretch]) -> Vec<(u64, u64, u64)> {
        let all = stretches.iter();
        all.map(|one| (one.from_ns, one.until_ns, one.looks))
            .collect()
    }

    #[test]
    fn a_stretch_begins_with_the_timed_part_and_each_has_its_looks() {
        let mut tally = Tally::new(1000, 100, ROWS_MAX);
        for (now_ns, place) in [(1010, 0), (1099, 0), (1100, 1)] {
            assert_eq!(look(&mut tally, now_ns), place);
        }
        tally.begin(1130);
        assert_eq!(look(&mut tally, 1131), 2);
        assert_eq!(
            look(&mut tally, 1571),
            3,
            "nobody looked for three stretches"
        );
        let (stretches, _) = tally.into_parts();
        let expected = [
            (1000, 1100, 2),
            (1100, 1130, 1),
            (1130, 1230, 1),
            (1530, 1571, 1),
        ];
        assert_eq!(spans(&stretches), expected);
    }

    #[test]
    fn pairs_become_one_when_there_are_too_many_rows_and_no_count_is_lost() {
        let mut tally = Tally::new(0, 10, 5);
        for now_ns in [5, 15, 25] {
            let place = look(&mut tally, now_ns);
            tally.add(1, place, 7, 2);
        }
        tally.begin(27);
        for now_ns in [30, 40, 50] {
            let place = look(&mut tally, now_ns);
            tally.add(1, place, 7, 1);
        }
        tally.bound();
        let (stretches, rows) = tally.into_parts();
        let seen: Vec<_> = rows.iter().map(|row| (row.stretch, row.seen)).collect();
        assert_eq!(seen, [(0, 2), (1, 4), (2, 2), (3, 1)]);
        let expected = [(0, 10, 1), (10, 27, 2), (27, 47, 2), (47, 50, 1)];
        assert_eq!(spans(&stretches), expected);
    }
}
