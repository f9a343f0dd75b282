//! Waiting calls by their transaction ids: a window for each pair of caller and called.
//!
//! Clients count their transaction ids up, so a window's places are the ids' low bits: calls that
//! wait at the same time have different ones, and neighbours lie side by side. A place holds a
//! call's number; the ring tells whether it is the call that is looked for. What left the ring need
//! not be taken out: its number tells so, and its place is free for another.
//!
//! A place that is still in use (of clients that choose their ids at random) sends the call into a
//! map of those beyond. Windows grow with the calls that wait; when they have become too many for
//! all that wait they are made anew.

use hashbrown::HashMap;

/// Places of the smallest window.
const LEAST_PLACES: usize = 8;
/// Places of a new window for each call of its pair that waits.
const ROOM: usize = 4;
/// Places of all windows for each call that waits: more are too many.
const MOST_ROOM: usize = 16;
/// Places that all windows may have whatever waits.
const MOST_SPARE: usize = 1 << 16;

/// Numbers (low bits) that are in the ring.
#[derive(Clone, Copy, Debug)]
pub struct InRing {
    /// The front's.
    pub base: u32,
    /// How many there are.
    pub length: u32,
}

impl InRing {
    #[inline(always)]
    fn has(self, number: u32) -> bool {
        number.wrapping_sub(self.base) < self.length
    }

    /// The number that left it last: of all, the one that comes again last.
    fn gone(self) -> u32 {
        self.base.wrapping_sub(1)
    }
}

/// The places of one pair.
#[derive(Clone, Debug, Default)]
struct Window {
    /// A power of two of low bits of calls' numbers, or none.
    numbers: Vec<u32>,
    /// Calls that entered and did not leave.
    waiting: u32,
}

impl Window {
    fn new(waiting: u32, ring: InRing) -> Self {
        let places = waiting as usize * ROOM;
        let places = places.next_power_of_two().max(LEAST_PLACES);
        Window {
            numbers: vec![ring.gone(); places],
            waiting,
        }
    }

    #[inline(always)]
    fn place(&self, xid: u32) -> usize {
        xid as usize & self.numbers.len().wrapping_sub(1)
    }

    /// What is at a transaction id's place.
    #[inline(always)]
    fn at_mut(&mut self, xid: u32) -> Option<&mut u32> {
        let place = self.place(xid);
        self.numbers.get_mut(place)
    }
}

/// Numbers of waiting calls by pair and transaction id.
#[derive(Debug, Default)]
pub struct Index {
    /// By the pair's number.
    windows: Vec<Window>,
    /// Places of all windows.
    places: usize,
    /// Calls that found their place in use; those that left the ring are among them for a while.
    beyond: HashMap<[u32; 2], u32>,
}

impl Index {
    /// The call of this pair with this transaction id. `is` tells whether the one with this number
    /// is it.
    #[inline(always)]
    pub fn find(
        &self,
        [peer, xid]: [u32; 2],
        ring: InRing,
        is: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let window = self.windows.get(peer as usize)?;
        let number = *window.numbers.get(window.place(xid))?;
        if ring.has(number) && is(number) {
            return Some(number);
        }
        match self.beyond.is_empty() {
            true => None,
            false => self.find_beyond([peer, xid], ring, is),
        }
    }

    #[inline(never)]
    fn find_beyond(&self, key: [u32; 2], ring: InRing, is: impl Fn(u32) -> bool) -> Option<u32> {
        let number = *self.beyond.get(&key)?;
        (ring.has(number) && is(number)).then_some(number)
    }

    /// Enters a call that is in the ring, and not found by its key; false if there is no room, and
    /// nothing was done.
    #[inline(always)]
    pub fn insert(&mut self, [peer, xid]: [u32; 2], number: u32, ring: InRing) -> bool {
        let Some(window) = self.windows.get_mut(peer as usize) else {
            return false;
        };
        if window.waiting as usize * 2 >= window.numbers.len() {
            return false;
        }
        window.waiting += 1;
        match window.at_mut(xid) {
            Some(place) if !ring.has(*place) => *place = number,
            _ => self.insert_beyond([peer, xid], number, ring),
        }
        true
    }

