//! Reads, writes, fsync: against a server that answers short, restarts and fails.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::peer::memory::{FILE, MemoryServer};
use crate::waits::Waits;
use client::attributes::AttributeCache;
use client::nfs3::FileHandle;
use client::{CallError, Client, Engine, File, MountOptions};
use measure::MonotonicClock;
use parking_lot::Mutex;
use proptest::prelude::*;
use wire::nfs3::{nfsstat3, procedure};

struct Setting {
    server: MemoryServer,
    client: Arc<Client>,
    file: File,
    attributes: Arc<Mutex<AttributeCache>>,
}

fn open(text: &str) -> Setting {
    let server = MemoryServer::start("127.0.0.1:0");
    let options = MountOptions::parse(text).unwrap();
    let engine = Engine::connect(server.address, &options, MonotonicClock).unwrap();
    let client = Client::start_with(engine, Duration::ZERO).unwrap();
    let handle = FileHandle::new(FILE).unwrap();
    let attributes = Arc::new(Mutex::new(AttributeCache::new(&options, 8)));
    let file = File::new(
        Arc::clone(&client),
        handle,
        None,
        &options,
        Some(Arc::clone(&attributes)),
    );
    Setting {
        server,
        client,
        file,
        attributes,
    }
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|i| seed.wrapping_add((i % 251).to_le_bytes()[0]))
        .collect()
}

fn sync_data(file: &File) -> Result<(), CallError> {
    let (told, end) = channel();
    file.sync_data_then(move |result| told.send(result).unwrap());
    end.recv().unwrap()
}

#[test]
fn reads_are_split_and_short_answers_continued() {
    let Setting { server, file, .. } = open("rsize=4k");
    let bytes = pattern(10_000, 3);
    server.with(|state| state.view = bytes.clone());
    let all = file.read(0, 10_000).unwrap();
    assert_eq!((all.bytes == bytes, all.end_of_file), (true, true));
    assert_eq!(server.calls(procedure::READ).len(), 3);
    server.with(|state| state.read_limit = Some(1_000));
    let some = file.read(500, 9_000).unwrap();
    assert_eq!(
        (some.bytes == bytes[500..9_500], some.end_of_file),
        (true, false)
    );
    let beyond = file.read(9_990, 50_000).unwrap();
    assert_eq!(
        (beyond.bytes.as_slice(), beyond.end_of_file),
        (&bytes[9_990..], true)
    );
    let none = file.read(20_000, 10).unwrap();
    assert_eq!((none.bytes.len(), none.end_of_file), (0, true));
    assert_eq!(file.read(0, 0).unwrap().bytes.len(), 0);
}

#[test]
fn what_replies_say_of_attributes_is_kept() {
    let Setting {
        server,
        file,
        attributes,
        ..
    } = open("");
    server.with(|state| state.view = pattern(100, 3));
    let size = |attributes: &Mutex<AttributeCache>| {
        let cache = attributes.lock();
        cache.last_seen(file.handle()).map(|found| found.size)
    };
    assert_eq!(size(&attributes), None);
    file.read(0, 10).unwrap();
    assert_eq!(size(&attributes), Some(100));
    file.write(100, b"more").unwrap();
    file.sync().unwrap();
    assert_eq!(size(&attributes), Some(104));
}

#[test]
fn a_server_that_gives_nothing_is_an_error_and_no_loop() {
    let Setting { server, file, .. } = open("");
    server.with(|state| {
        state.view = pattern(100, 0);
        state.read_limit = Some(0);
    });
    assert_eq!(file.read(0, 10).unwrap_err().errno(), rustix::io::Errno::IO);
    server.with(|state| state.write_limit = Some(0));
    file.write(0, b"x").unwrap();
    assert_eq!(file.sync().unwrap_err().errno(), rustix::io::Errno::IO);
}

