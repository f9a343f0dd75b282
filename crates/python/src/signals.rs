//! What takes long, from Python's side: signals are taken between, and callbacks asked.

use std::time::{Duration, Instant};

use generator::{Cancelled, Observer};
use pyo3::prelude::*;
use serde::Serialize;

/// How often a waiting thread looks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until `over`, which is given how long it may take, says so; false when the time is up.
pub fn wait(
    py: Python<'_>,
    timeout_s: Option<f64>,
    over: impl Fn(Duration) -> bool + Sync,
) -> PyResult<bool> {
    let limit = timeout_s.and_then(|s| Duration::try_from_secs_f64(s.max(0.0)).ok());
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        py.check_signals()?;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let step = left.map_or(LOOK, |left| left.min(LOOK));
        if py.detach(|| over(step)) {
            return Ok(true);
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(false);
        }
    }
}

/// A callback that is told how far the work is, and may end it by raising.
pub struct Callback {
    callback: Option<Py<PyAny>>,
    /// What Python raised.
    pub raised: Option<PyErr>,
}

impl Callback {
    /// This one, or none.
    pub fn new(callback: Option<Py<PyAny>>) -> Self {
        Callback {
            callback,
            raised: None,
        }
    }

    /// Takes signals and calls it by `call`; false if the work is to end.
    pub fn goes_on(&mut self, call: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<bool>) -> bool {
        if self.raised.is_some() {
            return false; // stopping already: Python is not called again
        }
        let asked = Python::attach(|py| {
            py.check_signals()?;
            self.callback.as_ref().map_or(Ok(true), |it| call(py, it))
        });
        asked.unwrap_or_else(|error| {
            self.raised = Some(error);
            false
        })
    }

    /// What Python raised is the cause; that the work stopped only its effect.
    pub fn outcome<T, E>(
        self,
        result: Result<T, E>,
        to_python: impl FnOnce(E) -> PyErr,
    ) -> PyResult<T> {
        match self.raised {
            Some(raised) => Err(raised),
            None => result.map_err(to_python),
        }
    }
}

/// Makes what Python is told of a text of JSON.
type ToPython = for<'py> fn(Python<'py>, &str) -> PyResult<Bound<'py, PyAny>>;

/// Tells Python how far a load is, and asks when it begins.
pub struct LoadObserver {
    progress: Callback,
    begin: Option<Py<PyAny>>,
    to_python: ToPython,
}

impl LoadObserver {
    pub fn new(progress: Option<Py<PyAny>>, begin: Option<Py<PyAny>>, to_python: ToPython) -> Self {
        LoadObserver {
            progress: Callback::new(progress),
            begin,
            to_python,
        }
    }

    /// See [`Callback::outcome`].
    pub fn outcome<T, E>(
        self,
        result: Result<T, E>,
        to_python: impl FnOnce(E) -> PyErr,
    ) -> PyResult<T> {
        self.progress.outcome(result, to_python)
    }
}

impl<P: Serialize> Observer<P> for LoadObserver {
    fn tick(&mut self, progress: &P) -> bool {
        let to_python = self.to_python;
        self.progress.goes_on(|py, callback| {
            let text = serde_json::to_string(progress).unwrap_or_default();
            let answer = callback.call1(py, (to_python(py, &text)?,))?;
            Ok(!matches!(answer.extract::<bool>(py), Ok(false)))
        })
    }

    fn begin(&mut self) -> Result<Option<u64>, Cancelled> {
        let Some(begin) = &self.begin else {
            return Ok(None);
        };
        let asked = Python::attach(|py| begin.call0(py)?.extract(py));
        asked.map_err(|error| {
            self.progress.raised = Some(error);
            Cancelled
        })
    }
}
