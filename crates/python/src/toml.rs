//! `toml_lines`: the places of keys and values in a TOML text.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;
use toml_places::{PlacesError, Step, places};

use crate::errors::core_error;

/// Every entry's path with the lines of its key and of its value.
#[pyfunction]
pub fn toml_lines<'py>(
    py: Python<'py>,
    text: &str,
) -> PyResult<Vec<(Bound<'py, PyList>, usize, usize)>> {
    let found = py
        .detach(|| places(text))
        .map_err(|error| to_python(py, &error))?;
    found
        .into_iter()
        .map(|place| {
            let path = PyList::empty(py);
            for step in place.path {
                path.append(match step {
                    Step::Key(key) => key.into_bound_py_any(py)?,
                    Step::Index(index) => index.into_bound_py_any(py)?,
                })?;
            }
            Ok((path, place.key_line, place.value_line))
        })
        .collect()
}

fn to_python(py: Python<'_>, error: &PlacesError) -> PyErr {
    let (what, why, fix) = match error {
        PlacesError::Invalid {
            line,
            column,
            message,
        } => (
            format!("line {line}, column {column}: not TOML"),
            message.clone(),
            "Correct this line; https://toml.io describes the language.",
        ),
        PlacesError::TooLong { .. } => (
            "the text is too long".to_owned(),
            error.to_string(),
            "An experiment file is some kilobytes: is this the right file?",
        ),
    };
    let failed = core_error(py, "toml", what, why, fix);
    let (line, column) = match error {
        PlacesError::Invalid { line, column, .. } => (Some(*line), Some(*column)),
        PlacesError::TooLong { .. } => (None, None),
    };
    let value = failed.value(py);
    match value
        .setattr("line", line)
        .and_then(|()| value.setattr("column", column))
    {
        Ok(()) => failed,
        Err(other) => other,
    }
}
