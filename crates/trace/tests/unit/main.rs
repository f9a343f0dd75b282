//! Captures whose contents are known.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod rows;

mod lens_by_lens;
mod parts;
mod quick_way;
mod time_lenses;
mod truth;
