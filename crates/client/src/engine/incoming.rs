//! Records out of a stream, in place.
//!
//! Replies of one fragment (all servers send such) are handed out as slices of the receive buffer:
//! nothing is copied but the part of a reply that has to move to the buffer's front. Records of
//! several fragments go through [`wire::record::RecordDecoder`]. The buffer starts small and
//! doubles when a reply fills it, up to one largest reply: memory follows bytes, not claims.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use wire::record::{MARK_BYTES, RecordDecoder, RecordMark};

/// Largest reply taken, bytes: the largest `rsize` and its surroundings.
pub(super) const MAX_REPLY_BYTES: u32 = (1 << 20) + wire::limits::MAX_HEADER_BYTES;
/// Buffer at the start.
const FIRST_BUFFER_BYTES: usize = 64 << 10;
/// Buffer at most: one largest reply, and room for the beginning of the next.
const MAX_BUFFER_BYTES: usize = MAX_REPLY_BYTES as usize + (256 << 10);
/// Least room for which a system call is made.
const MIN_ROOM_BYTES: usize = 16 << 10;

/// Receive buffer of a stream.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Takes a record of several fragments; `None` while there is none.
    fragments: Option<RecordDecoder>,
}

/// What one system call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// So many bytes; `full` if there may be more.
    Bytes { bytes: usize, full: bool },
    /// The peer closed the stream.
    End,
    /// Nothing there.
    Nothing,
}

impl Incoming {
    /// Forgets a broken stream's bytes.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
        self.fragments = None;
    }

    /// Makes room and receives once.
    pub fn receive(&mut self, socket: impl AsFd) -> Result<Received, Errno> {
        self.make_room();
        let room = self.buffer.get_mut(self.end..).ok_or(Errno::NOBUFS)?;
        let offered = room.len();
        match recv(socket, room, RecvFlags::empty()) {
            Ok((_, 0)) => Ok(Received::End),
            Ok((_, bytes)) => {
                self.end += bytes;
                Ok(Received::Bytes {
                    bytes,
                    full: bytes == offered,
                })
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.is_empty() {
            self.buffer.resize(FIRST_BUFFER_BYTES, 0);
        }
        if self.buffer.len() - self.end >= MIN_ROOM_BYTES {
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() - self.end < self.buffer.len() / 2 {
            let doubled = (self.buffer.len() * 2).min(MAX_BUFFER_BYTES);
            self.buffer.resize(doubled, 0);
        }
    }

    /// The next whole record, `None` if its end is not there yet.
    ///
    /// # Errors
    /// The stream cannot be followed any more.
    #[inline]
    pub fn next_record(&mut self) -> wire::Result<Option<&[u8]>> {
        // What the decoder held back was handed out in the last turn.
        let done = |decoder: &RecordDecoder| decoder.is_idle() && decoder.buffered_bytes() > 0;
        if self.fragments.as_ref().is_some_and(done) {
            self.fragments = None;
        }
        if self.fragments.is_none() {
            let Some(whole) = self.next_whole()? else {
                return Ok(None);
            };
            if let Some((from, to)) = whole {
                return Ok(self.buffer.get(from..to));
            }
        }
        let decoder = self
            .fragments
            .get_or_insert_with(|| RecordDecoder::new(MAX_REPLY_BYTES));
        let input = self.buffer.get(self.start..self.end).unwrap_or_default();
        let fed = decoder.feed(input)?;
        self.start += fed.consumed;
        Ok(fed.record)
    }

    /// Outer `None`: wait for more. Inner `None`: a record of several fragments begins.
    #[inline]
    fn next_whole(&mut self) -> wire::Result<Option<Option<(usize, usize)>>> {
        let input = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some((mark, _)) = input.split_first_chunk::<MARK_BYTES>() else {
            return Ok(None);
        };
        let mark = RecordMark::parse(*mark)?;
        if mark.length > MAX_REPLY_BYTES {
            let kind = wire::ErrorKind::TooLong {
                length: mark.length,
                limit: MAX_REPLY_BYTES,
            };
            return Err(wire::Error::new(kind, 0, "record_mark"));
        }
        if !mark.last {
            return Ok(Some(None));
        }
        let end = self.start + MARK_BYTES + mark.length as usize;
        if end > self.end {
            return Ok(None);
        }
        let from = self.start + MARK_BYTES;
        self.start = end;
        Ok(Some(Some((from, end))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// All records that come out when `stream` is received in the given pieces.
    fn records(stream: &[u8], pieces: &[usize]) -> wire::Result<Vec<Vec<u8>>> {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        let mut incoming = Incoming::default();
        let mut found = Vec::new();
        let mut rest = stream;
        let mut pieces = pieces.iter().cycle();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*pieces.next().unwrap()));
            writer.write_all(now).unwrap();
            rest = later;
            while let Received::Bytes { .. } = incoming.receive(&reader).unwrap() {
                while let Some(record) = incoming.next_record()? {
                    found.push(record.to_vec());
                }
            }
            assert!(incoming.buffer.len() <= MAX_BUFFER_BYTES);
        }
        Ok(found)
    }

    fn fragment(bytes: &[u8], last: bool) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap();
        let mut out = RecordMark { length, last }.to_bytes().to_vec();
        out.extend_from_slice(bytes);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_split_of_a_stream_gives_the_same_records(
            lengths in proptest::collection::vec(
                proptest::collection::vec(0_usize..40_000, 1..4), 1..8),
            pieces in proptest::collection::vec(1_usize..50_000, 1..6),
        ) {
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for (number, fragments) in lengths.iter().enumerate() {
                let mut record = Vec::new();
                for (index, length) in fragments.iter().enumerate() {
                    let bytes = vec![u8::try_from(number * 8 + index).unwrap(); *length];
                    record.extend_from_slice(&bytes);
                    stream.extend(fragment(&bytes, index + 1 == fragments.len()));
                }
                expected.push(record);
            }
            prop_assert_eq!(records(&stream, &pieces).unwrap(), expected);
        }
    }

    #[test]
    fn the_largest_reply_fits_and_a_larger_one_is_refused() {
        let largest = vec![7; MAX_REPLY_BYTES as usize];
        let stream = [fragment(&largest, true), fragment(b"next", true)].concat();
        let found = records(&stream, &[100_000]).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].len(), found[1].as_slice()),
            (largest.len(), b"next".as_slice())
        );
        for last in [true, false] {
            let length = MAX_REPLY_BYTES + 1;
            let mark = RecordMark { length, last }.to_bytes();
            records(&mark, &[4]).unwrap_err();
        }
        records(&[0xff; 8], &[8]).unwrap_err();
    }

    #[test]
    fn fragments_without_end_are_refused() {
        let empty = fragment(b"", false).repeat(5_000);
        records(&empty, &[1_000]).unwrap_err();
        let large = fragment(&[1; 60_000], false).repeat(20);
        records(&large, &[60_000]).unwrap_err();
    }
}
