//! Pipes and threads: prompt blocks, stops, errors that pass through.

use std::fs::File;
use std::io::{PipeWriter, Write, pipe};
use std::os::fd::OwnedFd;

use super::made::{pcap_header, pcap_packet, udp_frame};
use crate::block::Block;
use crate::error::TraceError;
use crate::limits::{BLOCK_BYTES, BLOCKS};
use crate::source::{Blocks, Input, Reader, Totals, spawn};

fn packet(number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let frame = udp_frame(&number.to_be_bytes().repeat(100));
    let seconds = 1_700_000_000 + number / 1000;
    pcap_packet(
        &mut out,
        [seconds, number % 1000],
        frame.len() as u32,
        &frame,
        false,
    );
    out
}

fn header() -> Vec<u8> {
    pcap_header(0xa1b2_c3d4, 1, false)
}

fn piped() -> (Reader, PipeWriter) {
    let (read, write) = pipe().expect("a pipe");
    let input = Input::Stream {
        name: "standard input".to_owned(),
        descriptor: OwnedFd::from(read),
    };
    (
        Reader::open(vec![input]).expect("opening a pipe reads nothing"),
        write,
    )
}

#[test]
fn a_slow_writer_does_not_hold_packets_back() {
    let (mut reader, mut write) = piped();
    assert_eq!(reader.watcher().total_bytes(), None);
    let mut block = Block::default();
    write.write_all(&header()).expect("write");
    // Each packet is handed on though the writer neither writes more nor closes; half a one stays.
    for number in 0..3 {
        let bytes = packet(number);
        write.write_all(&bytes[..200]).expect("write");
        if number > 0 {
            write.write_all(&bytes[200..]).expect("write");
            assert!(reader.read(&mut block).expect("readable"));
            assert_eq!(block.frames, 1);
        } else {
            write.write_all(&bytes[200..]).expect("write");
            assert!(reader.read(&mut block).expect("readable"));
        }
        assert_eq!(block.segments.len(), 1);
        assert_eq!(block.segments[0].frame, u64::from(number) + 1);
        assert_eq!(
            block.payload(&block.segments[0]),
            number.to_be_bytes().repeat(100)
        );
    }
    drop(write);
    assert!(!reader.read(&mut block).expect("the end"));
}

#[test]
fn a_reader_that_waits_can_be_stopped() {
    let (mut reader, mut write) = piped();
    let watcher = reader.watcher();
    // Before the first byte, and within a packet.
    watcher.stop();
    let mut block = Block::default();
    assert!(matches!(
        reader.read(&mut block),
        Err(TraceError::Interrupted)
    ));
    let (reader, _open) = piped();
    let watcher = reader.watcher();
    let mut blocks = spawn(reader).expect("a thread");
    watcher.stop();
    assert!(matches!(blocks.next_block(), Err(TraceError::Interrupted)));
    write.write_all(&header()).expect("write");
}

#[test]
fn blocks_pass_between_threads_and_come_back() {
    blocks_come_back(|reader| spawn(reader).expect("a thread"));
}

#[test]
fn blocks_that_are_read_here_come_back() {
    blocks_come_back(Blocks::read_here);
}

fn blocks_come_back(of: fn(Reader) -> Blocks) {
    const PACKETS: u32 = 20_000;
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("x.pcap");
    let mut file = File::create(&path).expect("create");
    file.write_all(&header()).expect("write");
    for number in 0..PACKETS {
        file.write_all(&packet(number)).expect("write");
    }
    let reader = Reader::open(vec![Input::File(path)]).expect("a capture");
    let watcher = reader.watcher();
    let mut blocks = of(reader);
    let (mut number, mut count) = (0_u32, 0);
    while let Some(block) = blocks.next_block().expect("readable") {
        assert!(block.bytes.len() <= BLOCK_BYTES);
        for segment in &block.segments {
            assert_eq!(block.payload(segment), number.to_be_bytes().repeat(100));
            number += 1;
        }
        count += 1;
        blocks.recycle(block);
    }
    assert_eq!(number, PACKETS);
    assert!(count > BLOCKS);
    assert!(blocks.next_block().expect("the end").is_none());
    assert_eq!(blocks.totals().frames, u64::from(PACKETS));
    assert_eq!(watcher.frames(), u64::from(PACKETS));
    assert_eq!(Some(watcher.read_bytes()), watcher.total_bytes());
}

#[test]
fn errors_pass_through_after_what_was_good() {
    errors_pass_through(|reader| spawn(reader).expect("a thread"));
    errors_pass_through(Blocks::read_here);
}

fn errors_pass_through(of: fn(Reader) -> Blocks) {
    let (reader, mut write) = piped();
    let mut blocks = of(reader);
    write.write_all(b"no capture").expect("write");
    drop(write);
    let refused = blocks.next_block().expect_err("refused").to_string();
    assert_eq!(refused, "standard input is not a packet capture: text");
    assert!(blocks.next_block().expect("the end").is_none());
    assert_eq!(blocks.totals(), &Totals::default());
    let (reader, write) = piped();
    drop(write);
    let mut blocks = of(reader);
    assert!(matches!(blocks.next_block(), Err(TraceError::Empty(_))));
}

#[test]
fn blocks_that_nobody_wants_end_the_thread() {
    let (reader, mut write) = piped();
    let blocks = spawn(reader).expect("a thread");
    write.write_all(&header()).expect("write");
    write.write_all(&packet(1)).expect("write");
    // Joins the thread, which waits for the pipe.
    drop(blocks);
}
