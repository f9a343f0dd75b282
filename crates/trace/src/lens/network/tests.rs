use super::*;
use crate::event::Again;
use crate::lens::tests::hand_made::{Capture, MS, number, read, stamp};

const DATA: TransportKind = TransportKind::Sent {
    bytes: 100,
    in_flight_bytes: 100,
};

fn ack(round_trip_ns: i64) -> TransportKind {
    TransportKind::Acknowledged {
        round_trip_ns: Some(round_trip_ns),
        window_bytes: 65_535,
        window_known: true,
    }
}

/// A call over TCP with its four instants, microseconds.
fn call(instants_us: [i64; 4]) -> Call {
    let [call_first, call_last, reply_first, reply_last] = instants_us.map(|us| us * 1000);
    let mut call = read(call_first, Some(reply_first));
    call.transport = Transport::Tcp;
    call.call_last = stamp(call_last);
    call.reply_last = Some(stamp(reply_last));
    call
}

fn row<'a>(json: &'a Value, operation: &str) -> &'a Value {
    let rows = json["operations"].as_array().unwrap();
    rows.iter()
        .find(|row| row["operation"] == operation)
        .unwrap()
}

#[test]
fn the_parts_sum_up_to_the_whole() {
    let mut capture = Capture::default();
    // The call is acknowledged 300 us after it was sent; the reply comes at 5 ms.
    capture.transport(40_000, 0, true, DATA);
    capture.transport(340_000, 0, false, ack(300_000));
    capture.transport(5_040_000, 0, false, DATA);
    capture.call(call([0, 40, 5040, 5940]), &[], &[]);
    // Quicker than the round trip that was measured: the server's part is -100 us.
    capture.call(call([10_000, 10_000, 10_200, 10_200]), &[], &[]);
    let json = capture.show(&mut Network::default(), 20 * MS).json;
    for operation in ["READ", "all"] {
        let row = row(&json, operation);
        assert_eq!(number(row, "/calls"), 2);
        assert_eq!(number(row, "/network_ns/min"), 300_000);
        assert_eq!(number(row, "/network_ns/max"), 300_000);
        assert_eq!(number(row, "/server_ns/max"), 4_700_000);
        assert_eq!(number(row, "/server_ns/min"), -100_000);
        assert_eq!(number(row, "/server_negative"), 1);
        assert_eq!(number(row, "/request_ns/max"), 40_000);
        assert_eq!(number(row, "/reply_ns/max"), 900_000);
        let whole = 5_940_000.0 + 200_000.0;
        let share = |part: &str| row[format!("{part}_share")].as_f64().unwrap();
        assert_eq!(share("network"), 600_000.0 / whole);
        assert_eq!(share("server"), 4_600_000.0 / whole);
        let sum: f64 = PARTS.iter().map(|part| share(part)).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }
    assert_eq!(json["note"], Value::Null);
}

#[test]
fn acknowledgements_on_the_reply_do_not_split() {
    let mut capture = Capture::default();
    capture.transport(0, 0, true, DATA);
    capture.transport(5_000_000, 0, false, ack(5_000_000));
    capture.transport(5_000_000, 0, false, DATA);
    capture.call(call([0, 0, 5000, 5000]), &[], &[]);
    let json = capture.show(&mut Network::default(), 20 * MS).json;
    assert_eq!(json["operations"], json!([]));
    assert_eq!(number(&json, "/not_split/only_upper_bound"), 1);
    assert_eq!(
        number(&json, "/capture_point/to_server_round_trip/at_most_ns"),
        5_000_000
    );
    assert!(
        json["note"]
            .as_str()
            .unwrap()
            .starts_with("no acknowledgement")
    );
}

