//! What is written is told again, whatever it is.

use std::collections::BTreeMap;

use wire::summary::Stability;

use super::{Player, Shift, Writer};
use crate::block::{Endpoint, Host, Sack, Transport};
use crate::call::{Brief, Call, Outcome, Stamp};
use crate::calls::{Output, REFUSALS};
use crate::event::{Again, Event, TransportEvent, TransportKind};
use crate::names::Names;

/// What a lens is told.
#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Sent(i64, Call, bool),
    Replied(i64, Call, bool),
    Transport(TransportEvent),
    Settled(Call),
}

#[derive(Default)]
struct Listener(Vec<Heard>);

impl Output for Listener {
    fn wants_messages(&self) -> bool {
        true
    }

    fn wants_transport(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>, _: &Names) {
        self.0.push(match *event {
            Event::Sent {
                time_ns,
                call,
                again,
            } => Heard::Sent(time_ns, *call, again),
            Event::Replied {
                time_ns,
                call,
                again,
            } => Heard::Replied(time_ns, *call, again),
            Event::Transport(event) => Heard::Transport(*event),
        });
    }

    fn brief(&mut self, _: &Brief, _: &Names) {}

    fn call(&mut self, call: &Call, _: &Names) {
        self.0.push(Heard::Settled(*call));
    }
}

/// Small, large, and in between.
fn some(random: &mut fastrand::Rng) -> u64 {
    match random.u8(..4) {
        0 => random.u64(..3),
        1 => u64::MAX - random.u64(..2),
        _ => random.u64(..) >> random.u32(..64),
    }
}

fn end(random: &mut fastrand::Rng) -> Endpoint {
    Endpoint {
        host: Host::from_bits(random.u128(..)),
        port: random.u16(..),
    }
}

fn stamp(random: &mut fastrand::Rng) -> Stamp {
    Stamp {
        time_ns: some(random).cast_signed(),
        frame: some(random) >> 1,
    }
}

fn stability(random: &mut fastrand::Rng) -> Option<Stability> {
    let known = [
        Stability::Unstable,
        Stability::DataSync,
        Stability::FileSync,
    ];
    known.get(random.usize(..4)).copied()
}

/// Some fields get other values.
fn changed(call: &mut Call, random: &mut fastrand::Rng) {
    let option = |random: &mut fastrand::Rng| random.bool().then(|| some(random));
    for _ in 0..random.usize(..4) {
        match random.u8(..24) {
            0 => call.call_last = stamp(random),
            1 => call.last_send = stamp(random),
            2 => call.reply_first = random.bool().then(|| stamp(random)),
            3 => call.reply_last = random.bool().then(|| stamp(random)),
            4 => call.xid = some(random) as u32,
            5 => call.program = some(random) as u32,
            6 => call.version = some(random) as u32,
            7 => call.procedure = some(random) as u32,
            8 => call.operation = some(random) as u32,
            9 => call.minor_version = some(random) as u32,
            10 => call.operations_done = some(random) as u16,
            11 => {
                call.outcome = match random.u8(..5) {
                    0 => Outcome::Unanswered,
                    1 => Outcome::Status(some(random) as u32),
                    2 => Outcome::Accepted,
                    3 => Outcome::Refused(REFUSALS[random.usize(..REFUSALS.len())]),
                    _ => Outcome::Unreadable,
                }
            }
            12 => call.sends = some(random) as u16,
            13 => call.replies = some(random) as u16,
            14 => call.user = option(random).map(|it| it as u32),
            15 => call.offset = option(random),
            16 => call.count = option(random),
            17 => (call.stable, call.committed) = (stability(random), stability(random)),
            18 => call.bytes_read = some(random) as u32,
            19 => call.bytes_written = some(random) as u32,
            20 => (call.call_bytes, call.reply_bytes) = (random.u32(..), some(random) as u32),
            21 => (call.end_of_file, call.marks) = (random.bool(), some(random) as u16),
            22 => call.file_size_bytes = option(random),
            _ => call.slot = option(random).map(|it| it as u32),
        }
    }
}

fn below_rpc(random: &mut fastrand::Rng, connections: u32) -> TransportEvent {
    let ends = [end(random), end(random)];
    let bytes = some(random) as u32;
    let again = [Again::Filled, Again::Acknowledged, Again::Unacknowledged];
    TransportEvent {
        time_ns: some(random).cast_signed(),
        connection: random.u32(..connections),
        from_client: [None, Some(true), Some(false)][random.usize(..3)],
        from_low: random.bool(),
        kind: match random.u8(..14) {
            0 => TransportKind::Opened { ends },
            1 => TransportKind::Closed {
                reset: random.bool(),
                ends,
            },
            2 => TransportKind::Hidden { ends },
            3 => TransportKind::FrontCut { ends },
            4 => TransportKind::Selective(Sack::Missing),
            5 => TransportKind::Selective(Sack::Duplicate),
            6 => TransportKind::Acknowledged {
                round_trip_ns: random.bool().then(|| some(random).cast_signed()),
                window_bytes: u64::from(random.u16(..)) << random.u32(..15),
                window_known: random.bool(),
            },
            7 => TransportKind::Retransmitted {
                bytes,
                of: again[random.usize(..3)],
            },
            8 => TransportKind::OutOfOrder,
            9 => TransportKind::ZeroWindow,
            10 => TransportKind::WindowOpened,
            11 => TransportKind::WithoutCall { ends },
            12 => TransportKind::Lost {
                bytes: some(random),
            },
            _ => TransportKind::Sent {
                bytes,
                in_flight_bytes: some(random),
            },
        },
    }
}

