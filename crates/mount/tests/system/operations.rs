//! Every operation of a POSIX program, done in a local folder and on the mount: both must answer
//! alike, errors included.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
use std::path::Path;

use crate::mounted::{Server, possible};

/// What an operation came to: a value, or an errno.
fn came_to<T: std::fmt::Debug>(what: &str, result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{what}: {value:?}"),
        Err(error) => format!("{what}: errno {:?}", error.raw_os_error()),
    }
}

fn checked(status: i32) -> io::Result<i32> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn make_node(path: &Path, mode: u32, device: u64) -> io::Result<i32> {
    // SAFETY: a path that ends with a zero byte, alive for the call.
    checked(unsafe { libc::mknod(c(path).as_ptr(), mode, device) })
}

fn rename_with(from: &Path, to: &Path, flags: u32) -> io::Result<i32> {
    let at = libc::AT_FDCWD;
    // SAFETY: as above.
    checked(unsafe { libc::renameat2(at, c(from).as_ptr(), at, c(to).as_ptr(), flags) })
}

/// Type, permission, links, owner, size: what both file systems must agree on.
fn facts(path: &Path) -> io::Result<(u32, u64, u32, u32, u64)> {
    let found = path.symlink_metadata()?;
    // The size of a folder is the file system's own affair.
    let size = if found.is_dir() { 0 } else { found.len() };
    let links = if found.is_dir() { 0 } else { found.nlink() };
    Ok((found.mode(), links, found.uid(), found.gid(), size))
}

fn names(folder: &Path) -> io::Result<Vec<(String, &'static str)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let word = if kind.is_dir() {
            "folder"
        } else if kind.is_symlink() {
            "link"
        } else if kind.is_fifo() {
            "fifo"
        } else {
            "other"
        };
        all.push((entry.file_name().into_string().unwrap(), word));
    }
    all.sort();
    Ok(all)
}

fn tree_operations(root: &Path, said: &mut Vec<String>) {
    let at = |name: &str| root.join(name);
    let mut note = |text: String| said.push(text);
    note(came_to("mkdir", fs::create_dir(at("d"))));
    note(came_to("mkdir again", fs::create_dir(at("d"))));
    note(came_to("mkdir below none", fs::create_dir(at("x/y"))));
    note(came_to("write", fs::write(at("d/f"), "some bytes")));
    note(came_to("facts", facts(&at("d/f"))));
    note(came_to("read", fs::read_to_string(at("d/f"))));
    note(came_to("file as folder", fs::read(at("d/f/g"))));
    note(came_to("read a folder", fs::read(at("d"))));
    note(came_to("rmdir full", fs::remove_dir(at("d"))));
    note(came_to("rmdir file", fs::remove_dir(at("d/f"))));
    note(came_to("unlink folder", fs::remove_file(at("d"))));
    note(came_to("unlink none", fs::remove_file(at("none"))));
    note(came_to("link", fs::hard_link(at("d/f"), at("h"))));
    note(came_to("link again", fs::hard_link(at("d/f"), at("h"))));
    note(came_to("facts of link", facts(&at("h"))));
    note(came_to("symlink", symlink("d/f", at("s"))));
    note(came_to("readlink", fs::read_link(at("s"))));
    note(came_to("readlink of file", fs::read_link(at("h"))));
    note(came_to("through symlink", fs::read_to_string(at("s"))));
    note(came_to("dangling", symlink("nowhere", at("n"))));
    note(came_to("through dangling", fs::read(at("n"))));
    note(came_to("loop", symlink("loop", at("loop"))));
    note(came_to("through loop", fs::read(at("loop"))));
    note(came_to("rename", fs::rename(at("h"), at("h2"))));
    note(came_to("rename none", fs::rename(at("h"), at("h3"))));
    note(came_to("rename to folder", fs::rename(at("h2"), at("d"))));
    note(came_to(
        "rename folder to file",
        fs::rename(at("d"), at("h2")),
    ));
    note(came_to(
        "rename below itself",
        fs::rename(at("d"), at("d/e")),
    ));
    note(came_to(
        "rename to own link",
        fs::rename(at("h2"), at("d/f")),
    ));
    note(came_to("still there", facts(&at("h2"))));
}

