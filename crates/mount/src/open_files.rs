//! Open files and directories by the number that the kernel knows them by.

use std::sync::Arc;

use client::{Caller, File};
use parking_lot::Mutex;

use crate::inodes::Inode;

/// Most open files (and most open directories); then ENFILE.
const MAX_OPEN: usize = 1 << 20;

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub inode: Arc<Inode>,
    pub file: Arc<File>,
    pub caller: Caller,
    pub writes: bool,
}

/// Things by small numbers.
#[derive(Debug)]
pub(crate) struct Numbered<T>(Mutex<Places<T>>);

#[derive(Debug)]
struct Places<T> {
    places: Vec<Option<Arc<T>>>,
    unused: Vec<usize>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered(Mutex::new(Places {
            places: Vec::new(),
            unused: Vec::new(),
        }))
    }
}

impl<T> Numbered<T> {
    /// A number for it; `None` if there are too many.
    pub fn insert(&self, thing: T) -> Option<u64> {
        let mut all = self.0.lock();
        let number = match all.unused.pop() {
            Some(number) => number,
            None if all.places.len() >= MAX_OPEN => return None,
            None => {
                all.places.push(None);
                all.places.len() - 1
            }
        };
        *all.places.get_mut(number)? = Some(Arc::new(thing));
        u64::try_from(number).ok()
    }

    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        let index = usize::try_from(number).ok()?;
        self.0.lock().places.get(index)?.clone()
    }

    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        let index = usize::try_from(number).ok()?;
        let mut all = self.0.lock();
        let thing = all.places.get_mut(index)?.take()?;
        all.unused.push(index);
        Some(thing)
    }

    pub fn len(&self) -> usize {
        let all = self.0.lock();
        all.places.len() - all.unused.len()
    }
}

impl Numbered<OpenFile> {
    /// Data paths that are open for writing, each once: opens of one user share it.
    pub fn written(&self) -> Vec<Arc<File>> {
        let all = self.0.lock();
        let writing = all.places.iter().flatten().filter(|open| open.writes);
        let mut files: Vec<_> = writing.map(|open| Arc::clone(&open.file)).collect();
        files.sort_unstable_by_key(Arc::as_ptr);
        files.dedup_by(|one, other| Arc::ptr_eq(one, other));
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let things = Numbered::default();
        assert_eq!((things.insert('a'), things.insert('b')), (Some(0), Some(1)));
        assert_eq!(things.remove(0).as_deref(), Some(&'a'));
        assert!(things.get(0).is_none() && things.remove(0).is_none());
        assert_eq!((things.insert('c'), things.len()), (Some(0), 2));
        assert_eq!(things.get(7), None);
    }
}
