//! `Server`: an embedded NFS server for Python.
//!
//! It has threads of its own; everything here starts, asks or stops them with the GIL released.
//! What it is to do comes as JSON ([`crate::serve_options`]); what is in effect is stated as well.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::model::ModelDescription;
use server::net::{Counts, RunningServer, ServerError};
use server::protocol::{Outcome, Service};
use server::record::{CallRecord, Recorder};

use crate::columns::{Builder, Columns};
use crate::errors::core_error;
use crate::kernel_calls::{CallsOnData, rows_of_files};
use crate::serve_options::{Asked, MAX_RECORDS, Prepared, Problem, prepare};
use crate::signals;

/// What runs, or what is left of it.
struct State {
    running: Option<RunningServer>,
    last: Counts,
}

/// An NFSv3 server with a store of its own.
#[pyclass(module = "nfslab._core", frozen)]
pub struct Server {
    state: Mutex<State>,
    ended: Condvar,
    service: Arc<Service>,
    recorder: Arc<Recorder>,
    addresses: Vec<SocketAddr>,
    stated: String,
}

#[pymethods]
impl Server {
    #[new]
    fn new(py: Python<'_>, options_json: &str) -> PyResult<Self> {
        let asked: Asked = serde_json::from_str(options_json)
            .map_err(|error| to_python(py, Problem::Options(error.to_string())))?;
        let started = py.detach(|| start(asked));
        started.map_err(|problem| to_python(py, problem))
    }

    /// Host and port of the first address, as clients write it.
    #[getter]
    fn address(&self) -> String {
        self.addresses
            .first()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.addresses.iter().map(ToString::to_string).collect()
    }

    #[getter]
    fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }

    /// What is served and how, as it is in effect.
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?
            .call_method1("loads", (self.stated.as_str(),))
    }

    /// What the loop counted; after the end, its last state.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let entry = PyDict::new(py);
        for (name, value) in self.counts().named() {
            entry.set_item(name, value)?;
        }
        entry.set_item("records_lost", self.recorder.lost())?;
        Ok(entry)
    }

    /// Path in the export, where it is known, and calls on its data since the last time.
    fn files(&self, py: Python<'_>) -> Vec<(Option<String>, CallsOnData)> {
        rows_of_files(py.detach(|| self.service.take_files()))
    }

    /// CPU time of the loop thread; None after the end.
    fn loop_cpu_ns(&self) -> Option<u64> {
        self.state
            .lock()
            .running
            .as_ref()
            .and_then(RunningServer::loop_cpu_ns)
    }

    /// Switches recording on, with room for so many calls until `records` takes them.
    fn begin_records(&self, py: Python<'_>, room: usize) -> PyResult<()> {
        if room == 0 || room > MAX_RECORDS {
            let why = format!("room for 1 to {MAX_RECORDS} records, not {room}");
            return Err(to_python(py, Problem::Options(why)));
        }
        py.detach(|| self.recorder.begin(room));
        Ok(())
    }

    /// Switches it off; what was recorded can still be taken.
    fn end_records(&self) {
        self.recorder.end();
    }

    /// The calls since the last time, in the order of their replies.
    fn records(&self, py: Python<'_>) -> PyResult<Columns> {
        let records = py.detach(|| self.recorder.take());
        record_columns(py, &records)
    }

    /// Waits for the end; False when the time is over first.
    #[pyo3(signature = (timeout_s = None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<bool> {
        signals::wait(py, timeout_s, |step| self.over(step))
    }

    /// Stops it: calls in work end. Harmless when it has ended.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let ended = py.detach(|| {
            let running = self.state.lock().running.take();
            let Some(running) = running else {
                return Ok(());
            };
            let ended = running.finish();
            self.state.lock().last = ended.1;
            self.ended.notify_all();
            ended.0
        });
        ended.map_err(|error| to_python(py, Problem::Server(error)))
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
        self.stop(py)
    }
}

impl Server {
    fn counts(&self) -> Counts {
        let mut state = self.state.lock();
        if let Some(running) = &state.running {
            state.last = running.counts();
        }
        state.last
    }

    /// Whether it has ended, after `step` at the latest.
    fn over(&self, step: Duration) -> bool {
        let mut state = self.state.lock();
        let runs = |state: &mut State| {
            state
                .running
                .as_ref()
                .is_some_and(RunningServer::is_running)
        };
        self.ended.wait_while_for(&mut state, runs, step);
        !runs(&mut state)
    }
}

