//! Mapped files give what read ones give; those that are cut short meanwhile give an error.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use proptest::prelude::*;

use super::inputs::capture;
use super::made::{enhanced, interface, pcap_header, pcap_packet, section, udp_frame};
use super::{drain, small};
use crate::block::Block;
use crate::error::TraceError;
use crate::source::window::{SLOTS, Window, page_bytes};
use crate::source::{Bounds, Input, Reader};

/// Bytes of the captures that are cut short: several blocks and windows.
const PACKETS: u32 = 1000;

fn open(path: &Path, window_bytes: usize) -> Reader {
    let bounds = Bounds {
        window_bytes,
        ..small()
    };
    let inputs = vec![Input::File(path.to_owned())];
    let reader = Reader::open_within(inputs, bounds).expect("a capture");
    assert_eq!(reader.is_mapped(), window_bytes > 0);
    reader
}

fn cut(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("open");
    file.set_len(bytes).expect("cut");
}

fn is_cut_short(error: &TraceError, path: &Path) {
    let expected = format!(
        "{}: the file was cut short while it was read",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_mapped_file_gives_what_a_read_one_gives(
        lengths in prop::collection::vec(0..1400_usize, 1..300),
        damaged in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        next_generation: bool,
        block_bytes in prop_oneof![Just(0_usize), 18_000..40_000_usize],
    ) {
        let mut stored = match next_generation {
            true => [section(false), interface(1, 0, &[], false)].concat(),
            false => pcap_header(0xa1b2_c3d4, 1, true),
        };
        for (number, length) in (1_700_000_000_u32..).zip(&lengths) {
            let frame = udp_frame(&vec![number as u8; *length]);
            match next_generation {
                true => {
                    let time = u64::from(number) * 1_000_000;
                    stored.extend(enhanced(0, time, &frame, &[], false));
                }
                false => {
                    pcap_packet(&mut stored, [number, 1], frame.len() as u32, &frame, true);
                }
            }
        }
        for (place, byte) in damaged {
            let behind_headers = 60.min(stored.len());
            if let Some(spoilt) = stored.get_mut(behind_headers..).filter(|it| !it.is_empty()) {
                spoilt[place.index(spoilt.len())] = byte;
            }
        }
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("x");
        fs::write(&path, &stored).expect("write");
        let read = |window_bytes| {
            let bounds = Bounds { window_bytes, block_bytes, ..small() };
            let inputs = vec![Input::File(path.clone())];
            let mut reader = Reader::open_within(inputs, bounds).expect("a capture");
            let found = drain(&mut reader).expect("readable");
            (found, reader.watcher().read_bytes())
        };
        let expected = read(0);
        prop_assert_eq!(expected.1, stored.len() as u64);
        prop_assert!(read(1) == expected);
        prop_assert!(read(1 << 20) == expected);
    }
}

/// Several windows of huge pages, each of which begins in front of the next packet.
#[test]
fn large_windows_give_what_reading_gives() {
    let mut stored = pcap_header(0xa1b2_c3d4, 1, true);
    for number in 0..16_000_u32 {
        let frame = udp_frame(&vec![number as u8; 1 + number as usize % 1400]);
        let time = [1_700_000_000 + number, 1];
        pcap_packet(&mut stored, time, frame.len() as u32, &frame, true);
    }
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("x.pcap");
    fs::write(&path, &stored).expect("write");
    let found = |window_bytes| drain(&mut open(&path, window_bytes)).expect("readable");
    let expected = found(0);
    assert_eq!(expected.1.frames, 16_000);
    assert!(found(4 << 20) == expected);
    assert!(found(6 << 20) == expected);
}

#[test]
fn a_file_that_is_cut_short_is_an_error_and_no_crash() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("x.pcap");
    let whole = capture(10, PACKETS);
    // Read; one window; several windows.
    for window_bytes in [0, 1 << 20, 1] {
        fs::write(&path, &whole).expect("write");
        let mut reader = open(&path, window_bytes);
        let mut block = Block::default();
        assert!(reader.read(&mut block).expect("good so far"));
        block.verify().expect("good so far");
        cut(&path, 4096);
        let last = *block.segments.last().expect("segments");
        let payload = block.payload(&last).to_vec();
        if window_bytes > 0 {
            // Nothing is left there but zeroes, and that is told.
            assert_eq!(payload, vec![0; 200]);
            is_cut_short(&block.verify().expect_err("told"), &path);
        } else {
            assert_ne!(payload, vec![0; 200]);
            block.verify().expect("a copy stays good");
        }
        is_cut_short(&reader.read(&mut block).expect_err("told"), &path);
    }
}

#[test]
fn a_cut_within_a_page_is_told_though_no_signal_comes() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("x.pcap");
    let whole = capture(10, 30);
    assert!(whole.len() % page_bytes() > 300);
    fs::write(&path, &whole).expect("write");
    let mut reader = open(&path, 1);
    let mut block = Block::default();
    assert!(reader.read(&mut block).expect("good so far"));
    cut(&path, whole.len() as u64 - 200);
    is_cut_short(&block.verify().expect_err("told"), &path);
}

#[test]
fn bytes_that_are_not_there_are_zeroes_and_their_window_torn() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("x");
    let page = page_bytes();
    fs::write(&path, vec![7; 3 * page]).expect("write");
    let file = File::open(&path).expect("open");
    let window = Window::map(&file, page as u64, 2 * page).expect("mapped");
    let other = Window::map(&file, 0, page).expect("mapped");
    assert_eq!(window.bytes(), vec![7; 2 * page]);
    cut(&path, 2 * page as u64);
    assert_eq!(window.bytes()[..page], vec![7; page]);
    assert!(!window.is_torn());
    assert_eq!(window.bytes()[page..], vec![0; page]);
    assert!(window.is_torn() && !other.is_torn());
    assert_eq!(other.bytes(), vec![7; page]);
    drop(window);
    // The slot forgets.
    let windows: Vec<Window> = (0..SLOTS / 4)
        .map_while(|_| Window::map(&file, 0, page))
        .collect();
    assert!(!windows.is_empty() && windows.iter().all(|it| !it.is_torn()));
}
