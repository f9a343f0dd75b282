//! One reply of HTTP/1.1 in pieces as it comes: head, and body by length, chunks or to the end.
//!
//! Heads and sizes of chunks are parsed by httparse. Nothing is stored here: what is incomplete is
//! left to the caller, who brings it again with more behind it; so a reply costs no allocation.
//!
//! Limits: a head, trailers together, and the line of a chunk's size may have [`MAX_HEAD_BYTES`];
//! interim replies (1xx) count as the head that follows them. Of contradicting lengths none is
//! chosen: the reply is malformed (RFC 9112 section 6.3). Transfer codings other than `chunked` are
//! malformed: none was asked for.

/// Longest head, with interim heads before it; longest trailers; longest line of a chunk's size.
pub const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most header fields.
const MAX_FIELDS: usize = 64;

/// What makes a reply none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyError {
    /// More than [`MAX_HEAD_BYTES`] or [`MAX_FIELDS`].
    HeadTooLong,
    /// Not HTTP, or lengths that cannot be.
    Malformed,
}

/// What a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Length of the body, where it is told.
    pub length: Option<u64>,
    /// Whether the body comes in chunks.
    pub chunked: bool,
    /// Whether the server closes the connection behind it.
    pub closes: bool,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed in front of which those not used have to stand again.
    More,
    /// The final head.
    Head(Head),
    /// So many bytes of the body are next in the input; they are used.
    Data(usize),
    /// The reply is complete.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    ToTheEnd,
    Done,
}

/// A reply that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    state: State,
    /// Of interim heads before.
    head_bytes: usize,
}

impl Default for Reply {
    fn default() -> Self {
        Reply {
            state: State::Head,
            head_bytes: 0,
        }
    }
}

impl Reply {
    /// Takes the next step on `input`: bytes used, and what they are.
    ///
    /// # Errors
    /// [`ReplyError`]; the connection cannot be read any further.
    #[inline]
    pub fn step(&mut self, input: &[u8]) -> Result<(usize, Step), ReplyError> {
        match self.state {
            State::Head => self.head(input),
            State::Length(left) => Ok(self.data(input, left, State::Length)),
            State::Chunk(left) => Ok(self.data(input, left, State::Chunk)),
            State::ToTheEnd => Ok((input.len(), some(input.len()))),
            State::ChunkSize => self.chunk_size(input),
            State::ChunkEnd => self.chunk_end(input),
            State::Trailers => self.trailers(input),
            State::Done => Ok((0, Step::End)),
        }
    }