fn start(asked: Asked) -> Result<Server, Problem> {
    let Prepared {
        service,
        options,
        recorder,
        mut stated,
    } = prepare(asked)?;
    let running = RunningServer::start(Arc::clone(&service), options).map_err(Problem::Server)?;
    let addresses = running.addresses().to_vec();
    let listening: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    stated.insert("listen".to_owned(), listening.into());
    let state = State {
        running: Some(running),
        last: Counts::default(),
    };
    Ok(Server {
        state: Mutex::new(state),
        ended: Condvar::new(),
        service,
        recorder,
        addresses,
        stated: serde_json::Value::Object(stated).to_string(),
    })
}

/// Who sent each call: one text for calls in a row of the same client.
fn clients(records: &[CallRecord]) -> Vec<Rc<str>> {
    let mut last: Option<(SocketAddr, Rc<str>)> = None;
    let name = |record: &CallRecord| match &last {
        Some((client, name)) if *client == record.client => Rc::clone(name),
        _ => {
            let name: Rc<str> = record.client.to_string().into();
            last = Some((record.client, Rc::clone(&name)));
            name
        }
    };
    records.iter().map(name).collect()
}

/// One row for each call.
fn record_columns(py: Python<'_>, records: &[CallRecord]) -> PyResult<Columns> {
    let at = |value: fn(&CallRecord) -> u64| records.iter().map(value);
    let of = |value: fn(&CallRecord) -> u32| records.iter().map(value);
    let operation = |record: &CallRecord| {
        wire::programs::procedure_name(record.program, 3, record.procedure).unwrap_or("unknown")
    };
    let outcome = |record: &CallRecord| match record.outcome {
        Outcome::Done(_) => "answered",
        Outcome::Refused(status) => status.name(),
    };
    let status = |record: &CallRecord| match record.outcome {
        Outcome::Done(status) => Some(status),
        Outcome::Refused(_) => None,
    };
    Builder::default()
        .u64("received_ns", at(|r| r.received_ns))
        .u64("started_ns", at(|r| r.started_ns))
        .u64("finished_ns", at(|r| r.finished_ns))
        .u64("sent_ns", at(|r| r.sent_ns))
        .u32("xid", of(|r| r.xid))
        .text("client", clients(records).iter())
        .u32("program", of(|r| r.program))
        .u32("procedure", of(|r| r.procedure))
        .u32("call_bytes", of(|r| r.call_bytes))
        .u32("reply_bytes", of(|r| r.reply_bytes))
        .text("operation", records.iter().map(operation))
        .text("outcome", records.iter().map(outcome))
        .u32_or_null("status", records.iter().map(status))
        .finish(py)
}

/// Refuses a service model that a server would refuse.
#[pyfunction]
pub fn check_service_model(py: Python<'_>, model_json: &str) -> PyResult<()> {
    let wrong = |why: String| to_python(py, Problem::Options(format!("service model: {why}")));
    let model: ModelDescription =
        serde_json::from_str(model_json).map_err(|error| wrong(error.to_string()))?;
    model.check().map_err(|error| wrong(error.to_string()))
}

fn to_python(py: Python<'_>, problem: Problem) -> PyErr {
    let (kind, fix) = kind_and_fix(&problem);
    let (what, why) = problem.split();
    core_error(py, kind, what, why, fix)
}

fn kind_and_fix(problem: &Problem) -> (&'static str, &'static str) {
    use std::io::ErrorKind;
    match problem {
        Problem::Options(_) => (
            "config",
            "Give the options that nfslab._core.Server documents.",
        ),
        Problem::Key(_) => (
            "io",
            "Make that folder yours, or set NFSLAB_STATE to another one of yours.",
        ),
        Problem::Folder { source, .. } => match source.kind() {
            ErrorKind::NotFound => ("missing", "Check the name, or make the folder."),
            ErrorKind::NotADirectory => ("directory", "Serve the folder that it is in."),
            ErrorKind::PermissionDenied => {
                ("permission", "Serve a folder that you may read and enter.")
            }
            ErrorKind::Unsupported => {
                ("unsupported", "Serving a folder needs Linux 5.6 and /proc.")
            }
            _ => ("io", "Is the storage healthy, and the folder still there?"),
        },
        Problem::Server(ServerError::Listen { source, .. }) => match source.kind() {
            ErrorKind::AddrInUse => ("in_use", "Give another port, or 0 for any free one."),
            ErrorKind::PermissionDenied => (
                "permission",
                "Ports below 1024 belong to root: give a higher one, or 0.",
            ),
            ErrorKind::AddrNotAvailable => ("config", "Give an address of this machine."),
            _ => ("io", "Give another address or port."),
        },
        Problem::Server(ServerError::OpenToAll(_)) => (
            "config",
            "State who may connect (allow), or listen on 127.0.0.1.",
        ),
        Problem::Server(ServerError::System(_)) => ("io", "Check the limits (ulimit -n, -u)."),
        Problem::Server(ServerError::Defect) => ("internal", "Please report this."),
        Problem::Server(_) => ("config", "Correct this option."),
    }
}
