//! The file set on disk: made, found, extended, checked.

use std::path::Path;

use web::fileset::{FileSet, MARKER, StoreConfig, check, directory_bytes, write};
use web::{Observer, Progress, WebError};

pub fn config(root: &Path, directories: u32) -> StoreConfig {
    StoreConfig {
        root: root.to_path_buf(),
        file_set: FileSet {
            seed: 7,
            directories,
        },
        threads: 2,
        sample_files: 1000,
    }
}

#[test]
fn a_set_is_made_once_extended_and_found() {
    let root = tempfile::tempdir().unwrap();
    let made = write(&config(root.path(), 2), &mut ()).unwrap();
    assert_eq!((made.directories_found, made.directories_made), (0, 2));
    assert_eq!(made.written_bytes, 2 * directory_bytes());
    let again = write(&config(root.path(), 2), &mut ()).unwrap();
    assert_eq!((again.directories_found, again.written_bytes), (2, 0));
    let more = write(&config(root.path(), 3), &mut ()).unwrap();
    assert_eq!((more.directories_found, more.directories_made), (2, 1));
    let smaller = write(&config(root.path(), 1), &mut ()).unwrap();
    assert_eq!((smaller.directories_found, smaller.written_bytes), (1, 0));
    let checked = check(&config(root.path(), 3), &mut ()).unwrap();
    assert!(checked.complete && checked.wrong.is_empty());
    assert_eq!((checked.files, checked.sampled.files), (108, 108));
    // The tree is what du(1) and find(1) would count: 36 files a directory, no other ones.
    let folder = root.path().join("file_set/dir00002");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 36);
    let last = root.path().join("file_set/dir00001/class3_9");
    assert_eq!(std::fs::metadata(last).unwrap().len(), 921_600);
}

#[test]
fn what_was_broken_off_goes_on() {
    let root = tempfile::tempdir().unwrap();
    write(&config(root.path(), 3), &mut ()).unwrap();
    // As if it had been killed: no marker, one directory half made, one with a short file.
    std::fs::remove_file(root.path().join(MARKER)).unwrap();
    let folder = root.path().join("file_set");
    std::fs::rename(folder.join("dir00002"), folder.join("dir00002.part")).unwrap();
    std::fs::write(folder.join("dir00001/class1_1"), b"short").unwrap();
    let found = check(&config(root.path(), 3), &mut ()).unwrap();
    assert_eq!(
        (found.complete, found.missing, found.wrong_size),
        (false, 36, 1)
    );
    let made = write(&config(root.path(), 3), &mut ()).unwrap();
    assert_eq!((made.directories_found, made.directories_made), (1, 2));
    let checked = check(&config(root.path(), 3), &mut ()).unwrap();
    assert!(checked.complete && checked.wrong.is_empty(), "{checked:?}");
}

#[test]
fn one_flipped_byte_on_disk_is_found() {
    let root = tempfile::tempdir().unwrap();
    write(&config(root.path(), 1), &mut ()).unwrap();
    let path = root.path().join("file_set/dir00000/class2_4");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[33_333] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let mut all = config(root.path(), 1);
    all.sample_files = 36 * 40; // of 36 files, drawn with repetition
    let found = check(&all, &mut ()).unwrap();
    assert_eq!((found.missing, found.wrong_size), (0, 0));
    assert!(found.sampled.wrong_bytes > 0);
    assert!(found.wrong[0].ends_with("class2_4 is wrong at byte 33333"));
}

#[test]
fn another_seed_a_folder_that_is_not_there_and_a_stop_are_told() {
    let root = tempfile::tempdir().unwrap();
    write(&config(root.path(), 1), &mut ()).unwrap();
    let mut other = config(root.path(), 1);
    other.file_set.seed = 8;
    let error = write(&other, &mut ()).unwrap_err();
    assert_eq!(error.kind(), "file_set");
    assert!(error.why().contains("seed 7") && error.why().contains("seed 8"));
    let nowhere = config(&root.path().join("nowhere"), 1);
    assert_eq!(write(&nowhere, &mut ()).unwrap_err().kind(), "missing");
    let none = config(root.path(), 0);
    assert_eq!(write(&none, &mut ()).unwrap_err().kind(), "config");

    struct Impatient;
    impl Observer<Progress> for Impatient {
        fn tick(&mut self, _: &Progress) -> bool {
            false
        }
    }
    let error = write(&config(root.path(), 50), &mut Impatient).unwrap_err();
    assert!(matches!(error, WebError::Cancelled));
    assert!(!check(&config(root.path(), 50), &mut ()).unwrap().complete);
}

#[test]
fn a_folder_without_room_is_told_before_anything_is_written() {
    let root = tempfile::tempdir().unwrap();
    // 65,536 directories are 328 GB; where there is that much, the check cannot be seen to work.
    let huge = config(root.path(), 65_536);
    let room = rustix::fs::statvfs(root.path()).unwrap();
    if room.f_bavail * room.f_frsize > huge.file_set.bytes() {
        println!(
            "skipped: more than {} bytes are free",
            huge.file_set.bytes()
        );
        return;
    }
    let error = write(&huge, &mut ()).unwrap_err();
    assert_eq!(error.kind(), "space");
    let folder = root.path().join("file_set");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}
