//! What the network (or the capture) lost, told from servers that stall.

use super::*;

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
fn tcp_tells_loss_from_a_stall_by_its_retransmissions() {
    let tcp = |send_ms: i64, reply_ms: i64| {
        let mut call = read(send_ms * MS, Some(reply_ms * MS));
        call.transport = Transport::Tcp;
        call
    };
    let again = TransportKind::Retransmitted {
        bytes: 120,
        of: Again::Unacknowledged,
    };
    let sent = TransportKind::Sent {
        bytes: 120,
        in_flight_bytes: 120,
    };
    for (last_again_ms, bytes, expected) in [
        // Answered 1 ms after the last retransmission.
        (1299, 120, "network_loss"),
        // The segment was sent again, and the answer took another 100 ms.
        (1200, 120, "server_stalled"),
        // Keep-alives are no retransmissions: it was late, or its answer was lost behind here.
        (1299, 1, "unknown"),
    ] {
        let mut capture = Capture::default();
        busy(&mut capture, 0, 1000);
        capture.call(tcp(1000, 1300), &[], &[]);
        capture.transport(1000 * MS, 0, true, sent);
        let again = if bytes == 120 {
            again
        } else {
            TransportKind::Retransmitted {
                bytes,
                of: Again::Unacknowledged,
            }
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
        TransportKind::Retransmitted {
            bytes: 120,
            of: Again::Unacknowledged,
        },
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
