//! `WaitWatch`: where the time of a program's processes goes, as programs in the kernel see it
//! (`syscalls::ebpf::Waits`).

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use syscalls::ebpf::{STATE_QUEUED, STATE_RUNNING, STATE_UNREAD, WaitRow, Waits};

use crate::columns::{Builder, Columns};
use crate::syscall_watch::to_python;

/// Watches a process and its descendants.
#[pyclass(module = "nfslab._core", frozen)]
pub struct WaitWatch {
    waits: Waits,
}

#[pymethods]
impl WaitWatch {
    #[new]
    #[pyo3(signature = (root, symbol=None))]
    fn new(py: Python<'_>, root: u32, symbol: Option<&str>) -> PyResult<Self> {
        let waits = py.detach(|| match symbol {
            Some(symbol) => Waits::start(root, symbol),
            None => Waits::start_by_call(root),
        });
        let waits = waits.map_err(|error| to_python(py, &error))?;
        Ok(WaitWatch { waits })
    }

    /// Since it began: tid, kind, state, ns, times.
    fn totals(&self, py: Python<'_>) -> PyResult<Columns> {
        let rows = py.detach(|| self.waits.totals());
        Builder::default()
            .u32("tid", rows.iter().map(|row| row.tid))
            .text("kind", rows.iter().map(kind))
            .u32("state", rows.iter().map(|row| row.state))
            .u64("ns", rows.iter().map(|row| row.ns))
            .u64("times", rows.iter().map(|row| row.times))
            .finish(py)
    }

    /// What it cost and what was lost.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (time, runs) = self.waits.run();
        let ns = time.as_nanos().min(u64::MAX.into()) as u64;
        let uncounted = self.waits.uncounted();
        let named = [
            ("kernel_run_ns", ns),
            ("kernel_runs", runs),
            ("uncounted", uncounted),
        ];
        named.into_py_dict(py)
    }

    /// Ends it; totals stay as they are.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.waits.stop());
    }
}

fn kind(row: &WaitRow) -> &'static str {
    match row.state {
        STATE_RUNNING => "running",
        STATE_QUEUED => "queued",
        STATE_UNREAD => "unread",
        _ => "blocked",
    }
}

/// Where a process has its program in memory, with its static objects: begin and end.
#[pyfunction]
pub fn program_image(pid: u32) -> std::io::Result<(u64, u64)> {
    syscalls::image_of(pid).map(|image| (image.start, image.end))
}