/// Some hundred events and calls, and where checkpoints are.
fn happenings(random: &mut fastrand::Rng) -> Vec<(Heard, bool)> {
    let pairs: Vec<Call> = (0..random.u32(1..5))
        .map(|connection| Call {
            connection,
            client: end(random),
            server: end(random),
            transport: [Transport::Tcp, Transport::Udp][random.usize(..2)],
            ..Call::default()
        })
        .collect();
    let mut open: BTreeMap<u64, Call> = BTreeMap::new();
    let mut number = random.u64(..1000);
    let mut all = Vec::new();
    for _ in 0..400 {
        let time_ns = some(random).cast_signed();
        let heard = match random.u8(..5) {
            0 => {
                number += random.u64(1..3);
                let mut call = Call {
                    number,
                    call_first: stamp(random),
                    ..pairs[random.usize(..pairs.len())]
                };
                changed(&mut call, random);
                open.insert(number, call);
                Heard::Sent(call.last_send.time_ns, call, false)
            }
            1 => Heard::Transport(below_rpc(random, pairs.len() as u32)),
            kind => {
                let known: Vec<u64> = open.keys().copied().collect();
                let Some(number) = random.choice(known) else {
                    continue;
                };
                let call = open.get_mut(&number).unwrap();
                changed(call, random);
                let call = *call;
                let usual_ns = call.reply_first.map_or(time_ns, |it| it.time_ns);
                match kind {
                    2 => Heard::Sent(time_ns, call, random.bool()),
                    3 => Heard::Replied(usual_ns, call, random.bool()),
                    _ => {
                        open.remove(&number);
                        Heard::Settled(call)
                    }
                }
            }
        };
        all.push((heard, random.u8(..40) == 0));
    }
    all
}

fn written(all: &[(Heard, bool)]) -> Vec<Vec<u8>> {
    let (mut writer, names) = (Writer::default(), Names::default());
    let mut stretches = vec![Vec::new()];
    for (heard, checkpoint) in all {
        if *checkpoint {
            stretches
                .last_mut()
                .unwrap()
                .extend(writer.take(Vec::new()));
            writer.begin_anew();
            stretches.push(Vec::new());
        }
        let (time_ns, again) = match *heard {
            Heard::Sent(time_ns, _, again) | Heard::Replied(time_ns, _, again) => (time_ns, again),
            _ => (0, false),
        };
        match heard {
            Heard::Sent(_, call, _) => writer.event(
                &Event::Sent {
                    time_ns,
                    call,
                    again,
                },
                &names,
            ),
            Heard::Replied(_, call, _) => writer.event(
                &Event::Replied {
                    time_ns,
                    call,
                    again,
                },
                &names,
            ),
            Heard::Transport(event) => writer.event(&Event::Transport(event), &names),
            Heard::Settled(call) => writer.call(call, &names),
        }
    }
    stretches
        .last_mut()
        .unwrap()
        .extend(writer.take(Vec::new()));
    assert!(!writer.is_full() && !writer.take_reached_back());
    stretches
}

fn moved(heard: &Heard) -> Heard {
    let call = |call: &Call| {
        let later = |stamp: Stamp| Stamp {
            frame: stamp.frame + FRAMES,
            ..stamp
        };
        Call {
            number: call.number + CALLS,
            call_first: later(call.call_first),
            call_last: later(call.call_last),
            last_send: later(call.last_send),
            reply_first: call.reply_first.map(later),
            reply_last: call.reply_last.map(later),
            connection: call.connection + CONNECTIONS,
            ..*call
        }
    };
    match heard {
        Heard::Sent(at, it, again) => Heard::Sent(*at, call(it), *again),
        Heard::Replied(at, it, again) => Heard::Replied(*at, call(it), *again),
        Heard::Settled(it) => Heard::Settled(call(it)),
        Heard::Transport(event) => Heard::Transport(TransportEvent {
            connection: event.connection + CONNECTIONS,
            ..*event
        }),
    }
}

const FRAMES: u64 = 7;
const CALLS: u64 = 11;
const CONNECTIONS: u32 = 13;

fn player() -> Player {
    let mut player = Player::default();
    player.next_reader(Shift {
        frames: FRAMES,
        calls: CALLS,
        connection: Box::new(|it| it.wrapping_add(CONNECTIONS)),
    });
    player
}

#[test]
fn what_was_written_is_told_from_each_checkpoint_on() {
    let mut told = 0;
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let all = happenings(&mut random);
        let stretches = written(&all);
        let right: Vec<Heard> = all.iter().map(|(heard, _)| moved(heard)).collect();
        let first = random.usize(..stretches.len());
        let (mut player, mut listener) = (player(), Listener::default());
        for stretch in &stretches[first..] {
            player.begin_anew();
            player.play(stretch, &mut listener).unwrap();
        }
        let behind = &right[right.len() - listener.0.len()..];
        let differs = listener.0.iter().zip(behind).position(|(a, b)| a != b);
        assert!(listener.0 == behind, "seed {seed}: {differs:?}");
        assert!(first > 0 || behind.len() == right.len());
        told += behind.len();
    }
    assert!(told > 300 * 100, "{told}");
}

#[test]
fn bytes_that_are_no_journal_end_well() {
    let mut damaged = 0;
    for seed in 0..3000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = written(&happenings(&mut random)).concat();
        for _ in 0..random.usize(1..20) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] = random.u8(..),
                1 => bytes.truncate(at + 1),
                _ => bytes.insert(at, random.u8(..)),
            }
        }
        let mut player = player();
        damaged += usize::from(player.play(&bytes, &mut Listener::default()).is_err());
        // It goes on with another one.
        player.begin_anew();
        let _ = player.play(&bytes, &mut Listener::default());
    }
    assert!(damaged > 2000, "{damaged}");
}
