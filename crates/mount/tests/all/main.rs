//! The mount as programs see it, with a server that works.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "../mounted/mod.rs"]
mod mounted;

mod consistency;
mod errors;
mod names;
mod operations;
mod what_servers_lack;
mod writeback;
