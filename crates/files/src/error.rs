//! What can go wrong, in words that say what to do about it.

use std::path::{Path, PathBuf};

use crate::syscalls::Errno;

/// An error of the file workload.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A field of the configuration.
    #[error("{field} = {value}: {why}")]
    Config {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: String,
        /// What would be right.
        right: String,
    },
    /// A system call failed.
    #[error("{call} failed on {path} in phase {step}: {errno}")]
    Io {
        /// Phase or preparation step.
        step: &'static str,
        /// The call.
        call: &'static str,
        /// What it was about.
        path: PathBuf,
        /// Offset in the file, where the call has one.
        offset: Option<u64>,
        /// Its reason.
        errno: Errno,
        /// Whether the file was opened with `O_DIRECT`.
        direct: bool,
    },
    /// The target has less room than the files need.
    #[error("{path} has {available_bytes} bytes free, the files need {needed_bytes}")]
    TooSmall {
        /// The directory.
        path: PathBuf,
        /// Free for this user.
        available_bytes: u64,
        /// Needed.
        needed_bytes: u64,
    },
    /// The folder that the first process made is not where another one looks for it.
    #[error("{path} is not there")]
    NotShared {
        /// The folder.
        path: PathBuf,
    },
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// A histogram could not be merged or written.
    #[error("latencies cannot be summed up: {0}")]
    Histogram(#[from] measure::HistogramError),
    /// A worker thread could not be started or ended by a panic.
    #[error("worker thread: {0}")]
    Thread(String),
}

/// What a step needs to make errors of system calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blame<'a> {
    pub step: &'static str,
    pub path: &'a Path,
    pub direct: bool,
}

impl Blame<'_> {
    /// The error of `call`, with the offset it was for.
    #[cold]
    pub fn error(&self, call: &'static str, offset: Option<u64>, errno: Errno) -> FilesError {
        let (step, path, direct) = (self.step, self.path.to_path_buf(), self.direct);
        FilesError::Io {
            step,
            call,
            path,
            offset,
            errno,
            direct,
        }
    }
}

impl FilesError {
    pub(crate) fn config(
        field: &'static str,
        value: impl ToString,
        why: &str,
        right: &str,
    ) -> Self {
        let (why, right) = (why.to_owned(), right.to_owned());
        Self::Config {
            field,
            value: value.to_string(),
            why,
            right,
        }
    }

    /// Stable word for programs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Config { .. } => "config",
            Self::TooSmall { .. } => "space",
            Self::NotShared { .. } => "not_shared",
            Self::Cancelled => "cancelled",
            Self::Histogram(_) | Self::Thread(_) => "internal",
            Self::Io {
                errno: Errno(errno),
                direct,
                ..
            } => match *errno {
                libc::ENOSPC | libc::EDQUOT | libc::EFBIG => "space",
                libc::EROFS => "read_only",
                libc::EACCES | libc::EPERM => "permission",
                libc::EMFILE | libc::ENFILE => "limit",
                libc::EINVAL | libc::EOPNOTSUPP if *direct => "unsupported",
                _ => "io",
            },
        }
    }

    /// What happened.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Config { field, value, .. } => format!("files: {field} = {value} cannot be used"),
            Self::Io {
                step,
                call,
                path,
                offset,
                ..
            } => {
                let place = offset.map_or(String::new(), |offset| format!(" at byte {offset}"));
                format!("files: {step}: {call} failed on {}{place}", path.display())
            }
            Self::TooSmall { path, .. } => {
                format!("files: {} has too little room", path.display())
            }
            Self::NotShared { .. } => {
                "files: the processes of the run do not see the same folder".to_owned()
            }
            Self::Cancelled => "files: cancelled".to_owned(),
            Self::Histogram(_) | Self::Thread(_) => format!("files: {self}"),
        }
    }

    /// Why it happened; empty when unknown.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Config { why, .. } => why.clone(),
            Self::Io { errno, .. } => errno.to_string(),
            Self::TooSmall {
                available_bytes,
                needed_bytes,
                ..
            } => {
                format!("{needed_bytes} bytes are needed, {available_bytes} are free")
            }
            Self::NotShared { path } => {
                format!(
                    "the first process made {}, which is not there",
                    path.display()
                )
            }
            Self::Cancelled | Self::Histogram(_) | Self::Thread(_) => String::new(),
        }
    }

    /// What to do.
    #[must_use]
    pub fn fix(&self) -> String {
        let text = match self {
            Self::Config { right, .. } => return format!("Right would be: {right}."),
            Self::TooSmall { .. } => "Use a smaller size, or a target with more room.",
            Self::NotShared { .. } => {
                "Use a target that all hosts share, or as many files as there are processes, or a \
                 multiple: then each has its own."
            }
            Self::Cancelled => "Start it again; no files were left behind.",
            Self::Histogram(_) | Self::Thread(_) => "Please report this.",
            Self::Io {
                errno: Errno(errno),
                direct,
                ..
            } => match *errno {
                libc::ENOSPC => "Use a smaller size, or free room on the target.",
                libc::EDQUOT => "Use a smaller size, or raise this user's quota on the target.",
                libc::EFBIG => "Use more files, or raise the limit on file sizes (ulimit -f).",
                libc::EROFS => "Mount the target for writing, or name another directory.",
                libc::EACCES | libc::EPERM => {
                    "Name a directory that this user may write to (on NFS: see root_squash)."
                }
                libc::ENOENT | libc::ENOTDIR => "Name an existing directory.",
                libc::EMFILE | libc::ENFILE => "Use fewer files, or raise ulimit -n.",
                libc::EINVAL | libc::EOPNOTSUPP if *direct => {
                    "This file system does not take O_DIRECT with this block size: use a multiple \
                     of 4096, or no direct I/O."
                }
                libc::EIO => "The storage failed: see the kernel's log (dmesg).",
                libc::ESTALE => "The server lost the files: see the server's log, mount again.",
                libc::ETIMEDOUT => "The server does not answer (soft mount): see its state.",
                _ => "See errno(3) for the reason, and the kernel's log (dmesg).",
            },
        };
        text.to_owned()
    }
}
