//! What the loop counts: cheap, always on, read from other threads.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        /// Counters that the loop moves.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$meta])* pub $name: AtomicU64),* }
        /// Their values at a moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $($(#[$meta])* pub $name: u64),* }
        impl Counters {
            /// All values now.
            pub fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
        impl Counts {
            /// (name, value) of each.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}
counters! {
    /// Calls taken.
    calls,
    /// Replies made.
    replies,
    /// Messages that were no calls.
    ignored_messages,
    /// Connections taken.
    connections,
    /// Connections closed because the address, or whose socket it is, is not allowed.
    refused_connections,
    /// Connections closed because there were too many.
    surplus_connections,
    /// Connections closed because of their bytes or a socket's error.
    broken_connections,
    /// Datagrams from addresses, or sockets of users, that are not allowed.
    refused_datagrams,
    /// Datagrams dropped because too many calls were in work.
    surplus_datagrams,
    /// Replies that no datagram holds, or that the socket did not take.
    unsent_datagrams,
    /// Calls sent again that were answered from the reply cache.
    duplicates_answered,
    /// Calls sent again that were dropped because the first was running.
    duplicates_dropped,
    /// Datagrams that the model lost.
    model_lost,
    /// Replies that the model sent twice.
    model_doubled,
    /// Times that a connection was not read because of back-pressure.
    back_pressure,
    /// Times that a call waited for memory that others held.
    memory_waits,
    /// Connections closed because others wanted what they held and they took and sent nothing.
    stalled_connections,
    /// Bytes held now for requests, calls in work and replies of all connections.
    held_bytes,
    /// The most that ever was.
    held_bytes_peak,
    /// Times that memory was given back to the operating system.
    memory_given_back,
}

/// Moves a counter on.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
