//! Servers that stall, clients that pause or wait, and what is neither.

use super::*;

#[test]
fn a_server_that_answers_nothing_is_stalled() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    // Four calls wait; the server comes back at 1700 ms and answers all at once.
    for lane in 0..4 {
        capture.call(
            read((1000 + lane) * MS, Some(1700 * MS + lane * 1000)),
            &[],
            &[],
        );
    }
    busy(&mut capture, 1701, 3000);
    let json = shown(capture, 3000 * MS);
    assert_eq!(gaps(&json), [gap("server_stalled", "server", 1000, 700)]);
    let found = &json["gaps"][0];
    assert_eq!(number(found, "/length_ns"), 700 * MS);
    assert_eq!(number(found, "/not_longer_than_ns"), 700 * MS + MS / 2);
    assert_eq!(number(found, "/outstanding_at_begin"), 1);
    assert_eq!(number(found, "/outstanding_peak"), 4);
    assert_eq!(number(found, "/calls_sent"), 4);
    let frame = |pointer: &str| number(found, pointer).unsigned_abs();
    assert_eq!(frame("/frame_before"), stamp(1000 * MS).frame);
    assert_eq!(frame("/frame_after"), stamp(1700 * MS).frame);
    assert_eq!(
        found["evidence"],
        "server 10.0.0.1 answered nothing for 0.700 s while up to 4 calls were outstanding"
    );
    let look = &json["closer_look"][0];
    assert_eq!(look["what"], "longest gap: server stalled");
    assert!(number(look, "/from_ns") < 999 * MS && number(look, "/from_ns") > 700 * MS);
    assert_eq!(number(look, "/to_ns"), 1840 * MS);
    assert_eq!(number(&json, "/totals/server_stalled/count"), 1);
    assert_eq!(number(&json, "/totals/server_stalled/time_ns"), 700 * MS);
}

#[test]
fn a_stalled_server_is_not_taken_for_loss_when_calls_are_sent_again() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    // As a stopped server does: all sends are answered when it goes on. The last retransmission of
    // the first call comes by chance just before.
    capture.call(
        read(1000 * MS, Some(2500 * MS)),
        &[1500 * MS, 2499 * MS],
        &[2501 * MS, 2502 * MS],
    );
    capture.call(read(1001 * MS, Some(2501 * MS)), &[1501 * MS], &[2503 * MS]);
    busy(&mut capture, 2504, 3500);
    let json = shown(capture, 3500 * MS);
    assert_eq!(gaps(&json), [gap("server_stalled", "server", 1000, 1500)]);
    assert_eq!(number(&json["gaps"][0], "/retransmissions"), 3);
    let evidence = json["gaps"][0]["evidence"].as_str().unwrap();
    assert!(
        evidence.ends_with("; calls were sent again 3 times"),
        "{evidence}"
    );
    assert_eq!(number(&json, "/totals/lost_calls/count"), 0);
}

#[test]
fn a_server_that_was_never_asked_again_was_stalled_beside_one_that_was() {
    // The same without second replies (a reply cache that drops what it works on): a call that
    // waited through and was not sent again shows that the server had it.
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(1000 * MS, Some(2100 * MS)), &[2099 * MS], &[]);
    capture.call(read(1001 * MS, Some(2101 * MS)), &[], &[]);
    busy(&mut capture, 2102, 3000);
    let json = shown(capture, 3000 * MS);
    assert_eq!(gaps(&json), [gap("server_stalled", "server", 1000, 1100)]);
}

#[test]
fn a_client_that_sends_nothing_has_paused() {
    let pause = |acknowledged: bool| {
        let mut capture = Capture::default();
        busy(&mut capture, 0, 1000);
        if acknowledged {
            capture.transport(1040 * MS, 0, true, ALONE);
        }
        busy(&mut capture, 4000, 5000);
        shown(capture, 5000 * MS)
    };
    // Calls may have been lost in front of the capture point, ...
    assert_eq!(gaps(&pause(false)), [gap("unknown", "server", 999, 3000)]);
    // ... unless the client's host had none to acknowledge the last reply with.
    let json = pause(true);
    assert_eq!(gaps(&json), [gap("client_paused", "server", 999, 3000)]);
    assert_eq!(
        json["gaps"][0]["evidence"],
        "10.0.0.2 sent nothing to server 10.0.0.1 for 3.001 s: nothing was outstanding"
    );
}

#[test]
fn with_servers_that_are_not_followed_nobody_is_said_to_have_paused() {
    let pause = |others: usize| {
        let mut capture = Capture::default();
        busy(&mut capture, 0, 1000);
        capture.transport(1040 * MS, 0, true, ALONE);
        busy(&mut capture, 4000, 5000);
        for other in 0..others as u32 {
            let mut call = read(500 * MS, Some(501 * MS));
            call.server = endpoint(7, 3000 + other as u16);
            call.connection = 100 + other;
            capture.call(call, &[], &[]);
        }
        let found = gaps(&shown(capture, 5000 * MS)).into_iter();
        found.filter(|gap| gap.2 == 999).collect::<Vec<_>>()
    };
    // One is the busy one; what the last one had outstanding is not known.
    for (others, kind) in [(MAX_SERVERS - 1, "client_paused"), (MAX_SERVERS, "unknown")] {
        assert_eq!(pause(others), [gap(kind, "server", 999, 3000)], "{others}");
    }
}

/// An acknowledgement without data.
const ALONE: TransportKind = TransportKind::Acknowledged {
    round_trip_ns: None,
    window_bytes: 0,
    window_known: false,
};

