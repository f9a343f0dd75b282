//! Several processes (threads here, with an observer each) that make one run: what they leave is
//! what one process with all the threads leaves, byte by byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Barrier;

use files::{Config, FilesError, Meeting, Observer, Outcome, Phase, Progress};
use measure::{Clock, MonotonicClock};
use serde_json::{Value, json};

const BLOCKS: u64 = 131; // no multiple of anything
const AHEAD_NS: u64 = 2_000_000;

fn config(directory: &Path, more: &Value) -> Config {
    let mut all = json!({
        "directory": directory, "size_bytes": BLOCKS * 4096, "block_size_bytes": 4096, "keep": true,
        "phases": Phase::ALL, "seeks": 60, "random_operations": 45, "check_every": 1,
        "seek_rewrite_share": 0.5, "seed": 5,
    });
    let fields = all.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

/// One process, which waits for the others where it has to.
struct One<'b> {
    all: &'b Barrier,
    at_ns: Vec<u64>,
    seen: Vec<(Phase, &'static str)>,
}

impl Observer for One<'_> {
    fn tick(&mut self, _: &Progress) -> bool {
        true
    }

    fn meet(&mut self, meeting: &Meeting) -> Option<u64> {
        self.seen.push((meeting.phase, meeting.gate));
        self.all.wait();
        let at_ns = MonotonicClock.now_ns() + AHEAD_NS;
        if meeting.gate == "start" {
            self.at_ns.push(at_ns);
        }
        Some(at_ns)
    }
}

fn together(of: u64, directories: &[&Path], more: &Value) -> Vec<Outcome> {
    let all = Barrier::new(usize::try_from(of).unwrap());
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..of)
            .map(|index| {
                let mut fields = more.clone();
                fields["part"] = json!({"index": index, "of": of, "folder": "together"});
                let place = usize::try_from(index).unwrap() % directories.len();
                let config = config(directories[place], &fields);
                let all = &all;
                scope.spawn(move || {
                    let (at_ns, seen) = (Vec::new(), Vec::new());
                    let mut one = One { all, at_ns, seen };
                    let outcome = files::run(config, &MonotonicClock, &mut one).unwrap();
                    let starts: Vec<u64> = outcome
                        .phases
                        .iter()
                        .map(|it| it.start_monotonic_ns)
                        .collect();
                    assert_eq!(starts, one.at_ns, "each phase began as it was told");
                    assert_eq!(one.seen.last(), Some(&(Phase::LogWrite, "ended")));
                    outcome
                })
            })
            .collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    })
}

/// All files below a folder by name, whatever folder they are in.
fn bytes_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for directory in fs::read_dir(folder).unwrap() {
        for file in fs::read_dir(directory.unwrap().path()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            assert!(found.insert(name, fs::read(file.path()).unwrap()).is_none());
        }
    }
    found
}

#[test]
fn parts_do_what_one_process_with_all_threads_does() {
    for (files, folders) in [(None, 3), (Some(1), 1), (Some(5), 1), (Some(12), 3)] {
        let (alone, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let whole = config(alone.path(), &json!({"threads": 6, "files": files}));
        let whole = files::run(whole, &MonotonicClock, &mut ()).unwrap();
        let parts = together(3, &[shared.path()], &json!({"threads": 2, "files": files}));
        assert_eq!(bytes_of(alone.path()), bytes_of(shared.path()), "{files:?}");
        assert_eq!(fs::read_dir(shared.path()).unwrap().count(), folders);
        for (index, one) in whole.phases.iter().enumerate() {
            let of: Vec<_> = parts.iter().map(|part| &part.phases[index]).collect();
            let sum = |get: fn(&files::report::PhaseResult) -> u64| -> u64 {
                of.iter().map(|it| get(it)).sum()
            };
            assert_eq!(sum(|it| it.operations), one.operations);
            assert_eq!(sum(|it| it.read_bytes), one.read_bytes);
            assert_eq!(sum(|it| it.written_bytes), one.written_bytes);
            assert_eq!(sum(|it| it.rewrites), one.rewrites);
            assert_eq!(sum(|it| it.checked_blocks), one.checked_blocks);
            assert_eq!(sum(|it| it.errors.content_mismatches), 0);
            assert!(
                of.iter()
                    .all(|it| it.began_monotonic_ns >= it.start_monotonic_ns)
            );
            let sizes = of.iter().filter_map(|it| it.cache.as_ref());
            let sizes: u64 = sizes.map(|it| it.size_bytes).sum();
            assert_eq!(sizes, one.cache.as_ref().map_or(0, |it| it.size_bytes));
        }
    }
}

#[test]
fn a_part_may_seek_with_other_threads_than_it_writes_with() {
    let shared = tempfile::tempdir().unwrap();
    let more = json!({"threads": 2, "seek_threads": 5, "files": 1, "keep": false});
    for part in together(3, &[shared.path()], &more) {
        let errors: Vec<_> = part.phases.iter().map(|it| it.errors).collect();
        assert_eq!(errors, vec![files::report::Oddities::default(); 9]);
    }
    assert_eq!(
        fs::read_dir(shared.path()).unwrap().count(),
        0,
        "the first removed it"
    );
}

#[test]
fn processes_that_share_a_file_need_one_folder() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = together(2, &[first.path(), second.path()], &json!({"files": 4}));
    assert!(!own[0].config.shared, "each has files of its own");
    let all = Barrier::new(2);
    let error = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let more = json!({"files": 1, "part": {"index": 1, "of": 2, "folder": "it"}});
            let (at_ns, seen, all) = (Vec::new(), Vec::new(), &all);
            let config = config(second.path(), &more);
            files::run(config, &MonotonicClock, &mut One { all, at_ns, seen })
        });
        all.wait(); // "made", elsewhere
        other.join().unwrap().unwrap_err().error
    });
    assert!(matches!(error, FilesError::NotShared { .. }), "{error}");
    assert_eq!(error.kind(), "not_shared");
}

#[test]
fn parts_that_cannot_be_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |more: Value| {
        let failure = files::run(config(directory.path(), &more), &MonotonicClock, &mut ());
        failure.unwrap_err().error.what()
    };
    let part = |index, of, folder| json!({"part": {"index": index, "of": of, "folder": folder}});
    assert!(refused(part(2, 2, "it")).contains("part.index = 2"));
    assert!(refused(part(0, 0, "it")).contains("part.of = 0"));
    assert!(refused(part(0, 2, "../it")).contains("part.folder = ../it"));
    assert!(
        refused(part(0, BLOCKS + 1, "it")).contains("size_bytes"),
        "a block a thread"
    );
}
