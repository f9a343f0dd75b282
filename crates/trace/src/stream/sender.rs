//! Which end of a connection a segment came from.

use super::connection::Connection;
use super::framing::Role;
use super::table::Side;

/// Who sent something, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    /// Whether it sends the calls of forward programs.
    pub(super) client: Option<bool>,
    /// Whether it is the lower one of the two endpoints.
    pub(super) low: bool,
}

impl Sender {
    /// The opposite end.
    #[inline(always)]
    pub(super) fn other(self) -> Self {
        Sender {
            client: self.client.map(|client| !client),
            low: !self.low,
        }
    }
}

impl Connection {
    /// This side as a sender.
    #[inline(always)]
    pub(super) fn sender(&self, side: Side) -> Sender {
        let [one, other] = &self.sides;
        let (ours, theirs) = if side == 0 {
            (one, other)
        } else {
            (other, one)
        };
        let client = match (ours.role(), theirs.role()) {
            (Role::Client, _) | (_, Role::Server) => Some(true),
            (Role::Server, _) | (_, Role::Client) => Some(false),
            _ => None,
        };
        Sender {
            client,
            low: side == self.low,
        }
    }
}
