//! Frames written by hand, byte for byte: tcpdump.org's link types, RFC 791, 8200, 9293, 768.

use super::*;
use crate::block::Block;

/// IPv4 header of 20 bytes: total length, identification, flags and offset, protocol.
fn v4(total: u16, id: u16, place: u16, protocol: u8) -> Vec<u8> {
    let mut out = vec![0x45, 0];
    for half in [total, id, place] {
        out.extend_from_slice(&half.to_be_bytes());
    }
    out.extend_from_slice(&[64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    out
}

/// IPv6 header: payload length and next header; 2001:db8::1 to 2001:db8::2.
fn v6(length: u16, next: u8) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[next, 64]);
    for last in [1, 2] {
        out.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    out
}

/// TCP header from port 1000 to 2049 with these flags and options.
fn tcp(flags: u8, options: &[u8]) -> Vec<u8> {
    let mut out = vec![0x03, 0xe8, 0x08, 0x01, 0, 0, 0, 5, 0, 0, 0, 9];
    out.extend_from_slice(&[
        ((20 + options.len()) as u8 / 4) << 4,
        flags,
        0x20,
        0,
        0,
        0,
        0,
        0,
    ]);
    out.extend_from_slice(options);
    out
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x03, 0xe8, 0x08, 0x01];
    out.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(payload);
    out
}

fn ethernet(kind: u16) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    out.extend_from_slice(&kind.to_be_bytes());
    out
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A UDP datagram with `abc` in IPv4.
fn datagram() -> Vec<u8> {
    join(&[&v4(31, 7, 0, 17), &udp(b"abc")])
}

const AT: usize = 0x1000;

/// Feeds frames, one second apart from `AT` on; gives segments with their payloads, and counts.
struct Feed {
    packets: Packets,
    block: Block,
    number: u64,
}

impl Feed {
    fn new(fragment_bytes: usize) -> Self {
        Feed {
            packets: Packets::new(AT, fragment_bytes),
            block: Block::default(),
            number: 0,
        }
    }

    fn frame(&mut self, link: u32, time_ns: i64, bytes: &[u8], wire: usize) {
        self.number += 1;
        let frame = Frame {
            at: 0,
            captured: bytes.len(),
            wire,
            time_ns,
            number: self.number,
        };
        let link = Link::of_type(link).expect("read");
        self.packets
            .frame(bytes, &frame, link, &mut self.block.segments);
    }

    /// The only segment so far, and its payload if it was put together.
    fn assembled(&mut self) -> (Segment, Vec<u8>) {
        assert_eq!(self.block.segments.len(), 1, "{:?}", self.odd());
        self.block.bytes.resize(AT, 0);
        self.packets.append_assembled(&mut self.block.bytes);
        let segment = self.block.segments[0];
        (segment, self.block.payload(&segment).to_vec())
    }

    fn odd(&self) -> Vec<(&'static str, u64)> {
        self.packets.anomalies.iter().collect()
    }
}

/// The segment of one frame and its captured payload, or why there is none.
fn one_cut(link: u32, bytes: &[u8], wire: usize) -> Result<(Segment, Vec<u8>), &'static str> {
    let mut feed = Feed::new(1 << 16);
    feed.frame(link, 5, bytes, wire);
    match feed.block.segments[..] {
        [segment] => {
            let at = segment.payload_at as usize;
            let payload = bytes[at..at + segment.captured_bytes as usize].to_vec();
            Ok((segment, payload))
        }
        _ => Err(feed.odd().first().map_or("nothing", |(kind, _)| *kind)),
    }
}

fn one(link: u32, bytes: &[u8]) -> Result<(Segment, Vec<u8>), &'static str> {
    one_cut(link, bytes, bytes.len())
}

