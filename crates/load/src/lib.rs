//! NFS load generator: a mix of operations at an offered load, and how long each of them takes.
//!
//! Purpose: the question of SPEC SFS (LADDIS): as the offered load rises, what is achieved, and
//! how long does a request take? On the user-space client: no mount and no cache in the way.
//!
//! Flow: [`Plan`] (JSON) → [`Checked`] → [`prepare()`]: the file set is made, extended or
//! found → [`run`]: threads, each with an engine, its own files and its own meter → [`Report`].
//! Of several processes: [`run_part`] in each → [`Sums`] → [`merge`] → [`Report`].
//!
//! Decisions:
//! * Latency is from the *planned* instant: what waits for a slot has waited, and what could not
//!   be sent is counted.
//! * Every reply is decoded and checked; what ought not to be is counted by operation and kind and
//!   makes the point invalid ([`guard`]), the rest goes on.
//! * A generator that was itself the limit makes its point invalid ([`guard`]).
//! * The file set is sized by the offered load alone, and is a function of seed and number.
//! * Nothing is shared between threads in the timed loop: files belong to threads.
//!
//! Limits: NFS version 3; one mount per thread; the constants of [`plan`].

mod check;
mod checked;
pub mod content;
pub mod error;
mod exchange;
pub mod fault;
pub mod guard;
pub mod layout;
mod meter;
pub mod operation;
pub mod plan;
mod point;
pub mod prepare;
pub mod progress;
pub mod report;
mod run;
mod source;
mod sums;
mod targets;
mod worker;

pub use checked::Checked;
pub use error::LoadError;
pub use generator::{Cancelled, Observer};
pub use operation::Operation;
pub use plan::{Plan, SCHEMA};
pub use point::{Lost, merge};
pub use prepare::{Prepared, prepare};
pub use progress::Progress;
pub use report::Report;
pub use run::{Records, run, run_part};
pub use sums::Sums;
