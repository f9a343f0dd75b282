//! Time of processes by what they say that they wait for, against a program's own clock.

use crate::programs;
use std::collections::HashMap;
use std::io::{BufRead, Write};

use syscalls::ebpf::{STATE_QUEUED, STATE_RUNNING, Waits, grants};

const SLEEP: u32 = 0x0a00_0047;
const PIPE: u32 = 0x0100_0008;
const COMPUTING: u32 = 0x0a00_0049;
const NS_PER_MS: u64 = 1_000_000;

fn refused() -> bool {
    let refused = grants().refused;
    if let Some(why) = &refused {
        eprintln!("skipped: {why}");
    }
    refused.is_some()
}

/// Whatever else the machine does: a pause lasts at least as long as was asked for, is over when
/// the program sees its clock, and what lies between is the wait for a processor.
#[test]
fn times_are_those_of_the_program_that_waited() {
    if refused() {
        return;
    }
    let Some((_folder, root)) = programs::folder_with("waiter") else {
        return;
    };
    let (mut program, output) = programs::spoken(&root.join("waiter"));
    let watch = Waits::start(program.id(), "what_it_waits_for").unwrap();
    let mut input = program.stdin.take().unwrap();
    input.write_all(b"go\n").unwrap();
    let mut told: HashMap<String, u64> = HashMap::new();
    let mut worker = 0;
    for line in output.lines() {
        let line = line.unwrap();
        let mut fields = line.split(' ');
        let pid: u32 = fields.next().unwrap().parse().unwrap();
        let kind = fields.next().unwrap().to_owned();
        if kind == "done" {
            break;
        }
        worker = pid;
        told.insert(kind, fields.next().unwrap().parse().unwrap());
    }
    watch.stop();
    let rows = watch.totals();
    drop(input);
    program.wait().unwrap();
    assert_eq!(watch.totals(), rows, "it goes on after its end");
    let of = |state: u32| {
        let mine = rows
            .iter()
            .find(|row| row.tid == worker && row.state == state);
        mine.map_or(0, |row| row.ns)
    };

    let (slept, waited, queued) = (of(SLEEP), of(PIPE), of(STATE_QUEUED));
    // A process that is taken off its processor right before it blocks waits for a processor
    // meanwhile, as the scheduler has it.
    assert!(
        slept + queued >= 297 * NS_PER_MS && slept <= told["sleep"],
        "{slept} {told:?} {rows:?}"
    );
    assert!(
        waited + queued >= 190 * NS_PER_MS && waited <= told["pipe"],
        "{waited} {told:?} {rows:?}"
    );
    assert!(of(COMPUTING) < 30 * NS_PER_MS, "{rows:?}");
    // A hypervisor that took the processor away is on it, too: no bound above but the sum.
    let running = of(STATE_RUNNING);
    assert!(
        running >= told["cpu"] - told["cpu"] / 33,
        "{running} {told:?}"
    );
    // Nothing is counted twice, and nothing is left out: the whole, and the end of the process.
    let mine = rows.iter().filter(|row| row.tid == worker);
    let all: u64 = mine.map(|row| row.ns).sum();
    let whole = told["whole"] + NS_PER_MS;
    assert!(all >= whole - whole / 33, "{all} {told:?} {rows:?}");
    assert!(
        all <= whole + whole / 33 + of(STATE_QUEUED),
        "{all} {told:?} {rows:?}"
    );
    assert_eq!(watch.uncounted(), 0);
}

#[test]
fn a_program_without_the_name_is_refused() {
    if refused() {
        return;
    }
    let error = Waits::start(std::process::id(), "my_wait_event_info")
        .err()
        .unwrap();
    assert_eq!(error.kind(), "bpf");
    assert!(
        error.why().contains("exports no such name"),
        "{}",
        error.why()
    );
}
