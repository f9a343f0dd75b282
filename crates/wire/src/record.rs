//! Record marking (RFC 5531 section 11): RPC messages in a byte stream.
//!
//! A record is one or more fragments; each has a mark of four bytes, the top bit of which says
//! "last". [`RecordDecoder`] takes the stream in pieces of any size. A record that lies whole and
//! in one fragment inside a piece is handed out without copying; otherwise it is put together in a
//! buffer that grows with the bytes that came, never with what a mark claims.

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{MAX_FRAGMENTS_PER_RECORD, MAX_RECORD_BYTES};

/// Bytes of a record mark.
pub const MARK_BYTES: usize = 4;
const LAST: u32 = 1 << 31;
/// How much room a record in pieces gets beyond what has come of it, bytes at most.
pub const MAX_SPARE_BYTES: usize = 16 << 10;

/// The mark before a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordMark {
    /// Bytes of the fragment.
    pub length: u32,
    /// Whether the record ends with it.
    pub last: bool,
}

impl RecordMark {
    /// Reads a mark; a fragment above [`MAX_RECORD_BYTES`] is an error.
    #[inline]
    pub fn parse(bytes: [u8; MARK_BYTES]) -> Result<Self> {
        Self::parse_within(bytes, MAX_RECORD_BYTES)
    }

    #[inline]
    fn parse_within(bytes: [u8; MARK_BYTES], limit: u32) -> Result<Self> {
        let word = u32::from_be_bytes(bytes);
        let length = word & !LAST;
        if length > limit {
            return Err(Error::new(
                ErrorKind::TooLong { length, limit },
                0,
                "record_mark",
            ));
        }
        Ok(RecordMark {
            length,
            last: word & LAST != 0,
        })
    }

    /// The mark's four bytes.
    pub fn to_bytes(self) -> [u8; MARK_BYTES] {
        let last = if self.last { LAST } else { 0 };
        (self.length & !LAST | last).to_be_bytes()
    }
}

/// Leaves room for a mark at the end of `out`; returns its place for [`finish_record`].
#[inline]
pub fn begin_record(out: &mut Vec<u8>) -> usize {
    let place = out.len();
    out.extend_from_slice(&[0; MARK_BYTES]);
    place
}

/// Fills in the mark at `place`: the record is what `out` holds behind it plus `tail_bytes` that
/// will be sent from elsewhere (a payload and its padding).
#[inline]
pub fn finish_record(out: &mut [u8], place: usize, tail_bytes: usize) -> Result<()> {
    let length = out
        .len()
        .saturating_sub(place + MARK_BYTES)
        .saturating_add(tail_bytes);
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if length > MAX_RECORD_BYTES {
        let kind = ErrorKind::TooLong {
            length,
            limit: MAX_RECORD_BYTES,
        };
        return Err(Error::new(kind, place, "record_mark"));
    }
    let mark = RecordMark { length, last: true }.to_bytes();
    if let Some(room) = out.get_mut(place..place + MARK_BYTES) {
        room.copy_from_slice(&mark);
    }
    Ok(())
}

/// Room for `more` bytes, and as much again for those to come: never beyond the `left` that the
/// mark claims.
fn make_room(record: &mut Vec<u8>, more: usize, left: usize) {
    if record.capacity() - record.len() < more {
        let spare = (record.len() + more).min(MAX_SPARE_BYTES);
        record.reserve_exact(left.min(more + spare));
    }
}

/// What [`RecordDecoder::feed`] made of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed<'s> {
    /// Bytes taken from the input's front; all of them if `record` is `None`.
    pub consumed: usize,
    /// A whole record, without marks.
    pub record: Option<&'s [u8]>,
}

/// Takes records out of a byte stream that arrives in pieces.
#[derive(Debug, Default)]
pub struct RecordDecoder {
    limit_bytes: u32,
    mark: [u8; MARK_BYTES],
    mark_bytes: usize,
    fragment_left: usize,
    last: bool,
    in_fragment: bool,
    fragments: u32,
    record: Vec<u8>,
    handed_out: bool,
}

