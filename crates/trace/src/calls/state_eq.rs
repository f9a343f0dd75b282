//! Whether calls that were matched from the beginning go on as others do that were matched from a
//! checkpoint of a later file; where details of calls are kept, in these, too, but for names.
//!
//! How many calls a pair of hosts made before is left out: it decides only whether a call is looked
//! for on other connections, and [`Calls::take_reached_back`] tells when one was found there.

use std::collections::HashMap;

use super::open::{Kept, NONE, Open, has};
use super::peers::Peer;
use super::{Calls, Output};
use crate::call::{Call, OperationsId, Stamp};
use crate::names::Names;

impl<O: Output> Calls<O> {
    /// Whether these go on as `later` ones do; `numbers` tells what the later ones' connections are
    /// here, `before` how many frames these saw before the later ones' first.
    pub fn state_eq(&self, later: &Self, numbers: &HashMap<u32, u32>, before: u64) -> bool {
        let same_peer = |ours: &Peer, theirs: &Peer| {
            ours.state_eq(theirs) && numbers.get(&theirs.connection) == Some(&ours.connection)
        };
        let mut known: HashMap<u32, u32> = HashMap::new();
        let mut peers_agree = |ours: u32, theirs: u32| match known.get(&theirs) {
            Some(found) => *found == ours,
            None => {
                known.insert(theirs, ours);
                let pair = self.peers.get(ours).zip(later.peers.get(theirs));
                pair.is_some_and(|(ours, theirs)| same_peer(ours, theirs))
            }
        };
        let operations = |calls: &Self, id: u32| match id {
            NONE => None,
            id => Some(calls.names.operations(OperationsId(id)).to_vec()),
        };
        let detailed = |calls: &Self, open: &Open| -> Option<Call> {
            let call = open.call(0, calls.peers.get(open.peer)?);
            Some(Call {
                operations: None,
                connection: 0,
                file: None,
                ..call
            })
        };
        let same_file = |ours: &Open, theirs: &Open| match (ours.detail.file, theirs.detail.file) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => self.names.is_same(ours, &later.names, theirs),
            _ => false,
        };
        let same_detail = |ours: &Open, theirs: &Open| {
            !self.table.keeps_details()
                || same_file(ours, theirs)
                    && detailed(self, ours) == detailed(later, theirs).map(|it| shifted(it, before))
        };
        let same_call = |ours: &Open, theirs: &Open| {
            let plain = |it: &Kept| Kept {
                peer: 0,
                operations: 0,
                // The full way notes more than the quick one; what stays of it is compared below.
                has: it.has & (has::SUPERSEDED | has::RELEASED),
                ..*it
            };
            plain(&ours.kept) == plain(&theirs.kept)
                && same_detail(ours, theirs)
                && peers_agree(ours.peer, theirs.peer)
                && ((ours.operations == NONE && theirs.operations == NONE)
                    || operations(self, ours.operations) == operations(later, theirs.operations))
        };
        self.orphans.is_empty()
            && later.orphans.is_empty()
            && self.table.state_eq(&later.table, same_call)
    }

    /// Whether something since this was asked last depends on what was read before any checkpoint.
    pub fn take_reached_back(&mut self) -> bool {
        std::mem::take(&mut self.reached_back)
    }

    /// Names, and where what is found goes.
    pub fn names_and_output(&mut self) -> (&Names, &mut O) {
        (&self.names, &mut self.output)
    }
}

/// The same call where so many frames came before.
fn shifted(call: Call, before: u64) -> Call {
    let later = |stamp: Stamp| Stamp {
        frame: stamp.frame.wrapping_add(before),
        ..stamp
    };
    Call {
        call_first: later(call.call_first),
        call_last: later(call.call_last),
        last_send: later(call.last_send),
        reply_first: call.reply_first.map(later),
        reply_last: call.reply_last.map(later),
        ..call
    }
}
