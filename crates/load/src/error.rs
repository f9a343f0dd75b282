//! What can go wrong before and around a point, in words that say what to do about it.
//!
//! What a server answers during a point is no error: it is counted, and may make the point invalid
//! (see the report). Here is what prevents a point from being measured at all.

use client::{CallError, ConnectError};
use rustix::io::Errno;

/// An error of the load generator.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A field of the plan.
    #[error("{field} = {value}: {why}")]
    Plan {
        /// Its name.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: String,
        /// What would be right.
        fix: String,
    },
    /// A plan that is no plan.
    #[error("{0}")]
    Json(String),
    /// A server could not be mounted.
    #[error("{server}: {source}")]
    Connect {
        /// Address and export.
        server: String,
        /// Why.
        source: ConnectError,
    },
    /// A server refused what the preparation needs.
    #[error("{server}: {doing}: {source}")]
    Call {
        /// Address and export.
        server: String,
        /// What was being done.
        doing: String,
        /// What came back.
        source: CallError,
    },
    /// What is on the server is not the file set of the plan.
    #[error("{server}: {why}")]
    FileSet {
        /// Address and export.
        server: String,
        /// What does not fit.
        why: String,
        /// What to do.
        fix: String,
    },
    /// No answer for the plan's `silence_limit_s`.
    #[error("{server}: no answer for {seconds} s while {doing}")]
    Silent {
        /// Address and export.
        server: String,
        /// What was being done.
        doing: String,
        /// How long it was waited.
        seconds: f64,
    },
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// This machine would not give what a generator needs.
    #[error("{what}: {why}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// A histogram could not be made, merged or written.
    #[error("latencies cannot be summed up: {0}")]
    Histogram(#[from] measure::HistogramError),
}

impl LoadError {
    /// A field of the plan that is wrong.
    pub(crate) fn plan(
        field: &'static str,
        value: impl ToString,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        LoadError::Plan {
            field,
            value: value.to_string(),
            why: why.into(),
            fix: fix.into(),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            LoadError::Connect { source, .. } => Some(source.errno()),
            LoadError::Call { source, .. } => Some(source.errno()),
            _ => None,
        }
    }

    /// Stable word for programs.
    pub fn kind(&self) -> &'static str {
        match (self, self.errno()) {
            (LoadError::Plan { .. } | LoadError::Json(_), _) => "config",
            (LoadError::FileSet { .. }, _) => "file_set",
            (LoadError::Silent { .. }, _) => "silent",
            (LoadError::Cancelled, _) => "cancelled",
            (LoadError::System { .. } | LoadError::Histogram(_), _) => "internal",
            (_, Some(Errno::ROFS)) => "read_only",
            (_, Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => "space",
            (_, Some(Errno::ACCESS | Errno::PERM)) => "permission",
            (_, Some(Errno::OPNOTSUPP | Errno::PFNOSUPPORT | Errno::PROTONOSUPPORT)) => {
                "unsupported"
            }
            _ => "io",
        }
    }

    /// What happened, one line.
    pub fn what(&self) -> String {
        match self {
            LoadError::Plan { field, value, .. } => format!("load plan: {field} = {value}"),
            LoadError::Json(_) => "the load plan cannot be read".to_owned(),
            LoadError::Connect { server, .. } => format!("{server} cannot be mounted"),
            LoadError::Call { server, doing, .. } => format!("{server}: {doing} failed"),
            LoadError::FileSet { server, .. } => format!("{server}: the file set does not fit"),
            LoadError::Silent { server, .. } => format!("{server} does not answer"),
            LoadError::Cancelled => "the load was stopped".to_owned(),
            LoadError::System { what, .. } => (*what).to_owned(),
            LoadError::Histogram(_) => "latencies cannot be summed up".to_owned(),
        }
    }

    /// Why, as far as it is known.
    pub fn why(&self) -> String {
        match self {
            LoadError::Plan { why, .. } | LoadError::FileSet { why, .. } => why.clone(),
            LoadError::Json(why) => why.clone(),
            LoadError::Connect { source, .. } => source.to_string(),
            LoadError::Call { source, .. } => match self.kind() {
                "read_only" => format!("the export is read-only ({source})"),
                "space" => format!("the server has no room for the file set ({source})"),
                "permission" => format!("the server does not let this user write ({source})"),
                "unsupported" => format!("the server does not offer this ({source})"),
                _ => source.to_string(),
            },
            LoadError::Silent { doing, seconds, .. } => {
                format!("no answer for {seconds} s while {doing}")
            }
            LoadError::Cancelled => String::new(),
            LoadError::System { why, .. } => why.clone(),
            LoadError::Histogram(error) => error.to_string(),
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> String {
        let text = match self {
            LoadError::Plan { fix, .. } | LoadError::FileSet { fix, .. } => return fix.clone(),
            LoadError::Json(_) => {
                "Give the fields that docs/load.md lists, as the shipped mixes do."
            }
            LoadError::Connect { .. } => {
                "Check address, export and the options port and mountport (or the portmapper)."
            }
            LoadError::Call { .. } => match self.kind() {
                "read_only" => "Export it for writing: every mix changes something.",
                "space" => {
                    "Lower the load or --bytes-per-op (in a file bytes_per_op), or make room."
                }
                "permission" => {
                    "Give the caller (uid and gid of the plan) write access to the export's root."
                }
                "unsupported" => "Take operations the server lacks out of the mix.",
                _ => "Look into the server's log; then prepare again: it goes on where it was.",
            },
            LoadError::Silent { .. } => {
                "See whether the server runs and is reachable; raise silence_limit_s if it is slow."
            }
            LoadError::Cancelled => "Start it again: what was prepared is still there.",
            LoadError::System { .. } => "Free what the machine lacks (memory, threads, files).",
            LoadError::Histogram(_) => "Please report this.",
        };
        text.to_owned()
    }
}

impl From<generator::NotBegun> for LoadError {
    fn from(error: generator::NotBegun) -> Self {
        match error {
            generator::NotBegun::Cancelled => LoadError::Cancelled,
            generator::NotBegun::NotReady { .. } => LoadError::System {
                what: generator::NotBegun::NOT_READY,
                why: error.to_string(),
            },
        }
    }
}
