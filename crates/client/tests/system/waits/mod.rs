//! An open file as programs use it: each call waits for its end.

use std::sync::mpsc::channel;

use client::file::{MAX_UNCOMMITTED_BYTES, ReadData};
use client::{CallError, File};

pub trait Waits {
    fn read(&self, offset: u64, length: usize) -> Result<ReadData, CallError>;
    /// On its way when it returns, as far as its file may have bytes under way.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), CallError>;
    fn sync(&self) -> Result<(), CallError>;
}

impl Waits for File {
    fn read(&self, offset: u64, length: usize) -> Result<ReadData, CallError> {
        let (told, end) = channel();
        self.read_then(offset, length, move |result| told.send(result).unwrap());
        end.recv().unwrap()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), CallError> {
        let much = self.write_behind(offset, bytes, MAX_UNCOMMITTED_BYTES)?;
        self.push();
        if !much {
            return Ok(());
        }
        let (told, end) = channel();
        self.settle_then(move |result| told.send(result).unwrap());
        end.recv().unwrap()
    }

    fn sync(&self) -> Result<(), CallError> {
        let (told, end) = channel();
        self.sync_then(move |result| told.send(result).unwrap());
        end.recv().unwrap()
    }
}
