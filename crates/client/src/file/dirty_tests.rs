//! Tests of what is kept: against an array of bytes.

use super::*;
use proptest::prelude::*;

fn piece(offset: u64, length: usize, value: u8) -> Piece {
    let data = SharedBytes::new(vec![value; length]);
    Piece {
        offset,
        data,
        number: 0,
    }
}

proptest! {
    /// Against an array of bytes, the plainest model there is.
    #[test]
    fn what_is_kept_is_the_newest_of_each_byte(
        writes in proptest::collection::vec((0_u64..60, 1_usize..30, any::<bool>()), 1..40),
        committed_after in 0_usize..40,
    ) {
        let mut dirty = Dirty::default();
        let mut model = [None; 100];
        for (number, (offset, length, lost)) in writes.iter().enumerate() {
            let value = u8::try_from(number).unwrap();
            let new = piece(*offset, *length, value);
            dirty.supersede(new.offset, new.end());
            if *lost {
                dirty.keep_unsent(new);
            } else {
                dirty.keep_uncommitted(new, [1; 8]);
            }
            let start = usize::try_from(*offset).unwrap();
            model[start..start + length].fill(Some(value));
            if number == committed_after {
                dirty.cover();
                // Another verifier: all of it has to be sent again, nothing changes.
                dirty.committed([2; 8]);
            }
        }
        let kept = model.iter().filter(|byte| byte.is_some()).count() as u64;
        prop_assert_eq!(dirty.kept_bytes(), kept);
        dirty.cover();
        dirty.committed([2; 8]);
        let mut found = [None; 100];
        while let Some(piece) = dirty.take_unsent() {
            for (index, byte) in piece.data.as_slice().iter().enumerate() {
                let place = &mut found[usize::try_from(piece.offset).unwrap() + index];
                prop_assert_eq!(*place, None, "pieces overlap");
                *place = Some(*byte);
            }
        }
        prop_assert_eq!(found, model);
        prop_assert_eq!(dirty.kept_bytes(), 0);
    }
}

#[test]
fn what_was_written_is_laid_over_what_the_server_has() {
    let mut dirty = Dirty::default();
    assert!(dirty.overlay(0, 100).is_none());
    dirty.keep_uncommitted(piece(4, 4, 1), [1; 8]);
    dirty.begin(piece(10, 2, 2));
    let mut lay = |offset, wanted, mut bytes: Vec<u8>| {
        let overlay = dirty.overlay(offset, offset + wanted as u64).unwrap();
        let end = overlay.apply(offset, wanted, &mut bytes);
        (bytes, end)
    };
    let all = vec![9, 9, 9, 9, 1, 1, 1, 1, 0, 0, 2, 2];
    assert_eq!(lay(0, 50, vec![9; 6]), (all.clone(), true));
    assert_eq!(lay(6, 3, vec![]), (vec![1, 1, 0], false));
    assert_eq!(lay(11, 5, vec![]), (vec![2], true));
    assert_eq!(lay(12, 5, vec![]), (vec![], true));
    assert_eq!(lay(2, 3, vec![7; 3]), (vec![7, 7, 1], false));
}

#[test]
fn a_commit_covers_only_what_was_there_when_it_was_sent() {
    let mut dirty = Dirty::default();
    dirty.keep_uncommitted(piece(0, 10, 1), [1; 8]);
    assert!(dirty.cover());
    dirty.keep_uncommitted(piece(20, 10, 2), [1; 8]);
    assert_eq!(dirty.committed([1; 8]), 0);
    assert_eq!(
        dirty.kept_bytes(),
        10,
        "the later one waits for the next COMMIT"
    );
    assert!(dirty.cover());
    assert_eq!(dirty.committed([9; 8]), 1);
    assert!(dirty.any_unsent() && !dirty.cover());
}

#[test]
fn what_waits_for_an_answer_is_newer_than_what_was_answered() {
    let mut dirty = Dirty::default();
    dirty.gather(0, &[1; 10], 10);
    let first = dirty.next_to_send(100).unwrap();
    dirty.gather(4, &[2; 3], 3);
    assert!(dirty.next_to_send(100).is_none(), "it overlaps");
    let mut bytes = vec![0; 10];
    dirty.overlay(0, 10).unwrap().apply(0, 10, &mut bytes);
    assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 1, 1, 1]);
    dirty.end(first.offset);
    dirty.keep_for_later(first.clone());
    assert_eq!(dirty.kept_bytes(), 10, "each byte is kept once");
    dirty.now();
    let sent: Vec<_> = std::iter::from_fn(|| dirty.next_to_send(100)).collect();
    let places: Vec<_> = sent.iter().map(|p| (p.offset, p.data.len())).collect();
    assert_eq!(places, [(0, 4), (4, 3), (7, 3)]);
    assert!(dirty.any_unanswered(1) && !dirty.any_unanswered(0));
}