/// A page that is synced right after it was written is one WRITE, though old data are looked for.
#[test]
fn young_data_wait_for_their_sync() {
    let Setting { server, file, .. } = open("");
    file.write_behind(0, &[1; 8192], u64::MAX).unwrap();
    file.push_old();
    file.sync().unwrap();
    assert_eq!(server.calls(procedure::WRITE).len(), 1);
    assert_eq!(server.calls(procedure::COMMIT).len(), 0);
    file.write_behind(0, &[2; 8192], u64::MAX).unwrap();
    file.push_old();
    file.push_old();
    file.sync().unwrap();
    assert_eq!(server.calls(procedure::WRITE).len(), 2);
    assert_eq!(server.calls(procedure::COMMIT).len(), 1, "old: sent before");
    assert_eq!(server.with(|state| state.stable.clone()), [2; 8192]);
}

#[test]
fn writes_are_split_and_short_ones_continued_then_committed_once() {
    let Setting { server, file, .. } = open("wsize=8k");
    let bytes = pattern(20_000, 1);
    server.with(|state| state.write_limit = Some(5_000));
    file.write(0, &bytes).unwrap();
    assert!(
        server.with(|state| state.stable.is_empty()),
        "nothing is stable before"
    );
    file.sync().unwrap();
    assert_eq!(server.with(|state| state.stable.clone()), bytes);
    // 8192 in two, 8192 in two, 3616 in one.
    assert_eq!(server.calls(procedure::WRITE).len(), 5);
    assert_eq!(server.calls(procedure::COMMIT).len(), 1);
    assert_eq!(file.dirty_bytes(), (0, 0));
    file.sync().unwrap();
    assert_eq!(
        server.calls(procedure::COMMIT).len(),
        1,
        "nothing to commit"
    );
}

#[test]
fn sync_writes_are_stable_without_a_commit() {
    let Setting { server, file, .. } = open("sync,wsize=4k");
    let bytes = pattern(10_000, 1);
    file.write(3, &bytes).unwrap();
    file.sync().unwrap();
    assert_eq!(server.with(|state| state.stable[3..].to_vec()), bytes);
    assert_eq!(server.calls(procedure::COMMIT).len(), 0);
}

#[test]
fn what_a_restart_lost_is_sent_again() {
    let Setting { server, file, .. } = open("wsize=4k");
    let bytes = pattern(10_000, 7);
    server.with(|state| state.restart_before_commits = 3);
    file.write(0, &bytes).unwrap();
    file.sync().unwrap();
    assert_eq!(server.with(|state| state.stable.clone()), bytes);
    assert_eq!(server.calls(procedure::COMMIT).len(), 4);
    assert_eq!(server.calls(procedure::WRITE).len(), 12);
}

#[test]
fn a_read_sees_what_a_restarted_server_has_lost() {
    let Setting {
        server,
        client,
        file,
        ..
    } = open("");
    file.write(10, b"written").unwrap();
    while file.dirty_bytes().0 > 0 {
        client.figures().unwrap();
    }
    server.restart();
    let found = file.read(0, 100).unwrap();
    assert_eq!(found.bytes, b"\0\0\0\0\0\0\0\0\0\0written");
    assert!(found.end_of_file);
    file.sync().unwrap();
    assert_eq!(server.with(|state| state.stable.len()), 17);
}

#[test]
fn overlapping_writes_arrive_in_order() {
    let Setting {
        server,
        client,
        file,
        ..
    } = open("nconnect=4");
    server.with(|state| state.holds_writes = true);
    std::thread::scope(|scope| {
        file.write(0, &pattern(100, 1)).unwrap();
        let second = scope.spawn(|| file.write(50, &pattern(100, 2)));
        // The first is held by the server; the second may not be on its way.
        while server.calls(procedure::WRITE).is_empty() && file.dirty_bytes().0 < 100 {
            client.figures().unwrap();
        }
        assert_eq!(file.dirty_bytes().0, 100);
        server.with(|state| state.holds_writes = false);
        second.join().unwrap().unwrap();
    });
    file.sync().unwrap();
    let expected = [&pattern(100, 1)[..50], &pattern(100, 2)].concat();
    assert_eq!(server.with(|state| state.stable.clone()), expected);
}

