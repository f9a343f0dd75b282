//! Drives one pass: blocks in, calls, events, columns and sections out.
//!
//! Two threads: one reads and finds segments ([`crate::source`]), one does all the rest. Batches of
//! columns go to the caller through a short channel, so that a slow writer slows the reader and
//! memory stays flat.

use std::sync::mpsc::Receiver;

use arrow_array::RecordBatch;
use serde_json::Value;

use crate::error::TraceError;
use crate::lens::{LensOptions, Section};
use crate::source::Input;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names of lenses; all if empty. `operations` always runs.
    pub lenses: Vec<String>,
    /// What lenses are told.
    pub lens: LensOptions,
    /// Whether batches of columns are wanted.
    pub columns: bool,
    /// Only calls first sent within this time, nanoseconds from the capture's first frame:
    /// a closer look. Matching and paths still see everything.
    pub window_ns: Option<(i64, i64)>,
}

/// How far an analysis is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read of the inputs (as stored: compressed).
    pub read_bytes: u64,
    /// Size of all inputs, if it is known.
    pub total_bytes: Option<u64>,
    /// Frames seen.
    pub frames: u64,
    /// Calls settled.
    pub calls: u64,
    /// Whether the threads have ended (well or badly): `finish` then returns at once.
    pub finished: bool,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// `packets`, `bytes`, `first_ns`, `last_ns`, `lost`, `anomalies`, ...
    pub summary: Value,
    /// Name and section of each lens that ran, in their order.
    pub sections: Vec<(String, Section)>,
    /// CPU time of all threads of the analysis, nanoseconds: what a live collector cost.
    pub cpu_ns: u64,
}

/// A running analysis.
#[derive(Debug)]
pub struct Analysis {}

impl Analysis {
    /// Opens the inputs and starts the threads. What is wrong with the first input is told here,
    /// if it is a file; a stream is first read by its thread (a live capture tool may hold its
    /// header back until packets come), and what is wrong with it is told by `finish`.
    pub fn start(_inputs: Vec<Input>, _options: Options) -> Result<Self, TraceError> {
        Ok(Analysis {})
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress::default()
    }

    /// Batches of rows in the order of the calls, once, if columns were asked for. They have to be
    /// taken, or the analysis waits.
    pub fn batches(&mut self) -> Option<Receiver<RecordBatch>> {
        None
    }

    /// Asks the threads to end soon; `finish` then gives `Interrupted`.
    pub fn stop(&self) {}

    /// Waits for the end.
    pub fn finish(self) -> Result<Findings, TraceError> {
        Err(TraceError::Interrupted)
    }
}
