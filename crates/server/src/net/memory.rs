//! What is held for clients, all together: requests that are not whole or wait, calls in work,
//! replies that are not taken.
//!
//! Each connection may always hold [`GUARANTEED_BYTES`], whatever the others do: a client of small
//! calls never waits for memory. The rest is shared. A connection with much in hand gets at most
//! an eighth of what is free (dynamic thresholds: Choudhury and Hahne 1998), so that one alone has
//! plenty, many have little each, and some is always left for the next. One with nothing in hand
//! may have a whole call of any size as long as there is room; else it waits its turn, and those
//! that have taken and sent nothing for longest are closed for it ([`super::event_loop`]).

use super::MAX_CONNECTIONS;
use crate::store::READ_BYTES_MAX;
use wire::record::MAX_SPARE_BYTES;

/// What each connection may hold in any case, bytes: a READ or WRITE of 64 KiB, or some ninety
/// small calls.
pub const GUARANTEED_BYTES: usize = 128 << 10;
/// What one connection may hold at most, bytes.
pub const MAX_CONNECTION_BYTES: usize = 16 << 20;
/// What all connections together may hold unless the options say otherwise, bytes.
pub const DEFAULT_MEMORY_BYTES: usize = 256 << 20;
/// The least that can be asked for: the guaranteed part, and a few of the largest calls.
pub const MIN_MEMORY_BYTES: usize = MAX_CONNECTIONS * GUARANTEED_BYTES + 4 * CALL_BYTES_MAX;
/// One call of the largest size, with its reply, bytes.
pub(super) const CALL_BYTES_MAX: usize = 3 * READ_BYTES_MAX as usize;
/// The part of what is free that a connection with much in hand may have.
const SHARE: usize = 8;

/// What a connection may claim of the shared part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Nothing: others wait for it.
    Nothing,
    /// Its share: it has calls in work or replies that wait.
    Share,
    /// Enough for a whole call: it has nothing in hand but, perhaps, that call.
    Call,
}

/// The books.
#[derive(Debug)]
pub(super) struct Memory {
    shared_most: usize,
    /// Held beyond the guarantees.
    shared: usize,
    /// Held by all.
    held: usize,
    /// The most that was held.
    peak: usize,
}

/// What of `held` is beyond the guarantee.
fn beyond(held: usize) -> usize {
    held.saturating_sub(GUARANTEED_BYTES)
}

impl Memory {
    /// `most_bytes` for all connections together, 0 for the default; [`MIN_MEMORY_BYTES`] at least
    /// (whoever starts a server with less is told).
    pub fn new(most_bytes: usize) -> Self {
        let most = match most_bytes {
            0 => DEFAULT_MEMORY_BYTES,
            most => most.max(MIN_MEMORY_BYTES),
        };
        Memory {
            shared_most: most - MAX_CONNECTIONS * GUARANTEED_BYTES,
            shared: 0,
            held: 0,
            peak: 0,
        }
    }

    /// A connection holds `after` bytes, `before` until now.
    pub fn change(&mut self, before: usize, after: usize) {
        self.held = self.held + after - before;
        self.shared = self.shared + beyond(after) - beyond(before);
        self.peak = self.peak.max(self.held);
    }

    /// Bytes held by all.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The most bytes that were held.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// What of the shared part nobody holds, bytes.
    fn free(&self) -> usize {
        self.shared_most.saturating_sub(self.shared)
    }

    /// Bytes that a connection may take on beside the `held` that are on the books for it.
    pub fn room(&self, held: usize, claim: Claim) -> usize {
        let shared = match claim {
            Claim::Nothing => 0,
            Claim::Share => {
                let most = (self.free() / SHARE).saturating_sub(beyond(held));
                most.min(MAX_CONNECTION_BYTES.saturating_sub(held.max(GUARANTEED_BYTES)))
            }
            Claim::Call => self.free().min(CALL_BYTES_MAX.saturating_sub(held)),
        };
        // A record that is put together may have some more room than bytes.
        (GUARANTEED_BYTES.saturating_sub(held) + shared).saturating_sub(MAX_SPARE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_alone_has_plenty_and_many_leave_some_for_the_next() {
        let mut memory = Memory::new(0);
        let mut held = [0; MAX_CONNECTIONS];
        let alone = memory.room(GUARANTEED_BYTES, Claim::Share);
        assert_eq!(
            alone,
            MAX_CONNECTION_BYTES - GUARANTEED_BYTES - MAX_SPARE_BYTES
        );
        for one in &mut held[..MAX_CONNECTIONS - 1] {
            // All take what they get, in pieces of 8 KiB, again and again.
            while memory.room(*one, Claim::Share) >= 8192 {
                memory.change(*one, *one + 8192);
                *one += 8192;
            }
        }
        assert!(memory.held() <= DEFAULT_MEMORY_BYTES);
        // The one that comes last has its guarantee all the same.
        let last = memory.room(0, Claim::Nothing);
        assert_eq!(last, GUARANTEED_BYTES - MAX_SPARE_BYTES);
    }

    proptest! {
        #[test]
        fn the_sum_is_never_passed(
            steps in proptest::collection::vec((0usize..40, 0u8..3, any::<u32>()), 1..400),
        ) {
            let mut memory = Memory::new(MIN_MEMORY_BYTES);
            let mut held = [0usize; 40];
            for (who, what, bytes) in steps {
                let claim = [Claim::Nothing, Claim::Share, Claim::Call][what as usize];
                let room = memory.room(held[who], claim);
                let after = match bytes % 3 {
                    0 => held[who] / 2,
                    _ => held[who] + (bytes as usize).min(room),
                };
                memory.change(held[who], after);
                held[who] = after;
                prop_assert_eq!(memory.held(), held.iter().sum::<usize>());
                prop_assert!(memory.held() <= MIN_MEMORY_BYTES);
                prop_assert!(memory.shared <= memory.shared_most);
            }
        }
    }
}
