//! The mount as programs see it: with a server that works, and with one that does not.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod mounted;

mod consistency;
mod dead_server;
mod errors;
mod lifecycle;
mod names;
mod operations;
mod random_operations;
mod what_servers_lack;
mod writeback;
