//! `run_files`: the file workload with JSON in and out, signals and a progress callback.

use std::collections::BTreeMap;

use files::{Config, Failure, FilesError, Meeting, Observer, Outcome, Progress, SCHEMA};
use measure::MonotonicClock;
use pyo3::prelude::*;
use serde::Serialize;

use crate::build;
use crate::errors::{core_error, internal};
use crate::signals::Callback;

/// The outcome with what names it.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    kind: &'static str,
    build: BTreeMap<&'static str, &'static str>,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// Asks Python between two operations: signals first, then the callback.
struct Asks {
    progress: Callback,
    meet: Callback,
}

impl Observer for Asks {
    fn tick(&mut self, progress: &Progress) -> bool {
        self.progress.goes_on(|py, callback| {
            let text = serde_json::to_string(progress).unwrap_or_default();
            callback.call1(py, (text,)).map(|_| true)
        })
    }

    fn meet(&mut self, meeting: &Meeting) -> Option<u64> {
        let mut at_ns = 0;
        let met = self.meet.goes_on(|py, callback| {
            let (gate, phase) = (meeting.gate, meeting.phase.name());
            at_ns = callback.call1(py, (gate, phase))?.extract(py)?;
            Ok(true)
        });
        met.then_some(at_ns)
    }
}

/// Runs the file workload; JSON in, JSON out.
#[pyfunction]
#[pyo3(signature = (config_json, progress = None, meet = None))]
pub fn run_files(
    py: Python<'_>,
    config_json: &str,
    progress: Option<Py<PyAny>>,
    meet: Option<Py<PyAny>>,
) -> PyResult<String> {
    let config: Config = serde_json::from_str(config_json).map_err(|error| bad_json(py, &error))?;
    let (progress, meet) = (Callback::new(progress), Callback::new(meet));
    let mut asks = Asks { progress, meet };
    let result = py.detach(|| files::run(config, &MonotonicClock, &mut asks));
    let mut observer = asks.progress;
    observer.raised = observer.raised.or(asks.meet.raised);
    let outcome = observer.outcome(result, |failure| to_python(py, &failure))?;
    to_json(py, &outcome)
}

fn to_json(py: Python<'_>, outcome: &Outcome) -> PyResult<String> {
    let build = build::facts();
    let document = Document {
        schema: SCHEMA,
        kind: "files",
        build,
        outcome,
    };
    serde_json::to_string(&document)
        .map_err(|error| internal(py, "the result cannot be written as JSON", error))
}

fn to_python(py: Python<'_>, failure: &Failure) -> PyErr {
    let partial = match failure
        .partial
        .as_deref()
        .map(|outcome| to_json(py, outcome))
    {
        Some(Err(error)) => return error,
        Some(Ok(text)) => Some(text),
        None => None,
    };
    let error: &FilesError = &failure.error;
    let made = core_error(py, error.kind(), error.what(), error.why(), error.fix());
    match made.value(py).setattr("partial", partial) {
        Ok(()) => made,
        Err(failed) => failed,
    }
}

fn bad_json(py: Python<'_>, error: &serde_json::Error) -> PyErr {
    core_error(
        py,
        "config",
        "files: the configuration cannot be read",
        error.to_string(),
        "Give JSON with the fields that nfslab._core.run_files documents.",
    )
}
