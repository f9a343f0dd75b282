//! Byte streams put together again, and the RPC messages in them.

use crate::block::{Endpoint, Transport};
use crate::call::Stamp;
use crate::event::TransportEvent;

/// An RPC message (record) found in a stream or datagram. Its inside may not have been kept.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The connection's number, counted from 0 in the order of first sight.
    pub connection: u32,
    /// Who sent it.
    pub from: Endpoint,
    /// To whom.
    pub to: Endpoint,
    /// How.
    pub transport: Transport,
    /// Bytes from its front (RPC header first, without record marks).
    pub head: &'a [u8],
    /// Bytes not kept behind `head` (the inside of a payload); 0 almost always.
    pub missing: usize,
    /// Bytes behind the missing ones.
    pub tail: &'a [u8],
    /// Whether head, missing and tail are the whole message (false: the capture cut it).
    pub complete: bool,
    /// Length of the message on the wire, without record marks.
    pub wire_bytes: u32,
    /// First byte.
    pub first: Stamp,
    /// Last byte.
    pub last: Stamp,
    /// Found by searching behind a hole or in the middle of a stream.
    pub resynchronised: bool,
    /// IP identification of its (last) packet, 0 if none: UDP only.
    pub ip_id: u32,
}

/// How much of a long message is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All of it (directories, attributes, ...).
    Whole,
    /// Its head and tail: the inside is a READ's or WRITE's payload.
    Ends,
}

/// Takes what streams give.
pub trait Sink {
    /// A message ended. Messages of one direction come in order.
    fn message(&mut self, message: &Message<'_>);
    /// Asked once for a message longer than its head: what of it is wanted. `head` holds at least
    /// the first [`HEAD_BYTES`] of the message.
    fn keep(&mut self, connection: u32, from: Endpoint, to: Endpoint, head: &[u8]) -> Keep;
    /// Whether a reply with this xid from here is awaited (or was there already): what makes a
    /// reply believable that was found by searching behind a hole.
    fn expects(&self, connection: u32, from: Endpoint, to: Endpoint, xid: u32) -> bool;
    /// Whether [`Sink::transport`] is to be called at all.
    fn wants_transport(&self) -> bool;
    /// Something below RPC.
    fn transport(&mut self, event: &TransportEvent);
}

/// Bytes of a long message's front that are always kept: RPC header with the largest credential
/// and verifier, and the operations in front of a payload.
pub const HEAD_BYTES: usize = 2048;
/// Bytes kept of the end of a message of which only the ends are kept.
pub const TAIL_BYTES: usize = 1024;
