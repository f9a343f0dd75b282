//! The engine against a scripted server: every fault by hand, on a clock that the test moves.

use crate::peer;
use std::collections::HashSet;
use std::time::Duration;

use crate::peer::{Bench, NFS, Peer, TestClock, framed, success};
use client::engine::{Encoded, SharedBytes};
use client::{CallError, Caller, Engine, MountOptions, Request};
use wire::rpc::{OpaqueAuth, ReplyStatus, encode_reply};

const LOOPBACK: &str = "127.0.0.1:0";

#[test]
fn many_calls_in_one_write_and_replies_in_any_order() {
    for text in ["", "udp,max_requests=64", "nconnect=4"] {
        let mut peer = if text.starts_with("udp") {
            Peer::udp(LOOPBACK)
        } else {
            Peer::tcp(LOOPBACK)
        };
        let mut bench = Bench::new(&peer, text);
        (0..50).for_each(|token| bench.submit(token));
        let mut answered = 0;
        let mut xids = HashSet::new();
        while answered < 50 {
            let mut arrived = bench.until_arrived(&mut peer, 1);
            arrived.reverse();
            for call in &arrived {
                assert!(xids.insert(call.xid));
                peer.reply(call, &call.arguments);
            }
            answered += arrived.len();
        }
        bench.until_ended(50);
        for end in &bench.ended {
            assert_eq!(end.result, Ok(end.token.to_be_bytes().to_vec()));
        }
        let tokens: HashSet<u64> = bench.ended.iter().map(|end| end.token).collect();
        assert_eq!(tokens.len(), 50);
        let counters = bench.engine.counters();
        assert_eq!((counters.answered, counters.retransmissions), (50, 0));
        if text.is_empty() {
            assert_eq!(counters.writes, 1, "50 calls, one system call");
        }
        if text == "nconnect=4" {
            assert_eq!((counters.connects, counters.writes), (4, 4));
        }
    }
}

#[test]
fn ipv6_and_callers() {
    let mut peer = Peer::tcp("[::1]:0");
    let mut bench = Bench::new(&peer, "proto=tcp6");
    let caller = Caller::user(1234, 5678, &[1, 2]);
    let request = Request {
        target: [NFS, 3, 0],
        caller: Some(&caller),
        arguments: &Encoded(&[]),
        payload: None,
    };
    bench.engine.submit(request, 9).unwrap();
    let arrived = bench.until_arrived(&mut peer, 1);
    assert_eq!(arrived[0].ids, Some((1234, 5678)));
    bench.submit(1);
    let arrived = bench.until_arrived(&mut peer, 1);
    let me = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    assert_eq!(arrived[0].ids, Some(me));
    let v4 = Peer::tcp(LOOPBACK);
    let options = MountOptions::parse("proto=tcp6").unwrap();
    Engine::connect(v4.address, &options, TestClock::new()).unwrap_err();
}

#[test]
fn the_window_is_bounded_and_the_rest_waits() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "max_requests=3");
    (0..10).for_each(|token| bench.submit(token));
    let arrived = bench.until_arrived(&mut peer, 3);
    assert!(bench.settle(&mut peer).is_empty());
    assert_eq!(arrived.len(), 3);
    let counters = *bench.engine.counters();
    assert_eq!((counters.outstanding, counters.queue), (3, 7));
    peer.reply(&arrived[1], b"");
    bench.until_ended(1);
    let next = bench.until_arrived(&mut peer, 1);
    assert_eq!(next[0].arguments, 3_u64.to_be_bytes());
    for token in 10..client::engine::MAX_PENDING as u64 + 10 - 6 {
        bench.submit(token);
    }
    let request = Request {
        target: [NFS, 3, 0],
        caller: None,
        arguments: &Encoded(&[]),
        payload: None,
    };
    let refused = bench.engine.submit(request, 0);
    assert_eq!(refused, Err(CallError::Full));
    assert_eq!(bench.engine.counters().refused, 1);
}

