//! A gap: what it is, what proves it, and the longest ones kept.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::block::Endpoint;

/// What a gap is: its kind and, of a server's stalls, the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    /// Calls were outstanding, and the server answered nobody: its host or its process.
    ServerStalled,
    /// The same: its host went on acknowledging.
    ProcessSlow,
    /// The same: its host did not acknowledge what it had received.
    HostFrozen,
    /// Nothing was outstanding.
    ClientPaused,
    /// What is shown to have been lost, and came by being sent again.
    NetworkLoss,
    /// The capture itself lacks bytes here: replies may have come.
    CaptureLoss,
    /// This client's calls waited while the server answered others.
    ClientWaited,
    /// This connection's calls waited while others of the same client and server went on.
    ConnectionWaited,
    /// The server refused connections, or forgot them.
    ServerRestarted,
    /// A connection was reset or closed, and another one begun.
    ConnectionReset,
    /// The client's host took no more bytes: answers waited for its window.
    ClientFull,
    /// The server's host took no more bytes: calls waited for its window.
    ServerFull,
    /// The server had answered that it is to be asked again later.
    ToldToWait,
    /// [`Kind::ProcessSlow`] if this is where the capture was taken: else the answer that came may
    /// have been sent again.
    LateUnlessAtServer,
    /// Calls waited, and what happened cannot be told from here.
    #[default]
    Waited,
    /// Nothing passed, and what happened cannot be told from here.
    Silent,
    /// [`Kind::Waited`], or a stall of the server if this is where the capture was taken.
    WaitedUnlessAtServer,
    /// [`Kind::Silent`], or a pause of the client if this is where the capture was taken.
    SilentUnlessAtClient,
}

/// Number of kinds.
pub(super) const KINDS: usize = 18;
/// All kinds in their order, each with its name, and why, as far as the packets prove it.
pub(super) const NAMED: [(Kind, &str, &str); KINDS] = [
    (Kind::ServerStalled, "server_stalled", "unknown"),
    (Kind::ProcessSlow, "server_stalled", "server_process_slow"),
    (Kind::HostFrozen, "server_stalled", "server_host_frozen"),
    (Kind::ClientPaused, "client_paused", "client_idle"),
    (Kind::NetworkLoss, "network_loss", "network_loss"),
    (Kind::CaptureLoss, "capture_loss", "capture_loss"),
    (Kind::ClientWaited, "client_waited", "unknown"),
    (Kind::ConnectionWaited, "connection_waited", "unknown"),
    (
        Kind::ServerRestarted,
        "server_restarted",
        "server_restarted",
    ),
    (
        Kind::ConnectionReset,
        "connection_reset",
        "connection_reset",
    ),
    (Kind::ClientFull, "client_full", "client_full"),
    (Kind::ServerFull, "server_full", "server_full"),
    (Kind::ToldToWait, "told_to_wait", "told_to_wait"),
    (Kind::LateUnlessAtServer, "unknown", "unknown"),
    (Kind::Waited, "unknown", "unknown"),
    (Kind::Silent, "unknown", "unknown"),
    (Kind::WaitedUnlessAtServer, "unknown", "unknown"),
    (Kind::SilentUnlessAtClient, "unknown", "unknown"),
];

impl Kind {
    pub fn all() -> impl Iterator<Item = Kind> {
        NAMED.iter().map(|(kind, ..)| *kind)
    }

    pub fn name(self) -> &'static str {
        NAMED[self as usize].1
    }

    /// Why, as far as the packets prove it.
    pub fn cause(self) -> &'static str {
        NAMED[self as usize].2
    }

    /// Whether calls waited in it.
    pub fn waited(self) -> bool {
        !matches!(
            self,
            Kind::ClientPaused | Kind::ToldToWait | Kind::Silent | Kind::SilentUnlessAtClient
        )
    }

    /// What it is, now that it is known where the capture was taken.
    pub fn at(self, place: Place) -> Kind {
        match self {
            Kind::WaitedUnlessAtServer if place.at_server => Kind::ServerStalled,
            Kind::LateUnlessAtServer if place.at_server => Kind::ProcessSlow,
            Kind::WaitedUnlessAtServer | Kind::LateUnlessAtServer => Kind::Waited,
            Kind::ClientPaused | Kind::SilentUnlessAtClient if !place.all_seen => Kind::Silent,
            Kind::SilentUnlessAtClient if place.at_client => Kind::ClientPaused,
            Kind::SilentUnlessAtClient => Kind::Silent,
            kind => kind,
        }
    }
}

