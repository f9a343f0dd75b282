//! Numbers of connections: each reader counts from 0 what it sees.

use std::collections::BTreeMap;

/// What the connections of a part are to who reads it behind the parts in front of it.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// Those that both saw at the checkpoint, and those that were idle there and went on.
    known: BTreeMap<u32, u32>,
    /// Connections numbered at the checkpoint by who read what is in front, and by the part's
    /// reader.
    numbered: [u32; 2],
    /// The part's numbers behind the checkpoint that are of no new connection, in their order.
    went_on: Vec<u32>,
}

impl Numbering {
    /// At a checkpoint; `numbers`: the part's ones and those in front of it.
    pub(super) fn new(numbers: Vec<(u32, u32)>, numbered: [u32; 2]) -> Self {
        Numbering {
            known: numbers.into_iter().collect(),
            numbered,
            went_on: Vec::new(),
        }
    }

    /// An idle connection that had this number went on, and has that one in the part.
    pub(super) fn goes_on(&mut self, number: u32, in_part: u32) {
        self.known.insert(in_part, number);
        let place = self.went_on.partition_point(|known| *known < in_part);
        self.went_on.insert(place, in_part);
    }

    /// What a connection of the part is; also, how many there are once the part numbered so many.
    pub(super) fn of(&self, in_part: u32) -> u32 {
        if let Some(number) = self.known.get(&in_part) {
            return *number;
        }
        let [before, at_checkpoint] = self.numbered;
        let less = self.went_on.partition_point(|known| *known < in_part);
        let new = in_part.wrapping_sub(at_checkpoint);
        before.wrapping_add(new).wrapping_sub(less as u32)
    }
}
