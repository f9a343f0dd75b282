//! Names that are compared, and what replaying them does at bounds and checkpoints.

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

fn server() -> Host {
    Host::from_v4([10, 0, 0, 1])
}

fn attributes(file_id: u64) -> wire::summary::Attributes {
    wire::summary::Attributes {
        file_type: Some(1),
        fsid: Some(7),
        file_id: Some(file_id),
        ..Default::default()
    }
}

/// Names with so many files.
fn with_files(count: usize) -> Names {
    let mut names = Names::default();
    for number in 0..count {
        names.file_id(server(), format!("early {number}").as_bytes());
    }
    names
}

/// Plays what names learned since the log was cleared.
fn play(replay: &mut Replay, names: &mut Names, bytes: &[u8]) -> Result<(), ReplayError> {
    replay.apply(names, &mut Cursor::new(bytes))
}

/// Lists `handle` as `a` in the root.
fn list(names: &mut Names, handle: &[u8]) {
    let root = names.file_id(server(), b"root").unwrap();
    if let Some(id) = names.entry_id(server(), handle) {
        names.set_name(root, b"a", id);
        names.set_attributes(id, &attributes(3));
    }
}

#[test]
fn entries_are_refused_where_the_whole_table_is_half_full() {
    let learn = |names: &mut Names| {
        for _ in 0..3 {
            list(names, b"entry");
            list(names, b"early 3");
            list(names, b"");
        }
        // A call makes it known; its name has to be told again.
        names.file_id(server(), b"entry");
        let root = names.file_id(server(), b"root").unwrap();
        names.rename(root, b"a", root, b"b");
    };
    for early in [0, 10, MAX_FILES / 2 - 1, MAX_FILES / 2] {
        let (mut right, mut whole) = (with_files(early), with_files(early));
        let mut reader = Names::default();
        reader.keep_log();
        let mut replay = Replay::default();
        for round in 0..3 {
            learn(&mut right);
            learn(&mut reader);
            play(&mut replay, &mut whole, reader.log()).unwrap();
            reader.clear_log();
            right.assert_same(&whole);
            let refused = early >= MAX_FILES / 2 - 1;
            assert_eq!(right.beyond.entries > 0, refused, "{early} {round}");
        }
    }
}

#[test]
fn a_refused_entry_has_no_number() {
    let mut whole = with_files(MAX_FILES / 2);
    let mut reader = Names::default();
    reader.keep_log();
    list(&mut reader, b"entry");
    let mut replay = Replay::default();
    play(&mut replay, &mut whole, reader.log()).unwrap();
    assert_eq!(replay.number(1), Ok(None));
    assert_eq!(replay.number(2), Err(ReplayError::Damaged(Damaged)));
    reader.clear_log();
    // A LOOKUP without GETFH leads the reader to the entry, others to a record of their own.
    reader.child_or_new(FileId(0), b"a");
    let refused = play(&mut replay, &mut whole, reader.log());
    assert_eq!(refused, Err(ReplayError::ReachedBack));
}

#[test]
fn a_reader_that_refuses_an_entry_agrees_with_a_table_that_does() {
    for (more, done) in [(0, Ok(())), (1, Ok(())), (-1, Err(ReplayError::Full))] {
        let mut reader = with_files(MAX_FILES / 2);
        reader.keep_log();
        list(&mut reader, b"entry");
        let mut whole = with_files((MAX_FILES / 2).saturating_add_signed(more));
        if more < 0 {
            // It is known from an earlier listing.
            whole.entry_id(server(), b"entry");
        }
        let before = whole.beyond.entries;
        assert_eq!(play(&mut Replay::default(), &mut whole, reader.log()), done);
        assert_eq!(whole.beyond.entries - before, u64::from(more >= 0));
    }
}

#[test]
fn bounds_are_told() {
    let mut reader = Names::default();
    reader.keep_log();
    reader.file_id(server(), b"another");
    let mut whole = with_files(MAX_FILES);
    let full = Err(ReplayError::Full);
    assert_eq!(play(&mut Replay::default(), &mut whole, reader.log()), full);
    // The reader's own.
    let mut reader = with_files(MAX_FILES);
    reader.keep_log();
    reader.file_id(server(), b"another");
    let mut whole = Names::default();
    assert_eq!(play(&mut Replay::default(), &mut whole, reader.log()), full);
    // Names.
    let long = vec![b'x'; MAX_NAMES_BYTES / 2 + 1];
    let mut reader = Names::default();
    reader.keep_log();
    let root = reader.file_id(server(), b"root").unwrap();
    reader.set_root(root, Some(&long));
    let mut whole = Names::default();
    let other = whole.file_id(server(), b"other").unwrap();
    whole.set_root(other, Some(&long));
    assert_eq!(play(&mut Replay::default(), &mut whole, reader.log()), full);
}

#[test]
fn what_is_sure_is_not_written_again() {
    let mut names = Names::default();
    names.keep_log();
    for round in 0..3 {
        for (name, handle) in [(b"a", b"1"), (b"b", b"2")] {
            let root = names.file_id(server(), b"root").unwrap();
            let id = names.file_id(server(), handle).unwrap();
            names.set_name(root, name, id);
            names.set_attributes(id, &attributes(id.0.into()));
        }
        assert_eq!(names.log().is_empty(), round > 0);
        names.clear_log();
    }
    // What comes after a checkpoint is.
    names.log_anew();
    let root = names.file_id(server(), b"root").unwrap();
    assert!(!names.is_defined(FileId(1)) && names.is_defined(root));
    names.set_name(root, b"a", FileId(1));
    names.set_attributes(FileId(1), &attributes(1));
    let mut whole = Names::default();
    let done = play(&mut Replay::default(), &mut whole, names.log());
    // Its handle was met before.
    assert_eq!(done, Err(ReplayError::ReachedBack));
    let mut whole = Names::default();
    for handle in [b"other".as_slice(), b"1", b"root"] {
        whole.file_id(server(), handle);
    }
    let mut replay = Replay::default();
    play(&mut replay, &mut whole, names.log()).unwrap();
    assert_eq!(replay.number(1), Ok(Some(FileId(1))));
    assert_eq!(whole.child(FileId(2), b"a"), Some(FileId(1)));
    assert_eq!(whole.numbers(FileId(1)), Some((7, 1)));
}

#[test]
fn records_without_a_handle_do_not_outlive_a_checkpoint() {
    let mut names = Names::default();
    names.keep_log();
    let root = names.root(server()).unwrap();
    let passed = names.child_or_new(root, b"a").unwrap();
    let mut bytes = vec![];
    assert!(names.write_definition(passed, &mut bytes) && bytes.is_empty());
    names.log_anew();
    assert!(!names.write_definition(passed, &mut bytes) && bytes.is_empty());
    let again = names.root(server()).unwrap();
    assert_ne!(again, root);
    assert_ne!(names.child_or_new(again, b"a"), Some(passed));
    assert!(!names.take_reached_back());
    names.set_type(passed, 2);
    assert!(names.take_reached_back() && !names.take_reached_back());
}

#[test]
fn lists_are_found_by_their_codes() {
    let mut names = Names::default();
    let codes = [24, 10, 254, 255];
    let id = names.list_of(&codes).unwrap();
    assert_eq!(names.operations(id), [24, 10, 254, 10044]);
    assert_eq!(names.codes_of(id), codes);
    assert_eq!(names.list_of(&codes), Some(id));
    assert_eq!(
        names.list_of(&[9; wire::limits::MAX_LISTED_OPERATIONS + 1]),
        None
    );
    assert_eq!(names.beyond(), Beyond::default());
}
