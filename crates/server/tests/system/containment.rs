//! Nothing outside the export is reached, whoever made the handle and whatever was moved where;
//! and what lies in the export is found, over restarts too.

use crate::trees;
use std::fs;
use std::os::unix::fs::symlink;

use crate::exported::{Exported, OK, STALE, as_all, serve};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use server::Handle;
use server::store::Store;

/// What a client with the key could make: handles of all kinds of objects of the same file system.
#[test]
fn handles_of_what_lies_outside() {
    as_all("containment::handles_of_what_lies_outside", |it| {
        let out = &it.outside;
        fs::write(out.join("secret"), "secret").unwrap();
        fs::create_dir(out.join("folder")).unwrap();
        fs::write(out.join("folder/secret"), "secret").unwrap();
        symlink("secret", out.join("link")).unwrap();
        fs::write(it.export.join("own"), "own").unwrap();
        let mut names = vec!["secret", "folder", "link"];
        let mut special = |name, kind, device| {
            if mknodat(CWD, out.join(name), kind, Mode::RWXU, device).is_ok() {
                names.push(name);
            }
        };
        special("fifo", FileType::Fifo, 0);
        special("socket", FileType::Socket, 0);
        // /dev/zero: whoever opened it would read without an end. Only root may make it.
        let zero = rustix::fs::makedev(1, 5);
        special("device", FileType::CharacterDevice, zero);
        special("disk", FileType::BlockDevice, rustix::fs::makedev(7, 0));
        for kernel_handles in [true, false] {
            let other = serve(out, kernel_handles);
            for name in &names {
                let found = other.lookup(&it.me, (&other.root(), name.as_bytes()));
                let forged = found.unwrap().0.handle;
                it.is_out_of_reach(&forged, name);
            }
            // The root of the other: a number and nothing else.
            it.is_out_of_reach(&Handle::new(other.root().object, 7), "the folder beside");
        }
        assert_eq!(fs::read(out.join("secret")).unwrap(), b"secret");
        assert_eq!(fs::read(out.join("folder/secret")).unwrap(), b"secret");
        assert_eq!(fs::read(it.export.join("own")).unwrap(), b"own");
    });
}

/// Devices, pipes and sockets of the export can be looked at, and are never opened.
#[test]
fn special_files_inside_are_never_opened() {
    as_all("containment::special_files_inside_are_never_opened", |it| {
        let kinds = [
            ("fifo", FileType::Fifo, 0),
            ("zero", FileType::CharacterDevice, rustix::fs::makedev(1, 5)),
        ];
        for (name, kind, device) in kinds {
            if mknodat(CWD, it.export.join(name), kind, Mode::RWXU, device).is_err() {
                continue;
            }
            let object = it.handle(name);
            assert!(it.store.getattr(&object).is_ok());
            assert_eq!(it.read(&object), Err(wire::nfs3::nfsstat3::NFS3ERR_INVAL));
            assert_ne!(it.write(&object, b"x"), OK);
        }
    });
}

