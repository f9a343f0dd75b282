//! Which calls are outstanding, without being misled by calls whose reply was lost.
//!
//! A ring by call number: a call takes its place when it is sent and leaves it when it is answered.
//! It grows with what is outstanding, up to [`PLACES`].
//! One that is passed over by [`PASSED_OVER`] replies of its server and is [`OLD_NS`] older than
//! the last of them is taken for lost (by the network or the capture) and leaves too; a very slow
//! call beside many quick ones looks the same, and is counted as outstanding for that long only.

/// Replies of the server since a call was sent after which it may be lost.
const PASSED_OVER: u32 = 256;
/// Age at the server's last reply after which it may be lost: above nearly every latency.
const OLD_NS: i64 = 200_000_000;
/// Places: more calls than this behind the newest one, a call is taken for lost.
const PLACES: usize = 1 << 16;
/// Places that the ring begins with.
const LEAST_PLACES: usize = 1 << 8;
/// Places looked at for each reply: more than calls come, so that it never falls behind.
const STEPS: usize = 4;

const EMPTY: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    sent_ns: i64,
    replies: u32,
    pair: u32,
}

impl Place {
    const FREE: Place = Place {
        number: EMPTY,
        sent_ns: 0,
        replies: 0,
        pair: 0,
    };
}

/// The ring.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    /// A power of two of them, or none.
    ring: Vec<Place>,
    oldest: u64,
    newest: u64,
}

impl Outstanding {
    /// A call was sent for the first time; `replies` of its server so far. Gives the pair of a call
    /// that had to give way.
    #[inline(always)]
    pub fn sent(&mut self, number: u64, sent_ns: i64, pair: u32, replies: u32) -> Option<u32> {
        if self.ring.is_empty() {
            self.ring = vec![Place::FREE; LEAST_PLACES];
            self.oldest = number;
        }
        while self.ring.len() < PLACES && self.ring[self.place(number)].number != EMPTY {
            self.grow();
        }
        let at = self.place(number);
        let place = &mut self.ring[at];
        let gave_way = (place.number != EMPTY).then_some(place.pair);
        *place = Place {
            number,
            sent_ns,
            replies,
            pair,
        };
        self.newest = self.newest.max(number);
        gave_way
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.ring.len().wrapping_sub(1)
    }

    /// Twice as many places, each call at that of its number.
    #[cold]
    fn grow(&mut self) {
        let mut grown = vec![Place::FREE; 2 * self.ring.len()];
        let mask = grown.len() - 1;
        for place in self.ring.iter().filter(|place| place.number != EMPTY) {
            grown[place.number as usize & mask] = *place;
        }
        self.ring = grown;
    }

    /// A call was answered: whether it was still counted.
    #[inline(always)]
    pub fn answered(&mut self, number: u64) -> bool {
        let at = self.place(number);
        match self.ring.get_mut(at) {
            Some(place) if place.number == number => {
                place.number = EMPTY;
                true
            }
            _ => false,
        }
    }

    /// Gives the pair of a call that is taken for lost, if there is one. `server` tells a pair's
    /// server: its replies so far and the time of its last one.
    #[inline(always)]
    pub fn lost(&mut self, server: impl Fn(u32) -> (u32, i64)) -> Option<u32> {
        // What fell out of the ring has given way already.
        self.oldest = self
            .oldest
            .max(self.newest.saturating_sub(PLACES as u64 - 1));
        for _ in 0..STEPS {
            if self.oldest >= self.newest {
                return None;
            }
            let at = self.place(self.oldest);
            let place = &mut self.ring[at];
            if place.number == self.oldest {
                let (replies, last_ns) = server(place.pair);
                let passed_over = replies.wrapping_sub(place.replies) >= PASSED_OVER;
                if !passed_over || last_ns.saturating_sub(place.sent_ns) < OLD_NS {
                    return None;
                }
                place.number = EMPTY;
                self.oldest += 1;
                return Some(place.pair);
            }
            self.oldest += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_passed_over_is_given_up_and_a_slow_one_is_not() {
        let mut outstanding = Outstanding::default();
        assert_eq!(outstanding.sent(5, 0, 9, 0), None);
        for number in 6..300 {
            outstanding.sent(number, 1000, 1, 0);
            assert!(outstanding.answered(number));
        }
        // Many replies, but soon; long, but few replies.
        assert_eq!(outstanding.lost(|_| (300, OLD_NS - 1)), None);
        assert_eq!(outstanding.lost(|_| (PASSED_OVER - 1, i64::MAX)), None);
        assert_eq!(outstanding.lost(|_| (PASSED_OVER, OLD_NS)), Some(9));
        assert!(!outstanding.answered(5));
    }

    #[test]
    fn calls_keep_their_place_while_the_ring_grows() {
        let mut outstanding = Outstanding::default();
        for number in 7..5000 {
            assert_eq!(outstanding.sent(number, 0, number as u32, 0), None);
            // Every third one stays.
            assert!(number % 3 == 0 || outstanding.answered(number));
        }
        assert_eq!(outstanding.ring.len(), 8192);
        let lost = |outstanding: &mut Outstanding| outstanding.lost(|_| (PASSED_OVER, OLD_NS));
        assert_eq!(lost(&mut outstanding), Some(9));
        for number in (12..4998).step_by(3) {
            assert!(outstanding.answered(number) && !outstanding.answered(number));
        }
    }

    #[test]
    fn the_ring_is_bounded() {
        let mut outstanding = Outstanding::default();
        let gave_way = (0..200_000_u64)
            .filter(|&number| outstanding.sent(number, 0, 1, 0).is_some())
            .count();
        assert_eq!(
            (gave_way, outstanding.ring.len()),
            (200_000 - PLACES, PLACES)
        );
        assert_eq!(outstanding.lost(|_| (0, 0)), None);
    }
}
