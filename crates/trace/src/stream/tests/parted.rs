//! Who began to read at a cut finds, from where both agree on, the messages that who read all finds:
//! or it is known that something looked back.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::kit::{Got, Recorder};
use super::traffic::{Packet, traffic};
use crate::block::{Block, Transport};
use crate::source::{Input, Reader};
use crate::stream::{Ends, Paired, Rest, Streams};

/// A reader and what it tells.
#[derive(Debug, Default)]
struct Reading {
    streams: Streams,
    sink: Recorder,
}

impl Reading {
    fn new(awaited: &HashSet<u32>) -> Self {
        let mut reading = Reading::default();
        reading.sink.ends = true;
        reading.sink.awaited = awaited.clone();
        reading
    }

    fn read(&mut self, packets: &[Packet]) {
        for (segment, payload) in packets {
            self.streams.segment(segment, payload, &mut self.sink);
        }
    }
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// They never agreed.
    Open,
    /// Something depends on what came before.
    LookedBack,
    /// Something that came back does.
    CameBack,
    /// All messages are the same, and nothing came back.
    Same,
    /// All messages are the same, and so are those of connections that came back.
    SameAndCameBack,
}

/// What connections that came back are, if they go on as if known.
fn come_back(later: &Streams, seen: &HashSet<Ends>, paired: &Paired) -> Option<Vec<(u32, u32)>> {
    let rest: HashMap<Ends, Rest> = paired.rest.iter().cloned().collect();
    let mut went_on = Vec::new();
    for (ends, began) in later.began() {
        let Some(rest) = rest.get(&ends).filter(|_| !seen.contains(&ends)) else {
            continue;
        };
        if began.continues(rest)? == 0 {
            let mut idle = rest.idle.clone()?;
            went_on.push((began.number, *idle.number_mut()));
        }
    }
    Some(went_on)
}

fn xids(packets: &[Packet]) -> HashSet<u32> {
    let words = packets
        .iter()
        .flat_map(|(_, payload)| payload.get(4..8).map(|it| it.try_into().unwrap()));
    words.map(u32::from_be_bytes).collect()
}

/// Messages; connections are numbered as they come.
fn told(messages: &[Got]) -> Vec<(usize, u32, usize, i64, i64)> {
    let mut numbers = HashMap::new();
    let each = messages.iter().map(|it| {
        let next = numbers.len();
        let number = *numbers.entry(it.connection).or_insert(next);
        let bytes = it.head.len();
        (number, it.xid, bytes, it.first.0, it.last.0)
    });
    each.collect()
}

/// Two readers, from the beginning and from a cut on, and where they agree.
struct Agreed {
    first: Reading,
    later: Reading,
    now: usize,
    paired: Paired,
}

/// Reads on from a cut until both agree; packets read in vain if they do not.
fn agree(
    packets: &[Packet],
    at: usize,
    random: &mut fastrand::Rng,
    new: &dyn Fn() -> Reading,
) -> Result<Agreed, usize> {
    let (mut first, mut later) = (new(), new());
    first.read(&packets[..at]);
    let mut now = at;
    loop {
        let until = packets.len().min(now + random.usize(1..40));
        first.read(&packets[now..until]);
        later.read(&packets[now..until]);
        now = until;
        if now == packets.len() {
            return Err(now - at);
        }
        first.streams.checkpoint();
        later.streams.checkpoint();
        let now_ns = packets[now - 1].0.time_ns;
        if let Some(paired) = first.streams.pair(&later.streams, now_ns) {
            return Ok(Agreed {
                first,
                later,
                now,
                paired,
            });
        }
    }
}

