//! What names lead to where an index or a table is at its bound.

use super::*;

fn server() -> Host {
    Host::from_v4([10, 0, 0, 1])
}

/// Names with so many files.
fn with_files(count: usize) -> Names {
    let mut names = Names::default();
    for number in 0..count {
        names.file_id(server(), format!("early {number}").as_bytes());
    }
    names
}

#[test]
fn entries_are_refused_where_the_table_is_half_full() {
    let mut names = with_files(MAX_FILES / 2 - 1);
    assert!(names.entry_id(server(), b"the last one").is_some());
    assert_eq!(names.beyond(), Beyond::default());
    assert_eq!(names.entry_id(server(), b"entry"), None);
    assert_eq!(names.beyond().entries, 1);
    assert_eq!(names.entry_id(server(), b"early 3"), Some(FileId(3)));
    // A call makes it known.
    let known = names.file_id(server(), b"entry");
    assert!(known.is_some());
    assert_eq!(names.entry_id(server(), b"entry"), known);
    assert_eq!(names.beyond().entries, 1);
}

#[test]
fn what_does_not_fit_is_counted() {
    let mut names = with_files(MAX_FILES);
    assert_eq!(names.file_id(server(), b"another"), None);
    assert_eq!(names.root(server()), None);
    assert_eq!(names.beyond().files, 2);
    let long = vec![b'x'; MAX_NAMES_BYTES / 2 + 1];
    for count in [0, 1] {
        names.set_root(FileId(count), Some(&long));
        assert_eq!(names.beyond().names, u64::from(count));
    }
}

/// Found by its path as long as that is its name, however the index grows.
#[test]
fn an_export_is_not_found_by_the_name_that_it_had() {
    let mut names = Names::default();
    let root = names.root(server()).unwrap();
    let export = names.child_or_new(root, b"a").unwrap();
    names.set_root(export, Some(b"/a"));
    for number in 0..b'a' {
        names.child_or_new(root, &[number]);
        assert_eq!(names.child(root, b"/a"), None);
        assert_eq!(names.child(root, b"a"), None);
    }
}

#[test]
fn lists_are_found_by_their_codes() {
    let mut names = Names::default();
    let codes = [24, 10, 254, 255];
    let id = names.list_of(&codes).unwrap();
    assert_eq!(names.operations(id), [24, 10, 254, 10044]);
    assert_eq!(names.list_of(&codes), Some(id));
    assert_eq!(
        names.list_of(&[9; wire::limits::MAX_LISTED_OPERATIONS + 1]),
        None
    );
    assert_eq!(names.beyond(), Beyond::default());
}
