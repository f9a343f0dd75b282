//! Causes that the service model plants are found in the client's records, as long as they are.
//!
//! Lower bounds are exact: the model never answers early.

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Engine;
use client::MountOptions;
use client::nfs3::{FileHandle, GetAttr};
use client::record::{Outcome, RpcRecord};
use measure::MonotonicClock;
use server::model::{DiskDescription, ModelDescription};
use server::net::{Counts, RunningServer, ServerOptions};
use server::record::{CallRecord, Recorder};
use wire::nfs3::{GETATTR3args, nfs_fh3, procedure};

use super::pair::{create, mount, open, service, start};
use crate::trees::Tree;
use crate::waits::Waits;

const MS: u64 = 1_000_000;

/// A server with a model, and an engine at it that records every call.
struct World {
    server: RunningServer,
    recorder: Arc<Recorder>,
    engine: Engine,
    reader: client::record::RecordReader,
    file: FileHandle,
}

impl World {
    fn new(model: ModelDescription, text: &str) -> Self {
        let tree = Tree::memory(1 << 28);
        let service = service(Arc::from(tree.store));
        let any = "127.0.0.1:0".parse().unwrap();
        // Made without the model: it may lose datagrams.
        let plain = start(&service, any, ServerOptions::default());
        let file = create(&mount(plain.addresses()[0], ""), b"f");
        plain.stop().unwrap();
        let recorder = Arc::new(Recorder::default());
        recorder.begin(1 << 16);
        let options = ServerOptions {
            model: Some(model),
            recorder: Arc::clone(&recorder),
            ..ServerOptions::default()
        };
        let server = start(&service, any, options);
        let options = MountOptions::parse(text).unwrap();
        let mut engine = Engine::connect(server.addresses()[0], &options, MonotonicClock).unwrap();
        let reader = engine.record_every_call(1 << 16);
        World {
            server,
            recorder,
            engine,
            reader,
            file,
        }
    }

    /// Runs `count` calls, `depth` at a time; `submit` makes the n-th.
    fn run(
        &mut self,
        (count, depth): (u64, u64),
        submit: impl Fn(&mut Engine, nfs_fh3<'_>, u64),
    ) -> Vec<RpcRecord> {
        let (mut begun, mut ended) = (0, 0);
        let file = self.file;
        while ended < count {
            while begun < count && begun - ended < depth {
                submit(&mut self.engine, file.as_fh(), begun);
                begun += 1;
            }
            let sink = &mut |end: client::Completion<'_>| {
                end.result.unwrap();
                ended += 1;
            };
            self.engine
                .poll(Some(Duration::from_secs(120)), sink)
                .unwrap();
        }
        let mut records = Vec::new();
        self.engine.record_counters_only();
        assert_eq!(self.reader.drain(&mut records), 0);
        assert_eq!(records.len() as u64, count);
        assert!(
            records
                .iter()
                .all(|record| record.outcome == Outcome::Answered(0))
        );
        records
    }

    fn end(self) -> (Vec<CallRecord>, Counts) {
        let (ended, counts) = self.server.finish();
        ended.unwrap();
        (self.recorder.take(), counts)
    }
}

fn getattr(engine: &mut Engine, object: nfs_fh3<'_>, token: u64) {
    engine
        .submit_typed::<GetAttr>(&GETATTR3args { object }, token)
        .unwrap();
}

/// When calls came to the server, and when workers began with one, each in order.
fn came_and_began(served: &[CallRecord]) -> (Vec<u64>, Vec<u64>) {
    let mut came: Vec<u64> = served.iter().map(|call| call.received_ns).collect();
    let mut began: Vec<u64> = served.iter().map(|call| call.started_ns).collect();
    came.sort_unstable();
    began.sort_unstable();
    (came, began)
}

#[test]
fn workers_and_service_time_are_the_rate_and_the_queue() {
    let model = ModelDescription {
        threads: Some(2),
        service_ns: 4 * MS,
        ..ModelDescription::default()
    };
    let mut world = World::new(model, "");
    let records = world.run((60, 8), getattr);
    let first = records.iter().map(|r| r.times.sent_first_ns).min().unwrap();
    let last = records.iter().map(|r| r.times.completed_ns).max().unwrap();
    // 60 calls of 4 ms on two workers.
    assert!(last - first >= 120 * MS, "{}", last - first);
    // Call by call, as the server has it: each begins when it came, or when a worker is free.
    let (served, _) = world.end();
    let (came, began) = came_and_began(&served);
    let mut expected = Vec::new();
    let mut free = [0; 2];
    for came in came {
        free.sort_unstable();
        let begins = free[0].max(came);
        expected.push(begins);
        free[0] = begins + 4 * MS;
    }
    assert_eq!(began, expected);
    // And the client waits for the queue and for the work.
    for record in &records {
        let call = served.iter().find(|call| call.xid == record.xid).unwrap();
        let trip = record.times.completed_ns - record.times.sent_first_ns;
        assert!(trip >= call.started_ns - call.received_ns + 4 * MS);
    }
}

