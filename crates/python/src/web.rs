//! The web workload: its file set, its load, its small server, with JSON in and out.

use std::path::PathBuf;
use std::time::Duration;

use ::web::fileset::{self, StoreConfig};
use ::web::load::{LoadConfig, Mix, Report, WriterReport, check_post_log, merge, run_part};
use ::web::page::Kind;
use ::web::server::{ServerConfig, WebServer as Running};
use ::web::{Observer, Progress, WebError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::build;
use crate::errors::{core_error, internal};
use crate::signals::{self, LoadObserver};

/// Makes the file set, or what is missing of it.
#[pyfunction]
#[pyo3(signature = (config_json, progress = None))]
pub fn write_web_files(
    py: Python<'_>,
    config_json: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    of_files(py, config_json, progress, fileset::write)
}

/// Looks at the sizes of all files and at the bytes of some.
#[pyfunction]
#[pyo3(signature = (config_json, progress = None))]
pub fn check_web_files(
    py: Python<'_>,
    config_json: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    of_files(py, config_json, progress, fileset::check)
}

fn of_files<T: Serialize + Send>(
    py: Python<'_>,
    config_json: &str,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&StoreConfig, &mut dyn Observer<Progress>) -> Result<T, WebError> + Send,
) -> PyResult<String> {
    let config: StoreConfig = from_json(py, config_json)?;
    let mut observer = LoadObserver::new(progress, None, as_text);
    let result = py.detach(|| work(&config, &mut observer));
    to_json(
        py,
        &observer.outcome(result, |error| to_python(py, &error))?,
    )
}

/// The report with what made it.
#[derive(Serialize)]
struct Document<'a> {
    build: std::collections::BTreeMap<&'static str, &'static str>,
    #[serde(flatten)]
    report: &'a Report,
}

/// Puts a load on a web server.
#[pyfunction]
#[pyo3(signature = (config_json, begin = None, progress = None))]
pub fn run_web_load(
    py: Python<'_>,
    config_json: &str,
    begin: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let config: LoadConfig = from_json(py, config_json)?;
    let mut observer = LoadObserver::new(progress, begin, as_text);
    let result = py.detach(|| ::web::load::run(config, &mut observer));
    let report = observer.outcome(result, |error| to_python(py, &error))?;
    document(py, &report)
}

/// Puts one process's part of a load on a web server; what it returns is for `merge_web_parts`.
#[pyfunction]
#[pyo3(signature = (config_json, begin, progress = None))]
pub fn run_web_part(
    py: Python<'_>,
    config_json: &str,
    begin: Py<PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let config: LoadConfig = from_json(py, config_json)?;
    let mut observer = LoadObserver::new(progress, Some(begin), as_text);
    let result = py.detach(|| -> Result<_, WebError> {
        let sums = run_part(config, &mut observer)?;
        Ok((sums.clone().report()?, sums))
    });
    let (report, sums) = observer.outcome(result, |error| to_python(py, &error))?;
    Ok((document(py, &report)?, to_json(py, &sums)?))
}

/// The report of the load that several processes made.
#[pyfunction]
pub fn merge_web_parts(py: Python<'_>, parts: Vec<(String, i64)>) -> PyResult<String> {
    let merged = py.detach(|| merge(&parts));
    document(py, &merged.map_err(|error| to_python(py, &error))?)
}

fn document(py: Python<'_>, report: &Report) -> PyResult<String> {
    let build = build::facts();
    to_json(py, &Document { build, report })
}

/// Compares a log of POSTs with what generators report.
#[pyfunction]
pub fn check_web_posts(py: Python<'_>, log: PathBuf, posts_json: &str) -> PyResult<String> {
    let writers: Vec<WriterReport> = from_json(py, posts_json)?;
    let found = py.detach(|| check_post_log(&log, &writers));
    to_json(py, &found.map_err(|error| to_python(py, &error))?)
}

/// Directories for so many connections.
#[pyfunction]
pub fn web_directories(connections: u64) -> u64 {
    fileset::directories_for(connections)
}

/// What the workload is made of, as it is drawn and served.
#[derive(Serialize)]
struct Tables {
    class_shares: [f64; fileset::CLASSES],
    file_shares: Vec<f64>,
    sizes_bytes: Vec<Vec<u64>>,
    directory_shares: Vec<f64>,
    kind_shares: std::collections::BTreeMap<&'static str, f64>,
    files: u64,
    bytes: u64,
    folder: &'static str,
    marker: &'static str,
}

/// Shares and sizes of a file set of so many directories.
#[pyfunction]
pub fn web_tables(py: Python<'_>, directories: u32) -> PyResult<Bound<'_, PyAny>> {
    let file_set = fileset::FileSet {
        seed: 1,
        directories,
    };
    file_set.check().map_err(|error| to_python(py, &error))?;
    let zipf = fileset::zipf(directories);
    let zipf = zipf.map_err(|error| internal(py, "directories have no shares", error))?;
    let sum: f64 = fileset::FILE_WEIGHTS.iter().sum();
    let classes = 0..fileset::CLASSES as u8;
    let sizes = |class| (1..=fileset::FILES as u8).map(move |n| fileset::size_bytes(class, n));
    let tables = Tables {
        class_shares: fileset::CLASS_SHARES,
        file_shares: fileset::FILE_WEIGHTS
            .iter()
            .map(|weight| weight / sum)
            .collect(),
        sizes_bytes: classes.map(|class| sizes(class).collect()).collect(),
        directory_shares: zipf.shares().map(|(_, share)| share).collect(),
        kind_shares: Kind::ALL
            .into_iter()
            .map(Kind::name)
            .zip(Mix::default().shares())
            .collect(),
        files: file_set.files(),
        bytes: file_set.bytes(),
        folder: fileset::FOLDER,
        marker: fileset::MARKER,
    };
    let text = to_json(py, &tables)?;
    py.import("json")?.call_method1("loads", (text,))
}

/// A small web server for the workload.
#[pyclass(module = "nfslab._core", frozen)]
pub struct WebServer(Running);

#[pymethods]
impl WebServer {
    #[new]
    fn new(py: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config: ServerConfig = from_json(py, config_json)?;
        let started = py.detach(|| Running::start(&config));
        started
            .map(WebServer)
            .map_err(|error| to_python(py, &error))
    }

    /// Host and port, as clients write it.
    #[getter]
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.address().port()
    }

    /// What it counted so far.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = to_json(py, &self.0.counts())?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Waits for the end; False when the time is over first.
    #[pyo3(signature = (timeout_s = None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<bool> {
        signals::wait(py, timeout_s, |step: Duration| self.0.wait(step))
    }

    /// Stops it, and returns what it counted.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.detach(|| self.0.stop());
        self.counters(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Py<PyAny>,
        _value: Py<PyAny>,
        _traceback: Py<PyAny>,
    ) -> PyResult<()> {
        self.stop(py).map(|_| ())
    }
}

fn as_text<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyString::new(py, text).into_any())
}

fn from_json<T: DeserializeOwned>(py: Python<'_>, text: &str) -> PyResult<T> {
    let read = serde_json::from_str(text);
    read.map_err(|error| to_python(py, &WebError::Json(error.to_string())))
}

fn to_json(py: Python<'_>, value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value)
        .map_err(|error| internal(py, "a result cannot be written as JSON", error))
}

fn to_python(py: Python<'_>, error: &WebError) -> PyErr {
    core_error(py, error.kind(), error.what(), error.why(), error.fix())
}
