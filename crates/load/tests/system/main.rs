//! The load generator against a server in the same process.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::unwrap_used)]

mod world;

mod away;
mod datagrams;
mod failing;
mod file_set;
mod point;
mod processes;
