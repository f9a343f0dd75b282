//! A capture cut into files anywhere and read by a part for each is what reading it in a row is: or
//! the parts refuse to be joined. Two neighbours that refuse are read in a row and joined with the
//! others. Shared captures, drawn out in time so that calls settle within a file; as they are, and
//! spoilt at random; the table by operation alone, and with all that can be put together.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use trace::analysis::parts::{JoinError, Part, Task, read};
use trace::analysis::{Findings, Options, Pass};
use trace::block::Block;
use trace::lens::Section;
use trace::source::{Bounds, Input, Reader, in_order};

use crate::quick_way::{HEADER_BYTES, packets, shared, spoilt};

/// Small blocks, so that small files have many checkpoints.
fn bounds() -> Bounds {
    Bounds {
        block_bytes: 1,
        frame_bytes: 70 << 10,
        ..Bounds::default()
    }
}

const BEGUN_US: u64 = 1_600_000_000_000_000;
/// Seconds that captures are drawn out to.
const LENGTH_US: u64 = 4_000_000_000;

fn word(packet: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(packet[at..at + 4].try_into().unwrap()))
}

fn time_us(packet: &[u8]) -> u64 {
    word(packet, 0) * 1_000_000 + word(packet, 4)
}

fn set_time(packet: &mut [u8], at_us: u64) {
    packet[..4].copy_from_slice(&((at_us / 1_000_000) as u32).to_le_bytes());
    packet[4..8].copy_from_slice(&((at_us % 1_000_000) as u32).to_le_bytes());
}

/// All packets, from `begun_us` on and more than an hour long.
fn long(capture: &[u8], begun_us: u64) -> Vec<Vec<u8>> {
    let packets: Vec<&[u8]> = packets(capture)
        .into_iter()
        .filter(|it| it.len() > 16)
        .collect();
    let times = packets.iter().map(|it| time_us(it));
    let (first_us, last_us) = (times.clone().min().unwrap(), times.max().unwrap());
    let factor = LENGTH_US / (last_us - first_us).max(1) + 1;
    let later = |packet: &&[u8]| {
        let at_us = begun_us + (time_us(packet) - first_us) * factor;
        let mut out = packet.to_vec();
        set_time(&mut out, at_us);
        out
    };
    packets.iter().map(later).collect()
}

/// Without fragments of IPv4: those are never read side by side.
fn unfragmented(capture: &[u8]) -> Vec<u8> {
    let whole = packets(capture).into_iter().filter(|it| {
        let fragment = u16::from_be_bytes([it[16 + 14 + 6], it[16 + 14 + 7]]) & 0x3fff != 0;
        !(fragment && it[16 + 12..16 + 14] == [8, 0])
    });
    [
        capture[..HEADER_BYTES].to_vec(),
        whole.collect::<Vec<_>>().concat(),
    ]
    .concat()
}

/// Captures to be cut: each by itself, UDP without fragments, and several at the same time.
fn captures() -> Vec<(String, Vec<u8>)> {
    let mut found = shared();
    let udp: Vec<_> = found
        .iter()
        .filter(|(name, _)| name.contains("udp"))
        .collect();
    let udp: Vec<_> = udp
        .iter()
        .map(|(name, it)| (format!("whole datagrams of {name}"), unfragmented(it)))
        .collect();
    found.extend(udp);
    let together: Vec<_> = found
        .iter()
        .filter(|(_, it)| it[20..24] == found[0].1[20..24])
        .collect();
    let mut packets: Vec<_> = together
        .iter()
        .flat_map(|(_, it)| long(it, BEGUN_US))
        .collect();
    packets.sort_by_key(|it| time_us(it));
    let header = found[0].1[..HEADER_BYTES].to_vec();
    let names = together.iter().map(|(name, _)| name.as_str());
    let name = names.collect::<Vec<_>>().join(" and ");
    let mixed = [header, packets.concat()].concat();
    found.push((name, mixed));
    found
}

