//! Texts as numbers: the dictionaries of a batch, and short ways to them.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::StringBuilder;
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

/// The different texts of one column in one batch, in the order of their first row. Never more than
/// the batch has rows. They are put together where Arrow takes them, and found there again.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    keys: HashTable<i32>,
    texts: StringBuilder,
    hashing: DefaultHashBuilder,
}

/// The text of a key.
fn text(texts: &StringBuilder, key: i32) -> &[u8] {
    let (bounds, place) = (texts.offsets_slice(), key as usize);
    match bounds.get(place..place + 2) {
        Some(&[from, to]) => {
            let bytes = texts.values_slice().get(from as usize..to as usize);
            bytes.unwrap_or_default()
        }
        _ => &[],
    }
}

impl Dictionary {
    /// The text's key; equal texts have equal keys (data frames insist on it).
    pub(super) fn key(&mut self, wanted: &str) -> i32 {
        let (texts, hashing) = (&self.texts, &self.hashing);
        let entry = self.keys.entry(
            hashing.hash_one(wanted.as_bytes()),
            |key| text(texts, *key) == wanted.as_bytes(),
            |key| hashing.hash_one(text(texts, *key)),
        );
        match entry {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(place) => {
                let key = i32::try_from(texts.offsets_slice().len() - 1).unwrap_or(i32::MAX);
                place.insert(key);
                self.texts.append_value(wanted);
                key
            }
        }
    }

    /// The dictionary as Arrow wants it; it is empty afterwards.
    pub(super) fn take(&mut self) -> ArrayRef {
        self.keys.clear();
        Arc::new(self.texts.finish())
    }
}

/// Entries of a [`Memo`].
const SLOTS: usize = 64;

/// Remembers what a key led to, by the key's low bits: no hashing for what repeats.
#[derive(Debug)]
pub(super) struct Memo<K, V> {
    slots: [Option<(K, V)>; SLOTS],
}

impl<K: Copy + PartialEq, V: Copy> Memo<K, V> {
    pub(super) const fn new() -> Self {
        Memo {
            slots: [None; SLOTS],
        }
    }

    /// What `key` led to; `bits` are any of its bits that tell keys apart.
    #[inline(always)]
    pub(super) fn get(&self, bits: u32, key: K) -> Option<V> {
        match self.slots[bits as usize % SLOTS] {
            Some((known, value)) if known == key => Some(value),
            _ => None,
        }
    }

    pub(super) fn put(&mut self, bits: u32, key: K, value: V) {
        self.slots[bits as usize % SLOTS] = Some((key, value));
    }

    pub(super) fn clear(&mut self) {
        self.slots = [None; SLOTS];
    }
}
