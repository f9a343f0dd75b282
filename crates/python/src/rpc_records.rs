//! `RpcRecorder`: what an NFS client records of itself (module `record` of `client`) as columns.
//!
//! Whoever owns a [`Client`] (a mount, a load) hands out a recorder of it. Calls and samples are
//! moved out at each question; what was lost because nobody asked is counted. All instants are
//! CLOCK_MONOTONIC, the clock of `time.monotonic_ns()`.

use std::sync::Arc;
use std::time::Duration;

use client::record::ring::DEFAULT_RING_RECORDS;
use client::record::{
    Counters, OperationCounters, Operations, Outcome, RecordReader, RpcRecord, Sample, TcpInfo,
    operation_name,
};
use client::{CallError, Client};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList};

use crate::columns::{Builder, Columns, named};
use crate::errors::core_error;

/// Quantiles shown by operation.
const QUANTILES: [(&str, f64); 4] = [
    ("p50_ns", 0.5),
    ("p90_ns", 0.9),
    ("p99_ns", 0.99),
    ("p999_ns", 0.999),
];

// The signature below shows it as a number, for Python's documentation.
const _: () = assert!(DEFAULT_RING_RECORDS == 262_144);

/// What was lost so far.
#[derive(Default)]
struct Lost {
    calls: u64,
    samples: u64,
}

/// Watches the calls of one NFS client.
#[pyclass(module = "nfslab._core", frozen)]
pub struct RpcRecorder {
    client: Arc<Client>,
    reader: Mutex<Option<RecordReader>>,
    lost: Mutex<Lost>,
}

impl RpcRecorder {
    /// Of this client. Nothing is recorded before `start`.
    pub fn new(client: Arc<Client>) -> Self {
        RpcRecorder {
            client,
            reader: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    fn reader(&self) -> Option<RecordReader> {
        let reader = self.reader.lock();
        reader.clone()
    }
}

#[pymethods]
impl RpcRecorder {
    /// Begins: a sample every `interval_ns` (0: none), a record of every call if asked.
    #[pyo3(signature = (every_call = true, interval_ns = 100_000_000, room = 262_144))]
    fn start(
        &self,
        py: Python<'_>,
        every_call: bool,
        interval_ns: u64,
        room: usize,
    ) -> PyResult<()> {
        let begun = py.detach(|| {
            self.client
                .sample_every(Duration::from_nanos(interval_ns))?;
            every_call
                .then(|| self.client.record_every_call(room))
                .transpose()
        });
        let reader = begun.map_err(|error| closed(py, error))?;
        *self.reader.lock() = reader;
        Ok(())
    }

    /// Ends recording and sampling; what was recorded is still there to be taken.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let ended = py.detach(|| {
            self.client.sample_every(Duration::ZERO)?;
            self.client
                .with_engine(|engine| engine.record_counters_only())
        });
        ended.map_err(|error| closed(py, error))
    }

    /// The calls that ended since the last time, in the order of their ends.
    fn calls(&self, py: Python<'_>) -> PyResult<Columns> {
        let mut records = Vec::new();
        if let Some(reader) = self.reader() {
            let lost = py.detach(|| reader.drain(&mut records));
            self.lost.lock().calls = lost;
        }
        call_columns(py, &records)
    }

    /// The samples since the last time: "rpc", "operations" and "tcp".
    fn samples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = py.detach(|| self.client.samples());
        let (samples, lost) = taken.map_err(|error| closed(py, error))?;
        self.lost.lock().samples = lost;
        sample_columns(py, &samples)
    }

    /// Totals and gauges by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = py.detach(|| self.client.figures());
        let (counters, _) = taken.map_err(|error| closed(py, error))?;
        counter_dict(py, &counters)
    }

    /// Figures of each operation that was called.
    fn operations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let taken = py.detach(|| self.client.figures());
        let (_, operations) = taken.map_err(|error| closed(py, error))?;
        operation_list(py, &operations)
    }

    /// Calls and samples that found no room because nobody took them, so far.
    fn lost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let lost = self.lost.lock();
        named!(lost; calls, samples).into_py_dict(py)
    }
}

