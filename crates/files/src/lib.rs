//! The file workload: what Bonnie measured, and what databases and servers of today need.
//!
//! Purpose: load a directory with file accesses of known patterns and say how fast, how evenly and
//! at what cost of CPU they went, so that storages can be compared.
//!
//! Flow: [`Config`] → [`config::Plan`] → [`run`]: files are made in a directory of their own; each
//! phase runs on its threads (`step`, `worker`, `loops`), each thread with its own `meter`;
//! results are added up (`report`); files are removed.
//!
//! Decisions: the phases are Bonnie's, in the order of its table, then random reads and writes
//! with syncs. Threads work on disjoint ranges of blocks (`layout`), so that the content of every
//! block is known at any time and can be checked on reading (`content`). A writing phase ends with
//! fsync inside its time by default; time until the last write and time of the sync are told
//! apart. CPU time is that of the workers, as seen by the kernel's accounting of threads: what the
//! kernel does in its own threads (writeback, NFS) is not in it.
//!
//! Limits: [`config`] names them all. A system call that hangs (a dead hard mount) cannot be
//! cancelled from here. mmap and io_uring are not covered.

mod buffer;
pub mod config;
pub mod content;
mod error;
pub mod layout;
mod loops;
mod meter;
pub mod phase;
pub mod report;
mod run;
mod step;
mod stream;
mod syscalls;
mod worker;
mod workspace;

pub use config::{Config, Part, SCHEMA};
pub use error::FilesError;
pub use phase::Phase;
pub use report::Outcome;
pub use run::{Failure, Meeting, Observer, Progress, run};