#[test]
fn a_delayed_operation_waits_and_others_go_past_it() {
    const NULL: [u32; 3] = [NFS, 3, 0];
    const COMMIT: [u32; 3] = [NFS, 3, 21];
    let mut peer = Peer::tcp(LOOPBACK);
    // One call outstanding at a time: what is held back takes no room of the window.
    let mut bench = Bench::new(&peer, "max_requests=1,call_delay=COMMIT:30ms");
    bench.submit_to(COMMIT, 1);
    bench.clock.advance(10);
    bench.submit_to(COMMIT, 2);
    bench.submit_to(NULL, 3);
    let first = bench.until_arrived(&mut peer, 1);
    assert_eq!(
        first[0].target, NULL,
        "the delayed ones came first, and wait"
    );
    peer.reply(&first[0], b"");
    bench.until_ended(1);
    assert_eq!(
        (bench.engine.in_flight(), bench.engine.counters().queue),
        (2, 2)
    );
    bench.clock.advance(19);
    assert!(bench.settle(&mut peer).is_empty(), "29 of 30 ms");
    bench.clock.advance(1);
    let second = bench.until_arrived(&mut peer, 1);
    assert_eq!(
        (second[0].target, second[0].arguments.clone()),
        (COMMIT, 1_u64.to_be_bytes().to_vec())
    );
    peer.reply(&second[0], b"");
    bench.until_ended(2);
    assert!(
        bench.settle(&mut peer).is_empty(),
        "each waits 30 ms of its own"
    );
    bench.clock.advance(10);
    let third = bench.until_arrived(&mut peer, 1);
    peer.reply(&third[0], b"");
    bench.until_ended(3);
    assert_eq!(bench.engine.in_flight(), 0);
    bench.submit_to(COMMIT, 4);
    let mut ended = Vec::new();
    bench
        .engine
        .close(&mut |end| ended.push((end.token, end.result.is_err())));
    assert_eq!(ended, [(4, true)], "what is held back ends with the engine");
}

#[test]
fn the_timer_of_a_delay_ends_the_wait_of_a_poll() {
    let peer = Peer::tcp(LOOPBACK);
    let options = MountOptions::parse("call_delay=COMMIT:1ms").unwrap();
    let clock = measure::MonotonicClock;
    let mut engine = Engine::connect(peer.address, &options, clock).unwrap();
    let request = Request {
        target: [NFS, 3, 21],
        caller: None,
        arguments: &Encoded(&[]),
        payload: None,
    };
    engine.submit(request, 1).unwrap();
    // Without an end to the wait: only the timer can end it.
    engine.poll(None, &mut |_| {}).unwrap();
    while engine.counters().sends == 0 {
        engine
            .poll(Some(Duration::from_micros(10)), &mut |_| {})
            .unwrap();
    }
    assert_eq!(engine.counters().queue, 0);
}

#[test]
fn a_lost_connection_sends_the_same_xids_again_in_order() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "");
    (0..5).for_each(|token| bench.submit(token));
    let first = bench.until_arrived(&mut peer, 5);
    peer.reply(&first[2], b"");
    bench.until_ended(1);
    peer.close(0);
    let second = bench.until_arrived(&mut peer, 4);
    let xids = |calls: &[peer::Arrived]| calls.iter().map(|c| c.xid).collect::<Vec<_>>();
    let mut expected = xids(&first);
    expected.remove(2);
    assert_eq!(xids(&second), expected);
    for call in &second {
        peer.reply(call, b"");
    }
    bench.until_ended(5);
    let counters = bench.engine.counters();
    assert_eq!((counters.retransmissions, counters.disconnects), (4, 1));
    assert_eq!((counters.connects, counters.minor_timeouts), (2, 0));
}

#[test]
fn a_server_that_is_away_is_asked_again_until_it_is_back() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "");
    bench.submit(1);
    let first = bench.until_arrived(&mut peer, 1);
    peer.stop();
    for _ in 0..20 {
        bench.settle(&mut peer);
        bench.clock.advance(1_000);
    }
    let failures = bench.engine.counters().connect_failures;
    assert!((3..=20).contains(&failures), "{failures}");
    assert!(bench.ended.is_empty());
    peer.start();
    bench.clock.advance(3_000);
    let again = bench.until_arrived(&mut peer, 1);
    assert_eq!(again[0].xid, first[0].xid);
    peer.reply(&again[0], b"");
    bench.until_ended(1);
    assert_eq!(bench.ended[0].sends, 2);
}

