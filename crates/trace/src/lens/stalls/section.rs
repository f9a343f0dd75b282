//! The section: totals of each server and client, the longest gaps, cycles, and closer looks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::gap::{Gap, Kind, Place, Scope};
use super::stretch::Stretches;
use super::tracker::{Durations, Total, Tracker};
use super::{FACTOR, FLOOR_NS, LONGEST, SETTLE_NS, Stalls, USUAL};
use crate::lens::Extent;

/// Longest gaps shown of each kind.
const SHOWN: usize = 32;
/// Clients shown: those with most time in gaps.
const SHOWN_CLIENTS: usize = 100;

pub(super) fn json(stalls: &Stalls, extent: &Extent) -> Value {
    let gaps = longest(stalls);
    let servers: Vec<Value> = stalls
        .servers
        .iter()
        .map(|server| {
            let mut value = tracked(&server.tracker, stalls.place);
            value["clients"] = json!(server.clients);
            value
        })
        .collect();
    let throughput = stalls.stretches.phases().period();
    let [totals, causes] = totals(stalls);
    json!({
        "rule": {
            "floor_ns": FLOOR_NS,
            "factor": FACTOR,
            "usual_quantile": USUAL,
            "settle_ns": SETTLE_NS,
            "kept_of_each_kind": LONGEST,
        },
        "totals": totals,
        "causes": causes,
        "capture_point": {
            "at_client": stalls.place.at_client,
            "at_server": stalls.place.at_server,
        },
        "servers": servers,
        "clients": clients(stalls),
        "connections": connections(stalls),
        "gaps": gaps.iter().map(Gap::json).collect::<Vec<_>>(),
        "throughput_cycle": throughput.map(|period| period.json("throughput")),
        "throughput_bin_ns": stalls.stretches.width_ns(),
        "slowest_stretch": stalls.stretches.slowest().map(|(_, _, value)| value),
        "closer_look": closer_look(&gaps, &stalls.stretches, extent),
        "messages_not_followed": stalls.not_followed,
        "unanswered": stalls.unanswered.json(match stalls.now_ns {
            Some(now_ns) if stalls.set_back => now_ns.min(extent.last_ns),
            _ => extent.last_ns,
        }),
        "evidence": {
            "holes_filled": stalls.evidence.filled,
            "sent_again_acknowledged": stalls.evidence.acknowledged,
            "sent_again_unacknowledged": stalls.evidence.unacknowledged,
            "received_twice": stalls.evidence.duplicates,
            "connections_reset": stalls.evidence.resets,
            "connections_refused": stalls.evidence.refused,
        },
    })
}

/// Threshold of a kind of gap.
fn threshold_ns(tracker: &Tracker, kind: Kind) -> i64 {
    let (wait_ns, pause_ns) = tracker.thresholds_ns();
    match kind {
        kind if !kind.waited() => pause_ns,
        Kind::NetworkLoss | Kind::ServerRestarted | Kind::ConnectionReset => {
            Durations::bound_at_least(FLOOR_NS.unsigned_abs()) as i64
        }
        _ => wait_ns,
    }
}

fn tracked(tracker: &Tracker, place: Place) -> Value {
    let [gaps, _] = Totals::of(std::iter::once(tracker), place);
    let (wait_ns, pause_ns) = tracker.thresholds_ns();
    let usual = |durations: &Durations| {
        json!({
            "p50": durations.quantile(0.5),
            "p90": durations.quantile(0.9),
            "p99": durations.quantile(0.99),
        })
    };
    json!({
        "server": tracker.server.to_string(),
        "client": tracker.client.map(|client| client.host.to_string()),
        "replies": tracker.replies,
        "wait_threshold_ns": wait_ns,
        "pause_threshold_ns": pause_ns,
        "usual_wait_ns": usual(&tracker.waits),
        "usual_pause_ns": usual(&tracker.idles),
        "gaps": gaps.json(),
        "drain_cycle": tracker.cycles.period().map(|period| period.json("stalls")),
        "pause_cycle": tracker.pauses.period().map(|period| period.json("pauses")),
    })
}

/// Count and time of gaps by a name of theirs.
#[derive(Default)]
struct Totals(BTreeMap<&'static str, Total>);

impl Totals {
    fn add(&mut self, name: &'static str, more: Total) {
        let total = self.0.entry(name).or_default();
        total.count += more.count;
        total.time_ns = total.time_ns.saturating_add(more.time_ns);
    }

    /// By kind, and by cause.
    fn of<'a>(trackers: impl Iterator<Item = &'a Tracker>, place: Place) -> [Self; 2] {
        let [mut kinds, mut causes] = <[Totals; 2]>::default();
        for tracker in trackers {
            for kind in Kind::all() {
                let total = tracker.found[kind as usize].total(threshold_ns(tracker, kind));
                let kind = kind.at(place);
                kinds.add(kind.name(), total);
                causes.add(kind.cause(), total);
            }
        }
        [kinds, causes]
    }

    fn json(self) -> Value {
        let rows = self.0.into_iter().map(|(name, total)| {
            let total = json!({"count": total.count, "time_ns": total.time_ns});
            (name.to_owned(), total)
        });
        Value::Object(rows.collect())
    }
}

