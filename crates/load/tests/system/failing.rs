//! Servers that fail, lie, vanish or cannot; and generators that are the limit themselves.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use crate::world::{
    Slow, World, admin, all_in_window, assert_valid, calibration, checked, drawn, kinds, set,
};
use generator::guard::{CPU_SHARE, DELAY_MEAN_ALLOWED_NS, DELAY_P99_ALLOWED_NS};
use load::guard;
use load::report::OperationReport;
use load::{Observer, Progress, Records, Report};
use measure::MonotonicClock;
use serde_json::{Value, json};
use server::protocol::ExportOptions;
use server::store::memory::MemoryStore;

fn reason<'r>(report: &'r Report, kind: &str) -> &'r str {
    let found = report.reasons.iter().find(|reason| reason.kind == kind);
    assert!(found.is_some(), "{kind}: {:?}", report.reasons);
    &found.unwrap().text
}

#[test]
fn the_null_store_is_loaded_without_a_file_set() {
    let world = World::null(1 << 20);
    let mut plan = calibration(&world);
    set(
        &mut plan,
        "mix",
        json!({"GETATTR": 30, "LOOKUP": 30, "READ": 20, "WRITE": 10, "ACCESS": 5, "COMMIT": 1,
            "CREATE": 1, "REMOVE": 1, "FSSTAT": 1, "READDIR": 1}),
    );
    all_in_window(&mut plan, 0.5);
    let report = world.run(&plan);
    assert_valid(&report);
    assert!(drawn(&report).iter().all(|(_, count)| *count > 0));
    let calls: u64 = report.operations.iter().map(|row| row.calls).sum();
    assert!(calls > 100, "{calls}");
}

#[test]
fn operations_that_a_server_lacks_are_named_and_the_rest_goes_on() {
    let world = World::null(1 << 20);
    // READLINK is an error there; MKDIR would be NOTSUPP, but is of no mix.
    let mut plan = calibration(&world);
    set(&mut plan, "mix", json!({"GETATTR": 90, "READLINK": 10}));
    all_in_window(&mut plan, 0.5);
    let report = world.run(&plan);
    assert_eq!(kinds(&report), [""; 0]);
    reason(&report, "not_drawn");
    let links = report.operations.iter().find(|o| o.operation == "READLINK");
    assert_eq!(links.unwrap().calls, 0, "no link is there");
    assert_eq!(links.unwrap().not_drawn, report.not_drawn);
    let rest = report.operations.iter().find(|o| o.operation == "GETATTR");
    assert_eq!(rest.unwrap().calls, report.arrivals - report.not_drawn);
}

/// Serves what the embedded server answers, but `change`s each reply of NFS.
fn between(world: &World, change: fn(u32, &mut Vec<u8>)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = world.port;
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
            std::thread::spawn(move || relay(client, server, change));
        }
    });
    port
}

fn record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).ok()?;
    let mut body = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn send(stream: &mut TcpStream, body: &[u8]) -> Option<()> {
    let mut message = (0x8000_0000 | body.len() as u32).to_be_bytes().to_vec();
    message.extend_from_slice(body);
    stream.write_all(&message).ok()
}

/// One call at a time: slow, and easy to follow.
fn relay(
    mut client: TcpStream,
    mut server: TcpStream,
    change: fn(u32, &mut Vec<u8>),
) -> Option<()> {
    loop {
        let call = record(&mut client)?;
        let procedure = u32::from_be_bytes(call[20..24].try_into().unwrap());
        let program = u32::from_be_bytes(call[12..16].try_into().unwrap());
        send(&mut server, &call)?;
        let mut reply = record(&mut server)?;
        if program == wire::programs::NFS {
            change(procedure, &mut reply);
        }
        if !reply.is_empty() {
            send(&mut client, &reply)?;
        }
    }
}

/// A point at a server that is whole when the files are made, and then changes its replies.
fn against(change: fn(u32, &mut Vec<u8>), adapt: impl FnOnce(&mut Value)) -> Report {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "load.rate_ops_per_s", json!(1000));
    // A slot for each arrival: all are sent, however slow this is.
    set(&mut plan, "load.outstanding_max", json!(1024));
    adapt(&mut plan);
    let mut prepared = world.prepare(&plan);
    let port = between(&world, change);
    prepared.mounts[0].address.set_port(port);
    load::run(prepared, &MonotonicClock, &Records::default(), &mut ()).unwrap()
}

