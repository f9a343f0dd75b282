//! WRITE, then COMMIT: what was written without stability, and when it was made stable.

use serde_json::{Value, json};
use wire::summary::Stability;

use crate::lens::log_histogram::LogHistogram;

/// Separate stretches of uncommitted data that are followed for each file.
const RANGES: usize = 4;

/// Uncommitted data of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uncommitted {
    ranges: [(u64, u64); RANGES],
    used: u8,
    /// More stretches than are followed: what is rewritten is not known until the next COMMIT.
    scattered: bool,
    pub bytes: u64,
    writes: u32,
    last_write_ns: i64,
}

/// Totals over all files.
#[derive(Debug, Default)]
pub(super) struct Commits {
    unstable: u64,
    data_sync: u64,
    file_sync: u64,
    stability_unknown: u64,
    made_stable: u64,
    commits: u64,
    whole_file: u64,
    partial: u64,
    nothing_written: u64,
    rewritten_writes: u64,
    rewritten_bytes: u64,
    scattered_writes: u64,
    bytes: LogHistogram<5>,
    writes: LogHistogram<5>,
    wait_ns: LogHistogram<5>,
}

impl Uncommitted {
    /// Bytes of `[from, to)` that were written before and not committed; they are joined then.
    fn add(&mut self, from: u64, to: u64) -> u64 {
        let mut overlap = 0;
        let (mut joined_from, mut joined_to) = (from, to);
        let mut kept = 0;
        for index in 0..usize::from(self.used) {
            let (begin, end) = self.ranges[index];
            overlap += end.min(to).saturating_sub(begin.max(from));
            if begin <= joined_to && end >= joined_from {
                joined_from = joined_from.min(begin);
                joined_to = joined_to.max(end);
            } else {
                self.ranges[kept] = (begin, end);
                kept += 1;
            }
        }
        if kept < RANGES {
            self.ranges[kept] = (joined_from, joined_to);
            kept += 1;
        } else {
            self.scattered = true;
        }
        self.used = kept as u8;
        overlap
    }

    /// Whether a COMMIT of these bounds covers all of it. Count 0: to the end of the file
    /// (RFC 1813 section 3.3.21, RFC 8881 section 18.3.3).
    fn is_covered(&self, offset: u64, count: u64) -> bool {
        if offset == 0 && count == 0 {
            return true;
        }
        let end = if count == 0 {
            u64::MAX
        } else {
            offset.saturating_add(count)
        };
        !self.scattered
            && self.ranges[..usize::from(self.used)]
                .iter()
                .all(|&(begin, to)| offset <= begin && to <= end)
    }
}

impl Commits {
    /// A WRITE that succeeded, or was not answered.
    pub fn write(
        &mut self,
        file: &mut Uncommitted,
        [offset, length]: [u64; 2],
        sent_ns: i64,
        [asked, done]: [Option<Stability>; 2],
    ) {
        match asked {
            Some(Stability::Unstable) => self.unstable += 1,
            Some(Stability::DataSync) => self.data_sync += 1,
            Some(Stability::FileSync) => self.file_sync += 1,
            None => self.stability_unknown += 1,
        }
        if asked != Some(Stability::Unstable) {
            return;
        }
        if matches!(done, Some(Stability::DataSync | Stability::FileSync)) {
            self.made_stable += 1;
            return;
        }
        if file.scattered {
            self.scattered_writes += 1;
        } else {
            let rewritten = file.add(offset, offset.saturating_add(length));
            self.rewritten_writes += u64::from(rewritten > 0);
            self.rewritten_bytes += rewritten;
        }
        file.bytes = file.bytes.saturating_add(length);
        file.writes = file.writes.saturating_add(1);
        file.last_write_ns = sent_ns;
    }

    /// A COMMIT that succeeded, or was not answered.
    pub fn commit(&mut self, file: &mut Uncommitted, offset: u64, count: u64, sent_ns: i64) {
        self.commits += 1;
        self.whole_file += u64::from(offset == 0 && count == 0);
        if file.writes == 0 {
            self.nothing_written += 1;
            return;
        }
        if !file.is_covered(offset, count) {
            self.partial += 1;
            return;
        }
        self.bytes
            .record(i64::try_from(file.bytes).unwrap_or(i64::MAX));
        self.writes.record(i64::from(file.writes));
        self.wait_ns.record(sent_ns - file.last_write_ns);
        *file = Uncommitted::default();
    }