#[test]
fn every_link_layer_leads_to_the_datagram() {
    let ip = datagram();
    let sll = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    let sll2 = [0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    let tag = [0x00, 0x05];
    let frames: &[(u32, Vec<u8>)] = &[
        (1, join(&[&ethernet(0x0800), &ip])),
        (1, join(&[&ethernet(0x8100), &tag, &[8, 0], &ip])),
        (
            1,
            join(&[&ethernet(0x88a8), &tag, &[0x81, 0], &tag, &[8, 0], &ip]),
        ),
        (113, join(&[&sll, &[8, 0], &ip])),
        (113, join(&[&sll, &[0x81, 0], &tag, &[8, 0], &ip])),
        (276, join(&[&[8, 0], &sll2, &ip])),
        (276, join(&[&[0x81, 0], &sll2, &tag, &[8, 0], &ip])),
        (12, ip.clone()),
        (14, ip.clone()),
        (101, ip.clone()),
        (228, ip.clone()),
        (0, join(&[&[2, 0, 0, 0], &ip])),
        (0, join(&[&[0, 0, 0, 2], &ip])),
        (108, join(&[&[0, 0, 0, 2], &ip])),
    ];
    for (link, bytes) in frames {
        let (segment, payload) = one(*link, bytes).unwrap_or_else(|why| panic!("{link}: {why}"));
        assert_eq!(payload, b"abc", "{link}");
        assert_eq!(segment.source.to_string(), "192.0.2.1:1000");
        assert_eq!(segment.destination.to_string(), "192.0.2.2:2049");
        assert_eq!((segment.transport, segment.ip_id), (Transport::Udp, 7));
        assert_eq!(
            (segment.time_ns, segment.first_ns, segment.frame),
            (5, 5, 1)
        );
    }
}

#[test]
fn version_6_over_its_link_layers() {
    let ip = join(&[&v6(11, 17), &udp(b"abc")]);
    let frames: &[(u32, Vec<u8>)] = &[
        (1, join(&[&ethernet(0x86dd), &ip])),
        (101, ip.clone()),
        (229, ip.clone()),
        (0, join(&[&[10, 0, 0, 0], &ip])),
        (0, join(&[&[0, 0, 0, 30], &ip])),
        (108, join(&[&[0, 0, 0, 24], &ip])),
    ];
    for (link, bytes) in frames {
        let (segment, payload) = one(*link, bytes).unwrap_or_else(|why| panic!("{link}: {why}"));
        assert_eq!(payload, b"abc");
        assert_eq!(segment.source.to_string(), "[2001:db8::1]:1000");
        assert_eq!(segment.ip_id, 0);
    }
}

#[test]
fn what_is_no_ip_is_counted() {
    for kind in [0x0806, 0x8847, 0x8864, 0x0026] {
        assert_eq!(one(1, &join(&[&ethernet(kind), &[0; 46]])), Err("not_ip"));
    }
    assert_eq!(one(0, &[7, 0, 0, 0, 1]), Err("not_ip"));
    assert_eq!(one(1, &ethernet(0x0800)[..13]), Err("truncated_headers"));
    assert_eq!(one(1, &ethernet(0x0800)), Err("truncated_headers"));
    assert_eq!(one(101, &[0x50; 40]), Err("malformed_ip"));
    let tags = join(&[&ethernet(0x8100), &[0, 5, 0x81, 0].repeat(20)]);
    assert_eq!(one(1, &tags), Err("not_ip"));
}

#[test]
fn tcp_by_the_fast_path_and_by_the_layers_is_the_same() {
    let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    for options in [&[][..], &timestamps] {
        let total = (20 + 20 + options.len() + 4) as u16;
        let ip = join(&[&v4(total, 0xbeef, 0x4000, 6), &tcp(0x18, options), b"data"]);
        // Padding behind the packet is no payload.
        let padded = join(&[&ethernet(0x0800), &ip, &[0; 9]]);
        let tagged = join(&[&ethernet(0x8100), &[0, 5, 8, 0], &ip, &[0; 9]]);
        let (fast, payload) = one(1, &padded).expect("fast");
        let (layers, other) = one(1, &tagged).expect("layers");
        assert_eq!((&payload[..], &other[..]), (&b"data"[..], &b"data"[..]));
        let expected = Segment {
            payload_at: fast.payload_at,
            ..layers
        };
        assert_eq!(fast, expected);
        assert_eq!((fast.sequence, fast.acknowledgement), (5, 9));
        assert_eq!(
            (fast.flags, fast.window, fast.ip_id),
            (0x18, 0x2000, 0xbeef)
        );
        assert_eq!((fast.payload_bytes, fast.window_scale), (4, NO_SCALE));
    }
}

#[test]
fn a_cut_packet_keeps_its_lengths() {
    let ip = join(&[&v4(44, 1, 0, 6), &tcp(0x10, &[]), b"data"]);
    let frame = join(&[&ethernet(0x0800), &ip]);
    for kept in 34..=frame.len() {
        let found = one_cut(1, &frame[..kept], frame.len());
        match kept {
            34..54 => assert_eq!(found, Err("truncated_headers")),
            _ => {
                let (segment, payload) = found.expect("a segment");
                assert_eq!(segment.payload_bytes, 4);
                assert_eq!(payload, &b"data"[..kept - 54]);
            }
        }
    }
    // Cut within TCP options: the payload's length is still known.
    let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let ip = join(&[&v4(56, 1, 0, 6), &tcp(0x10, &options), b"data"]);
    let frame = join(&[&ethernet(0x0800), &ip]);
    let (segment, payload) = one_cut(1, &frame[..58], frame.len()).expect("a segment");
    assert_eq!((segment.payload_bytes, payload.len()), (4, 0));
}

#[test]
fn a_syn_tells_its_window_scale() {
    let scale = |options: &[u8]| {
        let total = (40 + options.len()) as u16;
        let frame = join(&[&ethernet(0x0800), &v4(total, 1, 0, 6), &tcp(SYN, options)]);
        one(1, &frame).expect("a segment").0.window_scale
    };
    assert_eq!(scale(&[2, 4, 5, 180, 1, 3, 3, 7]), 7);
    assert_eq!(scale(&[1, 3, 3, 20]), 14);
    assert_eq!(scale(&[2, 4, 5, 180]), NO_SCALE);
    // End of options, impossible lengths.
    assert_eq!(scale(&[0, 3, 3, 7]), NO_SCALE);
    assert_eq!(scale(&[8, 0, 3, 3]), NO_SCALE);
    assert_eq!(scale(&[8, 200, 3, 3]), NO_SCALE);
}

#[test]
fn lengths_of_ip_against_the_frame() {
    // Options of IPv4: 24 bytes of header.
    let mut with_options = v4(35, 1, 0, 17);
    with_options[0] = 0x46;
    let frame = join(&[&with_options, &[1, 1, 1, 0], &udp(b"abc")]);
    assert_eq!(one(101, &frame).expect("options").1, b"abc");
    // Total length 0: segmentation offload, the frame's length holds.
    let frame = join(&[
        &ethernet(0x0800),
        &v4(0, 1, 0, 6),
        &tcp(0x10, &[]),
        &[9; 3000],
    ]);
    assert_eq!(one(1, &frame).expect("offload").0.payload_bytes, 3000);
    let frame = join(&[&v6(0, 6), &tcp(0x10, &[]), &[9; 3000]]);
    assert_eq!(one(101, &frame).expect("offload").0.payload_bytes, 3000);
    // More than the frame holds.
    let mut feed = Feed::new(0);
    let frame = join(&[&v4(500, 1, 0, 6), &tcp(0x10, &[]), b"four"]);
    feed.frame(101, 0, &frame, frame.len());
    assert_eq!(feed.block.segments[0].payload_bytes, 4);
    assert_eq!(feed.odd(), [("length_exceeds_frame", 1)]);
    // Less than its own header.
    assert_eq!(
        one(101, &join(&[&v4(19, 1, 0, 17), &udp(b"")])),
        Err("malformed_ip")
    );
}

#[test]
fn transports_that_contradict_themselves_or_are_others() {
    let mut short = tcp(0x10, &[]);
    short[12] = 0x40;
    assert_eq!(
        one(101, &join(&[&v4(40, 1, 0, 6), &short])),
        Err("malformed_transport")
    );
    let mut long = tcp(0x10, &[]);
    long[12] = 0xf0;
    assert_eq!(
        one(101, &join(&[&v4(40, 1, 0, 6), &long])),
        Err("malformed_transport")
    );
    let mut bad = udp(b"abc");
    bad[5] = 7;
    assert_eq!(
        one(101, &join(&[&v4(31, 1, 0, 17), &bad])),
        Err("malformed_transport")
    );
    assert_eq!(
        one(101, &join(&[&v4(24, 1, 0, 17), &[0; 4]])),
        Err("malformed_transport")
    );
    assert_eq!(
        one(101, &join(&[&v4(28, 1, 0, 1), &[8; 8]])),
        Err("not_tcp_udp")
    );
    for tunnel in [4, 41, 47] {
        assert_eq!(
            one(101, &join(&[&v4(40, 1, 0, tunnel), &[0; 20]])),
            Err("tunnelled")
        );
    }
    let mut vxlan = udp(b"12345678");
    vxlan[2..4].copy_from_slice(&4789_u16.to_be_bytes());
    assert_eq!(
        one(101, &join(&[&v4(36, 1, 0, 17), &vxlan])),
        Err("tunnelled")
    );
}

#[test]
fn extension_headers_of_version_6() {
    let hop = [60, 0, 1, 4, 0, 0, 0, 0];
    let destination = [43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing = [51, 0, 0, 0, 0, 0, 0, 0];
    // Authentication: 4 words of 32 bits, minus 2.
    let authentication = [44, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9];
    // An atomic fragment (RFC 6946): offset 0, no more.
    let atomic = [17, 0, 0, 0, 0, 1, 2, 3];
    let headers = join(&[&hop, &destination, &routing, &authentication, &atomic]);
    let frame = join(&[&v6(headers.len() as u16 + 11, 0), &headers, &udp(b"abc")]);
    let (segment, payload) = one(101, &frame).expect("a segment");
    assert_eq!((&payload[..], segment.ip_id), (&b"abc"[..], 0x0001_0203));
    // Headers without end, and one that is longer than the packet.
    let endless = join(&[&v6(8 * 20, 0), &[0; 160]]);
    assert_eq!(one(101, &endless), Err("malformed_ip"));
    let long = join(&[&v6(16, 0), &[17, 200], &[0; 14]]);
    assert_eq!(one(101, &long), Err("malformed_ip"));
    assert_eq!(
        one_cut(101, &frame[..60], frame.len()),
        Err("truncated_headers")
    );
}

/// Offset, whether more follow, bytes.
type Fragment = (u16, bool, Vec<u8>);

/// The fragments of a UDP datagram of 3000 bytes.
fn fragments() -> (Vec<u8>, Vec<Fragment>) {
    let payload: Vec<u8> = (0..3000_u32).map(|at| (at * 7 % 251) as u8).collect();
    let whole = udp(&payload);
    let pieces = whole.chunks(1000).enumerate();
    let pieces = pieces.map(|(at, bytes)| (at as u16 * 1000, at < 3, bytes.to_vec()));
    (payload, pieces.collect())
}

fn fragment_v4(id: u16, fragment: &Fragment) -> Vec<u8> {
    let place = (fragment.0 / 8) | if fragment.1 { 0x2000 } else { 0 };
    join(&[
        &v4(20 + fragment.2.len() as u16, id, place, 17),
        &fragment.2,
    ])
}

fn fragment_v6(id: u32, fragment: &Fragment) -> Vec<u8> {
    let place = fragment.0 | u16::from(fragment.1);
    let header = join(&[&[17, 0], &place.to_be_bytes(), &id.to_be_bytes()]);
    join(&[&v6(8 + fragment.2.len() as u16, 44), &header, &fragment.2])
}

#[test]
fn fragments_in_any_order_are_one_datagram() {
    let (payload, pieces) = fragments();
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]];
    for order in orders {
        for version in [4, 6] {
            let mut feed = Feed::new(1 << 16);
            for (time_ns, at) in (100..).zip(order) {
                let bytes = match version {
                    4 => fragment_v4(77, &pieces[at]),
                    _ => fragment_v6(77, &pieces[at]),
                };
                feed.frame(101, time_ns, &bytes, bytes.len());
            }
            let (segment, found) = feed.assembled();
            assert_eq!(found, payload);
            assert_eq!((segment.payload_bytes, segment.ip_id), (3000, 77));
            assert_eq!(
                (segment.first_ns, segment.time_ns, segment.frame),
                (100, 103, 4)
            );
            assert_eq!(segment.destination.port, 2049);
            feed.packets.finish(&mut feed.block.segments);
            assert!(feed.odd().is_empty(), "{:?}", feed.odd());
        }
    }
}

