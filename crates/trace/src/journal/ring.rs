//! What is known of calls that are open, by their numbers.
//!
//! Numbers count up, so a call's place is its number's lowest bits. Two that are open at the same
//! time and would have one place make the ring twice as long: its length depends on how far apart
//! the open ones are. Readers keep some 50,000 for a while; where there are more than
//! [`MOST_PLACES`], the files are read in a row.

const LEAST_PLACES: usize = 256;
/// Of calls 42 MB.
const MOST_PLACES: usize = 1 << 17;
/// No call has this number.
const NOBODY: u64 = u64::MAX;

/// The open calls.
#[derive(Debug, Default)]
pub(super) struct Ring<T> {
    numbers: Vec<u64>,
    held: Vec<T>,
}

impl<T: Copy + Default> Ring<T> {
    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.numbers.len().wrapping_sub(1)
    }

    /// What is held of an open call.
    #[inline(always)]
    pub fn get(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number);
        match self.numbers.get(place) {
            Some(known) if *known == number => self.held.get_mut(place),
            _ => None,
        }
    }

    /// A place for what is held of a call, open already or not; `None` if too many are open.
    #[inline(always)]
    pub fn enter(&mut self, number: u64) -> Option<&mut T> {
        loop {
            let place = self.place(number);
            if self
                .numbers
                .get(place)
                .is_some_and(|it| *it == NOBODY || *it == number)
            {
                self.numbers[place] = number;
                return self.held.get_mut(place);
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
            held: vec![T::default(); places],
        };
        for (number, held) in self.numbers.iter().zip(&self.held) {
            let place = grown.place(*number);
            if *number != NOBODY {
                (grown.numbers[place], grown.held[place]) = (*number, *held);
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
        self.held.get(place).copied()
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
