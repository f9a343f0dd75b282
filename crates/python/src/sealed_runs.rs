//! Many sealed runs at once: `doubtful_runs`, which of them need a closer look, and
//! `CatalogueLines`, what the catalogue says of them.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::PyTypeInfo;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use sealed::lines::{Coded, Lines};

use crate::columns::{Builder, Columns};

/// Indices of the runs below the folder `runs` that are not surely what was sealed.
#[pyfunction]
pub fn doubtful_runs(py: Python<'_>, runs: PathBuf, names: Vec<OsString>) -> PyResult<Vec<usize>> {
    Ok(py.detach(|| sealed::doubtful(&runs, &names))?)
}

/// A catalogue as columns.
#[pyclass(module = "nfslab._core", frozen)]
pub struct CatalogueLines(Lines);

#[pymethods]
impl CatalogueLines {
    /// None where the file is not plain.
    #[staticmethod]
    fn read(py: Python<'_>, content: &[u8]) -> Option<Self> {
        py.detach(|| Lines::read(content)).map(Self)
    }

    fn __len__(&self) -> usize {
        self.0.run_id.len()
    }

    fn texts<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let coded = match column {
            "run_id" => return PyList::new(py, &self.0.run_id),
            "point_id" => &self.0.point_id,
            "status" => &self.0.status,
            "reason" => &self.0.reason,
            "durability" => &self.0.durability,
            "setup" => &self.0.setup,
            other => return Err(PyKeyError::new_err(other.to_owned())),
        };
        shared(py, coded, |text| Ok(PyString::new(py, text)))
    }

    fn integers<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let values = match column {
            "block" => &self.0.block,
            "position" => &self.0.position,
            "attempt" => &self.0.attempt,
            "started_unix_ns" => &self.0.started_unix_ns,
            "duration_ns" => &self.0.duration_ns,
            other => return Err(PyKeyError::new_err(other.to_owned())),
        };
        PyList::new(py, values)
    }

    fn flags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        shared(py, &self.0.flags, |flags| PyList::new(py, flags))
    }

    fn factors(&self) -> (&[String], &[usize]) {
        (&self.0.factors.distinct, &self.0.factors.codes)
    }

    fn metric_sets<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Vec<Bound<'py, PyTuple>>, Bound<'py, PyList>)> {
        let sets = self.0.metric_sets.iter();
        let names = sets.map(|set| PyTuple::new(py, &set.names));
        let codes = PyList::new(py, &self.0.metric_set)?;
        Ok((names.collect::<PyResult<_>>()?, codes))
    }

    fn metric<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let values: Vec<_> = self.0.metric(name).collect();
        PyList::new(py, values)
    }

    fn columns(&self, py: Python<'_>) -> PyResult<Columns> {
        let lines = &self.0;
        #[allow(clippy::cast_precision_loss)]
        let duration_s = lines.duration_ns.iter().map(|ns| Some(*ns as f64 / 1e9));
        Builder::default()
            .name("run_id", lines.run_id.iter())
            .name("point_id", lines.point_id.values())
            .i64("block", lines.block.iter().copied())
            .i64("position", lines.position.iter().copied())
            .i64("attempt", lines.attempt.iter().copied())
            .name("status", lines.status.values())
            .name("reason", lines.reason.values())
            .text_lists("flags", lines.flags.values())
            .name("durability", lines.durability.values())
            .name("setup", lines.setup.values())
            .i64("started_unix_ns", lines.started_unix_ns.iter().copied())
            .f64_or_null("duration_s", duration_s)
            .finish(py)
    }

    fn metrics(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Columns> {
        names
            .iter()
            .fold(Builder::default(), |builder, name| {
                builder.f64_or_null(name, self.0.metric(name))
            })
            .finish(py)
    }
}

/// A list in which equal values are one object.
fn shared<'py, T, O: PyTypeInfo>(
    py: Python<'py>,
    column: &Coded<T>,
    made: impl Fn(&T) -> PyResult<Bound<'py, O>>,
) -> PyResult<Bound<'py, PyList>> {
    let distinct: Vec<_> = column.distinct.iter().map(made).collect::<PyResult<_>>()?;
    let values: Vec<_> = column
        .codes
        .iter()
        .filter_map(|code| distinct.get(*code))
        .collect();
    PyList::new(py, values)
}