    #[inline(never)]
    fn insert_beyond(&mut self, key: [u32; 2], number: u32, ring: InRing) {
        if self.beyond.len() > 2 * ring.length as usize {
            self.beyond.retain(|_, number| ring.has(*number));
        }
        self.beyond.insert(key, number);
    }

    /// Makes room for another call of this pair; false if all has to be made anew
    /// ([`Index::clear`]). `xid` gives the transaction id of a call in the ring.
    pub fn make_room(&mut self, peer: u32, ring: InRing, xid: impl Fn(u32) -> u32) -> bool {
        let peer = peer as usize;
        if peer >= self.windows.len() {
            self.windows.resize(peer + 1, Window::default());
        }
        let Some(window) = self.windows.get_mut(peer) else {
            return false;
        };
        let mut grown = Window::new(window.waiting + 1, ring);
        grown.waiting = window.waiting;
        for number in window.numbers.iter().filter(|number| ring.has(**number)) {
            // Those that had different places have different ones again.
            if let Some(place) = grown.at_mut(xid(*number)) {
                *place = *number;
            }
        }
        self.places += grown.numbers.len() - window.numbers.len();
        *window = grown;
        self.places <= MOST_ROOM * ring.length as usize + MOST_SPARE
    }

    /// Empty, with room for these: how many calls will enter of each pair, by its number.
    pub fn clear(&mut self, waiting: &[u32], ring: InRing) {
        self.beyond = HashMap::new();
        self.windows.clear();
        self.windows
            .extend(waiting.iter().map(|waiting| match waiting {
                0 => Window::default(),
                _ => Window {
                    waiting: 0,
                    ..Window::new(*waiting, ring)
                },
            }));
        self.places = self.windows.iter().map(|it| it.numbers.len()).sum();
    }

    /// A call of this pair that had entered waits no more.
    #[inline(always)]
    pub fn left(&mut self, peer: u32) {
        if let Some(window) = self.windows.get_mut(peer as usize) {
            window.waiting = window.waiting.saturating_sub(1);
        }
    }

