//! Connections: opening, closing, reuse, streams that are no RPC, and what lies below RPC.

use super::kit::{CLIENT, SERVER, Stream, Wire, call, filler, reply};
use crate::block::{ACK, Endpoint, FIN, Host, RST, SYN, Segment};
use crate::event::{Again, TransportKind};
use crate::limits::MAX_CONNECTIONS;
use crate::stream::{Anomaly, Lost};

fn calls(xids: std::ops::Range<u32>) -> Stream {
    Stream::of(xids.map(|xid| call(xid, 60)))
}

#[test]
fn a_port_used_again_is_another_connection() {
    let mut wire = Wire::default();
    wire.syn(CLIENT, 100);
    // The first ends in the middle of a record.
    wire.data(CLIENT, 101, &calls(0..3).bytes[..280], usize::MAX);
    wire.syn(CLIENT, 5000);
    wire.syn(CLIENT, 5000);
    wire.data(CLIENT, 5001, &calls(10..12).bytes, usize::MAX);
    wire.finish();
    let got: Vec<(u32, u32, bool)> = wire
        .sink
        .messages
        .iter()
        .map(|got| (got.connection, got.xid, got.complete))
        .collect();
    let expected = [
        (0, 0, true),
        (0, 1, true),
        (0, 2, false),
        (1, 10, true),
        (1, 11, true),
    ];
    assert_eq!(got, expected);
    assert_eq!(wire.count(Anomaly::PortReused), 1);
}

#[test]
fn a_reset_ends_the_record_under_way() {
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    wire.data(CLIENT, 1, &calls(0..2).bytes[..150], usize::MAX);
    wire.flags(SERVER, RST, 0);
    assert_eq!(wire.xids(), [0, 1]);
    assert!(!wire.sink.messages[1].complete);
    // Without a SYN, elsewhere in the sequence: the ports are used again.
    wire.data(CLIENT, 0x7000_0000, &calls(5..7).bytes, usize::MAX);
    wire.finish();
    let connections: Vec<u32> = wire
        .sink
        .messages
        .iter()
        .map(|got| got.connection)
        .collect();
    assert_eq!(connections, [0, 0, 1, 1]);
}

#[test]
fn a_capture_that_begins_in_the_middle() {
    let stream = calls(0..20);
    let mut wire = Wire::default();
    wire.data(CLIENT, u32::MAX - 99, &stream.bytes[250..700], usize::MAX);
    wire.data(CLIENT, 350, &stream.bytes[700..], usize::MAX);
    wire.finish();
    // Records are 104 bytes long: number 3 begins at 312.
    assert_eq!(wire.xids(), (3..20).collect::<Vec<u32>>());
    assert!(wire.sink.messages[0].resynchronised);
    assert!(
        wire.sink.messages[1..]
            .iter()
            .all(|got| !got.resynchronised)
    );
    assert_eq!(wire.streams.counters().lost, Lost::default());
    assert_eq!(wire.count(Anomaly::UnsynchronisedBytes), 62);
}

#[test]
fn one_side_is_enough() {
    let stream = Stream::of((0..20).map(|xid| reply(xid, 100)));
    let mut wire = Wire::default();
    for (from, to) in stream.cut_every(333) {
        wire.data(SERVER, from as u32, &stream.bytes[from..to], usize::MAX);
    }
    wire.finish();
    assert_eq!(wire.xids(), (0..20).collect::<Vec<u32>>());
}

#[test]
fn without_identification_a_copy_is_told_by_its_time() {
    let stream = calls(0..1);
    let mut wire = Wire::default();
    wire.sink.transport = true;
    wire.syn(CLIENT, 0);
    let send = |wire: &mut Wire, after_ns: i64| {
        wire.time_ns += after_ns;
        let segment = Segment {
            sequence: 1,
            payload_bytes: stream.bytes.len() as u32,
            captured_bytes: stream.bytes.len() as u32,
            ip_id: 0,
            ..wire.base(CLIENT)
        };
        wire.give(&segment, &stream.bytes);
        let of = |anomaly| wire.count(anomaly);
        (of(Anomaly::DuplicatePacket), of(Anomaly::TcpRetransmission))
    };
    assert_eq!(send(&mut wire, 0), (0, 0));
    assert_eq!(send(&mut wire, 500_000), (1, 0));
    // Sent again.
    assert_eq!(send(&mut wire, 2_000_000), (1, 1));
}

#[test]
fn copies_keep_alives_and_probes() {
    let stream = calls(0..3);
    let mut wire = Wire::default();
    wire.sink.transport = true;
    wire.syn(CLIENT, 0);
    wire.data(CLIENT, 1, &stream.bytes[..200], usize::MAX);
    // The same packet captured again, then sent again.
    wire.ip_id -= 1;
    wire.data(CLIENT, 1, &stream.bytes[..200], usize::MAX);
    wire.data(CLIENT, 1, &stream.bytes[..200], usize::MAX);
    // A keep-alive repeats one byte (here: another), a window probe sends the next one ahead.
    wire.data(CLIENT, 200, &[0xee], usize::MAX);
    wire.data(CLIENT, 201, &stream.bytes[200..201], usize::MAX);
    wire.data(CLIENT, 201, &stream.bytes[200..], usize::MAX);
    wire.finish();
    assert_eq!(wire.xids(), [0, 1, 2]);
    assert_eq!(wire.count(Anomaly::DuplicatePacket), 1);
    // The second is the overlap of the probe.
    assert_eq!(wire.count(Anomaly::TcpRetransmission), 2);
}

