//! How far the generator is, for whoever watches and may stop it.

use std::sync::atomic::{AtomicBool, AtomicU64};

use serde::Serialize;

/// How far a preparation or a point is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Progress {
    /// A file set is made or looked through.
    Prepare {
        /// Which mount, from 0.
        mount: usize,
        /// How many there are.
        mounts: usize,
        /// `directories`, `files`, `links`, `scratch` or `look`.
        step: &'static str,
        /// Objects of this step that are done.
        done: u64,
        /// Objects of this step.
        total: u64,
        /// Bytes written so far.
        written_bytes: u64,
    },
    /// A point is measured.
    Run {
        /// `warm_up`, `measure`, `cool_down` or `drain`.
        phase: &'static str,
        /// Since the load began.
        elapsed_ns: u64,
        /// Until it ends.
        total_ns: u64,
        /// Calls answered since the load began.
        answered: u64,
        /// Unexpected answers so far.
        unexpected: u64,
        /// Calls under way.
        outstanding: u64,
    },
}

/// What all threads share with whoever watches.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub stop: AtomicBool,
    pub answered: AtomicU64,
    pub unexpected: AtomicU64,
    pub outstanding: AtomicU64,
}