/// Over all servers; losses of single calls and connections beside them.
fn totals(stalls: &Stalls) -> [Value; 2] {
    let servers = stalls.servers.iter().map(|server| &server.tracker);
    let [mut kinds, mut causes] = Totals::of(servers, stalls.place);
    let floor_ns = Durations::bound_at_least(FLOOR_NS.unsigned_abs()) as i64;
    for (found, name) in stalls.alone.iter().zip(["lost_calls", "lost_connections"]) {
        let total = found.total(floor_ns);
        kinds.add(name, total);
        causes.add(Kind::NetworkLoss.cause(), total);
    }
    for tracker in stalls.watched_lanes() {
        kinds.add(Kind::ConnectionWaited.name(), waited_alone(tracker));
    }
    [kinds.json(), causes.json()]
}

/// Of clients that have several to a server: those that waited longest alone, first.
fn connections(stalls: &Stalls) -> Vec<Value> {
    let rows = stalls.watched_lanes().map(|tracker| {
        let mut value = tracked(tracker, stalls.place);
        value["client"] = json!(tracker.client.map(|client| client.to_string()));
        (waited_alone(tracker).time_ns, value)
    });
    longest_first(rows.collect())
}

/// While others of the same client went on.
fn waited_alone(tracker: &Tracker) -> Total {
    let kind = Kind::ConnectionWaited;
    tracker.found[kind as usize].total(threshold_ns(tracker, kind))
}

fn clients(stalls: &Stalls) -> Vec<Value> {
    let pairs = stalls
        .pairs
        .iter()
        .map(|pair| {
            let server = &stalls.servers[pair.server as usize].tracker;
            let tracker = pair.tracker.as_deref().unwrap_or(server);
            let time = |kind: Kind| {
                let total = tracker.found[kind as usize].total(threshold_ns(tracker, kind));
                total.time_ns
            };
            let mut value = tracked(tracker, stalls.place);
            value["client"] = json!(pair.client.to_string());
            (Kind::all().map(time).sum(), value)
        })
        .collect();
    longest_first(pairs)
}

/// Those with most time.
fn longest_first(mut found: Vec<(u64, Value)>) -> Vec<Value> {
    found.sort_by_key(|(time_ns, _)| std::cmp::Reverse(*time_ns));
    let shown = found.into_iter().take(SHOWN_CLIENTS);
    shown.map(|(_, value)| value).collect()
}

/// The longest gaps of each kind above their thresholds, the longest first. Gaps of one client are
/// among them where the server answered others.
fn longest(stalls: &Stalls) -> Vec<Gap> {
    let clients = stalls
        .pairs
        .iter()
        .filter_map(|pair| pair.tracker.as_deref());
    let trackers = stalls
        .servers
        .iter()
        .map(|server| &server.tracker)
        .chain(clients)
        .chain(stalls.watched_lanes());
    let mut gaps = Vec::new();
    for kind in Kind::all() {
        let mut of_kind: Vec<Gap> = Vec::new();
        for tracker in trackers.clone() {
            let threshold_ns = threshold_ns(tracker, kind);
            let own = tracker.found[kind as usize].longest.iter().filter(|gap| {
                let client = matches!(gap.kind, Kind::NetworkLoss | Kind::ClientWaited);
                let shown = tracker.scope == Scope::Server
                    || (client && gap.scope == Scope::Client && !gap.covered)
                    || gap.kind == Kind::ConnectionWaited;
                shown && gap.length_ns() >= threshold_ns
            });
            of_kind.extend(own.map(|gap| Gap {
                kind: gap.kind.at(stalls.place),
                ..*gap
            }));
        }
        if kind == Kind::NetworkLoss {
            for found in &stalls.alone {
                of_kind.extend(found.longest.iter());
            }
        }
        of_kind.sort_by_key(|gap| std::cmp::Reverse(gap.length_ns()));
        of_kind.truncate(SHOWN);
        gaps.extend(of_kind);
    }
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.length_ns()), gap.begin_ns));
    gaps
}

/// What to look at closer: the longest gap (a pause only if there is nothing else), and the slowest
/// stretch; times from the capture's begin, as `nfslab trace F --from S --to S` takes them.
fn closer_look(gaps: &[Gap], stretches: &Stretches, extent: &Extent) -> Vec<Value> {
    let from_begin = |time_ns: i64| (time_ns - extent.capture_first_ns).max(0);
    let mut looks = Vec::new();
    let not_a_pause = gaps.iter().find(|gap| gap.kind.waited());
    if let Some(gap) = not_a_pause.or(gaps.first()) {
        // Calls on both sides of it have to be in sight, beginning with those that waited.
        let margin_ns = (gap.length_ns() / 5).max(FLOOR_NS);
        let from_ns = gap.silent_from_ns.max(gap.begin_ns - margin_ns) - margin_ns;
        looks.push(json!({
            "what": format!("longest gap: {}", gap.kind.name().replace('_', " ")),
            "from_ns": from_begin(from_ns),
            "to_ns": from_begin(gap.end_ns + margin_ns),
        }));
    }
    if let Some((from_ns, to_ns, _)) = stretches.slowest() {
        looks.push(json!({
            "what": "slowest stretch",
            "from_ns": from_begin(from_ns),
            "to_ns": from_begin(to_ns),
        }));
    }
    looks
}
