//! A gap: what it is, what proves it, and the longest ones kept.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde_json::{Value, json};

use crate::block::Endpoint;

/// What a gap is. The order is that of the section's totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    /// Calls were outstanding, and the server answered nobody.
    ServerStalled,
    /// Nothing was outstanding.
    ClientPaused,
    /// Ended by a retransmission that was answered at once.
    NetworkLoss,
    /// The capture itself lacks bytes here: replies may have come.
    CaptureLoss,
    /// This client's calls waited while the server answered others.
    ClientWaited,
}

/// Number of kinds.
pub(super) const KINDS: usize = 5;
/// All kinds.
pub(super) const ALL: [Kind; KINDS] = [
    Kind::ServerStalled,
    Kind::ClientPaused,
    Kind::NetworkLoss,
    Kind::CaptureLoss,
    Kind::ClientWaited,
];

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::ServerStalled => "server_stalled",
            Kind::ClientPaused => "client_paused",
            Kind::NetworkLoss => "network_loss",
            Kind::CaptureLoss => "capture_loss",
            Kind::ClientWaited => "client_waited",
        }
    }
}

/// How wide a gap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// All clients of the server.
    Server,
    /// One client host.
    Client,
    /// One connection.
    Connection,
    /// One call.
    Call,
}

impl Scope {
    pub fn name(self) -> &'static str {
        match self {
            Scope::Server => "server",
            Scope::Client => "client",
            Scope::Connection => "connection",
            Scope::Call => "call",
        }
    }
}

/// A gap found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub kind: Kind,
    pub scope: Scope,
    /// One client's share of a gap of the whole server.
    pub covered: bool,
    pub server: Endpoint,
    /// The client; its port is 0 unless the gap is one call's or connection's. `None`: several.
    pub client: Option<Endpoint>,
    pub begin_ns: i64,
    pub end_ns: i64,
    /// The last reply in front of it: the server cannot have been silent for longer.
    pub silent_from_ns: i64,
    /// Whether the capture ended in it.
    pub open: bool,
    /// Calls already waiting when it began that were answered when it ended.
    pub outstanding_at_begin: u32,
    pub outstanding_peak: u32,
    /// Calls sent in it.
    pub sent: u32,
    /// RPC retransmissions in it.
    pub again: u32,
    /// TCP retransmissions in it.
    pub tcp_again: u32,
    /// Zero windows announced in it.
    pub zero_windows: u32,
    /// Bytes that the capture lacks in it.
    pub lost_bytes: u64,
    /// Frame of the last reply before it (of the first send, where the gap begins with one).
    pub frame_before: u64,
    /// Frame that ended it; 0 if the capture did.
    pub frame_after: u64,
}

impl Gap {
    pub fn length_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    pub fn json(&self) -> Value {
        json!({
            "kind": self.kind.name(),
            "scope": self.scope.name(),
            "server": self.server.to_string(),
            "client": self.client.map(client_name),
            "begin_ns": self.begin_ns,
            "end_ns": self.end_ns,
            "length_ns": self.length_ns(),
            "not_longer_than_ns": self.end_ns.saturating_sub(self.silent_from_ns),
            "open": self.open,
            "outstanding_at_begin": self.outstanding_at_begin,
            "outstanding_peak": self.outstanding_peak,
            "calls_sent": self.sent,
            "retransmissions": self.again,
            "tcp_retransmissions": self.tcp_again,
            "zero_windows": self.zero_windows,
            "lost_bytes": self.lost_bytes,
            "frame_before": self.frame_before,
            "frame_after": self.frame_after,
            "evidence": self.evidence(),
        })
    }

    /// One sentence for people.
    fn evidence(&self) -> String {
        let length = seconds(self.length_ns());
        let server = self.server.host;
        let client = self
            .client
            .map_or_else(|| "its clients".to_owned(), client_name);
        let mut text = match (self.kind, self.scope) {
            (Kind::ServerStalled, _) => format!(
                "server {server} answered nothing for {length} while {} outstanding",
                were(self.outstanding_peak)
            ),
            (Kind::ClientPaused, _) => {
                format!(
                    "{client} sent nothing to server {server} for {length}: nothing was outstanding"
                )
            }
            (Kind::NetworkLoss, Scope::Call) => format!(
                "a call of {client} waited {length} for server {server}, which answered others, \
                 and was answered at once when it was sent again"
            ),
            (Kind::NetworkLoss, Scope::Connection) => format!(
                "connection of {client} to server {server} stood still for {length} until TCP \
                 sent data again"
            ),
            (Kind::NetworkLoss, _) => format!(
                "nothing came from server {server} for {length}, and the answer came at once \
                 after data was sent again"
            ),
            (Kind::CaptureLoss, _) => format!(
                "no answer of server {server} for {length} is in the capture, which lacks {} \
                 bytes here",
                self.lost_bytes
            ),
            (Kind::ClientWaited, _) => format!(
                "server {server} answered nothing to {client} for {length} while {} outstanding, \
                 and answered others",
                were(self.outstanding_peak)
            ),
        };
        if self.again > 0 {
            text += &format!("; calls were sent again {}", times(self.again));
        }
        if self.tcp_again > 0 {
            text += &format!("; TCP sent segments again {}", times(self.tcp_again));
        }
        if self.open {
            text += "; the capture ends here";
        }
        text
    }
}

fn client_name(client: Endpoint) -> String {
    if client.port == 0 {
        client.host.to_string()
    } else {
        client.to_string()
    }
}

fn were(calls: u32) -> String {
    match calls {
        1 => "1 call was".to_owned(),
        calls => format!("up to {calls} calls were"),
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

fn seconds(time_ns: i64) -> String {
    let milliseconds = (time_ns + 500_000) / 1_000_000;
    format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000)
}

/// The longest gaps, at most `limit` of them.
#[derive(Clone, Debug)]
pub(super) struct Longest {
    heap: BinaryHeap<Reverse<Ranked>>,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ranked(Gap);

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |gap: &Gap| (gap.length_ns(), Reverse(gap.begin_ns));
        key(&self.0).cmp(&key(&other.0))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Longest {
    pub fn new(limit: usize) -> Self {
        Longest {
            heap: BinaryHeap::new(),
            limit,
        }
    }

    pub fn add(&mut self, gap: Gap) {
        if self.heap.len() == self.limit {
            if self
                .heap
                .peek()
                .is_some_and(|shortest| shortest.0 >= Ranked(gap))
            {
                return;
            }
            self.heap.pop();
        }
        self.heap.push(Reverse(Ranked(gap)));
    }

    /// All that are kept.
    pub fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.heap.iter().map(|ranked| &ranked.0.0)
    }
}