/// All of the load, and some of it well.
fn assert_all_ended(report: &Report) {
    assert_eq!(report.ended, "complete");
    let sum = |of: fn(&OperationReport) -> u64| report.operations.iter().map(of).sum::<u64>();
    assert_eq!(sum(|row| row.ended), sum(|row| row.calls));
    assert!(sum(|row| row.unexpected) < sum(|row| row.calls));
}

/// Where results begin: xid, REPLY, MSG_ACCEPTED, AUTH_NONE with no bytes, SUCCESS.
const BODY: usize = 24;

#[test]
fn an_unexpected_status_fails_the_point_with_its_counts() {
    let report = against(
        |procedure, reply| {
            if procedure == 1 {
                reply[BODY..BODY + 4].copy_from_slice(&5_u32.to_be_bytes()); // NFS3ERR_IO
                reply.truncate(BODY + 4);
            }
        },
        |_| {},
    );
    assert_eq!(kinds(&report), ["unexpected"]);
    let getattr = report
        .operations
        .iter()
        .find(|o| o.operation == "GETATTR")
        .unwrap();
    assert!(getattr.calls > 20 && getattr.unexpected == getattr.calls);
    assert_eq!(report.unexpected.len(), 1);
    assert_eq!(report.unexpected[0].count, getattr.calls);
    assert_eq!(report.unexpected[0].what, "NFS3ERR_IO");
    let text = reason(&report, "unexpected");
    assert!(
        text.contains("GETATTR NFS3ERR_IO; the first: GETATTR f000"),
        "{text}"
    );
    assert_all_ended(&report);
}

#[test]
fn not_supported_is_said_by_name() {
    let report = against(
        |procedure, reply| match procedure {
            17 => {
                reply[BODY..BODY + 4].copy_from_slice(&10_004_u32.to_be_bytes());
                reply[BODY + 4..BODY + 8].copy_from_slice(&[0; 4]); // no attributes
                reply.truncate(BODY + 8);
            }
            // PROC_UNAVAIL
            21 => {
                reply[BODY - 4..BODY].copy_from_slice(&3_u32.to_be_bytes());
                reply.truncate(BODY);
            }
            _ => {}
        },
        |_| {},
    );
    assert_eq!(kinds(&report), ["unsupported", "unsupported"]);
    let texts: Vec<&str> = report
        .reasons
        .iter()
        .map(|reason| reason.text.as_str())
        .collect();
    let all = texts.join("\n");
    assert!(
        all.contains("does not support READDIRPLUS (NFS3ERR_NOTSUPP"),
        "{all}"
    );
    assert!(
        all.contains("does not support COMMIT (PROC_UNAVAIL"),
        "{all}"
    );
}

#[test]
fn lies_are_found() {
    let lie = |change: fn(u32, &mut Vec<u8>), what: &str| {
        let report = against(change, |_| {});
        let found = report
            .unexpected
            .iter()
            .any(|fault| fault.what.contains(what));
        assert!(found, "{what}: {:?}", report.unexpected);
        assert_eq!(kinds(&report), ["unexpected"]);
    };
    // GETATTR: type, and size (fattr3 begins behind the status; size is at 20).
    lie(
        |n, reply| {
            if n == 1 {
                reply[BODY + 7] = 2
            }
        },
        "another type",
    );
    lie(
        |n, reply| {
            if n == 1 {
                reply[BODY + 4 + 26] ^= 0x40
            }
        },
        "another size",
    );
    // READ: the last byte of data; fewer bytes; eof turned round (status, attributes, count, eof).
    let last = |n: u32, reply: &mut Vec<u8>| {
        if n == 6 {
            let place = reply.len() - 1;
            reply[place] ^= 1;
        }
    };
    lie(last, "other bytes");
    lie(
        |n, reply| {
            if n == 6 {
                reply[BODY + 4 + 88 + 7] ^= 1
            }
        },
        "end of file",
    );
    // READLINK: another text; READDIR: another name; WRITE: fewer bytes.
    lie(
        |n, reply| {
            if n == 5 {
                link_text(reply)
            }
        },
        "another text",
    );
    lie(
        |n, reply| {
            if n == 16 {
                reply[BODY + 4 + 88 + 8 + 4 + 8 + 4] = b'z'
            }
        },
        "never made",
    );
    lie(
        |n, reply| {
            if n == 7 && reply.len() > 60 {
                write_count(reply)
            }
        },
        "fewer bytes",
    );
}

