//! The sampler's reading and recording.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod golden;
mod recording;
