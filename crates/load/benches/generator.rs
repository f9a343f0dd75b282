//! What the generator can do: `cargo bench -p nfslab-load --bench generator`.
//!
//! The embedded server's null store answers in a thread of this process; the generator has one
//! thread, 64 closed processes without think time, and checks every reply. Shown are operations a
//! second and CPU of the generator's own thread for each, system calls included; then the lateness
//! of an open load of 50,000 operations a second. All ways take turns in every round; medians over
//! rounds, with the least and the greatest. With an argument that is a number: so many
//! milliseconds for a window (default 1000).
//!
//! With `recording=ROUNDS`: only what recording every call costs. Each round has four windows, two
//! of them recorded, in an order that lets no drift favour either (plain, recorded, recorded,
//! plain, and the other way round in the next); the ratio of its sums of CPU for an operation is
//! one value.

use std::error::Error;
use std::sync::Arc;

use client::record::RpcRecord;
use load::{Observer, Plan, Progress, Records, Report};
use measure::MonotonicClock;
use serde_json::{Value, json};
use server::HandleKey;
use server::net::{RunningServer, ServerOptions};
use server::protocol::{Export, ExportOptions, Service};
use server::store::null::NullStore;

const ROUNDS: usize = 7;
/// Windows in a row in which the generator got no processor, after which it is given up.
const STARVED_MOST: usize = 10;
const PROCESSES: u32 = 64;
const PACED_OPS_PER_S: u32 = 50_000;
/// Room for records between two looks at them.
const RECORDS: usize = 1 << 18;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Takes records while they come, as whoever keeps them would.
struct Drain<'r> {
    records: &'r Records,
    taken: Vec<RpcRecord>,
    lost: u64,
}

impl Observer<Progress> for Drain<'_> {
    fn tick(&mut self, _: &Progress) -> bool {
        self.taken.clear();
        self.lost = self.records.drain(&mut self.taken);
        true
    }
}

fn plan(port: u16, window_ms: u64, mix: &Value, load: &Value, record_calls: usize) -> Value {
    json!({
        "servers": [{
            "address": "127.0.0.1", "export": "/export",
            "options": format!("port={port},mountport={port}"),
        }],
        "mix": mix,
        "read_sizes_bytes": {"4096": 1},
        "write_sizes_bytes": {"4096": 1},
        "file_set": {
            "files": 10_000, "file_sizes_bytes": {"65536": 1}, "calibration": true,
        },
        "load": load,
        "warm_up_s": window_ms as f64 / 5e3,
        "measure_s": window_ms as f64 / 1e3,
        "record_calls": record_calls,
    })
}

/// One window; another where the generator had no processor in all of it (short ones, on a machine
/// with other work): such a window says nothing of its speed.
fn point(plan: Value) -> Outcome<Report> {
    for _ in 0..STARVED_MOST {
        let report = window(plan.clone())?;
        if report.answered > 0 {
            return Ok(report);
        }
    }
    Err(format!("nothing was answered in {STARVED_MOST} windows").into())
}

fn window(plan: Value) -> Outcome<Report> {
    let plan: Plan = serde_json::from_value(plan)?;
    let prepared = load::prepare(plan.check()?, &mut ())?;
    let records = Records::default();
    let mut drain = Drain {
        records: &records,
        taken: Vec::with_capacity(1 << 18),
        lost: 0,
    };
    let report = load::run(prepared, &MonotonicClock, &records, &mut drain)?;
    if !report.unexpected.is_empty() || drain.lost > 0 {
        return Err(format!("{:?}, {} records lost", report.reasons, drain.lost).into());
    }
    Ok(report)
}

/// Operations a second and CPU nanoseconds for each.
fn speed(report: &Report) -> [f64; 2] {
    let cpu_ns: u64 = report.threads.iter().map(|thread| thread.cpu_ns).sum();
    let window_ns: u64 = report.threads.iter().map(|thread| thread.window_ns).sum();
    let answered = report.answered as f64;
    // The thread's own window may be some microseconds longer than the point's.
    let scale = (report.window_end_ns - report.window_start_ns) as f64 / window_ns as f64;
    [report.achieved_ops_per_s, cpu_ns as f64 * scale / answered]
}

fn median(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    (values[last / 2], values[0], values[last])
}