fn tree(it: &Exported) -> [(&'static str, Handle); 4] {
    fs::create_dir_all(it.export.join("top/mid")).unwrap();
    fs::write(it.export.join("top/mid/file"), "inside").unwrap();
    fs::write(it.export.join("own"), "own").unwrap();
    symlink("file", it.export.join("top/mid/link")).unwrap();
    ["top", "top/mid", "top/mid/file", "top/mid/link"].map(|path| (path, it.handle(path)))
}

/// Each is moved out alone, and back; with every handle below it held, and with its data open.
#[test]
fn held_handles_of_what_is_moved_out() {
    as_all(
        "containment::held_handles_of_what_is_moved_out",
        |mut it| {
            let objects = tree(&it);
            let file = objects[2].1;
            for (path, _) in objects {
                for restarted in [false, true] {
                    // Open for both: descriptors that are held prove nothing.
                    assert_eq!(it.write(&file, b"inside"), OK);
                    assert_eq!(it.read(&file).unwrap(), b"inside");
                    let (inside, away) = (it.export.join(path), it.outside.join("moved"));
                    fs::rename(&inside, &away).unwrap();
                    if restarted {
                        it.restart();
                    }
                    for (below, handle) in &objects {
                        if below.starts_with(path) {
                            it.is_out_of_reach(handle, &format!("{below} after {path} went"));
                        } else {
                            assert!(it.store.getattr(handle).is_ok(), "{below}");
                        }
                    }
                    // A link in its place leads there, and nowhere for a client.
                    symlink(&away, &inside).unwrap();
                    for (below, handle) in &objects {
                        if below.starts_with(path) {
                            it.is_out_of_reach(handle, &format!("{below} behind a link"));
                        }
                    }
                    fs::remove_file(&inside).unwrap();
                    fs::rename(&away, &inside).unwrap();
                    for (below, handle) in &objects {
                        assert!(it.store.getattr(handle).is_ok(), "{below} is back");
                    }
                }
            }
            assert_eq!(fs::read(it.export.join("top/mid/file")).unwrap(), b"inside");
        },
    );
}

#[test]
fn a_file_is_reached_by_a_name_inside_and_by_no_other() {
    as_all(
        "containment::a_file_is_reached_by_a_name_inside_and_by_no_other",
        |mut it| {
            fs::write(it.export.join("own"), "own").unwrap();
            fs::write(it.export.join("a"), "data").unwrap();
            let file = it.handle("a");
            fs::hard_link(it.export.join("a"), it.outside.join("b")).unwrap();
            for restarted in [false, true] {
                // Renamed inside; the name outside is the kernel's last.
                fs::rename(it.export.join("a"), it.export.join("c")).unwrap();
                fs::read(it.outside.join("b")).unwrap();
                if restarted {
                    it.restart();
                }
                assert_eq!(it.read(&file).unwrap(), b"data", "{restarted}");
                fs::remove_file(it.export.join("c")).unwrap();
                if restarted {
                    it.restart();
                }
                it.is_out_of_reach(&file, "what has one name, outside");
                assert_eq!(fs::read(it.outside.join("b")).unwrap(), b"data");
                fs::hard_link(it.outside.join("b"), it.export.join("a")).unwrap();
                assert_eq!(it.read(&file).unwrap(), b"data", "a name inside again");
            }
        },
    );
}

/// A local process may rename as it likes: what is in the export is never said to be gone.
#[test]
fn what_a_local_process_moves_within_the_export_is_found_at_once() {
    let name = "containment::what_a_local_process_moves_within_the_export_is_found_at_once";
    as_all(name, |it| {
        let [_, _, (_, file), _] = tree(&it);
        let (one, other) = (it.export.join("top"), it.export.join("other"));
        for turn in 0..100 {
            fs::rename(&one, &other).unwrap();
            assert_eq!(it.read(&file).unwrap(), b"inside", "{turn}");
            fs::rename(&other, it.outside.join("away")).unwrap();
            assert_eq!(it.read(&file), Err(STALE), "{turn}");
            fs::rename(it.outside.join("away"), &one).unwrap();
            assert_eq!(it.read(&file).unwrap(), b"inside", "{turn}");
        }
    });
}

#[test]
fn the_export_itself_may_be_moved() {
    as_all("containment::the_export_itself_may_be_moved", |mut it| {
        let objects = tree(&it);
        let elsewhere = it.base().join("elsewhere");
        fs::rename(&it.export, &elsewhere).unwrap();
        fs::create_dir(&it.export).unwrap();
        for (path, handle) in &objects {
            assert!(it.store.getattr(handle).is_ok(), "{path}");
        }
        // Nothing known: by the kernel's path, or by a search; and back over what took its place.
        let kept = std::mem::replace(&mut it.export, elsewhere.clone());
        it.restart();
        fs::rename(&elsewhere, &kept).unwrap();
        for (path, handle) in &objects {
            assert!(it.store.getattr(handle).is_ok(), "{path}");
        }
    });
}

#[test]
fn handles_of_many_files_go_on_after_a_restart() {
    as_all(
        "containment::handles_of_many_files_go_on_after_a_restart",
        |mut it| {
            let mut files = Vec::new();
            for folder in 0..5 {
                let path = it.export.join(format!("d{folder}"));
                fs::create_dir(&path).unwrap();
                let dir = it.handle(&format!("d{folder}"));
                for number in 0..100 {
                    let name = format!("f{number}");
                    fs::write(path.join(&name), format!("{folder}/{number}")).unwrap();
                    files.push((
                        it.lookup(&dir, &name).unwrap(),
                        format!("{folder}/{number}"),
                    ));
                }
            }
            it.restart();
            for (file, content) in &files {
                assert_eq!(it.read(file).unwrap(), content.as_bytes());
            }
        },
    );
}

/// Beyond what one system call takes as a path, before and after a restart.
#[test]
fn paths_of_any_length() {
    as_all("containment::paths_of_any_length", |mut it| {
        let name = "n".repeat(200);
        let mut dir = it.store.root();
        for _ in 0..30 {
            let new = wire::nfs3::sattr3::UNCHANGED;
            let made = it.store.mkdir(&it.me, (&dir, name.as_bytes()), &new);
            dir = made.unwrap().0.handle;
        }
        let how = wire::nfs3::createhow3::GUARDED(wire::nfs3::sattr3::UNCHANGED);
        let made = it.store.create(&it.me, (&dir, b"file"), &how).unwrap();
        let file = made.0.handle;
        for _ in 0..2 {
            assert_eq!(it.write(&file, b"deep"), OK);
            assert_eq!(it.read(&file).unwrap(), b"deep");
            assert_eq!(it.lookup(&dir, "file"), Ok(file));
            it.restart();
        }
        fs::rename(it.export.join(&name), it.outside.join("away")).unwrap();
        assert_eq!(it.read(&file), Err(STALE));
        assert_eq!(it.lookup(&dir, "file"), Err(STALE));
    });
}

/// True in the process that has mounts of its own; else runs this very test there, if it can.
fn has_its_own_mounts(test: &str) -> bool {
    const INSIDE: &str = "NFSLAB_TEST_IN_A_NAMESPACE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut run = std::process::Command::new("unshare");
    run.args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1");
    match crate::process::output(&mut run) {
        Ok(run) => {
            let [said, told] = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text));
            let refused = told.contains("unshare failed");
            let passed = run.status.success() && said.contains("1 passed");
            assert!(passed || refused, "{said}{told}");
            eprint!("{}{told}", if refused { "skipped: " } else { "" });
        }
        Err(error) => eprintln!("skipped: no unshare ({error})"),
    }
    false
}

