//! Whole runs on a temporary directory, checked by counts, sizes and bytes.

use std::fs;
use std::path::Path;

use files::config::Plan;
use files::content::{Content, Identity};
use files::layout::Layout;
use files::{Config, FilesError, Observer, Outcome, Phase, Progress};
use measure::MonotonicClock;
use serde_json::{Value, json};

fn config(directory: &Path, more: Value) -> Config {
    let mut all = json!({"directory": directory, "size_bytes": 1 << 20});
    all.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

fn run(directory: &Path, more: Value) -> Outcome {
    files::run(config(directory, more), &MonotonicClock, &mut ()).unwrap()
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// Every byte of the files is the content of some write; gives how often each block was written.
fn check_files(outcome: &Outcome) -> Vec<u8> {
    let plan: &Plan = &outcome.config;
    let block_bytes = usize::try_from(plan.block_size_bytes).unwrap();
    let layout = Layout::new(plan.blocks(), plan.files, plan.block_size_bytes);
    let content = Content::new(plan.seed, block_bytes).unwrap();
    let mut generations = Vec::new();
    for file in 0..plan.files {
        let bytes = fs::read(outcome.directory.join(format!("file{file:05}"))).unwrap();
        assert_eq!(bytes.len() as u64, layout.file_bytes(file));
        for (block, bytes) in layout.file_blocks(file).zip(bytes.chunks(block_bytes)) {
            let offset = layout.spot(block).offset;
            let generation = (1..=u8::MAX).find(|&generation| {
                let identity = Identity {
                    block,
                    file,
                    offset,
                    generation,
                };
                content.check(&identity, bytes).is_ok()
            });
            generations.push(generation.unwrap_or_else(|| panic!("block {block} is damaged")));
        }
    }
    generations
}

fn all_phases(directory: &Path) -> Outcome {
    let more = json!({"phases": Phase::ALL, "threads": 3, "seeks": 50, "random_operations": 20, "check_every": 1,
                      "sync_every": 4, "seek_rewrite_share": 0.5});
    run(directory, more)
}

#[test]
fn every_phase_counts_what_it_did() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = all_phases(directory.path());
    assert_eq!(
        outcome.phases.iter().map(|p| p.phase).collect::<Vec<_>>(),
        Phase::ALL
    );
    for result in &outcome.phases {
        let (name, reads) = (result.phase.name(), result.phase.reads());
        let operations = match result.phase {
            Phase::Seeks => 50,
            Phase::RandomRead | Phase::RandomWrite | Phase::LogWrite => 20,
            _ => 128,
        };
        assert_eq!(
            (result.operations, result.bytes),
            (operations, operations * 8192),
            "{name}"
        );
        assert_eq!(result.latency.count, operations, "{name}");
        assert_eq!(
            result.series.operations.iter().sum::<u64>(),
            operations,
            "{name}"
        );
        assert_eq!(
            result.series.bytes.iter().sum::<u64>(),
            result.bytes,
            "{name}"
        );
        assert_eq!(
            result.workers.iter().map(|w| w.operations).sum::<u64>(),
            operations,
            "{name}"
        );
        assert_eq!(
            result.read_bytes,
            if reads { result.bytes } else { 0 },
            "{name}"
        );
        assert_eq!(
            result.checked_blocks,
            if reads { operations } else { 0 },
            "{name}"
        );
        assert_eq!(result.errors, files::report::Oddities::default(), "{name}");
        assert_eq!(result.first_mismatch, None, "{name}");
        assert_eq!(result.stopped_by, "done", "{name}");
    }
}

#[test]
fn every_phase_accounts_for_its_time_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = all_phases(directory.path());
    for result in &outcome.phases {
        let name = result.phase.name();
        assert_eq!(
            result.data_ns + result.final_sync_ns,
            result.wall_ns,
            "{name}"
        );
        assert_eq!(result.final_sync.is_some(), result.phase.writes(), "{name}");
        assert_eq!(result.cache.is_none(), result.phase.makes_files(), "{name}");
        // Three threads: their latencies cannot add up to more than three times the phase.
        let latencies_ns = result.latency.mean_ns.unwrap() * result.operations as f64;
        assert!(latencies_ns <= result.wall_ns as f64 * 3.0, "{name}");
    }
    let phase = |phase| outcome.phase(phase).unwrap();
    assert_eq!(phase(Phase::Rewrite).written_bytes, 1 << 20);
    assert_eq!(phase(Phase::Rewrite).rewrites, 128);
    let seeks = phase(Phase::Seeks);
    assert_eq!(seeks.written_bytes, seeks.rewrites * 8192);
    assert!((10..=40).contains(&seeks.rewrites), "{}", seeks.rewrites);
    // Three threads with 7, 7 and 6 writes: a sync after each four is one for each thread.
    assert_eq!(
        phase(Phase::RandomWrite).sync.as_ref().unwrap().operations,
        3
    );
    assert!(outcome.fills.is_empty());
    assert_eq!(entries(directory.path()), 0);
}

