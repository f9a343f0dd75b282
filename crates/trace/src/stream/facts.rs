//! Transport events of who did not read a connection's beginning, as who did would tell them.
//!
//! Most of what an event says is in the state that both ways of reading have to share at a
//! checkpoint ([`Connection::flows_like`]). What is stated once travels as [`Facts`].

use serde::{Deserialize, Serialize};

use super::connection::{Connection, Protocol};
use super::direction::Direction;
use super::framing::Role;
use crate::event::{TransportEvent, TransportKind};

/// What is known of a connection to who read its beginning. Pairs: lower and higher end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Whether the lower end sends the calls of forward programs.
    pub client_is_low: Option<bool>,
    /// Shift of the window that an end offers, if its SYN was seen; 0 where scaling is off.
    pub scales: [Option<u8>; 2],
    /// Whether it is not known that the other end agreed to that scale.
    pub unsure: [bool; 2],
}

impl Facts {
    /// Fills in what who told the event did not know.
    pub fn complete(&self, event: &mut TransportEvent) {
        let of_ends = matches!(
            event.kind,
            TransportKind::Opened { .. }
                | TransportKind::Hidden { .. }
                | TransportKind::FrontCut { .. }
                | TransportKind::WithoutCall { .. }
        );
        if of_ends {
            // Their ends tell more than the client; it is not looked up for them.
            return;
        }
        let from_client = self.client_is_low.map(|low| low == event.from_low);
        event.from_client = event.from_client.or(from_client);
        let side = usize::from(!event.from_low);
        if let TransportKind::Acknowledged {
            window_bytes,
            window_known: known @ false,
            ..
        } = &mut event.kind
            && let Some(scale) = self.scales[side]
        {
            *window_bytes = window_bytes.checked_shl(scale.into()).unwrap_or(0);
            *known = !self.unsure[side];
        }
    }

    /// With what a later reader knows of the same connection.
    pub fn add(&mut self, later: &Facts) {
        self.client_is_low = later.client_is_low.or(self.client_is_low);
        for side in 0..2 {
            if later.scales[side].is_some() {
                self.scales[side] = later.scales[side];
                self.unsure[side] = later.unsure[side];
            }
        }
    }
}

impl Direction {
    /// Whether transport events of it go on as those of `other` do.
    fn flows_like(&self, other: &Self) -> bool {
        let acknowledged = |it: &Self| match it.acknowledged {
            0 => None,
            position => Some(position.wrapping_sub(it.next)),
        };
        // What was acknowledged in front of the first bytes counts when they come.
        let early = |it: &Self| it.early_acknowledgement.filter(|_| !it.started);
        let flights = (&self.flight, &other.flight);
        acknowledged(self) == acknowledged(other)
            && early(self) == early(other)
            && self.window.is_zero() == other.window.is_zero()
            && flights.0.is_like(flights.1, self.next, other.next)
    }

    /// Whether all that was sent was acknowledged, and no more.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.next && self.flight.segments() == 0
    }

    /// Whether transport events that are due say nothing of what came before.
    fn is_at_rest(&self) -> bool {
        let unseen = self.started && self.acknowledged > self.next + 1;
        !unseen && !self.window.is_zero()
    }
}

impl Connection {
    fn tells(&self) -> bool {
        matches!(self.protocol, Protocol::Rpc | Protocol::Unknown)
    }

    /// Whether its transport events go on as those of `other`, read from later on, once completed
    /// by what is known of it.
    pub(super) fn flows_like(&self, other: &Self, turned: bool) -> bool {
        let theirs = |side: usize| &other.sides[side ^ usize::from(turned)];
        let alike = |side: usize| {
            let ours = &self.sides[side];
            let scale = theirs(side).window.scale(&theirs(1 - side).window);
            ours.flows_like(theirs(side))
                && (scale.is_none() || scale == ours.window.scale(&self.sides[1 - side].window))
        };
        // A SYN that comes again is told of only by who did not see the first one.
        let unopened = other.within && other.sides.iter().all(|side| side.syn.is_none());
        let opened_like = |side: usize| self.sides[side].syn == theirs(side).syn;
        match self.tells() {
            true => alike(0) && alike(1),
            false => unopened || opened_like(0) && opened_like(1),
        }
    }

    /// Whether nobody misses a transport event if it is never seen again.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.tells() || self.sides.iter().all(Direction::is_at_rest)
    }

    /// Whether both sides seem to be the client, or the server.
    pub(super) fn has_two_of_a_role(&self) -> bool {
        let [one, other] = &self.sides;
        one.role() == other.role() && one.role() != Role::Unknown
    }

    /// What is known of it, beside what `later` ones see in their segments.
    pub(super) fn facts(&self, later: Option<&Self>) -> Facts {
        if !self.tells() {
            return Facts::default();
        }
        let mut facts = Facts {
            client_is_low: self.sender(self.low).client,
            ..Facts::default()
        };
        for (at, side) in [self.low, 1 - self.low].into_iter().enumerate() {
            let opened = later.is_some_and(|it| {
                let side = [it.low, 1 - it.low][at];
                it.sides[side].syn.is_some()
            });
            let scale = self.sides[side].window.scale(&self.sides[1 - side].window);
            if let Some((scale, sure)) = scale.filter(|_| !opened) {
                facts.scales[at] = Some(scale);
                facts.unsure[at] = !sure;
            }
        }
        facts
    }
}
