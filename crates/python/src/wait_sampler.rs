//! `WaitSampler`: what processes wait for by their own account, looked at in their memory
//! (`syscalls::samples`).

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use syscalls::samples::{Options, Promptness, Recording, Sampler, SamplesError};

use crate::columns::{Builder, Columns, named};
use crate::errors::core_error;

/// Looks at the children of a process.
#[pyclass(module = "nfslab._core")]
pub struct WaitSampler {
    sampler: Option<Sampler>,
}

#[pymethods]
impl WaitSampler {
    #[new]
    #[pyo3(signature = (
        root, symbol, *, interval_ns = 4_000_000, stretch_ns = 100_000_000, seed = 0
    ))]
    fn new(
        py: Python<'_>,
        root: u32,
        symbol: String,
        interval_ns: u64,
        stretch_ns: u64,
        seed: u64,
    ) -> PyResult<Self> {
        let options = Options {
            root,
            symbol,
            interval_ns,
            stretch_ns,
            seed,
        };
        let sampler = py.detach(|| Sampler::start(&options));
        let sampler = sampler.map_err(|error| to_python(py, &error))?;
        Ok(WaitSampler {
            sampler: Some(sampler),
        })
    }

    /// The timed part begins now.
    fn begin(&self) {
        if let Some(sampler) = &self.sampler {
            sampler.begin();
        }
    }

    /// Number of the process by its place, of those that are looked at now.
    fn live<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let live = self.sampler.as_ref().map(Sampler::live);
        live.unwrap_or_default().into_py_dict(py)
    }

    /// Ends it, and hands everything over.
    fn stop<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(sampler) = self.sampler.take() else {
            let error = SamplesError::Config {
                what: "it was stopped before".to_owned(),
            };
            return Err(to_python(py, &error));
        };
        let stopped = py.detach(|| sampler.stop());
        to_dict(py, &stopped.map_err(|error| to_python(py, &error))?)
    }
}

fn to_dict<'py>(py: Python<'py>, recording: &Recording) -> PyResult<Bound<'py, PyDict>> {
    let stretches = &recording.stretches;
    let result = PyDict::new(py);
    let table = Builder::default()
        .u64("from_ns", stretches.iter().map(|one| one.from_ns))
        .u64("until_ns", stretches.iter().map(|one| one.until_ns))
        .u64("looks", stretches.iter().map(|one| one.looks));
    result.set_item("stretches", table.finish(py)?)?;
    result.set_item("rows", rows(py, recording)?)?;
    result.set_item("pids", &recording.pids)?;
    let figures = recording.figures;
    let figures = named!(
        figures; looks, missed, failed, late, lateness_ns, lateness_max_ns, confirmed, dropped,
        left_out, cpu_ns, wall_ns, interval_ns,
    );
    result.set_item("figures", figures.into_py_dict(py)?)?;
    let scheduled = match recording.promptness {
        Promptness::RealTime => "real-time",
        Promptness::ShortSlices => "short slices",
        Promptness::Usual => "usual",
    };
    result.set_item("scheduled", scheduled)?;
    Ok(result)
}

fn rows(py: Python<'_>, recording: &Recording) -> PyResult<Columns> {
    let rows = &recording.rows;
    Builder::default()
        .u32("stretch", rows.iter().map(|row| row.stretch))
        .u32("process", rows.iter().map(|row| row.process))
        .u32("state", rows.iter().map(|row| row.state))
        .u32("seen", rows.iter().map(|row| row.seen))
        .finish(py)
}

fn to_python(py: Python<'_>, error: &SamplesError) -> PyErr {
    core_error(
        py,
        error.kind(),
        error.to_string(),
        error.why(),
        error.fix(),
    )
}
