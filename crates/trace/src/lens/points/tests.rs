//! Points come out as they went in: times, latencies, marks and counts, in either way of keeping.

use std::collections::BTreeMap;

use serde_json::Value;

use super::density::{AGAIN_ROW, UNANSWERED_ROW};
use super::word::{CODE_MASK, code_of};
use super::*;
use crate::call::{Outcome, Stamp};

const FIRST_NS: i64 = 1_700_000_000_123_456_789;

/// READ, WRITE, COMMIT, GETATTR, LOOKUP of NFSv3.
const OPERATIONS: [u32; 5] = [6, 7, 21, 1, 3];

fn call(number: u64, time_ns: i64, latency_ns: Option<i64>, operation: u32) -> Call {
    let frame = number * 2 + 1;
    Call {
        number,
        call_first: Stamp { time_ns, frame },
        reply_first: latency_ns.map(|l| Stamp {
            time_ns: time_ns + l,
            frame: frame + 1,
        }),
        program: 100_003,
        version: 3,
        procedure: operation,
        operation,
        outcome: latency_ns.map_or(Outcome::Unanswered, |_| Outcome::Status(0)),
        sends: 1,
        replies: u16::from(latency_ns.is_some()),
        ..Call::default()
    }
}

fn calls(n: u64) -> Vec<Call> {
    let mut random = fastrand::Rng::with_seed(42);
    let mut time_ns = FIRST_NS;
    (0..n)
        .map(|number| {
            time_ns += random.u64(..400_000) as i64;
            let swapped = time_ns - random.u64(..30_000) as i64;
            let most_ns = 1 << random.u64(..30);
            let latency_ns = 20_000 + random.u64(..most_ns) as i64;
            let answered = random.u64(..200) != 0;
            let operation = OPERATIONS[random.u64(..5) as usize];
            let mut call = call(number, swapped, answered.then_some(latency_ns), operation);
            call.sends = 1 + u16::from(random.u64(..100) == 0);
            call
        })
        .collect()
}

fn run(calls: &[Call], most: usize) -> Section {
    let mut lens = Points::keeping(most);
    let names = Names::default();
    for call in calls {
        lens.call(call);
    }
    lens.finish(&names, &Extent::default())
}

fn blob<'a>(section: &'a Section, name: &str) -> &'a [u8] {
    section
        .blobs
        .iter()
        .find(|blob| blob.name == name)
        .map_or(&[], |blob| &blob.bytes)
}

fn varints(bytes: &[u8]) -> Vec<u64> {
    let (mut out, mut value, mut shift) = (Vec::new(), 0_u64, 0);
    for byte in bytes {
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            out.push(value);
            (value, shift) = (0, 0);
        }
    }
    out
}

/// (time in steps from the origin, word, frame) of a list of points.
fn decode(section: &Section, prefix: &str) -> Vec<(u64, u16, u64)> {
    let steps = varints(blob(section, &format!("{prefix}.steps")));
    let words = blob(section, &format!("{prefix}.words"));
    let words = words
        .chunks_exact(2)
        .map(|w| u16::from_le_bytes([w[0], w[1]]));
    let frames = varints(blob(section, &format!("{prefix}.frames")));
    let (mut step, mut frame) = (0, 0_i64);
    steps
        .into_iter()
        .zip(words)
        .zip(frames)
        .map(|((delta, word), zigzag)| {
            step += delta;
            frame += (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            (step, word, frame as u64)
        })
        .collect()
}

fn panel<'a>(section: &'a Section, name: &str) -> &'a Value {
    let panels = section.json["panels"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    panels
        .iter()
        .find(|panel| panel["name"] == name)
        .unwrap_or(&Value::Null)
}

