//! A small table by connection number, for what an analysis wants to know of each connection.
//!
//! Connection numbers count up without end, while at most
//! [`MAX_CONNECTIONS`](crate::limits::MAX_CONNECTIONS) are followed at once: a number's place is
//! its lowest bits, and a newer connection takes the place of an older one. No hashing, one access.

use crate::limits::MAX_CONNECTIONS;

/// One value for each connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSlots<T> {
    slots: Vec<(Option<u32>, T)>,
    replaced: u64,
}

impl<T: Default> ConnectionSlots<T> {
    /// The connection's value, the default one if it is new here.
    #[inline(always)]
    pub fn of(&mut self, connection: u32) -> &mut T {
        let place = connection as usize % MAX_CONNECTIONS;
        if place >= self.slots.len() {
            self.slots.resize_with(place + 1, Default::default);
        }
        let slot = &mut self.slots[place];
        if slot.0 != Some(connection) {
            self.replaced += u64::from(slot.0.is_some());
            *slot = (Some(connection), T::default());
        }
        &mut slot.1
    }

    /// The connection's value, if it is still here.
    pub fn get(&self, connection: u32) -> Option<&T> {
        let slot = self.slots.get(connection as usize % MAX_CONNECTIONS)?;
        (slot.0 == Some(connection)).then_some(&slot.1)
    }

    /// Times a connection's value gave way to another's.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Values of the connections that have one.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .filter_map(|(number, value)| Some(((*number)?, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_connection_takes_the_place_of_an_older_one() {
        let mut slots = ConnectionSlots::<u64>::default();
        *slots.of(3) = 7;
        assert_eq!(*slots.of(3), 7);
        assert_eq!(*slots.of(3 + MAX_CONNECTIONS as u32), 0);
        assert_eq!(*slots.of(3), 0);
        *slots.of(u32::MAX) = 1;
        assert_eq!((slots.replaced(), slots.slots.len()), (2, MAX_CONNECTIONS));
        assert_eq!(slots.iter().count(), 2);
    }
}
