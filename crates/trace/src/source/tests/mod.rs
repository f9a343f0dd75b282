//! What readers find, against bytes written by hand, other tools and the formats' documents.

mod captures;
mod inputs;
mod made;
mod mapped;
mod pcap;
mod pcapng;
mod pieces;
mod streams;

use std::io::{self, Read};

use super::{Bounds, Reader, Totals};
use crate::block::{Block, Segment};
use crate::error::TraceError;

/// A segment and its captured payload.
pub(super) type Found = (Segment, Vec<u8>);

/// Everything that a reader gives. Where payload lies in a block is no part of what is compared.
pub(super) fn drain(reader: &mut Reader) -> Result<(Vec<Found>, Totals), TraceError> {
    let (mut found, mut block) = (Vec::new(), Block::default());
    let (mut frames, mut wire_bytes) = (0, 0);
    while reader.read(&mut block)? {
        frames += block.frames;
        wire_bytes += block.wire_bytes;
        for segment in &block.segments {
            let payload = block.payload(segment).to_vec();
            assert_eq!(payload.len(), segment.captured_bytes as usize);
            assert!(segment.captured_bytes <= segment.payload_bytes);
            let segment = Segment {
                payload_at: 0,
                ..*segment
            };
            found.push((segment, payload));
        }
        block.verify()?;
    }
    let totals = reader.totals();
    assert_eq!((frames, wire_bytes), (totals.frames, totals.wire_bytes));
    Ok((found, totals))
}

/// Reads bytes as one capture.
pub(super) fn read_bytes(bytes: &[u8]) -> Result<(Vec<Found>, Totals), TraceError> {
    let bytes = io::Cursor::new(bytes.to_vec());
    drain(&mut Reader::of_bytes("test", bytes, small())?)
}

/// Small sizes, so that little input crosses many bounds.
pub(super) fn small() -> Bounds {
    Bounds {
        block_bytes: 0,
        frame_bytes: 4096,
        fragment_bytes: 1 << 20,
        window_bytes: 0,
        ..Bounds::default()
    }
}

/// Gives bytes in pieces of given lengths, again and again; a length of 0 says `WouldBlock`.
pub(super) struct Pieces {
    pub bytes: io::Cursor<Vec<u8>>,
    pub lengths: Vec<usize>,
    pub next: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.lengths[self.next % self.lengths.len()];
        self.next += 1;
        if length == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let room = buffer.len().min(length);
        self.bytes.read(&mut buffer[..room])
    }
}

/// Names and counts of what was odd.
pub(super) fn odd(totals: &Totals) -> Vec<(&'static str, u64)> {
    totals.anomalies.iter().collect()
}