#[test]
fn timeouts_over_tcp_are_linear_and_hard_goes_on() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "timeo=10,retrans=2");
    bench.submit(1);
    bench.until_arrived(&mut peer, 1);
    bench.clock.advance(999);
    assert!(bench.settle(&mut peer).is_empty());
    bench.clock.advance(1);
    assert_eq!(bench.until_arrived(&mut peer, 1).len(), 1);
    bench.clock.advance(1_999); // the second timeout is two seconds, and ends at the major one
    assert!(bench.settle(&mut peer).is_empty());
    bench.clock.advance(1);
    // Not one byte came: the connection is given up, and the call goes out on a new one.
    let third = bench.until_arrived(&mut peer, 1);
    assert_eq!(third[0].connection, 1);
    let counters = *bench.engine.counters();
    assert_eq!((counters.minor_timeouts, counters.major_timeouts), (1, 1));
    assert_eq!((counters.disconnects, counters.retransmissions), (1, 2));
    peer.reply(&third[0], b"");
    bench.until_ended(1);
    assert_eq!(bench.ended[0].sends, 3);
}

#[test]
fn soft_gives_up_at_the_major_timeout() {
    for (text, errno) in [("soft", 5), ("softerr", 110), ("soft,udp", 5)] {
        let mut peer = if text.ends_with("udp") {
            Peer::udp(LOOPBACK)
        } else {
            Peer::tcp(LOOPBACK)
        };
        let mut bench = Bench::new(&peer, &format!("{text},timeo=5,retrans=1"));
        bench.submit(1);
        bench.until_arrived(&mut peer, 1);
        bench.clock.advance(500);
        bench.until_arrived(&mut peer, 1);
        bench.clock.advance(499);
        bench.settle(&mut peer);
        assert!(bench.ended.is_empty(), "{text}");
        bench.clock.advance(1);
        bench.until_ended(1);
        let error = bench.ended[0].result.clone().unwrap_err();
        assert_eq!(error.errno().raw_os_error(), errno, "{text}");
        assert_eq!(bench.engine.counters().failed, 1);
    }
}

#[test]
fn udp_backs_off_exponentially_and_counts_late_replies() {
    let mut peer = Peer::udp(LOOPBACK);
    let mut bench = Bench::new(&peer, "udp");
    bench.submit_to([NFS, 3, 19], 1); // FSINFO: timeo as it is, 1.1 s
    let first = bench.until_arrived(&mut peer, 1);
    for wait in [1_100, 2_200, 4_400] {
        bench.clock.advance(wait - 1);
        assert!(bench.settle(&mut peer).is_empty(), "{wait}");
        bench.clock.advance(1);
        let again = bench.until_arrived(&mut peer, 1);
        assert_eq!(again[0].xid, first[0].xid);
    }
    peer.reply(&first[0], b"");
    peer.reply(&first[0], b"");
    bench.until_ended(1);
    bench.until_counted(|counters| counters.late_replies == 1);
    assert_eq!(bench.ended.len(), 1);
    assert_eq!(bench.ended[0].sends, 4);
}

#[test]
fn a_datagram_socket_survives_a_server_that_is_not_there() {
    let mut peer = Peer::udp(LOOPBACK);
    let mut bench = Bench::new(&peer, "udp");
    let address = peer.address;
    peer.stop();
    bench.submit(1);
    bench.until_counted(|counters| counters.socket_errors > 0); // ICMP says so
    let mut peer = Peer::udp(&address.to_string());
    bench.clock.advance(1_200);
    let arrived = bench.until_arrived(&mut peer, 1);
    peer.reply(&arrived[0], b"");
    bench.until_ended(1);
}

#[test]
fn a_datagram_too_large_fails_at_once() {
    let peer = Peer::udp(LOOPBACK);
    let mut bench = Bench::new(&peer, "udp");
    let request = Request {
        target: [NFS, 3, 7],
        caller: None,
        arguments: &Encoded(&[]),
        payload: Some(SharedBytes::new(vec![0; 70_000])),
    };
    bench.engine.submit(request, 1).unwrap();
    bench.until_ended(1);
    let error = bench.ended[0].result.clone().unwrap_err();
    assert_eq!(error, CallError::Unsendable(rustix::io::Errno::MSGSIZE));
}

