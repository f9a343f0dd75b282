use super::*;
use crate::event::{Again, TransportKind};
use crate::lens::tests::hand_made::{Capture, MS, START_NS, floats, integers, number, read};

#[test]
fn the_queue_of_three_calls_by_hand() {
    // Waiting: 1 from 0, 2 from 1, 3 from 1.5, 2 from 2, 1 from 3, 0 from 4 to 5 ms.
    let mut capture = Capture::default();
    capture.call(read(0, Some(2 * MS)), &[], &[]);
    capture.call(read(MS, Some(4 * MS)), &[], &[]);
    capture.call(read(3 * MS / 2, Some(3 * MS)), &[], &[]);
    let section = capture.show(&mut RpcStat::default(), 5 * MS);
    assert_eq!(number(&section.json, "/bin_ns"), MS);
    assert_eq!(number(&section.json, "/origin_ns"), START_NS);
    // Changes at the bound of a bin: what was before is not in the bin.
    assert_eq!(integers(&section, "queue_max"), [1, 3, 2, 1, 0]);
    assert_eq!(integers(&section, "queue_min"), [1, 2, 2, 1, 0]);
    assert_eq!(floats(&section, "queue_mean"), [1.0, 2.5, 2.0, 1.0, 0.0]);
    assert_eq!(integers(&section, "sent_calls"), [1, 2, 0, 0, 0]);
    assert_eq!(integers(&section, "answered_calls"), [0, 0, 1, 1, 1]);
    assert_eq!(integers(&section, "answered_read"), [0, 0, 1, 1, 1]);
    assert_eq!(integers(&section, "read_bytes"), [0, 0, 4096, 4096, 4096]);
    assert_eq!(
        number(&section.json, "/little/queue_integral_ns"),
        13 * MS / 2
    );
    assert_eq!(section.json["little"]["agrees"], true);
    assert_eq!(section.json["queue"]["mean"], 1.3);
}

#[test]
fn littles_law_holds_exactly_however_calls_overlap() {
    let mut random = fastrand::Rng::with_seed(7);
    for span in [50 * MS, 5_000 * MS, 40_000 * MS] {
        let mut capture = Capture::default();
        let mut latencies = 0;
        for _ in 0..2000 {
            let (send, latency) = (random.i64(0..span), random.i64(0..20 * MS));
            latencies += latency;
            capture.call(read(send, Some(send + latency)), &[], &[]);
        }
        let section = capture.show(&mut RpcStat::default(), span + 20 * MS);
        assert_eq!(
            number(&section.json, "/little/queue_integral_ns"),
            latencies
        );
        assert_eq!(
            number(&section.json, "/little/answered_latency_ns"),
            latencies
        );
        assert_eq!(section.json["little"]["agrees"], true);
        assert_eq!(number(&section.json, "/queue/late_calls"), 0);
        // The means of the bins, weighted by time, are the integral again.
        let width = number(&section.json, "/bin_ns") as f64;
        let means = floats(&section, "queue_mean");
        let (last, full) = means.split_last().unwrap();
        let rest = (span + 20 * MS) as f64 - (means.len() - 1) as f64 * width;
        let first = number(&section.json, "/origin_ns") - START_NS;
        let integral = full.iter().sum::<f64>() * width + last * (rest - first as f64).min(width);
        assert!(
            (integral / latencies as f64 - 1.0).abs() < 1e-9,
            "{integral} {latencies}"
        );
    }
}

#[test]
fn the_largest_queue_is_that_of_a_count_at_every_instant() {
    let mut random = fastrand::Rng::with_seed(99);
    let mut capture = Capture::default();
    let mut changes = Vec::new();
    for _ in 0..500 {
        let send = random.i64(0..100 * MS);
        let reply = send + 1 + random.i64(0..30 * MS);
        changes.extend([(send, 1), (reply, -1)]);
        capture.call(read(send, Some(reply)), &[], &[]);
    }
    changes.sort_unstable();
    let (mut waiting, mut largest) = (0, 0);
    for (_, change) in changes {
        waiting += change;
        largest = i64::max(largest, waiting);
    }
    let section = capture.show(&mut RpcStat::default(), 200 * MS);
    assert_eq!(number(&section.json, "/queue/max"), largest);
    assert_eq!(
        integers(&section, "queue_max").into_iter().max(),
        Some(largest)
    );
}

#[test]
fn a_reply_and_the_next_call_of_one_instant_are_not_two_outstanding() {
    let mut capture = Capture::default();
    for step in 0..100 {
        capture.call(read(step * 1000, Some((step + 1) * 1000)), &[], &[]);
    }
    let section = capture.show(&mut RpcStat::default(), MS);
    assert_eq!(number(&section.json, "/queue/max"), 1);
    // Nor does a latency of nothing make the queue negative.
    let mut capture = Capture::default();
    capture.call(read(5, Some(5)), &[], &[]);
    let section = capture.show(&mut RpcStat::default(), MS);
    assert_eq!(integers(&section, "queue_max"), [1]);
    assert_eq!(section.json["little"]["agrees"], true);
}