fn naming_operations(root: &Path, said: &mut Vec<String>) {
    let at = |name: &str| root.join(name);
    let mut note = |text: String| said.push(text);
    note(came_to(
        "fifo",
        make_node(&at("p"), libc::S_IFIFO | 0o640, 0),
    ));
    note(came_to(
        "socket",
        make_node(&at("k"), libc::S_IFSOCK | 0o600, 0),
    ));
    note(came_to(
        "file by mknod",
        make_node(&at("m"), libc::S_IFREG | 0o604, 0),
    ));
    note(came_to(
        "device",
        make_node(&at("c"), libc::S_IFCHR | 0o600, libc::makedev(1, 3)),
    ));
    let device = at("c").symlink_metadata().map(|found| found.rdev());
    note(came_to("device number", device));
    for name in ["p", "k", "m", "s", "d"] {
        note(came_to(name, facts(&at(name))));
    }
    note(came_to("list", names(root)));
    note(came_to("list none", names(&at("none"))));
    note(came_to("list file", names(&at("h2"))));
    let long = "n".repeat(255);
    note(came_to("long name", fs::write(at(&long), "")));
    note(came_to("longer name", fs::write(at(&"n".repeat(256)), "")));
    note(came_to(
        "far longer name",
        fs::write(at(&"n".repeat(1025)), ""),
    ));
    note(came_to("odd name", fs::write(at(" \t\n\\,'é"), "")));
    note(came_to("list again", names(root)));
}

fn attribute_operations(root: &Path, said: &mut Vec<String>) {
    let at = |name: &str| root.join(name);
    let mut note = |text: String| said.push(text);
    fs::write(at("a"), "0123456789").unwrap();
    for mode in [0o4755, 0o2711, 0o1777, 0o000, 0o644] {
        note(came_to(
            "chmod",
            fs::set_permissions(at("a"), fs::Permissions::from_mode(mode)),
        ));
        note(came_to("mode", facts(&at("a"))));
    }
    note(came_to(
        "chown",
        std::os::unix::fs::chown(at("a"), Some(12), Some(34)),
    ));
    note(came_to("owner", facts(&at("a"))));
    note(came_to(
        "chown none",
        std::os::unix::fs::chown(at("none"), Some(1), None),
    ));
    let file = OpenOptions::new().write(true).open(at("a")).unwrap();
    for size in [3, 100_000, 0, 7] {
        note(came_to("truncate", file.set_len(size)));
        note(came_to("size", facts(&at("a"))));
    }
    note(came_to("truncated", fs::read(at("a"))));
    let past = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    let times = fs::FileTimes::new().set_accessed(past).set_modified(past);
    note(came_to("times", file.set_times(times)));
    drop(file);
    let found = at("a").metadata().unwrap();
    note(format!(
        "{:?}",
        (found.mtime(), found.mtime_nsec(), found.atime())
    ));
    let read_only = File::open(at("a")).unwrap();
    note(came_to(
        "write to a read-only descriptor",
        read_only.write_at(b"x", 0),
    ));
    note(came_to("truncate it", read_only.set_len(1)));
    let write_only = OpenOptions::new().write(true).open(at("a")).unwrap();
    note(came_to(
        "read from a write-only one",
        write_only.read_at(&mut [0], 0),
    ));
    fs::create_dir(at("sub")).unwrap();
    let folder = File::open(at("sub")).unwrap();
    note(came_to("fsync of a folder", folder.sync_all()));
}