/// The packets of one capture all the time, those of another one now and then: where they pause
/// most, its connections are idle for long, and come back.
fn with_pauses(one: &[u8], other: &[u8], seed: u64) -> Vec<u8> {
    const STAGES: usize = 6;
    let mut random = fastrand::Rng::with_seed(seed);
    let others = long(other, BEGUN_US);
    let mut pauses: Vec<usize> = (1..others.len()).collect();
    pauses.sort_by_key(|at| time_us(&others[at - 1]).abs_diff(time_us(&others[*at])));
    let mut pauses = pauses.split_off(pauses.len() - STAGES);
    pauses.sort_unstable();
    let mut begins: Vec<u64> = (0..=STAGES).map(|_| random.u64(..LENGTH_US)).collect();
    begins.sort_unstable();
    let mut packets = long(one, BEGUN_US);
    packets.extend(others.into_iter().enumerate().map(|(number, mut packet)| {
        let stage = pauses.partition_point(|at| *at <= number);
        set_time(&mut packet, BEGUN_US + begins[stage] + number as u64 * 50);
        packet
    }));
    packets.sort_by_key(|it| time_us(it));
    [one[..HEADER_BYTES].to_vec(), packets.concat()].concat()
}

/// The same packets in the other format: a section, an interface, enhanced packets.
fn pcapng(link_type: &[u8], packets: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (body.len().next_multiple_of(4) as u32 + 12).to_le_bytes();
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&length);
        out.extend_from_slice(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(&length);
    };
    let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    block(0x0a0d_0d0a, &section);
    block(1, &[&link_type[..2], &[0; 6]].concat());
    for packet in packets {
        let at_us = time_us(packet);
        let times = [(at_us >> 32) as u32, at_us as u32].map(u32::to_le_bytes);
        let body = [&[0; 4], times.as_flattened(), &packet[8..]].concat();
        block(6, &body);
    }
    out
}

