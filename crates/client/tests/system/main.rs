//! The client against a peer that answers as it is told to.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod peer;
mod waits;

mod engine;
mod exactly_once;
mod file;
mod handle;
mod options;
