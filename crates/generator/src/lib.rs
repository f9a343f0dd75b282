//! What every load generator shares, whatever it sends: when operations come, what is measured of
//! them, and whether the generator was itself the limit.
//!
//! Flow: a [`Schedule`] plans instants; a thread enters what comes into its [`Accounts`] and tells
//! when it leaves; its [`ThreadMeter`] knows what processor it had. [`guard`] judges by them.
//!
//! Decisions: a protocol's crate keeps its own loop, its requests and its report: an NFS thread
//! polls one engine and spins for the next instant, a web thread drives connections with lines
//! and timers of their own, and a phase of files waits in each system call.

mod accounts;
pub mod guard;
mod observer;
mod schedule;
mod thread;
mod times;

pub use accounts::{Accounts, Little};
pub use guard::Reason;
pub use observer::{Cancelled, NotBegun, Observer, TICK_NS, start_ns};
pub use schedule::{Arrivals, Schedule, Share};
pub use thread::{ThreadMeter, ThreadReport};
pub use times::Times;
