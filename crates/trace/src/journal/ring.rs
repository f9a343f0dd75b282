//! What is known of calls that are open, by their numbers.
//!
//! Numbers count up, so a call's place is its number's lowest bits. Two that are open at the same
//! time and would have one place make the ring twice as long: its length depends on how far apart
//! the open ones are, which their reader bounds ([`MAX_OPEN_CALLS`]). Places are held in pages,
//! made when they are first used, so that few calls take little whatever their numbers.

use crate::limits::MAX_OPEN_CALLS;

const LEAST_PLACES: usize = 256;
const MOST_PLACES: usize = MAX_OPEN_CALLS.next_power_of_two();
const PAGE: usize = 256;
/// No call has this number.
const NOBODY: u64 = u64::MAX;

/// The open calls.
#[derive(Debug, Default)]
pub(super) struct Ring<T> {
    numbers: Vec<u64>,
    pages: Vec<Box<[T]>>,
}

impl<T: Copy + Default> Ring<T> {
    fn of_places(places: usize) -> Self {
        Ring {
            numbers: vec![NOBODY; places],
            pages: (0..places / PAGE).map(|_| Box::default()).collect(),
        }
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.numbers.len().wrapping_sub(1)
    }

    #[inline(always)]
    fn held(&mut self, place: usize) -> Option<&mut T> {
        let page = self.pages.get_mut(place / PAGE)?;
        if page.is_empty() {
            *page = vec![T::default(); PAGE].into_boxed_slice();
        }
        page.get_mut(place % PAGE)
    }

    /// What is held of an open call.
    #[inline(always)]
    pub fn get(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number);
        match self.numbers.get(place) {
            Some(known) if *known == number => self.held(place),
            _ => None,
        }
    }

    /// A place for what is held of a call, open already or not; `None` if open ones are too far
    /// apart.
    #[inline(always)]
    pub fn enter(&mut self, number: u64) -> Option<&mut T> {
        loop {
            let place = self.place(number);
            let known = self.numbers.get(place);
            if known.is_some_and(|it| *it == NOBODY || *it == number) {
                self.numbers[place] = number;
                return self.held(place);
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
        let mut grown = Ring::of_places((2 * self.numbers.len()).max(LEAST_PLACES));
        for place in 0..self.numbers.len() {
            let number = self.numbers[place];
            if number == NOBODY {
                continue;
            }
            let to = grown.place(number);
            grown.numbers[to] = number;
            if let (Some(to), Some(from)) = (grown.held(to), self.held(place)) {
                *to = *from;
            }
        }
        *self = grown;
    }

    /// It is open no longer; what was held of it.
    #[inline(always)]
    pub fn leave(&mut self, number: u64) -> Option<T> {
        let place = self.place(number);
        let known = self.numbers.get_mut(place).filter(|it| **it == number)?;
        *known = NOBODY;
        self.held(place).map(|held| *held)
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
            *ring.enter(number).unwrap() = number * 3;
            // Every hundredth stays.
            if let Some(before) = number.checked_sub(50).filter(|it| it % 100 != 0) {
                assert_eq!(ring.get(before), Some(&mut (before * 3)));
                assert_eq!(ring.leave(before), Some(before * 3));
                assert_eq!(ring.get(before), None);
                assert_eq!(ring.leave(before), None);
            }
        }
        assert_eq!(ring.numbers.len(), 16_384);
        for number in (0..10_000).step_by(100) {
            assert_eq!(ring.get(number), Some(&mut (number * 3)));
        }
        *ring.enter(100).unwrap() = 7;
        assert_eq!(ring.get(100), Some(&mut 7));
        ring.clear();
        assert!(ring.get(100).is_none());
        assert!(ring.enter(100).is_some() && ring.enter(100 + MOST_PLACES as u64).is_none());
    }
}
