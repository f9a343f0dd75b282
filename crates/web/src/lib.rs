//! Web serving as a workload, in the manner of SPECweb99: a file set, a load, a small server.
//!
//! Purpose: many small files read whole, a Zipf of directories, a little dynamic work, a log that
//! is appended to, and a measure that is no rate: how many connections still get their line's
//! speed.
//!
//! Flow: [`fileset::write`] makes the documents → a web server, or [`server::WebServer`], serves
//! them → [`load::run`]: threads with connections of their own, each with a meter →
//! [`load::Report`]. Of several processes: [`load::run_part`] in each → [`load::Sums`] →
//! [`load::merge`] → the report. What generator and server both have to know of a request and its
//! reply is in [`page`].
//!
//! Decisions:
//! * Every reply's status and length are checked, the bytes of a share of them; a wrong one is
//!   counted by kind, and the load goes on.
//! * Latency is from the planned instant; late and skipped requests are counted.
//! * A line's speed is made by reading no faster; what the line still carries has not arrived.
//! * Threads share two counters for who watches, nothing else; a request costs no allocation.
//!
//! Limits: HTTP/1.1 without TLS, no pipelining, one server address.

pub mod error;
pub mod fileset;
pub mod load;
pub mod page;
pub mod progress;
pub mod reply;
pub mod server;

pub use error::WebError;
pub use generator::{Cancelled, Observer};
pub use progress::Progress;

/// Version of configurations, reports and the file set's definition.
pub const SCHEMA: u32 = 1;
