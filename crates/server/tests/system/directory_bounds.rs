//! No path leaves the export, and handles outlive the server: the directory store, attacked.

use crate::process::spawn;
use crate::trees;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use server::store::directory::{DirectoryOptions, DirectoryStore};
use server::store::{Payload, Store};
use server::{Caller, Handle};
use wire::nfs3::{createhow3, nfsstat3, sattr3, stable_how};

const ADMIN: Caller = Caller::with_ids(trees::ADDRESS, 0, 0);

fn open(path: &Path, kernel_handles: bool) -> DirectoryStore {
    let options = DirectoryOptions {
        stable_names: false,
        kernel_handles,
        instance: 1,
    };
    DirectoryStore::open(path, options).unwrap()
}

fn lookup(store: &DirectoryStore, dir: &Handle, name: &[u8]) -> Result<Handle, nfsstat3> {
    store
        .lookup(&ADMIN, (dir, name))
        .map(|(found, _)| found.handle)
        .map_err(|(status, _)| status)
}

fn read(store: &DirectoryStore, file: &Handle) -> Result<Vec<u8>, nfsstat3> {
    let mut payload = Payload::new();
    store
        .read(&ADMIN, file, 0, 4096, &mut payload)
        .map_err(|(status, _)| status)?;
    Ok(payload.to_vec())
}

#[test]
fn the_longest_name_is_the_file_systems() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), true);
    let told = store.pathconf(&store.root()).unwrap().name_max as usize;
    let of_bytes = |bytes: usize| folder.path().join("n".repeat(bytes));
    assert!(std::fs::write(of_bytes(told), "").is_ok());
    assert!(std::fs::write(of_bytes(told + 1), "").is_err());
}

#[test]
fn what_clients_wrote_can_be_executed_here() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), true);
    let how = createhow3::UNCHECKED(sattr3 {
        mode: Some(0o755),
        ..sattr3::UNCHANGED
    });
    let run = |name: &str| {
        let mut tries = 0;
        loop {
            match spawn(&mut Command::new(folder.path().join(name))) {
                Ok(mut child) => return child.wait().unwrap().code(),
                // A child of another test has the descriptor until its exec; or it is idle soon.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => tries += 1,
                Err(error) => panic!("{name}: {error}"),
            }
            assert!(tries < 1000, "it stays open for writing");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    for (name, stable, writes) in [
        ("synced", stable_how::FILE_SYNC, 1),
        ("unstable", stable_how::UNSTABLE, 1),
        ("again", stable_how::FILE_SYNC, 3),
    ] {
        let (made, _) = store
            .create(&ADMIN, (&store.root(), name.as_bytes()), &how)
            .unwrap();
        for _ in 0..writes {
            let text = b"#!/bin/sh\nexit 7\n";
            store.write(&ADMIN, &made.handle, 0, text, stable).unwrap();
        }
        assert_eq!(run(name), Some(7), "{name}");
        assert_eq!(read(&store, &made.handle).unwrap().len(), 17);
        store.commit(&ADMIN, &made.handle, 0, 0).unwrap();
        assert_eq!(run(name), Some(7), "{name}: read and committed");
    }
}

/// `outside/secret` beside `export`, which has links to it.
fn scene() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    let (export, outside) = (base.path().join("export"), base.path().join("outside"));
    std::fs::create_dir_all(export.join("dir/deep")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::write(export.join("dir/deep/file"), "inside").unwrap();
    symlink(&outside, export.join("absolute")).unwrap();
    symlink("../outside", export.join("relative")).unwrap();
    symlink("../outside/secret", export.join("secret")).unwrap();
    base
}

/// The scene served, with the handles of `dir` and `dir/deep`.
struct Served {
    base: tempfile::TempDir,
    export: PathBuf,
    store: DirectoryStore,
    dir: Handle,
    deep: Handle,
}

/// By kernel handles and by names.
fn both_ways() -> impl Iterator<Item = (bool, Served)> {
    [true, false].into_iter().map(|kernel_handles| {
        let base = scene();
        let export = base.path().join("export");
        let store = open(&export, kernel_handles);
        let dir = lookup(&store, &store.root(), b"dir").unwrap();
        let deep = lookup(&store, &dir, b"deep").unwrap();
        let served = Served {
            base,
            export,
            store,
            dir,
            deep,
        };
        (kernel_handles, served)
    })
}

#[test]
fn links_are_never_followed() {
    for (_, Served { base, store, .. }) in both_ways() {
        let root = store.root();
        for name in [&b"absolute"[..], b"relative", b"secret"] {
            let link = lookup(&store, &root, name).unwrap();
            assert!(lookup(&store, &link, b"secret").is_err());
            assert!(read(&store, &link).is_err());
            let how = createhow3::UNCHECKED(sattr3 {
                size: Some(0),
                ..sattr3::UNCHANGED
            });
            assert!(store.create(&ADMIN, (&root, name), &how).is_err());
            let new = sattr3 {
                size: Some(0),
                ..sattr3::UNCHANGED
            };
            assert!(store.setattr(&ADMIN, &link, &new, None).is_err());
        }
        let kept = std::fs::read(base.path().join("outside/secret")).unwrap();
        assert_eq!(kept, b"secret");
        assert_eq!(lookup(&store, &root, b"..").unwrap(), root);
    }
}

#[test]
fn directories_moved_out_are_stale_with_all_their_names() {
    for (_, served) in both_ways() {
        let Served {
            base,
            export,
            store,
            dir,
            deep,
        } = served;
        assert_eq!(lookup(&store, &deep, b"..").unwrap(), dir);
        std::fs::rename(export.join("dir"), base.path().join("outside/dir")).unwrap();
        for gone in [&dir, &deep] {
            assert_eq!(store.getattr(gone), Err(nfsstat3::NFS3ERR_STALE));
            for name in [&b".."[..], b"file", b"deep"] {
                assert_eq!(lookup(&store, gone, name), Err(nfsstat3::NFS3ERR_STALE));
            }
            let how = createhow3::UNCHECKED(sattr3::UNCHANGED);
            assert!(store.create(&ADMIN, (gone, b"new"), &how).is_err());
        }
        // Moved back, they are what they were.
        std::fs::rename(base.path().join("outside/dir"), export.join("dir")).unwrap();
        assert_eq!(lookup(&store, &dir, b"deep"), Ok(deep));
    }
}

#[test]
fn a_name_that_changes_into_a_link_meanwhile_never_shows_the_outside() {
    let base = scene();
    let export = base.path().join("export");
    let store = open(&export, true);
    let root = store.root();
    std::fs::create_dir(export.join("a")).unwrap();
    std::fs::write(export.join("a/secret"), "inside").unwrap();
    symlink(base.path().join("outside"), export.join("b")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let (a, b) = (export.join("a"), export.join("b"));
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let stops = Stops(&stop);
        let (mut turns, mut seen) = (0, 0);
        // Until it was run: the other thread may be put aside while the name is a link.
        while turns < 3000 || seen == 0 {
            turns += 1;
            let found = lookup(&store, &root, b"a").and_then(|dir| lookup(&store, &dir, b"secret"));
            if let Ok(bytes) = found.and_then(|file| read(&store, &file)) {
                assert_eq!(bytes, b"inside");
                seen += 1;
            }
        }
        drop(stops);
    });
}

