//! Runs of written bytes that wait for their neighbours.
//!
//! A database writes to several places of a file in turn: a table grows at its end while pages
//! before that are filled. Each place has a run of its own, which is overwritten or grows at its
//! end, so that pages become WRITEs of `wsize` though they come in turns. Runs never overlap.

/// Places of one file where bytes are gathered at a time; the one left alone longest makes room.
pub(super) const MAX_RUNS: usize = 16;

/// Bytes in a row.
#[derive(Debug)]
pub(super) struct Run {
    pub offset: u64,
    pub data: Vec<u8>,
    /// When it was last written to, in writes.
    touched: u64,
}

impl Run {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }

    fn reaches_into(&self, from: u64, to: u64) -> bool {
        self.offset < to && self.end() > from
    }

    /// Where in the run bytes of `from..to` would lie, if it stays one run of at most `limit`.
    fn place_of(&self, from: u64, to: u64, limit: usize) -> Option<(usize, usize)> {
        let from = usize::try_from(from.checked_sub(self.offset)?).ok()?;
        let to = usize::try_from(to.checked_sub(self.offset)?).ok()?;
        (from <= self.data.len() && to <= limit).then_some((from, to))
    }

    fn lay(&mut self, (from, to): (usize, usize), bytes: &[u8]) {
        let within = to.min(self.data.len());
        let (over, behind) = bytes
            .split_at_checked(within - from)
            .unwrap_or((bytes, &[]));
        if let Some(room) = self.data.get_mut(from..within) {
            room.copy_from_slice(over);
        }
        self.data.extend_from_slice(behind);
    }
}

/// The runs of one file.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    runs: Vec<Run>,
    writes: u64,
    /// How many writes there were when old runs were ended last.
    looked: u64,
}

impl Gathering {
    /// Takes bytes. Returned runs have to be sent, in this order: those that the bytes reach into
    /// (older than they) or that cannot grow, one that made room, and the one that is full.
    pub fn take(&mut self, offset: u64, bytes: &[u8], limit: usize) -> Vec<Run> {
        if bytes.is_empty() {
            return Vec::new();
        }
        self.writes += 1;
        let end = offset.saturating_add(bytes.len() as u64);
        let fitting = self
            .runs
            .iter()
            .filter(|run| run.place_of(offset, end, limit).is_some());
        let mine = fitting.map(|run| run.offset).max();
        let mut sent = self.end_where(|run| {
            mine != Some(run.offset) && (run.reaches_into(offset, end) || run.end() == offset)
        });
        let place = |run: &mut Run| run.place_of(offset, end, limit);
        let known = self.runs.iter_mut().find(|run| mine == Some(run.offset));
        let grown = match known.and_then(|run| Some((place(run)?, run))) {
            Some((place, run)) => {
                run.lay(place, bytes);
                run.touched = self.writes;
                run.offset
            }
            None => {
                sent.extend(self.room());
                self.runs.push(Run {
                    offset,
                    data: bytes.to_vec(),
                    touched: self.writes,
                });
                offset
            }
        };
        sent.extend(self.end_where(|run| run.offset == grown && run.data.len() >= limit));
        sent
    }

    /// The run that was left alone longest, if there is no place for another.
    fn room(&mut self) -> Option<Run> {
        if self.runs.len() < MAX_RUNS {
            return None;
        }
        let places = self.runs.iter().enumerate();
        let (oldest, _) = places.min_by_key(|(_, run)| run.touched)?;
        Some(self.runs.swap_remove(oldest))
    }

    /// Ends runs that reach into a range.
    pub fn end_within(&mut self, from: u64, to: u64) -> Vec<Run> {
        self.end_where(|run| run.reaches_into(from, to))
    }

    /// Ends runs that nobody wrote to since this was called last.
    pub fn end_old(&mut self) -> Vec<Run> {
        let looked = std::mem::replace(&mut self.looked, self.writes);
        let mut old = self.end_where(|run| run.touched <= looked);
        old.sort_unstable_by_key(|run| run.offset);
        old
    }

    /// Ends all runs.
    pub fn end_all(&mut self) -> Vec<Run> {
        let mut all = std::mem::take(&mut self.runs);
        all.sort_unstable_by_key(|run| run.offset);
        all
    }

    fn end_where(&mut self, ends: impl Fn(&Run) -> bool) -> Vec<Run> {
        self.runs.extract_if(.., |run| ends(run)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether there is one run.
    pub fn is_one(&self) -> bool {
        self.runs.len() == 1
    }

    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.data.len() as u64).sum()
    }

    /// The end of the last run in the file.
    pub fn end(&self) -> Option<u64> {
        self.runs.iter().map(Run::end).max()
    }
}
