//! Opening captures and reading them as blocks of segments, on a thread of their own.
//!
//! ```text
//! raw ──> compression ──> pcap | pcapng ──> sink ──> packet ──> Block
//! read(2)  gzip, zstd      Record                    Segment
//! mapped ───────────────────┘
//! ```
//!
//! [`Reader`] reads several inputs as one capture. A file that is not compressed is mapped, and a
//! [`crate::Block`] points into it; other bytes go from read(2) straight into a recycled block.
//! Packets are looked at where they lie; one cut at a block's end begins the next one, or is
//! carried to its front. Frame numbers go on from file to file; files given in another order than
//! their first packets' times are put in order, which is counted. Files that were captured side by
//! side are not merged by time; that they overlap is counted.
//! [`spawn`] runs a reader on a thread; blocks come and go through bounded channels.
//!
//! What cannot be read at all is a [`crate::TraceError`]; a regular file tells so when it is
//! opened, a stream when its first bytes come. What can be read in part is read, and counted in
//! [`Totals::anomalies`].
//!
//! Limits: one capture file is read by one thread, decompression included.

mod bounds;
mod compression;
mod magic;
mod mapped;
mod order;
mod pcap;
mod pcapng;
mod pcapng_block;
mod progress;
mod raw;
mod reader;
mod sink;
mod start;
mod thread;
mod window;

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

pub use bounds::Bounds;
pub use mapped::Stretch;
pub use order::in_order;
pub use progress::Watcher;
pub use reader::Reader;
pub(crate) use reader::overlaps;
pub use sink::{Part, Totals};
pub use thread::{Blocks, spawn};

/// Where captured bytes come from.
#[derive(Debug)]
pub enum Input {
    /// A file: pcap or pcapng, perhaps compressed with gzip or zstd.
    File(PathBuf),
    /// A pipe or other stream that was opened already, with a name for messages.
    Stream {
        /// Name for messages, such as `standard input`.
        name: String,
        /// The descriptor.
        descriptor: OwnedFd,
    },
}

impl Input {
    /// Name for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Stream { name, .. } => name.clone(),
        }
    }
}