/// Files with the packets between places drawn at random.
fn split(
    header: &[u8],
    packets: &[Vec<u8>],
    random: &mut fastrand::Rng,
    to: &Path,
) -> Vec<PathBuf> {
    let mut cuts: Vec<usize> = (0..random.usize(1..4))
        .map(|_| random.usize(..packets.len()))
        .collect();
    cuts.extend([0, packets.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let files = cuts.windows(2).enumerate().map(|(number, ends)| {
        let path = to.join(format!("{number}.pcap"));
        let some = &packets[ends[0]..ends[1]];
        let pcap = || [header.to_vec(), some.concat()].concat();
        match random.u8(..3) {
            0 => fs::write(&path, pcap()).unwrap(),
            1 => fs::write(&path, pcapng(&header[20..24], some)).unwrap(),
            _ => {
                let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
                gz.write_all(&pcap()).unwrap();
                fs::write(&path, gz.finish().unwrap()).unwrap();
            }
        }
        path
    });
    files.collect()
}

fn in_a_row(files: &[PathBuf], lenses: &[String]) -> Findings {
    let operations = "operations".to_owned();
    let options = Options {
        lenses: std::iter::once(operations).chain(lenses.to_vec()).collect(),
        ..Options::default()
    };
    let inputs = files.iter().cloned().map(Input::File).collect();
    let mut reader = Reader::open(inputs).unwrap();
    let mut pass = Pass::new(&options, Arc::default()).unwrap();
    let mut block = Block::default();
    while reader.read(&mut block).unwrap() {
        pass.block(&block).unwrap();
    }
    pass.finish(&reader.totals(), &[]).unwrap()
}

/// A part of some of the files.
struct Some {
    files: Range<usize>,
    part: Part,
}

/// The part of some of the files.
fn part_of(files: &[PathBuf], some: Range<usize>, lenses: &[String]) -> Result<Some, JoinError> {
    let task = Task {
        bounds: bounds(),
        first_blocks: 1,
        lenses: lenses.to_vec(),
        ..Task::new(files[some.clone()].to_vec(), files.get(some.end).cloned())
    };
    let part = read(&task, |_| true).unwrap();
    let travelled = Part::decode(&part.encode()?)?;
    assert_eq!(travelled, part);
    Ok(Some { files: some, part })
}

/// What was found, and how many stretches were read again.
fn side_by_side(
    files: &[PathBuf],
    lenses: &[String],
    random: &mut fastrand::Rng,
) -> Result<(Findings, usize), JoinError> {
    let (files, moved) = in_order(files.to_vec()).unwrap();
    let each = 0..files.len();
    let parts = each.map(|at| part_of(&files, at..at + 1, lenses));
    let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
    let mut again = 0;
    // Any two neighbours first.
    while parts.len() > 1 {
        let at = random.usize(..parts.len() - 1);
        let behind = parts.remove(at + 1);
        let front = &mut parts[at];
        let both = front.files.start..behind.files.end;
        match front.part.clone().join(behind.part) {
            Ok(part) => (front.files, front.part) = (both, part),
            Err(why) if both.len() == files.len() || !why.of_neighbours() => return Err(why),
            Err(_) => {
                again += 1;
                *front = part_of(&files, both, lenses)?;
            }
        }
    }
    let whole = parts.remove(0).part;
    Ok((whole.findings(moved, &[])?, again))
}

/// Stretches that were read again, if the parts could be joined; what they give is right then.
fn agree(capture: &[u8], seed: u64, what: &str) -> Option<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let packets = long(capture, 1_700_000_000_000_000);
    let files = split(
        &capture[..HEADER_BYTES],
        &packets,
        &mut random,
        folder.path(),
    );
    // By operation alone, or by client, too.
    let lenses: Vec<String> = (seed / 2)
        .is_multiple_of(2)
        .then(|| "clients".to_owned())
        .into_iter()
        .collect();
    let what = format!("{what}, {lenses:?}");
    let right = in_a_row(&files, &lenses);
    match side_by_side(&files, &lenses, &mut random) {
        Ok((found, again)) => {
            assert_eq!(
                found.summary.to_string(),
                right.summary.to_string(),
                "{what}"
            );
            assert_eq!(found.sections.len(), right.sections.len(), "{what}");
            for (found, right) in found.sections.iter().zip(&right.sections) {
                let (name, section) = found;
                let text = |it: &Section| serde_json::to_string_pretty(&it.json).unwrap();
                let (ours, theirs) = (text(section), text(&right.1));
                let differs = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
                assert!(ours == theirs, "{what} {name}: {differs:?}");
                assert!(found == right, "{what} {name}: blobs");
            }
            Some(again)
        }
        Err(apart) => {
            assert_ne!(apart, JoinError::Wrong, "{what}");
            println!("{what}, {} files: {apart:?}", files.len());
            None
        }
    }
}

/// Enough could be joined.
fn enough(found: &[Option<usize>]) {
    let (all, joined) = (found.len(), found.iter().flatten().count());
    println!("{joined} of {all}");
    assert!(joined * 3 > all, "{joined} of {all}");
}

#[test]
fn parts_of_whole_and_spoilt_captures_are_what_reading_in_a_row_is() {
    let mut found = Vec::new();
    // Of each capture, whole and spoilt.
    for (at, (name, capture)) in captures().into_iter().enumerate() {
        for seed in (0..8).filter(|seed| (seed / 2) as usize % 2 == at % 2) {
            let capture = match seed % 2 {
                0 => capture.clone(),
                _ => spoilt(&capture, seed),
            };
            found.push(agree(&capture, seed, &format!("{name}, seed {seed}")));
        }
    }
    enough(&found);
}

#[test]
fn connections_that_come_back_are_what_reading_in_a_row_makes_of_them() {
    let all_shared = shared();
    let named = |name: &str| {
        let mut found = all_shared.iter().filter(|(it, _)| it.starts_with(name));
        found.next().unwrap().1.clone()
    };
    let others = [
        "linux61_pgbench_v3",
        "v3_tcp_ipv6_q4",
        "v41_slots8",
        "linux61_pgbench_v42",
    ];
    let mut found = Vec::new();
    for seed in 0..32 {
        let other = named(others[seed as usize % others.len()]);
        let capture = with_pauses(&named("v3_tcp_q1"), &other, seed);
        let capture = match seed / 4 % 4 {
            3 => spoilt(&capture, seed),
            _ => capture,
        };
        found.push(agree(&capture, seed, &format!("pauses, seed {seed}")));
    }
    enough(&found);
    // Some were joined after reading again.
    assert!(found.iter().flatten().any(|again| *again > 0));
}
