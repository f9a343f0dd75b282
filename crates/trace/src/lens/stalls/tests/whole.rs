//! What a whole capture is summed up to: drain cycles, the slowest stretch, totals, bounds.

use super::super::gap::NAMED;
use super::*;

#[test]
fn kinds_stand_in_their_table_by_their_number() {
    for (number, (kind, ..)) in NAMED.iter().enumerate() {
        assert_eq!(*kind as usize, number);
    }
}

#[test]
fn drains_have_their_period_and_random_stalls_have_none() {
    // 300 ms of work, 200 ms of silence.
    let mut capture = Capture::default();
    for cycle in 0..24 {
        busy(&mut capture, cycle * 500, cycle * 500 + 300);
        let last = cycle * 500 + 300;
        capture.call(read(last * MS, Some((last + 199) * MS)), &[], &[]);
    }
    let json = shown(capture, 12_000 * MS);
    assert_eq!(number(&json, "/totals/server_stalled/count"), 24);
    let period = number(&json["servers"][0], "/drain_cycle/period_ns");
    assert!((470 * MS..530 * MS).contains(&period), "{period}");
    let period = number(&json, "/throughput_cycle/period_ns");
    assert!((470 * MS..530 * MS).contains(&period), "{period}");
    // The same silences at random places.
    let mut capture = Capture::default();
    let (mut now, mut state) = (0, 12345_u64);
    for _ in 0..40 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let fast = 20.0 - ((state >> 11) as f64 / (1_u64 << 53) as f64).ln() * 300.0;
        busy(&mut capture, now, now + fast as i64);
        now += fast as i64;
        capture.call(read(now * MS, Some((now + 199) * MS)), &[], &[]);
        now += 200;
    }
    let json = shown(capture, now * MS);
    assert_eq!(number(&json, "/totals/server_stalled/count"), 40);
    assert_eq!(json["servers"][0]["drain_cycle"], Value::Null);
    assert_eq!(json["throughput_cycle"], Value::Null);
}

#[test]
fn the_slowest_stretch_is_where_callers_waited_most() {
    let mut capture = Capture::default();
    capture.lane(read(0, None), [0, 10_000 * MS], MS, MS / 2);
    capture.lane(read(0, None), [7000 * MS, 7300 * MS], 2 * MS, 40 * MS);
    let json = shown(capture, 10_000 * MS);
    let look = &json["closer_look"][0];
    assert_eq!(look["what"], "slowest stretch");
    assert!(number(look, "/from_ns") <= 7010 * MS && number(look, "/from_ns") > 6900 * MS);
    assert!(number(look, "/to_ns") >= 7290 * MS && number(look, "/to_ns") < 7400 * MS);
    assert!(number(&json, "/slowest_stretch/latency_mean_ns") > 10 * MS);
}

#[test]
fn the_longest_gaps_and_all_totals_are_kept_exactly() {
    let mut capture = Capture::default();
    let mut now = 0;
    for step in 0..300 {
        busy(&mut capture, now, now + 50);
        now += 50;
        let length = 100 + (step * 7919) % 300;
        capture.call(read(now * MS, Some((now + length) * MS)), &[], &[]);
        now += length + 1;
    }
    let lengths: Vec<i64> = (0..300).map(|step| 100 + (step * 7919) % 300).collect();
    let json = shown(capture, now * MS);
    assert_eq!(number(&json, "/totals/server_stalled/count"), 300);
    let sum: i64 = lengths.iter().sum();
    assert_eq!(number(&json, "/totals/server_stalled/time_ns"), sum * MS);
    let found: Vec<i64> = gaps(&json).iter().map(|gap| gap.3).collect();
    let (mut found, mut longest) = (found, lengths);
    found.sort_unstable();
    longest.sort_unstable();
    assert_eq!(found, longest[longest.len() - 32..]);
}

#[test]
fn clients_and_servers_without_end_stay_bounded() {
    let mut lens = Stalls::default();
    let names = Names::default();
    for step in 0..5000_u32 {
        let mut call = read(i64::from(step) * 1000, Some(i64::from(step) * 1000 + 500));
        call.number = u64::from(step);
        call.connection = step;
        call.client.host = Host::from_bits(0xffff_0a00_0000 + u128::from(step));
        call.server.host = Host::from_bits(u128::from(step % 200) + 7);
        let time_ns = call.call_first.time_ns;
        lens.event(&Event::Sent {
            time_ns,
            call: &call,
            again: false,
        });
        lens.event(&Event::Replied {
            time_ns: time_ns + 500,
            call: &call,
            again: false,
        });
    }
    assert_eq!(lens.servers.len(), MAX_SERVERS);
    assert_eq!(lens.pairs.len(), MAX_PAIRS);
    assert!(lens.not_followed > 0);
    let extent = Extent {
        first_ns: START_NS,
        last_ns: START_NS + MS,
        ..Extent::default()
    };
    let section = lens.finish(&names, &extent);
    assert!(section.json["messages_not_followed"].as_u64() > Some(0));
}
