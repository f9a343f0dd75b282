//! Hosts, connections and users of calls made by hand.

use serde_json::{Value, json};

use super::*;
use crate::lens::tests::hand_made::{endpoint, read};

fn section(calls: &[Call]) -> Value {
    let mut lens = Clients::within(BOUNDS);
    let names = Names::default();
    for call in calls {
        lens.call(call);
    }
    lens.finish(&names, &Extent::default()).json
}

/// A READ that takes `latency_ns`, of one client and user over one connection to one server.
fn call(client: u8, server: u8, connection: u32, user: Option<u32>, latency_ns: i64) -> Call {
    Call {
        client: endpoint(client, 700 + connection as u16),
        server: endpoint(server, 2049),
        connection,
        user,
        ..read(1000, Some(1000 + latency_ns))
    }
}

#[test]
fn calls_add_up_by_client_by_server_and_by_user() {
    let mut failed = call(3, 1, 2, None, 7000);
    failed.outcome = crate::Outcome::Status(70);
    let found = section(&[
        call(2, 1, 0, Some(26), 1000),
        call(2, 1, 1, Some(26), 3000),
        call(2, 1, 0, Some(0), 2000),
        call(2, 9, 3, Some(26), 50),
        failed,
    ]);
    let figures = |list: &str, name: &str| -> Vec<Value> {
        let rows = found[list].as_array().unwrap().iter();
        rows.map(|row| json!([row[name], row["connections"], row["calls"], row["errors"]]))
            .collect()
    };
    let expected = [json!(["10.0.0.2", 3, 4, 0]), json!(["10.0.0.3", 1, 1, 1])];
    assert_eq!(figures("clients", "client"), expected);
    let expected = [json!(["10.0.0.1", 3, 4, 1]), json!(["10.0.0.9", 1, 1, 0])];
    assert_eq!(figures("servers", "server"), expected);
    let errors = |list: &str, at: usize| found[list][at]["errors_by_status"].clone();
    assert_eq!(errors("clients", 0), json!({}));
    for (list, at) in [("clients", 1), ("servers", 0), ("users", 2)] {
        assert_eq!(errors(list, at), json!({"NFS3ERR_STALE": 1}), "{list}");
    }
    let users = found["users"].as_array().unwrap().iter();
    let users: Vec<Value> = users
        .map(|row| json!([row["user"], row["calls"]]))
        .collect();
    assert_eq!(users, [json!([26, 3]), json!([0, 1]), json!([null, 1])]);
    assert_eq!(found["pairs"].as_array().unwrap().len(), 3);
    let rows = found["by_connection"].as_array().unwrap().iter();
    let rows: Vec<Value> = rows
        .map(|row| json!([row["client"], row["server"], row["transport"], row["calls"]]))
        .collect();
    let expected = [
        json!(["10.0.0.2:700", "10.0.0.1:2049", "udp", 2]),
        json!(["10.0.0.2:701", "10.0.0.1:2049", "udp", 1]),
        json!(["10.0.0.2:703", "10.0.0.9:2049", "udp", 1]),
        json!(["10.0.0.3:702", "10.0.0.1:2049", "udp", 1]),
    ];
    assert_eq!(rows, expected);

    let client = &found["clients"][0];
    assert_eq!(client["calls_by_kind"]["READ"], 4);
    assert_eq!(client["bytes_read"], 4 * 4096);
    // 50 lies in 50 to 52, 1000 in 992 to 1024, and so on: sixteen parts a power of two.
    let histogram = json!([
        [50, 52, 1],
        [992, 1024, 1],
        [1984, 2048, 1],
        [2944, 3072, 1]
    ]);
    assert_eq!(client["histogram"], histogram);
    let latency = &client["latency_ns"];
    assert_eq!([&latency["min"], &latency["max"]], [50, 3000]);
    assert_eq!(latency["mean"], 1513); // 6050 / 4 = 1512.5
    let median = latency["p50"].as_f64().unwrap(); // second of 50 1000 2000 3000
    let bound = found["quantile_relative_error"].as_f64().unwrap();
    assert!((median / 1000.0 - 1.0).abs() <= bound, "{median}");
    assert_eq!(client["latency_ns_by_kind"]["READ"]["latencies"], 4);
    assert_eq!(client["latency_ns_by_kind"].as_object().unwrap().len(), 1);
    assert_eq!(found["connections_complete"], true);
}

