//! Which reply and which resend belong to which call.

use super::*;
use crate::call::{Outcome, marks};
use crate::stream::{Front, Keep};

const HANDLE: &[u8] = b"handle-0123456789";

#[test]
fn a_reply_ends_its_call_with_the_time_between() {
    let mut capture = Capture::new();
    capture.message(true, &getattr(1, HANDLE));
    capture.message(true, &getattr(2, HANDLE));
    capture.message(false, &getattr_reply(2));
    capture.message(false, &getattr_reply(1));
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    let latencies: Vec<_> = seen.calls.iter().map(Call::latency_ns).collect();
    assert_eq!(latencies, [Some(3 * MS), Some(MS)]);
    assert_eq!(seen.events, [('s', 0), ('s', 1), ('r', 1), ('r', 0)]);
    let first = &seen.calls[0];
    assert_eq!(
        (first.xid, first.user, first.outcome),
        (1, Some(1000), Outcome::Status(0))
    );
    assert_eq!(
        (first.call_first.frame, first.reply_first.unwrap().frame),
        (1, 4)
    );
    assert_eq!(first.file_size_bytes, Some(4096));
    assert_eq!((first.sends, first.replies), (1, 1));
}

#[test]
fn resends_and_duplicate_replies_are_counted_with_their_call() {
    let mut capture = Capture::new();
    for _ in 0..3 {
        capture.message(true, &getattr(1, HANDLE));
    }
    for _ in 0..2 {
        capture.message(false, &getattr_reply(1));
    }
    // Sent again after the answer: still the same call.
    capture.message(true, &getattr(1, HANDLE));
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    let [call] = seen.calls.as_slice() else {
        panic!("{:?}", seen.calls)
    };
    assert_eq!((call.retransmissions(), call.duplicate_replies()), (3, 1));
    assert_eq!(call.latency_ns(), Some(3 * MS));
    assert_eq!(call.last_send.time_ns - call.call_first.time_ns, 5 * MS);
    assert_eq!(call.last_send.frame, 6);
    let kinds: String = seen.events.iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, "sSSrRS");
}

#[test]
fn the_same_xid_with_other_arguments_is_another_call() {
    let mut capture = Capture::new();
    capture.pair(&getattr(1, HANDLE), &getattr_reply(1));
    capture.pair(&getattr(1, b"another"), &getattr_reply(1));
    // Another procedure with the same first bytes.
    let access = call(1, [NFS, 3, 19], Xdr::default().opaque(b"another"));
    capture.message(true, &access);
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, [("xid_reused", 2)]);
    let odd: Vec<bool> = seen
        .calls
        .iter()
        .map(|call| call.has(marks::XID_REUSED))
        .collect();
    assert_eq!(odd, [false, true, true]);
    let replies: Vec<u16> = seen.calls.iter().map(|call| call.replies).collect();
    assert_eq!(replies, [1, 1, 0]);
}

#[test]
fn a_call_sent_again_over_a_new_connection_is_one_call() {
    for (port, closed) in [(700, true), (701, true), (701, false)] {
        let mut capture = Capture::new();
        capture.message(true, &getattr(1, HANDLE));
        capture.message(true, &getattr(2, b"answered on the old one"));
        capture.message(false, &getattr_reply(2));
        if closed {
            capture.calls.closed(0);
        } else {
            capture.now_ns += 60_000 * MS;
        }
        capture.connection = 1;
        capture.client_port = port;
        capture.message(true, &getattr(1, HANDLE));
        capture.pair(&getattr(3, HANDLE), &getattr_reply(3));
        capture.message(false, &getattr_reply(1));
        let (seen, anomalies) = capture.end();
        assert_eq!(anomalies, []);
        let [first, _, last] = seen.calls.as_slice() else {
            panic!("{:?}", seen.calls)
        };
        assert_eq!((first.sends, first.replies, first.connection), (2, 1, 0));
        assert!(first.has(marks::RECONNECTED) && !last.has(marks::RECONNECTED));
        assert_eq!((first.client.port, last.client.port), (700, port));
    }
}

#[test]
fn equal_calls_of_connections_side_by_side_are_different_calls() {
    let mut capture = Capture::new();
    for xid in 1..=3 {
        for to_server in [true, false] {
            for connection in 0..4 {
                capture.connection = connection;
                capture.client_port = 700 + connection as u16;
                let message = match to_server {
                    true => getattr(xid, HANDLE),
                    false => getattr_reply(xid),
                };
                capture.message(to_server, &message);
            }
        }
    }
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    assert_eq!(seen.calls.len(), 12);
    assert!(
        seen.calls
            .iter()
            .all(|call| (call.sends, call.replies) == (1, 1))
    );
}

