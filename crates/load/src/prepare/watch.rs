//! How far a preparation is, for the observer.

use crate::error::LoadError;
use crate::progress::Progress;
use generator::{Observer, TICK_NS};

/// Tells an observer how far a step is.
pub struct Watch<'o> {
    pub observer: &'o mut dyn Observer<Progress>,
    pub mount: usize,
    pub mounts: usize,
    pub step: &'static str,
    pub done: u64,
    pub total: u64,
    pub written_bytes: u64,
    pub told_ns: u64,
}

impl Watch<'_> {
    pub fn begin(&mut self, step: &'static str, total: u64) {
        (self.step, self.done, self.total) = (step, 0, total);
    }

    pub fn done(&mut self) {
        self.done += 1;
    }

    pub fn look(&mut self, now_ns: u64) -> Result<(), LoadError> {
        if now_ns.saturating_sub(self.told_ns) < TICK_NS {
            return Ok(());
        }
        self.told_ns = now_ns;
        let progress = Progress::Prepare {
            mount: self.mount,
            mounts: self.mounts,
            step: self.step,
            done: self.done,
            total: self.total,
            written_bytes: self.written_bytes,
        };
        match self.observer.tick(&progress) {
            true => Ok(()),
            false => Err(LoadError::Cancelled),
        }
    }
}
