//! Why a capture cannot be read at all. What can be read in part is an anomaly, not an error.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Errors of opening and reading captures and of asking for analyses.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{name}: {source}")]
    Io {
        /// File, or `standard input`.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A folder was given.
    #[error("{0} is a folder, not a capture")]
    Directory(PathBuf),
    /// No byte at all.
    #[error("{0} is empty")]
    Empty(String),
    /// The first bytes are of no known capture format.
    #[error("{name} is not a packet capture: {found}")]
    NotACapture {
        /// File.
        name: String,
        /// What its first bytes look like instead, in words.
        found: String,
    },
    /// A capture of a link type that is not read.
    #[error("{name} has link type {link_type} ({known_as}), which is not read")]
    LinkType {
        /// File.
        name: String,
        /// Number of tcpdump.org's list.
        link_type: u32,
        /// Its name there, or `unknown`.
        known_as: &'static str,
    },
    /// Compressed bytes that do not decompress.
    #[error("{name}: the compressed data is damaged after {bytes} bytes: {why}")]
    Compression {
        /// File.
        name: String,
        /// Decompressed bytes that were good.
        bytes: u64,
        /// The decompressor's reason.
        why: String,
    },
    /// A zstd frame whose window is longer than what is held for one.
    #[error("{name}: a zstd frame asks for a window of more than {most_bytes} bytes")]
    Window {
        /// File.
        name: String,
        /// The longest that is taken there.
        most_bytes: usize,
    },
    /// No lens of this name.
    #[error("there is no lens '{0}'")]
    UnknownLens(String),
    /// A file class's pattern is not a glob.
    #[error("file class '{class}': {why}")]
    Pattern {
        /// The class.
        class: String,
        /// What is wrong with it.
        why: String,
    },
    /// The caller went away or asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A thread could not be started or ended badly.
    #[error("a thread of the analysis failed: {0}")]
    Thread(String),
}

impl TraceError {
    /// What the operating system said of a file.
    pub fn of_file(path: &Path, source: io::Error) -> Self {
        let name = path.display().to_string();
        TraceError::Io { name, source }
    }
}
