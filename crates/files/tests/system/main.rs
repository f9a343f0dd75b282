//! Whole runs on temporary folders, by one process and by several.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod parts;
mod workload;
