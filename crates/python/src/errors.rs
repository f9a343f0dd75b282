//! One Python exception for every error of the core: `CoreError` with kind, what, why and fix.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    _core,
    CoreError,
    PyException,
    "An error of the core: `kind` for programs; `what`, `why` and `fix` for people."
);

/// Makes the exception: `kind` is a stable word that programs may compare; what happened; why,
/// empty if that is not known; what to do about it. Its `str` is `what: why`, as a traceback
/// shows it.
pub fn core_error(
    py: Python<'_>,
    kind: &str,
    what: impl Into<String>,
    why: impl Into<String>,
    fix: impl Into<String>,
) -> PyErr {
    let (what, why) = (what.into(), why.into());
    let text = match why.as_str() {
        "" => what.clone(),
        why => format!("{what}: {why}"),
    };
    let error = CoreError::new_err(text);
    let value = error.value(py);
    let set = || {
        value.setattr("kind", kind)?;
        value.setattr("what", what)?;
        value.setattr("why", why)?;
        value.setattr("fix", fix.into())?;
        value.setattr("partial", py.None())
    };
    match set() {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

/// The error of a defect.
pub fn internal(py: Python<'_>, what: &str, why: impl ToString) -> PyErr {
    core_error(py, "internal", what, why.to_string(), "Please report this.")
}