#[test]
fn fragments_twice_or_overlapping_keep_the_first_bytes() {
    let (payload, pieces) = fragments();
    let mut feed = Feed::new(1 << 16);
    let mut other = (504, true, vec![0xee; 1200]);
    for fragment in [
        &pieces[0], &pieces[0], &pieces[3], &pieces[2], &other, &pieces[1],
    ] {
        let bytes = fragment_v4(1, fragment);
        feed.frame(101, 0, &bytes, bytes.len());
    }
    // 504..1000 and what came later lose; 1000..1704 came first from the overlapping one.
    let (_, found) = feed.assembled();
    let mut expected = udp(&payload);
    expected[1000..1704].fill(0xee);
    assert_eq!(found, &expected[8..]);
    assert_eq!(feed.odd(), [("fragment_overlaps", 3)]);
    // A second capture of the whole, a moment later, is none.
    other.0 = 0;
    let bytes = fragment_v4(1, &other);
    feed.frame(101, 50_000_000, &bytes, bytes.len());
    assert_eq!(feed.odd(), [("fragment_overlaps", 4)]);
    feed.packets.finish(&mut feed.block.segments);
    assert_eq!(feed.odd(), [("fragment_overlaps", 4)]);
}

#[test]
fn cut_fragments_give_the_bytes_up_to_the_first_that_is_missing() {
    let (payload, pieces) = fragments();
    for reversed in [false, true] {
        let mut feed = Feed::new(1 << 16);
        let mut order: Vec<_> = pieces.iter().collect();
        if reversed {
            order.reverse();
        }
        for fragment in order {
            let bytes = fragment_v4(1, fragment);
            feed.frame(101, 0, &bytes[..bytes.len().min(96)], bytes.len());
        }
        let (segment, found) = feed.assembled();
        assert_eq!((segment.payload_bytes, segment.captured_bytes), (3000, 68));
        assert_eq!(found, &payload[..68]);
    }
}