#[test]
fn every_call_is_there_with_its_time_latency_and_frame() {
    let calls = calls(20_000);
    let section = run(&calls, 100_000);
    assert_eq!(section.json["kept"], "all");
    assert_eq!(section.json["calls"], 20_000);
    let origin_ns = section.json["origin_ns"].as_i64().unwrap_or(0);
    let mut wanted: BTreeMap<&str, Vec<(u64, u16, u64)>> = BTreeMap::new();
    for call in &calls {
        let name = match call.operation {
            6 => "READ",
            7 => "WRITE",
            21 => "COMMIT",
            1 => "GETATTR",
            _ => "others",
        };
        // Steps are whole multiples from the first call's time, whichever came earliest.
        let step_of = |ns: i64| (ns - calls[0].call_first.time_ns).div_euclid(10_000);
        let origin_step = step_of(origin_ns);
        let step = (step_of(call.call_first.time_ns) - origin_step) as u64;
        let word =
            call.latency_ns().map_or(4095, code_of) | if call.sends > 1 { 1 << 12 } else { 0 };
        wanted
            .entry(name)
            .or_default()
            .push((step, word, call.call_first.frame));
    }
    for (name, mut want) in wanted {
        want.sort();
        let mut got = decode(&section, name);
        assert!(
            got.windows(2).all(|w| w[0].0 <= w[1].0),
            "{name} is sorted by time"
        );
        got.sort();
        assert_eq!(got, want, "{name}");
        let unanswered = want
            .iter()
            .filter(|(_, word, _)| word & CODE_MASK == 4095)
            .count();
        assert_eq!(panel(&section, name)["unanswered"], unanswered);
        let again = want
            .iter()
            .filter(|(_, word, _)| word & 1 << 12 != 0)
            .count();
        assert_eq!(panel(&section, name)["sent_again"], again);
        assert!(again > 0 && unanswered > 0);
    }
    assert_eq!(
        blob(&section, "others.operations").len(),
        blob(&section, "others.words").len() / 2
    );
    assert_eq!(blob(&section, "READ.operations").len(), 0);
}

#[test]
fn calls_far_out_of_order_are_sorted_at_the_end() {
    let mut calls = calls(5_000);
    calls.reverse();
    let section = run(&calls, 10_000);
    for name in PANELS {
        let got = decode(&section, name);
        assert!(got.windows(2).all(|w| w[0].0 <= w[1].0), "{name}");
    }
    let n: usize = PANELS.iter().map(|name| decode(&section, name).len()).sum();
    assert_eq!(n, 5_000);
}

#[test]
fn beyond_the_bound_counts_stay_exact() {
    let calls = calls(50_000);
    let section = run(&calls, 1_000);
    assert_eq!(section.json["kept"], "density");
    let density = &section.json["density"];
    let rows = density["rows"].as_u64().unwrap_or(0) as usize;
    let columns = density["columns"].as_u64().unwrap_or(0) as usize;
    let column_ns = density["column_ns"].as_i64().unwrap_or(0);
    let first_ns = density["first_column_ns"].as_i64().unwrap_or(0);
    let mut total = 0;
    for (index, name) in PANELS.iter().enumerate() {
        let mine: Vec<&Call> = calls
            .iter()
            .filter(|c| OPERATIONS[index] == c.operation)
            .collect();
        let cells = decode_cells(blob(&section, &format!("{name}.cells")), rows * columns);
        let mut want = vec![0_u64; rows * columns];
        for call in &mine {
            let steps = (call.call_first.time_ns - origin_of(&calls)).div_euclid(10_000);
            let from = (first_ns - origin_of(&calls)).div_euclid(10_000);
            let column = ((steps - from).max(0) / (column_ns / 10_000)) as usize;
            let row = call
                .latency_ns()
                .map_or(UNANSWERED_ROW, |l| usize::from(code_of(l)) / 32);
            want[column * rows + row] += 1;
            want[column * rows + AGAIN_ROW] += u64::from(call.sends > 1);
        }
        assert_eq!(cells, want, "{name}");
        assert_eq!(panel(&section, name)["calls"], mine.len());
        total += mine.len();
        let threshold = panel(&section, name)["slowest_from_code"]
            .as_u64()
            .unwrap_or(9999) as u16;
        let slow = mine
            .iter()
            .filter(|c| c.latency_ns().is_some_and(|l| code_of(l) >= threshold));
        assert_eq!(
            decode(&section, &format!("{name}.slowest")).len(),
            slow.count()
        );
        let marked = mine
            .iter()
            .filter(|c| c.sends > 1 || c.reply_first.is_none())
            .count();
        assert_eq!(decode(&section, &format!("{name}.marked")).len(), marked);
    }
    assert_eq!(total, calls.len());
    let sampled: usize = PANELS
        .iter()
        .map(|name| decode(&section, &format!("{name}.sample")).len())
        .sum();
    assert_eq!(sampled, 50_000, "all fit the sample");
    assert_eq!(density["sample_one_in"], 1);
}

