//! What produced this module: every result carries it.

use std::collections::BTreeMap;

use pyo3::prelude::*;

/// Whether the timed loops were built without optimisation: their figures must not be published.
pub const DEBUG_BUILD: bool = cfg!(debug_assertions);

/// Profile, version, compiler, commit and target of this build.
pub fn facts() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        (
            "profile",
            if DEBUG_BUILD {
                "debug"
            } else {
                env!("NFSLAB_PROFILE")
            },
        ),
        ("version", env!("CARGO_PKG_VERSION")),
        ("rustc", env!("NFSLAB_RUSTC")),
        ("commit", env!("NFSLAB_COMMIT")),
        ("target", env!("NFSLAB_TARGET")),
    ])
}

/// What produced this module, as names and values.
#[pyfunction]
pub fn build_info() -> BTreeMap<&'static str, &'static str> {
    facts()
}
