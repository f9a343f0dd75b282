//! Names of objects: inode number to the names that were seen, from which paths are made.
//!
//! A name is a claim: whoever uses one opens the path inside the export and compares what is
//! there with the handle. So a name that is old costs a try, never a wrong object.

use lru::LruCache;

use super::object::MAX_DEPTH;

/// Objects whose names are kept, some 120 bytes each; beyond it those unused longest go.
pub const MAX_KNOWN: usize = 1 << 20;
/// Names kept of one object (hard links).
pub const MAX_NAMES: usize = 8;
/// Objects kept of which it is known that they are no more.
const MAX_GONE: usize = 1 << 16;

/// A directory's inode number and the name in it.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    dir: u64,
    name: Box<[u8]>,
}

#[derive(Debug)]
struct Names {
    newest: Name,
    // Newest last. Few objects have any: the room for a vector would be paid by all.
    #[allow(clippy::box_collection)]
    older: Option<Box<Vec<Name>>>,
}

impl Names {
    fn nth(&self, number: usize) -> Option<&Name> {
        let Some(before) = number.checked_sub(1) else {
            return Some(&self.newest);
        };
        self.older.as_ref()?.iter().rev().nth(before)
    }
}

/// Names by inode number.
#[derive(Debug)]
pub struct Known {
    names: LruCache<u64, Names>,
    gone: LruCache<(u64, u64), ()>,
}

impl Default for Known {
    fn default() -> Self {
        // Bounded by `add` and `bury`: a cache that knows its bound takes all its room at once.
        Known {
            names: LruCache::unbounded(),
            gone: LruCache::unbounded(),
        }
    }
}

impl Known {
    /// Notes a name.
    pub fn add(&mut self, inode: u64, dir: u64, name: &[u8]) {
        let is_it = |one: &Name| one.dir == dir && *one.name == *name;
        let Some(names) = self.names.get_mut(&inode) else {
            if self.names.len() >= MAX_KNOWN {
                self.names.pop_lru();
            }
            let newest = Name {
                dir,
                name: name.into(),
            };
            self.names.put(
                inode,
                Names {
                    newest,
                    older: None,
                },
            );
            return;
        };
        if is_it(&names.newest) {
            return;
        }
        let name = name.into();
        let before = std::mem::replace(&mut names.newest, Name { dir, name });
        let older = names.older.get_or_insert_default();
        let newest = &names.newest;
        older.retain(|one| one != newest);
        if older.len() + 1 >= MAX_NAMES {
            older.remove(0);
        }
        older.push(before);
    }

    /// Forgets a name that is gone.
    pub fn remove(&mut self, inode: u64, dir: u64, name: &[u8]) {
        let is_it = |one: &Name| one.dir == dir && *one.name == *name;
        let Some(names) = self.names.get_mut(&inode) else {
            return;
        };
        if let Some(older) = &mut names.older {
            older.retain(|one| !is_it(one));
        }
        if is_it(&names.newest) {
            match names.older.as_mut().and_then(|older| older.pop()) {
                Some(next) => names.newest = next,
                None => drop(self.names.pop(&inode)),
            }
        }
    }

    /// How many names of an object there are.
    pub fn count(&self, inode: u64) -> usize {
        let older = |names: &Names| names.older.as_ref().map_or(0, |older| older.len());
        self.names.peek(&inode).map_or(0, |names| 1 + older(names))
    }

    /// Writes the path below the root of an object's name of this number, the newest being 0.
    /// False if it leads nowhere.
    pub fn path(&mut self, inode: u64, number: usize, root: u64, path: &mut Vec<u8>) -> bool {
        path.clear();
        let (mut inode, mut number) = (inode, number);
        // From the end to the beginning, and turned round: names are copied as they are found.
        for _ in 0..MAX_DEPTH {
            let Some(name) = self.names.get(&inode).and_then(|names| names.nth(number)) else {
                return false;
            };
            path.extend(name.name.iter().rev());
            if name.dir == root {
                path.reverse();
                return true;
            }
            path.push(b'/');
            (inode, number) = (name.dir, 0);
        }
        false
    }

    /// Notes that an object (inode number and generation) has lost its last name here.
    pub fn bury(&mut self, object: (u64, u64)) {
        if self.gone.len() >= MAX_GONE {
            self.gone.pop_lru();
        }
        self.gone.put(object, ());
    }

    /// True if an object is known to be no more.
    pub fn is_gone(&self, object: (u64, u64)) -> bool {
        self.gone.contains(&object)
    }

    /// An object is there, whatever was noted of one with the same number and birth.
    pub fn is_there(&mut self, object: (u64, u64)) {
        self.gone.pop(&object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(known: &mut Known, inode: u64) -> Vec<String> {
        let mut path = Vec::new();
        let mut found = Vec::new();
        for number in 0..known.count(inode) {
            if known.path(inode, number, 1, &mut path) {
                found.push(String::from_utf8(path.clone()).unwrap());
            }
        }
        found
    }

    #[test]
    fn paths_follow_renamed_directories() {
        let mut known = Known::default();
        known.add(10, 1, b"a");
        known.add(20, 10, b"f");
        known.add(20, 1, b"link");
        assert_eq!(paths(&mut known, 20), ["link", "a/f"]);
        // Seen again, it is the newest.
        known.add(20, 10, b"f");
        assert_eq!(paths(&mut known, 20), ["a/f", "link"]);
        known.remove(10, 1, b"a");
        known.add(10, 1, b"b");
        known.remove(20, 1, b"link");
        assert_eq!(paths(&mut known, 20), ["b/f"]);
        known.remove(20, 10, b"f");
        assert!(paths(&mut known, 20).is_empty());
        assert!(paths(&mut known, 99).is_empty());
        // A ring of directories (stale claims) ends.
        known.add(30, 40, b"x");
        known.add(40, 30, b"y");
        assert!(paths(&mut known, 30).is_empty());
    }

    #[test]
    fn of_many_names_the_newest_are_kept() {
        let mut known = Known::default();
        for name in 0..20 {
            known.add(7, 1, format!("n{name}").as_bytes());
        }
        let wanted: Vec<String> = (12..20).rev().map(|name| format!("n{name}")).collect();
        assert_eq!(paths(&mut known, 7), wanted);
    }
}
