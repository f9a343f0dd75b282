use serde_json::Value;

use super::*;
use crate::call::Call;
use crate::lens::hand_made::{Capture, MS, START_NS, endpoint, number, read, stamp};

fn shown(capture: Capture, end_ns: i64) -> Value {
    capture.show(&mut Stalls::default(), end_ns).json
}

/// Kind, scope, begin and length of the gaps found, in the order of time, milliseconds.
fn gaps(json: &Value) -> Vec<(String, String, i64, i64)> {
    let mut gaps: Vec<_> = json["gaps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gap| {
            let text = |key: &str| gap[key].as_str().unwrap().to_owned();
            let begin = number(gap, "/begin_ns") - START_NS;
            (
                text("kind"),
                text("scope"),
                begin / MS,
                number(gap, "/length_ns") / MS,
            )
        })
        .collect();
    gaps.sort_by_key(|gap| gap.2);
    gaps
}

fn gap(kind: &str, scope: &str, begin_ms: i64, length_ms: i64) -> (String, String, i64, i64) {
    (kind.to_owned(), scope.to_owned(), begin_ms, length_ms)
}

/// One client's calls, one each millisecond, each answered after 0.5 ms.
fn busy(capture: &mut Capture, from_ms: i64, to_ms: i64) {
    capture.lane(read(0, None), [from_ms * MS, to_ms * MS], MS, MS / 2);
}

fn client(last: u8, connection: u32, send_ms: i64, reply_ms: Option<i64>) -> Call {
    let mut call = read(send_ms * MS, reply_ms.map(|ms| ms * MS));
    call.client = endpoint(last, 700);
    call.connection = connection;
    call
}

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
fn a_call_answered_as_soon_as_it_is_sent_again_was_lost() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(1000 * MS, Some(1701 * MS)), &[1700 * MS], &[]);
    busy(&mut capture, 1702, 3000);
    let json = shown(capture, 3000 * MS);
    assert_eq!(gaps(&json), [gap("network_loss", "server", 1000, 701)]);
    // Near miss: the same call, answered 100 ms after its retransmission.
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(1000 * MS, Some(1800 * MS)), &[1700 * MS], &[]);
    busy(&mut capture, 1802, 3000);
    let json = shown(capture, 3000 * MS);
    assert_eq!(gaps(&json), [gap("server_stalled", "server", 1000, 800)]);
}

#[test]
fn a_broken_network_is_told_from_a_stalled_server_by_each_calls_own_answer() {
    // Three calls, each answered 0.5 ms after its own retransmission.
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    for lane in 0..3 {
        let last = 2000 * MS + lane * 7 * MS;
        let call = read((1000 + lane) * MS, Some(last + MS / 2));
        capture.call(call, &[1500 * MS + lane * MS, last], &[]);
    }
    busy(&mut capture, 2020, 3000);
    let json = shown(capture, 3000 * MS);
    assert_eq!(gaps(&json)[0], gap("network_loss", "server", 1000, 1000));
    assert_eq!(number(&json, "/totals/server_stalled/count"), 0);
}

#[test]
fn a_lost_call_beside_answered_ones_is_a_loss_of_that_call() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 3000);
    let mut lost = read(1000 * MS + 100, Some(1701 * MS + 100));
    lost.client.port = 900;
    capture.call(lost, &[1700 * MS + 100], &[]);
    let json = shown(capture, 3000 * MS);
    assert_eq!(gaps(&json), [gap("network_loss", "call", 1000, 701)]);
    assert_eq!(json["gaps"][0]["client"], "10.0.0.2:900");
    assert_eq!(number(&json, "/totals/lost_calls/count"), 1);
    // Near miss: a slow call, never sent again, beside quick ones is no gap.
    let mut capture = Capture::default();
    busy(&mut capture, 0, 3000);
    capture.call(read(1000 * MS + 100, Some(1701 * MS)), &[], &[]);
    assert_eq!(gaps(&shown(capture, 3000 * MS)), []);
}

#[test]
fn a_reply_lost_behind_the_capture_is_a_loss() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(1000 * MS, Some(1001 * MS)), &[1700 * MS], &[1701 * MS]);
    busy(&mut capture, 1702, 3000);
    let json = shown(capture, 3000 * MS);
    assert_eq!(gaps(&json), [gap("network_loss", "server", 1001, 699)]);
}