    /// WRITEs that asked for stability, and all whose wish is known.
    pub fn synchronous(&self) -> (u64, u64) {
        let stable = self.data_sync + self.file_sync;
        (stable, stable + self.unstable)
    }

    /// COMMITs that covered what was written, and the mean number of WRITEs of each.
    pub fn writes_of_a_commit(&self) -> (u64, f64) {
        (self.writes.count(), self.writes.mean().unwrap_or(0.0))
    }

    /// Bytes rewritten before they were committed, and the WRITEs that did it.
    pub fn rewritten(&self) -> (u64, u64) {
        (self.rewritten_writes, self.unstable)
    }

    pub fn stability_json(&self) -> Value {
        json!({
            "unstable": self.unstable,
            "data_sync": self.data_sync,
            "file_sync": self.file_sync,
            "not_known": self.stability_unknown,
            "unstable_made_stable": self.made_stable,
            "rewritten_before_commit": {
                "calls": self.rewritten_writes,
                "bytes": self.rewritten_bytes,
                "calls_not_followed": self.scattered_writes,
            },
        })
    }

    /// `left`: files, and bytes of theirs, written and not committed at the end.
    pub fn json(&self, left: (u64, u64)) -> Value {
        json!({
            "calls": self.commits,
            "whole_file": self.whole_file,
            "of_a_part": self.partial,
            "nothing_written_before": self.nothing_written,
            "bytes": self.bytes.json(),
            "writes": self.writes.json(),
            "last_write_to_commit_ns": self.wait_ns.json(),
            "files_left_uncommitted": left.0,
            "bytes_left_uncommitted": left.1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNSTABLE: [Option<Stability>; 2] = [Some(Stability::Unstable), Some(Stability::Unstable)];

    #[test]
    fn a_commit_knows_what_it_makes_stable() {
        let (mut commits, mut file) = (Commits::default(), Uncommitted::default());
        for step in 0..10 {
            commits.write(&mut file, [step * 100, 100], step as i64, UNSTABLE);
        }
        // A part of it, then all of it by its bounds.
        commits.commit(&mut file, 0, 500, 20);
        commits.commit(&mut file, 0, 1000, 29);
        commits.commit(&mut file, 0, 0, 30);
        assert_eq!(
            (commits.partial, commits.whole_file, commits.nothing_written),
            (1, 1, 1)
        );
        assert_eq!(commits.bytes.sum(), 1000);
        assert_eq!(commits.writes.sum(), 10);
        assert_eq!(commits.wait_ns.sum(), 20);
        assert_eq!(commits.rewritten_writes, 0);
    }

    #[test]
    fn what_is_rewritten_before_its_commit_is_counted_in_bytes() {
        let (mut commits, mut file) = (Commits::default(), Uncommitted::default());
        for [offset, length] in [[0, 100], [300, 100], [50, 100], [100, 250], [600, 1]] {
            commits.write(&mut file, [offset, length], 0, UNSTABLE);
        }
        // 50 to 100; then 100 to 150 and 300 to 350.
        assert_eq!(
            (commits.rewritten_writes, commits.rewritten_bytes),
            (2, 50 + 50 + 50)
        );
        commits.commit(&mut file, 0, 0, 1);
        commits.write(&mut file, [0, 100], 2, UNSTABLE);
        assert_eq!(commits.rewritten_writes, 2);
    }

    #[test]
    fn scattered_writes_are_counted_as_not_followed() {
        let (mut commits, mut file) = (Commits::default(), Uncommitted::default());
        for step in 0..10 {
            commits.write(&mut file, [step * 1000, 10], 0, UNSTABLE);
        }
        commits.write(&mut file, [0, 10], 0, UNSTABLE);
        assert_eq!((commits.rewritten_writes, commits.scattered_writes), (0, 6));
        // Bounds of a COMMIT say nothing then; that of the whole file does.
        commits.commit(&mut file, 0, 1 << 40, 1);
        assert_eq!(commits.partial, 1);
        commits.commit(&mut file, 0, 0, 1);
        assert_eq!(commits.bytes.sum(), 110);
    }

    #[test]
    fn stable_writes_need_no_commit() {
        let (mut commits, mut file) = (Commits::default(), Uncommitted::default());
        commits.write(&mut file, [0, 10], 0, [Some(Stability::FileSync), None]);
        let made = [Some(Stability::Unstable), Some(Stability::FileSync)];
        commits.write(&mut file, [0, 10], 0, made);
        assert_eq!((commits.made_stable, file.writes), (1, 0));
        assert_eq!(commits.synchronous(), (1, 2));
    }
}