fn closed(py: Python<'_>, error: CallError) -> PyErr {
    core_error(
        py,
        "closed",
        "the NFS client cannot be asked",
        error.to_string(),
        "Ask before its mount is taken away.",
    )
}

/// How a call ended, and its status where it has one.
fn outcome(outcome: Outcome) -> (&'static str, Option<u32>) {
    match outcome {
        Outcome::Answered(status) => ("answered", Some(status)),
        Outcome::Refused => ("refused", None),
        Outcome::Malformed => ("malformed", None),
        Outcome::TimedOut => ("timed out", None),
        Outcome::Dropped => ("dropped", None),
    }
}

/// The file's number, where it is known.
fn file_id(record: &RpcRecord) -> Option<u64> {
    record.file.map(|file| file.file_id).filter(|id| *id != 0)
}

/// One row for each call. Bytes are whole messages, the record mark of calls included.
pub fn call_columns(py: Python<'_>, records: &[RpcRecord]) -> PyResult<Columns> {
    let of = |value: fn(&RpcRecord) -> u32| records.iter().map(value);
    let at = |value: fn(&RpcRecord) -> u64| records.iter().map(value);
    let operation = |record: &RpcRecord| {
        wire::programs::procedure_name(record.program, record.version, record.procedure)
            .unwrap_or("unknown")
    };
    Builder::default()
        .u64("enqueued_ns", at(|r| r.times.enqueued_ns))
        .u64("sent_first_ns", at(|r| r.times.sent_first_ns))
        .u64("sent_last_ns", at(|r| r.times.sent_last_ns))
        .u64("completed_ns", at(|r| r.times.completed_ns))
        .u32("xid", of(|r| r.xid))
        .u32("program", of(|r| r.program))
        .u32("version", of(|r| r.version))
        .u32("procedure", of(|r| r.procedure))
        .text("operation", records.iter().map(operation))
        .text("outcome", records.iter().map(|r| outcome(r.outcome).0))
        .u32_or_null("status", records.iter().map(|r| outcome(r.outcome).1))
        .u32("sends", of(|r| r.sends))
        .u32("replies", of(|r| r.replies))
        .u32("call_bytes", of(|r| r.bytes_out))
        .u32("reply_bytes", of(|r| r.bytes_in))
        .u32("connection", of(|r| r.connection))
        .u32("queue_at_enqueue", of(|r| r.queue_at_enqueue))
        .u32("outstanding_at_send", of(|r| r.outstanding_at_send))
        .u64_or_null("file_id", records.iter().map(file_id))
        .u64_or_null("offset", records.iter().map(|r| r.file.map(|f| f.offset)))
        .u32_or_null("count", records.iter().map(|r| r.file.map(|f| f.count)))
        .finish(py)
}

