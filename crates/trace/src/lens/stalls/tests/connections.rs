//! Several connections of one client (nconnect): one that waits while the others go on.

use super::*;

const FROZEN: i64 = 1;

/// A call each millisecond on each connection, answered after half of one; from `stop[0]` to
/// `stop[1]` (milliseconds) the connections that `stops` names have ten calls and no answer.
fn of_four(stops: impl Fn(i64) -> bool, stop: [i64; 2], answers: bool) -> Value {
    let mut capture = Capture::default();
    for connection in 0..4 {
        for send in 0..5000 {
            let frozen = stops(connection) && (stop[0]..stop[1]).contains(&send);
            if frozen && send >= stop[0] + 10 {
                continue;
            }
            let reply = match frozen {
                true => answers.then_some(stop[1] * MS + connection),
                false => Some(send * MS + MS / 2 + connection),
            };
            let mut call = read(send * MS + connection, reply);
            call.client = endpoint(2, 700 + connection as u16);
            call.connection = connection as u32;
            call.transport = Transport::Tcp;
            capture.call(call, &[], &[]);
        }
    }
    shown(capture, 5000 * MS)
}

/// Connections that are watched alone, with how often and how long they waited so.
fn waited(json: &Value) -> Vec<(String, i64, i64)> {
    let rows = json["connections"].as_array().unwrap().iter();
    rows.map(|row| {
        let client = row["client"].as_str().unwrap().to_owned();
        let count = number(row, "/gaps/connection_waited/count");
        (
            client,
            count,
            number(row, "/gaps/connection_waited/time_ns") / MS,
        )
    })
    .collect()
}

#[test]
fn one_of_four_that_waits_is_named() {
    let json = of_four(|connection| connection == FROZEN, [1000, 3000], true);
    let found = gaps(&json);
    assert_eq!(found, [gap("connection_waited", "connection", 1000, 2000)]);
    assert_eq!(json["gaps"][0]["client"], "10.0.0.2:701");
    assert_eq!(number(&json["gaps"][0], "/outstanding_peak"), 10);
    let rows = waited(&json);
    assert_eq!(rows[0], ("10.0.0.2:701".to_owned(), 1, 2000));
    assert_eq!(rows[1..].iter().map(|row| row.1).sum::<i64>(), 0);
    assert_eq!(rows.len(), 4);
    assert_eq!(number(&json, "/totals/connection_waited/count"), 1);
}

#[test]
fn one_whose_answers_never_come_is_named_too() {
    let json = of_four(|connection| connection == FROZEN, [1000, 5000], false);
    assert_eq!(
        gaps(&json),
        [gap("connection_waited", "connection", 1000, 3999)]
    );
    assert_eq!(json["gaps"][0]["open"], true);
}

#[test]
fn a_stop_of_all_is_none_of_one() {
    let json = of_four(|_| true, [1000, 3000], true);
    assert_eq!(number(&json, "/totals/connection_waited/count"), 0);
    assert_eq!(gaps(&json).len(), 1);
    let none = of_four(|_| false, [0, 0], true);
    assert_eq!(gaps(&none), []);
    assert_eq!(waited(&none).len(), 4);
}

#[test]
fn one_slow_call_is_no_stop_of_its_connection() {
    let mut capture = Capture::default();
    for connection in 0..2 {
        for send in 0..3000 {
            let slow = connection == FROZEN && send == 1000;
            if connection == FROZEN && (1001..2500).contains(&send) {
                continue;
            }
            let took = if slow { 1500 * MS } else { MS / 2 };
            let mut call = read(send * MS, Some(send * MS + took));
            call.client = endpoint(2, 700 + connection as u16);
            call.connection = connection as u32;
            call.transport = Transport::Tcp;
            capture.call(call, &[], &[]);
        }
    }
    assert_eq!(gaps(&shown(capture, 3000 * MS)), []);
}

#[test]
fn clients_with_one_connection_each_are_clients_and_no_connections() {
    let mut capture = Capture::default();
    for last in 2..5 {
        for send in 0..4000 {
            let stopped = last == 3 && (1000..3000).contains(&send);
            if stopped && send >= 1010 {
                continue;
            }
            let reply = if stopped { 3000 } else { send + 1 };
            let mut call = client(last, u32::from(last), send, Some(reply));
            call.transport = Transport::Tcp;
            capture.call(call, &[], &[]);
        }
    }
    let json = shown(capture, 4000 * MS);
    assert_eq!(waited(&json), []);
    assert_eq!(number(&json, "/totals/connection_waited/count"), 0);
}

#[test]
fn one_connection_alone_has_no_row() {
    let mut capture = Capture::default();
    busy(&mut capture, 0, 1000);
    assert_eq!(waited(&shown(capture, 1000 * MS)), []);
}
