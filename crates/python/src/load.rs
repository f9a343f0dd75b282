//! `Load`: the NFS load generator: a plan checked, its file set made, points measured.
//!
//! Plans come as JSON, reports go as dicts; responses and series can be had as histograms and
//! columns besides. Whatever waits runs with the GIL released; Python is asked between, several
//! times a second: signals first, then the callback, which stops the work by returning False or
//! raising.

use std::sync::{Mutex, MutexGuard, TryLockError};

use ::load::report::SeriesColumns;
use ::load::{Checked, LoadError, Lost, Plan, Prepared, Records, Report, Sums};
use measure::MonotonicClock;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::build;
use crate::columns::{Builder, Columns};
use crate::errors::{core_error, internal};
use crate::histogram::Histogram;
use crate::rpc_records::call_columns;
use crate::signals::LoadObserver;

/// What a plan comes to, before anything is done.
#[derive(Serialize)]
struct Described<'a> {
    plan: &'a Plan,
    notes: &'a [String],
    options: Vec<String>,
    files: u64,
    bytes: u64,
    accessed_files: u64,
    accessed_bytes: u64,
}

/// What the preparation found and made, by mount.
#[derive(Serialize)]
struct Made<'a> {
    server: &'a str,
    options: String,
    files_found: u64,
    files_made: u64,
    written_bytes: u64,
}

/// What one object goes through.
struct State {
    checked: Checked,
    prepared: Option<Prepared>,
    report: Option<Report>,
}

/// The NFS load generator with one plan.
#[pyclass(module = "nfslab._core", frozen)]
pub struct Load {
    state: Mutex<State>,
    records: Records,
}

#[pymethods]
impl Load {
    #[new]
    fn new(py: Python<'_>, plan_json: &str) -> PyResult<Self> {
        let checked = Plan::from_json(plan_json).and_then(Plan::check);
        let checked = checked.map_err(|error| to_python(py, &error))?;
        Ok(Load {
            state: Mutex::new(State {
                checked,
                prepared: None,
                report: None,
            }),
            records: Records::default(),
        })
    }

    /// The plan as it will be carried out, and the size of its file set.
    fn plan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = self.state(py)?;
        let checked = &state.checked;
        let mounts = checked.plan.servers.len() as u64;
        let layout = &checked.layout;
        let described = Described {
            plan: &checked.plan,
            notes: &checked.notes,
            options: checked
                .options
                .iter()
                .map(client::MountOptions::to_text)
                .collect(),
            files: layout.files * mounts,
            bytes: layout.bytes * mounts,
            accessed_files: layout.accessed_files * mounts,
            accessed_bytes: layout.accessed_bytes * mounts,
        };
        to_dict(py, &described)
    }

    /// Makes the file set, or finds it.
    #[pyo3(signature = (progress = None))]
    fn prepare<'py>(
        &self,
        py: Python<'py>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state(py)?;
        let prepared = prepare(py, &state.checked, progress)?;
        let made: Vec<Made<'_>> = prepared
            .mounts
            .iter()
            .map(|mount| Made {
                server: &mount.server,
                options: mount.options.to_text(),
                files_found: mount.found,
                files_made: mount.made,
                written_bytes: mount.written_bytes,
            })
            .collect();
        let made = to_dict(py, &made)?;
        state.prepared = Some(prepared);
        Ok(made)
    }

    /// Measures one point; looks through the file set before, if it was used or never prepared.
    #[pyo3(signature = (progress = None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.state(py)?;
        let prepared = match state.prepared.take() {
            Some(prepared) => prepared,
            None => {
                let progress = progress.as_ref().map(|callback| callback.clone_ref(py));
                prepare(py, &state.checked, progress)?
            }
        };
        let mut observer = LoadObserver::new(progress, None, to_value);
        let result =
            py.detach(|| ::load::run(prepared, &MonotonicClock, &self.records, &mut observer));
        let report = observer.outcome(result, |error| to_python(py, &error))?;
        reported(py, state, report)
    }

    /// Measures one point as one of several processes, beginning when `begin()` says; what it
    /// returns is for `merge`.
    #[pyo3(signature = (begin, progress = None))]
    fn run_part(
        &self,
        py: Python<'_>,
        begin: Py<PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let mut state = self.state(py)?;
        let Some(prepared) = state.prepared.take() else {
            let fix = "Call prepare() before: the processes prepare in turn.";
            let what = "a part is not prepared";
            return Err(core_error(py, "in_use", what, String::new(), fix));
        };
        let mut observer = LoadObserver::new(progress, Some(begin), to_value);
        let result =
            py.detach(|| ::load::run_part(prepared, &MonotonicClock, &self.records, &mut observer));
        let sums = observer.outcome(result, |error| to_python(py, &error))?;
        to_json(py, &sums)
    }

    /// The point of which each of `parts` is one process's; `lost`: those that handed over nothing.
    #[pyo3(signature = (parts, lost))]
    fn merge<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<String>,
        lost: Vec<(u32, String)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let state = self.state(py)?;
        let parts: Result<Vec<Sums>, _> = parts
            .iter()
            .map(|text| serde_json::from_str(text))
            .collect();
        let what = "what a generator process handed over cannot be read";
        let parts = parts.map_err(|error| internal(py, what, error))?;
        let lost: Vec<Lost> = lost
            .into_iter()
            .map(|(index, why)| Lost { index, why })
            .collect();
        let merged = ::load::merge(&state.checked, parts, &lost);
        let report = merged.map_err(|error| to_python(py, &error))?;
        reported(py, state, report)
    }

    /// Calls that ended since the last time; may be asked while `run` works.
    fn calls(&self, py: Python<'_>) -> PyResult<(Columns, u64)> {
        let mut records = Vec::new();
        let lost = py.detach(|| self.records.drain(&mut records));
        Ok((call_columns(py, &records)?, lost))
    }

    /// Responses of the last point: of all, of each operation, and how late calls were.
    fn histograms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state(py)?;
        let all = PyDict::new(py);
        for (name, histogram) in state.report.iter().flat_map(|report| &report.histograms) {
            all.set_item(name, Py::new(py, Histogram::from(histogram.clone()))?)?;
        }
        Ok(all)
    }

    /// The last point over time, a row for each interval.
    fn series(&self, py: Python<'_>) -> PyResult<Columns> {
        let state = self.state(py)?;
        series_columns(py, state.report.as_ref().map(|report| &report.series))
    }
}