#[test]
fn a_call_that_is_never_answered_makes_no_stall_and_no_pause() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(500 * MS + 1, None), &[], &[]);
    capture.transport(1040 * MS, 0, true, ALONE);
    busy(&mut capture, 4000, 5000);
    let json = shown(capture, 5000 * MS);
    // The client rests, or waits for that call.
    assert_eq!(gaps(&json), [gap("unknown", "server", 999, 3000)]);
    assert_eq!(number(&json, "/unanswered/calls"), 1);
    let longest = &json["unanswered"]["longest"][0];
    assert_eq!(number(longest, "/waited_ns"), 4500 * MS - 1);
}

#[test]
fn a_pause_and_the_stall_behind_it_are_told_apart() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.transport(1040 * MS, 0, true, ALONE);
    capture.call(read(2000 * MS, Some(2600 * MS)), &[], &[]);
    busy(&mut capture, 2601, 4000);
    let json = shown(capture, 4000 * MS);
    assert_eq!(
        gaps(&json),
        [
            gap("client_paused", "server", 999, 1000),
            gap("server_stalled", "server", 2000, 600)
        ]
    );
}

#[test]
fn what_is_usual_is_no_gap() {
    // A slow server: every call takes 80 ms, one at a time, and one 200 ms.
    let mut capture = Capture::default();
    capture.lane(read(0, None), [0, 20_000 * MS], 81 * MS, 80 * MS);
    capture.lane(read(0, None), [20_007 * MS, 20_008 * MS], MS, 200 * MS);
    capture.lane(read(0, None), [20_208 * MS, 30_000 * MS], 81 * MS, 80 * MS);
    assert_eq!(gaps(&shown(capture, 30_000 * MS)), []);
    // And a quick one that once takes 49 ms: below the floor.
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(1000 * MS, Some(1049 * MS)), &[], &[]);
    busy(&mut capture, 1050, 2000);
    assert_eq!(gaps(&shown(capture, 2000 * MS)), []);
}

#[test]
fn one_client_that_waits_while_others_are_answered() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 4000);
    for second in 0..4 {
        for step in 0..100 {
            let send = second * 1000 + step * 5;
            let stop = second == 2 && step == 99;
            let reply = if stop { send + 400 } else { send + 1 };
            capture.call(client(3, 1, send, Some(reply)), &[], &[]);
        }
    }
    let json = shown(capture, 4000 * MS);
    assert_eq!(gaps(&json), [gap("client_waited", "client", 2495, 400)]);
    assert_eq!(json["gaps"][0]["client"], "10.0.0.3");
    assert_eq!(number(&json["servers"][0], "/clients"), 2);
    // Its silences (two of 500 ms, one behind its wait, one at the end) are in its own totals: that
    // of 105 ms is shorter than a timeout, so that nothing can have been lost in it.
    let quiet = json["clients"].as_array().unwrap().iter();
    let quiet = quiet
        .clone()
        .find(|pair| pair["client"] == "10.0.0.3")
        .unwrap();
    assert_eq!(number(quiet, "/gaps/client_paused/count"), 1);
    assert_eq!(number(quiet, "/gaps/unknown/count"), 3);
    assert_eq!(number(&json, "/totals/client_paused/count"), 0);
}

#[test]
fn a_stall_of_the_server_is_named_once_however_many_clients_wait() {
    let mut capture = Capture::default();
    for last in 2..6 {
        for step in (0..1000).chain(1700..2500) {
            let send = step;
            let reply = if step == 999 { 1690 } else { step + 1 };
            let mut call = client(last, u32::from(last), send, Some(reply));
            call.reply_first = Some(stamp(reply * MS + i64::from(last)));
            call.reply_last = call.reply_first;
            capture.call(call, &[], &[]);
        }
    }
    let json = shown(capture, 2500 * MS);
    // From the last client's reply at 999.000005 ms to the first one's at 1690.000002 ms.
    assert_eq!(gaps(&json), [gap("server_stalled", "server", 999, 690)]);
    assert_eq!(json["gaps"][0]["client"], Value::Null);
    assert_eq!(number(&json["gaps"][0], "/outstanding_peak"), 4);
    for pair in json["clients"].as_array().unwrap() {
        assert_eq!(number(pair, "/gaps/server_stalled/count"), 1, "{pair}");
    }
}

#[test]
fn what_a_silence_is_in_which_the_capture_ends_cannot_be_told() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(1000 * MS, None), &[2000 * MS], &[]);
    capture.call(read(1001 * MS, None), &[], &[]);
    let json = shown(capture, 5000 * MS);
    assert_eq!(gaps(&json), [gap("unknown", "server", 1000, 4000)]);
    assert_eq!(json["gaps"][0]["open"], true);
    assert_eq!(number(&json["gaps"][0], "/outstanding_peak"), 2);
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    let json = shown(capture, 5000 * MS);
    assert_eq!(gaps(&json), [gap("unknown", "server", 999, 4000)]);
}

#[test]
fn other_daemons_and_callbacks_do_not_stall_the_server() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 2000);
    let mut lock = read(0, Some(1500 * MS));
    lock.program = wire::programs::NLM;
    capture.call(lock, &[], &[]);
    let mut back = client(1, 0, 100, None);
    back.marks = crate::call::marks::CALLBACK;
    capture.call(back, &[], &[]);
    let json = shown(capture, 2000 * MS);
    assert_eq!(gaps(&json), []);
    assert_eq!(number(&json["servers"][0], "/replies"), 2000);
}