    /// The connection's end: whether the reply is complete with it.
    #[must_use]
    pub const fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::ToTheEnd | State::Done)
    }

    /// Whether the head is still to come.
    #[must_use]
    pub const fn awaits_head(&self) -> bool {
        matches!(self.state, State::Head)
    }

    /// Bytes of a body of known length that are still to come.
    #[must_use]
    pub const fn left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Takes bytes of a body of known length that were thrown away unseen.
    pub const fn skip(&mut self, bytes: u64) {
        if let State::Length(left) = self.state {
            self.state = State::Length(left.saturating_sub(bytes));
        }
    }

    fn data(&mut self, input: &[u8], left: u64, state: fn(u64) -> State) -> (usize, Step) {
        if left == 0 {
            return match self.state {
                State::Chunk(_) => {
                    self.state = State::ChunkEnd;
                    (0, Step::Data(0))
                }
                _ => {
                    self.state = State::Done;
                    (0, Step::End)
                }
            };
        }
        let here = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        self.state = state(left - here as u64);
        (here, some(here))
    }

    fn head(&mut self, input: &[u8]) -> Result<(usize, Step), ReplyError> {
        let mut fields = [const { std::mem::MaybeUninit::uninit() }; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let parsed = config.parse_response_with_uninit_headers(&mut response, input, &mut fields);
        let used = match parsed {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) => return more(self.head_bytes + input.len()),
            Err(httparse::Error::TooManyHeaders) => return Err(ReplyError::HeadTooLong),
            Err(_) => return Err(ReplyError::Malformed),
        };
        self.head_bytes += used;
        if self.head_bytes > MAX_HEAD_BYTES {
            return Err(ReplyError::HeadTooLong);
        }
        let head = head_of(&response)?;
        if (100..200).contains(&head.status) {
            return match head.status {
                101 => Err(ReplyError::Malformed), // nothing was asked to be switched
                _ => Ok((used, Step::Data(0))),
            };
        }
        self.state = match (head.status, head.chunked, head.length) {
            (204 | 304, ..) => State::Length(0),
            (_, true, _) => State::ChunkSize,
            (_, false, Some(length)) => State::Length(length),
            (_, false, None) => State::ToTheEnd,
        };
        Ok((used, Step::Head(head)))
    }

    fn chunk_size(&mut self, input: &[u8]) -> Result<(usize, Step), ReplyError> {
        match httparse::parse_chunk_size(input) {
            Ok(httparse::Status::Complete((used, _))) if used > MAX_HEAD_BYTES => {
                Err(ReplyError::HeadTooLong)
            }
            Ok(httparse::Status::Complete((used, size))) => {
                self.state = match size {
                    0 => State::Trailers,
                    size => State::Chunk(size),
                };
                Ok((used, Step::Data(0)))
            }
            Ok(httparse::Status::Partial) => more(input.len()),
            Err(_) => Err(ReplyError::Malformed),
        }
    }

    fn chunk_end(&mut self, input: &[u8]) -> Result<(usize, Step), ReplyError> {
        match input {
            [b'\r', b'\n', ..] => {
                self.state = State::ChunkSize;
                Ok((2, Step::Data(0)))
            }
            [] | [b'\r'] => Ok((0, Step::More)),
            _ => Err(ReplyError::Malformed),
        }
    }

    fn trailers(&mut self, input: &[u8]) -> Result<(usize, Step), ReplyError> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        match httparse::parse_headers(input, &mut fields) {
            Ok(httparse::Status::Complete((used, _))) if used <= MAX_HEAD_BYTES => {
                self.state = State::Done;
                Ok((used, Step::End))
            }
            Ok(httparse::Status::Partial) => more(input.len()),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => Err(ReplyError::HeadTooLong),
            Err(_) => Err(ReplyError::Malformed),
        }
    }
}

const fn some(bytes: usize) -> Step {
    match bytes {
        0 => Step::More,
        bytes => Step::Data(bytes),
    }
}

const fn more(bytes: usize) -> Result<(usize, Step), ReplyError> {
    match bytes > MAX_HEAD_BYTES {
        true => Err(ReplyError::HeadTooLong),
        false => Ok((0, Step::More)),
    }
}

fn head_of(response: &httparse::Response<'_, '_>) -> Result<Head, ReplyError> {
    let mut head = Head {
        status: response.code.unwrap_or_default(),
        length: None,
        chunked: false,
        closes: response.version == Some(0),
    };
    let has = |value: &[u8], word: &[u8]| {
        let mut words = value.split(|byte| *byte == b',');
        words.any(|found| found.trim_ascii().eq_ignore_ascii_case(word))
    };
    for field in response.headers.iter() {
        let name = field.name;
        if name.eq_ignore_ascii_case("content-length") {
            let length = decimal(field.value.trim_ascii()).ok_or(ReplyError::Malformed)?;
            if head.length.is_some_and(|before| before != length) {
                return Err(ReplyError::Malformed);
            }
            head.length = Some(length);
        } else if name.eq_ignore_ascii_case("connection") {
            head.closes |= has(field.value, b"close");
            if response.version == Some(0) && has(field.value, b"keep-alive") {
                head.closes = false;
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if head.chunked || !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(ReplyError::Malformed);
            }
            head.chunked = true;
        }
    }
    if head.chunked && head.length.is_some() {
        return Err(ReplyError::Malformed);
    }
    head.closes |= !head.chunked && head.length.is_none() && !matches!(head.status, 204 | 304);
    Ok(head)
}

