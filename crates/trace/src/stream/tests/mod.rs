//! Tests of the streams. Expected messages, instants and losses come from how each stream was
//! made: from the list of its messages, its cuts, and the order of its packets.

mod connections;
mod cuts;
mod kit;
mod losses;
mod parted;
mod splits;
mod traffic;
mod udp;