#[test]
fn missing_fragments_are_counted_with_what_was_lost() {
    let (_, pieces) = fragments();
    let mut feed = Feed::new(1 << 16);
    for fragment in [&pieces[0], &pieces[1], &pieces[3]] {
        let bytes = fragment_v4(1, fragment);
        feed.frame(101, 0, &bytes, bytes.len());
    }
    // 30 seconds are not yet too long; the next nanosecond is.
    let later = fragment_v4(2, &pieces[2]);
    feed.frame(101, 30_000_000_000, &later, later.len());
    assert!(feed.odd().is_empty());
    feed.frame(101, 30_000_000_001, &later, later.len());
    assert_eq!(
        feed.odd(),
        [("fragments_lost", 1), ("fragment_overlaps", 1)]
    );
    assert_eq!(feed.packets.fragments_lost_bytes, 2008);
    feed.packets.finish(&mut feed.block.segments);
    assert_eq!(feed.odd()[0], ("fragments_lost", 2));
    assert!(feed.block.segments.is_empty());
}

#[test]
fn an_identification_used_again_is_another_datagram() {
    let (payload, pieces) = fragments();
    let mut feed = Feed::new(1 << 16);
    let first = fragment_v4(1, &pieces[0]);
    feed.frame(101, 0, &first, first.len());
    for fragment in &pieces {
        let bytes = fragment_v4(1, fragment);
        feed.frame(101, 5_000_000_000, &bytes, bytes.len());
    }
    let (segment, found) = feed.assembled();
    assert_eq!((segment.first_ns, found), (5_000_000_000, payload));
    assert_eq!(feed.odd(), [("fragments_lost", 1)]);
}

