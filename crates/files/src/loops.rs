//! The loops of the phases: what is timed.
//!
//! Each loop does one system call (or block of characters) an operation and tells the meter.
//! pread and pwrite stand for Bonnie's lseek, read and write: the same I/O, one call less.

use crate::content::{Identity, Mismatch, next_generation};
use crate::error::FilesError;
use crate::meter::Stop;
use crate::phase::{Phase, SyncKind};
use crate::syscalls::{Called, Descriptor, Errno, SyncCall};
use crate::worker::{Handle, Run, Step, Worker, blame};
use measure::Random;

impl Worker<'_> {
    pub fn fill(&mut self) -> Run<Stop> {
        for block in self.range.clone() {
            if self.generations[self.local(block)] == 0 {
                self.write_block(block)?;
                if let Some(stop) = self.meter.done() {
                    return Ok(stop);
                }
            }
        }
        Ok(Stop::Done)
    }

    pub fn write_in_order(&mut self) -> Run<Stop> {
        for block in self.range.clone() {
            self.write_block(block)?;
            if let Some(stop) = self.meter.done() {
                return Ok(stop);
            }
        }
        Ok(Stop::Done)
    }

    pub fn read_in_order(&mut self) -> Run<Stop> {
        for block in self.range.clone() {
            let whole = self.read_block(block)?;
            if let Some(stop) = self.meter.done() {
                return Ok(stop);
            }
            self.check_some(block, whole);
        }
        Ok(Stop::Done)
    }

    pub fn rewrite(&mut self) -> Run<Stop> {
        for block in self.range.clone() {
            if let Some(stop) = self.read_and_write_back(block)? {
                return Ok(stop);
            }
        }
        Ok(Stop::Done)
    }

    pub fn seek(&mut self) -> Run<Stop> {
        let share = self.shared.plan.seek_rewrite_share;
        self.counted(|worker, random, block| {
            if random.chance(share) {
                return worker.read_and_write_back(block);
            }
            let whole = worker.read_block(block)?;
            let stop = worker.meter.done();
            worker.check_some(block, whole);
            Ok(stop)
        })
    }

    pub fn read_at_random(&mut self) -> Run<Stop> {
        self.counted(|worker, _, block| {
            let whole = worker.read_block(block)?;
            let stop = worker.meter.done();
            worker.check_some(block, whole);
            Ok(stop)
        })
    }

    pub fn write_and_sync(&mut self) -> Run<Stop> {
        let plan = self.shared.plan;
        let call = match plan.sync_kind {
            SyncKind::Fsync => Some(SyncCall::Fsync),
            SyncKind::Fdatasync => Some(SyncCall::Fdatasync),
            SyncKind::Dsync => None, // every write syncs itself
        };
        let call = call.filter(|_| plan.sync_every > 0);
        let mut dirty = Dirty::new(self.handles.len());
        let mut since = 0;
        self.counted(|worker, _, block| {
            let handle = worker.write_block(block)?;
            let stop = worker.meter.done();
            if let Some(call) = call {
                dirty.add(handle);
                since += 1;
                if since == plan.sync_every {
                    since = 0;
                    worker.sync(&mut dirty, call)?;
                }
            }
            Ok(stop)
        })
    }

    /// Runs `operation` as often as planned: on random blocks of its range, a log's in order.
    fn counted(
        &mut self,
        mut operation: impl FnMut(&mut Self, &mut Random, u64) -> Run<Option<Stop>>,
    ) -> Run<Stop> {
        let (first, blocks) = (self.range.start, self.range.end - self.range.start);
        let step = match self.shared.step {
            Step::Phase(phase) => phase as u64 + 1,
            Step::Fill => 0,
        };
        let mut random = Random::new(self.shared.plan.seed, &[step, self.number() + 1]);
        let in_order = self.shared.step == Step::Phase(Phase::LogWrite);
        for turn in 0..self.planned() {
            let block = first
                + if in_order {
                    turn % blocks
                } else {
                    random.below(blocks)
                };
            if let Some(stop) = operation(self, &mut random, block)? {
                return Ok(stop);
            }
        }
        Ok(Stop::Done)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the range is as long as the slice
    const fn local(&self, block: u64) -> usize {
        (block - self.range.start) as usize
    }

    /// The block with its handle, as it would be after `step` more writes.
    #[inline]
    fn identify(&self, block: u64, generation: u8) -> (Identity, usize) {
        let spot = self.shared.layout.spot(block);
        #[allow(clippy::cast_possible_truncation)] // an index into handles
        let handle = (spot.file - self.first_file) as usize;
        (
            Identity {
                block,
                file: spot.file,
                offset: spot.offset,
                generation,
            },
            handle,
        )
    }

    /// Writes the next generation of a block; gives the handle written to.
    #[inline]
    fn write_block(&mut self, block: u64) -> Run<usize> {
        let local = self.local(block);
        let generation = next_generation(self.generations[local]);
        let (identity, handle) = self.identify(block, generation);
        let Some(content) = &mut self.content else {
            return Err(FilesError::Thread("a reading step writes".to_owned()));
        };
        let bytes = content.block(&identity);
        let (length, offset) = (bytes.len(), identity.offset);
        match &mut self.handles[handle] {
            Handle::Plain(file) => {
                let short = write_all(file, bytes, offset);
                let short = short.map_err(|errno| {
                    blame(&self.shared, identity.file).error("pwrite", Some(offset), errno)
                })?;
                self.meter.oddities.short_writes += short;
            }
            Handle::Stream(stream) => stream.put_all(bytes).map_err(|errno| {
                blame(&self.shared, identity.file).error("putc", Some(offset), errno)
            })?,
        }
        self.generations[local] = generation;
        self.meter.written_bytes += length as u64;
        Ok(handle)
    }

    /// Reads a block into the buffer; tells whether all of it was there.
    #[inline]
    fn read_block(&mut self, block: u64) -> Run<bool> {
        let (Identity { file, offset, .. }, handle) = self.identify(block, 0);
        let buffer = self.buffer.as_mut();
        let (done, short) = match &mut self.handles[handle] {
            Handle::Plain(descriptor) => {
                let result = read_all(descriptor, buffer, offset);
                result.map_err(|errno| {
                    blame(&self.shared, file).error("pread", Some(offset), errno)
                })?
            }
            Handle::Stream(stream) => {
                let done = stream.get_all(buffer).map_err(|errno| {
                    blame(&self.shared, file).error("getc", Some(offset), errno)
                })?;
                (done, u64::from(done < buffer.len()))
            }
        };
        self.meter.oddities.short_reads += short;
        self.meter.read_bytes += done as u64;
        Ok(done == buffer.len())
    }

    /// Reads a block, makes it the next generation and writes it back; one operation.
    fn read_and_write_back(&mut self, block: u64) -> Run<Option<Stop>> {
        let whole = self.read_block(block)?;
        let local = self.local(block);
        if whole {
            self.check_now(block);
            let generation = next_generation(self.generations[local]);
            let (identity, handle) = self.identify(block, generation);
            self.shared.content.restamp(&identity, self.buffer.as_mut());
            let Handle::Plain(file) = &self.handles[handle] else {
                return Err(FilesError::Thread("a block step by character".to_owned()));
            };
            let short = write_all(file, self.buffer.as_ref(), identity.offset);
            self.meter.oddities.short_writes += short.map_err(|errno| {
                let offset = Some(identity.offset);
                blame(&self.shared, identity.file).error("pwrite", offset, errno)
            })?;
            self.generations[local] = generation;
            self.meter.written_bytes += self.buffer.as_ref().len() as u64;
            self.meter.rewrites += 1;
        }
        Ok(self.meter.done())
    }

    /// Checks the block in the buffer if its turn has come, outside of any latency.
    #[inline]
    fn check_some(&mut self, block: u64, whole: bool) {
        let every = self.shared.plan.check_every;
        if whole && every > 0 && (self.meter.operations - 1).is_multiple_of(every) {
            self.check(block);
            self.meter.skip();
        }
    }

    /// The same in the middle of an operation: the check is part of its latency.
    #[inline]
    fn check_now(&mut self, block: u64) {
        let every = self.shared.plan.check_every;
        if every > 0 && self.meter.operations.is_multiple_of(every) {
            self.check(block);
        }
    }

    #[cold]
    fn check(&mut self, block: u64) {
        let generation = self.generations[self.local(block)];
        let (identity, _) = self.identify(block, generation);
        self.meter.checked += 1;
        if let Err(mismatch) = self.shared.content.check(&identity, self.buffer.as_ref()) {
            self.meter.oddities.content_mismatches += 1;
            let path = &self.shared.paths[usize::try_from(identity.file).unwrap_or(0)];
            self.meter.first_mismatch.get_or_insert_with(|| {
                let place = format!("{} at byte {}", path.display(), identity.offset);
                format!("{place}: {}", describe(&mismatch, &identity))
            });
        }
    }

    fn sync(&mut self, dirty: &mut Dirty, call: SyncCall) -> Run<()> {
        for handle in dirty.drain() {
            if let Handle::Plain(file) = &self.handles[handle] {
                file.sync(call).map_err(|errno| {
                    let name = if call == SyncCall::Fsync {
                        "fsync"
                    } else {
                        "fdatasync"
                    };
                    blame(&self.shared, self.first_file + handle as u64).error(name, None, errno)
                })?;
                self.meter.synced();
            }
        }
        Ok(())
    }
}

