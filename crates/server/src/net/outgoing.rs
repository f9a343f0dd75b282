//! Replies on their way into a TCP socket: heads in one buffer, payloads where they lie.
//!
//! Heads of many replies are appended to one buffer and go out as one piece; only READ data breaks
//! the run. So sixty-four GETATTR replies are one `write`, and sixty-four READ replies are one
//! `writev` of 128 pieces without a copy of the data.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

use wire::record::{begin_record, finish_record};

use crate::store::{Chunk, Payload};

/// Pieces of one `writev` (the kernel takes `IOV_MAX` = 1024).
const MAX_PIECES: usize = 256;
/// Heads' room that is kept between bursts, bytes.
const HEADS_KEPT_BYTES: usize = 16 << 10;
/// Segments' places that are kept between bursts.
const SEGMENTS_KEPT: usize = 64;

#[derive(Debug)]
enum Segment {
    Heads(usize),
    Data(Chunk),
}

/// The queue.
#[derive(Debug, Default)]
pub struct Outgoing {
    heads: Vec<u8>,
    // Where in `heads` the first unsent byte is.
    heads_sent: usize,
    segments: VecDeque<Segment>,
    // Bytes of the first data segment that are sent already.
    data_sent: usize,
    queued_bytes: usize,
    // What the data segments keep from being used otherwise.
    data_held: usize,
    /// Bytes queued since the beginning.
    pub stream_queued: u64,
    /// Bytes sent since the beginning.
    pub stream_sent: u64,
}

impl Outgoing {
    /// Bytes that wait.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Memory that is held for them: of a piece that is sent in part, all.
    pub fn held_bytes(&self) -> usize {
        self.heads.len() + self.data_held
    }

    /// Appends one record: `fill` writes the head and the payload. An empty head is no record.
    pub fn record<T>(
        &mut self,
        payload: &mut Payload,
        fill: impl FnOnce(&mut Vec<u8>, &mut Payload) -> T,
    ) -> T {
        let start = begin_record(&mut self.heads);
        let result = fill(&mut self.heads, payload);
        let empty = self.heads.len() == start + wire::record::MARK_BYTES;
        if empty || finish_record(&mut self.heads, start, payload.len()).is_err() {
            self.heads.truncate(start);
            payload.clear();
            return result;
        }
        let length = self.heads.len() - start;
        self.queued_bytes += length + payload.len();
        self.stream_queued += (length + payload.len()) as u64;
        match self.segments.back_mut() {
            Some(Segment::Heads(run)) => *run += length,
            _ => self.segments.push_back(Segment::Heads(length)),
        }
        for chunk in payload.drain() {
            self.data_held += chunk.held_bytes();
            self.segments.push_back(Segment::Data(chunk));
        }
        result
    }

    /// Writes once, at most so many bytes; false if the socket takes no more for now.
    pub fn write(&mut self, mut socket: impl Write, most_bytes: usize) -> io::Result<bool> {
        let mut left = most_bytes;
        let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
        let mut count = 0;
        let mut at = self.heads_sent;
        let mut skip = self.data_sent;
        for (piece, segment) in pieces.iter_mut().zip(&self.segments) {
            let bytes = match segment {
                Segment::Heads(length) => {
                    let run = self.heads.get(at..at + length);
                    at += length;
                    run
                }
                Segment::Data(chunk) => chunk.as_bytes().get(skip..),
            };
            skip = 0;
            let bytes = bytes.unwrap_or_default();
            let bytes = bytes.get(..left).unwrap_or(bytes);
            left -= bytes.len();
            *piece = IoSlice::new(bytes);
            count += 1;
            if left == 0 {
                break;
            }
        }
        let sent = match pieces.get(..count).unwrap_or_default() {
            [only] => socket.write(only),
            many => socket.write_vectored(many),
        };
        match sent {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => {
                self.advance(sent);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn advance(&mut self, mut sent: usize) {
        self.queued_bytes -= sent;
        self.stream_sent += sent as u64;
        while sent > 0 {
            match self.segments.front_mut() {
                Some(Segment::Heads(length)) => {
                    let here = sent.min(*length);
                    *length -= here;
                    self.heads_sent += here;
                    sent -= here;
                    if *length > 0 {
                        break;
                    }
                }
                Some(Segment::Data(chunk)) => {
                    let left = chunk.len() - self.data_sent;
                    if sent < left {
                        self.data_sent += sent;
                        break;
                    }
                    sent -= left;
                    self.data_sent = 0;
                    self.data_held -= chunk.held_bytes();
                }
                None => break,
            }
            self.segments.pop_front();
        }
        if self.queued_bytes == 0 {
            self.segments.clear();
            self.segments.shrink_to(SEGMENTS_KEPT);
            self.data_held = 0;
            self.heads.clear();
            self.heads_sent = 0;
            self.heads.shrink_to(HEADS_KEPT_BYTES);
        } else if self.heads_sent > HEADS_KEPT_BYTES.max(self.heads.len() / 2) {
            self.heads.drain(..self.heads_sent);
            self.heads_sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A socket that takes a given number of bytes each time, then refuses once.
    struct Slow<'a> {
        takes: &'a mut dyn Iterator<Item = usize>,
        got: &'a mut Vec<u8>,
    }
    impl Write for Slow<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.takes.next() {
                Some(0) | None => Err(io::ErrorKind::WouldBlock.into()),
                Some(take) => {
                    let take = take.min(bytes.len());
                    self.got.extend_from_slice(&bytes[..take]);
                    Ok(take)
                }
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Writes as much as the socket takes; true if nothing is left.
    fn send(outgoing: &mut Outgoing, mut socket: impl Write) -> bool {
        while outgoing.queued_bytes() > 0 {
            if !outgoing.write(&mut socket, 97).unwrap() {
                return false;
            }
        }
        true
    }

    proptest! {
        #[test]
        fn any_partial_writes_give_the_same_stream(
            records in proptest::collection::vec((1usize..50, 0usize..300, any::<u8>()), 1..30),
            takes in proptest::collection::vec(0usize..200, 0..200),
        ) {
            let mut outgoing = Outgoing::default();
            let mut payload = Payload::new();
            let (mut wanted, mut got) = (Vec::new(), Vec::new());
            let mut takes = takes.into_iter();
            for (head, data, byte) in records {
                let mark = 0x8000_0000u32 | (head + data) as u32;
                wanted.extend(mark.to_be_bytes());
                wanted.extend(vec![byte; head]);
                wanted.extend(vec![!byte; data]);
                outgoing.record(&mut payload, |out, payload| {
                    out.extend(vec![byte; head]);
                    if data > 0 {
                        payload.push(Chunk::Buffer(vec![!byte; data]));
                    }
                });
                let slow = Slow { takes: &mut takes, got: &mut got };
                send(&mut outgoing, slow);
                prop_assert_eq!(got.len() + outgoing.queued_bytes(), wanted.len());
                prop_assert!(outgoing.held_bytes() >= outgoing.queued_bytes());
            }
            prop_assert!(send(&mut outgoing, &mut got));
            prop_assert_eq!(outgoing.held_bytes(), 0);
            prop_assert_eq!(got, wanted);
            prop_assert_eq!(outgoing.stream_sent, outgoing.stream_queued);
        }
    }
}