#[test]
fn an_error_sticks_until_it_is_reported_once() {
    let Setting {
        server,
        client,
        file,
        ..
    } = open("");
    server.with(|state| state.write_failures.push_back(nfsstat3::NFS3ERR_NOSPC));
    file.write(0, b"lost").unwrap();
    while file.dirty_bytes().0 > 0 {
        client.figures().unwrap();
    }
    let later = file.write(100, b"refused").unwrap_err();
    assert_eq!(later.errno(), rustix::io::Errno::NOSPC);
    let reported = file.sync().unwrap_err();
    assert_eq!(reported.errno(), rustix::io::Errno::NOSPC);
    file.write(0, b"kept").unwrap();
    file.sync().unwrap();
    assert_eq!(server.with(|state| state.stable.clone()), b"kept");
    server.with(|state| state.commit_failures.push_back(nfsstat3::NFS3ERR_IO));
    file.write(0, b"gone").unwrap();
    assert_eq!(file.sync().unwrap_err().errno(), rustix::io::Errno::IO);
    assert_eq!(file.dirty_bytes(), (0, 0));
    file.sync().unwrap();
}

#[test]
fn later_is_waited_out() {
    let Setting { server, file, .. } = open("");
    server.with(|state| {
        state
            .write_failures
            .extend([nfsstat3::NFS3ERR_JUKEBOX; 100]);
    });
    file.write(0, b"patience").unwrap();
    file.sync().unwrap();
    assert_eq!(server.with(|state| state.stable.clone()), b"patience");
    assert_eq!(server.calls(procedure::WRITE).len(), 101);
}

#[test]
fn nothing_is_written_behind_the_largest_offset() {
    let Setting { server, file, .. } = open("");
    let too_large = Err(CallError::Nfs(nfsstat3::NFS3ERR_FBIG));
    for offset in [i64::MAX as u64 - 3, u64::MAX - 3] {
        assert_eq!(file.write(offset, b"data"), too_large);
        assert_eq!(
            file.write_behind(offset, b"data", 1 << 20).map(drop),
            too_large
        );
    }
    // It was refused, not met by an earlier write: nothing sticks, nothing was sent.
    file.write(0, b"data").unwrap();
    file.sync().unwrap();
    assert_eq!(server.calls(procedure::WRITE).len(), 1);
    let read = file.read(u64::MAX - 3, 100).unwrap();
    assert!(read.bytes.is_empty() && read.end_of_file);
}

#[test]
fn neighbours_are_gathered_to_one_stable_write() {
    let Setting { server, file, .. } = open("wsize=8k");
    let bytes = pattern(6_000, 5);
    for (index, part) in bytes.chunks(1_000).enumerate() {
        let full = file.write_behind(index as u64 * 1_000, part, u64::MAX);
        assert_eq!(full, Ok(false));
    }
    assert!(server.calls(procedure::WRITE).is_empty() && !file.is_settled());
    assert_eq!(file.read(900, 200).unwrap().bytes, &bytes[900..1_100]);
    file.sync().unwrap();
    assert_eq!(server.with(|state| state.stable.clone()), bytes);
    // The read made it go out before, unstable.
    let calls = |procedure| server.calls(procedure).len();
    assert_eq!((calls(procedure::WRITE), calls(procedure::COMMIT)), (1, 1));
    assert!(file.is_settled());
    file.write_behind(0, b"alone", u64::MAX).unwrap();
    file.sync().unwrap();
    assert_eq!((calls(procedure::WRITE), calls(procedure::COMMIT)), (2, 1));
    // Beyond wsize it goes out by itself, and the sync commits.
    file.write_behind(0, &pattern(9_000, 6), u64::MAX).unwrap();
    file.sync().unwrap();
    assert_eq!(server.with(|state| state.stable.clone()), pattern(9_000, 6));
    assert_eq!((calls(procedure::WRITE), calls(procedure::COMMIT)), (4, 2));
}

/// Four writes, each synced at once: the fifth goes out as its sync would send it.
#[test]
fn a_log_is_on_its_way_before_it_is_synced() {
    let Setting { server, file, .. } = open("");
    let write = |byte| file.write_behind(0, &[byte; 8], u64::MAX).unwrap();
    let stable = || {
        let (told, end) = channel();
        file.answered_then(move |result| told.send(result).unwrap());
        end.recv().unwrap().unwrap();
        server.with(|state| state.stable.clone())
    };
    for byte in 1..=4 {
        write(byte);
        sync_data(&file).unwrap();
    }
    write(5);
    assert_eq!(stable(), [5; 8]);
    // Not synced before the next: no log.
    write(6);
    assert_eq!(stable(), [5; 8]);
    sync_data(&file).unwrap();
    assert_eq!(stable(), [6; 8]);
    let calls = |procedure| server.calls(procedure).len();
    assert_eq!((calls(procedure::WRITE), calls(procedure::COMMIT)), (6, 1));
}

