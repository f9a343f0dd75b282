//! The ring of waiting calls, and how one is found by its transaction id ([`super::index`]).
//!
//! Calls enter the ring as they come and leave it in the order of their first bytes: memory is
//! gone through front to back, not at random.
//!
//! What only some want to know of a call ([`Detail`]) lies in a ring of its own, or nowhere.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::index::{InRing, Index};
use super::open::{Detail, Kept, Open, has};
use super::ring::Ring;
use crate::call::marks;

/// Steps that a call which was overtaken goes back in the order of the calls; bounds the work for
/// captures out of any order.
const MAX_STEPS_BACK: usize = 1 << 16;

/// All waiting calls.
#[derive(Debug, Default)]
pub struct Table {
    ring: Ring<Kept>,
    /// As long as `ring`, or empty.
    details: Ring<Detail>,
    keeps_details: bool,
    /// Numbers (low bits) of calls not given out, in the order of their first bytes. Empty while
    /// that is the order of the ring.
    order: VecDeque<u32>,
    /// First byte of the last call of `order`.
    last_first_ns: i64,
    index: Index,
    /// Further pairs over which a call was sent.
    aliases: HashMap<(u32, u32), u64>,
    /// Calls in the ring that were answered and not given out.
    answered: usize,
}

impl Table {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.ring.len() == 0
    }

    /// Places of the ring in use.
    #[inline(always)]
    pub fn ring_len(&self) -> usize {
        self.ring.len()
    }

    /// Calls in the ring that were answered.
    #[inline(always)]
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// A call's first reply came.
    #[inline(always)]
    pub fn count_answered(&mut self) {
        self.answered += 1;
    }

    /// Whether details of calls are kept.
    pub fn keeps_details(&self) -> bool {
        self.keeps_details
    }

    /// Whether details of calls are to be kept; to be said before the first one.
    pub fn keep_details(&mut self, kept: bool) {
        self.keeps_details = kept;
    }

    /// A waiting call.
    #[inline(always)]
    pub fn get(&self, number: u64) -> Option<&Kept> {
        self.ring.get(number)
    }

    /// A waiting call.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Kept> {
        self.ring.get_mut(number)
    }

    /// Details of a waiting call, if they are kept.
    #[inline(always)]
    pub fn detail(&self, number: u64) -> Option<&Detail> {
        self.details.get(number)
    }

    /// Details of a waiting call, if they are kept.
    #[inline(always)]
    pub fn detail_mut(&mut self, number: u64) -> Option<&mut Detail> {
        self.details.get_mut(number)
    }

    /// A copy of a waiting call, to be worked on.
    #[inline(always)]
    pub fn take(&self, number: u64) -> Option<Open> {
        Some(Open {
            kept: *self.get(number)?,
            detail: self.detail(number).copied().unwrap_or_default(),
        })
    }

    /// Puts it back.
    #[inline(always)]
    pub fn put(&mut self, number: u64, open: &Open) {
        if let Some(kept) = self.ring.get_mut(number) {
            *kept = open.kept;
        }
        if let Some(detail) = self.details.get_mut(number) {
            *detail = open.detail;
        }
    }

    #[inline(always)]
    fn number(&self, low: u32) -> u64 {
        let base = self.ring.base();
        base + u64::from(low.wrapping_sub(base as u32))
    }

    #[inline(always)]
    fn in_ring(&self) -> InRing {
        InRing {
            base: self.ring.base() as u32,
            length: self.ring.len() as u32,
        }
    }

    /// The number of the call of this pair with this transaction id.
    #[inline(always)]
    pub fn find(&self, peer: u32, xid: u32) -> Option<u64> {
        let is = |low| {
            self.get(self.number(low))
                .is_some_and(|open| (open.peer == peer) & (open.xid == xid) & open.is_to_be_found())
        };
        match self.index.find([peer, xid], self.in_ring(), is) {
            Some(low) => Some(self.number(low)),
            None if self.aliases.is_empty() => None,
            None => self.aliases.get(&(peer, xid)).copied(),
        }
    }

    /// The call is also known under this pair.
    pub fn alias(&mut self, peer: u32, xid: u32, number: u64) {
        self.aliases.insert((peer, xid), number);
    }

    /// Further pairs over which a call was sent.
    pub fn aliases_of(&self, number: u64) -> Vec<u32> {
        let aliases = self.aliases.iter();
        let own = aliases.filter(|(_, aliased)| **aliased == number);
        own.map(|((peer, _), _)| *peer).collect()
    }

    /// Takes a call in; returns its number. Another call of the same pair and transaction id must
    /// have been given up before ([`Table::supersede`]).
    #[inline(always)]
    pub fn push(&mut self, open: &Open) -> u64 {
        self.push_detailed(open.kept, open.detail)
    }

    /// A call in its two parts; [`Table::keep_details`] tells whether the second one stays.
    #[inline(always)]
    pub fn push_detailed(&mut self, kept: Kept, detail: Detail) -> u64 {
        if self.keeps_details {
            self.details.push(detail);
        }
        self.push_kept(kept)
    }

    /// The same of a call without details: they must not be kept.
    #[inline(always)]
    pub fn push_kept(&mut self, open: Kept) -> u64 {
        let was_empty = self.is_empty();
        let (key, first_ns) = ([open.peer, open.xid], open.call_first_ns);
        let number = self.ring.push(open);
        if !self.index.insert(key, number as u32, self.in_ring()) {
            self.enter_with_room(key, number);
        }
        if first_ns >= self.last_first_ns || was_empty {
            self.last_first_ns = first_ns;
            if !self.order.is_empty() {
                self.order.push_back(number as u32);
            }
        } else {
            self.insert_in_order(number, first_ns);
        }
        number
    }

    /// Enters a call into the index once it has room for it.
    #[cold]
    #[inline(never)]
    fn enter_with_room(&mut self, key: [u32; 2], number: u64) {
        let in_ring = self.in_ring();
        let (ring, base) = (&self.ring, self.ring.base());
        let xid = |low: u32| {
            let number = base + u64::from(low.wrapping_sub(base as u32));
            ring.get(number).map_or(0, |open| open.xid)
        };
        if self.index.make_room(key[0], in_ring, xid) {
            self.index.insert(key, number as u32, in_ring);
        } else {
            self.index_anew();
        }
    }

    /// Enters all calls into an index that has just the room for them.
    #[cold]
    fn index_anew(&mut self) {
        let (base, in_ring) = (self.ring.base(), self.in_ring());
        let numbers = base..base + self.ring.len() as u64;
        let waiting = |open: &&Kept| open.has & has::RELEASED == 0;
        let mut counts: Vec<u32> = Vec::new();
        for open in numbers.clone().filter_map(|number| self.ring.get(number)) {
            let peer = open.peer as usize;
            if counts.len() <= peer {
                counts.resize(peer + 1, 0);
            }
            counts[peer] += u32::from(waiting(&open));
        }
        self.index.clear(&counts, in_ring);
        for number in numbers {
            let Some(open) = self.ring.get(number).filter(waiting) else {
                continue;
            };
            let key = [open.peer, open.xid];
            let found = open.is_to_be_found();
            self.index.insert(key, number as u32, in_ring);
            if !found {
                self.index.remove(key, number as u32, in_ring);
            }
        }
    }

    /// A call whose first byte came before that of calls that were whole earlier.
    #[cold]
    fn insert_in_order(&mut self, number: u64, first_ns: i64) {
        if self.order.is_empty() {
            let before = self.ring.base()..number;
            self.order.extend(before.map(|number| number as u32));
        }
        let mut place = self.order.len();
        let lowest = place.saturating_sub(MAX_STEPS_BACK);
        while place > lowest {
            let Some(before) = self.order.get(place - 1) else {
                break;
            };
            match self.get(self.number(*before)) {
                Some(open) if open.call_first_ns > first_ns => place -= 1,
                _ => break,
            }
        }
        self.order.insert(place, number as u32);
    }

    /// Another call took this one's transaction id.
    pub fn supersede(&mut self, number: u64) {
        let in_ring = self.in_ring();
        let Some(open) = self.ring.get_mut(number) else {
            return;
        };
        open.has |= has::SUPERSEDED;
        // Or else a client that uses one id for all its calls would have us look at all of them.
        self.index
            .remove([open.peer, open.xid], number as u32, in_ring);
        if open.marks & marks::RECONNECTED != 0 {
            self.forget_aliases(number);
        }
    }

    #[cold]
    fn forget_aliases(&mut self, number: u64) {
        self.aliases.retain(|_, aliased| *aliased != number);
    }

    /// The call whose turn it is to be given out.
    #[inline(always)]
    pub fn front(&self) -> Option<(u64, &Kept)> {
        let number = match self.order.front() {
            Some(low) => self.number(*low),
            None => self.ring.base(),
        };
        self.get(number).map(|open| (number, open))
    }

    /// Takes the first of the ring out, where its order is that of the calls.
    #[inline(always)]
    fn release_base(&mut self) {
        let number = self.ring.base();
        let Some(open) = self.ring.get(number) else {
            return;
        };
        self.answered -= usize::from(open.replies > 0);
        self.index.left(open.peer);
        if open.marks & marks::RECONNECTED != 0 {
            self.forget_aliases(number);
        }
        self.ring.pop_front();
        self.details.pop_front();
    }

    /// Takes that call out.
    #[inline(always)]
    pub fn release_front(&mut self) {
        let Some(low) = self.order.pop_front() else {
            return self.release_base();
        };
        let number = self.number(low);
        let Some(open) = self.ring.get_mut(number) else {
            return;
        };
        open.has |= has::RELEASED;
        self.index.left(open.peer);
        let reconnected = open.marks & marks::RECONNECTED != 0;
        if open.replies > 0 {
            self.answered -= 1;
        }
        while let Some(front) = self.ring.get(self.ring.base())
            && front.has & has::RELEASED != 0
        {
            self.ring.pop_front();
            self.details.pop_front();
        }
        if reconnected {
            self.forget_aliases(number);
        }
    }
}

