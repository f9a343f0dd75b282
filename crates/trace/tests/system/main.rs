//! Captures that another program tells of, and files that are cut while they are mapped.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "../unit/rows/mod.rs"]
mod rows;

mod against_tshark;
mod mapped_files;