#[test]
fn files_hold_exactly_what_was_written() {
    for (mut more, highest) in [
        (json!({"phases": ["char_write"], "threads": 2}), 1),
        (
            json!({"phases": ["char_write"], "threads": 3, "files": 1}),
            1,
        ),
        (
            json!({"phases": ["block_write"], "threads": 2, "files": 1}),
            1,
        ),
        (
            json!({"phases": ["block_write"], "threads": 2, "files": 5}),
            1,
        ),
        (
            json!({"phases": ["block_write", "rewrite"], "threads": 3, "files": 2}),
            2,
        ),
        (
            json!({"phases": ["block_write"], "block_size_bytes": 512}),
            1,
        ),
        (
            json!({"phases": ["block_write", "char_write"], "block_size_bytes": 65536}),
            1,
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        more["keep"] = json!(true);
        let outcome = run(directory.path(), more);
        assert!(outcome.kept);
        assert!(
            check_files(&outcome)
                .iter()
                .all(|&generation| generation == highest)
        );
    }
}

#[test]
fn random_writes_raise_the_generation_of_as_many_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let more = json!({"phases": ["random_write"], "random_operations": 300, "sync_every": 0,
                      "threads": 2, "keep": true});
    let outcome = run(directory.path(), more);
    assert_eq!(outcome.fills.len(), 1);
    assert_eq!(outcome.fills[0].bytes, 1 << 20);
    let writes: u64 = check_files(&outcome)
        .iter()
        .map(|&g| u64::from(g) - 1)
        .sum();
    assert_eq!(writes, 300);
    assert!(outcome.phases[0].sync.is_none());
}

#[test]
fn a_log_is_written_in_order_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let more = json!({"phases": ["log_write"], "random_operations": 300, "threads": 1,
                      "keep": true});
    let outcome = run(directory.path(), more);
    // 128 blocks: two whole rounds, and 44 blocks of a third; the fill wrote each once.
    let expected: Vec<u64> = (0..128)
        .map(|block| if block < 44 { 4 } else { 3 })
        .collect();
    let found: Vec<u64> = check_files(&outcome)
        .iter()
        .map(|&g| u64::from(g))
        .collect();
    assert_eq!(found, expected);
    let syncs = outcome.phase(Phase::LogWrite).unwrap().sync.as_ref();
    assert_eq!(syncs.unwrap().operations, 300);
}

#[test]
fn the_same_seed_does_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = |seed: u64| {
        let more = json!({"phases": ["seeks"], "seeks": 40, "seek_rewrite_share": 0.5,
                          "seed": seed, "keep": true});
        let outcome = run(directory.path(), more);
        fs::read(outcome.directory.join("file00000")).unwrap()
    };
    let first = bytes(1);
    assert!(first == bytes(1));
    assert!(first != bytes(2));
}