/// READLINK's text is `f` and eight digits, padded with three bytes.
fn link_text(reply: &mut [u8]) {
    let place = reply.len() - 4;
    reply[place] ^= 1;
}

/// WRITE's count stands 16 bytes before the end (count, committed, verifier).
fn write_count(reply: &mut [u8]) {
    let place = reply.len() - 16;
    reply[place..place + 4].copy_from_slice(&1_u32.to_be_bytes());
}

#[test]
fn garbage_is_counted_and_ends_nothing() {
    let report = against(
        |procedure, reply| {
            if procedure == 3 {
                reply.truncate(BODY + 2);
            }
        },
        |_| {},
    );
    assert_eq!(kinds(&report), ["unexpected"]);
    let text = reason(&report, "unexpected");
    assert!(text.contains("LOOKUP malformed reply"), "{text}");
    assert_all_ended(&report);
}

/// A server that takes its time over READs: each is done behind the call that came after it.
fn reads_later(mut client: TcpStream, mut server: TcpStream) -> Option<()> {
    let mut exchange = |call: &[u8], client: &mut TcpStream| {
        send(&mut server, call)?;
        send(client, &record(&mut server)?)
    };
    let mut held: Option<Vec<u8>> = None;
    loop {
        let call = record(&mut client)?;
        if held.is_none() && u32::from_be_bytes(call[20..24].try_into().unwrap()) == 6 {
            held = Some(call);
            continue;
        }
        exchange(&call, &mut client)?;
        if let Some(read) = held.take() {
            exchange(&read, &mut client)?;
        }
    }
}

#[test]
fn a_read_that_is_done_behind_a_later_append_is_no_lie() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "mix", json!({"READ": 50, "WRITE": 50}));
    set(&mut plan, "append_share", json!(1.0));
    set(&mut plan, "read_sizes_bytes", json!({"1024": 1}));
    set(&mut plan, "write_sizes_bytes", json!({"1024": 1}));
    set(&mut plan, "file_set.file_sizes_bytes", json!({"1024": 1}));
    set(&mut plan, "file_set.files", json!(40));
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    set(&mut plan, "file_set.growth_share", json!(1.0));
    // The last READ may be held for ever.
    set(&mut plan, "silence_limit_s", json!(2.0));
    let mut prepared = world.prepare(&plan);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    prepared.mounts[0].address = listener.local_addr().unwrap();
    let target = world.port;
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
            std::thread::spawn(move || reads_later(client, server));
        }
    });
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut ()).unwrap();
    assert!(report.unexpected.is_empty(), "{:?}", report.unexpected);
    assert!(report.read_bytes > 0 && report.written_bytes > 0);
}

#[test]
fn replies_that_never_come_are_counted_though_others_do() {
    let report = against(
        |procedure, reply| {
            // The bytes of a transaction id are as good as drawn: one in eight.
            if procedure == 18 && reply[3].is_multiple_of(8) {
                reply.clear();
            }
        },
        |plan| {
            set(plan, "mix", json!({"FSSTAT": 50, "GETATTR": 50}));
            // Longer than who stands between is put aside: else the load ends there.
            set(plan, "silence_limit_s", json!(2.0));
        },
    );
    assert_eq!(report.ended, "complete");
    assert_eq!(kinds(&report), ["unanswered"]);
    let fsstat = report
        .operations
        .iter()
        .find(|o| o.operation == "FSSTAT")
        .unwrap();
    assert_eq!(fsstat.calls - fsstat.ended, report.unanswered);
    assert!(report.unanswered > 5, "{}", report.unanswered);
    assert_eq!(report.little.residual_ns, 0);
}

#[test]
fn transfers_that_would_come_back_short_are_refused() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    let options = format!("{},rsize=4096", world.options());
    plan["servers"][0]["options"] = json!(options);
    let error = load::prepare(checked(&plan), &mut ()).unwrap_err();
    assert_eq!(error.kind(), "config");
    assert!(
        error.why().contains("4096 bytes at most"),
        "{}",
        error.why()
    );
}