/// Time of a sync of 256 KiB in eight WRITEs to a memory store, and the WRITEs and COMMITs of it.
fn synced(model: Option<ModelDescription>) -> (Duration, usize, usize) {
    let service = service(Arc::from(Tree::memory(1 << 28).store));
    let recorder = Arc::new(Recorder::default());
    recorder.begin(1 << 10);
    let options = ServerOptions {
        model,
        recorder: Arc::clone(&recorder),
        ..ServerOptions::default()
    };
    let server = start(&service, "127.0.0.1:0".parse().unwrap(), options);
    let mounted = mount(server.addresses()[0], "wsize=32k");
    let file = open(&mounted, create(&mounted, b"f"));
    let began = Instant::now();
    file.write(0, &vec![7; 256 << 10]).unwrap();
    file.sync().unwrap();
    let took = began.elapsed();
    server.stop().unwrap();
    let calls = recorder.take();
    let number = |procedure| {
        calls
            .iter()
            .filter(|call| call.procedure == procedure)
            .count()
    };
    (took, number(procedure::WRITE), number(procedure::COMMIT))
}

/// In memory all is as safe as it will be, and a reply says so; before a disk that would leave out
/// the COMMIT that the disk is charged for.
#[test]
fn a_disk_before_memory_is_charged_for_a_sync_of_several_writes() {
    let rate = 4_000_000;
    let model = ModelDescription {
        disk: Some(DiskDescription {
            rate_bytes_per_s: rate,
            ..DiskDescription::default()
        }),
        ..ModelDescription::default()
    };
    let (took, writes, commits) = synced(Some(model));
    assert_eq!((writes, commits), (8, 1));
    let least = Duration::from_secs_f64(f64::from(256 << 10) / rate as f64);
    assert!(took >= least, "{took:?}");
    let (_, writes, commits) = synced(None);
    assert_eq!((writes, commits), (8, 0));
}

#[test]
#[ignore = "takes seconds"]
fn lost_datagrams_are_sent_again_and_every_one_is_accounted_for_at_length() {
    let model = ModelDescription {
        loss: 0.15,
        duplicate: 0.1,
        seed: 3,
        ..ModelDescription::default()
    };
    let mut world = World::new(model, "udp,timeo=1");
    let records = world.run((150, 8), getattr);
    let sends: u64 = records.iter().map(|record| u64::from(record.sends)).sum();
    let slowest = records.iter().max_by_key(|record| record.sends).unwrap();
    assert!(slowest.sends > 1, "something was lost");
    // What is still on its way is a reply to a call that has ended, or such a call that was sent
    // again: all is taken when the sum below comes out, and nothing moves any more.
    let mut before = None;
    loop {
        let counts = world.server.counts();
        let ours = world.engine.counters();
        let moved = ours.sends + counts.replies + counts.model_doubled;
        let ended = counts.calls + ours.answered + ours.late_replies + counts.model_lost;
        if moved == ended && before.replace(counts) == Some(counts) {
            break;
        }
        world
            .engine
            .poll(Some(Duration::from_millis(50)), &mut |_| {})
            .unwrap();
    }
    let counters = *world.engine.counters();
    let (served, counts) = world.end();
    assert_eq!(sends, counters.sends);
    assert!(
        counts.model_lost > 10 && counts.model_doubled > 5,
        "{counts:?}"
    );
    // Datagrams: sent by the client = taken + lost on the way in; answered (and doubled) = taken by
    // the client + lost on the way out.
    let arrived = counts.replies + counts.model_doubled;
    let taken = counters.answered + counters.late_replies;
    assert_eq!(
        (counters.sends - counts.calls) + (arrived - taken),
        counts.model_lost
    );
    assert_eq!(
        counts.calls, counts.replies,
        "GETATTR is answered each time it comes"
    );
    // Call by call: the server saw each xid at most as often as it was sent.
    for record in &records {
        let seen = served.iter().filter(|call| call.xid == record.xid).count();
        assert!(
            (1..=record.sends as usize).contains(&seen),
            "{record:?} seen {seen} times"
        );
        let last = record.times.sent_last_ns - record.times.sent_first_ns;
        // A second send comes after the timer, which is 100 ms at least to begin with.
        assert!(record.sends == 1 || last > 0);
    }
}
