//! What takes long, from Python's side: signals are taken between, and callbacks asked.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

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