/// Medians, with the least and the greatest.
fn show(names: &[&str], speeds: &mut [[Vec<f64>; 2]], paced: &mut [Vec<f64>]) {
    for (name, [rates, cpus]) in names.iter().zip(speeds) {
        let (rate, slowest, fastest) = median(rates);
        let (cpu, least, most) = median(cpus);
        println!(
            "{name:<30} {rate:>9.0} ops/s ({slowest:.0} to {fastest:.0})  CPU {:.3} us/op \
             ({:.3} to {:.3})",
            cpu / 1e3,
            least / 1e3,
            most / 1e3
        );
    }
    let names = [
        "late p50 us",
        "late p99 us",
        "spinning share",
        "working share",
    ];
    for (name, values) in names.into_iter().zip(paced) {
        let (value, least, most) = median(values);
        println!("paced {PACED_OPS_PER_S}: {name:<16} {value:.3} ({least:.3} to {most:.3})");
    }
}

/// The ratio of each round: CPU for an operation with every call recorded, to without.
fn recording(port: u16, window_ms: u64, rounds: usize, mix: &Value, load: &Value) -> Outcome<()> {
    let mut ratios = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let mut cpu = [0.0; 2];
        for place in 0..4 {
            let recorded = (place == 1 || place == 2) != (round % 2 == 1);
            let records = if recorded { RECORDS } else { 0 };
            let report = point(plan(port, window_ms, mix, load, records))?;
            cpu[usize::from(recorded)] += speed(&report)[1];
        }
        ratios.push(cpu[1] / cpu[0]);
    }
    ratios.sort_by(f64::total_cmp);
    let quarter = |number: usize| ratios[(ratios.len() - 1) * number / 4];
    println!(
        "recording every call: {:.3} ({:.3} to {:.3}) in {rounds} rounds",
        quarter(2),
        quarter(1),
        quarter(3)
    );
    Ok(())
}

fn main() -> Outcome<()> {
    if cfg!(debug_assertions) {
        println!("debug build: these figures mean nothing");
    }
    let given = std::env::args().find_map(|argument| argument.parse().ok());
    let window_ms: u64 = given.unwrap_or(1000).max(20);
    let export = Export::new(
        "/export",
        Arc::new(NullStore::new(65_536)),
        ExportOptions::default(),
    );
    let service = Arc::new(Service::new(vec![export], HandleKey::new(&[7; 16])));
    let options = ServerOptions {
        listen: vec!["127.0.0.1:0".parse()?],
        ..ServerOptions::default()
    };
    let server = RunningServer::start(service, options)?;
    let port = server.addresses()[0].port();
    let closed = json!({"mode": "closed", "clients": 1, "processes": PROCESSES,
        "think": "saturated", "rate_ops_per_s": 1000});
    let names = json!({"GETATTR": 50, "LOOKUP": 50});
    let rounds =
        std::env::args().find_map(|argument| argument.strip_prefix("recording=")?.parse().ok());
    if let Some(rounds) = rounds.filter(|rounds| *rounds > 0) {
        recording(port, window_ms, rounds, &names, &closed)?;
        server.stop()?;
        return Ok(());
    }
    let ways = [
        ("GETATTR and LOOKUP", names.clone(), 0),
        ("the same, every call recorded", names.clone(), RECORDS),
        ("READ of 4 KiB", json!({"READ": 100}), 0),
        ("WRITE of 4 KiB", json!({"WRITE": 100}), 0),
    ];
    let open = json!({"mode": "open", "rate_ops_per_s": PACED_OPS_PER_S, "outstanding_max": 256});
    let mut speeds = vec![[Vec::new(), Vec::new()]; ways.len()];
    let mut paced = vec![Vec::new(); 4];
    for _ in 0..ROUNDS {
        for ((_, mix, records), taken) in ways.iter().zip(&mut speeds) {
            let report = point(plan(port, window_ms, mix, &closed, *records))?;
            for (value, taken) in speed(&report).into_iter().zip(taken) {
                taken.push(value);
            }
        }
        let report = point(plan(port, window_ms, &names, &open, 0))?;
        let us = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e3;
        let thread = &report.threads[0];
        let spin = thread.spin_ns as f64 / thread.window_ns as f64;
        let values = [
            us(report.late.p50_ns),
            us(report.late.p99_ns),
            spin,
            thread.cpu_share,
        ];
        for (value, taken) in values.into_iter().zip(&mut paced) {
            taken.push(value);
        }
    }
    let names: Vec<&str> = ways.iter().map(|(name, ..)| *name).collect();
    show(&names, &mut speeds, &mut paced);
    server.stop()?;
    Ok(())
}