#[test]
fn what_is_no_rpc_is_passed_over_and_looked_at_again() {
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    let noise = filler(9, 50_000);
    for (at, part) in noise.chunks(1000).enumerate() {
        wire.data(CLIENT, 1 + at as u32 * 1000, part, usize::MAX);
    }
    wire.finish();
    assert_eq!(wire.count(Anomaly::TcpNotRpc), 1);
    assert_eq!(wire.count(Anomaly::TcpNotRpcBytes), 50_000);
    assert_eq!(wire.streams.counters().lost, Lost::default());

    let mut wire = Wire::default();
    for (at, part) in noise.chunks(1000).enumerate() {
        wire.data(CLIENT, 1 + at as u32 * 1000, part, usize::MAX);
    }
    wire.data(CLIENT, 50_001, &calls(0..5).bytes, usize::MAX);
    wire.finish();
    assert_eq!(wire.xids(), [0, 1, 2, 3, 4]);
    assert_eq!(wire.count(Anomaly::TcpNotRpc), 0);
    assert_eq!(wire.count(Anomaly::UnsynchronisedBytes), 50_000);
}

#[test]
fn a_few_bytes_of_something_else() {
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    wire.data(
        CLIENT,
        1,
        b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
        usize::MAX,
    );
    wire.data(SERVER, 1, b"HTTP/1.1 200 OK\r\n\r\n", usize::MAX);
    wire.finish();
    assert!(wire.sink.messages.is_empty());
    assert_eq!(wire.count(Anomaly::TcpNotRpc), 1);
}

#[test]
fn iwarp_is_known_by_its_first_frame() {
    // Of either side: a capture may have one direction alone.
    for (side, key) in [(CLIENT, b"MPA ID Req Frame"), (SERVER, b"MPA ID Rep Frame")] {
        let mut wire = Wire::default();
        wire.syn(CLIENT, 0);
        // Flags, revision, length of private data (RFC 5044 section 7.1.1), then what follows it.
        let start = [&key[..], &[0x40, 1, 0, 0]].concat();
        wire.data(side, 1, &start, usize::MAX);
        wire.data(side, 21, &filler(7, 5_000), usize::MAX);
        wire.finish();
        assert_eq!(wire.count(Anomaly::Iwarp), 1);
        assert_eq!(wire.count(Anomaly::TcpNotRpc), 0);
    }
    // Within a stream it means nothing.
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    wire.data(CLIENT, 1, b"GET /MPA ID Req Frame", usize::MAX);
    wire.finish();
    assert_eq!(wire.count(Anomaly::Iwarp), 0);
}

#[test]
fn tls_behind_rpc_and_from_the_start() {
    let tls = [&[22, 3, 1, 2, 0][..], &filler(1, 512)].concat();
    let mut wire = Wire::default();
    wire.syn(CLIENT, 0);
    let probe = calls(0..1).bytes;
    wire.data(CLIENT, 1, &probe, usize::MAX);
    wire.data(CLIENT, 1 + probe.len() as u32, &tls, usize::MAX);
    wire.data(SERVER, 77, &tls, usize::MAX);
    wire.finish();
    assert_eq!(wire.xids(), [0]);
    assert_eq!(wire.count(Anomaly::RpcOverTls), 1);
    assert_eq!(wire.count(Anomaly::RpcOverTlsBytes), 2 * 517);
    assert_eq!(wire.count(Anomaly::RecordMarkBad), 0);

    // Ports 2049 and 443.
    for (port, over_tls, other) in [(2049, 1, 0), (443, 0, 1)] {
        let mut wire = Wire::default();
        let segment = Segment {
            destination: Endpoint { port, ..SERVER },
            payload_bytes: 517,
            captured_bytes: 517,
            ..wire.base(CLIENT)
        };
        wire.give(&segment, &tls);
        wire.finish();
        assert_eq!(wire.count(Anomaly::RpcOverTls), over_tls);
        assert_eq!(wire.count(Anomaly::TlsStream), other);
    }
}

