//! A folder is moved out of the export and back while clients use it: what is asked while it is out
//! is refused, what is asked while it is in is answered, and what was only ever written outside is
//! read by no call but one that lasts from before the way out until after the way back.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::exported::{Exported, OK, STALE, as_all, status};
use server::Handle;
use server::store::Store;
use wire::nfs3::{createhow3, nfsstat3, sattr3};

const TURNS: u64 = 300;
/// 25,000 by both tests and the four ways that each tries.
const LONG_TURNS: u64 = 100_000 / 32;
const INSIDE: &[u8] = b"inside ";
const OUTSIDE: &[u8] = b"outside";

/// Stops the other thread, also when a test fails.
struct Stops<'a>(&'a AtomicBool);
impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn overwrite(path: &Path, data: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(data, 0).unwrap();
}

/// What a client asks for, in turn.
fn ask(
    it: &Exported,
    turn: u64,
    (dir, file): (&Handle, &Handle),
    told: &mut Vec<u8>,
) -> (&'static str, nfsstat3) {
    let (store, me) = (&it.store, &it.me);
    let how = createhow3::UNCHECKED(sattr3::UNCHANGED);
    match turn % 8 {
        0 => ("GETATTR", status(store.getattr(file).map_err(|s| (s, ())))),
        1 => ("LOOKUP", status(store.lookup(me, (dir, b"file")))),
        2 => ("ACCESS", status(store.access(me, file, 0x3f))),
        3 => ("WRITE", it.write(file, INSIDE)),
        4 => ("CREATE", status(store.create(me, (dir, b"new"), &how))),
        // Again and again: it is there already, once it was made.
        5 => match it.link(file, dir, "linked") {
            nfsstat3::NFS3ERR_EXIST => ("LINK", OK),
            other => ("LINK", other),
        },
        _ => match it.read(file) {
            Ok(data) => {
                *told = data;
                ("READ", OK)
            }
            Err(status) => ("READ", status),
        },
    }
}

/// `moved` is what is renamed: the folder of the file, or one above it.
fn race(it: &Exported, moved: &str, turns: u64) {
    fs::create_dir_all(it.export.join("top/mid")).unwrap();
    fs::write(it.export.join("top/mid/file"), INSIDE).unwrap();
    let (dir, file) = (it.handle("top/mid"), it.handle("top/mid/file"));
    let (home, away) = (it.export.join(moved), it.outside.join("away"));
    let below = Path::new("top/mid/file").strip_prefix(moved).unwrap();
    // Where it is, modulo 4: 0 in, 1 on its way out, 2 out, 3 on its way in.
    let epoch = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let mut seen = [0u64; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stops = Stops(&stop);
            for _ in 0..turns {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                epoch.fetch_add(1, Ordering::SeqCst);
                fs::rename(&home, &away).unwrap();
                overwrite(&away.join(below), OUTSIDE);
                epoch.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                epoch.fetch_add(1, Ordering::SeqCst);
                overwrite(&away.join(below), INSIDE);
                fs::rename(&away, &home).unwrap();
                epoch.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
            }
            drop(stops);
        });
        let stops = Stops(&stop);
        let mut turn = 0;
        while !stop.load(Ordering::SeqCst) {
            let before = epoch.load(Ordering::SeqCst);
            let mut told = Vec::new();
            let (what, status) = ask(it, turn, (&dir, &file), &mut told);
            let after = epoch.load(Ordering::SeqCst);
            turn += 1;
            if told == OUTSIDE {
                // Before the way out had ended, until the way back had begun: in one call.
                let way_out = (before + 2) / 4 * 4 + 1;
                assert!(
                    after >= way_out + 2,
                    "written outside, read from {before} to {after}"
                );
            } else if what == "READ" && status == OK {
                assert_eq!(told, INSIDE);
            }
            match (before == after, before % 4) {
                (true, 0) => assert_eq!(status, OK, "{what} while it is in the export"),
                // A search that proves it may have to wait for its turn.
                (true, 2) => assert!(
                    matches!(status, STALE | nfsstat3::NFS3ERR_JUKEBOX),
                    "{what} while it is outside: {status:?}"
                ),
                _ => continue,
            }
            seen[(before % 4 / 2) as usize] += 1;
        }
        drop(stops);
    });
    eprintln!("{moved}: {seen:?} calls inside, outside");
    let content = fs::read(it.export.join("top/mid/file")).unwrap();
    assert_eq!(content, INSIDE);
}

#[test]
fn a_folder_that_goes_out_and_comes_back() {
    as_all(
        "containment_races::a_folder_that_goes_out_and_comes_back",
        |it| race(&it, "top/mid", TURNS),
    );
}

#[test]
fn a_folder_above_that_goes_out_and_comes_back() {
    as_all(
        "containment_races::a_folder_above_that_goes_out_and_comes_back",
        |it| race(&it, "top", TURNS),
    );
}

#[test]
#[ignore = "takes minutes"]
fn a_folder_that_goes_out_and_comes_back_at_length() {
    let name = "containment_races::a_folder_that_goes_out_and_comes_back_at_length";
    as_all(name, |it| race(&it, "top/mid", LONG_TURNS));
}

#[test]
#[ignore = "takes minutes"]
fn a_folder_above_that_goes_out_and_comes_back_at_length() {
    let name = "containment_races::a_folder_above_that_goes_out_and_comes_back_at_length";
    as_all(name, |it| race(&it, "top", LONG_TURNS));
}