fn origin_of(calls: &[Call]) -> i64 {
    calls[0].call_first.time_ns
}

fn decode_cells(bytes: &[u8], n: usize) -> Vec<u64> {
    let mut cells = vec![0; n];
    let mut place = 0;
    for pair in varints(bytes).chunks_exact(2) {
        place += pair[0] as usize;
        cells[place] = pair[1];
        place += 1;
    }
    cells
}

#[test]
fn a_capture_without_calls_has_no_panels() {
    let section = run(&[], 10);
    assert_eq!(section.json["panels"], serde_json::json!([]));
    assert!(section.blobs.is_empty());
}

#[test]
fn operations_of_all_versions_find_their_panel() {
    let mut lens = Points::keeping(100);
    let wanted = [
        (100_003, 2, 6, 0),
        (100_003, 2, 8, 1),
        (100_003, 2, 7, 4),
        (100_003, 2, 1, 3),
        (100_003, 3, 6, 0),
        (100_003, 3, 7, 1),
        (100_003, 3, 21, 2),
        (100_003, 3, 1, 3),
        (100_003, 4, 25, 0),
        (100_003, 4, 38, 1),
        (100_003, 4, 5, 2),
        (100_003, 4, 9, 3),
        (100_003, 4, 6, 4),
        (100_005, 3, 1, 4),
        (0x4000_0000, 1, 6, 4),
    ];
    for _ in 0..2 {
        for (program, version, operation, panel) in wanted {
            let call = Call {
                program,
                version,
                operation,
                ..Call::default()
            };
            assert_eq!(
                lens.operations.find(&call).1,
                panel,
                "{program} {version} {operation}"
            );
        }
    }
}

/// Not a test of truth but of the budget: run by hand with `--release --ignored --nocapture`.
#[test]
#[ignore = "a measurement, in release builds"]
fn cost_of_a_call() {
    use measure::clock::thread_cpu_ns as usage;

    let rounds: u32 = std::env::var("ROUNDS").map_or(1500, |text| text.parse().unwrap_or(1500));
    let mut calls = calls(4096);
    let span_ns = calls[4095].call_first.time_ns - calls[0].call_first.time_ns;
    for most in [10_000_000, 2_000_000, 0] {
        let mut lens = Points::keeping(most);
        let names = Names::default();
        let start = usage();
        for _ in 0..rounds {
            for call in &mut calls {
                call.call_first.time_ns += span_ns;
                if let Some(reply) = &mut call.reply_first {
                    reply.time_ns += span_ns;
                }
                lens.call(call);
            }
        }
        let fed = usage() - start;
        let section = lens.finish(&names, &Extent::default());
        let bytes: usize = section.blobs.iter().map(|blob| blob.bytes.len()).sum();
        println!(
            "keeping {most}: {:.1} ns of CPU a call, finish {} ms, {bytes} bytes",
            fed as f64 / (f64::from(rounds) * 4096.0),
            (usage() - start - fed) / 1_000_000
        );
    }
}