#[test]
fn the_connection_idle_longest_makes_room() {
    let mut wire = Wire::default();
    let bytes = calls(0..1).bytes;
    let open = |wire: &mut Wire, number: usize, sequence: u32| {
        let mut source = CLIENT;
        source.host = Host::from_bits(source.host.bits() + number as u128);
        let segment = Segment {
            source,
            sequence,
            payload_bytes: bytes.len() as u32,
            captured_bytes: bytes.len() as u32,
            ..wire.base(CLIENT)
        };
        wire.give(&segment, &bytes);
    };
    for number in 0..MAX_CONNECTIONS {
        open(&mut wire, number, 0);
    }
    open(&mut wire, 0, bytes.len() as u32);
    open(&mut wire, MAX_CONNECTIONS, 0);
    assert_eq!(wire.count(Anomaly::ConnectionsEvicted), 1);
    // The first is still there; the second had to leave, and comes back with a new number.
    open(&mut wire, 0, 2 * bytes.len() as u32);
    open(&mut wire, 1, bytes.len() as u32);
    let last: Vec<u32> = wire.sink.messages[MAX_CONNECTIONS..]
        .iter()
        .map(|got| got.connection)
        .collect();
    let many = MAX_CONNECTIONS as u32;
    assert_eq!(last, [0, many, 0, many + 1]);
}

/// A handshake, two segments, one of them sent again, and a window that closes; with the times of
/// the first segment and of its acknowledgement.
fn by_hand() -> (Wire, i64, i64) {
    let stream = calls(0..3);
    let mut wire = Wire::default();
    wire.sink.transport = true;
    let syn = Segment {
        flags: SYN,
        sequence: 10,
        window_scale: 3,
        ..wire.base(CLIENT)
    };
    wire.give(&syn, &[]);
    let syn = Segment {
        flags: SYN | ACK,
        sequence: 500,
        acknowledgement: 11,
        window_scale: 7,
        ..wire.base(SERVER)
    };
    wire.give(&syn, &[]);
    let (sent_ns, _) = wire.data(CLIENT, 11, &stream.bytes[..104], usize::MAX);
    wire.data(CLIENT, 115, &stream.bytes[104..208], usize::MAX);
    wire.ack(SERVER, 115);
    let acknowledged_ns = wire.time_ns;
    wire.data(CLIENT, 115, &stream.bytes[104..208], usize::MAX);
    wire.ack(SERVER, 219);
    let zero = Segment {
        flags: ACK,
        acknowledgement: 219,
        window: 0,
        ..wire.base(SERVER)
    };
    wire.give(&zero, &[]);
    wire.flags(CLIENT, FIN | ACK, 219);
    wire.finish();
    (wire, sent_ns, acknowledged_ns)
}

#[test]
fn transport_events_by_hand() {
    let (wire, sent_ns, acknowledged_ns) = by_hand();
    let kinds: Vec<(Option<bool>, TransportKind)> = wire
        .sink
        .events
        .iter()
        .map(|event| (event.from_client, event.kind))
        .collect();
    let window = |round_trip_ns| TransportKind::Acknowledged {
        round_trip_ns,
        window_bytes: 1000 << 7,
        window_known: true,
    };
    let sent = |in_flight_bytes| TransportKind::Sent {
        bytes: 104,
        in_flight_bytes,
    };
    assert_eq!(
        kinds,
        [
            (
                None,
                TransportKind::Opened {
                    ends: [CLIENT, SERVER]
                }
            ),
            (
                None,
                TransportKind::Opened {
                    ends: [SERVER, CLIENT]
                }
            ),
            (None, sent(104)),
            (Some(true), sent(208)),
            (Some(false), window(Some(acknowledged_ns - sent_ns))),
            (
                Some(true),
                TransportKind::Retransmitted {
                    bytes: 104,
                    of: Again::Unacknowledged
                }
            ),
            (Some(false), window(None)),
            (Some(false), TransportKind::ZeroWindow),
            (
                Some(true),
                TransportKind::Closed {
                    reset: false,
                    ends: [CLIENT, SERVER]
                }
            ),
        ]
    );
}

#[test]
fn overtaken_and_lost() {
    let stream = calls(0..4);
    let mut wire = Wire::default();
    wire.sink.transport = true;
    wire.syn(CLIENT, 0);
    // Packet 1 was sent first but comes second: its identification is lower.
    wire.ip_id = 11;
    wire.data(CLIENT, 105, &stream.bytes[104..208], usize::MAX);
    wire.ip_id = 10;
    wire.data(CLIENT, 1, &stream.bytes[..104], usize::MAX);
    wire.data(CLIENT, 313, &stream.bytes[312..], usize::MAX);
    wire.ack(SERVER, 417);
    wire.finish();
    assert_eq!(wire.xids(), [0, 1, 3]);
    let odd: Vec<(Option<bool>, TransportKind)> = wire
        .sink
        .events
        .iter()
        .filter(|event| {
            matches!(
                event.kind,
                TransportKind::OutOfOrder | TransportKind::Lost { .. }
            )
        })
        .map(|event| (event.from_client, event.kind))
        .collect();
    let expected = [
        (None, TransportKind::OutOfOrder),
        (Some(true), TransportKind::Lost { bytes: 104 }),
    ];
    assert_eq!(odd, expected);
    assert_eq!(wire.count(Anomaly::TcpOutOfOrder), 1);
}
