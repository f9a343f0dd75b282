//! Which panel a call belongs to, and the name under which it is told.

use wire::programs::NFS;

use crate::call::Call;
use crate::names::{Names, operation_name};

/// The panels, in the order of the page; the last takes all other calls.
pub(super) const PANELS: [&str; 5] = ["READ", "WRITE", "COMMIT", "GETATTR", "others"];
/// Index of `others`.
pub(super) const OTHERS: usize = PANELS.len() - 1;

/// Operations that have a name of their own; index [`MORE`] stands for all further ones.
const MORE: u8 = u8::MAX;
/// Places of the memory in front of the list: more than a capture has operations, usually.
const MEMO: usize = 128;

type Key = (u32, u32, u32);

/// Operations seen, by index.
#[derive(Debug)]
pub(super) struct Operations {
    known: Vec<(Key, u8)>,
    memo: [(Key, u8, u8); MEMO],
}

impl Default for Operations {
    fn default() -> Self {
        let nothing = (u32::MAX, u32::MAX, u32::MAX);
        Operations {
            known: Vec::new(),
            memo: [(nothing, MORE, OTHERS as u8); MEMO],
        }
    }
}

impl Operations {
    /// Index of a call's operation, and of its panel.
    #[inline]
    pub(super) fn find(&mut self, call: &Call) -> (u8, usize) {
        let key = (call.program, call.version, call.operation);
        let hash = call
            .operation
            .wrapping_add(call.version << 5)
            .wrapping_add(call.program << 2);
        let place = hash as usize % MEMO;
        match self.memo.get(place) {
            Some(&(known, index, panel)) if known == key => (index, usize::from(panel)),
            _ => self.find_slowly(key, place),
        }
    }

    #[cold]
    fn find_slowly(&mut self, key: Key, place: usize) -> (u8, usize) {
        let panel = panel_of(key) as u8;
        let index = match self.known.iter().position(|(known, _)| *known == key) {
            Some(index) => index as u8,
            None if self.known.len() < usize::from(MORE) => {
                self.known.push((key, panel));
                (self.known.len() - 1) as u8
            }
            None => MORE,
        };
        if let Some(entry) = self.memo.get_mut(place) {
            *entry = (key, index, panel);
        }
        (index, usize::from(panel))
    }

    /// Panel of an index.
    pub(super) fn panel(&self, index: u8) -> usize {
        self.known
            .get(usize::from(index))
            .map_or(OTHERS, |(_, panel)| usize::from(*panel))
    }

    /// Names by index, as far as there are any.
    pub(super) fn names(&self, _names: &Names) -> Vec<String> {
        self.known
            .iter()
            .map(|&((program, version, operation), _)| operation_name(program, version, operation))
            .collect()
    }
}

/// NFSv2 (RFC 1094 section 2.2), NFSv3 (RFC 1813 section 3.3) and NFSv4 (RFC 7530 section 16)
/// number the same operations differently.
fn panel_of((program, version, operation): Key) -> usize {
    if program != NFS {
        return OTHERS;
    }
    match (version, operation) {
        (2 | 3, 6) | (4, 25) => 0,
        (2, 8) | (3, 7) | (4, 38) => 1,
        (3, 21) | (4, 5) => 2,
        (2 | 3, 1) | (4, 9) => 3,
        _ => OTHERS,
    }
}