#[test]
fn large_payloads_are_sent_in_parts_and_drained_after_an_early_reply() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "");
    peer.reads = false;
    let payload: Vec<u8> = (0..1_000_001_u32).map(|i| i.to_le_bytes()[0]).collect();
    let shared = SharedBytes::new(payload.clone());
    for token in 0..12 {
        let request = Request {
            target: [NFS, 3, 7],
            caller: None,
            arguments: &Encoded(&[]),
            payload: Some(shared.clone()),
        };
        bench.engine.submit(request, token).unwrap();
    }
    bench.settle(&mut peer);
    assert!(
        bench.engine.counters().bytes_out < 12_000_000,
        "the socket is full"
    );
    // A reply to the call that is half sent: the client ends it, and still sends the rest.
    let half_sent = bench.engine.counters().sends - 1;
    let xid_of = |bench: &Bench, peer: &mut Peer| {
        let first = peer_first_xid(peer);
        let _ = bench;
        first.wrapping_add(u32::try_from(half_sent).unwrap())
    };
    let xid = xid_of(&bench, &mut peer);
    peer.send_raw(0, &framed(&success(xid, b"")));
    bench.until_ended(1);
    assert_eq!(bench.ended[0].token, half_sent);
    peer.reads = true;
    let arrived = bench.until_arrived(&mut peer, 12);
    for call in &arrived {
        assert_eq!(&call.arguments[..payload.len()], payload.as_slice());
        assert_eq!(&call.arguments[payload.len()..], [0, 0, 0], "padding");
        peer.reply(call, b"");
    }
    bench.until_ended(12);
    bench.until_counted(|counters| counters.late_replies == 1);
    assert_eq!(bench.ended.len(), 12);
}

/// Transaction id of the first call on connection 0, not taken off the stream.
fn peer_first_xid(peer: &mut Peer) -> u32 {
    let bytes = peer.peek(0, 8);
    u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
}

#[test]
fn rpc_refusals_and_malformed_replies_are_errors_of_their_call() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "");
    let refusals = [
        (ReplyStatus::ProgramUnavailable, 96),
        (ReplyStatus::ProgramMismatch { low: 2, high: 2 }, 93),
        (ReplyStatus::ProcedureUnavailable, 95),
        (ReplyStatus::GarbageArguments, 5),
        (ReplyStatus::SystemError, 5),
        (ReplyStatus::AuthError(1), 13),
    ];
    for (status, errno) in refusals {
        bench.ended.clear();
        bench.submit(1);
        let arrived = bench.until_arrived(&mut peer, 1);
        let mut message = Vec::new();
        encode_reply(&mut message, arrived[0].xid, &OpaqueAuth::NONE, status).unwrap();
        peer.send(&arrived[0], &message);
        bench.until_ended(1);
        let error = bench.ended[0].result.clone().unwrap_err();
        assert_eq!(error, CallError::Rpc(status));
        assert_eq!(error.errno().raw_os_error(), errno);
    }
    bench.ended.clear();
    bench.submit(2);
    let arrived = bench.until_arrived(&mut peer, 1);
    let cut = success(arrived[0].xid, b"")[..16].to_vec();
    peer.send(&arrived[0], &cut);
    bench.until_ended(1);
    let error = bench.ended[0].result.clone().unwrap_err();
    assert!(matches!(error, CallError::Malformed(_)), "{error}");
}

#[test]
fn hostile_bytes_are_counted_and_cost_nothing_else() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "nconnect=2");
    (0..2).for_each(|token| bench.submit(token));
    let calls = bench.until_arrived(&mut peer, 2);
    let (one, two) = (calls[0].clone(), calls[1].clone());
    // An unknown xid, a message that is a call, one too short, and a reply on the wrong connection.
    peer.send(&one, &success(one.xid.wrapping_sub(7), b""));
    peer.send(&one, &[0; 40]);
    peer.send(&one, &[1; 3]);
    peer.send(&one, &success(two.xid, b"forged"));
    bench.until_counted(|counters| counters.misdirected_replies == 1);
    let counters = *bench.engine.counters();
    assert_eq!(
        (counters.unknown_replies, counters.malformed_replies),
        (1, 2)
    );
    assert_eq!(
        (counters.misdirected_replies, counters.late_replies),
        (1, 0)
    );
    assert!(bench.ended.is_empty());
    // A mark that promises 2 GB: that stream cannot be followed; the call goes out on a new one.
    peer.send_raw(one.connection, &[0xff; 64]);
    let again = bench.until_arrived(&mut peer, 1);
    assert_eq!(again[0].xid, one.xid);
    assert_eq!(bench.engine.counters().framing_errors, 1);
    // Fragments without end.
    peer.send_raw(again[0].connection, &[0; 4 * 5_000]);
    bench.until_counted(|counters| counters.framing_errors == 2);
    bench.clock.advance(100);
    let again = bench.until_arrived(&mut peer, 1);
    peer.reply(&again[0], b"");
    peer.reply(&two, b"");
    bench.until_ended(2);
}

