//! System calls from the preload shim (`syscalls::shim`), and the classes of files.
//!
//! The shim hands out the same tables as `SyscallWatch`: `take` what came since the last time,
//! `counts` totals, `figures` what is missing.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use syscalls::shim::ShimError;
use syscalls::tally::{Level, Lost, Options};

use crate::columns::{Columns, named};
use crate::errors::core_error;
use crate::syscall_tables;

fn options(py: Python<'_>, level: &str, lseek: bool) -> PyResult<Options> {
    let known = Level::named(level).ok_or_else(|| {
        core_error(
            py,
            "config",
            format!("there is no level '{level}' of watching system calls"),
            "",
            "Use \"sync\", \"counts\" or \"events\".",
        )
    })?;
    Ok(Options {
        lseek,
        ..Options::new(known)
    })
}

/// What an early end or a bound lost of the records.
fn lost(lost: &Lost) -> [(&'static str, u64); 4] {
    [
        ("lost_syncs", lost.syncs),
        ("lost_events", lost.events),
        ("lost_names", lost.names),
        ("uncounted", lost.uncounted),
    ]
}

/// Reads what programs record that were launched with the preload shim.
#[pyclass(module = "nfslab._core", frozen)]
pub struct ShimRecords(syscalls::shim::ShimRecords);

#[pymethods]
impl ShimRecords {
    #[new]
    #[pyo3(signature = (folder, level = "sync", *, lseek = false))]
    fn new(py: Python<'_>, folder: PathBuf, level: &str, lseek: bool) -> PyResult<Self> {
        let options = options(py, level, lseek)?;
        let made = py.detach(|| syscalls::shim::ShimRecords::new(&folder, options));
        made.map(ShimRecords).map_err(|error| no_shim(py, &error))
    }

    /// What a program is to be launched with.
    fn environment<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let entry = PyDict::new(py);
        for (name, value) in self.0.environment() {
            entry.set_item(name, value.as_os_str())?;
        }
        Ok(entry)
    }

    /// What came since the last time.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = py.detach(|| self.0.take());
        syscall_tables::taken(py, &taken)
    }

    /// Totals so far.
    fn counts(&self, py: Python<'_>) -> PyResult<Columns> {
        let rows = py.detach(|| self.0.counts());
        syscall_tables::counts(py, &rows)
    }

    /// What happened so far.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let figures = py.detach(|| self.0.figures());
        let read = named!(
            figures; processes, forks, records, torn, lost_calls, not_understood, thread_cpu_ns,
            on_disk,
        );
        let all = read.into_iter().chain(lost(&figures.lost));
        all.into_py_dict(py)
    }

    /// Ends it; what came can still be taken.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }
}

fn no_shim(py: Python<'_>, error: &ShimError) -> PyErr {
    let (kind, why, fix) = match error {
        ShimError::LeftOut { why } => (
            "left_out",
            (*why).to_owned(),
            "Build nfslab where a C compiler (cc) is installed.",
        ),
        ShimError::Folder { .. } => (
            "config",
            "the dynamic loader ends names at blanks and colons".to_owned(),
            "Give it a folder without blanks and colons in its path.",
        ),
        ShimError::Io { source, .. } => (
            match source.kind() {
                std::io::ErrorKind::StorageFull => "space",
                std::io::ErrorKind::PermissionDenied => "permission",
                _ => "io",
            },
            source.to_string(),
            "Give it an empty folder in memory (/dev/shm) with 20 MiB to spare.",
        ),
    };
    core_error(py, kind, error.to_string(), why, fix)
}

/// Writes the preload library into a folder; its path.
#[pyfunction]
pub fn shim_path(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let written = py.detach(|| syscalls::shim::write_library(&folder));
    let path = written.map_err(|error| no_shim(py, &error))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The class of each path: that of the first pattern that it matches; None when it matches none.
#[pyfunction]
pub fn classify_paths(
    py: Python<'_>,
    paths: Vec<String>,
    classes: Vec<(String, String)>,
) -> PyResult<Vec<Option<String>>> {
    let found = py.detach(|| trace::lens::files::classify(&paths, &classes));
    found.map_err(|error| crate::trace::to_python(py, &error))
}