#[test]
fn a_client_that_sends_nothing_has_paused() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    busy(&mut capture, 4000, 5000);
    let json = shown(capture, 5000 * MS);
    assert_eq!(gaps(&json), [gap("client_paused", "server", 999, 3000)]);
    assert_eq!(
        json["gaps"][0]["evidence"],
        "10.0.0.2 sent nothing to server 10.0.0.1 for 3.001 s: nothing was outstanding"
    );
}

#[test]
fn a_lost_reply_does_not_turn_a_pause_into_a_stall() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(500 * MS + 1, None), &[], &[]);
    busy(&mut capture, 4000, 5000);
    let json = shown(capture, 5000 * MS);
    assert_eq!(gaps(&json), [gap("client_paused", "server", 999, 3000)]);
}

#[test]
fn a_pause_and_the_stall_behind_it_are_told_apart() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
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
    // Its pauses (two of 500 ms, one behind its wait, one at the end) are in its own totals.
    let quiet = json["clients"].as_array().unwrap().iter();
    let quiet = quiet
        .clone()
        .find(|pair| pair["client"] == "10.0.0.3")
        .unwrap();
    assert_eq!(number(quiet, "/gaps/client_paused/count"), 4);
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
fn tcp_tells_loss_from_a_stall_by_its_retransmissions() {
    let tcp = |send_ms: i64, reply_ms: i64| {
        let mut call = read(send_ms * MS, Some(reply_ms * MS));
        call.transport = Transport::Tcp;
        call
    };
    let again = TransportKind::Retransmitted { bytes: 120 };
    let sent = TransportKind::Sent {
        bytes: 120,
        in_flight_bytes: 120,
    };
    for (last_again_ms, bytes, expected) in [
        // Answered 1 ms after the last retransmission.
        (1299, 120, "network_loss"),
        // The segment was sent again, and the answer took another 100 ms.
        (1200, 120, "server_stalled"),
        // Keep-alives are no retransmissions.
        (1299, 1, "server_stalled"),
    ] {
        let mut capture = Capture::default();
        busy(&mut capture, 0, 1000);
        capture.call(tcp(1000, 1300), &[], &[]);
        capture.transport(1000 * MS, 0, true, sent);
        let again = if bytes == 120 {
            again
        } else {
            TransportKind::Retransmitted { bytes }
        };
        capture.transport(last_again_ms * MS, 0, true, again);
        busy(&mut capture, 1301, 2000);
        let json = shown(capture, 2000 * MS);
        assert_eq!(
            gaps(&json),
            [gap(expected, "server", 1000, 300)],
            "{last_again_ms}"
        );
        assert_eq!(number(&json, "/totals/lost_connections/count"), 0);
    }
}

#[test]
fn a_connection_that_times_out_beside_others_is_a_loss_of_the_connection() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 2000);
    let mut call = client(2, 7, 1000, Some(1206));
    call.transport = Transport::Tcp;
    capture.call(client(2, 7, 990, Some(991)), &[], &[]);
    capture.call(call, &[], &[]);
    let sent = TransportKind::Sent {
        bytes: 120,
        in_flight_bytes: 120,
    };
    capture.transport(1000 * MS, 7, true, sent);
    capture.transport(
        1205 * MS,
        7,
        true,
        TransportKind::Retransmitted { bytes: 120 },
    );
    let json = shown(capture, 2000 * MS);
    assert_eq!(gaps(&json), [gap("network_loss", "connection", 1000, 205)]);
}

#[test]
fn a_hole_of_the_capture_is_no_stall() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    let mut call = read(1000 * MS, Some(1300 * MS));
    call.transport = Transport::Tcp;
    capture.call(call, &[], &[]);
    capture.transport(1100 * MS, 0, false, TransportKind::Lost { bytes: 64_000 });
    busy(&mut capture, 1301, 2000);
    let json = shown(capture, 2000 * MS);
    assert_eq!(gaps(&json), [gap("capture_loss", "server", 1000, 300)]);
}

#[test]
fn a_server_gone_at_the_end_is_stalled_and_a_quiet_end_is_a_pause() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    capture.call(read(1000 * MS, None), &[2000 * MS], &[]);
    capture.call(read(1001 * MS, None), &[], &[]);
    let json = shown(capture, 5000 * MS);
    assert_eq!(gaps(&json), [gap("server_stalled", "server", 1000, 4000)]);
    assert_eq!(json["gaps"][0]["open"], true);
    assert_eq!(number(&json["gaps"][0], "/outstanding_peak"), 2);
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    let json = shown(capture, 5000 * MS);
    assert_eq!(gaps(&json), [gap("client_paused", "server", 999, 4000)]);
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

