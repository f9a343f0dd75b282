//! Calls that wait for a worker: who has asked for little is served before who has asked for much.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng 1997): each call starts, in virtual time, where
//! the one before it of the same connection ended, or now if there is none; the earliest start is
//! served first. So beside any number of connections with thousands of READs waiting, a client's
//! single call is the next one. Calls of one connection stay in order. The loop bounds how many.

use std::collections::BTreeMap;

/// What any call costs beside its bytes, in bytes' worth of work.
const CALL_COST: u64 = 32 << 10;

/// Where a connection's next call starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow(u64);

/// The queue.
#[derive(Debug)]
pub struct FairQueue<T> {
    waiting: BTreeMap<(u64, u64), T>,
    now: u64,
    pushed: u64,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        FairQueue {
            waiting: BTreeMap::new(),
            now: 0,
            pushed: 0,
        }
    }
}

impl<T> FairQueue<T> {
    /// Adds a call of `flow` that moves so many bytes.
    pub fn push(&mut self, flow: &mut Flow, bytes: usize, item: T) {
        let start = flow.0.max(self.now);
        flow.0 = start + bytes as u64 + CALL_COST;
        self.waiting.insert((start, self.pushed), item);
        self.pushed += 1;
    }

    /// Takes the next one.
    pub fn pop(&mut self) -> Option<T> {
        let ((start, _), item) = self.waiting.pop_first()?;
        self.now = start;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_single_call_does_not_wait_for_what_others_have_piled_up() {
        let mut queue = FairQueue::default();
        let mut greedy = [Flow::default(); 200];
        for round in 0..16 {
            for (who, flow) in greedy.iter_mut().enumerate() {
                queue.push(flow, 1 << 20, (who, round));
            }
        }
        // All have had their first; then one asks for little, again and again.
        for _ in 0..200 {
            assert_eq!(queue.pop().map(|(_, round)| round), Some(0));
        }
        let mut modest = Flow::default();
        let mut others = 0;
        for _ in 0..20 {
            queue.push(&mut modest, 200, (999, 0));
            others += std::iter::from_fn(|| queue.pop().filter(|(who, _)| *who != 999)).count();
        }
        // Ties of the start: at most one call of each, once.
        assert!(
            others <= 200,
            "{others} calls of others came before 20 of one"
        );
    }

    proptest! {
        #[test]
        fn all_come_once_and_each_flow_in_order(
            steps in proptest::collection::vec(
                (0usize..5, 0usize..2_000_000, any::<bool>()), 0..200,
            ),
        ) {
            let mut queue = FairQueue::default();
            let mut flows = [Flow::default(); 5];
            let (mut sent, mut got) = (vec![0; 5], vec![0; 5]);
            let mut take = |queue: &mut FairQueue<(usize, usize)>| {
                let Some((who, number)) = queue.pop() else { return false };
                assert_eq!(number, got[who]);
                got[who] += 1;
                true
            };
            for (who, bytes, pop) in steps {
                queue.push(&mut flows[who], bytes, (who, sent[who]));
                sent[who] += 1;
                if pop {
                    take(&mut queue);
                }
            }
            while take(&mut queue) {}
            prop_assert_eq!(sent, got);
        }
    }
}
