//! `Mount`: an NFS export mounted through FUSE, for Python.
//!
//! It has threads of its own; everything here starts, asks or ends them with the GIL released. The
//! mount lives as long as the object, and no longer than the process.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::{CallError, ConnectError};
use mount::{MountError, Source, Unmount};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wire::rpc::ReplyStatus;

use crate::errors::core_error;
use crate::kernel_calls::rows_of_files;
use crate::rpc_records::{RpcRecorder, counter_dict, operation_list};
use crate::signals;

/// An export mounted on a folder.
#[pyclass(module = "nfslab._core", frozen)]
pub struct Mount {
    mounted: Mutex<Option<Arc<mount::Mount>>>,
    source: String,
    directory: PathBuf,
    effective: Vec<(&'static str, String)>,
    adjustments: Vec<String>,
}

#[pymethods]
impl Mount {
    #[new]
    #[pyo3(signature = (source, directory, options = ""))]
    fn new(py: Python<'_>, source: &str, directory: PathBuf, options: &str) -> PyResult<Self> {
        let mounted = py.detach(|| {
            let source = Source::parse(source)?;
            mount::Mount::new(&source, &directory, options)
        });
        let mounted = mounted.map_err(|error| to_python(py, &error))?;
        Ok(Mount {
            source: mounted.source().to_string(),
            directory: mounted.directory().to_owned(),
            effective: mounted.effective_options(),
            adjustments: mounted.options().adjustments().to_vec(),
            mounted: Mutex::new(Some(Arc::new(mounted))),
        })
    }

    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    #[getter]
    fn directory(&self) -> &Path {
        &self.directory
    }

    /// Every option in effect: (name, value), "" for one that is a word by itself.
    fn effective_options(&self) -> Vec<(&'static str, String)> {
        self.effective.clone()
    }

    /// What was replaced or rounded on the way, a sentence each.
    fn adjustments(&self) -> Vec<String> {
        self.adjustments.clone()
    }

    /// True once it is unmounted; False after `timeout` seconds (None: never).
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let over = |step| {
            self.current()
                .is_none_or(|mounted| mounted.wait(Some(step)))
        };
        signals::wait(py, timeout, over)
    }

    /// Unmounts: "normal" (an error while it is used), "lazy" or "force"; waits for the end of a
    /// normal or forced one, and tells the server of a normal one: forced are those whose server is
    /// dead.
    #[pyo3(signature = (how = "normal"))]
    fn unmount(&self, py: Python<'_>, how: &str) -> PyResult<()> {
        let way = way(py, how)?;
        let done = py.detach(|| {
            let Some(inner) = self.current() else {
                return Ok(());
            };
            inner.unmount(way)?;
            if way != Unmount::Lazy {
                inner.wait(Some(Duration::from_secs(10)));
                if way == Unmount::Normal {
                    inner.tell_server();
                }
                *self.mounted.lock() = None;
            }
            Ok(())
        });
        done.map_err(|error| to_python(py, &error))
    }

    /// Totals of the client's calls, and what the kernel knows: objects, open files and folders.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = py.detach(|| {
            let inner = self.current()?;
            let (counters, _) = inner.client().figures().ok()?;
            Some((counters, inner.known()))
        });
        let (counters, (objects, files, folders)) = taken.ok_or_else(|| gone(py))?;
        let entry = counter_dict(py, &counters)?;
        entry.set_item("known_objects", objects)?;
        entry.set_item("open_files", files)?;
        entry.set_item("open_directories", folders)?;
        Ok(entry)
    }

    /// At one moment: "counters" and "operations" as `RpcRecorder` has them, "files": path in the
    /// mount, and calls on its data since the last time.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = py.detach(|| self.current()?.figures().ok());
        let (counters, operations, files) = taken.ok_or_else(|| gone(py))?;
        let entry = PyDict::new(py);
        entry.set_item("counters", counter_dict(py, &counters)?)?;
        entry.set_item("operations", operation_list(py, &operations)?)?;
        entry.set_item("files", rows_of_files(files))?;
        Ok(entry)
    }

    /// What its client records of itself.
    fn recorder(&self, py: Python<'_>) -> PyResult<RpcRecorder> {
        let client = py.detach(|| self.current().map(|m| m.client().clone()));
        client.map(RpcRecorder::new).ok_or_else(|| gone(py))
    }
}

impl Mount {
    /// The mount itself: whoever waits for it must not keep the others out.
    fn current(&self) -> Option<Arc<mount::Mount>> {
        self.mounted.lock().clone()
    }
}

/// Unmounts whatever lies on a folder (of this user): "normal", "lazy" or "force".
#[pyfunction]
#[pyo3(signature = (directory, how = "normal"))]
pub fn unmount(py: Python<'_>, directory: PathBuf, how: &str) -> PyResult<()> {
    let way = way(py, how)?;
    py.detach(|| mount::unmount(&directory, way))
        .map_err(|source| {
            let error = MountError::System {
                what: format!("unmounting {}", directory.display()),
                source,
            };
            to_python(py, &error)
        })
}

fn way(py: Python<'_>, how: &str) -> PyResult<Unmount> {
    match how {
        "normal" => Ok(Unmount::Normal),
        "lazy" => Ok(Unmount::Lazy),
        "force" => Ok(Unmount::Force),
        other => Err(core_error(
            py,
            "config",
            format!("there is no way to unmount called {other:?}"),
            "",
            "Say normal, lazy or force.",
        )),
    }
}

fn gone(py: Python<'_>) -> PyErr {
    core_error(
        py,
        "closed",
        "the mount is gone",
        "it was unmounted",
        "Ask before it is unmounted.",
    )
}

/// Refuses options that a mount would refuse.
#[pyfunction]
pub fn check_mount_options(py: Python<'_>, options: &str) -> PyResult<()> {
    mount::check_options(options).map_err(|error| to_python(py, &error))
}

fn to_python(py: Python<'_>, error: &MountError) -> PyErr {
    let of_system = match error {
        MountError::System { source, .. } => Some(source.kind()),
        _ => None,
    };
    let busy = of_system == Some(ErrorKind::ResourceBusy);
    let fix = match error {
        MountError::Option(_) => "See docs/mount.md for the options.",
        MountError::Source { .. } => "Name it as in 127.0.0.1:/export or [::1]:/export.",
        MountError::Connect(ConnectError::Call {
            source: CallError::Rpc(ReplyStatus::ProgramMismatch { .. }),
            ..
        }) => "Have the server serve NFS version 3, too: this client speaks no other.",
        MountError::Connect(_) => {
            "Check server, export and ports (-o port=,mountport= where there is no portmapper), \
             and whether it takes calls of your user (nfslab serve: --insecure)."
        }
        MountError::Directory { .. } => {
            "Name a folder that exists and is yours; `nfslab umount --stale` removes dead mounts."
        }
        MountError::Fuse { .. } => {
            "Needs /dev/fuse (modprobe fuse), and root or fusermount3 (package fuse3)."
        }
        MountError::System { .. } if busy => "Leave the folder, or add --lazy or --force.",
        MountError::System { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied => "Only root and whoever mounted it can do this.",
            ErrorKind::InvalidInput | ErrorKind::NotFound => {
                "Is anything mounted there? findmnt shows what is."
            }
            _ => "Check the limits (ulimit -n, -u).",
        },
    };
    core_error(
        py,
        if busy { "busy" } else { error.kind() },
        error.to_string(),
        "",
        fix,
    )
}
