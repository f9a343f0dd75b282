//! Whatever the network and the server do, each call has exactly one end; on a hard mount it is
//! its own answer.

use std::collections::BTreeMap;

use crate::peer::{Arrived, Bench, Peer, success};
use proptest::prelude::*;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Submit(u8),
    /// Answer one of the calls that the server has (also one answered before).
    Answer(u8),
    AnswerTwice(u8),
    /// Forget one: its call, or its reply, was lost.
    Lose(u8),
    /// Close a connection; what it had is lost.
    Close(u8),
    /// Bytes that are no reply.
    Garbage(u8),
    Advance(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u8..20).prop_map(Step::Submit),
        6 => any::<u8>().prop_map(Step::Answer),
        1 => any::<u8>().prop_map(Step::AnswerTwice),
        2 => any::<u8>().prop_map(Step::Lose),
        1 => any::<u8>().prop_map(Step::Close),
        1 => any::<u8>().prop_map(Step::Garbage),
        2 => (1_u16..3_000).prop_map(Step::Advance),
    ]
}

struct World {
    bench: Bench,
    peer: Peer,
    /// Calls that the server has, answered or not.
    there: Vec<Arrived>,
    submitted: u64,
    udp: bool,
}

impl World {
    fn new(options: &str) -> Self {
        let udp = options.starts_with("udp");
        let peer = if udp {
            Peer::udp("127.0.0.1:0")
        } else {
            Peer::tcp("127.0.0.1:0")
        };
        World {
            bench: Bench::new(&peer, options),
            peer,
            there: Vec::new(),
            submitted: 0,
            udp,
        }
    }

    fn pick(&self, choice: u8) -> Option<(usize, Arrived)> {
        let index = usize::from(choice) % self.there.len().max(1);
        self.there.get(index).map(|call| (index, call.clone()))
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Submit(count) => {
                for _ in 0..count {
                    self.bench.submit(self.submitted);
                    self.submitted += 1;
                }
            }
            Step::Answer(choice) | Step::AnswerTwice(choice) => {
                if let Some((_, call)) = self.pick(choice) {
                    self.peer.reply(&call, &call.arguments);
                    if matches!(step, Step::AnswerTwice(_)) {
                        self.peer.reply(&call, &call.arguments);
                    }
                }
            }
            Step::Lose(choice) => {
                if let Some((index, _)) = self.pick(choice) {
                    self.there.swap_remove(index);
                }
            }
            Step::Close(choice) if !self.udp => {
                let open = self.peer.open_connections();
                if !open.is_empty() {
                    self.peer.close(open[usize::from(choice) % open.len()]);
                }
            }
            Step::Garbage(choice) if !self.udp => {
                if let Some((_, call)) = self.pick(choice) {
                    self.peer
                        .send(&call, &success(call.xid ^ 0x8000_0000, &[choice; 5]));
                    self.peer.send(&call, &[choice; 7]);
                }
            }
            Step::Advance(milliseconds) => self.bench.clock.advance(u64::from(milliseconds)),
            Step::Close(_) | Step::Garbage(_) => {}
        }
        self.bench.turn();
        let arrived = self.peer.pump();
        self.there.extend(arrived);
    }

    /// From now on the server answers all it gets.
    fn heal(&mut self) {
        for _ in 0..2_000 {
            if self.bench.engine.in_flight() == 0 {
                return;
            }
            for call in std::mem::take(&mut self.there) {
                self.peer.reply(&call, &call.arguments);
            }
            self.bench.clock.advance(500);
            self.bench.turn();
            self.there = self.peer.pump();
        }
        panic!("calls without end: {:?}", self.bench.engine.counters());
    }
}

fn run(options: &str, steps: &[Step], hard: bool) {
    let mut world = World::new(options);
    let reader = world.bench.engine.record_every_call(1 << 16);
    steps.iter().for_each(|step| world.take(*step));
    world.heal();
    world.bench.turn();
    let mut ends = BTreeMap::new();
    for end in &world.bench.ended {
        assert!(
            ends.insert(end.token, end.clone()).is_none(),
            "{} ended twice",
            end.token
        );
        match &end.result {
            Ok(body) => assert_eq!(*body, end.token.to_be_bytes(), "another call's answer"),
            Err(error) => assert!(!hard, "{error}"),
        }
    }
    assert_eq!(ends.len() as u64, world.submitted);
    // The record agrees with what came out, call by call.
    world.bench.engine.close(&mut |_| {});
    let mut records = Vec::new();
    assert_eq!(reader.drain(&mut records), 0);
    assert_eq!(records.len(), ends.len());
    for record in records {
        let end = &ends[&record.token];
        assert_eq!((record.xid, record.sends), (end.xid, end.sends));
        assert_eq!(record.replies == 1, end.result.is_ok());
    }
    let counters = world.bench.engine.counters();
    assert_eq!(counters.enqueued, counters.answered + counters.failed);
    assert_eq!(counters.sends - counters.retransmissions, {
        let sent = world.bench.ended.iter().filter(|end| end.sends > 0);
        sent.count() as u64
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn hard_over_tcp(steps in proptest::collection::vec(step(), 1..60)) {
        run("timeo=10,max_requests=16", &steps, true);
    }

    #[test]
    fn hard_over_three_connections(steps in proptest::collection::vec(step(), 1..60)) {
        run("timeo=10,nconnect=3,max_requests=16", &steps, true);
    }

    #[test]
    fn hard_over_udp(steps in proptest::collection::vec(step(), 1..60)) {
        run("udp,timeo=5", &steps, true);
    }

    #[test]
    fn soft_over_tcp(steps in proptest::collection::vec(step(), 1..60)) {
        run("soft,timeo=5,retrans=1,max_requests=8", &steps, false);
    }
}
