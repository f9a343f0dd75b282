//! Link, network and transport layers of single frames.

use super::*;

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
        (242, join(&[&[7; 40], &[8, 0, 0, 0], &ip])),
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
        (242, join(&[&[7; 40], &[0x86, 0xdd, 0, 0], &ip])),
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
    for (tunnel, why) in [(4, "malformed_ip"), (41, "malformed_ip"), (47, "tunnelled")] {
        assert_eq!(
            one(101, &join(&[&v4(40, 1, 0, tunnel), &[0; 20]])),
            Err(why)
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
fn tunnels_and_labels_lead_to_the_packet_in_them() {
    let ip = datagram();
    let framed = join(&[&ethernet(0x0800), &ip]);
    let outer = |protocol: u8, inside: &[u8]| {
        join(&[&v4(20 + inside.len() as u16, 1, 0, protocol), inside])
    };
    let over_udp = |port: u16, inside: &[u8]| {
        let mut datagram = udp(inside);
        datagram[2..4].copy_from_slice(&port.to_be_bytes());
        outer(17, &datagram)
    };
    let vxlan = join(&[&[8, 0, 0, 0, 0, 0, 42, 0], &framed]);
    // Two words of options in front of an Ethernet frame.
    let geneve = join(&[&[2, 0, 0x65, 0x58, 0, 0, 42, 0], &[0; 8], &framed]);
    let frames: &[(u32, Vec<u8>)] = &[
        (101, outer(4, &ip)),
        (101, outer(47, &join(&[&[0, 0, 8, 0], &ip]))),
        // With a checksum and its reserved word (RFC 2784 section 2.1).
        (101, outer(47, &join(&[&[0x80, 0, 8, 0], &[1; 4], &ip]))),
        // With a key and a sequence number.
        (101, outer(47, &join(&[&[0x30, 0, 8, 0], &[1; 8], &ip]))),
        (101, outer(47, &join(&[&[0, 0, 0x65, 0x58], &framed]))),
        (101, over_udp(4789, &vxlan)),
        (101, over_udp(6081, &geneve)),
        // VXLAN within GRE.
        (
            101,
            outer(47, &join(&[&[0, 0, 8, 0], &over_udp(4789, &vxlan)])),
        ),
        (
            1,
            join(&[&ethernet(0x8847), &[0, 1, 0, 64, 0, 2, 1, 64], &ip]),
        ),
    ];
    for (number, (link, bytes)) in frames.iter().enumerate() {
        let (segment, payload) = one(*link, bytes).unwrap_or_else(|why| panic!("{number}: {why}"));
        assert_eq!(payload, b"abc", "{number}");
        assert_eq!(segment.source.to_string(), "192.0.2.1:1000", "{number}");
        assert_eq!(segment.destination.to_string(), "192.0.2.2:2049");
    }
    // ERSPAN, whose header is a switch maker's own, is counted and not followed.
    let mirrored = join(&[&[0x10, 0, 0x88, 0xbe], &[1; 12], &framed]);
    assert_eq!(one(101, &outer(47, &mirrored)), Err("tunnelled"));
    // As deep as no network is.
    let mut deep = ip;
    for _ in 0..6 {
        deep = outer(4, &deep);
    }
    assert_eq!(one(101, &deep), Err("tunnelled"));
}

/// InfiniBand Architecture, annexes A16 and A17; base transport header: section 9.2.
#[test]
fn rdma_over_ethernet_is_known() {
    // SEND only, on a reliable connection, to queue pair 17; payload, and the invariant checksum.
    let transport = join(&[
        &[4, 0, 0xff, 0xff, 0, 0, 0, 17, 0x80, 0, 0, 1],
        &[7; 8],
        &[9; 4],
    ]);
    let version_1 = join(&[&ethernet(0x8915), &[0x60; 40], &transport]);
    assert_eq!(one(1, &version_1), Err("rdma"));
    let over_udp = |from: u16, to: u16, payload: &[u8]| {
        let mut datagram = udp(payload);
        datagram[..2].copy_from_slice(&from.to_be_bytes());
        datagram[2..4].copy_from_slice(&to.to_be_bytes());
        join(&[&v4(20 + datagram.len() as u16, 1, 0, 17), &datagram])
    };
    assert_eq!(one(101, &over_udp(0xc001, 4791, &transport)), Err("rdma"));
    // Another version, too short, the other way, and a reply of NFS to that port.
    let mut other = transport.clone();
    other[1] = 1;
    for plain in [
        over_udp(0xc001, 4791, &other),
        over_udp(0xc001, 4791, &transport[..15]),
        over_udp(4791, 0xc001, &transport),
        over_udp(2049, 4791, &transport),
    ] {
        one(101, &plain).expect("a datagram");
    }
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
