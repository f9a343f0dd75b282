//! `SyscallWatch`: system calls on files as programs in the kernel see them (`syscalls::ebpf`).
//!
//! A thread of its own gathers what they send; here it is asked for, with the GIL released. All
//! instants are CLOCK_MONOTONIC, the clock of `time.monotonic_ns()`.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use syscalls::ebpf::{Level, Options, Watch};
use syscalls::error::WatchError;

use crate::columns::{Columns, named};
use crate::errors::core_error;
use crate::syscall_tables;

/// Watches the system calls on files of some processes and of their descendants.
#[pyclass(module = "nfslab._core", frozen)]
pub struct SyscallWatch {
    watch: Watch,
}

#[pymethods]
impl SyscallWatch {
    #[new]
    #[pyo3(signature = (
        roots, level = "sync", *, lseek = false, blocks = false, ring_bytes = 16_777_216,
        files_max = 16_384
    ))]
    fn new(
        py: Python<'_>,
        roots: Vec<u32>,
        level: &str,
        lseek: bool,
        blocks: bool,
        ring_bytes: u32,
        files_max: u32,
    ) -> PyResult<Self> {
        let level = Level::named(level).ok_or_else(|| {
            let error = WatchError::Config {
                what: format!("{level:?} is no level (sync, counts, events)"),
            };
            to_python(py, &error)
        })?;
        let options = Options {
            roots,
            level,
            lseek,
            blocks,
            ring_bytes,
            files_max,
        };
        let watch = py.detach(|| Watch::start(&options));
        let watch = watch.map_err(|error| to_python(py, &error))?;
        Ok(SyscallWatch { watch })
    }

    /// Rows since the last time: "files", "syncs", "events", "names", "blocks".
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = py.detach(|| self.watch.take());
        syscall_tables::taken(py, &taken)
    }

    /// Totals per file and call.
    fn counts(&self, py: Python<'_>) -> PyResult<Columns> {
        let rows = py.detach(|| self.watch.counts());
        syscall_tables::counts(py, &rows)
    }

    /// What it cost and what was lost.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let figures = py.detach(|| self.watch.figures());
        let all = named!(
            figures; lost_syncs, lost_events, lost_names, lost_blocks, uncounted, unplaced,
            unmatched, not_understood, attach_ns, thread_cpu_ns, kernel_run_ns, kernel_runs,
            watched,
        );
        all.into_py_dict(py)
    }

    /// Ends it; what was seen can still be taken. `wait`: until all is detached.
    #[pyo3(signature = (*, wait = true))]
    fn stop(&self, py: Python<'_>, wait: bool) {
        py.detach(|| {
            self.watch.stop();
            if wait {
                self.watch.wait_detached();
            }
        });
    }
}

/// Whether eBPF can watch here, and if not, why and what to do.
#[pyfunction]
pub fn syscalls_grants(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let grants = py.detach(syscalls::ebpf::grants);
    let error = grants.refused.as_ref();
    let all = PyDict::new(py);
    all.set_item("ok", error.is_none())?;
    all.set_item("kind", error.map_or("", WatchError::kind))?;
    all.set_item("what", error.map_or(String::new(), ToString::to_string))?;
    all.set_item("why", error.map_or(String::new(), WatchError::why))?;
    all.set_item("fix", error.map_or("", WatchError::fix))?;
    all.set_item("blocks", grants.blocks)?;
    Ok(all)
}

fn to_python(py: Python<'_>, error: &WatchError) -> PyErr {
    core_error(
        py,
        error.kind(),
        error.to_string(),
        error.why(),
        error.fix(),
    )
}