/// The state over time ("rpc"), figures by operation and time, TCP by connection and time.
/// Counters are totals since the client began.
pub fn sample_columns<'py>(py: Python<'py>, samples: &[Sample]) -> PyResult<Bound<'py, PyDict>> {
    let mut rpc = Builder::default().u64("at_ns", samples.iter().map(|s| s.at_ns));
    for (index, (name, _)) in counters(&Counters::default()).into_iter().enumerate() {
        let value = |sample: &Sample| counters(&sample.counters).get(index).map_or(0, |c| c.1);
        rpc = rpc.u64(name, samples.iter().map(value));
    }
    let mut by_operation = Vec::new();
    let mut by_connection = Vec::new();
    for sample in samples {
        let sums = sample
            .calls
            .iter()
            .zip(&sample.round_trip_sum_ns)
            .enumerate();
        let called = sums.filter(|(_, (calls, _))| **calls > 0);
        by_operation.extend(called.map(|(index, (c, s))| (sample.at_ns, index, *c, *s)));
        let up = (0_u32..)
            .zip(&sample.tcp)
            .filter_map(|(n, tcp)| tcp.map(|tcp| (n, tcp)));
        by_connection.extend(up.map(|(number, tcp)| (sample.at_ns, number, tcp)));
    }
    let operations = Builder::default()
        .u64("at_ns", by_operation.iter().map(|row| row.0))
        .text(
            "operation",
            by_operation.iter().map(|row| operation_name(row.1)),
        )
        .u64("calls", by_operation.iter().map(|row| row.2))
        .u64("round_trip_sum_ns", by_operation.iter().map(|row| row.3));
    let tcp = Builder::default()
        .u64("at_ns", by_connection.iter().map(|row| row.0))
        .u32("connection", by_connection.iter().map(|row| row.1));
    let infos: Vec<_> = by_connection.iter().map(|row| row.2).collect();
    let tcp = tcp_columns(tcp, &infos);
    let all = PyDict::new(py);
    all.set_item("rpc", rpc.finish(py)?)?;
    all.set_item("operations", operations.finish(py)?)?;
    all.set_item("tcp", tcp.finish(py)?)?;
    Ok(all)
}

/// What is told of a connection's TCP, whoever asked the kernel.
pub fn tcp_columns(columns: Builder, infos: &[TcpInfo]) -> Builder {
    let of = |value: fn(&TcpInfo) -> u32| infos.iter().map(value);
    columns
        .u32("round_trip_us", of(|tcp| tcp.round_trip_us))
        .u32(
            "round_trip_deviation_us",
            of(|tcp| tcp.round_trip_deviation_us),
        )
        .u32("congestion_window", of(|tcp| tcp.congestion_window))
        .u32("segment_size_bytes", of(|tcp| tcp.segment_size_bytes))
        .u32("unacknowledged", of(|tcp| tcp.unacknowledged))
        .u32("retransmitted", of(|tcp| tcp.retransmitted))
        .u32(
            "retransmission_timeout_us",
            of(|tcp| tcp.retransmission_timeout_us),
        )
}

/// (name, value) of each counter and gauge.
fn counters(c: &Counters) -> [(&'static str, u64); 25] {
    named!(
        c; enqueued, refused, answered, failed, sends, retransmissions, minor_timeouts,
        major_timeouts, bytes_out, bytes_in, writes, reads, queue, outstanding, queue_max,
        outstanding_max, late_replies, unknown_replies, misdirected_replies, malformed_replies,
        framing_errors, connects, connect_failures, disconnects, socket_errors,
    )
}

/// Totals and gauges by name.
pub fn counter_dict<'py>(py: Python<'py>, values: &Counters) -> PyResult<Bound<'py, PyDict>> {
    counters(values).into_py_dict(py)
}

/// Figures of each operation that was called.
pub fn operation_list<'py>(py: Python<'py>, all: &Operations) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let called = all
        .all()
        .iter()
        .enumerate()
        .filter(|(_, figures)| figures.calls > 0);
    for (index, figures) in called {
        list.append(operation_dict(py, operation_name(index), figures)?)?;
    }
    Ok(list)
}

fn operation_dict<'py>(
    py: Python<'py>,
    name: &str,
    figures: &OperationCounters,
) -> PyResult<Bound<'py, PyDict>> {
    let entry = named!(
        figures; calls, errors, sends, bytes_out, bytes_in, queue_sum_ns, round_trip_sum_ns,
    )
    .into_py_dict(py)?;
    entry.set_item("operation", name)?;
    let trips = figures.round_trips.as_ref();
    for (name, q) in QUANTILES {
        let value = trips.and_then(|histogram| histogram.quantile_ns(q).ok().flatten());
        entry.set_item(name, value)?;
    }
    entry.set_item("max_ns", trips.and_then(|histogram| histogram.max_ns()))?;
    Ok(entry)
}