#[test]
fn equal_xids_of_two_connections_do_not_meet() {
    let mut capture = Capture::new();
    capture.message(true, &getattr(1, HANDLE));
    capture.connection = 1;
    capture.client_port = 701;
    // The same transaction id, but about another file: no resend.
    capture.pair(&getattr(1, b"other"), &getattr_reply(1));
    capture.connection = 0;
    capture.client_port = 700;
    capture.message(false, &getattr_reply(1));
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    let latencies: Vec<_> = seen.calls.iter().map(Call::latency_ns).collect();
    assert_eq!(latencies, [Some(3 * MS), Some(MS)]);
}

#[test]
fn udp_does_not_send_again_what_tcp_sent() {
    let mut capture = Capture::new();
    capture.pair(&getattr(1, HANDLE), &getattr_reply(1));
    capture.connection = 1;
    capture.client_port = 701;
    capture.transport = Transport::Udp;
    capture.pair(&getattr(1, HANDLE), &getattr_reply(1));
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    let sends: Vec<u16> = seen.calls.iter().map(|call| call.sends).collect();
    assert_eq!(sends, [1, 1]);
}

#[test]
fn callbacks_run_over_the_same_connection_the_other_way() {
    let mut capture = Capture::new();
    let recall = Xdr::default()
        .opaque(b"")
        .words(&[1, 0, 1, 4])
        .words(&[1, 0, 0, 0, 0])
        .opaque(HANDLE);
    let callback = call(7, [0x4000_0000, 1, 1], recall);
    capture.message(true, &getattr(7, HANDLE));
    capture.message(false, &callback);
    capture.message(false, &getattr_reply(7));
    capture.message(
        true,
        &reply(7, Xdr::default().word(0).opaque(b"").words(&[1, 4, 0])),
    );
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    let [call, back] = seen.calls.as_slice() else {
        panic!("{:?}", seen.calls)
    };
    assert_eq!(
        (call.latency_ns(), back.latency_ns()),
        (Some(2 * MS), Some(2 * MS))
    );
    assert!(back.has(marks::CALLBACK) && back.client == call.server);
    assert_eq!(crate::names::call_name(back), "CB_RECALL");
    // Both speak of one file of the NFS server.
    assert_eq!(call.file, back.file);
}

#[test]
fn a_reply_without_a_call_is_counted_and_a_resynchronised_one_not_believed() {
    let mut capture = Capture::new();
    capture.message(false, &getattr_reply(5));
    capture.resynchronised = true;
    capture.message(false, &getattr_reply(6));
    capture.resynchronised = false;
    capture.pair(&getattr(1, HANDLE), &getattr_reply(1));
    // Long after: not the reply to a call with that number.
    capture.now_ns += 1000 * MS;
    capture.message(true, &getattr(5, HANDLE));
    let (seen, anomalies) = capture.end();
    assert_eq!(
        anomalies,
        [
            ("reply_without_call", 1),
            ("resynchronised_reply_ignored", 1)
        ]
    );
    assert_eq!(seen.calls.len(), 2);
    assert_eq!(seen.calls[1].outcome, Outcome::Unanswered);
}

#[test]
fn a_reply_captured_just_before_its_call_is_its_reply() {
    let mut capture = Capture::new();
    capture.message(false, &getattr_reply(5));
    capture.message(true, &getattr(5, HANDLE));
    let (seen, anomalies) = capture.end();
    assert_eq!(
        anomalies,
        [("reply_before_call", 1), ("negative_latency", 1)]
    );
    assert_eq!(seen.calls[0].latency_ns(), Some(-MS));
    assert_eq!(seen.calls[0].outcome, Outcome::Status(0));
}

