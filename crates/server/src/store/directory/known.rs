//! Paths of objects, for a server that may not open by kernel handle: inode number to names.
//!
//! A name is a claim: whoever uses it opens the path inside the export and compares inode number
//! and birth time. What is not known (a handle from before a restart, an object that was moved
//! behind the server's back) is looked for in the whole export, at most once in
//! [`SEARCH_PAUSE_NS`]; what is not found then is stale.

use std::collections::VecDeque;

use hashbrown::HashMap;

/// Objects whose names are kept; beyond it the oldest go.
pub const MAX_KNOWN: usize = 1 << 20;
/// Names kept of one object (hard links).
const MAX_NAMES: usize = 8;
/// Deepest path.
const MAX_DEPTH: usize = 512;
/// Directory entries that one search looks at.
pub const MAX_SEARCHED: usize = 4 << 20;
/// Least time between searches, nanoseconds.
pub const SEARCH_PAUSE_NS: u64 = 1_000_000_000;

type Name = (u64, Box<[u8]>);

/// Names by inode number: each a directory's inode number and the name in it.
#[derive(Debug, Default)]
pub struct Known {
    names: HashMap<u64, Vec<Name>>,
    order: VecDeque<u64>,
    /// When the last search began.
    pub searched_ns: Option<u64>,
}

impl Known {
    /// Notes a name.
    pub fn add(&mut self, inode: u64, dir: u64, name: &[u8]) {
        if !self.names.contains_key(&inode) {
            while self.order.len() >= MAX_KNOWN {
                if let Some(oldest) = self.order.pop_front() {
                    self.names.remove(&oldest);
                }
            }
            self.order.push_back(inode);
        }
        let names = self.names.entry(inode).or_default();
        names.retain(|(d, n)| !(*d == dir && **n == *name));
        if names.len() >= MAX_NAMES {
            names.remove(0);
        }
        names.push((dir, name.into()));
    }

    /// Forgets a name that is gone.
    pub fn remove(&mut self, inode: u64, dir: u64, name: &[u8]) {
        if let Some(names) = self.names.get_mut(&inode) {
            names.retain(|(d, n)| !(*d == dir && **n == *name));
        }
    }

    /// Paths below the root to try, the newest name first.
    pub fn paths(&self, inode: u64, root: u64) -> Vec<Vec<u8>> {
        let names = self.names.get(&inode).into_iter().flatten().rev();
        names
            .filter_map(|(dir, name)| {
                let mut parts: Vec<&[u8]> = vec![name];
                let mut at = *dir;
                while at != root {
                    let (above, name) = self.names.get(&at)?.last()?;
                    parts.push(name);
                    at = *above;
                    if parts.len() > MAX_DEPTH {
                        return None;
                    }
                }
                parts.reverse();
                Some(parts.join(&b'/'))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_renamed_directories() {
        let mut known = Known::default();
        known.add(10, 1, b"a");
        known.add(20, 10, b"f");
        known.add(20, 1, b"link");
        assert_eq!(known.paths(20, 1), [b"link".to_vec(), b"a/f".to_vec()]);
        known.remove(10, 1, b"a");
        known.add(10, 1, b"b");
        known.remove(20, 1, b"link");
        assert_eq!(known.paths(20, 1), [b"b/f".to_vec()]);
        assert!(known.paths(99, 1).is_empty());
        // A ring of directories (stale claims) ends.
        known.add(30, 40, b"x");
        known.add(40, 30, b"y");
        assert!(known.paths(30, 1).is_empty());
    }
}