/// A file system of which the kernel has nothing in memory, as after a restart of the machine: it
/// finds files by number, and has no name of them.
#[test]
fn handles_of_a_file_system_that_was_just_mounted() {
    if !has_its_own_mounts("containment::handles_of_a_file_system_that_was_just_mounted") {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let (image, top) = (base.path().join("image"), base.path().join("top"));
    fs::create_dir(&top).unwrap();
    let made = fs::File::create(&image).unwrap();
    made.set_len(32 << 20).unwrap();
    let run = |program: &str, arguments: &[&std::path::Path]| {
        let done = crate::process::output(std::process::Command::new(program).args(arguments));
        done.is_ok_and(|done| done.status.success())
    };
    let mount = || run("mount", &["-oloop".as_ref(), &image, &top]);
    if !run("mkfs.ext4", &["-q".as_ref(), &image]) || !mount() {
        eprintln!("skipped: no mkfs.ext4, or no loop device");
        return;
    }
    let me = server::Caller::with_ids(trees::ADDRESS, 0, 0);
    let (export, outside) = (top.join("export"), top.join("outside"));
    fs::create_dir_all(export.join("a/b")).unwrap();
    fs::create_dir(&outside).unwrap();
    let store = serve(&export, true);
    let lookup = |dir: &Handle, name: &str| {
        let found = store.lookup(&me, (dir, name.as_bytes()));
        found.unwrap().0.handle
    };
    let dir = lookup(&lookup(&store.root(), "a"), "b");
    let mut files = Vec::new();
    for number in 0..100 {
        let name = format!("f{number}");
        fs::write(export.join("a/b").join(&name), "data").unwrap();
        files.push(lookup(&dir, &name));
    }
    let (out, kept) = files.split_at(50);
    for number in 0..50 {
        let name = format!("f{number}");
        fs::rename(export.join("a/b").join(&name), outside.join(&name)).unwrap();
    }
    drop(store);
    assert!(run("umount", &[&top]) && mount());
    let store = serve(&export, true);
    for (turn, file) in kept.iter().enumerate() {
        assert!(store.getattr(file).is_ok(), "{turn}");
    }
    for file in out {
        let status = store.getattr(file).unwrap_err();
        assert!(matches!(
            status,
            STALE | wire::nfs3::nfsstat3::NFS3ERR_JUKEBOX
        ));
    }
    drop(store);
    assert!(run("umount", &[&top]));
}
