//! Texts as numbers: the dictionaries of a batch, and short ways to them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};

/// The different texts of one column in one batch, in the order of their first row. Never more than
/// the batch has rows.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    keys: HashMap<String, i32>,
    texts: Vec<String>,
}

impl Dictionary {
    /// The text's key; equal texts have equal keys (data frames insist on it).
    pub(super) fn key(&mut self, text: Cow<'_, str>) -> i32 {
        if let Some(key) = self.keys.get(text.as_ref()) {
            return *key;
        }
        let key = i32::try_from(self.texts.len()).unwrap_or(i32::MAX);
        self.texts.push(text.clone().into_owned());
        self.keys.insert(text.into_owned(), key);
        key
    }

    /// The dictionary as Arrow wants it; it is empty afterwards.
    pub(super) fn take(&mut self) -> ArrayRef {
        self.keys.clear();
        let texts = std::mem::take(&mut self.texts);
        Arc::new(StringArray::from_iter_values(texts))
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
