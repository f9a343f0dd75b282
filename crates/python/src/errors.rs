//! One Python exception for every error of the core: `CoreError` with kind, what, why and fix.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    _core,
    CoreError,
    PyException,
    "An error of the core: `kind` for programs; `what`, `why` and `fix` for people."
);

/// The parts of a `CoreError`.
pub struct Parts {
    /// Stable word that programs may compare.
    pub kind: &'static str,
    /// What happened.
    pub what: String,
    /// Why, empty when unknown.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// JSON of what was already measured, if anything was.
    pub partial: Option<String>,
}

impl Parts {
    /// Of an error before anything was measured.
    pub fn new(
        kind: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Parts {
            kind,
            what: what.into(),
            why: why.into(),
            fix: fix.into(),
            partial: None,
        }
    }
}

/// Makes the exception. Its `str` is `what: why`, as a traceback shows it.
pub fn core_error(py: Python<'_>, parts: Parts) -> PyErr {
    let text = match parts.why.as_str() {
        "" => parts.what.clone(),
        why => format!("{}: {why}", parts.what),
    };
    let error = CoreError::new_err(text);
    let value = error.value(py);
    let set = || {
        value.setattr("kind", parts.kind)?;
        value.setattr("what", parts.what)?;
        value.setattr("why", parts.why)?;
        value.setattr("fix", parts.fix)?;
        value.setattr("partial", parts.partial)
    };
    match set() {
        Ok(()) => error,
        Err(failed) => failed,
    }
}
