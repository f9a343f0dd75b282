//! Files and folders that are refused, files that grow.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::made::{pcap_header, pcap_packet, udp_frame};
use super::{drain, odd};
use crate::block::Block;
use crate::error::TraceError;
use crate::source::{Bounds, Input, Reader};

/// A capture of `count` packets, a second apart.
pub(super) fn capture(first_s: u32, count: u32) -> Vec<u8> {
    let mut out = pcap_header(0xa1b2_c3d4, 1, false);
    for number in 0..count {
        let frame = udp_frame(&number.to_be_bytes().repeat(50));
        pcap_packet(
            &mut out,
            [first_s + number, 0],
            frame.len() as u32,
            &frame,
            false,
        );
    }
    out
}

fn open(path: &Path) -> Result<Reader, TraceError> {
    Reader::open(vec![Input::File(path.to_owned())])
}

#[test]
fn what_cannot_be_opened() {
    let folder = tempfile::tempdir().expect("folder");
    let missing = folder.path().join("missing.pcap");
    assert!(matches!(open(&missing), Err(TraceError::Io { .. })));
    assert!(matches!(open(folder.path()), Err(TraceError::Directory(_))));
    let empty = folder.path().join("empty.pcap");
    fs::write(&empty, b"").expect("write");
    assert!(matches!(open(&empty), Err(TraceError::Empty(_))));
    let text = folder.path().join("notes.pcap");
    fs::write(&text, b"some notes\n").expect("write");
    let refused = open(&text).expect_err("refused").to_string();
    assert!(
        refused.ends_with("notes.pcap is not a packet capture: text"),
        "{refused}"
    );
    // One of several that cannot be read is told before anything is read.
    let good = folder.path().join("good.pcap");
    fs::write(&good, capture(10, 3)).expect("write");
    let inputs = [&good, &text].map(|path| Input::File(path.clone()));
    let refused = Reader::open(inputs.into())
        .expect_err("refused")
        .to_string();
    assert!(refused.contains("notes.pcap"), "{refused}");
}

#[test]
fn nothing_to_read_is_a_capture_without_packets() {
    let mut reader = Reader::open(Vec::new()).expect("a reader");
    assert!(!reader.read(&mut Block::default()).expect("the end"));
}

#[test]
fn a_file_that_grows_is_read_to_its_end_and_told() {
    // Read from the start; mapped in one window; mapped in several.
    for (window_bytes, first_bytes) in [(0, 5000), (1, 5000), (1, 50_000), (1 << 20, 50_000)] {
        grows(window_bytes, first_bytes);
    }
}

fn grows(window_bytes: usize, first_bytes: usize) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("growing.pcap");
    let whole = capture(10, 400);
    fs::write(&path, &whole[..first_bytes]).expect("write");
    let bounds = Bounds {
        block_bytes: 0,
        frame_bytes: 2048,
        fragment_bytes: 0,
        window_bytes,
        ..Bounds::default()
    };
    let inputs = vec![Input::File(path.clone())];
    let mut reader = Reader::open_within(inputs, bounds).expect("a capture");
    assert_eq!(reader.is_mapped(), window_bytes > 0);
    assert_eq!(reader.watcher().total_bytes(), Some(first_bytes as u64));
    let mut file = OpenOptions::new().append(true).open(&path).expect("open");
    file.write_all(&whole[first_bytes..60_000]).expect("write");
    let (found, totals) = drain(&mut reader).expect("readable");
    // Packets of 16 + 242 bytes behind a header of 24, the last of them cut.
    assert_eq!(found.len(), (60_000 - 24) / 258);
    assert_eq!(odd(&totals), [("cut_at_end", 1), ("file_grew", 1)]);
    assert_eq!(reader.watcher().read_bytes(), 60_000);
    assert_eq!(reader.watcher().frames(), found.len() as u64);
}

#[test]
fn an_open_file_is_a_stream_of_known_size() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("x.pcap");
    fs::write(&path, capture(10, 5)).expect("write");
    let descriptor = OwnedFd::from(fs::File::open(&path).expect("open"));
    let name = "standard input".to_owned();
    let mut reader = Reader::open(vec![Input::Stream { name, descriptor }]).expect("a capture");
    assert_eq!(reader.watcher().total_bytes(), Some(24 + 5 * 258));
    assert_eq!(drain(&mut reader).expect("readable").0.len(), 5);
}

#[test]
fn files_captured_side_by_side_are_told() {
    let folder = tempfile::tempdir().expect("folder");
    let read = |starts: &[(u32, u32)]| {
        let mut inputs = Vec::new();
        for (number, (first_s, count)) in starts.iter().enumerate() {
            let path = folder.path().join(format!("{number}"));
            fs::write(&path, capture(*first_s, *count)).expect("write");
            inputs.push(Input::File(path));
        }
        let mut reader = Reader::open(inputs).expect("captures");
        let (found, totals) = drain(&mut reader).expect("readable");
        (found.len(), odd(&totals))
    };
    // One after another: as a capture tool that begins a new file leaves them.
    assert_eq!(read(&[(100, 10), (109, 10), (119, 2)]), (22, vec![]));
    // Side by side, or the same one twice: nothing is merged, so it is told.
    let overlap = vec![("files_overlap", 1), ("time_went_back", 1)];
    assert_eq!(read(&[(100, 10), (105, 10)]), (20, overlap.clone()));
    assert_eq!(read(&[(100, 10), (100, 10)]), (20, overlap));
    let within = vec![("files_overlap", 2), ("time_went_back", 1)];
    assert_eq!(read(&[(100, 50), (105, 10), (116, 10)]), (70, within));
}

#[test]
fn files_are_put_in_the_order_of_their_times() {
    let folder = tempfile::tempdir().expect("folder");
    let mut inputs = Vec::new();
    for (name, first_s, count) in [("b", 200, 3), ("none", 0, 0), ("a", 100, 3), ("c", 300, 3)] {
        let path = folder.path().join(name);
        fs::write(&path, capture(first_s, count)).expect("write");
        inputs.push(Input::File(path));
    }
    let mut reader = Reader::open(inputs).expect("captures");
    let (found, totals) = drain(&mut reader).expect("readable");
    let seconds: Vec<i64> = found
        .iter()
        .map(|it| it.0.time_ns / 1_000_000_000)
        .collect();
    assert_eq!(seconds, [100, 101, 102, 200, 201, 202, 300, 301, 302]);
    let frames: Vec<u64> = found.iter().map(|it| it.0.frame).collect();
    assert_eq!(frames, (1..=9).collect::<Vec<_>>());
    // All but the last stand elsewhere: b, the empty one behind it, and a.
    assert_eq!(odd(&totals), [("files_reordered", 2)]);
    assert_eq!(totals.inputs, 4);
}