#[test]
fn what_is_beyond_the_bounds_is_counted_together() {
    let many = (MAX_LINES + MAX_PAIRS + 500) as u32;
    let calls: Vec<Call> = (0..many)
        .map(|number| {
            let mut call = call(2, 1, number, Some(number), 1000);
            call.client.host = Host::from_v4(number.to_be_bytes());
            call
        })
        .collect();
    let found = section(&calls);
    for list in ["clients", "servers", "pairs", "by_connection", "users"] {
        let rows = found[list].as_array().unwrap();
        assert!(rows.len() <= TOP_ROWS + 1, "{list}: {}", rows.len());
        let total: u64 = rows.iter().map(|row| row["calls"].as_u64().unwrap()).sum();
        assert_eq!(total, u64::from(many), "{list}");
        assert_eq!(rows[rows.len() - 1]["other"], true, "{list}");
    }
    let connections = &found["servers"][0]["connections"];
    assert_eq!(*connections, MAX_LINES + MAX_PAIRS);
}

/// Calls of more connections and users than are told apart, in three parts.
fn crowd(part: u32, random: &mut fastrand::Rng) -> Call {
    let connection = random.u32(..300 * (part + 1));
    let user = random.u32(..500 * (part + 1));
    let latency_ns = 1 << random.u32(1..12);
    Call {
        outcome: match random.u8(..4) {
            0 => crate::Outcome::Status(random.u32(1..4)),
            1 => crate::Outcome::Refused("AUTH_ERROR"),
            _ => crate::Outcome::Accepted,
        },
        ..call(
            (connection % 50) as u8,
            (connection % 3) as u8,
            connection,
            (user != 7).then_some(user),
            latency_ns,
        )
    }
}

#[test]
fn what_was_counted_in_parts_adds_up_to_what_is_counted_in_a_row() {
    let names = Names::default();
    let wide = LensOptions {
        of_a_part: true,
        ..LensOptions::default()
    };
    let mut random = fastrand::Rng::with_seed(3);
    let mut whole = make(&LensOptions::default()).unwrap();
    let mut joined = make(&LensOptions::default()).unwrap();
    let mut both = make(&wide).unwrap();
    for part in 0..3 {
        let mut lens = make(&wide).unwrap();
        for _ in 0..3000 {
            let call = crowd(part, &mut random);
            whole.call(&call);
            // A part's reader counts connections from another number on.
            let connection = call.connection + 7 * part;
            lens.call(&Call { connection, ..call });
        }
        let travelled = lens.take_counted().unwrap().to_string();
        let counted: Value = serde_json::from_str(&travelled).unwrap();
        both.add_counted(&counted, &|number| number - 7 * part)
            .unwrap();
    }
    let counted = both.take_counted().unwrap();
    joined.add_counted(&counted, &|number| number).unwrap();
    let [one, other] = [&mut whole, &mut joined].map(|lens| {
        let section = lens.finish(&names, &Extent::default());
        section.json.to_string()
    });
    assert!(one == other, "{one}\n{other}");
}

#[test]
fn more_than_a_part_tells_apart_and_what_nobody_counted_is_refused() {
    let mut full = Clients::within(Bounds { lines: 2, ..BOUNDS });
    for connection in 0..3 {
        full.call(&call(2, 1, connection, None, 5));
    }
    assert_eq!(full.take_counted(), Err(Unfit::Full));
    let mut room = Clients::within(Bounds {
        blocks: 1,
        ..BOUNDS
    });
    room.call(&call(2, 1, 0, None, 5));
    let counted = room.take_counted().unwrap();
    room.call(&call(2, 1, 0, None, 5));
    room.call(&call(2, 1, 0, None, 5000));
    assert_eq!(room.take_counted(), Err(Unfit::Full));
    // Another connection of that number, and none.
    room.call(&call(3, 1, 0, None, 5));
    assert_eq!(room.add_counted(&counted, &|own| own), Err(Unfit::Wrong));
    let far = |_| 1 << 20;
    assert_eq!(room.add_counted(&counted, &far), Err(Unfit::Full));
    assert_eq!(
        room.add_counted(&json!({"lines": 3}), &far),
        Err(Unfit::Wrong)
    );
}