    /// Takes a call's number out that is in the ring and is not to be found any more; it still has
    /// to leave.
    #[cold]
    pub fn remove(&mut self, [peer, xid]: [u32; 2], number: u32, ring: InRing) {
        let window = self.windows.get_mut(peer as usize);
        match window.and_then(|window| window.at_mut(xid)) {
            Some(place) if *place == number => *place = ring.gone(),
            _ => drop(self.beyond.remove(&[peer, xid])),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A ring of calls beside the index, and a map that is always right.
    #[derive(Default)]
    struct Model {
        index: Index,
        calls: VecDeque<[u32; 2]>,
        base: u32,
        right: HashMap<[u32; 2], u32>,
        made_anew: u32,
    }

    impl Model {
        fn ring(&self) -> InRing {
            InRing {
                base: self.base,
                length: self.calls.len() as u32,
            }
        }

        fn find(&self, key: [u32; 2]) -> Option<u32> {
            let is = |number: u32| self.calls[number.wrapping_sub(self.base) as usize] == key;
            self.index.find(key, self.ring(), is)
        }

        fn push(&mut self, key: [u32; 2]) {
            let number = self.base.wrapping_add(self.calls.len() as u32);
            self.calls.push_back(key);
            self.right.insert(key, number);
            let (ring, calls) = (self.ring(), &self.calls);
            if self.index.insert(key, number, ring) {
                return;
            }
            let xid = |number: u32| calls[number.wrapping_sub(self.base) as usize][1];
            if self.index.make_room(key[0], ring, xid) {
                assert!(self.index.insert(key, number, ring));
                return;
            }
            self.made_anew += 1;
            let pairs = calls.iter().map(|[peer, _]| peer + 1).max().unwrap();
            let mut counts = vec![0; pairs as usize];
            calls
                .iter()
                .for_each(|[peer, _]| counts[*peer as usize] += 1);
            self.index.clear(&counts, ring);
            for (at, key) in calls.iter().enumerate() {
                let number = self.base.wrapping_add(at as u32);
                assert!(self.index.insert(*key, number, ring));
            }
        }

        fn pop(&mut self) {
            if let Some(key) = self.calls.pop_front() {
                self.right.remove(&key);
                self.base = self.base.wrapping_add(1);
                self.index.left(key[0]);
            }
        }
    }

    fn agrees(key_of: impl Fn(&mut fastrand::Rng, u32) -> [u32; 2], base: u32) {
        let mut random = fastrand::Rng::with_seed(u64::from(base));
        let mut model = Model {
            base,
            ..Model::default()
        };
        for step in 0..30_000 {
            let key = key_of(&mut random, step);
            assert_eq!(model.find(key), model.right.get(&key).copied());
            if !model.right.contains_key(&key) {
                model.push(key);
            }
            if step % 7000 > 4000 || model.calls.len() > 3000 {
                model.pop();
                model.pop();
            }
            let at = random.usize(..model.calls.len().max(1));
            if let Some(key) = model.calls.get(at) {
                assert_eq!(model.find(*key), model.right.get(key).copied());
            }
        }
    }

    #[test]
    fn calls_are_found_while_they_are_in_the_ring() {
        // Clients that count up, at random, by steps that meet in few places, and over the end of
        // the numbers.
        agrees(|_, step| [step % 16, 0x1234_0000 + step / 16], 0);
        agrees(|random, _| [random.u32(..4), random.u32(..)], 5);
        agrees(|random, step| [random.u32(..2), step << 3], 9);
        agrees(|random, step| [random.u32(..2), step.rotate_right(8)], 11);
        for before_end in [50, 9000] {
            agrees(
                |_, step| [step % 16, 0x1234_0000 + step / 16],
                u32::MAX - before_end,
            );
        }
    }

    #[test]
    fn places_of_pairs_that_fell_silent_are_given_back() {
        let mut model = Model::default();
        let mut most = 0;
        // Each pair has a thousand calls waiting once, and one of them for long.
        for peer in 0..100 {
            (0..1000).for_each(|xid| model.push([peer, xid]));
            (0..999).for_each(|_| model.pop());
            most = most.max(model.index.places);
        }
        assert!(model.made_anew > 0);
        assert!(most <= MOST_SPARE + MOST_ROOM * 2000, "{most}");
        assert_eq!(model.find([99, 999]), Some(99_999));
        let lengths = model.index.windows.iter().map(|it| it.numbers.len());
        assert_eq!(model.index.places, lengths.sum::<usize>());
    }

    #[test]
    fn of_those_beyond_few_have_left() {
        let mut model = Model::default();
        for step in 0..10_000u32 {
            // All meet in one place.
            model.push([1, step << 16]);
            if step >= 100 {
                model.pop();
            }
            let held = model.index.beyond.len();
            // One has left since they were counted.
            assert!(held <= 2 * (model.calls.len() + 1) + 1, "{held}");
        }
    }

    #[test]
    fn those_that_are_taken_out_leave_their_place() {
        let mut index = Index::default();
        let ring = InRing {
            base: 0,
            length: 1000,
        };
        index.clear(&[0, 0, 0, 1000], ring);
        let key = [3, 0x1234_5678];
        for number in 0..1000 {
            assert!(index.insert(key, number, ring));
            assert_eq!(index.find(key, ring, |found| found == number), Some(number));
            index.remove(key, number, ring);
            assert_eq!(index.find(key, ring, |_| true), None);
        }
        // Also those beyond.
        let other = [3, 0x8000_0000 | key[1]];
        assert!(index.insert(key, 1, ring) && index.insert(other, 2, ring));
        assert_eq!(index.find(other, ring, |found| found == 2), Some(2));
        index.remove(other, 2, ring);
        assert_eq!(index.find(other, ring, |found| found == 2), None);
        assert_eq!(index.find(key, ring, |found| found == 1), Some(1));
    }

    #[test]
    fn nothing_is_found_in_an_empty_one() {
        let mut index = Index::default();
        let ring = InRing { base: 0, length: 0 };
        assert_eq!(index.find([1, 2], ring, |_| true), None);
        assert!(!index.insert([1, 2], 0, ring));
    }
}
