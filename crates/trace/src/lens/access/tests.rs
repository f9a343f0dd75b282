use wire::nfs3::procedure;
use wire::nfs4::opcode as v4;
use wire::summary::Stability;

use super::*;
use crate::lens::tests::hand_made::{Capture, MS, endpoint, number, read};

const BLOCK: u64 = 8192;

fn of(procedure: u32, file: u32, time_ms: i64) -> Call {
    let mut call = read(time_ms * MS, Some(time_ms * MS + MS / 2));
    call.procedure = procedure;
    call.operation = procedure;
    call.file = Some(FileId(file));
    call.bytes_read = 0;
    call.offset = None;
    call.count = None;
    call
}

fn data(procedure: u32, file: u32, time_ms: i64, block: u64) -> Call {
    let mut call = of(procedure, file, time_ms);
    call.offset = Some(block * BLOCK);
    call.count = Some(BLOCK);
    if procedure == procedure::READ {
        call.bytes_read = BLOCK as u32;
    } else if procedure == procedure::WRITE {
        call.bytes_written = BLOCK as u32;
        call.stable = Some(Stability::Unstable);
        call.committed = Some(Stability::Unstable);
    }
    call
}

fn section(calls: impl IntoIterator<Item = Call>) -> Value {
    let mut capture = Capture::default();
    let mut end_ns = 0;
    for call in calls {
        end_ns += MS;
        capture.call(call, &[], &[]);
    }
    capture.show(&mut Access::default(), end_ns).json
}

fn observed(json: &Value) -> Vec<&str> {
    let all = json["observations"].as_array().unwrap();
    all.iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect()
}

#[test]
fn files_have_their_patterns_and_totals_add_up() {
    let mut calls = Vec::new();
    for step in 0..200 {
        calls.push(data(procedure::READ, 0, step, step as u64));
        calls.push(data(
            procedure::READ,
            7,
            step,
            (step as u64 * 7919) % 100_003,
        ));
        calls.push(data(procedure::WRITE, 3, step, step as u64 / 2));
    }
    let json = section(calls);
    assert_eq!(number(&json, "/reads/calls"), 400);
    assert_eq!(number(&json, "/reads/bytes"), 400 * BLOCK as i64);
    assert_eq!(number(&json, "/reads/classes/sequential"), 199);
    assert_eq!(number(&json, "/reads/classes/first"), 2);
    assert_eq!(number(&json, "/reads/files_by_pattern/sequential/files"), 1);
    assert_eq!(number(&json, "/reads/files_by_pattern/random/calls"), 200);
    assert_eq!(
        number(&json, "/writes/files_by_pattern/repeated/calls"),
        200
    );
    assert_eq!(number(&json, "/reads/sizes/common/0/bytes"), BLOCK as i64);
    assert_eq!(number(&json, "/data_files"), 3);
    let files = json["files"].as_array().unwrap();
    let patterns: Vec<_> = files
        .iter()
        .map(|file| (number(file, "/file"), file["reads"]["pattern"].as_str()))
        .collect();
    assert_eq!(
        patterns,
        [(0, Some("sequential")), (3, None), (7, Some("random"))]
    );
    // Half of the READs jump: 199 of 400, which is below the half from which it is said.
    assert_eq!(observed(&json), ["rewritten_before_commit"]);
}

#[test]
fn commits_are_told_with_what_they_commit() {
    let mut calls = Vec::new();
    for round in 0..50_i64 {
        for step in 0..4 {
            let block = (round * 4 + step) as u64;
            calls.push(data(procedure::WRITE, 0, round * 100 + step, block));
        }
        let mut commit = of(procedure::COMMIT, 0, round * 100 + 53);
        commit.offset = Some(0);
        commit.count = Some(0);
        calls.push(commit);
    }
    calls.push(data(procedure::WRITE, 0, 6000, 900));
    let json = section(calls);
    assert_eq!(number(&json, "/commits/calls"), 50);
    assert_eq!(number(&json, "/commits/whole_file"), 50);
    assert_eq!(number(&json, "/commits/writes/max"), 4);
    assert_eq!(number(&json, "/commits/bytes/mean"), 4 * BLOCK as i64);
    assert_eq!(
        number(&json, "/commits/last_write_to_commit_ns/min"),
        50 * MS
    );
    assert_eq!(
        number(&json, "/commits/bytes_left_uncommitted"),
        BLOCK as i64
    );
    assert_eq!(number(&json, "/stability/unstable"), 201);
    assert_eq!(observed(&json), Vec::<&str>::new());
}

#[test]
fn attributes_asked_all_the_time_are_observed_and_rare_ones_not() {
    let storm = |every_ms: i64, clients: i64| {
        let calls = (0..200).map(move |step| {
            let mut call = of(procedure::GETATTR, (step % 2) as u32, step * every_ms);
            call.client = endpoint(2 + (step / 2 % clients) as u8, 700);
            call
        });
        section(calls)
    };
    // Two files, each asked again every 200 ms.
    let json = storm(100, 1);
    assert_eq!(number(&json, "/attributes/getattr_asked_again"), 198);
    // NFSv3 has no OPEN: programs that open files all the time do so, too.
    assert_eq!(observed(&json), ["attribute_storm"]);
    // Every 4 s: the cache had given them up.
    let json = storm(2000, 1);
    assert_eq!(number(&json, "/attributes/getattr_asked_again"), 0);
    assert_eq!(observed(&json), ["attribute_storm"]);
    // Two clients in turn, each of which asks the file once in 400 ms, cannot be told from this.
    let json = storm(100, 2);
    assert_eq!(number(&json, "/attributes/getattr_asked_again"), 0);
}