#[test]
fn a_garbage_server_is_not_asked_in_a_tight_loop() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "");
    bench.submit(1);
    for _ in 0..50 {
        bench.settle(&mut peer);
        for connection in peer.open_connections() {
            peer.send_raw(connection, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    }
    // The clock stands still: one attempt at once, the next only after a wait.
    let counters = bench.engine.counters();
    assert!(counters.connects <= 3, "{counters:?}");
    assert!(counters.framing_errors >= 1);
}

#[test]
fn closing_ends_all_calls_once() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "max_requests=2");
    (0..5).for_each(|token| bench.submit(token));
    bench.until_arrived(&mut peer, 2);
    let mut tokens = Vec::new();
    bench.engine.close(&mut |end| {
        assert_eq!(end.result.unwrap_err(), CallError::Closed);
        tokens.push(end.token);
    });
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 1, 2, 3, 4]);
    assert_eq!(bench.engine.in_flight(), 0);
}

#[test]
fn nobody_there_is_an_error_at_the_start() {
    let mut peer = Peer::tcp(LOOPBACK);
    peer.stop();
    let options = MountOptions::parse("").unwrap();
    let error = Engine::connect(peer.address, &options, TestClock::new()).unwrap_err();
    assert_eq!(error.errno(), rustix::io::Errno::CONNREFUSED);
}

#[test]
fn every_call_is_recorded_with_its_instants() {
    let mut peer = Peer::tcp(LOOPBACK);
    let mut bench = Bench::new(&peer, "max_requests=1");
    let reader = bench.engine.record_every_call(100);
    bench.engine.sample_every(Duration::from_millis(10));
    (0..2).for_each(|token| bench.submit(token));
    let first = bench.until_arrived(&mut peer, 1);
    bench.clock.advance(5);
    peer.reply(&first[0], &[0, 0, 0, 70]); // NFS3ERR_STALE
    bench.until_ended(1);
    let second = bench.until_arrived(&mut peer, 1);
    bench.clock.advance(7);
    peer.reply(&second[0], &[0; 4]);
    bench.until_ended(2);
    bench.clock.advance(20);
    bench.settle(&mut peer);
    let mut records = Vec::new();
    assert_eq!(reader.drain(&mut records), 0);
    let ms = |ns: u64| (ns - 1_000_000_000) / 1_000_000;
    let shown: Vec<_> = records
        .iter()
        .map(|r| {
            let t = r.times;
            let instants = [
                t.enqueued_ns,
                t.sent_first_ns,
                t.sent_last_ns,
                t.completed_ns,
            ];
            (
                r.token,
                r.procedure,
                instants.map(ms),
                r.sends,
                r.queue_at_enqueue,
                r.outcome,
            )
        })
        .collect();
    use client::record::Outcome::Answered;
    let expected = [
        (0, 1, [0, 0, 0, 5], 1, 0, Answered(70)),
        (1, 1, [0, 5, 5, 12], 1, 1, Answered(0)),
    ];
    assert_eq!(shown, expected);
    // xid, type, stat, verifier (2), accept_stat, status: seven words.
    assert!(
        records
            .iter()
            .all(|r| r.bytes_in == 28 && r.outstanding_at_send == 1)
    );
    let getattr = bench.engine.operations().all()[1].clone();
    assert_eq!((getattr.calls, getattr.errors), (2, 1));
    assert_eq!(getattr.round_trip_sum_ns, 12_000_000);
    assert_eq!(getattr.queue_sum_ns, 5_000_000);
    let mut samples = Vec::new();
    bench.engine.drain_samples(&mut samples);
    assert!(samples.len() >= 2, "at 0 and at 32 ms at least");
    assert!(samples.iter().all(|s| matches!(s.tcp[..], [Some(_)])));
    assert_eq!(samples.last().unwrap().calls[1], 2);
}