#[test]
fn udp_and_calls_sent_again_are_not_split() {
    let mut capture = Capture::default();
    capture.call(read(0, Some(MS)), &[], &[]);
    let mut tcp = call([0, 0, 5000, 5000]);
    tcp.connection = 3;
    capture.call(tcp, &[2 * MS], &[]);
    let json = capture.show(&mut Network::default(), 20 * MS).json;
    assert_eq!(number(&json, "/not_split/udp"), 1);
    assert_eq!(number(&json, "/not_split/sent_again"), 1);
    assert_eq!(number(&json, "/rpc/sends"), 3);
    assert_eq!(number(&json, "/rpc/retransmissions"), 1);
    assert!(json["note"].as_str().unwrap().starts_with("UDP"));
}

#[test]
fn the_capture_point_follows_from_both_round_trips() {
    let place = |server_us: i64, client_us: i64, alone: bool| {
        let mut capture = Capture::default();
        let mut time = 0;
        for _ in 0..20 {
            time += MS;
            capture.transport(time, 0, false, ack(server_us * 1000));
            if !alone {
                capture.transport(time, 0, false, DATA);
            }
            time += MS;
            capture.transport(time, 0, true, ack(client_us * 1000));
            if !alone {
                capture.transport(time, 0, true, DATA);
            }
        }
        let json = capture.show(&mut Network::default(), time).json;
        json["capture_point"]["place"].as_str().unwrap().to_owned()
    };
    assert_eq!(place(2000, 30, true), "at the client");
    assert_eq!(place(20, 900, true), "at the server");
    assert_eq!(place(500, 700, true), "between client and server");
    assert_eq!(place(30, 25, true), "one machine, or too near to tell");
    // Upper bounds of like size prove nothing; a small one is small all the same.
    assert_eq!(place(500, 700, false), "unknown");
    assert_eq!(place(500, 20, false), "at the client");
}

#[test]
fn retransmissions_are_counted_by_side_and_connection() {
    let mut capture = Capture::default();
    for (connection, again) in [(1, 2), (2, 5), (3, 0)] {
        let mut one = call([0, 0, 100, 100]);
        one.connection = connection;
        one.client.port = 800 + connection as u16;
        capture.call(one, &[], &[]);
        for step in 0..95 {
            capture.transport(step * 1000, connection, true, DATA);
        }
        for step in 0..again {
            let kind = TransportKind::Retransmitted {
                bytes: 1000,
                of: Again::Unacknowledged,
            };
            capture.transport(step * MS, connection, true, kind);
        }
        capture.transport(9 * MS, connection, false, TransportKind::ZeroWindow);
        capture.transport(9 * MS, connection, false, TransportKind::Lost { bytes: 10 });
        capture.transport(9 * MS, connection, false, TransportKind::OutOfOrder);
    }
    let json = capture.show(&mut Network::default(), 20 * MS).json;
    assert_eq!(number(&json, "/from_client/segments"), 285);
    assert_eq!(number(&json, "/from_client/retransmitted_segments"), 7);
    assert_eq!(number(&json, "/from_client/retransmitted_bytes"), 7000);
    assert_eq!(number(&json, "/from_server/zero_windows"), 3);
    assert_eq!(number(&json, "/from_server/lost_bytes"), 30);
    let top = json["top_retransmitting"].as_array().unwrap();
    let clients: Vec<_> = top
        .iter()
        .map(|one| one["client"].as_str().unwrap())
        .collect();
    assert_eq!(clients, ["10.0.0.2:802", "10.0.0.2:801"]);
    assert_eq!(top[0]["from_client"]["retransmission_rate"], 5.0 / 100.0);
}

#[test]
fn connections_without_end_stay_bounded() {
    let mut lens = Network::default();
    for connection in 0..100_000 {
        let event = TransportEvent {
            time_ns: i64::from(connection),
            connection,
            from_client: Some(true),
            kind: DATA,
        };
        lens.transport(&event);
    }
    let json = lens.json();
    assert_eq!(
        number(&json, "/connections"),
        crate::limits::MAX_CONNECTIONS as i64
    );
    assert_eq!(number(&json, "/from_client/segments"), 100_000);
    assert!(number(&json, "/connections_not_kept") > 0);
}
