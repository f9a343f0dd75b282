//! Captures whose contents are known, or told by another program.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod rows;

mod against_tshark;
mod lens_by_lens;
mod mapped_files;
mod parts;
mod quick_way;
mod time_lenses;
mod truth;
