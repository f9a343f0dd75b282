//! The ring between launched programs and their reader: what is lost is counted, programs may be
//! killed at any moment, and nothing of it is seen by the programs.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::programs::folder_with;
use syscalls::record::{Call, CountRecord};
use syscalls::shim::{ShimRecords, write_library};
use syscalls::tally::{Level, Options};

/// Begins it, for as many calls in as many processes.
fn begin(shim: &ShimRecords, folder: &Path, calls: u64, processes: u64, wait: bool) -> Child {
    let mut command = Command::new(folder.join("storm"));
    command
        .arg(folder.join("data"))
        .arg(calls.to_string())
        .arg(processes.to_string());
    if wait {
        command.arg("wait");
    }
    command.envs(shim.environment()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Begins one that does not end by itself; it has made 500 calls.
fn begin_and_wait(shim: &ShimRecords, folder: &Path) -> Child {
    let mut child = begin(shim, folder, 1_000, 1, true);
    let mut mark = [0];
    let mut said = child.stdout.take().unwrap();
    said.read_exact(&mut mark).unwrap();
    child
}

/// Asks until it holds.
fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::yield_now();
    }
}

fn of(counts: &[CountRecord], call: Call) -> CountRecord {
    counts.iter().find(|row| row.call == call).unwrap().clone()
}

#[test]
fn every_call_of_every_process_is_there_or_counted_as_lost() {
    let Some((_folder, root)) = folder_with("storm") else {
        return;
    };
    for (slots_log2, calls) in [(16, 5_000), (4, 5_000)] {
        let data = root.join(format!("ring{slots_log2}"));
        std::fs::create_dir(&data).unwrap();
        std::fs::copy(root.join("storm"), data.join("storm")).unwrap();
        let options = Options::new(Level::Events);
        let shim = ShimRecords::sized(&data, options, slots_log2, 8).unwrap();
        let mut child = begin(&shim, &data, calls, 3, false);
        assert!(child.wait().unwrap().success());
        let figures = shim.figures();
        let row = of(&shim.counts(), Call::Pwrite);
        let lost = figures.lost.events;
        assert_eq!(row.calls + lost, 3 * calls, "{figures:?}");
        assert_eq!(row.bytes, row.calls);
        assert_eq!(
            row.places[0] + row.places[2],
            row.calls,
            "one place, written again"
        );
        assert_eq!(shim.take().events.len() as u64, row.calls + early(&shim));
        assert_eq!((figures.torn, figures.not_understood), (0, 0));
        assert_eq!((figures.processes, figures.forks), (1, 2));
        assert_eq!(
            lost > 0,
            slots_log2 == 4,
            "16 slots are emptied every 50 ms: {figures:?}"
        );
    }
}

/// Writes before main: seen if the shim was ready by then, which the loader decides.
fn early(shim: &ShimRecords) -> u64 {
    let counts = shim.counts();
    let row = counts.iter().find(|row| row.call == Call::Write);
    row.map_or(0, |row| row.calls)
}

#[test]
fn a_killed_program_leaves_what_it_wrote_and_the_ring_goes_on() {
    let Some((_folder, root)) = folder_with("storm") else {
        return;
    };
    let shim = ShimRecords::new(&root, Options::new(Level::Events)).unwrap();
    let written = || {
        let counts = shim.counts().into_iter();
        let ours = counts.filter(|row| row.call == Call::Pwrite);
        ours.map(|row| row.calls).sum::<u64>() + shim.figures().lost.events
    };
    for round in 1..=20 {
        let mut child = begin_and_wait(&shim, &root);
        child.kill().unwrap();
        child.wait().unwrap();
        until(|| written() >= round * 500);
        let figures = shim.figures();
        assert!(
            figures.torn <= round,
            "at most one record each: {figures:?}"
        );
    }
    // After all that every call of one that is not killed is there.
    let lost = shim.figures().lost.events;
    let mut child = begin(&shim, &root, 1_000, 1, false);
    assert!(child.wait().unwrap().success());
    let mut seen = 0;
    until(|| {
        let events = shim.take().events.into_iter();
        let ours = events.filter(|row| row.pid == child.id() && row.call == Call::Pwrite);
        seen += ours.count() as u64;
        seen + shim.figures().lost.events - lost >= 1_000
    });
    assert_eq!(seen + shim.figures().lost.events - lost, 1_000);
}

#[test]
fn what_runs_on_after_the_end_runs_well_and_records_no_more() {
    let Some((_folder, root)) = folder_with("storm") else {
        return;
    };
    let shim = ShimRecords::new(&root, Options::new(Level::Counts)).unwrap();
    let mut child = begin_and_wait(&shim, &root);
    shim.stop();
    let ended = shim.figures();
    assert_eq!(shim.figures().records, ended.records);
    assert!(child.try_wait().unwrap().is_none(), "it still writes");
    assert!(begin(&shim, &root, 10, 1, false).wait().unwrap().success());
    assert_eq!(shim.figures().processes, 1, "the second one found no ring");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!root.join("nfslab-shim.ring").exists());
}

#[test]
fn the_header_of_c_and_the_reader_have_the_same_numbers() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/shim/layout.h");
    let header = std::fs::read_to_string(folder).unwrap();
    let calls = header.split("enum call {").nth(1).unwrap();
    let calls = calls.split("/*").next().unwrap();
    let names: Vec<String> = calls
        .split(',')
        .map(|name| name.trim().to_lowercase())
        .filter(|name| !name.is_empty())
        .collect();
    let ours = syscalls::record::CALLS.map(|call| format!("{call:?}").to_lowercase());
    let names: Vec<String> = names.iter().map(|name| name.replace('_', "")).collect();
    assert_eq!(names, ours);
}

#[test]
fn a_folder_that_cannot_be_preloaded_from_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("a b");
    std::fs::create_dir(&bad).unwrap();
    assert!(write_library(&bad).is_err());
    assert!(ShimRecords::new(&folder.path().join("none"), Options::new(Level::Sync)).is_err());
    let first = ShimRecords::new(folder.path(), Options::new(Level::Sync)).unwrap();
    assert!(
        ShimRecords::new(folder.path(), Options::new(Level::Sync)).is_err(),
        "it is in use"
    );
    assert_eq!(first.figures().processes, 0, "nothing was launched");
}
