//! Comparing names, and bounds of their replay.

use std::collections::BTreeSet;

use super::replay::{Replay, ReplayError};
use super::*;
use crate::journal::Damaged;
use crate::journal::bytes::Cursor;

impl Names {
    /// What the index by name leads to.
    fn listed(&self) -> BTreeSet<u32> {
        let found = |number: &u32| {
            let file = &self.files[*number as usize];
            let (parent, name) = (file.parent, file.name.as_deref());
            parent
                .zip(name)
                .and_then(|(parent, name)| self.child(parent, name))
                == Some(FileId(*number))
        };
        self.by_name.iter().copied().filter(found).collect()
    }

    /// Panics where anything differs that can be asked.
    pub(crate) fn assert_same(&self, other: &Names) {
        for (at, file) in self.files.iter().enumerate() {
            assert_eq!(Some(file), other.files.get(at), "file {at}");
        }
        assert_eq!(self.files.len(), other.files.len());
        assert_eq!(self.roots, other.roots);
        assert_eq!(self.listed(), other.listed());
        assert_eq!(self.beyond, other.beyond);
        assert_eq!(self.names_bytes, other.names_bytes);
    }
}
