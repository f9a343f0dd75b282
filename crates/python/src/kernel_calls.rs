//! `KernelCalls`: the kernel's NFS calls and requests (`syscalls::sunrpc`) as columns;
//! `KernelFiles`: its client's calls on data by file (`syscalls::nfs_files`).
//!
//! Columns are those of our own client's and server's records (`RpcRecorder.calls`,
//! `Server.records`), with null where the kernel does not tell.

use measure::FileCounts;
use parking_lot::Mutex;
use pyo3::prelude::*;
use syscalls::nfs_files::NfsFiles;
use syscalls::sunrpc::{ClientCall, ServedCall, Sides, Taken, Watch};
use wire::programs::{NFS, NFSACL, procedure_count, procedure_name};

use crate::columns::{Builder, Columns};
use crate::syscall_watch::to_python;

/// Watches all NFS clients, or all NFS servers, of this kernel.
#[pyclass(module = "nfslab._core", frozen)]
pub struct KernelCalls {
    watch: Mutex<Watch>,
}

#[pymethods]
impl KernelCalls {
    #[new]
    #[pyo3(signature = (*, client = false, files = false, server = false))]
    fn new(py: Python<'_>, client: bool, files: bool, server: bool) -> PyResult<Self> {
        let sides = Sides {
            client,
            files,
            server,
        };
        let watch = py.detach(|| Watch::start(sides));
        let watch = watch.map_err(|error| to_python(py, &error))?;
        Ok(KernelCalls {
            watch: Mutex::new(watch),
        })
    }

    /// Until when all that ended since the last time is in it; the client's calls, the server's.
    fn take(&self, py: Python<'_>) -> PyResult<(u64, Columns, Columns)> {
        let taken = py.detach(|| self.watch.lock().take());
        columns(py, &taken)
    }

    /// The same, for the last time.
    fn stop(&self, py: Python<'_>) -> PyResult<(u64, Columns, Columns)> {
        let taken = py.detach(|| self.watch.lock().stop());
        columns(py, &taken)
    }

    /// Records that found no room, so far; a call has one, a request six.
    fn lost(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.watch.lock().lost())
    }
}

/// READs, WRITEs and COMMITs by file, of all of the kernel's NFS clients.
#[pyclass(module = "nfslab._core", frozen)]
pub struct KernelFiles {
    watch: Mutex<NfsFiles>,
}

#[pymethods]
impl KernelFiles {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let watch = py.detach(NfsFiles::start);
        let watch = watch.map_err(|error| to_python(py, &error))?;
        Ok(KernelFiles {
            watch: Mutex::new(watch),
        })
    }

    /// Device, the file's number, and its calls since the last time.
    fn take(&self, py: Python<'_>) -> Vec<(String, u64, CallsOnData)> {
        let taken = py.detach(|| self.watch.lock().take());
        let row = |(file, counts): (syscalls::nfs_files::File, FileCounts)| {
            let (major, minor) = file.device;
            (
                format!("{major}:{minor}"),
                file.file_id,
                calls_on_data(counts),
            )
        };
        taken.into_iter().map(row).collect()
    }
}

/// READs, WRITEs, COMMITs, bytes read, bytes written.
pub type CallsOnData = [u64; 5];

/// Path, if it is known, and calls of each file.
pub fn rows_of_files(
    files: Vec<(Option<Vec<u8>>, FileCounts)>,
) -> Vec<(Option<String>, CallsOnData)> {
    let text = |path: Vec<u8>| String::from_utf8_lossy(&path).into_owned();
    let row = |(path, counts): (Option<Vec<u8>>, _)| (path.map(text), calls_on_data(counts));
    files.into_iter().map(row).collect()
}

fn calls_on_data(counts: FileCounts) -> CallsOnData {
    let c = counts;
    [c.reads, c.writes, c.commits, c.read_bytes, c.written_bytes]
}

fn columns(py: Python<'_>, taken: &Taken) -> PyResult<(u64, Columns, Columns)> {
    let client = client_columns(py, &taken.client)?;
    Ok((taken.until_ns, client, served_columns(py, &taken.served)?))
}

/// Number of a program by the name that Linux's client or server has for it.
fn program(name: &str) -> Option<u32> {
    match name {
        "nfs" | "nfsd" => Some(NFS),
        "nfsacl" => Some(NFSACL),
        _ => None,
    }
}

