//! How far the work is, for whoever watches and may stop it.

use serde::Serialize;

/// How far a file set or a load is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Progress {
    /// A file set is made or looked through.
    Files {
        /// Directories of the set.
        directories: u64,
        /// Directories that are done.
        done: u64,
        /// Bytes written so far.
        written_bytes: u64,
    },
    /// A load is run.
    Load {
        /// `warm_up`, `measure` or `drain`.
        phase: &'static str,
        /// Since the load began.
        elapsed_ns: u64,
        /// Until the timed part ends.
        total_ns: u64,
        /// Requests that ended well since the load began.
        done: u64,
        /// Requests that did not.
        failed: u64,
    },
}