#[test]
fn lost_replies_do_not_stay_in_the_queue_but_a_dead_servers_calls_do() {
    let mut capture = Capture::default();
    // Never answered, while later calls are: not in the queue at all, sent once.
    capture.call(read(0, None), &[], &[]);
    // Sent again at 3 ms: in the queue for 2 ms at least.
    capture.call(read(MS, None), &[3 * MS], &[]);
    capture.call(read(4 * MS, Some(5 * MS)), &[], &[]);
    // After the last reply: to the end of the capture, 20 - 8 ms.
    capture.call(read(8 * MS, None), &[9 * MS], &[]);
    let section = capture.show(&mut RpcStat::default(), 20 * MS);
    assert_eq!(number(&section.json, "/little/unanswered_wait_ns"), 14 * MS);
    assert_eq!(number(&section.json, "/little/queue_integral_ns"), 15 * MS);
    assert_eq!(number(&section.json, "/little/unanswered_in_queue"), 2);
    assert_eq!(number(&section.json, "/totals/unanswered"), 3);
    assert_eq!(number(&section.json, "/totals/retransmissions"), 2);
    assert_eq!(section.json["little"]["agrees"], true);
    assert_eq!(integers(&section, "queue_max").last(), Some(&1));
}

#[test]
fn a_call_that_begins_late_is_counted_with_its_time() {
    let mut lens = RpcStat::default();
    let names = Names::default();
    for (number, (send, reply)) in [(0, 1), (50, 60), (100, 101), (10, 55), (120, 121)]
        .into_iter()
        .enumerate()
    {
        let mut call = read(send * MS, Some(reply * MS));
        call.number = number as u64;
        lens.call(&call);
    }
    let extent = Extent {
        first_ns: START_NS,
        last_ns: START_NS + 200 * MS,
        ..Extent::default()
    };
    let section = lens.finish(&names, &extent);
    assert_eq!(number(&section.json, "/queue/late_calls"), 1);
    assert_eq!(
        number(&section.json, "/little/queue_integral_ns"),
        (1 + 10 + 1 + 45 + 1) * MS
    );
    assert_eq!(section.json["little"]["agrees"], true);
}

#[test]
fn slots_are_the_outstanding_calls_that_state_one() {
    let mut capture = Capture::default();
    for (slot, [send, reply]) in [(0, [0, 8]), (1, [1, 9]), (5, [2, 4])] {
        let mut call = read(send * MS, Some(reply * MS));
        call.slot = Some(slot);
        capture.call(call, &[], &[]);
    }
    capture.call(read(3 * MS, Some(9 * MS)), &[], &[]);
    let section = capture.show(&mut RpcStat::default(), 10 * MS);
    assert_eq!(number(&section.json, "/queue/slots_max"), 3);
    assert_eq!(number(&section.json, "/queue/max"), 4);
    assert_eq!(floats(&section, "highest_slot")[..3], [0.0, 1.0, 5.0]);
    assert!(floats(&section, "highest_slot")[3].is_nan());
}

#[test]
fn timeouts_are_told_from_fast_retransmits() {
    let mut capture = Capture::default();
    let sent = TransportKind::Sent {
        bytes: 1448,
        in_flight_bytes: 2896,
    };
    let again = TransportKind::Retransmitted {
        bytes: 1448,
        of: Again::Unacknowledged,
    };
    capture.transport(0, 1, true, sent);
    capture.transport(5 * MS, 1, true, again);
    capture.transport(6 * MS, 1, true, sent);
    // Another connection's packets do not shorten the silence.
    capture.transport(100 * MS, 2, true, sent);
    capture.transport(206 * MS, 1, true, again);
    let window = |window_bytes, window_known| TransportKind::Acknowledged {
        round_trip_ns: None,
        window_bytes,
        window_known,
    };
    capture.transport(207 * MS, 1, false, window(5000, true));
    capture.transport(208 * MS, 1, false, window(12, false));
    capture.transport(209 * MS, 1, false, TransportKind::ZeroWindow);
    capture.transport(210 * MS, 1, false, TransportKind::Lost { bytes: 99 });
    let section = capture.show(&mut RpcStat::default(), 300 * MS);
    let tcp = &section.json["totals"]["tcp"];
    assert_eq!(number(tcp, "/client/retransmitted_segments"), 2);
    assert_eq!(number(tcp, "/client/retransmitted_bytes"), 2896);
    assert_eq!(number(tcp, "/client/timeouts"), 1);
    assert_eq!(number(tcp, "/client/in_flight_max_bytes"), 2896);
    assert_eq!(number(tcp, "/server/window_min_bytes"), 5000);
    assert_eq!(number(tcp, "/server/zero_windows"), 1);
    assert_eq!(number(&section.json, "/totals/lost_bytes"), 99);
    assert_eq!(integers(&section, "tcp_client_timeouts")[206], 1);
}

#[test]
fn a_day_of_calls_stays_in_bounded_bins_with_exact_totals() {
    let mut lens = RpcStat::default();
    let names = Names::default();
    let second = 1000 * MS;
    for step in 0..86_400 {
        let call = read(step * second, Some(step * second + 3 * MS));
        lens.call(&call);
    }
    let last_ns = START_NS + 86_400 * second;
    let extent = Extent {
        first_ns: START_NS,
        last_ns,
        ..Extent::default()
    };
    let section = lens.finish(&names, &extent);
    assert!(integers(&section, "sent_calls").len() <= 4096);
    assert_eq!(integers(&section, "sent_calls").iter().sum::<i64>(), 86_400);
    assert_eq!(
        number(&section.json, "/little/queue_integral_ns"),
        86_400 * 3 * MS
    );
    assert_eq!(section.json["little"]["agrees"], true);
}
