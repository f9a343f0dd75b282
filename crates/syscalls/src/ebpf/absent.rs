//! In place of eBPF when it was left out: the same names, and why it is not there.

use crate::error::WatchError;
use crate::record::CountRecord;

use super::{Figures, Grants, Options, Taken, WaitRow};

/// Never comes to be.
#[derive(Debug)]
pub struct Watch {
    never: std::convert::Infallible,
}

impl Watch {
    /// Says that it was left out.
    pub fn start(_: &Options) -> Result<Self, WatchError> {
        Err(left_out())
    }

    /// Never called.
    pub fn take(&self) -> Taken {
        match self.never {}
    }

    /// Never called.
    pub fn counts(&self) -> Vec<CountRecord> {
        match self.never {}
    }

    /// Never called.
    pub fn figures(&self) -> Figures {
        match self.never {}
    }

    /// Never called.
    pub fn stop(&self) {
        match self.never {}
    }

    /// Never called.
    pub fn wait_detached(&self) {
        match self.never {}
    }
}

/// Never comes to be.
#[derive(Debug)]
pub struct Waits {
    never: std::convert::Infallible,
}

impl Waits {
    /// Says that it was left out.
    pub fn start(_: u32, _: &str) -> Result<Self, WatchError> {
        Err(left_out())
    }

    /// Says that it was left out.
    pub fn start_by_call(_: u32) -> Result<Self, WatchError> {
        Err(left_out())
    }

    /// Never called.
    pub fn totals(&self) -> Vec<WaitRow> {
        match self.never {}
    }

    /// Never called.
    pub fn uncounted(&self) -> u64 {
        match self.never {}
    }

    /// Never called.
    pub fn run(&self) -> (std::time::Duration, u64) {
        match self.never {}
    }

    /// Never called.
    pub fn stop(&self) {
        match self.never {}
    }
}

/// Says that it was left out.
pub fn grants() -> Grants {
    Grants {
        refused: Some(left_out()),
        blocks: false,
    }
}

fn left_out() -> WatchError {
    WatchError::LeftOut {
        why: env!("NFSLAB_EBPF_LEFT_OUT"),
    }
}
