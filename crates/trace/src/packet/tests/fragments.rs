//! Datagrams in fragments: RFC 791, 8200 section 4.5, 5722, 6946.

use proptest::prelude::*;

use super::*;

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

fn lost(bytes: u64, gaps: u64) -> Lost {
    Lost { bytes, gaps }
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
    assert_eq!(feed.packets.fragments_lost, lost(1000, 1));
    feed.packets.finish(&mut feed.block.segments);
    assert_eq!(feed.odd()[0], ("fragments_lost", 2));
    // Of the other one only the third fragment came: its end is not known, nor how long it is.
    assert_eq!(feed.packets.fragments_lost, lost(1000 + 2000, 1 + 2));
    assert!(feed.block.segments.is_empty());
}

#[test]
fn a_missing_end_is_as_long_as_udp_states() {
    let (_, pieces) = fragments();
    // Which fragments come, what is missing: 3008 bytes with UDP's header, 1000 a fragment.
    let cases: [(&[usize], Lost); 5] = [
        (&[0], lost(2008, 1)),
        (&[0, 2], lost(1000 + 8, 2)),
        (&[0, 1, 2], lost(8, 1)),
        (&[1, 3], lost(2000, 2)),
        (&[1], lost(1000, 2)),
    ];
    for (came, missing) in cases {
        let mut feed = Feed::new(1 << 16);
        // One that is whole: fragments behind the first are captured at all.
        for piece in &pieces {
            let bytes = fragment_v4(9, piece);
            feed.frame(101, 0, &bytes, bytes.len());
        }
        for at in came {
            let bytes = fragment_v4(1, &pieces[*at]);
            feed.frame(101, 1, &bytes, bytes.len());
        }
        feed.packets.finish(&mut feed.block.segments);
        assert_eq!(feed.odd(), [("fragments_lost", 1)]);
        assert_eq!(feed.packets.fragments_lost, missing, "{came:?}");
    }
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
fn a_busy_server_over_udp_reaches_no_limit() {
    // 20 000 datagrams of 4 fragments within a second, room for 40 that wait.
    let (payload, pieces) = fragments();
    let mut feed = Feed::new(20_000);
    for number in 0..20_000_u32 {
        for piece in &pieces {
            let bytes = fragment_v4(number as u16, piece);
            feed.frame(101, i64::from(number) * 50_000, &bytes, bytes.len());
        }
        feed.packets.append_assembled(&mut feed.block.bytes);
        feed.block.bytes.clear();
    }
    assert_eq!(feed.block.segments.len(), 20_000);
    let sizes = feed.block.segments.iter().map(|it| it.captured_bytes);
    assert!(sizes.clone().all(|bytes| bytes as usize == payload.len()));
    assert!(feed.odd().is_empty(), "{:?}", feed.odd());
    assert!(feed.packets.waiting_bytes() <= 20_000);
    feed.packets.finish(&mut feed.block.segments);
    assert_eq!(feed.packets.waiting_bytes(), 0);
}

#[test]
fn a_lost_fragment_among_many_whole_datagrams_costs_one_datagram() {
    let (_, pieces) = fragments();
    let mut feed = Feed::new(20_000);
    for number in 0..2000_u16 {
        for (at, piece) in pieces.iter().enumerate() {
            if (number, at) == (500, 2) {
                continue;
            }
            let bytes = fragment_v4(number, piece);
            feed.frame(101, i64::from(number) * 1_000_000, &bytes, bytes.len());
        }
    }
    assert_eq!(feed.block.segments.len(), 1999);
    // 20 000 bytes are reached by 40 that came behind it.
    assert_eq!(feed.odd(), [("fragments_lost", 1), ("fragment_limit", 1)]);
    assert_eq!(feed.packets.fragments_lost, lost(1000, 1));
}

proptest! {
    /// Any cut of a datagram into fragments, in any order, some twice: the same bytes once.
    #[test]
    fn any_fragments_in_any_order(
        cuts in prop::collection::btree_set(1..375_usize, 1..20),
        order in prop::collection::vec(any::<(prop::sample::Index, bool)>(), 0..40),
        version_6 in any::<bool>(),
    ) {
        let payload: Vec<u8> = (0..3000_u32).map(|at| (at * 31 % 253) as u8).collect();
        let whole = udp(&payload);
        let bounds: Vec<usize> = [0].into_iter().chain(cuts.iter().map(|cut| cut * 8)).collect();
        let ends = bounds[1..].iter().copied().chain([whole.len()]);
        let pieces: Vec<Fragment> = bounds
            .iter()
            .zip(ends)
            .map(|(&at, end)| (at as u16, end < whole.len(), whole[at..end].to_vec()))
            .collect();
        let mut sends: Vec<usize> = (0..pieces.len()).collect();
        for (index, twice) in &order {
            let at = index.index(sends.len());
            let piece = sends.remove(at);
            sends.push(piece);
            if *twice {
                sends.insert(0, piece);
            }
        }
        let mut feed = Feed::new(1 << 16);
        for piece in sends {
            let bytes = match version_6 {
                true => fragment_v6(9, &pieces[piece]),
                false => fragment_v4(9, &pieces[piece]),
            };
            feed.frame(101, 5, &bytes, bytes.len());
        }
        let (segment, found) = feed.assembled();
        prop_assert_eq!(&found, &payload);
        prop_assert_eq!(segment.payload_bytes, 3000);
        feed.packets.finish(&mut feed.block.segments);
        prop_assert_eq!(feed.block.segments.len(), 1);
        prop_assert_eq!(feed.packets.waiting_bytes(), 0);
        prop_assert_eq!(feed.packets.fragments_lost, Lost::default());
    }
}

#[test]
fn impossible_fragments_are_refused() {
    let mut feed = Feed::new(1 << 16);
    // Longer than a datagram can be; not a multiple of eight; empty; two different ends.
    let beyond = fragment_v4(1, &(65_528, false, vec![0; 16]));
    feed.frame(101, 0, &beyond, beyond.len());
    let uneven = fragment_v4(2, &(0, true, vec![0; 9]));
    feed.frame(101, 0, &uneven, uneven.len());
    let empty = fragment_v4(2, &(800, true, Vec::new()));
    feed.frame(101, 0, &empty, empty.len());
    let ends = [(800, false, vec![0; 8]), (400, false, vec![0; 8])];
    for end in &ends {
        let bytes = fragment_v4(3, end);
        feed.frame(101, 0, &bytes, bytes.len());
    }
    assert_eq!(feed.odd(), [("malformed_ip", 4)]);
}

#[test]
fn a_first_fragment_that_comes_often_still_waits_for_the_others() {
    let (payload, pieces) = fragments();
    let mut feed = Feed::new(1 << 16);
    let firsts = std::iter::repeat_n(&pieces[0], 40);
    for piece in firsts.chain(&pieces[1..]) {
        let bytes = fragment_v4(9, piece);
        feed.frame(101, 5, &bytes, bytes.len());
    }
    let (segment, found) = feed.assembled();
    assert_eq!((found, segment.payload_bytes), (payload, 3000));
    feed.packets.finish(&mut feed.block.segments);
    assert_eq!(feed.block.segments.len(), 1);
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
