//! Waiting calls by their transaction ids: lines of eight entries, from which nothing is removed.
//!
//! Clients count their transaction ids up: eight neighbours share a line (one of the cache), each
//! at its own place, so that one fetched line serves eight calls. An entry is a call's number and
//! some bits of its transaction id; the ring tells whether it is the call that is looked for. What
//! left the ring need not be taken out: its number tells so, and its place is free for another.
//!
//! A full line sends calls to the next one and remembers the number of the last of them: while that
//! one is in the ring, the next line is searched as well.

/// Entries of a line.
const PLACES: usize = 8;
/// Tags in a word, and bits of one.
const TAGS: usize = 4;
const TAG_BITS: usize = 16;
/// Lines that the index begins with.
const LEAST_LINES: usize = 32;

/// One line of the cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line {
    /// Low bits of calls' numbers.
    numbers: [u32; PLACES],
    /// Their tags, four in a word.
    tags: [u64; PLACES / TAGS],
    /// The last call that found no place here.
    beyond: u32,
}

impl Line {
    /// With nothing in it: `nobody` is in the ring neither now nor soon.
    fn empty(nobody: u32) -> Self {
        Line {
            numbers: [nobody; PLACES],
            tags: [0; PLACES / TAGS],
            beyond: nobody,
        }
    }

    /// A place that no call in the ring has, its own if that is one.
    #[inline(always)]
    fn free(&self, own: usize, ring: InRing) -> Option<usize> {
        let free = |place: &usize| !ring.has(self.numbers[place % PLACES]);
        Some(own)
            .filter(free)
            .or_else(|| (0..PLACES).find(|place| free(place)))
    }

    /// Whether the entry at this place has this tag.
    #[inline(always)]
    fn has(&self, place: usize, tag: u16) -> bool {
        (self.tags[place / TAGS % (PLACES / TAGS)] >> (place % TAGS * TAG_BITS)) as u16 == tag
    }

    #[inline(always)]
    fn put(&mut self, place: usize, number: u32, tag: u16) {
        self.numbers[place % PLACES] = number;
        let shift = place % TAGS * TAG_BITS;
        let word = &mut self.tags[place / TAGS % (PLACES / TAGS)];
        *word = *word & !(0xffff << shift) | u64::from(tag) << shift;
    }

    /// Whether any entry has this tag, four compared at once (Warren, Hacker's Delight, 6-1). It
    /// may be taken for there if it is not, never the other way.
    #[inline(always)]
    fn may_have(&self, tag: u16) -> bool {
        const ONES: u64 = 0x0001_0001_0001_0001;
        let wanted = u64::from(tag) * ONES;
        let zero = |word: u64| word.wrapping_sub(ONES) & !word & ONES << 15;
        let [low, high] = self.tags;
        zero(low ^ wanted) | zero(high ^ wanted) != 0
    }
}

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

/// Numbers of waiting calls by pair and transaction id.
#[derive(Debug, Default)]
pub struct Index {
    /// A power of two of them, or none.
    lines: Vec<Line>,
}

#[inline(always)]
fn hash(peer: u32, xid: u32) -> usize {
    let mixed = (u64::from(peer) << 32 | u64::from(xid >> 3)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32) as usize
}

/// Bits of a transaction id that tell entries of one line apart.
#[inline(always)]
fn tag(xid: u32) -> u16 {
    (xid ^ xid >> 16) as u16
}