#[test]
fn an_attribute_cache_is_off_if_a_file_that_was_not_opened_is_asked_again() {
    let asked = |opened: bool| {
        let calls = (0..200).map(|step| {
            let operation = match opened && step % 2 == 0 {
                true => v4::OPEN,
                false => v4::GETATTR,
            };
            let mut call = of(procedure::GETATTR, 0, step * 100);
            (call.version, call.operation) = (4, operation);
            call
        });
        section(calls)
    };
    let json = asked(false);
    assert_eq!(
        number(&json, "/attributes/getattr_asked_again_unopened"),
        199
    );
    assert!(observed(&json).contains(&"attribute_cache_off"));
    let json = asked(true);
    assert_eq!(number(&json, "/attributes/getattr_asked_again"), 99);
    assert_eq!(number(&json, "/attributes/getattr_asked_again_unopened"), 0);
    assert!(!observed(&json).contains(&"attribute_cache_off"));
}

#[test]
fn revalidation_is_a_getattr_directly_in_front_of_data() {
    let reads = |near: bool| {
        let mut calls = Vec::new();
        for step in 0..100 {
            calls.push(of(procedure::GETATTR, step as u32, step * 5000));
            let delay = if near { 1 } else { 2000 };
            calls.push(data(procedure::READ, step as u32, step * 5000 + delay, 0));
        }
        section(calls)
    };
    let json = reads(true);
    assert_eq!(
        number(&json, "/attributes/revalidated_before_read_or_write"),
        100
    );
    assert!(observed(&json).contains(&"revalidation_before_data"));
    let json = reads(false);
    assert_eq!(
        number(&json, "/attributes/revalidated_before_read_or_write"),
        0
    );
    assert!(!observed(&json).contains(&"revalidation_before_data"));
}

#[test]
fn synchronous_writes_and_commits_after_each_write_are_observed() {
    let writes = |stable: Stability, commit: bool| {
        let mut calls = Vec::new();
        for step in 0..100 {
            let mut write = data(procedure::WRITE, 0, step * 10, step as u64);
            write.stable = Some(stable);
            write.committed = Some(stable);
            calls.push(write);
            if commit {
                let mut commit = of(procedure::COMMIT, 0, step * 10 + 2);
                commit.offset = Some(step as u64 * BLOCK);
                commit.count = Some(BLOCK);
                calls.push(commit);
            }
        }
        section(calls)
    };
    assert_eq!(
        observed(&writes(Stability::FileSync, false)),
        ["synchronous_writes"]
    );
    assert_eq!(
        observed(&writes(Stability::Unstable, true)),
        ["commit_after_few_writes"]
    );
    assert_eq!(
        observed(&writes(Stability::Unstable, false)),
        Vec::<&str>::new()
    );
}

#[test]
fn failed_calls_move_nothing_and_unknown_files_are_counted() {
    let mut failed = data(procedure::READ, 0, 1, 0);
    failed.outcome = Outcome::Status(70);
    let mut unknown = data(procedure::READ, 0, 2, 0);
    unknown.file = None;
    let json = section([failed, unknown]);
    assert_eq!(number(&json, "/failed"), 1);
    assert_eq!(number(&json, "/reads/calls"), 1);
    assert_eq!(number(&json, "/calls_without_file"), 1);
    assert_eq!(number(&json, "/data_files"), 0);
}

#[test]
fn files_without_end_stay_bounded() {
    let mut lens = Access::default();
    let names = Names::default();
    for file in 0..200_000_u32 {
        lens.call(&data(procedure::READ, file, i64::from(file), 0));
    }
    assert_eq!(lens.data_files.len(), MAX_DATA_FILES);
    assert_eq!(lens.files.len(), MAX_FILES);
    let json = lens.json(&names);
    assert_eq!(number(&json, "/reads/calls"), 200_000);
    assert_eq!(
        number(&json, "/calls_not_followed"),
        200_000 - MAX_DATA_FILES as i64
    );
}

#[test]
fn opens_and_delegations_are_counted_by_the_operations_of_compounds() {
    let mut names = Names::default();
    let mut list = |operations: &[u32]| {
        let codes: Vec<u8> = operations.iter().map(|code| *code as u8).collect();
        names.list_of(&codes)
    };
    let reads = list(&[v4::SEQUENCE, v4::PUTFH, v4::READ]);
    let opens = list(&[v4::SEQUENCE, v4::PUTFH, v4::OPEN, v4::GETFH]);
    let closes = list(&[v4::SEQUENCE, v4::PUTFH, v4::CLOSE]);
    let gives_up = list(&[v4::SEQUENCE, v4::PUTFH, v4::DELEGRETURN, v4::CLOSE]);
    let mut lens = Access::default();
    let mut call = |operations, status| {
        lens.call(&Call {
            version: 4,
            operations,
            outcome: Outcome::Status(status),
            ..of(v4::GETATTR, 0, 0)
        });
    };
    for (operations, times) in [
        (reads, 7),
        (opens, 3),
        (closes, 2),
        (gives_up, 4),
        (None, 1),
    ] {
        (0..times).for_each(|_| call(operations, 0));
        call(operations, 10_008);
    }
    let json = lens.finish(&names, &Extent::default()).json;
    assert_eq!(number(&json, "/opens/open"), 3);
    assert_eq!(number(&json, "/opens/close"), 2 + 4);
    assert_eq!(number(&json, "/opens/delegations_returned"), 4);
}
