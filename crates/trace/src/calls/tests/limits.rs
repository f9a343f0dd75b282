//! When calls are given out, and what happens at the bounds.

use super::*;
use crate::call::{Outcome, marks};
use crate::limits::{MAX_OPEN_CALLS, MAX_SETTLING_CALLS, SETTLING_NS, UNANSWERED_NS};

const HANDLE: &[u8] = b"handle-0123456789";

fn given_out(capture: &mut Capture) -> usize {
    capture.calls.output_mut().calls.len()
}

#[test]
fn an_answered_call_settles_with_time() {
    let mut capture = Capture::new();
    capture.pair(&getattr(1, HANDLE), &getattr_reply(1));
    capture.now_ns += SETTLING_NS - 2 * MS;
    capture.message(true, &getattr(2, HANDLE));
    assert_eq!(given_out(&mut capture), 0);
    capture.message(true, &getattr(3, HANDLE));
    assert_eq!(given_out(&mut capture), 1);
    let (seen, anomalies) = capture.end();
    assert_eq!((seen.calls.len(), anomalies), (3, vec![]));
}

#[test]
fn an_answered_call_settles_with_many_behind_it() {
    let mut capture = Capture::new();
    for xid in 0..MAX_SETTLING_CALLS as u32 + 10 {
        capture.now_ns -= 2 * MS;
        capture.pair(&getattr(xid, HANDLE), &getattr_reply(xid));
    }
    assert_eq!(given_out(&mut capture), 9);
    let (seen, anomalies) = capture.end();
    assert_eq!(
        (seen.calls.len(), anomalies),
        (MAX_SETTLING_CALLS + 10, vec![])
    );
}

#[test]
fn an_unanswered_call_holds_the_others_back_but_not_for_ever() {
    let mut capture = Capture::new();
    capture.message(true, &getattr(0, HANDLE));
    capture.now_ns += 10 * MS;
    for xid in 1..=MAX_OPEN_CALLS as u32 {
        capture.now_ns -= 2 * MS;
        capture.pair(&getattr(xid, HANDLE), &getattr_reply(xid));
    }
    assert!(given_out(&mut capture) > MAX_OPEN_CALLS - MAX_SETTLING_CALLS - 10);
    // Its reply comes too late.
    capture.message(false, &getattr_reply(0));
    let (seen, anomalies) = capture.end();
    assert_eq!(
        anomalies,
        [("reply_without_call", 1), ("calls_beyond_limit", 1)]
    );
    assert_eq!(seen.calls.len(), MAX_OPEN_CALLS + 1);
    assert_eq!(
        (seen.calls[0].marks, seen.calls[0].outcome),
        (marks::EVICTED, Outcome::Unanswered)
    );
    assert!(
        seen.calls
            .iter()
            .skip(1)
            .all(|call| call.marks == 0 && call.replies == 1)
    );
    assert!(seen.calls.is_sorted_by_key(|call| call.xid));
}

#[test]
fn a_call_never_answered_is_given_up_after_long_silence() {
    let mut capture = Capture::new();
    capture.message(true, &getattr(1, HANDLE));
    capture.now_ns += UNANSWERED_NS - MS;
    // Sent again: the silence begins anew.
    capture.message(true, &getattr(1, HANDLE));
    capture.message(true, &getattr(2, HANDLE));
    assert_eq!(given_out(&mut capture), 0);
    capture.now_ns += UNANSWERED_NS - 2 * MS;
    capture.message(true, &getattr(3, HANDLE));
    assert_eq!(given_out(&mut capture), 1);
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, [("calls_expired", 1)]);
    let evicted: Vec<bool> = seen
        .calls
        .iter()
        .map(|call| call.has(marks::EVICTED))
        .collect();
    assert_eq!(evicted, [true, false, false]);
}
