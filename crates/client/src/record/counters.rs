//! Totals, and figures by operation.

use measure::LatencyHistogram;

use super::{Outcome, RpcRecord};

/// NFSv3 procedures, and one place for all other calls.
pub const OPERATIONS: usize = 23;
/// Significant digits of the histograms by operation: quantiles within 1 %, 36 KiB each.
const DIGITS: u8 = 2;

/// Where a procedure's figures are.
pub fn operation_index(program: u32, procedure: u32) -> usize {
    match usize::try_from(procedure) {
        Ok(index) if program == wire::programs::NFS && index < OPERATIONS - 1 => index,
        _ => OPERATIONS - 1,
    }
}

/// Name of the figures at `index`: the procedure's, or `other`.
pub fn operation_name(index: usize) -> &'static str {
    u32::try_from(index)
        .ok()
        .and_then(|procedure| wire::programs::procedure_name(wire::programs::NFS, 3, procedure))
        .unwrap_or("other")
}

/// Totals since the engine began. Gauges (`queue`, `outstanding`) are the present values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls taken by `submit`.
    pub enqueued: u64,
    /// Calls that `submit` refused because its queue was full.
    pub refused: u64,
    /// Calls answered, whatever the answer.
    pub answered: u64,
    /// Calls that ended without an answer.
    pub failed: u64,
    /// Messages begun to be sent, again included.
    pub sends: u64,
    /// Messages begun to be sent again.
    pub retransmissions: u64,
    /// Timers that went off before the major timeout.
    pub minor_timeouts: u64,
    /// Major timeouts.
    pub major_timeouts: u64,
    /// Bytes given to sockets.
    pub bytes_out: u64,
    /// Bytes taken from sockets.
    pub bytes_in: u64,
    /// System calls that sent.
    pub writes: u64,
    /// System calls that received.
    pub reads: u64,
    /// Calls waiting to be sent the first time.
    pub queue: u32,
    /// Calls sent and not answered.
    pub outstanding: u32,
    /// Highest `queue`.
    pub queue_max: u32,
    /// Highest `outstanding`.
    pub outstanding_max: u32,
    /// Replies to calls that were answered before: the server answered twice.
    pub late_replies: u64,
    /// Replies with an xid that was never in use.
    pub unknown_replies: u64,
    /// Replies on another connection than the call was sent on; ignored.
    pub misdirected_replies: u64,
    /// Messages that are no reply, or break off in the header.
    pub malformed_replies: u64,
    /// Streams given up because their record marks could not be followed.
    pub framing_errors: u64,
    /// Connections established.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub connect_failures: u64,
    /// Connections lost, whoever closed them.
    pub disconnects: u64,
    /// Errors that a datagram socket reported (ICMP: nobody listens, for instance).
    pub socket_errors: u64,
}

/// Figures of one operation.
#[derive(Clone, Debug, Default)]
pub struct OperationCounters {
    /// Calls that ended.
    pub calls: u64,
    /// Of these, how many failed: no answer, refused, or an NFS status other than 0.
    pub errors: u64,
    /// Messages sent for them.
    pub sends: u64,
    /// Message bytes, first sends only.
    pub bytes_out: u64,
    /// Reply bytes.
    pub bytes_in: u64,
    /// Sum of waits before the first send.
    pub queue_sum_ns: u64,
    /// Sum of round trips (first send to reply) of the answered ones.
    pub round_trip_sum_ns: u64,
    /// Round trips of the answered ones; `None` until there is one.
    pub round_trips: Option<Box<LatencyHistogram>>,
}

/// Figures of all operations; see [`operation_index`].
#[derive(Clone, Debug, Default)]
pub struct Operations(Box<[OperationCounters; OPERATIONS]>);

impl Operations {
    /// All figures, by [`operation_index`].
    pub fn all(&self) -> &[OperationCounters] {
        self.0.as_slice()
    }

    #[inline]
    pub(crate) fn record(&mut self, record: &RpcRecord) {
        let index = operation_index(record.program, record.procedure);
        let Some(figures) = self.0.get_mut(index) else {
            return;
        };
        figures.calls += 1;
        figures.errors += u64::from(record.outcome != Outcome::Answered(0));
        figures.sends += u64::from(record.sends);
        figures.bytes_in += u64::from(record.bytes_in);
        if record.sends == 0 {
            return;
        }
        let times = &record.times;
        figures.bytes_out += u64::from(record.bytes_out);
        figures.queue_sum_ns += times.sent_first_ns.saturating_sub(times.enqueued_ns);
        if record.replies > 0 {
            let round_trip_ns = times.completed_ns.saturating_sub(times.sent_first_ns);
            figures.round_trip_sum_ns += round_trip_ns;
            if figures.round_trips.is_none() {
                figures.round_trips = LatencyHistogram::with_digits(DIGITS).ok().map(Box::new);
            }
            if let Some(histogram) = &mut figures.round_trips {
                histogram.record(round_trip_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_named_as_rfc_1813_does() {
        assert_eq!(operation_name(operation_index(100_003, 7)), "WRITE");
        assert_eq!(operation_name(operation_index(100_003, 21)), "COMMIT");
        assert_eq!(operation_name(operation_index(100_003, 22)), "other");
        assert_eq!(operation_name(operation_index(100_005, 1)), "other");
    }
}