/// Cuts packets somewhere: how it went, and behind how many packets both agree.
fn cut(packets: &[Packet], seed: u64) -> (Outcome, usize) {
    let mut random = fastrand::Rng::with_seed(!seed);
    let awaited = xids(packets);
    let at = random.usize(..packets.len());
    let new = || Reading::new(&awaited);
    let agreed = agree(packets, at, &mut random, &new);
    let Agreed {
        mut first,
        mut later,
        now,
        paired,
    } = match agreed {
        Ok(agreed) => agreed,
        Err(packets) => return (Outcome::Open, packets),
    };
    later.streams.note_horizon(0);
    later.streams.take_reached_back();
    later.streams.take_opened();
    let seen: HashSet<Ends> = later.streams.began().map(|(ends, _)| ends).collect();
    let told_before = [&first, &later].map(|it| it.sink.messages.len());
    first.read(&packets[now..]);
    later.read(&packets[now..]);
    let opened = later.streams.take_opened();
    let sent_twice = |(ends, syn): &(Ends, u32)| {
        let mut rest = paired.rest.iter();
        rest.any(|(it, rest)| it == ends && rest.syns.contains(syn))
    };
    if later.streams.take_reached_back().is_some() || opened.iter().any(sent_twice) {
        return (Outcome::LookedBack, now - at);
    }
    let Some(back) = come_back(&later.streams, &seen, &paired) else {
        return (Outcome::CameBack, now - at);
    };
    first.streams.finish(&mut first.sink);
    later.streams.finish(&mut later.sink);
    let behind = &later.sink.messages[told_before[1]..];
    let messages = told(behind);
    let right = told(&first.sink.messages[told_before[0]..]);
    assert_eq!(messages, right, "seed {seed}");
    let same = match back.is_empty() {
        true => Outcome::Same,
        false => Outcome::SameAndCameBack,
    };
    (same, now - at)
}

const CAPTURES: u64 = 500;

#[test]
fn messages_behind_a_cut_are_those_of_reading_in_a_row() {
    let outcomes: Vec<_> = (0..CAPTURES)
        .map(|seed| cut(&traffic(seed), seed).0)
        .collect();
    let of = |outcome| outcomes.iter().filter(|it| **it == outcome).count();
    let back = of(Outcome::SameAndCameBack);
    let same = of(Outcome::Same) + back;
    println!("{same} the same, {back} of them came back");
    assert!(same * 3 > outcomes.len(), "{same}");
    assert!(back * 40 > outcomes.len(), "{back}");
}

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(".pcap.gz"));
    found.sort();
    assert!(found.len() >= 8, "{found:?}");
    found
}

/// Segments of a shared capture, drawn out in time as `tests/unit/parts.rs` does; some of them lost,
/// doubled or swapped if it is to be spoilt.
fn drawn_out(path: PathBuf, spoil: Option<u64>) -> Vec<Packet> {
    const LENGTH_NS: i64 = 4_000_000_000_000;
    let mut reader = Reader::open(vec![Input::File(path)]).unwrap();
    let mut block = Block::default();
    let mut packets = Vec::new();
    while reader.read(&mut block).unwrap() {
        let segments = block
            .segments
            .iter()
            .filter(|it| it.transport == Transport::Tcp);
        packets.extend(segments.map(|it| (*it, block.payload(it).to_vec())));
    }
    let Some(begun_ns) = packets.iter().map(|(it, _)| it.time_ns).min() else {
        return packets;
    };
    let ended_ns = packets.iter().map(|(it, _)| it.time_ns).max();
    let factor = LENGTH_NS / (ended_ns.unwrap() - begun_ns).max(1) + 1;
    if let Some(seed) = spoil {
        let mut random = fastrand::Rng::with_seed(seed);
        for at in (1..packets.len()).rev() {
            match random.u32(..150) {
                0 => drop(packets.remove(at)),
                1 => packets.insert(at, packets[at].clone()),
                2 => packets.swap(at, at - 1),
                _ => {}
            }
        }
    }
    for (it, _) in &mut packets {
        it.time_ns = begun_ns + (it.time_ns - begun_ns) * factor;
        it.first_ns = it.time_ns;
    }
    packets
}

#[test]
fn shared_captures_can_be_cut() {
    let (mut all, mut same) = (0, 0);
    for path in captures() {
        for spoil in [None, Some(1), Some(2)] {
            let packets = drawn_out(path.clone(), spoil);
            if packets.is_empty() {
                continue;
            }
            all += 12;
            let outcomes = (0..12).map(|seed| cut(&packets, seed).0);
            same += outcomes.filter(|it| *it >= Outcome::Same).count();
        }
    }
    println!("{same} of {all}");
    assert!(same * 2 > all, "{same} of {all}");
}