#[test]
fn a_restarted_server_makes_the_point_invalid() {
    // Every WRITE and COMMIT gives another verifier: it stands at the end of both.
    let report = against(
        |procedure, reply| {
            if matches!(procedure, 7 | 21) {
                let place = reply.len() - 1;
                reply[place] = reply[3];
            }
        },
        |_| {},
    );
    assert_eq!(kinds(&report), ["server_restarted"]);
    assert!(report.verifier_changes > 10);
}

/// Stops the server when so many calls were answered.
struct Unplug<'w>(&'w mut World, u64);
impl Observer<Progress> for Unplug<'_> {
    fn tick(&mut self, progress: &Progress) -> bool {
        if let Progress::Run { answered, .. } = progress
            && *answered >= self.1
        {
            self.0.stop();
        }
        true
    }
}

#[test]
fn a_server_that_goes_away_ends_the_point_in_time() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "measure_s", json!(3600.0));
    set(&mut plan, "silence_limit_s", json!(0.5));
    let prepared = world.prepare(&plan);
    let mut unplug = Unplug(&mut world, 300);
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut unplug).unwrap();
    // Long before the end of the hour that was asked for.
    assert_eq!(report.ended, "silent");
    assert!(
        kinds(&report).contains(&"server_gone"),
        "{:?}",
        report.reasons
    );
    assert!(report.unanswered > 0);
    assert_eq!(report.little.residual_ns, 0);
    // And before it begins.
    world.stop();
    let error = load::prepare(checked(&plan), &mut ()).unwrap_err();
    assert_eq!(error.kind(), "io");
    assert!(
        error.what().contains("cannot be mounted"),
        "{}",
        error.what()
    );
}

#[test]
#[ignore = "takes seconds"]
fn one_of_two_servers_that_goes_away_is_named_and_the_other_goes_on_at_length() {
    let (mut first, mut second) = (World::memory(1 << 28), World::memory(1 << 28));
    let mut plan = first.plan();
    let server = |world: &World| json!({"address": "127.0.0.1", "export": "/export", "options": world.options()});
    set(
        &mut plan,
        "servers",
        json!([server(&first), server(&second)]),
    );
    set(&mut plan, "threads", json!(2));
    set(&mut plan, "load.arrivals", json!("uniform"));
    set(&mut plan, "file_set.files", json!(600));
    // Longer than the other one's thread may be put aside, and so again until the end.
    set(&mut plan, "measure_s", json!(4.0));
    set(&mut plan, "silence_limit_s", json!(2.0));
    let prepared = first.prepare(&plan);
    let mut unplug = Unplug(&mut second, 300);
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut unplug).unwrap();
    let text = reason(&report, "server_gone");
    assert!(
        text.starts_with("127.0.0.1:/export answered nothing for 2 s"),
        "{text}"
    );
    let [stayed, gone] = &report.mounts[..] else {
        panic!("{:?}", report.mounts)
    };
    assert!(gone.silent && !stayed.silent);
    assert!(gone.ended < gone.calls, "{gone:?}");
    // The other one got all of its share to the end: 1,000 a second for 4.1 s.
    assert_eq!(stayed.calls, first.calls_of(&report).len() as u64);
    let held_up = report.unsent + report.not_sent + report.not_drawn;
    assert!(stayed.calls <= 4_102, "{stayed:?}");
    assert!(stayed.calls + held_up >= 4_098, "{stayed:?} {held_up}");
    assert_eq!(stayed.ended, stayed.calls);
    assert_eq!(report.little.residual_ns, 0);
}

#[test]
fn a_silent_server_ends_the_preparation_in_time() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "silence_limit_s", json!(1.0));
    // Answers MOUNT and what mounting needs, then nothing to MKDIR within the set.
    let port = between(&world, |procedure, reply| {
        if procedure == 8 {
            reply.clear();
        }
    });
    let options = format!("port={port},mountport={}", world.port);
    set(
        &mut plan,
        "servers",
        json!([{
            "address": "127.0.0.1", "export": "/export", "options": options,
        }]),
    );
    let error = load::prepare(checked(&plan), &mut ()).unwrap_err();
    assert_eq!(error.kind(), "silent", "{error}");
    assert!(error.why().contains("creating f0000"), "{}", error.why());
}

