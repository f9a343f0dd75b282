//! `Trace`: a running analysis of captures for Python.
//!
//! The analysis has threads of its own; everything here starts, asks, or waits for them with the
//! GIL released, so that the caller's main thread can show progress and take signals. Rows of calls
//! leave through the Arrow C stream interface (arrow.apache.org/docs/format/CStreamInterface.html),
//! which every data frame library reads without a copy.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict};
use serde::Deserialize;
use serde_json::{Map, Value};
use trace::TraceError;
use trace::analysis::{Analysis, Findings, Options, Progress};
use trace::lens::LensOptions;
use trace::source::Input;

use crate::columns::stream;
use crate::errors::core_error;

/// A capture as Python names it: a path, or (name, descriptor).
#[derive(FromPyObject)]
enum Given {
    Path(PathBuf),
    Stream(String, i32),
}

/// `options_json` of the constructor.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    lenses: Vec<String>,
    file_classes: Vec<(String, String)>,
    columns: bool,
    window_ns: Option<(i64, i64)>,
}

/// A running analysis, and what it said last.
struct State {
    analysis: Option<Analysis>,
    last: Progress,
    /// Once it is handed over: its rows may still be on their way.
    begun: Vec<u64>,
}

/// Reads captures on threads of its own.
#[pyclass(module = "nfslab._core")]
pub struct Trace {
    state: Mutex<State>,
    rows: Mutex<Option<Receiver<RecordBatch>>>,
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (inputs, options_json = "{}"))]
    fn new(py: Python<'_>, inputs: Vec<Given>, options_json: &str) -> PyResult<Self> {
        let asked: Asked =
            serde_json::from_str(options_json).map_err(|error| bad_json(py, &error))?;
        let opened: Result<Vec<Input>, TraceError> = inputs.into_iter().map(input).collect();
        let options = Options {
            lenses: asked.lenses,
            lens: LensOptions {
                of_a_part: false,
                file_classes: asked.file_classes,
            },
            columns: asked.columns,
            window_ns: asked.window_ns,
        };
        let mut analysis = opened
            .and_then(|inputs| py.detach(|| Analysis::start(inputs, options)))
            .map_err(|error| to_python(py, &error))?;
        let rows = analysis.batches();
        Ok(Self {
            state: Mutex::new(State {
                last: analysis.progress(),
                begun: Vec::new(),
                analysis: Some(analysis),
            }),
            rows: Mutex::new(rows),
        })
    }

    /// How far it is.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut state = self.state.lock();
        if let Some(analysis) = &state.analysis {
            state.last = analysis.progress();
        }
        let progress = state.last;
        drop(state);
        progress_entry(py, progress)
    }

    /// Frames in front of each input that was begun, in the order in which they are read.
    fn begun(&self) -> Vec<u64> {
        let state = self.state.lock();
        let running = state.analysis.as_ref().map(Analysis::begun);
        running.unwrap_or_else(|| state.begun.clone())
    }

    /// The rows of the calls, once; None when no columns were asked for.
    fn batches(&self) -> Option<CallRows> {
        let rows = self.rows.lock().take()?;
        Some(CallRows::new(rows))
    }

    /// Asks the threads to end soon.
    fn stop(&self) {
        if let Some(analysis) = &self.state.lock().analysis {
            analysis.stop();
        }
        // Nobody will take them any more: a thread that waits to hand some over ends.
        self.rows.lock().take();
    }

    /// Waits for the end and hands everything over, once.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyDict>)> {
        let taken = {
            let mut state = self.state.lock();
            let taken = state.analysis.take();
            if let Some(analysis) = &taken {
                state.last = analysis.progress();
                state.begun = analysis.begun();
            }
            taken
        };
        let Some(analysis) = taken else {
            return Err(misuse(
                py,
                "its result was handed over before",
                "Make a new Trace.",
            ));
        };
        let found = py.detach(|| analysis.finish());
        self.state.lock().last.finished = true;
        text_of(py, found.map_err(|error| to_python(py, &error))?)
    }
}

/// The rows of the calls as a stream of Arrow record batches.
#[pyclass(module = "nfslab._core")]
pub struct CallRows(Mutex<Option<Receiver<RecordBatch>>>);

impl CallRows {
    /// What comes there.
    pub fn new(rows: Receiver<RecordBatch>) -> Self {
        CallRows(Mutex::new(Some(rows)))
    }
}

#[pymethods]
impl CallRows {
    /// The stream, once. Waits for the first batch.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer that cannot cast give its own schema.
        drop(requested_schema);
        let Some(rows) = self.0.lock().take() else {
            return Err(misuse(
                py,
                "its rows were handed over before",
                "Make a new Trace.",
            ));
        };
        let reader = py.detach(|| Rows::new(rows));
        stream(py, reader)
    }
}

/// Batches as they come; the first is here already, since it tells the schema.
struct Rows {
    schema: SchemaRef,
    first: Option<RecordBatch>,
    rest: Receiver<RecordBatch>,
}