/// Damages a file when a given phase is about to start.
struct Vandal<'a> {
    directory: &'a Path,
    damage: fn(&Path),
    done: bool,
}

impl Observer for Vandal<'_> {
    fn tick(&mut self, progress: &Progress) -> bool {
        if progress.phase == Phase::BlockRead && !self.done {
            let run = fs::read_dir(self.directory)
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .path();
            (self.damage)(&run.join("file00000"));
            self.done = true;
        }
        true
    }
}

fn vandalised(damage: fn(&Path)) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let more = json!({"phases": ["block_write", "block_read"], "check_every": 1});
    let mut vandal = Vandal {
        directory: directory.path(),
        damage,
        done: false,
    };
    files::run(config(directory.path(), more), &MonotonicClock, &mut vandal).unwrap()
}

#[test]
fn a_flipped_byte_is_one_mismatch_with_its_place() {
    let outcome = vandalised(|path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[3 * 8192 + 100] ^= 1;
        fs::write(path, bytes).unwrap();
    });
    let read = outcome.phase(Phase::BlockRead).unwrap();
    assert_eq!(
        (read.errors.content_mismatches, read.checked_blocks),
        (1, 128)
    );
    let words = read.first_mismatch.as_deref().unwrap();
    assert!(
        words.contains("byte 24576") && words.contains("byte 100 of the block"),
        "{words}"
    );
}

#[test]
fn a_file_cut_short_is_short_reads_not_bytes() {
    let outcome = vandalised(|path| {
        fs::OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(10 * 8192 + 1)
            .unwrap();
    });
    let read = outcome.phase(Phase::BlockRead).unwrap();
    assert_eq!(read.read_bytes, 10 * 8192 + 1);
    assert_eq!((read.errors.short_reads, read.checked_blocks), (118, 10));
}

/// Stops the run at a given phase.
struct Stopper(Phase);

impl Observer for Stopper {
    fn tick(&mut self, progress: &Progress) -> bool {
        progress.phase != self.0
    }
}

#[test]
fn cancelling_removes_the_files_and_keeps_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path(), json!({}));
    let stopped = files::run(config, &MonotonicClock, &mut Stopper(Phase::Rewrite));
    let failure = stopped.unwrap_err();
    assert!(matches!(failure.error, FilesError::Cancelled));
    assert_eq!(failure.partial.unwrap().phases.len(), 2);
    assert_eq!(entries(directory.path()), 0);
}

#[test]
fn a_time_limit_ends_a_phase_and_what_is_missing_is_filled() {
    let directory = tempfile::tempdir().unwrap();
    // One nanosecond is over after the first operation of each thread.
    let more = json!({"phases": ["block_write", "block_read"], "time_limit_ns": 1, "threads": 2});
    let outcome = run(directory.path(), more);
    let write = outcome.phase(Phase::BlockWrite).unwrap();
    assert_eq!((write.stopped_by, write.operations), ("time_limit", 2));
    assert_eq!(outcome.fills[0].bytes, 126 * 8192);
    let read = outcome.phase(Phase::BlockRead).unwrap();
    assert_eq!((read.stopped_by, read.operations), ("time_limit", 2));
    // A limit that comes with the last operation cuts nothing off.
    let more = json!({"size_bytes": 8192, "phases": ["block_write"], "time_limit_ns": 1});
    assert_eq!(run(directory.path(), more).phases[0].stopped_by, "done");
}

fn error_of(more: Value) -> FilesError {
    let directory = tempfile::tempdir().unwrap();
    let result = files::run(config(directory.path(), more), &MonotonicClock, &mut ());
    assert_eq!(entries(directory.path()), 0);
    result.unwrap_err().error
}