struct Stop(u32);
impl Observer<Progress> for Stop {
    fn tick(&mut self, _: &Progress) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

#[test]
fn a_point_can_be_stopped() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "measure_s", json!(3600.0));
    let prepared = world.prepare(&plan);
    let report = load::run(prepared, &MonotonicClock, &Records::default(), &mut Stop(4)).unwrap();
    assert_eq!(report.ended, "stopped");
    assert!(kinds(&report).contains(&"stopped"));
}

#[test]
fn space_that_ends_within_a_point_is_said() {
    // Room for the set, and for little more.
    let store = MemoryStore::new(11 << 20, 77, &admin());
    let world = World::with(Arc::new(store), ExportOptions::default());
    let mut plan = world.plan();
    set(&mut plan, "mix", json!({"WRITE": 100}));
    set(&mut plan, "append_share", json!(1.0));
    set(&mut plan, "file_set.growth_share", json!(1.0));
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    all_in_window(&mut plan, 0.6);
    let report = world.run(&plan);
    assert_eq!(kinds(&report), ["unexpected"]);
    assert!(reason(&report, "unexpected").contains("WRITE NFS3ERR_NOSPC"));
}

#[test]
fn the_guard_fires_when_the_generator_is_the_limit() {
    let world = World::null(1 << 20);
    let mut plan = calibration(&world);
    set(&mut plan, "mix", json!({"GETATTR": 100}));
    set(&mut plan, "load.rate_ops_per_s", json!(20_000));
    set(&mut plan, "load.outstanding_max", json!(1024));
    let prepared = world.prepare(&plan);
    let clock = Slow(150_000);
    let report = load::run(prepared, &clock, &Records::default(), &mut ()).unwrap();
    assert!(!report.valid);
    let late = report.late.mean_ns.unwrap();
    assert!(late > DELAY_MEAN_ALLOWED_NS, "{late}");
    reason(&report, "generator_overloaded");
    assert_eq!(report.little.residual_ns, 0);
}

/// It saw the window's begin and end late, a moment apart: its shares tell nothing.
#[test]
fn a_thread_that_was_away_was_late_and_used_no_core() {
    let world = World::memory(1 << 28);
    let mut report = world.run(&world.plan());
    let kinds = |report: &Report| -> Vec<&str> {
        let all = guard::reasons(report);
        let kinds = all.iter().map(|reason| reason.kind);
        kinds.filter(|kind| kind.starts_with("generator")).collect()
    };
    report.threads[0].window_ns = 1_000;
    report.threads[0].cpu_share = 1617.0;
    assert_eq!(kinds(&report), ["generator_overloaded"]);
    report.ended = "silent";
    for own in [&mut report.late, &mut report.pick_up] {
        (own.mean_ns, own.p99_ns) = (None, None);
    }
    assert_eq!(kinds(&report), [""; 0], "its server was gone");
}