impl Rows {
    fn new(rest: Receiver<RecordBatch>) -> Self {
        let first = rest.recv().ok();
        let schema = first
            .as_ref()
            .map_or_else(|| SchemaRef::from(Schema::empty()), RecordBatch::schema);
        Self {
            schema,
            first,
            rest,
        }
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.first.take().or_else(|| self.rest.recv().ok()).map(Ok)
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

fn input(given: Given) -> Result<Input, TraceError> {
    let (name, number) = match given {
        Given::Path(path) => return Ok(Input::File(path)),
        Given::Stream(name, number) => (name, number),
    };
    if number < 0 {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(TraceError::Io { name, source });
    }
    // SAFETY: not -1, and only borrowed to be duplicated, while its owner waits for us; the kernel
    // refuses a number that is not open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    match descriptor.try_clone_to_owned() {
        Ok(descriptor) => Ok(Input::Stream { name, descriptor }),
        Err(source) => Err(TraceError::Io { name, source }),
    }
}

/// How far an analysis is, as Python sees it.
pub fn progress_entry(py: Python<'_>, progress: Progress) -> PyResult<Bound<'_, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("read_bytes", progress.read_bytes)?;
    entry.set_item("total_bytes", progress.total_bytes)?;
    entry.set_item("frames", progress.frames)?;
    entry.set_item("calls", progress.calls)?;
    entry.set_item("finished", progress.finished)?;
    Ok(entry)
}

/// One JSON object (summary, then a key for each section), and the long columns as bytes.
pub fn text_of(py: Python<'_>, findings: Findings) -> PyResult<(String, Bound<'_, PyDict>)> {
    let blobs = PyDict::new(py);
    let mut all = match findings.summary {
        Value::Object(entries) => entries,
        other => Map::from_iter([("summary".to_owned(), other)]),
    };
    for (name, section) in findings.sections {
        for blob in section.blobs {
            let bytes = PyBytes::new(py, &blob.bytes);
            blobs.set_item(format!("{name}/{}", blob.name), (blob.dtype, bytes))?;
        }
        all.insert(name, section.json);
    }
    all.insert("analysis_cpu_ns".to_owned(), Value::from(findings.cpu_ns));
    let text = py.detach(|| Value::Object(all).to_string());
    Ok((text, blobs))
}

fn misuse(py: Python<'_>, why: &str, fix: &str) -> PyErr {
    core_error(py, "config", "this trace cannot be asked again", why, fix)
}

fn bad_json(py: Python<'_>, error: &serde_json::Error) -> PyErr {
    core_error(
        py,
        "config",
        "the options of the trace cannot be read",
        error.to_string(),
        "Give JSON with the fields that nfslab._core.Trace documents.",
    )
}

/// Kind and fix of an error of opening a file.
fn of_io(source: &io::Error) -> (&'static str, &'static str) {
    match source.kind() {
        io::ErrorKind::NotFound => ("missing", "Check the name; `-` reads standard input."),
        io::ErrorKind::PermissionDenied => (
            "permission",
            "Captures of tcpdump belong to its user: read it as root, or change its owner.",
        ),
        io::ErrorKind::IsADirectory => ("directory", "Name the capture inside it."),
        _ => ("io", "Is the storage healthy, and the file still there?"),
    }
}

pub fn to_python(py: Python<'_>, error: &TraceError) -> PyErr {
    let (what, why) = split(error);
    let (kind, fix) = match error {
        TraceError::Io { source, .. } => of_io(source),
        TraceError::Directory(_) => ("directory", "Name the capture inside it."),
        TraceError::Empty(_) => (
            "empty",
            "Was the capture stopped before a packet came? tcpdump -U writes each one at once.",
        ),
        TraceError::NotACapture { .. } => (
            "not_a_capture",
            "Give what `tcpdump -w FILE` or Wireshark wrote: pcap or pcapng, perhaps gz or zstd.",
        ),
        TraceError::LinkType { .. } => (
            "link_type",
            "Capture on an Ethernet interface, on lo, or with `tcpdump -i any`.",
        ),
        TraceError::Compression { .. } => (
            "compression",
            "Copy the file again, or decompress what is good of it: zcat FILE | nfslab trace -",
        ),
        TraceError::Window { .. } => (
            "window",
            "Decompress it first: zstd -dc --long=31 FILE | nfslab trace -",
        ),
        TraceError::UnknownLens(_) => ("config", "Use the names that the documentation lists."),
        TraceError::Pattern { .. } => ("config", "Write globs such as */pg_wal/* or *.log."),
        TraceError::Interrupted => ("interrupted", ""),
        _ => ("internal", "Please report this."),
    };
    core_error(py, kind, what, why, fix)
}

/// What happened, and why as far as it is told apart.
fn split(error: &TraceError) -> (String, String) {
    match error {
        TraceError::Io { name, source } => (format!("cannot read {name}"), source.to_string()),
        TraceError::NotACapture { name, found } => (
            format!("{name} is not a packet capture"),
            format!("found instead: {found}"),
        ),
        TraceError::Compression { name, bytes, why } => (
            format!("{name}: the compressed data is damaged after {bytes} bytes"),
            why.clone(),
        ),
        TraceError::Window { name, most_bytes } => (
            format!("{name} is not read"),
            format!(
                "a zstd frame asks for a window of more than {} MiB",
                most_bytes >> 20
            ),
        ),
        TraceError::Pattern { class, why } => (
            format!("the pattern of file class '{class}' is not understood"),
            why.clone(),
        ),
        other => (other.to_string(), String::new()),
    }
}
