//! What `rpcstat` counts in each bin, and the columns made of it.

use measure::add_up;
use serde_json::{Value, json};

use crate::lens::Blob;
use crate::lens::kinds::{KIND_NAMES, KINDS};
use crate::lens::time_bins::{Merge, TimeBins};

/// One bin of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Bin {
    pub sent_calls: u64,
    pub sent_bytes: u64,
    pub answered_calls: u64,
    pub answered_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub retransmissions: u64,
    pub duplicate_replies: u64,
    pub unanswered_calls: u64,
    pub kinds: [u64; KINDS],
    pub queue_area: i128,
    queue_seen: bool,
    queue_min: u32,
    queue_max: u32,
    pub slots_area: i128,
    slots_max: u32,
    /// Highest slot and 1; 0 if none was used.
    pub highest_slot: u32,
    /// From the client, from the server.
    pub tcp: [Direction; 2],
    pub lost_bytes: u64,
}

/// One direction of all TCP connections in a bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Direction {
    pub segments: u64,
    pub retransmitted_segments: u64,
    pub retransmitted_bytes: u64,
    pub timeouts: u64,
    pub out_of_order: u64,
    pub in_flight_max: u64,
    pub in_flight_sum: u128,
    /// Smallest window offered by this side, of acknowledgements with a known scale.
    pub window_min: Option<u64>,
    pub zero_windows: u64,
}

impl Bin {
    /// The queue has this length at some moment of the bin.
    #[inline(always)]
    pub fn queue(&mut self, waiting: u32, slots: u32) {
        if !self.queue_seen || waiting < self.queue_min {
            self.queue_min = waiting;
        }
        self.queue_seen = true;
        self.queue_max = self.queue_max.max(waiting);
        self.slots_max = self.slots_max.max(slots);
    }
}

fn smaller(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Merge for Bin {
    fn merge(&mut self, later: &Self) {
        add_up!(
            self, later; sent_calls, sent_bytes, answered_calls, answered_bytes, read_bytes,
            written_bytes, retransmissions, duplicate_replies, unanswered_calls, queue_area,
            slots_area, lost_bytes,
        );
        for (kind, more) in self.kinds.iter_mut().zip(later.kinds) {
            *kind += more;
        }
        if later.queue_seen {
            self.queue(later.queue_min, later.slots_max);
            self.queue_max = self.queue_max.max(later.queue_max);
        }
        self.highest_slot = self.highest_slot.max(later.highest_slot);
        for (side, more) in self.tcp.iter_mut().zip(&later.tcp) {
            side.merge(more);
        }
    }
}

impl Direction {
    fn merge(&mut self, later: &Self) {
        add_up!(
            self, later; segments, retransmitted_segments, retransmitted_bytes, timeouts,
            out_of_order, in_flight_sum, zero_windows,
        );
        self.in_flight_max = self.in_flight_max.max(later.in_flight_max);
        self.window_min = smaller(self.window_min, later.window_min);
    }
}

/// Columns: JSON that describes them and the blobs that hold them.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    bins: &'a TimeBins<Bin>,
    /// Span of the capture within the first and last bin matters to means.
    end_ns: i64,
    described: Vec<Value>,
    blobs: Vec<Blob>,
}

impl<'a> Columns<'a> {
    pub fn new(bins: &'a TimeBins<Bin>, end_ns: i64) -> Self {
        Columns {
            bins,
            end_ns,
            described: Vec::new(),
            blobs: Vec::new(),
        }
    }

    fn describe(&mut self, name: &str, dtype: &'static str, unit: &str, bytes: Vec<u8>) {
        self.described
            .push(json!({"name": name, "dtype": dtype, "unit": unit}));
        self.blobs.push(Blob {
            name: name.to_owned(),
            dtype,
            bytes,
        });
    }

    /// Eight bytes of each bin.
    fn bytes(&self, of: impl Fn(&Bin) -> [u8; 8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * self.bins.len());
        for bin in self.bins.bins() {
            bytes.extend_from_slice(&of(bin));
        }
        bytes
    }

