//! The captures of `tests/captures`, as tshark and capinfos read them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Found, drain};
use crate::block::{NO_SCALE, Transport};
use crate::source::{Bounds, Input, Reader, Totals};

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("tests/captures")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".pcap.gz"))
        .collect();
    found.sort();
    assert!(found.len() >= 8, "{found:?}");
    found
}

/// Output of a tool, or `None` with the reason printed.
fn output(tool: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(tool).args(arguments).output() {
        Ok(done) if done.status.success() => Some(String::from_utf8(done.stdout).expect("UTF-8")),
        Ok(done) => panic!("{tool}: {}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            eprintln!("skipped: {tool}: {error}");
            None
        }
    }
}

fn read(path: &Path) -> (Vec<Found>, Totals) {
    let mut reader = Reader::open(vec![Input::File(path.to_owned())]).expect("a capture");
    drain(&mut reader).expect("readable")
}

/// What tshark says of each frame that has TCP or UDP in it, datagrams put together.
fn tshark(path: &Path) -> Option<Vec<String>> {
    let fields = [
        "frame.number",
        "frame.time_epoch",
        "ip.src",
        "ipv6.src",
        "ip.dst",
        "ipv6.dst",
        "tcp.srcport",
        "tcp.dstport",
        "udp.srcport",
        "udp.dstport",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.flags",
        "tcp.window_size_value",
        "tcp.options.wscale.shift",
        "tcp.len",
        "udp.length",
        "ip.id",
    ];
    let name = path.to_str().expect("UTF-8");
    let mut arguments = vec!["-n", "-r", name, "-T", "fields", "-E", "occurrence=f"];
    arguments.extend([
        "-o",
        "ip.defragment:TRUE",
        "-o",
        "tcp.desegment_tcp_streams:FALSE",
    ]);
    for field in fields {
        arguments.extend(["-e", field]);
    }
    let text = output("tshark", &arguments)?;
    let mut lines = Vec::new();
    for line in text.lines() {
        let value: BTreeMap<&str, &str> = fields.into_iter().zip(line.split('\t')).collect();
        let either = |a, b| {
            if value[a].is_empty() {
                value[b]
            } else {
                value[a]
            }
        };
        if either("tcp.srcport", "udp.srcport").is_empty() {
            continue;
        }
        let tcp = value["udp.length"].is_empty();
        let length = match tcp {
            true => value["tcp.len"].to_owned(),
            false => (value["udp.length"].parse::<u32>().expect("length") - 8).to_string(),
        };
        lines.push(format!(
            "{} {} {}:{} {}:{} {} seq {} ack {} {} win {} shift {} bytes {} id {}",
            value["frame.number"],
            value["frame.time_epoch"],
            either("ip.src", "ipv6.src"),
            either("tcp.srcport", "udp.srcport"),
            either("ip.dst", "ipv6.dst"),
            either("tcp.dstport", "udp.dstport"),
            if tcp { "tcp" } else { "udp" },
            value["tcp.seq_raw"],
            value["tcp.ack_raw"],
            value["tcp.flags"],
            value["tcp.window_size_value"],
            value["tcp.options.wscale.shift"],
            length,
            value["ip.id"],
        ));
    }
    Some(lines)
}

/// The same line of ours.
fn line(found: &Found) -> String {
    let segment = &found.0;
    let tcp = segment.transport == Transport::Tcp;
    let of_tcp = |text: String| if tcp { text } else { String::new() };
    let shift = match segment.window_scale {
        NO_SCALE => String::new(),
        shift => shift.to_string(),
    };
    let v4 = segment.source.host.address().is_ipv4();
    format!(
        "{} {}.{:09} {}:{} {}:{} {} seq {} ack {} {} win {} shift {} bytes {} id {}",
        segment.frame,
        segment.time_ns / 1_000_000_000,
        segment.time_ns % 1_000_000_000,
        segment.source.host,
        segment.source.port,
        segment.destination.host,
        segment.destination.port,
        segment.transport.name(),
        of_tcp(segment.sequence.to_string()),
        of_tcp(segment.acknowledgement.to_string()),
        of_tcp(format!("0x{:04x}", segment.flags)),
        of_tcp(segment.window.to_string()),
        shift,
        segment.payload_bytes,
        if v4 {
            format!("0x{:04x}", segment.ip_id)
        } else {
            String::new()
        },
    )
}

#[test]
fn every_segment_is_as_tshark_shows_it() {
    for path in captures() {
        let Some(expected) = tshark(&path) else {
            return;
        };
        let (found, _) = read(&path);
        assert!(!found.is_empty());
        for (ours, theirs) in found.iter().map(line).zip(&expected) {
            assert_eq!(&ours, theirs, "{}", path.display());
        }
        assert_eq!(found.len(), expected.len(), "{}", path.display());
    }
}

