//! Opening captures and reading them as blocks of segments, on a thread of their own.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

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
