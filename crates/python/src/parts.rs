//! What reading a capture by several processes needs: `capture_order`; of its parts `read_part`,
//! `join_parts`, `part_findings`; for lenses that follow it as a whole `Following`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use trace::analysis::Progress;
use trace::analysis::parts::{self, Apart, Begun, FollowError, Part, Task, read};
use trace::lens::LensOptions;

use crate::errors::{core_error, internal};
use crate::trace::{CallRows, progress_entry, text_of, to_python};

/// Files in the order of their first packets, and how many were given in another place.
#[pyfunction]
pub fn capture_order(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<(Vec<PathBuf>, u64)> {
    let found = py.detach(|| trace::source::in_order(files));
    found.map_err(|error| to_python(py, &error))
}

/// A journal that is to be written.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct JournalAsked {
    journal: PathBuf,
    followed: Vec<String>,
    rows: bool,
    is_first: bool,
}

/// Reads files in a row, and the beginning of the next one; `progress` is called now and then, and
/// ends it by what it raises.
#[pyfunction]
#[pyo3(signature = (files, next, lenses, progress, journal = None))]
pub fn read_part<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    next: Option<PathBuf>,
    lenses: Vec<String>,
    progress: Py<PyAny>,
    journal: Option<JournalAsked>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut task = Task {
        lenses,
        ..Task::new(files, next)
    };
    if let Some(asked) = journal {
        (task.journal, task.followed) = (Some(asked.journal), asked.followed);
        (task.followed_rows, task.is_first) = (asked.rows, asked.is_first);
    }
    let mut raised = None;
    let part = py.detach(|| {
        read(&task, |state: Progress| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                progress.call1(py, (progress_entry(py, state)?,)).map(drop)
            });
            raised = told.err();
            raised.is_none()
        })
    });
    if let Some(raised) = raised {
        return Err(raised);
    }
    let part = part.map_err(|error| to_python(py, &error))?;
    let bytes = py.detach(|| part.encode());
    Ok(PyBytes::new(py, &bytes.map_err(|why| apart(py, why))?))
}

/// Two parts as one; the second one begins with the file behind the first one's last.
#[pyfunction]
pub fn join_parts<'py>(py: Python<'py>, one: &[u8], next: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let joined = py.detach(|| Part::decode(one)?.join(Part::decode(next)?)?.encode());
    Ok(PyBytes::new(py, &joined.map_err(|why| apart(py, why))?))
}

/// What `Trace.finish` gives, of a part that is the whole capture.
#[pyfunction]
pub fn part_findings<'py>(
    py: Python<'py>,
    part: &[u8],
    moved: u64,
    inputs: Vec<String>,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    let found = py.detach(|| Part::decode(part)?.findings(moved, &inputs));
    text_of(py, found.map_err(|why| apart(py, why))?)
}

/// Batches of rows that wait for their taker.
const BATCHES: usize = 2;

/// Lenses that follow a capture as a whole, by the journals of who reads its parts.
#[pyclass(module = "nfslab._core")]
pub struct Following {
    following: Mutex<Option<parts::Following>>,
    rows: Mutex<Option<Receiver<RecordBatch>>>,
    begun: Begun,
    stop: Arc<AtomicBool>,
}

#[pymethods]
impl Following {
    #[new]
    #[pyo3(signature = (lenses, file_classes, rows = false))]
    fn new(
        py: Python<'_>,
        lenses: Vec<String>,
        file_classes: Vec<(String, String)>,
        rows: bool,
    ) -> PyResult<Self> {
        let options = LensOptions {
            file_classes,
            of_a_part: false,
        };
        let (sender, received) = sync_channel(BATCHES);
        let sender = rows.then_some(sender);
        let following = parts::Following::begin(&lenses, &options, None, sender);
        let following = following.map_err(|error| to_python(py, &error))?;
        Ok(Following {
            begun: following.begun(),
            stop: following.stop(),
            following: Mutex::new(Some(following)),
            rows: Mutex::new(rows.then_some(received)),
        })
    }

    /// The next part in the order of the files, with its journal, which is removed.
    fn follow(&self, py: Python<'_>, part: &[u8], journal: PathBuf) -> PyResult<()> {
        let part = Part::decode(part).map_err(|why| apart(py, why))?;
        self.with(py, |following| following.follow(&part, journal))
    }

    /// Journals that were not played to their end.
    fn waiting(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |following| following.waiting())
    }

    /// The rows of the calls, once; None where they are not asked for.
    fn batches(&self) -> Option<CallRows> {
        self.rows.lock().take().map(CallRows::new)
    }

    /// Frames in front of each file that was followed so far.
    fn begun(&self) -> Vec<u64> {
        self.begun.so_far()
    }

    /// Ends the threads, also while `finish` waits for them.
    fn stop(&self, py: Python<'_>) {
        self.stop.store(true, Relaxed);
        // Nobody will take them any more: a thread that waits to hand some over ends.
        self.rows.lock().take();
        py.detach(|| drop(self.following.lock().take()));
    }

    /// What `part_findings` gives, with the tables of these lenses; waits for them, once.
    fn finish<'py>(
        &self,
        py: Python<'py>,
        part: &[u8],
        moved: u64,
        inputs: Vec<String>,
    ) -> PyResult<(String, Bound<'py, PyDict>)> {
        let part = Part::decode(part).map_err(|why| apart(py, why))?;
        let following = self.following.lock().take();
        let following = following.ok_or_else(|| over(py))?;
        let found = py.detach(|| following.findings(part, moved, &inputs));
        text_of(py, found.map_err(|error| followed(py, error))?)
    }
}

impl Following {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut parts::Following) -> Result<T, FollowError> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| self.following.lock().as_mut().map(act));
        let done = done.ok_or_else(|| over(py))?;
        done.map_err(|error| followed(py, error))
    }
}

fn over(py: Python<'_>) -> PyErr {
    internal(py, "lenses that follow a capture", "they have ended")
}

fn followed(py: Python<'_>, error: FollowError) -> PyErr {
    match error {
        FollowError::Apart(why) => apart(py, why),
        FollowError::Trace(error) => to_python(py, &error),
    }
}

/// Parts that do not tell what reading in a row would: two neighbours, or all of them.
fn apart(py: Python<'_>, why: Apart) -> PyErr {
    let kind = match why.of_neighbours() {
        true => "apart",
        false => "in_a_row",
    };
    core_error(
        py,
        kind,
        "the files are not read side by side",
        why.to_string(),
        "Read them one after the other.",
    )
}
