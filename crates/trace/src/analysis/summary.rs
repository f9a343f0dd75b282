//! The summary's JSON: what the whole capture was.

use serde_json::{Map, Value, json};

use crate::lens::Extent;
use crate::names::Beyond;
use crate::source::Totals;
use crate::stream::Lost;

/// What the whole capture was.
pub(super) struct Whole {
    pub(super) extent: Extent,
    /// Whether there was any frame with a time.
    pub(super) has_times: bool,
    pub(super) bytes: u64,
    pub(super) window_ns: Option<(i64, i64)>,
    pub(super) lost: Lost,
    pub(super) files: u64,
}

/// Names for what did not fit, where it happened.
pub(super) fn beyond(beyond: &Beyond) -> impl Iterator<Item = (&'static str, u64)> {
    [
        ("files_beyond_limit", beyond.files),
        ("names_beyond_limit", beyond.names),
        ("entries_beyond_limit", beyond.entries),
        ("operation_lists_beyond_limit", beyond.operation_lists),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
}

/// The summary. Times are `null` if there was no frame.
pub(super) fn summary(
    whole: &Whole,
    totals: &Totals,
    anomalies: &[(&str, u64)],
    inputs: &[String],
) -> Value {
    let extent = &whole.extent;
    let time = |time_ns: i64| whole.has_times.then_some(time_ns);
    let captured = match totals.part {
        Some(part) => (part.captured_bytes, part.truncated_frames),
        None => (totals.captured_bytes, totals.truncated_frames),
    };
    let duration_ns = extent.last_ns.saturating_sub(extent.first_ns);
    let mut kinds: Map<String, Value> = Map::new();
    for (kind, count) in anomalies {
        let so_far = kinds.get(*kind).and_then(Value::as_u64).unwrap_or(0);
        kinds.insert((*kind).to_owned(), (so_far + count).into());
    }
    let anomalies: Vec<Value> = kinds
        .into_iter()
        .map(|(kind, count)| json!({"kind": kind, "count": count}))
        .collect();
    json!({
        "packets": extent.packets,
        "bytes": whole.bytes,
        "first_ns": time(extent.first_ns),
        "last_ns": time(extent.last_ns),
        "duration_ns": time(duration_ns),
        "window_ns": whole.window_ns.map(|(from_ns, to_ns)| [from_ns, to_ns]),
        "captured_bytes": captured.0,
        "truncated_packets": captured.1,
        "kernel_drops": totals.kernel_drops,
        "skipped_bytes": totals.skipped_bytes,
        "calls": extent.calls,
        "files_named": whole.files,
        "lost": {"bytes": whole.lost.bytes, "gaps": whole.lost.gaps},
        "anomalies": anomalies,
        "inputs": inputs,
    })
}
