//! Calls on data by file: how many, and their bytes, since the last time that somebody asked.

use std::collections::HashMap;
use std::hash::Hash;

/// Files between two takes; calls of further ones are in none.
pub const FILES_MOST: usize = 4096;

/// What a call does with a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCall {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// COMMIT.
    Commit,
}

/// Calls of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// READs.
    pub reads: u64,
    /// WRITEs.
    pub writes: u64,
    /// COMMITs.
    pub commits: u64,
    /// Bytes that READs brought.
    pub read_bytes: u64,
    /// Bytes that WRITEs wrote.
    pub written_bytes: u64,
}

/// Calls of all files, by whatever tells one from another.
#[derive(Debug)]
pub struct ByFile<K>(HashMap<K, FileCounts>);

impl<K> Default for ByFile<K> {
    fn default() -> Self {
        ByFile(HashMap::new())
    }
}

impl<K: Eq + Hash> ByFile<K> {
    /// A call ended, with so many bytes.
    pub fn add(&mut self, file: K, call: DataCall, bytes: u64) {
        if self.0.len() >= FILES_MOST && !self.0.contains_key(&file) {
            return;
        }
        let counts = self.0.entry(file).or_default();
        match call {
            DataCall::Read => {
                counts.reads += 1;
                counts.read_bytes += bytes;
            }
            DataCall::Write => {
                counts.writes += 1;
                counts.written_bytes += bytes;
            }
            DataCall::Commit => counts.commits += 1,
        }
    }

    /// What was counted; it begins anew.
    pub fn take(&mut self) -> Vec<(K, FileCounts)> {
        self.0.drain().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_file_until_they_are_taken() {
        let mut files = ByFile::default();
        for (file, call, bytes) in [
            (1, DataCall::Write, 10),
            (2, DataCall::Read, 7),
            (1, DataCall::Write, 5),
            (1, DataCall::Commit, 0),
        ] {
            files.add(file, call, bytes);
        }
        let mut taken = files.take();
        taken.sort_by_key(|(file, _)| *file);
        let first = FileCounts {
            writes: 2,
            commits: 1,
            written_bytes: 15,
            ..FileCounts::default()
        };
        let second = FileCounts {
            reads: 1,
            read_bytes: 7,
            ..FileCounts::default()
        };
        assert_eq!(taken, [(1, first), (2, second)]);
        assert_eq!(files.take(), []);
    }

    #[test]
    fn those_of_a_file_too_many_are_in_none() {
        let mut files = ByFile::default();
        for file in 0..=FILES_MOST {
            files.add(file, DataCall::Read, 1);
        }
        files.add(0, DataCall::Read, 1);
        let taken = files.take();
        assert_eq!(taken.len(), FILES_MOST);
        let reads: u64 = taken.iter().map(|(_, counts)| counts.reads).sum();
        assert_eq!(reads, FILES_MOST as u64 + 1);
    }
}
