//! Datagrams.

use super::kit::{CLIENT, SERVER, Wire, call, reply};
use crate::block::{Endpoint, Segment, Transport};
use crate::stream::Anomaly;

fn datagram(wire: &mut Wire, from: Endpoint, payload: &[u8], ip_id: u32, captured: usize) {
    let captured = captured.min(payload.len());
    let segment = Segment {
        transport: Transport::Udp,
        ip_id,
        payload_bytes: payload.len() as u32,
        captured_bytes: captured as u32,
        ..wire.base(from)
    };
    wire.give(&segment, &payload[..captured]);
}

#[test]
fn one_message_a_datagram() {
    let mut wire = Wire::default();
    datagram(&mut wire, CLIENT, &call(1, 100), 1, usize::MAX);
    datagram(&mut wire, SERVER, &reply(1, 100), 1, usize::MAX);
    datagram(
        &mut wire,
        CLIENT,
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00",
        2,
        99,
    );
    datagram(&mut wire, CLIENT, &call(2, 100), 3, 30);
    wire.finish();
    assert_eq!(wire.xids(), [1, 1, 2]);
    assert_eq!(wire.count(Anomaly::UdpNotRpc), 1);
    let connections: Vec<u32> = wire
        .sink
        .messages
        .iter()
        .map(|got| got.connection)
        .collect();
    assert_eq!(connections, [0, 0, 0]);
    let cut = &wire.sink.messages[2];
    assert_eq!(
        (cut.complete, cut.head.len(), cut.missing),
        (false, 30, 110)
    );
    assert_eq!(cut.wire_bytes, 140);
}

#[test]
fn a_packet_captured_twice_counts_once_and_one_sent_twice_twice() {
    let mut wire = Wire::default();
    let message = call(1, 100);
    datagram(&mut wire, CLIENT, &message, 7, usize::MAX);
    datagram(&mut wire, CLIENT, &message, 7, usize::MAX);
    assert_eq!(
        (wire.xids().len(), wire.count(Anomaly::DuplicatePacket)),
        (1, 1)
    );
    datagram(&mut wire, CLIENT, &message, 8, usize::MAX);
    assert_eq!(wire.xids().len(), 2);
    // The identification comes round again after more than a second: another packet.
    wire.time_ns += 1_100_000_000;
    datagram(&mut wire, CLIENT, &message, 8, usize::MAX);
    assert_eq!(wire.xids().len(), 3);
    // No identification: a millisecond tells them apart.
    datagram(&mut wire, CLIENT, &message, 0, usize::MAX);
    datagram(&mut wire, CLIENT, &message, 0, usize::MAX);
    assert_eq!(
        (wire.xids().len(), wire.count(Anomaly::DuplicatePacket)),
        (4, 2)
    );
    wire.time_ns += 1_100_000;
    datagram(&mut wire, CLIENT, &message, 0, usize::MAX);
    assert_eq!(wire.xids().len(), 5);
}