/// Where the capture was taken, as far as round trips tell: nothing is lost between here and there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub at_client: bool,
    pub at_server: bool,
    /// Whether all clients and servers are followed: what is outstanding is known.
    pub all_seen: bool,
}

/// How wide a gap is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// All clients of the server.
    #[default]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
            "cause": self.kind.cause(),
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
        let mut text = self.what_was_seen();
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

    fn what_was_seen(&self) -> String {
        let length = seconds(self.length_ns());
        let server = self.server.host;
        let client = self.clients();
        let outstanding = were(self.outstanding_peak);
        match self.kind {
            Kind::ServerStalled => format!(
                "server {server} answered nothing for {length} while {outstanding} outstanding"
            ),
            Kind::ProcessSlow => format!(
                "server {server} answered nothing for {length} while {outstanding} outstanding; \
                 its host went on acknowledging"
            ),
            Kind::HostFrozen => format!(
                "server {server} answered nothing for {length}, acknowledged nothing either, and \
                 told afterwards that all had arrived"
            ),
            Kind::ServerRestarted => format!(
                "server {server} answered nothing for {length}, refused connections or knew them \
                 no more"
            ),
            Kind::ConnectionReset => format!(
                "a connection of {client} to server {server} was reset or closed; nothing was \
                 answered for {length}"
            ),
            Kind::ClientFull => format!(
                "answers of server {server} waited {length}, while {client} took no more bytes \
                 (its window was zero)"
            ),
            Kind::ServerFull => format!(
                "nothing of {client} went to server {server} for {length}, which took no more \
                 bytes (its window was zero)"
            ),
            Kind::ToldToWait => format!(
                "server {server} had answered that it is to be asked again later; nothing was \
                 asked for {length}"
            ),
            Kind::Waited | Kind::LateUnlessAtServer | Kind::WaitedUnlessAtServer => format!(
                "calls of {client} waited {length} for server {server}: whether it was slow or its \
                 answer was lost cannot be told from here"
            ),
            Kind::Silent | Kind::SilentUnlessAtClient => format!(
                "nothing passed between {client} and server {server} for {length}: whether the \
                 client paused cannot be told from here"
            ),
            Kind::ClientPaused => {
                format!(
                    "{client} sent nothing to server {server} for {length}: nothing was outstanding"
                )
            }
            Kind::NetworkLoss => self.what_was_lost(&client, &length),
            Kind::CaptureLoss => format!(
                "no answer of server {server} for {length} is in the capture, which lacks {} \
                 bytes here",
                self.lost_bytes
            ),
            Kind::ConnectionWaited => format!(
                "server {server} answered nothing on the connection of {client} for {length} while \
                 {outstanding} outstanding on it, and answered this client on others"
            ),
            Kind::ClientWaited => format!(
                "server {server} answered nothing to {client} for {length} while {outstanding} \
                 outstanding, and answered others"
            ),
        }
    }

    fn what_was_lost(&self, client: &str, length: &str) -> String {
        let server = self.server.host;
        match self.scope {
            Scope::Call => format!(
                "a call of {client} waited {length} for server {server}, which answered others, \
                 and was answered at once when it was sent again"
            ),
            Scope::Connection => format!(
                "connection of {client} to server {server} stood still for {length} until TCP \
                 sent data again"
            ),
            _ => format!(
                "nothing came from server {server} for {length}: data was lost, and came when it \
                 was sent again"
            ),
        }
    }

    fn clients(&self) -> String {
        self.client
            .map_or_else(|| "its clients".to_owned(), client_name)
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

/// The longest gaps, at most `limit` of them: the longest first, of equal ones the earliest.
#[derive(Clone, Debug)]
pub(super) struct Longest {
    gaps: Vec<Gap>,
    limit: usize,
}

impl Longest {
    pub fn new(limit: usize) -> Self {
        let gaps = Vec::new();
        Longest { gaps, limit }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn add(&mut self, gap: Gap) {
        let rank = |gap: &Gap| (Reverse(gap.length_ns()), gap.begin_ns);
        let place = self.gaps.partition_point(|kept| rank(kept) <= rank(&gap));
        if place < self.limit {
            self.gaps.truncate(self.limit - 1);
            self.gaps.insert(place, gap);
        }
    }

    /// All that are kept.
    pub fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter()
    }
}
