//! `run_files`: the file workload with JSON in and out, signals and a progress callback.

use std::collections::BTreeMap;

use files::{Config, Failure, FilesError, Observer, Outcome, Progress, SCHEMA};
use measure::MonotonicClock;
use pyo3::prelude::*;
use serde::Serialize;

use crate::build;
use crate::errors::{Parts, core_error};

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
struct PythonObserver {
    callback: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Observer for PythonObserver {
    fn tick(&mut self, progress: &Progress) -> bool {
        if self.raised.is_some() {
            return false; // stopping already: Python is not called again
        }
        let asked = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = &self.callback else {
                return Ok(());
            };
            let text = serde_json::to_string(progress).unwrap_or_default();
            callback.call1(py, (text,)).map(drop)
        });
        match asked {
            Ok(()) => true,
            Err(error) => {
                self.raised = Some(error);
                false
            }
        }
    }
}

/// Runs the file workload; JSON in, JSON out.
#[pyfunction]
#[pyo3(signature = (config_json, progress = None))]
pub fn run_files(
    py: Python<'_>,
    config_json: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let config: Config = serde_json::from_str(config_json).map_err(|error| bad_json(py, &error))?;
    let mut observer = PythonObserver {
        callback: progress,
        raised: None,
    };
    let result = py.detach(|| files::run(config, &MonotonicClock, &mut observer));
    // A signal or the callback's exception is the cause; "cancelled" only its effect.
    if let Some(raised) = observer.raised {
        return Err(raised);
    }
    match result {
        Ok(outcome) => to_json(py, &outcome),
        Err(failure) => Err(to_python(py, &failure)),
    }
}

fn to_json(py: Python<'_>, outcome: &Outcome) -> PyResult<String> {
    let build = build::facts();
    let document = Document {
        schema: SCHEMA,
        kind: "files",
        build,
        outcome,
    };
    serde_json::to_string(&document).map_err(|error| {
        let what = "the result cannot be written as JSON".to_owned();
        let fix = "Please report this.".to_owned();
        core_error(py, Parts::new("internal", what, error.to_string(), fix))
    })
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
    let (what, why, fix) = (error.what(), error.why(), error.fix());
    core_error(
        py,
        Parts {
            kind: error.kind(),
            what,
            why,
            fix,
            partial,
        },
    )
}

fn bad_json(py: Python<'_>, error: &serde_json::Error) -> PyErr {
    core_error(
        py,
        Parts::new(
            "config",
            "files: the configuration cannot be read",
            error.to_string(),
            "Give JSON with the fields that nfslab._core.run_files documents.",
        ),
    )
}