fn data_operations(root: &Path, said: &mut Vec<String>) {
    let at = |name: &str| root.join(name);
    let mut note = |text: String| said.push(text);
    let exclusive = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(at("e"))
    };
    note(came_to("create", exclusive().map(drop)));
    note(came_to("create again", exclusive().map(drop)));
    note(came_to("mode", facts(&at("e"))));
    let mut open = OpenOptions::new();
    let mut file = open
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(at("e"))
        .unwrap();
    note(came_to("write", file.write(b"hello")));
    note(came_to("seek", file.seek(SeekFrom::Start(10_000))));
    note(came_to("write behind a hole", file.write(b"world")));
    note(came_to("end", file.seek(SeekFrom::End(0))));
    note(came_to("write over", file.write_at(b"HE", 0)));
    let mut all = Vec::new();
    file.rewind().unwrap();
    note(came_to("read", file.read_to_end(&mut all)));
    note(format!(
        "{:?} {:?} {}",
        &all[..6],
        &all[9_998..],
        all[6..9_998].iter().all(|b| *b == 0)
    ));
    note(came_to("fsync", file.sync_all()));
    note(came_to("fdatasync", file.sync_data()));
    let mut append = OpenOptions::new().append(true).open(at("e")).unwrap();
    file.write_all_at(b"more", 10_005).unwrap();
    note(came_to("append", append.write(b"end")));
    note(came_to("size", facts(&at("e"))));
    let truncated = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(at("e"))
        .unwrap();
    note(came_to("size of O_TRUNC", facts(&at("e"))));
    note(came_to("the other sees it", file.read_at(&mut [0; 10], 0)));
    drop(truncated);
    note(came_to("write far", file.write_at(b"x", 5_000_000_000)));
    note(came_to("far size", facts(&at("e"))));
    note(came_to(
        "read in the hole",
        file.read_at(&mut [1; 10], 4_000_000_000),
    ));
    let mut copy = File::create_new(at("copy")).unwrap();
    file.set_len(100_000).unwrap();
    file.rewind().unwrap();
    note(came_to("copy", io::copy(&mut file, &mut copy)));
    note(came_to("copied", facts(&at("copy"))));
    // SAFETY: calls on open descriptors without pointers.
    let allocated = unsafe { libc::posix_fallocate(copy.as_raw_fd(), 0, 200_000) };
    note(format!("posix_fallocate: {allocated}"));
    note(came_to("allocated", facts(&at("copy"))));
    // SAFETY: as above; locks are local to the mount.
    let locked = unsafe { libc::flock(copy.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    note(format!("flock: {locked}"));
    let second = File::open(at("copy")).unwrap();
    // SAFETY: as above.
    let refused = unsafe { libc::flock(second.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    note(format!("flock by another: {refused}"));
}

/// The same operations in both places; the umask is the process's, the same for both.
fn compare(options: &str, operations: impl Fn(&Path, &mut Vec<String>)) {
    if !possible() {
        return;
    }
    let local = tempfile::tempdir().unwrap();
    let server = Server::memory();
    let mounted = server.mount(options);
    let (mut here, mut there) = (Vec::new(), Vec::new());
    operations(local.path(), &mut here);
    operations(&mounted.path, &mut there);
    for (here, there) in here.iter().zip(&there) {
        assert_eq!(
            here, there,
            "a local folder answers the first, with {options:?}"
        );
    }
    assert_eq!(here.len(), there.len());
}

#[test]
fn trees_are_those_of_a_local_folder() {
    for options in ["", "nordirplus", "noac"] {
        compare(options, |root, said| {
            tree_operations(root, said);
            naming_operations(root, said);
        });
    }
}

#[test]
fn attributes_are_those_of_a_local_folder() {
    for options in ["", "noac", "writeback"] {
        compare(options, attribute_operations);
    }
}

#[test]
fn data_are_those_of_a_local_folder() {
    for options in ["", "noac", "rsize=1k,wsize=1k,nconnect=2", "writeback"] {
        compare(options, data_operations);
    }
}

#[test]
fn renames_that_must_not_replace_are_refused_as_linux_does() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("");
    fs::write(mounted.path.join("a"), "").unwrap();
    fs::write(mounted.path.join("b"), "").unwrap();
    for (flags, to) in [(libc::RENAME_NOREPLACE, "c"), (libc::RENAME_EXCHANGE, "b")] {
        let refused = rename_with(&mounted.path.join("a"), &mounted.path.join(to), flags);
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}

#[test]
fn large_folders_are_listed_whole_and_may_be_emptied_while_listed() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    for options in ["", "nordirplus"] {
        let mounted = server.mount(options);
        let folder = mounted.path.join(format!("many-{options}"));
        fs::create_dir(&folder).unwrap();
        let mut expected = Vec::new();
        for number in 0..3_000 {
            let name = format!("file-{number:05}-{}", "x".repeat(number % 90));
            fs::write(folder.join(&name), "").unwrap();
            expected.push(name);
        }
        expected.sort();
        let mut found: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert!(found == expected, "{} of {}", found.len(), expected.len());
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            fs::remove_file(&path).unwrap();
            assert!(!path.exists(), "{}", path.display());
        }
        fs::remove_dir(&folder).unwrap();
    }
}

#[test]
fn the_kernel_forgets_what_it_does_not_need() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("");
    for number in 0..500 {
        let path = mounted.path.join(format!("f{number}"));
        fs::write(&path, "x").unwrap();
        fs::remove_file(&path).unwrap();
    }
    let (known, open, folders) = mounted.mount.known();
    assert!(known <= 3, "{known} objects are known");
    assert_eq!((open, folders), (0, 0));
}
