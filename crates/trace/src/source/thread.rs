//! A reader on a thread of its own.
//!
//! At most [`BLOCKS`] blocks exist: being filled, in the channel, or with the caller, who gives
//! them back when they are read. A slow caller thus slows the reader, and memory stays flat.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::progress::Watcher;
use super::reader::{Reader, Totals};
use crate::block::Block;
use crate::error::TraceError;
use crate::limits::BLOCKS;

/// What the reading thread says.
enum Said {
    Block(Block),
    /// The last word: what was seen, why it ended if it was not at the end of the capture, and the
    /// thread's CPU time.
    End(Box<(Totals, Option<TraceError>, u64)>),
}

/// Blocks from a reading thread. Dropping it stops the thread.
#[derive(Debug)]
pub struct Blocks {
    watcher: Watcher,
    blocks: Option<Receiver<Said>>,
    empty: Option<Sender<Block>>,
    thread: Option<JoinHandle<()>>,
    totals: Totals,
    cpu_ns: u64,
}

/// Runs a reader on a thread.
///
/// # Errors
/// The thread cannot be started.
pub fn spawn(reader: Reader) -> Result<Blocks, TraceError> {
    let watcher = reader.watcher();
    let (send, blocks) = sync_channel(BLOCKS);
    let (empty, recycled) = channel();
    let thread = Builder::new()
        .name("captures".to_owned())
        .spawn(move || run(reader, &send, &recycled))
        .map_err(|error| TraceError::Thread(error.to_string()))?;
    Ok(Blocks {
        watcher,
        blocks: Some(blocks),
        empty: Some(empty),
        thread: Some(thread),
        totals: Totals::default(),
        cpu_ns: 0,
    })
}

/// Reads until the end, an error, or nobody listens.
fn run(mut reader: Reader, send: &SyncSender<Said>, recycled: &Receiver<Block>) {
    let mut made = 0;
    let failed = loop {
        let mut block = match recycled.try_recv() {
            // A window that it was the last one to point into goes here: this thread has time.
            Ok(block) => Block {
                mapped: None,
                ..block
            },
            Err(TryRecvError::Empty) if made < BLOCKS => {
                made += 1;
                Block::default()
            }
            Err(TryRecvError::Empty) => match recycled.recv() {
                Ok(block) => block,
                Err(_) => return,
            },
            Err(TryRecvError::Disconnected) => return,
        };
        match reader.read(&mut block) {
            Ok(true) => {
                if send.send(Said::Block(block)).is_err() {
                    return;
                }
            }
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
    };
    // Nobody listening any more is fine: the thread ends.
    let end = (reader.totals(), failed, measure::clock::thread_cpu_ns());
    let _ = send.send(Said::End(Box::new(end)));
}

impl Blocks {
    /// The next block; `None` when the capture has ended.
    ///
    /// # Errors
    /// Why the reader ended early; all blocks before were given.
    pub fn next_block(&mut self) -> Result<Option<Block>, TraceError> {
        let Some(blocks) = &self.blocks else {
            return Ok(None);
        };
        match blocks.recv() {
            Ok(Said::Block(block)) => Ok(Some(block)),
            Ok(Said::End(end)) => {
                self.blocks = None;
                self.totals = end.0;
                self.cpu_ns = end.2;
                end.1.map_or(Ok(None), Err)
            }
            Err(_) => {
                self.blocks = None;
                Err(TraceError::Thread("the reading thread died".to_owned()))
            }
        }
    }

    /// Gives a block back to be filled again.
    pub fn recycle(&self, block: Block) {
        if let Some(empty) = &self.empty {
            // A reader that has ended needs none.
            let _ = empty.send(block);
        }
    }

    /// A handle to watch and stop the reader from any thread.
    pub fn watcher(&self) -> Watcher {
        self.watcher.clone()
    }

    /// What the reader saw, once [`Blocks::next_block`] has given `None` or an error.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

impl Blocks {
    /// CPU time of the reading thread, once it has ended, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.watcher.stop();
        self.blocks = None;
        self.empty = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there was told as an error when its channel closed.
            let _ = thread.join();
        }
    }
}
