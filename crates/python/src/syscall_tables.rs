//! Records of system calls (`syscalls::record`) as columns: one shape for every way of watching.
//!
//! Results are split: `bytes` of a call that succeeded (0 for calls that move none), `error` the
//! errno of one that failed (0 otherwise). Paths that are not UTF-8 are shown with U+FFFD.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use syscalls::record::{
    AccessRecord, BlockRecord, CountRecord, FileRecord, NO_FILE, NameRecord, SyncRecord,
};
use syscalls::tally::Taken;

use crate::columns::{Builder, Columns};

/// Columns of the fields of these names, by kind.
macro_rules! columns {
    ($builder:expr, $rows:expr, $($kind:ident: $($field:ident),+;)+) => {
        $builder$($(.$kind(stringify!($field), $rows.iter().map(|row| row.$field)))+)+
    };
}

/// What was taken: "files", "syncs", "events", "names", "blocks".
pub fn taken<'py>(py: Python<'py>, taken: &Taken) -> PyResult<Bound<'py, PyDict>> {
    let tables = PyDict::new(py);
    tables.set_item("files", files(py, &taken.files)?)?;
    tables.set_item("syncs", syncs(py, &taken.syncs)?)?;
    tables.set_item("events", events(py, &taken.events)?)?;
    tables.set_item("names", names(py, &taken.names)?)?;
    tables.set_item("blocks", blocks(py, &taken.blocks)?)?;
    Ok(tables)
}

/// Names of files: file_id, device ("major:minor"), inode, path, seen_ns.
fn files(py: Python<'_>, rows: &[FileRecord]) -> PyResult<Columns> {
    let begun = columns!(Builder::default(), rows, u32: file_id;)
        .text("device", rows.iter().map(|row| device(row.device)));
    let named =
        columns!(begun, rows, u64: inode;).text("path", rows.iter().map(|row| text(&row.path)));
    columns!(named, rows, u64: seen_ns;).finish(py)
}

/// Calls that make bytes durable: start_ns, latency_ns, pid, tid, call, synchronous, file_id (null
/// when there is none), offset, size (null when there are none), error.
fn syncs(py: Python<'_>, rows: &[SyncRecord]) -> PyResult<Columns> {
    let called = columns!(Builder::default(), rows, u64: start_ns, latency_ns; u32: pid, tid;)
        .text("call", rows.iter().map(|row| row.call.name()))
        .flag("synchronous", rows.iter().map(|row| row.synchronous))
        .u32_or_null("file_id", rows.iter().map(|row| known(row.file_id)));
    columns!(called, rows, u64_or_null: offset, size;)
        .u32("error", rows.iter().map(|row| error(row.result)))
        .finish(py)
}

/// Reads and writes: start_ns, latency_ns, pid, tid, call, file_id (null when it could not be
/// told), offset (null when there is none), size, bytes, error.
fn events(py: Python<'_>, rows: &[AccessRecord]) -> PyResult<Columns> {
    let called = columns!(Builder::default(), rows, u64: start_ns, latency_ns; u32: pid, tid;)
        .text("call", rows.iter().map(|row| row.call.name()))
        .u32_or_null("file_id", rows.iter().map(|row| known(row.file_id)));
    columns!(called, rows, u64_or_null: offset; u64: size;)
        .u64("bytes", rows.iter().map(|row| row.result.max(0) as u64))
        .u32("error", rows.iter().map(|row| error(row.result)))
        .finish(py)
}

/// Changes of names: start_ns, latency_ns, pid, call, path, new_path (null but of rename), error.
fn names(py: Python<'_>, rows: &[NameRecord]) -> PyResult<Columns> {
    let new_path = |row: &NameRecord| row.new_path.as_deref().map(text);
    columns!(Builder::default(), rows, u64: start_ns, latency_ns; u32: pid;)
        .text("call", rows.iter().map(|row| row.call.name()))
        .text("path", rows.iter().map(|row| text(&row.path)))
        .text_or_null("new_path", rows.iter().map(new_path))
        .u32("error", rows.iter().map(|row| error(row.result)))
        .finish(py)
}

/// Totals per file and call: file_id (null when it could not be told), call, calls, errors,
/// bytes, latency_sum_ns, latency_max_ns, latencies, sizes, places (lists of counts).
pub fn counts(py: Python<'_>, rows: &[CountRecord]) -> PyResult<Columns> {
    let called = Builder::default()
        .u32_or_null("file_id", rows.iter().map(|row| known(row.file_id)))
        .text("call", rows.iter().map(|row| row.call.name()));
    columns!(called, rows, u64: calls, errors, bytes, latency_sum_ns, latency_max_ns;)
        .lists("latencies", rows.iter().map(|row| row.latencies.as_slice()))
        .lists("sizes", rows.iter().map(|row| row.sizes.as_slice()))
        .lists("places", rows.iter().map(|row| row.places.as_slice()))
        .finish(py)
}

/// Requests of block devices: issue_ns, latency_ns, device, kind, fua, sector, size, pid.
fn blocks(py: Python<'_>, rows: &[BlockRecord]) -> PyResult<Columns> {
    let issued = columns!(Builder::default(), rows, u64: issue_ns, latency_ns;)
        .text("device", rows.iter().map(|row| device(row.device)))
        .text("kind", rows.iter().map(|row| row.kind.name()));
    columns!(issued, rows, flag: fua; u64: sector, size; u32: pid;).finish(py)
}

fn known(file_id: u32) -> Option<u32> {
    (file_id != NO_FILE).then_some(file_id)
}

fn device((major, minor): (u32, u32)) -> String {
    format!("{major}:{minor}")
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn error(result: i64) -> u32 {
    u32::try_from(-result.min(0)).unwrap_or(u32::MAX)
}
