//! The codec on bytes of others, on its own, and on hostile ones.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::unwrap_used)]

mod captured_messages;
mod hostile_bytes;
mod nfs4_operations;
mod round_trips;
