//! What the machine did while a workload ran, read from /proc at a fixed interval.
//!
//! Purpose: evidence beside each run: CPU time by kind, memory and page cache, paging, disks,
//! network interfaces, pressure (PSI), a control group; cheap enough to run beside every
//! measurement, and with its own cost told.
//!
//! Flow: [`Sampler`] starts one thread; at each tick it reads all files through descriptors that
//! stay open (`source`), parses the bytes (`parse`, pure functions), and appends one value to each
//! column (`columns`). Stopping takes a last sample and hands the columns over.
//!
//! Decisions: counters are kept as the kernel counts them since boot, in units of this project
//! (nanoseconds, bytes), never as differences, so a dropped sample loses no event. What the kernel
//! does not have is absent and listed, never zero. A device without any traffic since boot has no
//! columns. Ticks keep to the grid of the start instant; late and missed ones are counted.
//!
//! Limits: [`columns::MAX_CELLS`] values in all; reaching it drops every second sample and halves
//! the rate, which the result tells. [`devices::MAX_DEVICES`] disks and interfaces.

pub mod catalog;
pub mod columns;
pub mod devices;
pub mod parse;
pub mod sample;
mod sampler;
mod source;
pub mod units;

pub use columns::{Column, MISSING};
pub use sampler::{Config, Recording, Sampler, SamplerError};