/// Handles written to since the last sync, each once.
struct Dirty {
    marks: Vec<bool>,
    handles: Vec<usize>,
}

impl Dirty {
    fn new(handles: usize) -> Self {
        Self {
            marks: vec![false; handles],
            handles: Vec::with_capacity(handles),
        }
    }

    fn add(&mut self, handle: usize) {
        if !std::mem::replace(&mut self.marks[handle], true) {
            self.handles.push(handle);
        }
    }

    fn drain(&mut self) -> impl Iterator<Item = usize> {
        self.marks.fill(false);
        self.handles.drain(..)
    }
}

/// Writes all of `bytes`; gives the number of calls that took less than asked.
#[inline]
fn write_all(file: &Descriptor, bytes: &[u8], offset: u64) -> Called<u64> {
    let mut done = file.write_at(bytes, offset)?;
    let mut short = 0;
    while done < bytes.len() {
        short += 1;
        match file.write_at(&bytes[done..], offset + done as u64)? {
            0 => return Err(Errno(libc::EIO)), // no progress and no reason: do not spin
            more => done += more,
        }
    }
    Ok(short)
}

/// Reads until `bytes` is full or the file ends; gives bytes read and the number of short calls.
#[inline]
fn read_all(file: &Descriptor, bytes: &mut [u8], offset: u64) -> Called<(usize, u64)> {
    let mut done = file.read_at(bytes, offset)?;
    let mut short = 0;
    while done < bytes.len() {
        short += 1;
        match file.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    Ok((done, short))
}

fn describe(mismatch: &Mismatch, expected: &Identity) -> String {
    match mismatch {
        Mismatch::Bytes { at } => format!("byte {at} of the block differs from what was written"),
        Mismatch::Stamp {
            at,
            file,
            offset,
            generation,
        } => format!(
            "stamp at byte {at} says file {file}, byte {offset}, write {generation}; \
             expected file {}, byte {}, write {}",
            expected.file, expected.offset, expected.generation
        ),
    }
}
