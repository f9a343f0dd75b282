//! `doubtful_runs`: which of many sealed runs need a closer look.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Indices of the runs below the folder `runs` that are not surely what was sealed.
#[pyfunction]
pub fn doubtful_runs(py: Python<'_>, runs: PathBuf, names: Vec<OsString>) -> PyResult<Vec<usize>> {
    Ok(py.detach(|| sealed::doubtful(&runs, &names))?)
}
