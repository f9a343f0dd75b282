//! Why there is no mount.

use std::io;
use std::path::PathBuf;

use client::{ConnectError, OptionError};

/// What went wrong, in the words of the step that failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// An option of this file system is unknown or contradicts another.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// `HOST:/EXPORT` cannot be understood, or the host has no address.
    #[error("{source_text}: {why}")]
    Source {
        /// What was given.
        source_text: String,
        /// Why it is no source.
        why: String,
    },
    /// The server could not be mounted from.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The folder cannot be mounted on.
    #[error("{}: {why}", directory.display())]
    Directory {
        /// What was given.
        directory: PathBuf,
        /// Why not.
        why: String,
    },
    /// FUSE cannot be used here.
    #[error("FUSE cannot be used: {why}")]
    Fuse {
        /// Why not.
        why: String,
    },
    /// The system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

impl MountError {
    /// A stable word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            MountError::Option(_) => "option",
            MountError::Source { .. } => "source",
            MountError::Connect(_) => "connect",
            MountError::Directory { .. } => "directory",
            MountError::Fuse { .. } => "fuse",
            MountError::System { .. } => "io",
        }
    }

    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        MountError::System {
            what: what.into(),
            source: source.into(),
        }
    }
}
