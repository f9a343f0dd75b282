//! `Histogram`: the latency histogram of `measure` for Python.

use measure::{HistogramError, LatencyHistogram};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::core_error;

/// Distribution of latencies in nanoseconds with a known relative error.
#[pyclass(module = "nfslab._core")]
pub struct Histogram(LatencyHistogram);

impl From<LatencyHistogram> for Histogram {
    fn from(histogram: LatencyHistogram) -> Self {
        Histogram(histogram)
    }
}

#[pymethods]
impl Histogram {
    #[new]
    #[pyo3(signature = (significant_digits = 3))]
    fn new(py: Python<'_>, significant_digits: u8) -> PyResult<Self> {
        LatencyHistogram::with_digits(significant_digits)
            .map(Self)
            .map_err(|e| to_python(py, &e))
    }

    /// Records one latency in nanoseconds.
    fn record(&mut self, latency_ns: i64) {
        self.0.record_signed(latency_ns);
    }

    /// Records every element of a contiguous or strided buffer of signed 64-bit integers.
    fn record_many(&mut self, py: Python<'_>, latencies_ns: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = PyBuffer::<i64>::get(latencies_ns)?.to_vec(py)?;
        py.detach(|| {
            values
                .into_iter()
                .for_each(|value| self.0.record_signed(value))
        });
        Ok(())
    }

    /// Adds all of another histogram of the same significant digits.
    fn add(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<()> {
        // A copy first: a histogram can be added to itself.
        let other = other.try_borrow()?.0.clone();
        let added = slf.try_borrow_mut()?.0.add(&other);
        added.map_err(|error| to_python(slf.py(), &error))
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    #[getter]
    fn below(&self) -> u64 {
        self.0.below()
    }

    #[getter]
    fn above(&self) -> u64 {
        self.0.above()
    }

    #[getter]
    fn out_of_range(&self) -> u64 {
        self.0.below().saturating_add(self.0.above())
    }

    #[getter]
    fn exact(&self) -> bool {
        self.0.exact()
    }

    #[getter]
    fn significant_digits(&self) -> u8 {
        self.0.digits()
    }

    #[getter]
    fn min(&self) -> Option<u64> {
        self.0.min_ns()
    }

    #[getter]
    fn max(&self) -> Option<u64> {
        self.0.max_ns()
    }

    #[getter]
    fn mean(&self) -> Option<f64> {
        self.0.mean_ns()
    }

    #[getter]
    fn stdev(&self) -> Option<f64> {
        self.0.stdev_ns()
    }

    /// The latency that a share of all stays at or below; None of an empty histogram.
    fn quantile(&self, py: Python<'_>, q: f64) -> PyResult<Option<u64>> {
        self.0.quantile_ns(q).map_err(|error| to_python(py, &error))
    }

    /// Buckets that hold anything: (lowest value, highest value, count), ascending.
    fn buckets(&self) -> Vec<(u64, u64, u64)> {
        self.0.buckets().collect()
    }

    /// HdrHistogram V2 bytes, compressed.
    fn to_v2<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py
            .detach(|| self.0.to_v2())
            .map_err(|error| to_python(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Reads HdrHistogram V2 bytes of any origin.
    #[staticmethod]
    fn from_v2(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        py.detach(|| LatencyHistogram::from_v2(data))
            .map(Self)
            .map_err(|error| to_python(py, &error))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.count()).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!(
            "Histogram(count={}, min={:?}, max={:?}, out_of_range={})",
            self.0.count(),
            self.0.min_ns(),
            self.0.max_ns(),
            self.out_of_range()
        )
    }
}

fn to_python(py: Python<'_>, error: &HistogramError) -> PyErr {
    let fix = match error {
        HistogramError::Digits { .. } => "Use 1 to 5 significant digits, the same for all (3).",
        HistogramError::Quantile { .. } => "Give a share between 0 and 1: 0.99 for p99.",
        HistogramError::Full => "Keep separate histograms.",
        _ => "Read the bytes again from their source; they must be HdrHistogram V2.",
    };
    let what = match error {
        HistogramError::Digits { .. } | HistogramError::Full => "histograms do not fit",
        HistogramError::Quantile { .. } => "no such quantile",
        _ => "not an HdrHistogram",
    };
    core_error(py, "histogram", what, error.to_string(), fix)
}