#[test]
fn wrong_configurations_name_the_field_and_what_would_be_right() {
    let endless = json!({"size_bytes": 1_u64 << 60, "block_size_bytes": 512});
    for (more, field, right) in [
        (
            json!({"block_size_bytes": 1000}),
            "block_size_bytes",
            "a multiple of 512",
        ),
        (
            json!({"size_bytes": 1_000_000}),
            "size_bytes",
            "999424 or 1007616",
        ),
        (
            json!({"size_bytes": 8192, "threads": 2}),
            "size_bytes",
            "at least 16384",
        ),
        (json!({"threads": 0}), "threads", "1 to 1024"),
        (json!({"files": 0}), "files", "1 to 65536"),
        (
            json!({"seek_rewrite_share": 1.5}),
            "seek_rewrite_share",
            "0 to 1",
        ),
        (json!({"phases": []}), "phases", "one phase"),
        (json!({"phases": ["seeks", "seeks"]}), "phases", "once"),
        (
            json!({"phases": ["char_read"], "direct": true}),
            "phases",
            "direct = false",
        ),
        (
            json!({"sync_kind": "dsync", "sync_every": 2}),
            "sync_every",
            "1 with sync_kind dsync",
        ),
        (endless, "size_bytes", "larger blocks"),
    ] {
        let error = error_of(more);
        assert_eq!(error.kind(), "config");
        assert!(error.what().contains(field), "{}", error.what());
        assert!(error.fix().contains(right), "{}", error.fix());
    }
}

#[test]
fn a_target_without_room_is_refused_before_anything_is_written() {
    let error = error_of(json!({"size_bytes": 1_u64 << 50, "block_size_bytes": 1 << 26}));
    assert!(matches!(error, FilesError::TooSmall { needed_bytes, .. } if needed_bytes == 1 << 50));
    assert_eq!(error.kind(), "space");
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let missing = Path::new("/nonexistent/nfslab");
    let result = files::run(config(missing, json!({})), &MonotonicClock, &mut ());
    let error = result.unwrap_err().error;
    assert_eq!(error.kind(), "io");
    assert!(
        error.what().contains("/nonexistent/nfslab"),
        "{}",
        error.what()
    );
    assert!(
        error.fix().contains("existing directory"),
        "{}",
        error.fix()
    );
}

#[test]
fn direct_io_leaves_the_character_phases_out_and_says_so() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let more = json!({"direct": true, "block_size_bytes": 4096, "check_every": 1, "seeks": 10});
    match files::run(config(directory.path(), more), &MonotonicClock, &mut ()) {
        Ok(outcome) => {
            let skipped: Vec<_> = outcome
                .skipped
                .iter()
                .map(|skipped| skipped.phase)
                .collect();
            assert_eq!(skipped, [Phase::CharWrite, Phase::CharRead]);
            assert!(
                outcome
                    .phases
                    .iter()
                    .all(|p| p.errors.content_mismatches == 0)
            );
        }
        Err(failure) => {
            // tmpfs and others do not take O_DIRECT: the error must say just that.
            assert_eq!(failure.error.kind(), "unsupported");
            eprintln!(
                "skipped: {} does not take O_DIRECT",
                directory.path().display()
            );
        }
    }
}

/// Replaces the run's file by a link to /dev/full, where every write fails with ENOSPC.
struct Full<'a>(&'a Path);

impl Observer for Full<'_> {
    fn tick(&mut self, _: &Progress) -> bool {
        let run = fs::read_dir(self.0)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        fs::remove_file(run.join("file00000")).unwrap();
        std::os::unix::fs::symlink("/dev/full", run.join("file00000")).unwrap();
        true
    }
}

#[test]
fn a_full_device_is_a_space_error_with_its_phase() {
    let directory = tempfile::tempdir().unwrap();
    for phase in ["block_write", "char_write"] {
        let config = config(directory.path(), json!({"phases": [phase]}));
        let failure = files::run(config, &MonotonicClock, &mut Full(directory.path())).unwrap_err();
        let error = failure.error;
        assert_eq!(error.kind(), "space", "{error}");
        assert!(
            error.what().contains(phase) && error.what().contains("file00000"),
            "{error}"
        );
        assert_eq!(entries(directory.path()), 0);
    }
}