#[test]
fn handles_outlive_the_server() {
    for (kernel_handles, served) in both_ways() {
        let Served {
            base: _base,
            export,
            store,
            dir,
            deep,
        } = served;
        let file = lookup(&store, &deep, b"file").unwrap();
        drop(store);
        // Meanwhile it moves within the export, and its old name becomes another file's.
        std::fs::rename(export.join("dir/deep/file"), export.join("moved")).unwrap();
        std::fs::write(export.join("dir/deep/file"), "another").unwrap();
        let store = open(&export, kernel_handles);
        assert_eq!(read(&store, &file).unwrap(), b"inside");
        assert_eq!(lookup(&store, &dir, b"deep"), Ok(deep));
        std::fs::remove_file(export.join("moved")).unwrap();
        // Another server holds no descriptor of it: gone is gone.
        let store = open(&export, kernel_handles);
        assert_eq!(read(&store, &file), Err(nfsstat3::NFS3ERR_STALE));
    }
}

#[test]
fn kernel_handles_of_other_places_are_refused() {
    let base = scene();
    let (export, outside) = (base.path().join("export"), base.path().join("outside"));
    let other = open(&outside, true);
    let settings = other.description().settings;
    if !settings.contains(&("kernel_handles", "true".to_owned())) {
        eprintln!("skipped: this process may not open by kernel handle");
        return;
    }
    // A handle of the outside's directory in the mouth of a client of the export.
    std::fs::create_dir(outside.join("d")).unwrap();
    let stolen = lookup(&other, &other.root(), b"d").unwrap();
    assert!(other.getattr(&stolen).is_ok());
    let store = open(&export, true);
    assert_eq!(store.getattr(&stolen), Err(nfsstat3::NFS3ERR_STALE));
}

/// Stops other threads, also when a test fails.
struct Stops<'a>(&'a AtomicBool);
impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An inode number that another file is just getting is not found, and not for want of memory, as
/// the kernel has it then (`iget_locked`): a client would wait for seconds and ask again.
#[test]
fn a_handle_whose_number_is_taken_anew_is_stale_at_once() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: the kernel opens files by handle for root alone");
        return;
    }
    let base = scene();
    let export = base.path().join("export");
    let store = open(&export, true);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stops = Stops(&stop);
        for name in ["x", "y"] {
            let (path, stop) = (export.join(name), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::fs::write(&path, "").unwrap();
                    std::fs::remove_file(&path).unwrap();
                }
            });
        }
        let mut others = 0;
        for _ in 0..4000 {
            std::fs::write(export.join("f"), "").unwrap();
            let file = lookup(&store, &store.root(), b"f").unwrap();
            std::fs::remove_file(export.join("f")).unwrap();
            for _ in 0..4 {
                others += usize::from(store.getattr(&file) != Err(nfsstat3::NFS3ERR_STALE));
            }
        }
        drop(stops);
        assert_eq!(others, 0);
    });
}