#[test]
fn fdatasync_leaves_the_attributes_to_the_next_fsync() {
    let Setting { server, file, .. } = open("");
    let calls = |procedure| server.calls(procedure).len();
    for writes in 1..=2 {
        file.write_behind(0, b"log", u64::MAX).unwrap();
        sync_data(&file).unwrap();
        assert_eq!(server.with(|state| state.stable.clone()), b"log");
        assert_eq!(calls(procedure::WRITE), writes);
        assert_eq!(calls(procedure::COMMIT), 0);
        assert!(file.is_settled() && !file.has_stable_attributes());
    }
    sync_data(&file).unwrap();
    assert_eq!(calls(procedure::COMMIT), 0, "its data are stable");
    for _ in 0..2 {
        file.sync().unwrap();
        assert_eq!((calls(procedure::WRITE), calls(procedure::COMMIT)), (2, 1));
        assert!(file.is_settled() && file.has_stable_attributes());
    }
}

#[derive(Clone, Debug)]
enum Act {
    Behind(u16, u16, u8),
    Write(u16, u16, u8),
    Read(u16, u16),
    Sync,
    Restart,
    Lose,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        9 => (0_u16..20_000, 1_u16..9_000, any::<u8>())
            .prop_map(|(offset, length, seed)| Act::Behind(offset, length, seed)),
        3 => (0_u16..20_000, 1_u16..9_000, any::<u8>())
            .prop_map(|(offset, length, seed)| Act::Write(offset, length, seed)),
        3 => (0_u16..25_000, 0_u16..9_000).prop_map(|(offset, length)| Act::Read(offset, length)),
        1 => Just(Act::Sync),
        1 => Just(Act::Restart),
        1 => Just(Act::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Against an array of bytes: reads see all writes, and after a sync all of it is stable,
    /// through restarts that lose data, lost connections and short answers.
    #[test]
    fn no_byte_is_lost(acts in proptest::collection::vec(act(), 1..40), limit in 500_usize..5_000) {
        let Setting { server, file, .. } = open("rsize=2k,wsize=2k,nconnect=2,max_requests=4");
        server.with(|state| {
            state.write_limit = Some(limit);
            state.read_limit = Some(limit);
        });
        let mut model: Vec<u8> = Vec::new();
        for act in acts {
            match act {
                Act::Write(offset, length, seed) | Act::Behind(offset, length, seed) => {
                    let (start, length) = (usize::from(offset), usize::from(length));
                    let bytes = pattern(length, seed);
                    if matches!(act, Act::Write(..)) {
                        file.write(u64::from(offset), &bytes).unwrap();
                    } else {
                        file.write_behind(u64::from(offset), &bytes, 20_000).unwrap();
                    }
                    model.resize(model.len().max(start + length), 0);
                    model[start..start + length].copy_from_slice(&bytes);
                }
                Act::Read(offset, length) => {
                    let found = file.read(u64::from(offset), usize::from(length)).unwrap();
                    let start = usize::from(offset).min(model.len());
                    let end = (start + usize::from(length)).min(model.len());
                    prop_assert_eq!(&found.bytes, &model[start..end]);
                    if found.bytes.len() < usize::from(length) {
                        prop_assert!(found.end_of_file);
                    }
                    if found.end_of_file && length > 0 {
                        prop_assert!(usize::from(offset) + found.bytes.len() >= model.len());
                    }
                }
                Act::Sync => {
                    file.sync().unwrap();
                    prop_assert_eq!(&server.with(|state| state.stable.clone()), &model);
                }
                Act::Restart => server.restart(),
                Act::Lose => server.with(|state| state.closes += 1),
            }
        }
        file.sync().unwrap();
        prop_assert_eq!(&server.with(|state| state.stable.clone()), &model);
        prop_assert_eq!(file.dirty_bytes(), (0, 0));
        file.sync().unwrap();
    }
}