impl RecordDecoder {
    /// A decoder that refuses records above `limit_bytes` (itself bounded by
    /// [`MAX_RECORD_BYTES`]).
    pub fn new(limit_bytes: u32) -> Self {
        RecordDecoder {
            limit_bytes: limit_bytes.min(MAX_RECORD_BYTES),
            ..RecordDecoder::default()
        }
    }

    /// Bytes held back for a record that is not whole yet.
    pub fn buffered_bytes(&self) -> usize {
        self.record.len() + self.mark_bytes
    }

    /// Memory held for a record that is not whole yet, or that was handed out last: its bytes and
    /// at most [`MAX_SPARE_BYTES`].
    pub fn held_bytes(&self) -> usize {
        self.record.capacity()
    }

    /// The record that was handed out last, if it had to be put together here; none if it lies in
    /// the input, before `consumed`. The decoder holds nothing then.
    pub fn take_record(&mut self) -> Option<Vec<u8>> {
        let taken = self.handed_out.then(|| std::mem::take(&mut self.record));
        self.handed_out = false;
        taken
    }

    /// True between records: the stream may end here.
    pub fn is_idle(&self) -> bool {
        self.handed_out || (!self.in_fragment && self.mark_bytes == 0 && self.fragments == 0)
    }

    /// Takes bytes until a record is whole. Call again with the rest of the input until all of it
    /// is consumed. After an error the stream cannot be followed any more.
    #[inline]
    pub fn feed<'s>(&'s mut self, input: &'s [u8]) -> Result<Fed<'s>> {
        if self.handed_out {
            self.record.clear();
            self.handed_out = false;
        }
        let mut rest = input;
        loop {
            if !self.in_fragment && !self.take_mark(&mut rest)? {
                return Ok(Fed {
                    consumed: input.len(),
                    record: None,
                });
            }
            let there = self.fragment_left.min(rest.len());
            let (fragment, behind) = rest.split_at_checked(there).unwrap_or((rest, &[]));
            let whole = there == self.fragment_left && self.last;
            if whole && self.record.is_empty() {
                // The common case: the record's only bytes lie here in one piece.
                self.end_record();
                return Ok(Fed {
                    consumed: input.len() - behind.len(),
                    record: Some(fragment),
                });
            }
            make_room(&mut self.record, there, self.fragment_left);
            self.record.extend_from_slice(fragment);
            self.fragment_left -= there;
            rest = behind;
            if whole {
                self.end_record();
                self.handed_out = true;
                let consumed = input.len() - rest.len();
                return Ok(Fed {
                    consumed,
                    record: Some(&self.record),
                });
            }
            if self.fragment_left > 0 {
                return Ok(Fed {
                    consumed: input.len(),
                    record: None,
                });
            }
            self.in_fragment = false;
        }
    }

    fn end_record(&mut self) {
        self.in_fragment = false;
        self.fragment_left = 0;
        self.fragments = 0;
    }

    /// Completes a mark from the input; false if it is not whole yet.
    #[inline]
    fn take_mark(&mut self, rest: &mut &[u8]) -> Result<bool> {
        let wanted = MARK_BYTES - self.mark_bytes;
        let (taken, behind) = rest.split_at_checked(wanted).unwrap_or((rest, &[]));
        if let Some(room) = self
            .mark
            .get_mut(self.mark_bytes..self.mark_bytes + taken.len())
        {
            room.copy_from_slice(taken);
        }
        self.mark_bytes += taken.len();
        *rest = behind;
        if self.mark_bytes < MARK_BYTES {
            return Ok(false);
        }
        self.mark_bytes = 0;
        let mark = RecordMark::parse_within(self.mark, self.limit_bytes)?;
        self.fragments += 1;
        let total = self.record.len() + mark.length as usize;
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        if total > self.limit_bytes {
            let kind = ErrorKind::TooLong {
                length: total,
                limit: self.limit_bytes,
            };
            return Err(Error::new(kind, 0, "record"));
        }
        if self.fragments > MAX_FRAGMENTS_PER_RECORD {
            let kind = ErrorKind::TooLong {
                length: self.fragments,
                limit: MAX_FRAGMENTS_PER_RECORD,
            };
            return Err(Error::new(kind, 0, "record.fragments"));
        }
        self.fragment_left = mark.length as usize;
        self.last = mark.last;
        self.in_fragment = true;
        Ok(true)
    }
}
