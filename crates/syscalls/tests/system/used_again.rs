//! A file that is made again under its name, and gets the inode number of the one before, is
//! another file: each of 200 has its own calls, though many are born within one tick of the clock.

use crate::programs;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::process::{Command, Stdio};

use syscalls::ebpf::{self, Watch};
use syscalls::record::{Call, CountRecord, FileRecord};
use syscalls::shim::ShimRecords;
use syscalls::tally::{Level, Options};

const FILES: usize = 200;
/// linux/magic.h
const OVERLAYFS_SUPER_MAGIC: i64 = 0x794c_7630;

/// Did the file system give a number twice, as the program saw it? Says so if not.
fn numbers_came_again(output: &[u8]) -> bool {
    let text = std::str::from_utf8(output).unwrap();
    let numbers: HashSet<&str> = text.lines().collect();
    assert_eq!(text.lines().count(), FILES);
    if numbers.len() == FILES {
        eprintln!(
            "skipped: the file system of {:?} uses no inode number again",
            std::env::temp_dir()
        );
    }
    numbers.len() < FILES
}

fn assert_told_apart(files: &[FileRecord], counts: &[CountRecord], path: &Path) {
    let ours = files
        .iter()
        .filter(|file| file.path == path.as_os_str().as_encoded_bytes());
    let ours: BTreeSet<u32> = ours.map(|file| file.file_id).collect();
    assert_eq!(ours.len(), FILES);
    for call in [Call::Open, Call::Write, Call::Unlink, Call::Close] {
        let of_call = counts
            .iter()
            .filter(|row| row.call == call && ours.contains(&row.file_id));
        let calls: Vec<u64> = of_call.map(|row| row.calls).collect();
        assert_eq!(calls, [1; FILES], "{call:?}");
    }
}

#[test]
fn the_shim_tells_them_apart() {
    let Some((_folder, root)) = programs::folder_with("again") else {
        return;
    };
    let shim = ShimRecords::new(&root, Options::new(Level::Counts)).unwrap();
    let done = Command::new(root.join("again"))
        .arg(root.join("file"))
        .arg(FILES.to_string())
        .envs(shim.environment())
        .output()
        .unwrap();
    assert!(done.status.success());
    if numbers_came_again(&done.stdout) {
        assert_told_apart(&shim.take().files, &shim.counts(), &root.join("file"));
    }
}

#[test]
fn ebpf_tells_them_apart() {
    let Some((_folder, root)) = programs::folder_with("again") else {
        return;
    };
    if let Some(refused) = ebpf::grants().refused {
        eprintln!("skipped: {refused}: {}", refused.why());
        return;
    }
    if rustix::fs::statfs(&root).unwrap().f_type == OVERLAYFS_SUPER_MAGIC {
        eprintln!("skipped: an overlay's inodes have no generation");
        return;
    }
    let mut child = Command::new(root.join("again"))
        .arg(root.join("file"))
        .arg(FILES.to_string())
        .arg("wait")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let watch = Watch::start(&ebpf::Options::new(vec![child.id()], Level::Counts)).unwrap();
    drop(child.stdin.take());
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    if numbers_came_again(&done.stdout) {
        assert_told_apart(&watch.take().files, &watch.counts(), &root.join("file"));
    }
}
