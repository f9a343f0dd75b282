//! The server's stores, protocol and sockets.
//! One program for all of these tests: each one more takes seconds to build.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::result_large_err,
    clippy::too_many_lines,
    clippy::unwrap_used
)]

mod calls;
mod exported;
mod process;
mod sockets;
mod trees;
#[path = "../../../client/tests/system/waits/mod.rs"]
mod waits;

mod both_ends;
mod containment;
mod containment_races;
mod directory_bounds;
mod foreign_client;
mod hostile_clients;
mod ids_of_nobody;
mod kill_and_restart;
mod many_connections;
mod memory_limits;
mod over_sockets;
mod owners_and_modes;
mod protocol;
mod recording;
mod sent_again;
mod service_model;
mod store_contract;
mod stores_agree;
