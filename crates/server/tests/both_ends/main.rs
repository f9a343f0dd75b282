//! Our client against our server over loopback: every procedure, restarts, planted causes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::result_large_err
)]

#[path = "../process/mod.rs"]
mod process;
#[path = "../trees/mod.rs"]
mod trees;
#[path = "../../../client/tests/all/waits/mod.rs"]
mod waits;

mod forgetful;
mod ganesha;
mod killed;
mod pair;
mod planted;
mod procedures;
mod restarts;