impl Load {
    fn state(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(core_error(
                py,
                "in_use",
                "this load is at work",
                "prepare or run of the same object has not ended",
                "Wait for it; only calls() may be asked meanwhile.",
            )),
        }
    }
}

/// A point's report as a dict; kept, for its histograms.
fn reported<'py>(
    py: Python<'py>,
    mut state: MutexGuard<'_, State>,
    report: Report,
) -> PyResult<Bound<'py, PyAny>> {
    let dict = to_dict(py, &report)?;
    let facts = PyDict::new(py);
    for (name, value) in build::facts() {
        facts.set_item(name, value)?;
    }
    dict.set_item("build", facts)?;
    state.report = Some(report);
    Ok(dict)
}

fn prepare(py: Python<'_>, checked: &Checked, progress: Option<Py<PyAny>>) -> PyResult<Prepared> {
    let mut observer = LoadObserver::new(progress, None, to_value);
    let checked = checked.clone();
    let result = py.detach(|| ::load::prepare(checked, &mut observer));
    observer.outcome(result, |error| to_python(py, &error))
}

fn series_columns(py: Python<'_>, series: Option<&SeriesColumns>) -> PyResult<Columns> {
    let none = SeriesColumns::default();
    let series = series.unwrap_or(&none);
    let at = (0..series.planned.len() as u64).map(|n| series.start_ns + n * series.interval_ns);
    Builder::default()
        .u64("at_ns", at)
        .u64("planned", series.planned.iter().copied())
        .u64("answered", series.answered.iter().copied())
        .u64("bytes", series.bytes.iter().copied())
        .u64("response_sum_ns", series.response_sum_ns.iter().copied())
        .finish(py)
}

/// Through JSON, which both sides read alike.
fn to_dict<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    to_value(py, &to_json(py, value)?)
}

fn to_value<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}

fn to_json(py: Python<'_>, value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value)
        .map_err(|error| internal(py, "a result cannot be written as JSON", error))
}

fn to_python(py: Python<'_>, error: &LoadError) -> PyErr {
    core_error(py, error.kind(), error.what(), error.why(), error.fix())
}
