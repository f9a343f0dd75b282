//! Looks at what processes say that they wait for, against a program's own clock.

use crate::programs;
use std::collections::HashMap;
use std::io::{BufRead, Write};

use syscalls::samples::{Options, Recording, Sampler};

const SLEEP: u32 = 0x0a00_0047;
const PIPE: u32 = 0x0100_0008;
const COMPUTING: u32 = 0x0a00_0049;
const INTERVAL_NS: u64 = 1_000_000;

/// What the program told of its times, and what was seen; None without a compiler.
fn watched(line: &str) -> Option<(HashMap<String, u64>, Recording)> {
    let (_folder, root) = programs::folder_with("waiter")?;
    let (mut program, output) = programs::spoken(&root.join("waiter"));
    let sampler = Sampler::start(&options(program.id())).unwrap();
    sampler.begin();
    let mut input = program.stdin.take().unwrap();
    writeln!(input, "{line}").unwrap();
    let mut told = HashMap::new();
    for line in output.lines() {
        let line = line.unwrap();
        let fields: Vec<&str> = line.split(' ').collect();
        if fields[1] == "done" {
            break;
        }
        told.insert(fields[1].to_owned(), fields[2].parse().unwrap());
    }
    let recording = sampler.stop().unwrap();
    drop(input);
    program.wait().unwrap();
    Some((told, recording))
}

fn options(root: u32) -> Options {
    Options {
        root,
        symbol: "what_it_waits_for".to_owned(),
        interval_ns: INTERVAL_NS,
        stretch_ns: 100_000_000,
        seed: 11,
    }
}

/// Time in one of these states, as seen, ns; and the sum of the squares of what single looks stand
/// for.
fn time_in(recording: &Recording, states: &[u32]) -> (f64, f64) {
    let rows = recording.rows.iter();
    let mine = rows.filter(|row| states.contains(&row.state));
    mine.fold((0.0, 0.0), |(time, squares), row| {
        let stretch = recording.stretches[row.stretch as usize];
        let each = (stretch.until_ns - stretch.from_ns) as f64 / stretch.looks as f64;
        let seen = f64::from(row.seen);
        (time + seen * each, squares + seen * each * each)
    })
}

/// Of the time in all states; how far that may be off: four standard errors of so many independent
/// looks, and all looks that were late or left out.
fn share_and_error(recording: &Recording, states: &[u32], of: u32) -> (f64, f64) {
    let (all, squares) = time_in(recording, states);
    let share = time_in(recording, &[of]).0 / all;
    let figures = recording.figures;
    let doubtful = (figures.late + figures.missed + figures.dropped) as f64 / figures.looks as f64;
    let variance = share * (1.0 - share) * squares / (all * all);
    (share, 4.0 * variance.sqrt() + doubtful)
}

#[test]
fn long_waits_have_the_share_that_the_program_measured() {
    let Some((told, recording)) = watched("go") else {
        return;
    };
    let states = [(SLEEP, "sleep"), (PIPE, "pipe"), (COMPUTING, "computing")];
    let whole: u64 = states.iter().map(|(_, name)| told[*name]).sum();
    for (state, name) in states {
        let (share, error) = share_and_error(&recording, &states.map(|one| one.0), state);
        let truth = told[name] as f64 / whole as f64;
        assert!(
            (share - truth).abs() <= error,
            "{name}: {share} {truth} {error} {recording:?}"
        );
    }
}

/// The process computes and sleeps in turn, each shorter than the interval between looks.
#[test]
fn short_waits_that_take_turns_have_their_share() {
    let Some((told, recording)) = watched("cycles") else {
        return;
    };
    let (share, error) = share_and_error(&recording, &[COMPUTING, SLEEP], COMPUTING);
    let truth = told["computing"] as f64 / (told["computing"] + told["sleep"]) as f64;
    assert!(
        (share - truth).abs() <= error,
        "{share} {truth} {error} {recording:?}"
    );
}

/// Looks times the interval are the time that the process was there, but for its ends.
#[test]
fn a_process_counts_while_it_is_there() {
    let Some((told, recording)) = watched("go") else {
        return;
    };
    let figures = recording.figures;
    let there = figures.confirmed + figures.dropped;
    let most = (told["whole"] + 200_000_000) / INTERVAL_NS;
    assert!(there <= most, "{there} {most} {figures:?}");
    assert_eq!(
        recording.pids.len(),
        1,
        "the process's own child is none of the root's"
    );
    let seen: u64 = recording.rows.iter().map(|row| u64::from(row.seen)).sum();
    assert_eq!(seen, figures.confirmed);
    let looks: u64 = recording.stretches.iter().map(|one| one.looks).sum();
    assert!(looks >= figures.looks, "{looks} {figures:?}");
}

#[test]
fn what_cannot_be_looked_at_is_refused() {
    let own = std::process::id();
    let why = |options: Options| {
        let error = Sampler::start(&options).err().unwrap();
        (error.kind(), error.why())
    };
    assert_eq!(
        why(options(own)),
        ("absent", "its program exports no such name".to_owned())
    );
    let gone = u32::MAX >> 1;
    assert_eq!(why(options(gone)).0, "gone");
    let fast = Options {
        interval_ns: 1,
        ..options(own)
    };
    assert_eq!(why(fast).0, "config");
}
