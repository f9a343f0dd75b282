//! Stalls found and named in real captures, against when the server was really stopped.
//!
//! `v3_udp_stalls_retrans`: the server was sent SIGSTOP and SIGCONT three times, at times written
//! down by who sent them (`.stalls.txt`). A capture cannot show a stop itself, only from the first
//! call that found the server stopped to the first reply after it: the client called every few
//! milliseconds, and the replies came as soon as the server ran again. The other captures were
//! made without a stop.

use crate::rows::{analysed, captures};
use serde_json::Value;

/// Captures whose server was never stopped.
const STEADY: [&str; 7] = [
    "v3_tcp_q1",
    "v3_tcp_ipv6_q4",
    "v3_tcp_rpcfrag",
    "v3_udp",
    "v41_slots8",
    "linux61_pgbench_v3",
    "linux61_pgbench_v42",
];

/// The stop that is not shown: before the first call that waits, and behind the last signal.
const SHARE_NOT_SHOWN: f64 = 0.03;
/// A signal's time was written down after it was sent: the server may have answered before (2 ms at
/// the first stop).
const WRITTEN_LATE_NS: i64 = 5_000_000;

/// STOP and CONT, nanoseconds since 1970.
fn stops() -> Vec<(i64, i64)> {
    let text =
        std::fs::read_to_string(captures().join("v3_udp_stalls_retrans.stalls.txt")).unwrap();
    let times: Vec<(&str, i64)> = text
        .lines()
        .map(|line| {
            let (signal, time) = line.split_once(' ').unwrap();
            let (whole, nano) = time.split_once('.').unwrap();
            let whole: i64 = whole.parse().unwrap();
            (signal, whole * 1_000_000_000 + nano.parse::<i64>().unwrap())
        })
        .collect();
    times
        .chunks(2)
        .map(|pair| {
            assert_eq!((pair[0].0, pair[1].0), ("STOP", "CONT"));
            (pair[0].1, pair[1].1)
        })
        .collect()
}

fn gaps(name: &str, kind: &str) -> Vec<Value> {
    let found = analysed(name);
    let listed = found.section("stalls")["gaps"].as_array().unwrap().clone();
    let of_kind = listed.into_iter().filter(|gap| gap["kind"] == kind);
    let mut of_kind: Vec<Value> = of_kind.collect();
    of_kind.sort_by_key(|gap| gap["begin_ns"].as_i64());
    of_kind
}

#[test]
fn a_stopped_server_is_named_with_the_length_of_its_stops() {
    let stops = stops();
    let gaps = gaps("v3_udp_stalls_retrans", "server_stalled");
    assert_eq!(gaps.len(), stops.len(), "{gaps:#?}");
    for (gap, (stop_ns, cont_ns)) in gaps.iter().zip(stops) {
        let of = |field: &str| gap[field].as_i64().unwrap();
        let true_ns = cont_ns - stop_ns;
        let begin_ns = of("begin_ns");
        assert!(
            begin_ns >= stop_ns - WRITTEN_LATE_NS && begin_ns < cont_ns,
            "{gap:#?}"
        );
        assert!(of("end_ns") >= cont_ns - WRITTEN_LATE_NS, "{gap:#?}");
        let error = (of("length_ns") - true_ns) as f64 / true_ns as f64;
        assert!(error.abs() <= SHARE_NOT_SHOWN, "{error}: {gap:#?}");
        assert!(
            of("not_longer_than_ns") >= true_ns - WRITTEN_LATE_NS,
            "{gap:#?}"
        );
        assert_eq!(gap["scope"], "server", "{gap:#?}");
        assert!(of("retransmissions") > 0, "{gap:#?}");
    }
}

#[test]
fn a_server_that_was_never_stopped_has_no_stall() {
    for name in STEADY {
        let found = gaps(name, "server_stalled");
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}
