//! An embedded NFSv3 server: stores behind one trait, the protocol without sockets, a reply cache,
//! the network loop, and a service model that plants causes.
//!
//! Flow of a call: [`net`] takes a record or datagram, [`protocol`] reads its header, the reply
//! cache is asked if the procedure must not run twice, a service model (if there is one) says when
//! it may start and when its reply may leave, the [`store`] does the work, [`protocol`] encodes,
//! [`net`] sends. [`record`] keeps the instants of each call if asked.
//!
//! Decisions: one loop thread owns all sockets, the reply cache and the model, so none of them has
//! a lock; stores that do not block run in it, the directory store runs on a pool of workers.
//! Everything that a client can make larger is bounded by a named limit.

// Failures carry the RFC's attributes by value: a box for each would cost more than it saves.
#![allow(clippy::result_large_err)]

pub mod caller;
pub mod handle;
pub mod key_file;
pub mod model;
pub mod net;
pub mod protocol;
pub mod record;
pub mod reply_cache;
pub mod store;

pub use caller::Caller;
pub use handle::{Handle, HandleKey};
