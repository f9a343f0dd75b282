//! Connections by their two endpoints, bounded: the one idle longest makes room for a new one.
//!
//! A segment finds its connection through a small direct-mapped cache first (one compare, no
//! hashing), so that some interleaved flows stay cheap. Each use is stamped on its entry and no
//! more; the heap that finds the oldest one learns of uses when it comes to them, and has to come
//! to none before the table is full.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::block::Endpoint;
use crate::limits::MAX_CONNECTIONS;

/// Slots of the direct-mapped cache.
const RECENT: usize = 256;
/// No slot.
const NONE: u32 = u32::MAX;

/// Which of its two endpoints sent a segment: 0 is the one that was seen first.
pub(super) type Side = usize;

#[derive(Debug)]
struct Slot<V> {
    ends: [Endpoint; 2],
    /// When it was last used.
    used: u64,
    value: V,
}

/// Values by pairs of endpoints, whichever way round; at most [`MAX_CONNECTIONS`].
#[derive(Debug)]
pub(super) struct Table<V> {
    slots: Vec<Slot<V>>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    recent: Box<[u32; RECENT]>,
    /// Uses so far.
    uses: u64,
    /// Each slot with a use of it, the last one or an earlier one.
    oldest: BinaryHeap<Reverse<(u64, u32)>>,
}

/// Place in the cache: the same for both directions.
#[inline(always)]
fn recent_slot(source: &Endpoint, destination: &Endpoint) -> usize {
    let hosts = source.host.low_bits() ^ destination.host.low_bits();
    let ports = u64::from(source.port ^ destination.port);
    let mixed = (hosts ^ ports << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as usize % RECENT
}

fn hash_of(hasher: &DefaultHashBuilder, ends: &[Endpoint; 2]) -> u64 {
    let [one, other] = ends;
    hasher.hash_one(if one <= other {
        (one, other)
    } else {
        (other, one)
    })
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Table {
            slots: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            recent: Box::new([NONE; RECENT]),
            uses: 0,
            oldest: BinaryHeap::new(),
        }
    }
}

impl<V> Table<V> {
    /// Slot of the connection between two endpoints, and which of them is `source`.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        source: &Endpoint,
        destination: &Endpoint,
    ) -> Option<(usize, Side)> {
        let place = recent_slot(source, destination);
        let cached = self.recent.get(place).copied().unwrap_or(NONE);
        if let Some(side) = self.side(cached as usize, source, destination) {
            self.touch(cached);
            return Some((cached as usize, side));
        }
        self.find_hashed(place, source, destination)
    }

    #[inline(always)]
    fn side(&self, slot: usize, source: &Endpoint, destination: &Endpoint) -> Option<Side> {
        let [one, other] = &self.slots.get(slot)?.ends;
        if one == source && other == destination {
            Some(0)
        } else if other == source && one == destination {
            Some(1)
        } else {
            None
        }
    }

    #[inline(never)]
    fn find_hashed(
        &mut self,
        place: usize,
        source: &Endpoint,
        destination: &Endpoint,
    ) -> Option<(usize, Side)> {
        let hash = hash_of(&self.hasher, &[*source, *destination]);
        let slot = *self.index.find(hash, |slot| {
            self.side(*slot as usize, source, destination).is_some()
        })?;
        if let Some(cached) = self.recent.get_mut(place) {
            *cached = slot;
        }
        self.touch(slot);
        let side = self.side(slot as usize, source, destination)?;
        Some((slot as usize, side))
    }

    /// Enters a connection that [`Table::find`] did not find. Returns its slot, and the endpoints
    /// and value that had to leave for it.
    pub(super) fn insert(
        &mut self,
        ends: [Endpoint; 2],
        value: V,
    ) -> (usize, Option<([Endpoint; 2], V)>) {
        let slot = Slot {
            ends,
            used: self.uses,
            value,
        };
        let (place, gone) = if self.slots.len() < MAX_CONNECTIONS {
            self.slots.push(slot);
            (self.slots.len() as u32 - 1, None)
        } else {
            self.replace_oldest(slot)
        };
        let hasher = &self.hasher;
        let slots = &self.slots;
        self.index
            .insert_unique(hash_of(hasher, &ends), place, |&slot| {
                slots
                    .get(slot as usize)
                    .map_or(0, |slot| hash_of(hasher, &slot.ends))
            });
        self.oldest.push(Reverse((self.uses, place)));
        self.touch(place);
        if let Some(cached) = self.recent.get_mut(recent_slot(&ends[0], &ends[1])) {
            *cached = place;
        }
        (place as usize, gone)
    }

    #[cold]
    fn replace_oldest(&mut self, slot: Slot<V>) -> (u32, Option<([Endpoint; 2], V)>) {
        let place = self.take_oldest();
        let Some(room) = self.slots.get_mut(place as usize) else {
            return (place, None);
        };
        let old = std::mem::replace(room, slot);
        let hash = hash_of(&self.hasher, &old.ends);
        if let Ok(entry) = self.index.find_entry(hash, |&found| found == place) {
            entry.remove();
        }
        (place, Some((old.ends, old.value)))
    }

    /// The value in a slot.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut V> {
        self.slots.get_mut(slot).map(|slot| &mut slot.value)
    }

    /// Takes all out, in the order of their slots.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = ([Endpoint; 2], V)> + use<V> {
        self.index.clear();
        self.recent.fill(NONE);
        self.oldest.clear();
        std::mem::take(&mut self.slots)
            .into_iter()
            .map(|slot| (slot.ends, slot.value))
    }

    #[inline(always)]
    fn touch(&mut self, place: u32) {
        self.uses += 1;
        if let Some(slot) = self.slots.get_mut(place as usize) {
            slot.used = self.uses;
        }
    }

    /// The slot whose last use is the oldest. What was used since the heap learned of it goes back
    /// with that use: once for each use at most.
    fn take_oldest(&mut self) -> u32 {
        while let Some(Reverse((known, place))) = self.oldest.pop() {
            let used = self.slots.get(place as usize).map_or(0, |slot| slot.used);
            if used <= known {
                return place;
            }
            self.oldest.push(Reverse((used, place)));
        }
        NONE
    }
}

impl<V> Table<V> {
    /// Entries so far; they stay until there are [`MAX_CONNECTIONS`].
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Endpoints and values, in the order of first sight while none had to leave.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[Endpoint; 2], &V)> {
        self.slots.iter().map(|slot| (&slot.ends, &slot.value))
    }

    /// The values.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.slots.iter_mut().map(|slot| &mut slot.value)
    }

    /// A value and which of its endpoints is the first of `ends`, without counting as a use.
    pub(super) fn peek(&self, ends: &[Endpoint; 2]) -> Option<(&V, Side)> {
        let hash = hash_of(&self.hasher, ends);
        let is = |slot: &u32| self.side(*slot as usize, &ends[0], &ends[1]).is_some();
        let slot = *self.index.find(hash, is)? as usize;
        let side = self.side(slot, &ends[0], &ends[1])?;
        Some((&self.slots.get(slot)?.value, side))
    }
}
