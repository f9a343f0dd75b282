//! `writeback`: the kernel keeps written pages, sizes and times until a sync or a close. What the
//! server has then is looked up behind all caches, through a second mount.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::mounted::{Server, possible};
use wire::nfs3::procedure;

const READ: usize = procedure::READ as usize;
const SETATTR: usize = procedure::SETATTR as usize;

fn mtime(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// The kernel fills a page up from the server before it keeps a part of it: the one thing that
/// shows from outside that it does.
#[test]
fn a_program_that_only_writes_has_its_pages_filled_up() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let before = vec![b'a'; 20_000];
    for (options, reads) in [("", false), ("writeback", true)] {
        fs::write(server.mount("").path.join("f"), &before).unwrap();
        let mounted = server.mount(options);
        let path = mounted.path.join("f");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"within", 5_000).unwrap();
        assert_eq!(mounted.calls(READ) > 0, reads, "{options:?}");
        file.write_all_at(b"behind", 30_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 30_006);
        drop(file);
        let mut expected = before.clone();
        expected[5_000..5_006].copy_from_slice(b"within");
        expected.resize(30_000, 0);
        expected.extend_from_slice(b"behind");
        assert!(fs::read(server.mount("").path.join("f")).unwrap() == expected);
    }
}

#[test]
fn what_is_in_effect_says_so() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    for (options, on) in [("", false), ("writeback", true)] {
        let mut effective = server.mount(options).mount.effective_options().into_iter();
        assert_eq!(effective.any(|(name, _)| name == "writeback"), on);
    }
}

/// The server gets the time that programs here have seen, and those that ask for data alone do not
/// wait for that.
#[test]
fn the_time_of_change_is_the_one_that_programs_saw() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let (one, two) = (server.mount("writeback"), server.mount("actimeo=0"));
    let (here, there) = (one.path.join("f"), two.path.join("f"));
    let mut file = File::create(&here).unwrap();
    file.write_all(b"first").unwrap();
    let seen = mtime(&here);
    let told = one.calls(SETATTR);
    file.sync_data().unwrap();
    assert_eq!(one.calls(SETATTR), told, "fdatasync");
    file.sync_all().unwrap();
    assert_eq!((mtime(&here), mtime(&there)), (seen, seen));
    file.write_all(b"second").unwrap();
    let seen = mtime(&here);
    drop(file);
    assert_eq!((mtime(&here), mtime(&there)), (seen, seen));
    // A time that a program sets is not undone by what was written before it.
    let mut file = OpenOptions::new().append(true).open(&here).unwrap();
    file.write_all(b"third").unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_modified(old).unwrap();
    drop(file);
    assert_eq!((mtime(&here), mtime(&there)), (old, old));
    assert_eq!(fs::read(&there).unwrap(), b"firstsecondthird");
}

#[test]
fn appends_of_two_open_files_are_in_order() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("writeback");
    let path = mounted.path.join("f");
    let open = || OpenOptions::new().create(true).append(true).open(&path);
    let (mut one, mut two) = (open().unwrap(), open().unwrap());
    let mut expected = String::new();
    for number in 0..500 {
        let line = format!("{number}\n");
        let to = if number % 3 == 0 { &mut one } else { &mut two };
        to.write_all(line.as_bytes()).unwrap();
        expected.push_str(&line);
    }
    drop(one);
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    two.sync_all().unwrap();
    let second = server.mount("");
    assert_eq!(fs::read_to_string(second.path.join("f")).unwrap(), expected);
}

#[test]
fn a_file_that_is_cut_with_pages_waiting_ends_there() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("writeback");
    let file = File::create(mounted.path.join("f")).unwrap();
    file.write_all_at(&[1; 100_000], 0).unwrap();
    file.set_len(10_000).unwrap();
    file.set_len(50_000).unwrap();
    file.write_all_at(&[2; 10], 60_000).unwrap();
    file.sync_all().unwrap();
    let mut expected = vec![1; 10_000];
    expected.resize(60_000, 0);
    expected.extend([2; 10]);
    assert!(fs::read(server.mount("").path.join("f")).unwrap() == expected);
}

/// Pages that were changed through a mapping go out after the close.
#[test]
fn a_mapping_outlives_the_close() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("writeback");
    let path = mounted.path.join("f");
    fs::write(&path, vec![1; 8192]).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    // SAFETY: a mapping of the whole file, used within its length and unmapped once.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let none = std::ptr::null_mut();
        let place = libc::mmap(
            none,
            8192,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(place, libc::MAP_FAILED);
        drop(file);
        place.cast::<u8>().add(5000).write(7);
        assert_eq!(libc::msync(place, 8192, libc::MS_SYNC), 0);
        let there = fs::read(server.mount("").path.join("f")).unwrap();
        assert_eq!((there[4999], there[5000], there[5001]), (1, 7, 1));
        assert_eq!(libc::munmap(place, 8192), 0);
    }
}