impl Table {
    /// Whether it goes on as `other` does, its calls being `same`, in the same order.
    pub fn state_eq(&self, other: &Self, mut same: impl FnMut(&Open, &Open) -> bool) -> bool {
        // With its place in the order of coming.
        let at = |table: &Self, place: usize| -> Option<(Open, u64)> {
            let number = match table.order.get(place) {
                Some(low) => table.number(*low),
                None => table.ring.base() + place as u64,
            };
            Some((table.take(number)?, number - table.ring.base()))
        };
        let all_in_order = |it: &Self| it.order.is_empty() || it.order.len() == it.ring.len();
        let begun = |it: &Self| (!it.is_empty()).then_some(it.last_first_ns);
        self.ring.len() == other.ring.len()
            && (self.answered, begun(self)) == (other.answered, begun(other))
            && self.aliases.is_empty()
            && other.aliases.is_empty()
            && all_in_order(self)
            && all_in_order(other)
            && (0..self.ring.len()).all(|place| {
                let pair = at(self, place).zip(at(other, place));
                pair.is_some_and(|((ours, came), (theirs, they_came))| {
                    came == they_came && same(&ours, &theirs)
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_calls_with_one_transaction_id_only_the_last_is_looked_at() {
        let mut table = Table::default();
        let (peer, xid) = (7, 0x1234_5678);
        let push = |table: &mut Table| {
            if let Some(number) = table.find(peer, xid) {
                table.supersede(number);
            }
            table.push_kept(Kept::new(peer, [xid, 100_003, 3, 1]))
        };
        // The index is made anew at some of them.
        for count in 0..3000 {
            assert_eq!(push(&mut table), count);
            let looked_at = std::cell::RefCell::new(vec![]);
            let none = |number| {
                looked_at.borrow_mut().push(number);
                false
            };
            table.index.find([peer, xid], table.in_ring(), none);
            assert!(
                looked_at
                    .borrow()
                    .iter()
                    .all(|number| *number == count as u32)
            );
            assert!(!looked_at.borrow().is_empty());
        }
    }
}