fn decimal(text: &[u8]) -> Option<u64> {
    let number = text.iter().try_fold(0_u64, |sum, digit| match digit {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    });
    number.filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of a reply that comes in pieces of `size`: head, body, bytes used, or the error.
    fn read(bytes: &[u8], size: usize) -> Result<(Option<Head>, Vec<u8>, usize), ReplyError> {
        let (mut reply, mut head, mut body) = (Reply::default(), None, Vec::new());
        let (mut used, mut there) = (0, 0);
        loop {
            match reply.step(&bytes[used..there])? {
                (step, Step::More) => {
                    used += step;
                    if there == bytes.len() {
                        let end = reply.ends_with_connection();
                        return Ok((head.filter(|_| end), body, used));
                    }
                    there = (there + size).min(bytes.len());
                }
                (step, Step::Head(found)) => {
                    head = Some(found);
                    used += step;
                }
                (step, Step::Data(data)) => {
                    let from = used + step - data;
                    body.extend_from_slice(&bytes[from..used + step]);
                    used += step;
                }
                (step, Step::End) => return Ok((head, body, used + step)),
            }
        }
    }

    /// Every way to cut it gives the same.
    fn all_cuts(text: &str) -> Result<(Option<Head>, Vec<u8>, usize), ReplyError> {
        let whole = read(text.as_bytes(), text.len().max(1));
        for size in 1..text.len() {
            assert_eq!(read(text.as_bytes(), size), whole, "{size}: {text}");
        }
        whole
    }

    #[test]
    fn bodies_by_length_by_chunks_and_to_the_end() {
        let (head, body, used) =
            all_cuts("HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\n\r\nhelloHTTP").unwrap();
        let head = head.unwrap();
        assert_eq!(
            (head.status, head.length, head.closes),
            (200, Some(5), false)
        );
        assert_eq!((&body[..], used), (&b"hello"[..], 43));
        // RFC 9112 section 7.1, with an extension and a trailer.
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nConnection: x, Close\r\n\r\n\
                      4;a=b\r\nWiki\r\nA\r\npedia in\r\n\r\n0\r\nX: y\r\n\r\n";
        let (head, body, used) = all_cuts(chunks).unwrap();
        assert!(head.unwrap().chunked && head.unwrap().closes);
        assert_eq!((&body[..], used), (&b"Wikipedia in\r\n"[..], chunks.len()));
        let (head, body, _) = all_cuts("HTTP/1.0 200 OK\r\n\r\nto the end").unwrap();
        assert!(head.unwrap().closes);
        assert_eq!(body, b"to the end");
        let (head, body, _) =
            all_cuts("HTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 304 Same\r\n\r\n").unwrap();
        assert_eq!((head.unwrap().status, body.len()), (304, 0));
    }

    #[test]
    fn what_is_cut_off_is_not_complete() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        ] {
            assert_eq!(all_cuts(text).unwrap().0, None, "{text}");
        }
    }

    #[test]
    fn nonsense_is_malformed() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWikipedia",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        ] {
            assert_eq!(all_cuts(text), Err(ReplyError::Malformed), "{text}");
        }
    }

    #[test]
    fn nothing_is_waited_for_without_end() {
        let front = "HTTP/1.1 200 OK\r\n";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for text in [
            format!("{front}X: {}", "y".repeat(MAX_HEAD_BYTES)),
            format!("{front}{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1)),
            "HTTP/1.1 103 Hints\r\nA: b\r\n\r\n".repeat(MAX_HEAD_BYTES / 20),
            format!("{chunked}4;{}", "x".repeat(MAX_HEAD_BYTES)),
            format!("{chunked}0\r\nX: {}", "y".repeat(MAX_HEAD_BYTES)),
        ] {
            for size in [1000, text.len()] {
                assert_eq!(read(text.as_bytes(), size), Err(ReplyError::HeadTooLong));
            }
        }
    }
}