#[test]
fn cut_messages_still_count() {
    let mut capture = Capture::new();
    let read = call(1, READ, Xdr::default().opaque(HANDLE).long(8192).word(4096));
    capture.message(true, &read);
    let results = Xdr::default()
        .words(&[0, 1])
        .raw(&fattr3(1).0)
        .words(&[4096, 0, 4096]);
    let bytes = reply(1, results);
    capture.cut(false, &bytes, 4096, &[], false);
    // The header of the next call is cut within its credential, its reply behind the status.
    capture.cut(true, &getattr(2, HANDLE)[..40], 60, &[], false);
    capture.cut(false, &getattr_reply(2)[..28], 84, &[], false);
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    let [read, getattr] = seen.calls.as_slice() else {
        panic!("{:?}", seen.calls)
    };
    assert_eq!(
        (read.offset, read.count, read.bytes_read),
        (Some(8192), Some(4096), 4096)
    );
    assert!(read.has(marks::TRUNCATED) && getattr.has(marks::TRUNCATED));
    assert_eq!(getattr.outcome, Outcome::Status(0));
    assert_eq!((getattr.latency_ns(), getattr.file), (Some(MS), None));
}

#[test]
fn refusals_have_the_names_of_rfc_5531() {
    let mut capture = Capture::new();
    capture.message(true, &getattr(1, HANDLE));
    capture.message(false, &Xdr::default().words(&[1, 1, 0, 0, 0, 2, 2, 3]).0);
    capture.message(true, &getattr(2, HANDLE));
    capture.message(false, &Xdr::default().words(&[2, 1, 1, 1, 13]).0);
    let (seen, _) = capture.end();
    let outcomes: Vec<Outcome> = seen.calls.iter().map(|call| call.outcome).collect();
    assert_eq!(
        outcomes,
        [
            Outcome::Refused("PROG_MISMATCH"),
            Outcome::Refused("AUTH_ERROR")
        ]
    );
}

/// A call with an RPCSEC_GSS credential: control procedure, sequence number, service.
fn gss(xid: u32, control: u32, sequence: u32, service: u32, body: &[u8]) -> Vec<u8> {
    let credential = Xdr::default()
        .words(&[1, control, sequence, service])
        .opaque(b"context");
    Xdr::default()
        .words(&[xid, 0, 2, NFS, 3, 6])
        .word(6)
        .opaque(&credential.0)
        .word(6)
        .opaque(b"checksum")
        .raw(body)
        .0
}

fn integrity(sequence: u32, inner: &[u8]) -> Vec<u8> {
    let data = Xdr::default().word(sequence).raw(inner);
    Xdr::default().opaque(&data.0).opaque(b"checksum").0
}

#[test]
fn rpcsec_gss_integrity_is_read_and_its_sequence_number_is_no_difference() {
    let mut capture = Capture::new();
    let arguments = Xdr::default().opaque(HANDLE).long(0).word(8192).0;
    capture.message(true, &gss(1, 0, 10, 2, &integrity(10, &arguments)));
    capture.message(true, &gss(1, 0, 11, 2, &integrity(11, &arguments)));
    // The reply's payload was not kept: the checksum lies in the tail.
    let results = Xdr::default().words(&[0, 0, 8192, 1]).opaque(&[7; 8192]);
    let bytes = reply(1, Xdr(integrity(11, &results.0)));
    let (head, rest) = bytes.split_at(1000);
    let (_, tail) = rest.split_at(rest.len() - 1000);
    capture.cut(false, head, rest.len() - 1000, tail, true);
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    let [call] = seen.calls.as_slice() else {
        panic!("{:?}", seen.calls)
    };
    assert_eq!(
        (call.sends, call.count, call.bytes_read),
        (2, Some(8192), 8192)
    );
    assert_eq!((call.marks, call.end_of_file), (0, true));
}

#[test]
fn rpcsec_gss_privacy_and_control_are_said() {
    let mut capture = Capture::new();
    capture.pair(
        &gss(1, 1, 0, 1, b"tokn"),
        &reply(1, Xdr::default().opaque(b"token")),
    );
    capture.pair(
        &gss(2, 0, 1, 3, b"secretsecret"),
        &reply(2, Xdr::default().opaque(b"secret")),
    );
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    let what: Vec<_> = seen
        .calls
        .iter()
        .map(|call| (call.marks, call.outcome))
        .collect();
    assert_eq!(what[0], (marks::CONTROL, Outcome::Accepted));
    assert_eq!(what[1], (marks::PRIVATE, Outcome::Unreadable));
}

