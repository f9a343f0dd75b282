//! Real captures against what the clients themselves wrote down (tests/captures).
//!
//! A client's times are taken in user space, on the clock that the capture was stamped with too. A
//! call's time is read before the system call that sends it, a reply's after the one that receives
//! it, so the capture must lie between them, but for [`CLOCK_NS`].

use std::collections::HashMap;

use crate::rows::{Row, analysed, captures};

/// The clients wrote microseconds, rounded to nearest: half of one is lost at most. The rest of the
/// bound is for packets stamped when they pass the network device, which on a loopback may be
/// some microseconds before the sending system call was seen to begin.
const CLOCK_NS: i64 = 1_000;
/// Behind the client's own stamp a reply may have waited for the client to be scheduled; a call
/// may have waited before it left. Larger differences would mean that calls were matched wrongly.
const LATE_NS: i64 = 20_000_000;

fn ns(seconds: &str) -> i64 {
    let (whole, micro) = seconds.split_once('.').unwrap();
    assert_eq!(micro.len(), 6);
    whole.parse::<i64>().unwrap() * 1_000_000_000 + micro.parse::<i64>().unwrap() * 1000
}

/// Records of a client's CSV, by column name.
fn records(name: &str) -> Vec<HashMap<String, String>> {
    let text = std::fs::read_to_string(captures().join(format!("{name}.client.csv"))).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let fields = line.split(',').map(str::to_owned);
            columns
                .iter()
                .map(|column| (*column).to_owned())
                .zip(fields)
                .collect()
        })
        .collect()
}

fn check_times(row: &Row, sent_ns: i64, replied_ns: i64) {
    let (call, reply) = (row.call_first_ns, row.reply_first_ns.unwrap());
    let late = (call - sent_ns, replied_ns - reply);
    assert!(
        late.0 >= -CLOCK_NS && late.1 >= -CLOCK_NS,
        "xid {}: {late:?} ns",
        row.xid
    );
    assert!(
        late.0 <= LATE_NS && late.1 <= LATE_NS,
        "xid {}: {late:?} ns",
        row.xid
    );
}

/// Replies by procedure, as tshark counted them (duplicates among them): all calls, those to set up
/// included, which the client did not write down.
fn check_counts(name: &str, rows: &[Row]) {
    let text = std::fs::read_to_string(captures().join(format!("{name}.srt.txt"))).unwrap();
    let mut truth: HashMap<String, u64> = HashMap::new();
    for line in text.lines() {
        // Index, procedure, calls, then times.
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [index, procedure, calls, _, _, _, _] = fields.as_slice()
            && index.parse::<u32>().is_ok()
        {
            *truth.entry((*procedure).to_owned()).or_default() += calls.parse::<u64>().unwrap();
        }
    }
    assert!(truth.len() > 10);
    let mut found: HashMap<String, u64> = HashMap::new();
    for row in rows.iter().filter(|row| row.replies > 0) {
        *found.entry(row.operation.clone()).or_default() += row.replies;
    }
    assert_eq!(found, truth);
}

/// Every call of the client's record is found once, with its counts and instants.
fn check_v3(name: &str) -> (usize, u64, u64) {
    let found = analysed(name);
    let truth = records(name);
    let mut by_key: HashMap<(u32, u16), &Row> = HashMap::new();
    for row in &found.rows {
        let again = by_key.insert((row.xid, row.client_port), row);
        assert!(again.is_none(), "xid {} twice", row.xid);
    }
    let (mut resends, mut duplicates) = (0, 0);
    for record in &truth {
        let key = (
            record["xid"].parse().unwrap(),
            record["client_port"].parse().unwrap(),
        );
        let row = by_key
            .remove(&key)
            .unwrap_or_else(|| panic!("xid {} not found", key.0));
        assert_eq!(row.operation, record["proc"]);
        assert_eq!(row.transport, record["proto"]);
        assert_eq!(row.sends.to_string(), record["n_sends"], "xid {}", row.xid);
        assert_eq!(
            row.replies.to_string(),
            record["n_replies"],
            "xid {}",
            row.xid
        );
        check_times(
            row,
            ns(&record["t_first_send"]),
            ns(&record["t_first_reply"]),
        );
        resends += row.sends - 1;
        duplicates += row.replies - 1;
    }
    check_counts(name, &found.rows);
    assert_eq!(
        found.odd(&["reply_without_call", "malformed", "xid_reused", "beyond"]),
        [""; 0]
    );
    assert_eq!(found.summary["lost"]["bytes"], 0);
    (truth.len(), resends, duplicates)
}

#[test]
fn v3_over_tcp() {
    assert_eq!(check_v3("v3_tcp_q1"), (4000, 0, 0));
}

#[test]
fn v3_over_udp() {
    assert_eq!(check_v3("v3_udp"), (3000, 0, 0));
}

#[test]
fn v3_over_ipv6_with_four_outstanding() {
    assert_eq!(check_v3("v3_tcp_ipv6_q4"), (1600, 0, 0));
}

#[test]
fn v3_in_several_fragments_a_record() {
    assert_eq!(check_v3("v3_tcp_rpcfrag"), (600, 0, 0));
}

#[test]
fn v3_with_stalls_and_retransmissions() {
    assert_eq!(check_v3("v3_udp_stalls_retrans"), (3200, 36, 36));
    let rows = analysed("v3_udp_stalls_retrans").rows;
    assert_eq!(rows.iter().filter(|row| row.sends > 1).count(), 12);
}

#[test]
fn v41_with_the_operations_of_each_compound() {
    let found = analysed("v41_slots8");
    let truth = records("v41_slots8");
    let mut by_xid: HashMap<u32, &Row> = found.rows.iter().map(|row| (row.xid, row)).collect();
    assert_eq!(by_xid.len(), found.rows.len());
    for record in &truth {
        let row = by_xid.remove(&record["xid"].parse().unwrap()).unwrap();
        let operations = row.operations.as_deref().unwrap();
        assert_eq!(operations.replace(' ', "+"), record["ops"]);
        let status = match record["status"].as_str() {
            "0" => "NFS4_OK",
            "2" => "NFS4ERR_NOENT",
            other => panic!("status {other}"),
        };
        assert_eq!(row.status.as_deref(), Some(status));
        check_times(row, ns(&record["t_send"]), ns(&record["t_reply"]));
    }
    assert_eq!((truth.len(), by_xid.len()), (4044, 0));
    assert_eq!(
        found.odd(&["reply_without_call", "malformed", "xid_reused", "beyond"]),
        [""; 0]
    );
}