#[test]
fn neighbours_are_gathered_and_others_are_not() {
    let mut dirty = Dirty::default();
    for (offset, bytes) in [(10, vec![1; 4]), (14, vec![2; 4]), (12, vec![3; 8])] {
        dirty.gather(offset, &bytes, 100);
    }
    assert!(dirty.only_gathered());
    dirty.gather(9, &[4], 100);
    assert!(!dirty.only_gathered() && dirty.next_to_send(100).is_none());
    // Into the second run, which leaves the first no room to grow.
    dirty.gather(10, &[5; 3], 100);
    let first = dirty.next_to_send(100).unwrap();
    assert_eq!((first.offset, first.data.as_slice()), (9, &[4][..]));
    assert!(dirty.next_to_send(100).is_none());
    dirty.end_gathering();
    let second = dirty.next_to_send(100).unwrap();
    assert_eq!(second.offset, 10);
    assert_eq!(second.data.as_slice(), [5, 5, 5, 3, 3, 3, 3, 3, 3, 3]);
}

#[test]
fn what_nobody_writes_to_any_more_is_old_and_what_is_written_to_is_not() {
    let mut dirty = Dirty::default();
    dirty.gather(0, &[1; 4], 100);
    assert!(!dirty.end_old_gathering(), "it was never looked at before");
    dirty.gather(50, &[2; 4], 100);
    dirty.gather(20, &[2; 4], 100);
    assert!(dirty.end_old_gathering());
    let sent = |dirty: &mut Dirty| dirty.next_to_send(100).map(|piece| piece.offset);
    assert_eq!((sent(&mut dirty), sent(&mut dirty)), (Some(0), None));
    // Written to again, or grown: young.
    dirty.gather(50, &[3; 4], 100);
    assert!(dirty.end_old_gathering());
    assert_eq!((sent(&mut dirty), sent(&mut dirty)), (Some(20), None));
    assert!(dirty.end_old_gathering());
    assert_eq!(sent(&mut dirty), Some(50));
    assert!(!dirty.end_old_gathering());
}

/// PostgreSQL 15 extends a table by a page of zeroes and fills it later, while others come behind.
#[test]
fn two_places_written_in_turn_are_gathered_each() {
    let mut dirty = Dirty::default();
    for page in 0..40_u64 {
        dirty.gather(page * 8, &[0; 8], 64);
        if let Some(behind) = page.checked_sub(20) {
            dirty.gather(behind * 8, &[1; 8], 64);
        }
    }
    dirty.end_gathering();
    let sent = std::iter::from_fn(|| dirty.next_to_send(u64::MAX));
    let sent: Vec<_> = sent.map(|piece| (piece.offset, piece.data.len())).collect();
    // The first 20 pages filled: two full runs and a half; then zeroes, the first half cut off.
    let filled = [(0, 64), (64, 64), (128, 32)];
    let zeroes = [(160, 32), (192, 64), (256, 64)];
    assert_eq!(sent, [filled, zeroes].concat());
}

proptest! {
    /// However writes fall, what is sent in order and what still waits make up the newest bytes.
    #[test]
    fn gathered_bytes_are_the_newest(
        writes in proptest::collection::vec((0_u64..200, 1_usize..30), 1..120),
        limit in 1_usize..40,
        read_at in proptest::option::of(0_u64..200),
    ) {
        let mut dirty = Dirty::default();
        let (mut model, mut server) = ([0; 240], [0; 240]);
        for (number, (offset, length)) in writes.iter().enumerate() {
            let value = u8::try_from(number + 1).unwrap();
            dirty.gather(*offset, &vec![value; *length], limit);
            let start = usize::try_from(*offset).unwrap();
            model[start..start + length].fill(value);
            prop_assert!(dirty.gathered_bytes() <= 16 * limit.max(30) as u64);
            if let Some(at) = read_at {
                let start = usize::try_from(at).unwrap();
                let mut seen = server[start..start + 20].to_vec();
                if let Some(overlay) = dirty.overlay(at, at + 20) {
                    overlay.apply(at, 20, &mut seen);
                }
                prop_assert_eq!(&seen, &model[start..start + 20]);
            }
            send_all(&mut dirty, &mut server);
        }
        dirty.end_gathering();
        send_all(&mut dirty, &mut server);
        prop_assert_eq!(server, model);
        prop_assert!(dirty.is_clean());
    }
}

fn send_all(dirty: &mut Dirty, server: &mut [u8]) {
    while let Some(piece) = dirty.next_to_send(u64::MAX) {
        let start = usize::try_from(piece.offset).unwrap();
        server[start..start + piece.data.len()].copy_from_slice(piece.data.as_slice());
        dirty.end(piece.offset);
    }
}

#[test]
fn touching_is_not_overlapping() {
    let mut dirty = Dirty::default();
    dirty.begin(piece(10, 10, 1));
    for (from, to, overlaps) in [
        (0, 10, false),
        (20, 30, false),
        (0, 11, true),
        (19, 20, true),
    ] {
        assert_eq!(dirty.is_in_flight(from, to), overlaps, "{from}..{to}");
    }
    dirty.end(10);
    assert_eq!((dirty.in_flight_bytes(), dirty.any_in_flight()), (0, false));
}
