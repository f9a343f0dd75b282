//! A reader's blocks, one after another: of a thread of its own, or read by the caller's.
//!
//! With a thread at most [`BLOCKS`] blocks exist: being filled, in the channel, or with the caller,
//! who gives them back when they are read. A slow caller thus slows the reader, and memory stays
//! flat. Two processors that both look at the packets fetch them twice, and hand the segments over
//! besides: where a second one has other work, and reading is no copy, the caller reads by itself.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::progress::Watcher;
use super::reader::Reader;
use super::sink::Totals;
use crate::block::Block;
use crate::error::TraceError;
use crate::limits::BLOCKS;

/// Blocks that go back to the reader at once. One that is quicker than its caller waits for them,
/// and waking it for each costs as much as reading it.
const TOGETHER: usize = BLOCKS / 2;

/// What the reading thread says.
enum Said {
    Block(Block),
    /// The last word: what was seen, why it ended if it was not at the end of the capture, and the
    /// thread's CPU time.
    End(Box<(Totals, Option<TraceError>, u64)>),
}

/// Who reads.
#[derive(Debug)]
enum Reading {
    Apart {
        blocks: Receiver<Said>,
        empty: Sender<Block>,
        /// Those that go back with the next ones.
        done: Vec<Block>,
        thread: JoinHandle<()>,
    },
    Here {
        reader: Box<Reader>,
        spare: Block,
    },
    /// It came to its end.
    Ended,
}

/// Blocks of a reader. Dropping it stops the reader, and waits for its thread.
#[derive(Debug)]
pub struct Blocks {
    watcher: Watcher,
    reading: Reading,
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
    Ok(Blocks::of(
        watcher,
        Reading::Apart {
            blocks,
            empty,
            done: Vec::with_capacity(TOGETHER),
            thread,
        },
    ))
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
    fn of(watcher: Watcher, reading: Reading) -> Self {
        Blocks {
            watcher,
            reading,
            totals: Totals::default(),
            cpu_ns: 0,
        }
    }

    /// Those of a reader that works when it is asked for one.
    pub fn read_here(reader: Reader) -> Self {
        let watcher = reader.watcher();
        let reading = Reading::Here {
            reader: Box::new(reader),
            spare: Block::default(),
        };
        Self::of(watcher, reading)
    }

    /// The next block; `None` when the capture has ended.
    ///
    /// # Errors
    /// Why the reader ended early; all blocks before were given.
    pub fn next_block(&mut self) -> Result<Option<Block>, TraceError> {
        let (totals, failed, cpu_ns) = match &mut self.reading {
            Reading::Ended => return Ok(None),
            Reading::Here { reader, spare } => {
                let mut block = std::mem::take(spare);
                match reader.read(&mut block) {
                    Ok(true) => return Ok(Some(block)),
                    Ok(false) => (reader.totals(), None, 0),
                    Err(error) => (reader.totals(), Some(error), 0),
                }
            }
            Reading::Apart { blocks, .. } => match blocks.recv() {
                Ok(Said::Block(block)) => return Ok(Some(block)),
                Ok(Said::End(end)) => *end,
                Err(_) => {
                    let died = TraceError::Thread("the reading thread died".to_owned());
                    (Totals::default(), Some(died), 0)
                }
            },
        };
        self.totals = totals;
        self.cpu_ns = cpu_ns;
        self.end();
        failed.map_or(Ok(None), Err)
    }

    /// Gives a block back to be filled again.
    pub fn recycle(&mut self, block: Block) {
        match &mut self.reading {
            Reading::Apart { empty, done, .. } => {
                done.push(block);
                if done.len() >= TOGETHER {
                    // A reader that has ended needs none.
                    done.drain(..).for_each(|block| drop(empty.send(block)));
                }
            }
            Reading::Here { spare, .. } => *spare = block,
            Reading::Ended => {}
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

    /// CPU time of the reader's own thread, once that has ended, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns
    }

    /// No block comes any more.
    fn end(&mut self) {
        if let Reading::Apart {
            blocks,
            empty,
            thread,
            ..
        } = std::mem::replace(&mut self.reading, Reading::Ended)
        {
            // The thread ends when nobody listens.
            drop((blocks, empty));
            // A panic in there was told as an error when its channel closed.
            let _ = thread.join();
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.watcher.stop();
        self.end();
    }
}
