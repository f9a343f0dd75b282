//! What reading a capture by several processes needs: `capture_order`; of its parts `read_part`,
//! `join_parts`, `part_findings`.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use trace::analysis::Progress;
use trace::analysis::parts::{JoinError, Part, Task, read};

use crate::errors::core_error;
use crate::trace::{progress_entry, text_of, to_python};

/// Files in the order of their first packets, and how many were given in another place.
#[pyfunction]
pub fn capture_order(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<(Vec<PathBuf>, u64)> {
    let found = py.detach(|| trace::source::in_order(files));
    found.map_err(|error| to_python(py, &error))
}

/// Reads files in a row, and the beginning of the next one; `progress` is called now and then, and
/// ends it by what it raises.
#[pyfunction]
pub fn read_part<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    next: Option<PathBuf>,
    lenses: Vec<String>,
    progress: Py<PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let task = Task {
        lenses,
        ..Task::new(files, next)
    };
    let mut raised = None;
    let part = py.detach(|| {
        read(&task, |state: Progress| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                progress.call1(py, (progress_entry(py, state)?,)).map(drop)
            });
            raised = told.err();
            raised.is_none()
        })
    });
    if let Some(raised) = raised {
        return Err(raised);
    }
    let part = part.map_err(|error| to_python(py, &error))?;
    let bytes = py.detach(|| part.encode());
    Ok(PyBytes::new(py, &bytes.map_err(|why| apart(py, why))?))
}

/// Two parts as one; the second one begins with the file behind the first one's last.
#[pyfunction]
pub fn join_parts<'py>(py: Python<'py>, one: &[u8], next: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let joined = py.detach(|| Part::decode(one)?.join(Part::decode(next)?)?.encode());
    Ok(PyBytes::new(py, &joined.map_err(|why| apart(py, why))?))
}

/// What `Trace.finish` gives, of a part that is the whole capture.
#[pyfunction]
pub fn part_findings<'py>(
    py: Python<'py>,
    part: &[u8],
    moved: u64,
    inputs: Vec<String>,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    let found = py.detach(|| Part::decode(part)?.findings(moved, &inputs));
    text_of(py, found.map_err(|why| apart(py, why))?)
}

/// Parts that do not tell what reading in a row would: two neighbours, or all of them.
fn apart(py: Python<'_>, why: JoinError) -> PyErr {
    let kind = match why.of_neighbours() {
        true => "apart",
        false => "in_a_row",
    };
    core_error(
        py,
        kind,
        "the files are not read side by side",
        why.to_string(),
        "Read them in a row.",
    )
}