impl Index {
    /// Calls that it is made for: a quarter of its entries.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.lines.len() * PLACES / 4
    }

    /// Empty, with room for this many calls.
    pub fn clear(&mut self, calls: usize, ring: InRing) {
        let lines = (calls * 4 / PLACES).next_power_of_two().max(LEAST_LINES);
        self.lines.clear();
        self.lines.resize(lines, Line::empty(ring.gone()));
    }

    /// The call of this pair with this transaction id. `is` tells whether the one with this number
    /// is it.
    #[inline(always)]
    pub fn find(
        &self,
        [peer, xid]: [u32; 2],
        ring: InRing,
        is: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (mask, tag, own) = (
            self.lines.len().wrapping_sub(1),
            tag(xid),
            xid as usize % PLACES,
        );
        let home = hash(peer, xid);
        for step in 0..self.lines.len() {
            let line = self.lines.get(home.wrapping_add(step) & mask)?;
            let wanted = |place: usize| {
                let number = line.numbers[place % PLACES];
                (line.has(place, tag) && ring.has(number) && is(number)).then_some(number)
            };
            if let Some(number) = wanted(own) {
                return Some(number);
            }
            if line.may_have(tag)
                && let Some(number) = (0..PLACES).find_map(wanted)
            {
                return Some(number);
            }
            if !ring.has(line.beyond) {
                return None;
            }
        }
        None
    }

    /// Enters a call that is in the ring.
    #[inline(always)]
    pub fn insert(&mut self, [peer, xid]: [u32; 2], number: u32, ring: InRing) {
        let mask = self.lines.len().wrapping_sub(1);
        let home = hash(peer, xid);
        for step in 0..self.lines.len() {
            let Some(line) = self.lines.get_mut(home.wrapping_add(step) & mask) else {
                return;
            };
            if let Some(place) = line.free(xid as usize % PLACES, ring) {
                return line.put(place, number, tag(xid));
            }
            line.beyond = number;
        }
    }

    /// Takes a call out that is in the ring and is not to be found any more.
    #[cold]
    pub fn remove(&mut self, [peer, xid]: [u32; 2], number: u32, ring: InRing) {
        let mask = self.lines.len().wrapping_sub(1);
        let home = hash(peer, xid);
        for step in 0..self.lines.len() {
            let Some(line) = self.lines.get_mut(home.wrapping_add(step) & mask) else {
                return;
            };
            if let Some(entry) = line.numbers.iter_mut().find(|entry| **entry == number) {
                *entry = ring.gone();
                return;
            }
            if !ring.has(line.beyond) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};

    use super::*;

    /// A ring of calls beside the index, and a map that is always right.
    #[derive(Default)]
    struct Model {
        index: Index,
        calls: VecDeque<[u32; 2]>,
        base: u32,
        right: HashMap<[u32; 2], u32>,
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
            if self.calls.len() > self.index.room() {
                self.index.clear(2 * self.calls.len(), self.ring());
                for (at, key) in self.calls.iter().enumerate() {
                    let number = self.base.wrapping_add(at as u32);
                    self.index.insert(*key, number, self.ring());
                }
            } else {
                self.index.insert(key, number, self.ring());
            }
            self.right.insert(key, number);
        }

        fn pop(&mut self) {
            if let Some(key) = self.calls.pop_front() {
                self.right.remove(&key);
                self.base = self.base.wrapping_add(1);
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
        // Clients that count up, at random, by steps that fill few places of many lines, and
        // over the end of the numbers.
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
    fn those_that_are_taken_out_leave_their_place() {
        let mut index = Index::default();
        let ring = InRing {
            base: 0,
            length: 1000,
        };
        index.clear(1000, ring);
        let key = [3, 0x1234_5678];
        for number in 0..1000 {
            index.insert(key, number, ring);
            assert_eq!(index.find(key, ring, |found| found == number), Some(number));
            index.remove(key, number, ring);
            assert_eq!(index.find(key, ring, |_| true), None);
        }
        // Of lines that are full, too.
        (0..30).for_each(|number| index.insert(key, number, ring));
        (0..30).for_each(|number| index.remove(key, number, ring));
        assert_eq!(index.find(key, ring, |_| true), None);
        let held = |line: &Line| line.numbers.iter().any(|number| ring.has(*number));
        assert!(!index.lines.iter().any(held));
    }

    #[test]
    fn nothing_is_found_in_an_empty_one() {
        let index = Index::default();
        let ring = InRing { base: 0, length: 0 };
        assert_eq!(index.find([1, 2], ring, |_| true), None);
        assert_eq!(index.room(), 0);
    }
}
