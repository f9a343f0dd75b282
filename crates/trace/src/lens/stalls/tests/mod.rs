//! Captures made by hand with planted stalls, pauses and losses: each has to get its name.

mod connections;
mod losses;
mod stalls;
mod whole;

use serde_json::Value;

use super::*;
use crate::call::Call;
use crate::event::TransportKind;
use crate::lens::tests::hand_made::{Capture, MS, START_NS, endpoint, number, read, stamp};

fn shown(capture: Capture, end_ns: i64) -> Value {
    capture.show(&mut Stalls::default(), end_ns).json
}

/// Kind, scope, begin and length of the gaps found, in the order of time, milliseconds.
fn gaps(json: &Value) -> Vec<(String, String, i64, i64)> {
    let mut gaps: Vec<_> = json["gaps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gap| {
            let text = |key: &str| gap[key].as_str().unwrap().to_owned();
            let begin = number(gap, "/begin_ns") - START_NS;
            (
                text("kind"),
                text("scope"),
                begin / MS,
                number(gap, "/length_ns") / MS,
            )
        })
        .collect();
    gaps.sort_by_key(|gap| gap.2);
    gaps
}

fn gap(kind: &str, scope: &str, begin_ms: i64, length_ms: i64) -> (String, String, i64, i64) {
    (kind.to_owned(), scope.to_owned(), begin_ms, length_ms)
}

/// One client's calls, one each millisecond, each answered after 0.5 ms.
fn busy(capture: &mut Capture, from_ms: i64, to_ms: i64) {
    capture.lane(read(0, None), [from_ms * MS, to_ms * MS], MS, MS / 2);
}

fn client(last: u8, connection: u32, send_ms: i64, reply_ms: Option<i64>) -> Call {
    let mut call = read(send_ms * MS, reply_ms.map(|ms| ms * MS));
    call.client = endpoint(last, 700);
    call.connection = connection;
    call
}
