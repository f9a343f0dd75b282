//! What prevents a file set from being made, a server from starting, or a load from being run, in
//! words that say what to do about it. What a server answers during a load is no error: it is
//! counted.

use rustix::io::Errno;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// A field of a configuration.
    #[error("{field} = {value}: {why}")]
    Config {
        /// Its name.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: String,
        /// What would be right.
        fix: String,
    },
    /// A configuration that is none.
    #[error("{0}")]
    Json(String),
    /// A system call on a file or folder.
    #[error("{path}: {doing}: {errno}")]
    File {
        /// Which file.
        path: String,
        /// What was being done.
        doing: &'static str,
        /// Why not.
        errno: Errno,
    },
    /// What stands in a folder is not the file set asked for.
    #[error("{path}: {why}")]
    FileSet {
        /// The folder.
        path: String,
        /// What does not fit.
        why: String,
    },
    /// A folder has no room for the file set.
    #[error("{path}: {needed_bytes} bytes are needed, {available_bytes} are free")]
    Space {
        /// The folder.
        path: String,
        /// Of the files that are not there yet.
        needed_bytes: u64,
        /// What statvfs(2) says an ordinary user may write.
        available_bytes: u64,
    },
    /// The limit of open files is too low and cannot be raised.
    #[error("{needed} open files are needed, {soft} are allowed and {hard} is the hard limit")]
    OpenFiles {
        /// For connections, threads, and what the process has open.
        needed: u64,
        /// `RLIMIT_NOFILE`, soft.
        soft: u64,
        /// `RLIMIT_NOFILE`, hard.
        hard: u64,
    },
    /// An address cannot be listened on.
    #[error("{address}: {errno}")]
    Listen {
        /// Which.
        address: String,
        /// Why not.
        errno: Errno,
    },
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// This machine would not give what is needed.
    #[error("{what}: {why}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// What processes of a load handed over cannot be put together.
    #[error("{0}")]
    Parts(String),
    /// A histogram could not be made, added up or written.
    #[error("latencies cannot be summed up: {0}")]
    Histogram(#[from] measure::HistogramError),
}

impl WebError {
    pub(crate) fn config(
        field: &'static str,
        value: impl ToString,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        WebError::Config {
            field,
            value: value.to_string(),
            why: why.into(),
            fix: fix.into(),
        }
    }

    pub(crate) fn file(path: &std::path::Path, doing: &'static str) -> impl FnOnce(Errno) -> Self {
        let path = path.display().to_string();
        move |errno| WebError::File { path, doing, errno }
    }

    pub(crate) fn system(what: &'static str, why: impl ToString) -> Self {
        WebError::System {
            what,
            why: why.to_string(),
        }
    }

    /// Stable word for programs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            WebError::Config { .. } | WebError::Json(_) => "config",
            WebError::FileSet { .. } => "file_set",
            WebError::Space { .. } => "space",
            WebError::OpenFiles { .. } => "open_files",
            WebError::Cancelled => "cancelled",
            WebError::Parts(_) => "parts",
            WebError::System { .. } | WebError::Histogram(_) => "internal",
            WebError::File { errno, .. } | WebError::Listen { errno, .. } => match *errno {
                Errno::NOSPC | Errno::DQUOT | Errno::FBIG => "space",
                Errno::ACCESS | Errno::PERM => "permission",
                Errno::ROFS => "read_only",
                Errno::NOENT => "missing",
                Errno::ADDRINUSE => "in_use",
                Errno::NOSYS => "unsupported",
                _ => "io",
            },
        }
    }

    /// What happened, one line.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            WebError::Config { field, value, .. } => format!("web: {field} = {value}"),
            WebError::Json(_) => "web: the configuration cannot be read".to_owned(),
            WebError::File { path, doing, .. } => format!("{path}: {doing} failed"),
            WebError::FileSet { path, .. } => format!("{path}: the file set does not fit"),
            WebError::Space { path, .. } => format!("{path} is too small for the file set"),
            WebError::OpenFiles { needed, .. } => {
                format!("the limit of open files does not allow {needed}")
            }
            WebError::Listen { address, .. } => format!("{address} cannot be listened on"),
            WebError::Cancelled => "the work was stopped".to_owned(),
            WebError::System { what, .. } => (*what).to_owned(),
            WebError::Parts(_) => "what the processes measured is not one load".to_owned(),
            WebError::Histogram(_) => "latencies cannot be summed up".to_owned(),
        }
    }

    /// Why, as far as it is known.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            WebError::Config { why, .. } | WebError::FileSet { why, .. } => why.clone(),
            WebError::Json(why) | WebError::Parts(why) | WebError::System { why, .. } => {
                why.clone()
            }
            WebError::File { errno, .. } | WebError::Listen { errno, .. } => errno.to_string(),
            WebError::Cancelled => String::new(),
            WebError::Space { .. } | WebError::OpenFiles { .. } => self.to_string(),
            WebError::Histogram(error) => error.to_string(),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn fix(&self) -> String {
        let text = match self {
            WebError::Config { fix, .. } => return fix.clone(),
            WebError::OpenFiles { needed, .. } => {
                return format!(
                    "Raise the hard limit (ulimit -Hn {needed}, or limits.conf), or ask for fewer \
                     connections."
                );
            }
            WebError::Json(_) => "Give JSON with the fields that nfslab._core documents.",
            WebError::FileSet { .. } => {
                "Take another folder or the same seed, or remove what is there."
            }
            WebError::Space { .. } => "Give it more room, or take fewer directories.",
            WebError::File { .. } => match self.kind() {
                "space" => "Give it more room, or take fewer directories.",
                "permission" | "read_only" => "Take a folder that you may write.",
                "missing" => "Check the name, or make the folder.",
                "unsupported" => "Serving a folder needs Linux 5.6.",
                _ => "Is the storage healthy, and the folder still there? Start again: it goes on.",
            },
            WebError::Listen { .. } => match self.kind() {
                "in_use" => "Give another port, or 0 for any free one.",
                "permission" => "Ports below 1024 belong to root: give a higher one, or 0.",
                _ => "Give an address of this machine.",
            },
            WebError::Cancelled => "Start it again: what was made is still there.",
            WebError::System { .. } => "Free what the machine lacks (memory, threads, files).",
            WebError::Parts(_) => "See that all have the same nfslab; if so, please report this.",
            WebError::Histogram(_) => "Please report this.",
        };
        text.to_owned()
    }
}

impl From<generator::NotBegun> for WebError {
    fn from(error: generator::NotBegun) -> Self {
        match error {
            generator::NotBegun::Cancelled => WebError::Cancelled,
            generator::NotBegun::NotReady { .. } => WebError::System {
                what: generator::NotBegun::NOT_READY,
                why: error.to_string(),
            },
        }
    }
}