#[test]
fn each_threshold_of_the_guard_fires_by_itself() {
    let world = World::memory(1 << 28);
    let sound = Report {
        reasons: Vec::new(),
        ..world.run(&world.plan())
    };
    let fires = |change: &dyn Fn(&mut Report)| {
        let mut report = sound.clone();
        // What this machine's other work did is not what is tested.
        report.not_drawn = 0;
        report.threads[0].cpu_share = CPU_SHARE;
        report.threads[0].waited_ns = None;
        for own in [&mut report.late, &mut report.pick_up] {
            own.mean_ns = Some(DELAY_MEAN_ALLOWED_NS / 2.0);
            own.p50_ns = Some(10_000);
            own.p99_ns = Some(DELAY_P99_ALLOWED_NS as u64);
        }
        report.response.p50_ns = Some(1_000_000);
        report.response.p99_ns = Some(10_000_000_000); // a server's stall allows nothing
        change(&mut report);
        guard::reasons(&report)
            .iter()
            .map(|reason| reason.kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(fires(&|_| {}), [""; 0]);
    assert_eq!(
        fires(&|report| report.threads[0].cpu_share = 0.91),
        ["generator_cpu"]
    );
    // 60 % at work and 31 % of half a second without a processor.
    let starved = |report: &mut Report| {
        report.threads[0].cpu_share = 0.6;
        report.threads[0].window_ns = 500_000_000;
        report.threads[0].waited_ns = Some(155_000_000);
    };
    assert_eq!(fires(&starved), ["generator_cpu"]);
    let late = |report: &mut Report| report.late.mean_ns = Some(50_001.0);
    assert_eq!(fires(&late), ["generator_overloaded"]);
    let taken_late = |report: &mut Report| report.pick_up.mean_ns = Some(50_001.0);
    assert_eq!(fires(&taken_late), ["generator_overloaded"]);
    let tail = |report: &mut Report| report.pick_up.p99_ns = Some(1_000_001);
    assert_eq!(fires(&tail), ["generator_overloaded"]);
    // 500 us of a mean of 10 ms are 5 %; of a median that is the delay's own, all.
    let slow_server = |report: &mut Report| {
        report.response.p50_ns = Some(10_020_000);
        report.late.mean_ns = Some(450_000.0);
    };
    assert_eq!(fires(&slow_server), [""; 0]);
    let own = |report: &mut Report| {
        slow_server(report);
        report.late.p50_ns = Some(9_900_000);
    };
    assert_eq!(fires(&own), ["generator_overloaded"]);
    assert_eq!(
        fires(&|report| report.not_sent_with_free_slots = 1),
        ["generator_queue"]
    );
    assert_eq!(
        fires(&|report| report.not_sent = 1000),
        [""; 0],
        "the server was full"
    );
    assert_eq!(
        fires(&|report| report.not_drawn = report.arrivals / 50),
        ["not_drawn"]
    );
    assert_eq!(
        fires(&|report| report.little.residual_ns = 1),
        ["accounting"]
    );
    assert_eq!(fires(&|report| report.answered = 0), ["nothing_answered"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_way_out() {
    let world = World::null(1);
    let refuse = |path: &str, value: Value| {
        let mut plan = world.plan();
        set(&mut plan, path, value);
        let plan: load::Plan = serde_json::from_value(plan).unwrap();
        let error = plan.check().unwrap_err();
        assert_eq!(error.kind(), "config");
        assert!(!error.fix().is_empty());
        format!("{} | {} | {}", error.what(), error.why(), error.fix())
    };
    for (path, value, said) in [
        ("load.rate_ops_per_s", json!(0), "must be above 0"),
        ("load.rate_ops_per_s", json!(-1), "must be above 0"),
        ("load.outstanding_max", json!(0), "every thread needs one"),
        ("mix", json!({"MKNOD": 1}), "GETATTR, SETATTR"),
        ("mix", json!({}), "no value has a weight"),
        ("mix", json!({"READ": -1}), "negative"),
        ("servers", json!([]), "1 to 64"),
        ("threads", json!(0), "multiple of 1"),
        ("append_share", json!(1.5), "between 0 and 1"),
        ("measure_s", json!(0), "seconds"),
        ("read_sizes_bytes", json!({"2097152": 1}), "1 to 1048576"),
        ("read_sizes_bytes", json!({}), "no value has a weight"),
        ("file_set.directory", json!("a/b"), "no name"),
        ("file_set.bytes_per_op_per_s", json!(1), "Give one of"),
        ("file_set.files_per_directory", json!(0), "1,000,000"),
        ("part", json!({"index": 2, "of": 2}), "does not exist"),
    ] {
        let text = refuse(path, value);
        assert!(text.contains(said), "{path}: {text}");
    }
    let mut plan = world.plan();
    set(
        &mut plan,
        "servers",
        json!([{
        "address": "127.0.0.1", "export": "/e", "options": "rsise=8k"}]),
    );
    let plan: load::Plan = serde_json::from_value(plan).unwrap();
    assert!(plan.check().unwrap_err().why().contains("rsize"));
    let error = load::Plan::from_json(r#"{"serverz": []}"#).unwrap_err();
    assert!(error.why().contains("serverz"));
}

#[test]
fn a_mix_that_does_not_sum_to_100_is_normalised_and_said() {
    let world = World::null(1);
    let checked = checked(&world.plan());
    assert_eq!(checked.notes.len(), 1);
    assert!(
        checked.notes[0].contains("sums to 99, not to 100"),
        "{}",
        checked.notes[0]
    );
    let sum: f64 = checked.plan.mix.values().sum();
    assert!((sum - 100.0).abs() < 1e-9);
}