#[test]
fn drains_have_their_period_and_random_stalls_have_none() {
    // 300 ms of work, 200 ms of silence.
    let mut capture = Capture::default();
    for cycle in 0..12 {
        busy(&mut capture, cycle * 500, cycle * 500 + 300);
        let last = cycle * 500 + 300;
        capture.call(read(last * MS, Some((last + 199) * MS)), &[], &[]);
    }
    let json = shown(capture, 6000 * MS);
    assert_eq!(number(&json, "/totals/server_stalled/count"), 12);
    let period = number(&json["servers"][0], "/drain_cycle/period_ns");
    assert!((470 * MS..530 * MS).contains(&period), "{period}");
    let period = number(&json, "/throughput_cycle/period_ns");
    assert!((470 * MS..530 * MS).contains(&period), "{period}");
    // The same silences at random places.
    let mut capture = Capture::default();
    let (mut now, mut state) = (0, 12345_u64);
    for _ in 0..40 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let fast = 20.0 - ((state >> 11) as f64 / (1_u64 << 53) as f64).ln() * 300.0;
        busy(&mut capture, now, now + fast as i64);
        now += fast as i64;
        capture.call(read(now * MS, Some((now + 199) * MS)), &[], &[]);
        now += 200;
    }
    let json = shown(capture, now * MS);
    assert_eq!(number(&json, "/totals/server_stalled/count"), 40);
    assert_eq!(json["servers"][0]["drain_cycle"], Value::Null);
    assert_eq!(json["throughput_cycle"], Value::Null);
}

#[test]
fn the_slowest_stretch_is_where_callers_waited_most() {
    let mut capture = Capture::default();
    capture.lane(read(0, None), [0, 10_000 * MS], MS, MS / 2);
    capture.lane(read(0, None), [7000 * MS, 7300 * MS], 2 * MS, 40 * MS);
    let json = shown(capture, 10_000 * MS);
    let look = &json["closer_look"][0];
    assert_eq!(look["what"], "slowest stretch");
    assert!(number(look, "/from_ns") <= 7010 * MS && number(look, "/from_ns") > 6900 * MS);
    assert!(number(look, "/to_ns") >= 7290 * MS && number(look, "/to_ns") < 7400 * MS);
    assert!(number(&json, "/slowest_stretch/latency_mean_ns") > 10 * MS);
}

#[test]
fn the_longest_gaps_and_all_totals_are_kept_exactly() {
    let mut capture = Capture::default();
    let mut now = 0;
    for step in 0..300 {
        busy(&mut capture, now, now + 50);
        now += 50;
        let length = 100 + (step * 7919) % 300;
        capture.call(read(now * MS, Some((now + length) * MS)), &[], &[]);
        now += length + 1;
    }
    let lengths: Vec<i64> = (0..300).map(|step| 100 + (step * 7919) % 300).collect();
    let json = shown(capture, now * MS);
    assert_eq!(number(&json, "/totals/server_stalled/count"), 300);
    let sum: i64 = lengths.iter().sum();
    assert_eq!(number(&json, "/totals/server_stalled/time_ns"), sum * MS);
    let found: Vec<i64> = gaps(&json).iter().map(|gap| gap.3).collect();
    let (mut found, mut longest) = (found, lengths);
    found.sort_unstable();
    longest.sort_unstable();
    assert_eq!(found, longest[longest.len() - 32..]);
}

#[test]
fn clients_and_servers_without_end_stay_bounded() {
    let mut lens = Stalls::default();
    let names = Names::default();
    for step in 0..5000_u32 {
        let mut call = read(i64::from(step) * 1000, Some(i64::from(step) * 1000 + 500));
        call.number = u64::from(step);
        call.connection = step;
        call.client.host = Host(0xffff_0a00_0000 + u128::from(step));
        call.server.host = Host(u128::from(step % 200) + 7);
        let time_ns = call.call_first.time_ns;
        lens.event(
            &Event::Sent {
                time_ns,
                call: &call,
                again: false,
            },
            &names,
        );
        lens.event(
            &Event::Replied {
                time_ns: time_ns + 500,
                call: &call,
                again: false,
            },
            &names,
        );
    }
    assert_eq!(lens.servers.len(), MAX_SERVERS);
    assert_eq!(lens.pairs.len(), MAX_PAIRS);
    assert!(lens.not_followed > 0);
    let extent = Extent {
        first_ns: START_NS,
        last_ns: START_NS + MS,
        ..Extent::default()
    };
    let section = lens.finish(&names, &extent);
    assert!(section.json["messages_not_followed"].as_u64() > Some(0));
}
