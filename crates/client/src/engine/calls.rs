//! The table of calls: slots, transaction ids, and the queue of those not sent yet.
//!
//! A slot keeps its buffer when its call ends, so that the next one allocates nothing. An entry in
//! some queue names a slot and its generation; when the call ends the generation moves on, and the
//! entry is stale.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::request::{SharedBytes, Times};
use super::timers::CallTimer;

/// Message buffers above this are given back when their call ends.
const KEPT_BUFFER_BYTES: usize = 16 << 10;

/// Where a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// No call.
    #[default]
    Free,
    /// Not yet given to a connection.
    Pending,
    /// Given to a connection; waits for its reply.
    Outstanding,
    /// Ended, but its last send stands half written in a stream and has to be finished.
    Draining,
}

/// A call in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub slot: u32,
    pub generation: u32,
}

/// One call.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub state: State,
    pub generation: u32,
    pub token: u64,
    pub xid: u32,
    pub target: [u32; 3],
    pub timer_class: Option<usize>,
    pub connection: usize,
    /// Record mark, RPC header, arguments.
    pub message: Vec<u8>,
    pub payload: Option<SharedBytes>,
    /// Zero bytes behind the payload.
    pub padding: usize,
    pub timer: CallTimer,
    pub sends: u32,
    pub times: Times,
    pub queue_at_enqueue: u32,
    pub outstanding_at_send: u32,
    /// Order of submission.
    pub sequence: u64,
    /// Whether it stands in its connection's send queue.
    pub queued: bool,
}

impl Call {
    /// Bytes of one send over a stream (mark included).
    #[inline]
    pub fn bytes(&self) -> usize {
        let payload = self.payload.as_ref().map_or(0, SharedBytes::len);
        self.message.len() + payload + self.padding
    }
}

/// All calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<Call>,
    unused: Vec<u32>,
    by_xid: HashMap<u32, u32>,
    limit: usize,
    next_xid: u32,
    /// Transaction ids given out so far.
    issued: u64,
    pub pending: VecDeque<Entry>,
    /// Calls that are held back before they are pending.
    pub held: usize,
    pub outstanding: u32,
}

impl Calls {
    /// Room for `limit` calls; transaction ids go up from `first_xid`.
    pub fn new(limit: usize, first_xid: u32) -> Self {
        Calls {
            limit,
            next_xid: first_xid,
            ..Calls::default()
        }
    }

    /// Calls that were not given to a connection so far.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.pending.len() + self.held
    }

    /// Takes a free slot with a fresh transaction id; `None` if all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<(Entry, &mut Call)> {
        let slot = match self.unused.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.limit => {
                let slot = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Call::default());
                slot
            }
            None => return None,
        };
        let xid = self.fresh_xid();
        self.by_xid.insert(xid, slot);
        let sequence = self.issued;
        let call = self.slots.get_mut(slot as usize)?;
        call.state = State::Pending;
        call.xid = xid;
        call.sequence = sequence;
        call.sends = 0;
        call.times = Times::default();
        call.outstanding_at_send = 0;
        call.queued = false;
        call.message.clear();
        let entry = Entry {
            slot,
            generation: call.generation,
        };
        Some((entry, call))
    }

    /// The next id that no call uses. There are far fewer calls than ids, so this ends soon.
    #[inline]
    fn fresh_xid(&mut self) -> u32 {
        loop {
            let xid = self.next_xid;
            self.next_xid = xid.wrapping_add(1);
            self.issued += 1;
            if !self.by_xid.contains_key(&xid) {
                return xid;
            }
        }
    }

    /// Whether the id was given out before (and may be again, after 2^32 calls).
    pub fn was_issued(&self, xid: u32) -> bool {
        let age = u64::from(self.next_xid.wrapping_sub(xid).wrapping_sub(1));
        age < self.issued
    }

    /// The call with this id, whatever its state.
    #[inline]
    pub fn find(&mut self, xid: u32) -> Option<(Entry, &mut Call)> {
        let slot = *self.by_xid.get(&xid)?;
        let call = self.slots.get_mut(slot as usize)?;
        let entry = Entry {
            slot,
            generation: call.generation,
        };
        Some((entry, call))
    }

    /// The call of an entry, unless it has ended.
    #[inline]
    pub fn get(&self, entry: Entry) -> Option<&Call> {
        self.slots
            .get(entry.slot as usize)
            .filter(|call| call.generation == entry.generation)
    }

    /// The call of an entry, unless it has ended.
    #[inline]
    pub fn get_mut(&mut self, entry: Entry) -> Option<&mut Call> {
        self.slots
            .get_mut(entry.slot as usize)
            .filter(|call| call.generation == entry.generation)
    }

    /// All calls that are not free, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (Entry, &Call)> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, call)| call.state != State::Free)
            .map(|(slot, call)| {
                let slot = u32::try_from(slot).unwrap_or(u32::MAX);
                let generation = call.generation;
                (Entry { slot, generation }, call)
            })
    }

    /// The id is forgotten: replies to it are late from now on.
    #[inline]
    pub fn forget_xid(&mut self, xid: u32) {
        self.by_xid.remove(&xid);
    }

    /// Frees a slot; every entry that names its call becomes stale.
    #[inline]
    pub fn release(&mut self, entry: Entry) {
        let Some(call) = self.get_mut(entry) else {
            return;
        };
        call.state = State::Free;
        call.generation = call.generation.wrapping_add(1);
        call.payload = None;
        call.padding = 0;
        call.message.clear();
        if call.message.capacity() > KEPT_BUFFER_BYTES {
            call.message = Vec::new();
        }
        self.unused.push(entry.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_wrap_around_and_pass_over_those_in_use() {
        let mut calls = Calls::new(4, u32::MAX - 1);
        let xid = |calls: &mut Calls| calls.take().map(|(entry, call)| (entry, call.xid));
        let (_, first) = xid(&mut calls).unwrap();
        let (second_entry, second) = xid(&mut calls).unwrap();
        assert_eq!((first, second), (u32::MAX - 1, u32::MAX));
        assert!(calls.was_issued(first) && !calls.was_issued(0) && !calls.was_issued(5));
        calls.next_xid = u32::MAX - 1; // as if 2^32 calls had gone by
        calls.forget_xid(second);
        calls.release(second_entry);
        assert_eq!(
            xid(&mut calls).unwrap().1,
            u32::MAX,
            "the first is still in use"
        );
        assert_eq!(xid(&mut calls).unwrap().1, 0);
        assert_eq!(xid(&mut calls).unwrap().1, 1);
        assert!(xid(&mut calls).is_none(), "four slots");
    }

    #[test]
    fn an_entry_of_an_ended_call_is_stale() {
        let mut calls = Calls::new(1, 7);
        let (entry, _) = calls.take().unwrap();
        calls.forget_xid(7);
        calls.release(entry);
        calls.release(entry); // harmless
        assert!(calls.get(entry).is_none());
        let (again, _) = calls.take().unwrap();
        assert_eq!(again.slot, entry.slot);
        assert!(calls.get(again).is_some() && calls.get(entry).is_none());
        assert!(calls.take().is_none());
    }
}
