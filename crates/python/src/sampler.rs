//! `SystemSampler`: the recording of `system` as dictionaries and bytes.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyList};
use system::{Column, Config, MISSING, Recording, Sampler, SamplerError};

use crate::columns::named;
use crate::errors::core_error;

/// Version of the dictionary that `stop` gives.
const SCHEMA: u32 = 1;

/// Reads /proc at a fixed interval on a thread of its own.
#[pyclass(module = "nfslab._core")]
pub struct SystemSampler {
    config: Config,
    sampler: Option<Sampler>,
    stopped: bool,
}

#[pymethods]
impl SystemSampler {
    #[new]
    #[pyo3(signature = (interval_ns = 100_000_000, cgroup = None))]
    fn new(interval_ns: u64, cgroup: Option<PathBuf>) -> Self {
        Self {
            config: Config::new(interval_ns, cgroup),
            sampler: None,
            stopped: false,
        }
    }

    /// Takes the first sample and starts the thread.
    fn start(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.sampler.is_some() || self.stopped {
            return Err(misuse(
                py,
                "it was started before",
                "Make a new SystemSampler.",
            ));
        }
        let config = self.config.clone();
        let started = py.detach(|| Sampler::start(config));
        self.sampler = Some(started.map_err(|error| to_python(py, &error))?);
        Ok(())
    }

    /// Takes a last sample, ends the thread and hands everything over.
    fn stop<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(sampler) = self.sampler.take() else {
            return Err(misuse(
                py,
                "it does not run",
                "Call start() first, stop() once.",
            ));
        };
        self.stopped = true;
        let stopped = py.detach(|| sampler.stop());
        to_dict(py, stopped.map_err(|error| to_python(py, &error))?)
    }
}

fn to_dict(py: Python<'_>, recording: Recording) -> PyResult<Bound<'_, PyDict>> {
    let result = named!(
        recording; start_monotonic_ns, start_realtime_ns, interval_ns, effective_interval_ns,
        halvings, late_ticks, missed_ticks, max_lateness_ns,
    )
    .into_py_dict(py)?;
    result.set_item("schema", SCHEMA)?;
    result.set_item("clock", "CLOCK_MONOTONIC")?;
    result.set_item("samples", recording.samples)?;
    result.set_item("missing_value", MISSING)?;
    let columns = PyDict::new(py);
    for column in &recording.columns {
        columns.set_item(&column.name, column_dict(py, column)?)?;
    }
    result.set_item("columns", columns)?;
    let absent = PyList::empty(py);
    for absence in &recording.absent {
        let entry = PyDict::new(py);
        entry.set_item("source", &absence.source)?;
        entry.set_item("why", &absence.why)?;
        absent.append(entry)?;
    }
    result.set_item("absent", absent)?;
    result.set_item("idle", &recording.idle)?;
    result.set_item("read_errors", recording.troubles.read_errors)?;
    result.set_item("unreadable_values", recording.troubles.unreadable_values)?;
    result.set_item("devices_left_out", recording.troubles.devices_left_out)?;
    result.set_item("cost", cost_dict(py, &recording)?)?;
    Ok(result)
}

fn column_dict<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyDict>> {
    let bytes: Vec<u8> = column
        .values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let entry = PyDict::new(py);
    entry.set_item("dtype", "<i8")?;
    entry.set_item("data", PyBytes::new(py, &bytes))?;
    entry.set_item("unit", column.unit)?;
    entry.set_item("kind", column.kind.name())?;
    Ok(entry)
}

#[allow(clippy::cast_precision_loss)] // a share
fn cost_dict<'py>(py: Python<'py>, recording: &Recording) -> PyResult<Bound<'py, PyDict>> {
    let cost = &recording.cost;
    let entry = named!(cost.usage; cpu_ns, user_ns, system_ns)
        .into_iter()
        .chain(named!(cost; wall_ns, samples_read, max_read_ns))
        .into_py_dict(py)?;
    entry.set_item(
        "cpu_share",
        cost.usage.cpu_ns as f64 / cost.wall_ns.max(1) as f64,
    )?;
    Ok(entry)
}

fn misuse(py: Python<'_>, why: &str, fix: &str) -> PyErr {
    core_error(py, "sampler", "the system sampler cannot do this", why, fix)
}

fn to_python(py: Python<'_>, error: &SamplerError) -> PyErr {
    let (kind, fix) = match error {
        SamplerError::Interval { .. } => ("config", "Use an interval of 1 ms to 1 h (100 ms)."),
        SamplerError::NothingToRead(_) => ("sampler", "Is /proc mounted and readable here?"),
        SamplerError::Thread(_) => ("sampler", "Check the limit on processes (ulimit -u)."),
    };
    core_error(
        py,
        kind,
        "the system sampler cannot run",
        error.to_string(),
        fix,
    )
}
