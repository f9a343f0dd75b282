//! Calls without a reply, those that waited longest first: a table of their own, which no number of
//! slow answered calls fills.

use serde_json::{Value, json};

use crate::call::Call;
use crate::lens::kinds::{KIND_NAMES, Kind};

/// Calls kept: the earliest sent, which waited longest.
const KEPT: usize = 32;

/// The earliest calls without a reply, and how many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Unanswered {
    count: u64,
    /// On TCP connections of which nothing came from the server: the capture has one direction.
    one_way: u64,
    /// In the order of their first sends.
    earliest: Vec<Call>,
}

impl Unanswered {
    /// A call that is settled without a reply.
    #[cold]
    pub fn add(&mut self, call: &Call, one_way: bool) {
        self.count += 1;
        if one_way {
            self.one_way += 1;
            return;
        }
        let after = self
            .earliest
            .partition_point(|one| one.call_first.time_ns <= call.call_first.time_ns);
        if after < KEPT {
            self.earliest.insert(after, *call);
            self.earliest.truncate(KEPT);
        }
    }

    /// With how long each waited until `end_ns`.
    pub fn json(&self, end_ns: i64) -> Value {
        let rows: Vec<Value> = self.earliest.iter().map(|call| row(call, end_ns)).collect();
        json!({"calls": self.count, "one_way": self.one_way, "longest": rows})
    }
}

fn row(call: &Call, end_ns: i64) -> Value {
    let sent_ns = call.call_first.time_ns;
    json!({
        "kind": KIND_NAMES.get(Kind::of(call) as usize),
        "client": call.client.to_string(),
        "server": call.server.to_string(),
        "xid": call.xid,
        "sent_ns": sent_ns,
        "waited_ns": end_ns.saturating_sub(sent_ns),
        "sends": call.sends,
        "frame": call.call_first.frame,
    })
}