#[test]
fn calls_are_given_out_in_the_order_of_their_first_bytes() {
    let mut capture = Capture::new();
    capture.message(true, &getattr(1, HANDLE));
    capture.message(true, &getattr(2, HANDLE));
    // A long call on another connection began before both and ended behind them.
    let (client, server) = capture.ends();
    let bytes = getattr(3, b"long");
    let first = Stamp {
        time_ns: START_NS,
        frame: 1,
    };
    let last = Stamp {
        time_ns: START_NS + 3 * MS,
        frame: 9,
    };
    capture.calls.message(&Message {
        connection: 9,
        from: &Endpoint { port: 9, ..client },
        to: &server,
        transport: Transport::Tcp,
        head: &bytes,
        missing: 0,
        tail: &[],
        complete: true,
        wire_bytes: bytes.len() as u32,
        first,
        last,
        resynchronised: false,
        ip_id: 0,
    });
    capture.message(false, &getattr_reply(1));
    let (seen, _) = capture.end();
    let xids: Vec<u32> = seen.calls.iter().map(|call| call.xid).collect();
    assert_eq!(xids, [3, 1, 2]);
    assert_eq!(
        (seen.calls[0].call_last, seen.calls[0].call_first),
        (last, first)
    );
}

#[test]
fn only_payloads_are_not_kept() {
    let mut capture = Capture::new();
    let (client, server) = capture.ends();
    let told = |capture: &mut Capture, to_server: bool, head: &[u8], total| {
        let (from, to) = if to_server {
            (client, server)
        } else {
            (server, client)
        };
        capture.calls.keep(&Front {
            connection: 0,
            from: &from,
            to: &to,
            head,
            total,
        })
    };
    // 100 bytes of 8192 are in the head.
    let keep = |capture: &mut Capture, to_server: bool, head: &[u8]| {
        told(capture, to_server, head, Some(head.len() + 8092))
    };
    let write = call(1, [NFS, 3, 7], Xdr::default().opaque(HANDLE).long(0));
    assert_eq!(keep(&mut capture, true, &write), Keep::Ends);
    assert_eq!(keep(&mut capture, true, &getattr(1, HANDLE)), Keep::Whole);
    let compound = |operations: Xdr, count| {
        call(
            1,
            COMPOUND,
            Xdr::default()
                .opaque(b"")
                .words(&[1, count])
                .raw(&operations.0),
        )
    };
    let putfh = Xdr::default().word(22).opaque(HANDLE);
    let write = putfh
        .clone()
        .words(&[38, 0, 0, 0, 0, 0, 0, 0, 8192])
        .raw(&[1; 100]);
    let write = compound(write, 3);
    assert_eq!(keep(&mut capture, true, &write), Keep::Ends);
    // More behind the payload than the tail holds, or nobody knows how much.
    for total in [Some(write.len() + 8092 + 1024), None] {
        assert_eq!(told(&mut capture, true, &write, total), Keep::Whole);
    }
    let setattr = putfh
        .words(&[34, 0, 0, 0, 0, 1, 1 << 12, 8192])
        .raw(&[1; 100]);
    assert_eq!(keep(&mut capture, true, &compound(setattr, 3)), Keep::Whole);

    let read = call(5, READ, Xdr::default().opaque(HANDLE).long(0).word(8192));
    capture.message(true, &read);
    capture.message(true, &call(6, [NFS, 3, 17], Xdr::default()));
    assert_eq!(keep(&mut capture, false, &getattr_reply(5)), Keep::Ends);
    assert_eq!(keep(&mut capture, false, &getattr_reply(6)), Keep::Whole);
    assert!(capture.calls.expects(0, &server, &client, 5));
    assert!(!capture.calls.expects(0, &server, &client, 7));
    assert!(!capture.calls.expects(0, &client, &server, 5));
}

#[test]
fn no_bytes_make_it_panic() {
    // Every prefix of messages, as call and as reply, whole and cut.
    let messages = [
        getattr(1, HANDLE),
        getattr_reply(1),
        gss(2, 0, 1, 2, &integrity(1, b"12345678")),
        call(
            3,
            COMPOUND,
            Xdr::default().opaque(b"t").words(&[1, 2, 24, 10]),
        ),
    ];
    let mut capture = Capture::new();
    for message in &messages {
        for length in 0..message.len() {
            let (head, tail) = message.split_at(length);
            capture.message(true, head);
            capture.cut(false, head, 0, &[], false);
            capture.cut(true, head, 10, tail, true);
        }
    }
    let (seen, anomalies) = capture.end();
    assert!(!seen.calls.is_empty() && !anomalies.is_empty());
}
