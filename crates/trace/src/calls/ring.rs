//! A queue whose elements are found by their number.
//!
//! Numbers count up from 0 as elements enter, and go on when they leave at the front. A place is a
//! number's low bits: finding one costs a mask, where a `VecDeque` has to look where it wraps.

use crate::prefetch::prefetch_element;

/// Places that a ring begins with.
const LEAST_PLACES: usize = 64;

/// Elements between the front and the one that is asked for.
const AHEAD: u64 = 6;

/// The queue.
#[derive(Debug, Default)]
pub struct Ring<T> {
    /// A power of two of them, or none. Those outside of `base..end` hold what was there before.
    places: Vec<T>,
    base: u64,
    end: u64,
}

impl<T: Copy + Default> Ring<T> {
    /// Number of the front, or of the next element if there is none.
    #[inline(always)]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        (self.end - self.base) as usize
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.places.len().wrapping_sub(1)
    }

    /// An element by its number.
    #[inline(always)]
    pub fn get(&self, number: u64) -> Option<&T> {
        if number.wrapping_sub(self.base) >= self.end - self.base {
            return None;
        }
        self.places.get(self.place(number))
    }

    /// An element by its number.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        if number.wrapping_sub(self.base) >= self.end - self.base {
            return None;
        }
        let place = self.place(number);
        self.places.get_mut(place)
    }

    /// Adds an element; returns its number.
    #[inline(always)]
    pub fn push(&mut self, element: T) -> u64 {
        if self.len() == self.places.len() {
            self.grow();
        }
        let number = self.end;
        let place = self.place(number);
        if let Some(room) = self.places.get_mut(place) {
            *room = element;
        }
        self.end += 1;
        number
    }

    /// Twice as many places, each element at that of its number.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(LEAST_PLACES);
        let mut grown = vec![T::default(); places];
        for number in self.base..self.end {
            let room = grown.get_mut(number as usize & (places - 1));
            if let (Some(room), Some(element)) = (room, self.get(number)) {
                *room = *element;
            }
        }
        self.places = grown;
    }

    /// Takes the front away. Elements behind it are asked for: they were written long ago.
    #[inline(always)]
    pub fn pop_front(&mut self) {
        if self.base < self.end {
            self.base += 1;
            let soon = self.place(self.base + AHEAD);
            prefetch_element(&self.places, soon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_number_while_they_are_there() {
        let mut ring = Ring::default();
        let mut expected = std::collections::VecDeque::new();
        // Grows to some hundred and shrinks again, several times over the places' end.
        for step in 0u64..10_000 {
            if step % 700 < 400 {
                assert_eq!(ring.push(step), ring.base() + expected.len() as u64);
                expected.push_back(step);
            } else {
                ring.pop_front();
                expected.pop_front();
            }
            assert_eq!(ring.len(), expected.len());
            for (at, element) in expected.iter().enumerate().step_by(37) {
                assert_eq!(ring.get(ring.base() + at as u64), Some(element));
            }
            assert_eq!(ring.get(ring.base().wrapping_sub(1)), None);
            assert_eq!(ring.get(ring.base() + ring.len() as u64), None);
        }
    }

    #[test]
    fn nothing_is_found_in_an_empty_one() {
        let mut ring: Ring<u8> = Ring::default();
        ring.pop_front();
        assert_eq!((ring.get(0), ring.len(), ring.base()), (None, 0, 0));
        assert_eq!(ring.push(7), 0);
        if let Some(element) = ring.get_mut(0) {
            *element = 8;
        }
        assert_eq!(ring.get(0), Some(&8));
    }
}
