//! Calls that were told of and are not settled, as they were told last, by their numbers.
//!
//! Numbers count up, so a call's place is its number's lowest bits. Two that are open at the same
//! time and would have one place make the ring twice as long: its length depends on how far apart
//! the open ones are. Readers keep some 50,000 for a while; where there are more than
//! [`MOST_PLACES`], the files are read in a row.

use crate::call::Call;

const LEAST_PLACES: usize = 256;
/// 42 MB.
const MOST_PLACES: usize = 1 << 17;
/// No call has this number.
const NOBODY: u64 = u64::MAX;

/// The open calls.
#[derive(Debug, Default)]
pub(super) struct Ring {
    numbers: Vec<u64>,
    calls: Vec<Call>,
}

impl Ring {
    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.numbers.len().wrapping_sub(1)
    }

    /// An open call.
    #[inline(always)]
    pub fn get(&mut self, number: u64) -> Option<&mut Call> {
        let place = self.place(number);
        match self.numbers.get(place) {
            Some(known) if *known == number => self.calls.get_mut(place),
            _ => None,
        }
    }

    /// A place for a new one; `None` if too many are open.
    #[inline(always)]
    pub fn enter(&mut self, number: u64) -> Option<&mut Call> {
        loop {
            let place = self.place(number);
            if self.numbers.get(place) == Some(&NOBODY) {
                self.numbers[place] = number;
                return self.calls.get_mut(place);
            }
            if self.numbers.len() >= MOST_PLACES {
                return None;
            }
            self.grow();
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let places = (2 * self.numbers.len()).max(LEAST_PLACES);
        let mut grown = Ring {
            numbers: vec![NOBODY; places],
            calls: vec![Call::default(); places],
        };
        for (number, call) in self.numbers.iter().zip(&self.calls) {
            let place = grown.place(*number);
            if *number != NOBODY {
                (grown.numbers[place], grown.calls[place]) = (*number, *call);
            }
        }
        *self = grown;
    }

    /// It is open no longer.
    #[inline(always)]
    pub fn leave(&mut self, number: u64) {
        let place = self.place(number);
        if let Some(known) = self.numbers.get_mut(place).filter(|it| **it == number) {
            *known = NOBODY;
        }
    }

    /// None is open.
    pub fn clear(&mut self) {
        self.numbers.fill(NOBODY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_until_they_leave() {
        let mut ring = Ring::default();
        for number in 0..10_000u64 {
            ring.enter(number).unwrap().number = number;
            // Every hundredth stays.
            if let Some(before) = number.checked_sub(50).filter(|it| it % 100 != 0) {
                assert_eq!(ring.get(before).unwrap().number, before);
                ring.leave(before);
                assert!(ring.get(before).is_none());
            }
        }
        assert_eq!(ring.numbers.len(), 16_384);
        for number in (0..10_000).step_by(100) {
            assert_eq!(ring.get(number).unwrap().number, number);
        }
        ring.clear();
        assert!(ring.get(100).is_none());
        assert!(ring.enter(100).is_some() && ring.enter(100).is_none());
        assert!(ring.enter(u64::MAX - 1).is_some());
    }
}