#[test]
fn waiting_fragments_are_bounded() {
    let (_, pieces) = fragments();
    let mut feed = Feed::new(20_000);
    for id in 0..1000 {
        let bytes = fragment_v4(id, &pieces[1]);
        feed.frame(101, 0, &bytes, bytes.len());
    }
    // 20 000 bytes hold 7 datagrams of 1000 bytes behind as many missing ones, with overhead.
    assert_eq!(feed.packets.anomalies.of(Anomaly::FragmentLimit), 993);
    assert_eq!(feed.packets.anomalies.of(Anomaly::FragmentsLost), 993);
}

#[test]
fn impossible_fragments_are_refused() {
    let mut feed = Feed::new(1 << 16);
    // Longer than a datagram can be; not a multiple of eight; two different ends.
    let beyond = fragment_v4(1, &(65_528, false, vec![0; 16]));
    feed.frame(101, 0, &beyond, beyond.len());
    let uneven = fragment_v4(2, &(0, true, vec![0; 9]));
    feed.frame(101, 0, &uneven, uneven.len());
    let ends = [(800, false, vec![0; 8]), (400, false, vec![0; 8])];
    for end in &ends {
        let bytes = fragment_v4(3, end);
        feed.frame(101, 0, &bytes, bytes.len());
    }
    assert_eq!(feed.odd(), [("malformed_ip", 3)]);
}

#[test]
fn first_fragments_alone_are_used_when_no_others_come() {
    let (payload, pieces) = fragments();
    let mut feed = Feed::new(1 << 20);
    for id in 0..20 {
        let bytes = fragment_v4(id, &pieces[0]);
        feed.frame(101, i64::from(id), &bytes, bytes.len());
        let expected = if id < 15 { 0 } else { usize::from(id) + 1 };
        assert_eq!(feed.block.segments.len(), expected);
    }
    for (id, segment) in feed.block.segments.iter().enumerate() {
        assert_eq!((segment.payload_bytes, segment.captured_bytes), (3000, 992));
        assert_eq!((segment.frame, segment.time_ns), (id as u64 + 1, id as i64));
    }
    feed.block.bytes.resize(AT, 0);
    feed.packets.append_assembled(&mut feed.block.bytes);
    let last = feed.block.segments[19];
    assert_eq!(feed.block.payload(&last), &payload[..992]);
    assert_eq!(feed.odd(), [("fragments_not_captured", 20)]);
    // Others do come after all: first fragments wait again.
    for fragment in [&pieces[1], &pieces[0]] {
        let bytes = fragment_v4(99, fragment);
        feed.frame(101, 30, &bytes, bytes.len());
    }
    assert_eq!(feed.block.segments.len(), 20);
}