/// Packets, data bytes, first and last time by capinfos.
fn capinfos(path: &Path) -> Option<[String; 4]> {
    let name = path.to_str().expect("UTF-8");
    let text = output(
        "capinfos",
        &["-T", "-r", "-m", "-S", "-c", "-d", "-a", "-e", name],
    )?;
    let mut values = text
        .trim()
        .split(',')
        .skip(1)
        .map(|it| it.trim().trim_matches('"'));
    let mut next = || values.next().unwrap_or_default().to_owned();
    Some([next(), next(), next(), next()])
}

#[test]
fn totals_are_those_of_capinfos() {
    for path in captures() {
        let Some(expected) = capinfos(&path) else {
            return;
        };
        let (_, totals) = read(&path);
        let (first_ns, last_ns) = totals.times_ns.expect("frames");
        let time = |ns: i64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        let padded = |text: &str| {
            let (whole, fraction) = text.split_once('.').expect("seconds with fraction");
            format!("{whole}.{fraction:0<9}")
        };
        assert_eq!(totals.frames.to_string(), expected[0], "{}", path.display());
        assert_eq!(
            totals.wire_bytes.to_string(),
            expected[1],
            "{}",
            path.display()
        );
        assert_eq!(time(first_ns), padded(&expected[2]), "{}", path.display());
        assert_eq!(time(last_ns), padded(&expected[3]), "{}", path.display());
    }
}

/// Rewritten by editcap, a capture says the same.
#[test]
fn other_formats_of_one_capture_say_the_same() {
    let folder = tempfile::tempdir().expect("folder");
    for path in captures() {
        let (expected, _) = read(&path);
        for format in ["pcapng", "nsecpcap", "pcap"] {
            let copy = folder.path().join(format);
            let (from, to) = (path.to_str().expect("UTF-8"), copy.to_str().expect("UTF-8"));
            if output("editcap", &["-F", format, from, to]).is_none() {
                return;
            }
            let (found, totals) = read(&copy);
            assert!(found == expected, "{format} of {}", path.display());
            assert_eq!(totals.inputs, 1);
        }
    }
}

/// Cut by `editcap -s`, segments keep all but the payload behind the cut.
#[test]
fn a_short_snap_length_keeps_the_headers() {
    let folder = tempfile::tempdir().expect("folder");
    for path in captures() {
        let (whole, _) = read(&path);
        let copy = folder.path().join("cut");
        let (from, to) = (path.to_str().expect("UTF-8"), copy.to_str().expect("UTF-8"));
        if output("editcap", &["-F", "pcap", "-s", "96", from, to]).is_none() {
            return;
        }
        let (cut, totals) = read(&copy);
        assert!(totals.truncated_frames > 0);
        assert_eq!(cut.len(), whole.len(), "{}", path.display());
        for ((short, bytes), (long, all)) in cut.iter().zip(&whole) {
            assert_eq!(&all[..bytes.len()], &bytes[..]);
            let mut expected = *long;
            expected.captured_bytes = short.captured_bytes;
            assert_eq!(short, &expected, "{}", path.display());
        }
    }
}

/// The capture that is split into files by editcap is the whole one again.
#[test]
fn several_files_are_one_capture() {
    let folder = tempfile::tempdir().expect("folder");
    let path = captures()
        .into_iter()
        .find(|it| it.to_string_lossy().contains("v3_udp.pcap"));
    let path = path.expect("v3_udp");
    let (expected, whole) = read(&path);
    let pattern = folder.path().join("part.pcap");
    let (from, to) = (
        path.to_str().expect("UTF-8"),
        pattern.to_str().expect("UTF-8"),
    );
    if output("editcap", &["-F", "pcap", "-c", "1000", from, to]).is_none() {
        return;
    }
    let parts = std::fs::read_dir(folder.path()).expect("folder");
    let mut parts: Vec<PathBuf> = parts.filter_map(|it| Some(it.ok()?.path())).collect();
    parts.sort();
    assert!(parts.len() > 2);
    for reversed in [false, true] {
        if reversed {
            parts.reverse();
        }
        let inputs = parts.iter().cloned().map(Input::File).collect();
        let mut reader = Reader::open_within(inputs, Bounds::default()).expect("captures");
        let (found, totals) = drain(&mut reader).expect("readable");
        assert!(found == expected);
        assert_eq!(totals.inputs, parts.len() as u64);
        assert_eq!(totals.frames, whole.frames);
        let moved = totals
            .anomalies
            .iter()
            .find(|(kind, _)| *kind == "files_reordered");
        assert_eq!(moved.is_some(), reversed);
    }
}