/// Linux's client names the first operation that matters of an NFSv4 COMPOUND.
fn procedure(program: u32, version: u32, operation: &str) -> u32 {
    if version == 4 {
        return u32::from(operation != "NULL");
    }
    let count = procedure_count(program, version).unwrap_or(0);
    let named = |number: &u32| procedure_name(program, version, *number) == Some(operation);
    (0..count).find(named).unwrap_or(u32::MAX)
}

/// Of other programs nothing is told.
fn client_columns(py: Python<'_>, calls: &[ClientCall]) -> PyResult<Columns> {
    let known = calls
        .iter()
        .filter_map(|call| Some((program(&call.program)?, call)));
    let rows: Vec<_> = known.collect();
    let of = |value: fn(&ClientCall) -> u32| rows.iter().map(move |row| value(row.1));
    let at = |value: fn(&ClientCall) -> u64| rows.iter().map(move |row| value(row.1));
    let data = || rows.iter().map(|row| row.1.data);
    let outcome = |call: &ClientCall| match call.replied_ns {
        Some(_) => "answered",
        None => "dropped",
    };
    Builder::default()
        .u64("enqueued_ns", at(|call| call.enqueued_ns))
        .u64("sent_first_ns", at(|call| call.sent_ns))
        .u64("sent_last_ns", at(|call| call.sent_ns))
        .u64_or_null("replied_ns", rows.iter().map(|row| row.1.replied_ns))
        .u64("completed_ns", at(|call| call.completed_ns))
        .u32("client", of(|call| call.client))
        .u32("xid", of(|call| call.xid))
        .u32("program", rows.iter().map(|row| row.0))
        .u32("version", of(|call| call.version))
        .u32(
            "procedure",
            rows.iter()
                .map(|(program, call)| procedure(*program, call.version, &call.operation)),
        )
        .text("operation", rows.iter().map(|row| &row.1.operation))
        .text("outcome", rows.iter().map(|row| outcome(row.1)))
        .u32("sends", of(|call| call.sends))
        .u32_or_null("status", data().map(|d| d.filter(|d| d.is_ok).map(|_| 0)))
        .u64_or_null("file_id", data().map(|d| d.map(|d| d.file_id)))
        .u64_or_null("offset", data().map(|d| d.map(|d| d.offset)))
        .u32_or_null("count", data().map(|d| d.map(|d| d.count)))
        .finish(py)
}

fn served_columns(py: Python<'_>, calls: &[ServedCall]) -> PyResult<Columns> {
    let known = calls
        .iter()
        .filter_map(|call| Some((program(&call.program)?, call)));
    let rows: Vec<_> = known.collect();
    let of = |value: fn(&ServedCall) -> u32| rows.iter().map(move |row| value(row.1));
    let at = |value: fn(&ServedCall) -> u64| rows.iter().map(move |row| value(row.1));
    let operation = |(program, call): &(u32, &ServedCall)| {
        procedure_name(*program, call.version, call.procedure).unwrap_or("unknown")
    };
    Builder::default()
        .u64("received_ns", at(|call| call.received_ns))
        .u64("started_ns", at(|call| call.started_ns))
        .u64("finished_ns", at(|call| call.finished_ns))
        .u64("sent_ns", at(|call| call.sent_ns))
        .u32("xid", of(|call| call.xid))
        .u32("program", rows.iter().map(|row| row.0))
        .u32("version", of(|call| call.version))
        .u32("procedure", of(|call| call.procedure))
        .u32("call_bytes", of(|call| call.call_bytes))
        .u32("reply_bytes", of(|call| call.reply_bytes))
        .text("operation", rows.iter().map(operation))
        .finish(py)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_numbers_of_their_rfc() {
        assert_eq!(procedure(NFS, 3, "WRITE"), 7); // RFC 1813
        assert_eq!(procedure(NFS, 3, "COMMIT"), 21);
        assert_eq!(procedure(NFSACL, 3, "GETACL"), 1);
        assert_eq!(procedure(NFS, 4, "OPEN_NOATTR"), 1); // RFC 8881: COMPOUND
        assert_eq!(procedure(NFS, 4, "NULL"), 0);
        assert_eq!(procedure(NFS, 3, "NONSENSE"), u32::MAX);
        assert_eq!((program("nfs"), program("lockd")), (Some(NFS), None));
    }
}