    fn count(&mut self, name: &str, unit: &str, of: impl Fn(&Bin) -> u64) {
        let bytes = self.bytes(|bin| i64::try_from(of(bin)).unwrap_or(i64::MAX).to_le_bytes());
        self.describe(name, "<i8", unit, bytes);
    }

    /// Time-weighted mean of each bin; NaN where the sweep had no time.
    fn mean(&mut self, name: &str, unit: &str, of: impl Fn(&Bin) -> i128) {
        let mut bytes = Vec::new();
        for (index, bin) in self.bins.bins().enumerate() {
            let from = self.bins.from_ns(index);
            let to = from.saturating_add(self.bins.width_ns()).min(self.end_ns);
            let span = if to > from {
                (to - from) as f64
            } else {
                f64::NAN
            };
            let mean = of(bin) as f64 / span;
            bytes.extend_from_slice(&mean.to_le_bytes());
        }
        self.describe(name, "<f8", unit, bytes);
    }

    /// A value that may be absent: NaN.
    fn value(&mut self, name: &str, unit: &str, of: impl Fn(&Bin) -> Option<f64>) {
        let bytes = self.bytes(|bin| of(bin).unwrap_or(f64::NAN).to_le_bytes());
        self.describe(name, "<f8", unit, bytes);
    }

    pub fn fill(mut self) -> (Vec<Value>, Vec<Blob>) {
        self.calls();
        self.queue();
        for (side, name) in ["client", "server"].into_iter().enumerate() {
            self.tcp(side, name);
        }
        self.count("lost_bytes", "bytes", |bin| bin.lost_bytes);
        (self.described, self.blobs)
    }

    fn calls(&mut self) {
        self.count("sent_calls", "calls", |bin| bin.sent_calls);
        self.count("sent_bytes", "bytes", |bin| bin.sent_bytes);
        self.count("answered_calls", "calls", |bin| bin.answered_calls);
        self.count("answered_bytes", "bytes", |bin| bin.answered_bytes);
        self.count("read_bytes", "bytes", |bin| bin.read_bytes);
        self.count("written_bytes", "bytes", |bin| bin.written_bytes);
        self.count("retransmissions", "sends", |bin| bin.retransmissions);
        self.count("duplicate_replies", "replies", |bin| bin.duplicate_replies);
        self.count("unanswered_calls", "calls", |bin| bin.unanswered_calls);
        for (kind, name) in KIND_NAMES.iter().enumerate() {
            let name = format!("answered_{}", name.to_lowercase());
            self.count(&name, "calls", |bin| bin.kinds[kind]);
        }
    }

    fn queue(&mut self) {
        self.count("queue_min", "calls", |bin| u64::from(bin.queue_min));
        self.mean("queue_mean", "calls", |bin| bin.queue_area);
        self.count("queue_max", "calls", |bin| u64::from(bin.queue_max));
        self.mean("slots_mean", "slots", |bin| bin.slots_area);
        self.count("slots_max", "slots", |bin| u64::from(bin.slots_max));
        self.value("highest_slot", "slot", |bin| {
            bin.highest_slot.checked_sub(1).map(f64::from)
        });
    }

    fn tcp(&mut self, side: usize, from: &str) {
        let name = |what: &str| format!("tcp_{from}_{what}");
        self.count(&name("segments"), "segments", |bin| bin.tcp[side].segments);
        self.count(&name("retransmitted_segments"), "segments", |bin| {
            bin.tcp[side].retransmitted_segments
        });
        self.count(&name("timeouts"), "timeouts", |bin| bin.tcp[side].timeouts);
        self.count(&name("out_of_order"), "segments", |bin| {
            bin.tcp[side].out_of_order
        });
        self.count(&name("in_flight_max_bytes"), "bytes", |bin| {
            bin.tcp[side].in_flight_max
        });
        self.value(&name("in_flight_mean_bytes"), "bytes", |bin| {
            let side = &bin.tcp[side];
            (side.segments > 0).then(|| side.in_flight_sum as f64 / side.segments as f64)
        });
        self.value(&name("window_min_bytes"), "bytes", |bin| {
            bin.tcp[side].window_min.map(|window| window as f64)
        });
        self.count(&name("zero_windows"), "times", |bin| {
            bin.tcp[side].zero_windows
        });
    }
}
