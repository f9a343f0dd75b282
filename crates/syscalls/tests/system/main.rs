//! The ways to see system calls, against programs whose calls are known.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "../programs/mod.rs"]
mod programs;

mod left_out;
mod shim_ring;
mod shim_table;
mod shipped_object;
mod tally_exact;
mod used_again;
mod waits_exact;
mod waits_sampled;
