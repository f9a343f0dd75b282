//! Errors of a server as programs see them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use crate::mounted::{Server, no_forks, possible};
use server::protocol::{ExportOptions, Squash};

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn a_full_server_is_told_at_fsync_or_close_at_the_latest() {
    if !possible() {
        return;
    }
    let _closed_is_closed = no_forks();
    let server = Server::limited(8 << 20, ExportOptions::default());
    for options in ["", "sync", "wsize=4k,nconnect=2", "writeback"] {
        let mounted = server.mount(options);
        let path = mounted.path.join("f");
        let mut file = File::create(&path).unwrap();
        let written = file.write_all(&vec![1; 20 << 20]);
        let synced = file.sync_all();
        let told = errno(written).or(errno(synced));
        assert_eq!(told, Some(libc::ENOSPC), "{options:?}");
        drop(file);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "room again").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "room again");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_full_server_is_told_at_close() {
    if !possible() {
        return;
    }
    let _closed_is_closed = no_forks();
    for options in ["", "writeback"] {
        told_at_close(options);
    }
}

fn told_at_close(options: &str) {
    let server = Server::limited(4 << 20, ExportOptions::default());
    let mounted = server.mount(options);
    let file = File::create(mounted.path.join("f")).unwrap();
    // Less than is sent by itself: the close sends it.
    let step = 700 << 10;
    let mut told = None;
    for number in 0..8_u64 {
        told = told.or(errno(
            file.write_all_at(&vec![1; step], number * (step as u64 + 1)),
        ));
    }
    let descriptor = std::os::fd::IntoRawFd::into_raw_fd(file);
    // SAFETY: the descriptor is owned here, and closed once.
    if unsafe { libc::close(descriptor) } != 0 {
        told = told.or(std::io::Error::last_os_error().raw_os_error());
    }
    assert_eq!(told, Some(libc::ENOSPC), "{options:?}");
}

#[test]
fn a_file_removed_by_another_client_is_stale() {
    if !possible() {
        return;
    }
    let _closed_is_closed = no_forks();
    let server = Server::memory();
    let (one, two) = (server.mount(""), server.mount(""));
    fs::write(one.path.join("f"), "x").unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(one.path.join("f"))
        .unwrap();
    fs::remove_file(two.path.join("f")).unwrap();
    let read = File::open(one.path.join("f"));
    assert_eq!(
        errno(read),
        Some(libc::ENOENT),
        "the name was looked up again"
    );
    file.write_all_at(b"y", 0).unwrap();
    assert_eq!(errno(file.sync_all()), Some(libc::ESTALE));
    assert_eq!(errno(file.set_len(10)), Some(libc::ESTALE));
}

#[test]
fn a_read_only_export_and_a_read_only_mount_refuse_changes() {
    if !possible() {
        return;
    }
    let _closed_is_closed = no_forks();
    let options = ExportOptions {
        read_only: true,
        ..ExportOptions::default()
    };
    let server = Server::limited(1 << 20, options);
    let mounted = server.mount("");
    assert_eq!(
        errno(fs::write(mounted.path.join("f"), "x")),
        Some(libc::EROFS)
    );
    assert_eq!(
        errno(fs::create_dir(mounted.path.join("d"))),
        Some(libc::EROFS)
    );
    let server = Server::memory();
    let mounted = server.mount("ro");
    assert_eq!(
        errno(fs::write(mounted.path.join("f"), "x")),
        Some(libc::EROFS)
    );
    let list = fs::read_to_string("/proc/mounts").unwrap();
    let here = mounted.path.display().to_string();
    let line = list.lines().find(|line| line.contains(&here)).unwrap();
    assert!(line.contains(" fuse.nfslab ro,"), "{line}");
}

/// The kernel's mode bits would let root in; the server does not.
#[test]
fn a_squashed_root_is_refused_at_open() {
    if !possible() {
        return;
    }
    let _closed_is_closed = no_forks();
    use std::os::unix::fs::PermissionsExt;
    let options = ExportOptions {
        squash: Squash::Root,
        ..ExportOptions::default()
    };
    let server = Server::limited(1 << 20, options);
    let mounted = server.mount("");
    let path = mounted.path.join("f");
    // The root folder of a memory store may be written by everybody: the file is nobody's.
    fs::write(&path, "x").unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_ne!(std::os::unix::fs::MetadataExt::uid(&found), 0);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(errno(File::open(&path)), Some(libc::EACCES));
}
