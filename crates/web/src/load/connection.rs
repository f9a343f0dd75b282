//! One connection of the generator: its socket, the request under way, its line.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::draw::Drawn;
use crate::fileset::{Content, FileId};
use crate::page::{
    Asked, Cookie, Kind, RequestId, SUFFIX, is_posted, next_ad, prefix_bytes, write_prefix,
};
use crate::reply::Reply;

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No socket, nothing to do.
    Closed,
    /// Its request waits after failures.
    Waiting,
    /// connect(2) is under way.
    Connecting,
    /// Connected, nothing to do.
    Idle,
    /// A request was begun to be sent; its reply is awaited or read.
    Busy,
    /// The reply is here, its last bytes are still on the line.
    OnTheLine,
    /// The server is to close.
    Closing,
}

impl Phase {
    /// Whether a request is: begun, and without its end.
    pub const fn is_under_way(self) -> bool {
        matches!(
            self,
            Phase::Waiting | Phase::Connecting | Phase::Busy | Phase::OnTheLine
        )
    }
}

/// A line of limited speed: what was read takes its time, and nothing is read before it is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub ns_per_byte: f64,
    /// Most bytes of one read: an eighth of a second.
    pub quantum_bytes: usize,
    pub receive_buffer_bytes: usize,
}

impl Line {
    pub fn new(bits_per_s: u64, receive_buffer_bytes: usize) -> Self {
        let quantum = usize::try_from(bits_per_s / 64).unwrap_or(usize::MAX);
        Line {
            ns_per_byte: 8e9 / bits_per_s as f64,
            quantum_bytes: quantum.clamp(1460, 64 << 10),
            receive_buffer_bytes,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub phase: Phase,
    pub socket: Option<OwnedFd>,
    /// Counts sockets: an event of an earlier one is known by it.
    pub generation: u32,
    pub drawn: Drawn,
    pub id: RequestId,
    pub planned_ns: u64,
    pub first_byte_ns: u64,
    /// When it began what it does: a connection, a request, waiting for the server to close.
    pub active_ns: u64,
    pub reply: Reply,
    pub body_bytes: u64,
    pub expected_bytes: u64,
    pub close: bool,
    /// The server has closed its side.
    pub hung_up: bool,
    /// There may be something to read.
    pub readable: bool,
    /// Since when there is.
    pub readable_ns: u64,
    /// When all that was read has come over the line.
    pub line_free_ns: u64,
    /// Of the timer that counts.
    pub timer_ns: u64,
    /// Failures in a row.
    pub failures: u32,
    pub cookie: Cookie,
    /// Bytes within the timed part.
    pub window_bytes: u64,
    /// Rest of a request that the socket did not take, rest of a head that is not complete.
    pub unsent: Vec<u8>,
    pub kept: Vec<u8>,
}

impl Connection {
    pub fn new(user: u32) -> Self {
        Connection {
            phase: Phase::Closed,
            socket: None,
            generation: 0,
            drawn: Drawn {
                kind: Kind::StaticGet,
                file: FileId::of(0),
                close: false,
                verify: false,
            },
            id: RequestId {
                writer: 0,
                number: 0,
            },
            planned_ns: 0,
            first_byte_ns: 0,
            active_ns: 0,
            reply: Reply::default(),
            body_bytes: 0,
            expected_bytes: 0,
            close: false,
            hung_up: false,
            readable: false,
            readable_ns: 0,
            line_free_ns: 0,
            timer_ns: 0,
            failures: 0,
            cookie: Cookie { user, last_ad: 0 },
            window_bytes: 0,
            unsent: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Begins to connect.
    pub fn connect(&mut self, address: &SocketAddr, line: Option<&Line>) -> Result<(), Errno> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        if let Some(line) = line {
            sockopt::set_socket_recv_buffer_size(&socket, line.receive_buffer_bytes)?;
        }
        match rustix::net::connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        self.socket = Some(socket);
        self.generation = self.generation.wrapping_add(1);
        self.hung_up = false;
        self.readable = false;
        Ok(())
    }

    /// Closes the socket, if there is one.
    pub fn close(&mut self) {
        self.socket = None;
        self.phase = Phase::Closed;
        self.unsent.clear();
        self.kept.clear();
    }

    /// Appends the request.
    pub fn write_request(&self, host: &str, post_bytes: usize, out: &mut Vec<u8>) {
        let kind = self.drawn.kind;
        let asked = Asked {
            file: self.drawn.file,
            id: self.id,
        };
        out.extend_from_slice(if kind == Kind::Post {
            b"POST "
        } else {
            b"GET "
        });
        out.extend_from_slice(kind.path().as_bytes());
        match kind {
            Kind::StaticGet => out.extend_from_slice(&self.drawn.file.path()),
            Kind::Post => {}
            _ => {
                out.push(b'?');
                asked.write(out);
            }
        }
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(host.as_bytes());
        out.extend_from_slice(b"\r\n");
        if kind == Kind::AdGet {
            out.extend_from_slice(b"Cookie: ");
            self.cookie.write(out);
            out.extend_from_slice(b"\r\n");
        }
        if self.drawn.close {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        if kind == Kind::Post {
            out.extend_from_slice(b"Content-Type: application/x-www-form-urlencoded\r\n");
            out.extend_from_slice(b"Content-Length: ");
            // post_bytes has at most five digits.
            let digits =
                [10_000, 1000, 100, 10, 1].map(|unit| b'0' + (post_bytes / unit % 10) as u8);
            let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
            out.extend_from_slice(digits.get(zeros..).unwrap_or_default());
            out.extend_from_slice(b"\r\n\r\n");
            let body = out.len();
            asked.write(out);
            out.extend_from_slice(b"&fill=");
            out.resize(body + post_bytes.max(Asked::BYTES + 6), b'x');
        } else {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Whether these bytes may stand at `offset` of the reply's body.
    pub fn is_right(&self, offset: u64, data: &[u8], content: &Content) -> bool {
        let (kind, file) = (self.drawn.kind, self.drawn.file);
        match kind {
            Kind::StaticGet => content.mismatch(file.index(), offset, data).is_none(),
            Kind::Post => is_posted(self.id, offset, data),
            _ => self.is_page(offset, data, content),
        }
    }

    fn is_page(&self, offset: u64, mut data: &[u8], content: &Content) -> bool {
        let (kind, file) = (self.drawn.kind, self.drawn.file);
        let prefix = prefix_bytes(kind);
        let mut offset = offset;
        let mut take = |until: u64, offset: &mut u64| {
            let count = usize::try_from(until.saturating_sub(*offset)).unwrap_or(usize::MAX);
            let (front, rest) = data.split_at(count.min(data.len()));
            data = rest;
            let at = *offset;
            *offset += front.len() as u64;
            (at, front)
        };
        let (at, front) = take(prefix, &mut offset);
        if !front.is_empty() {
            let mut text = Vec::with_capacity(prefix as usize);
            let asked = Asked { file, id: self.id };
            let ad = (kind == Kind::AdGet).then(|| next_ad(self.cookie));
            write_prefix(kind, &asked, ad, &mut text);
            if text.get(at as usize..at as usize + front.len()) != Some(front) {
                return false;
            }
        }
        let (at, middle) = take(prefix + file.bytes(), &mut offset);
        if !middle.is_empty()
            && content
                .mismatch(file.index(), at.saturating_sub(prefix), middle)
                .is_some()
        {
            return false;
        }
        let at = offset.saturating_sub(prefix + file.bytes()) as usize;
        data.is_empty() || SUFFIX.get(at..at + data.len()) == Some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(connection: &Connection, content: &Content) -> Vec<u8> {
        let asked = Asked {
            file: connection.drawn.file,
            id: connection.id,
        };
        let mut text = Vec::new();
        write_prefix(
            Kind::AdGet,
            &asked,
            Some(next_ad(connection.cookie)),
            &mut text,
        );
        let front = text.len();
        text.resize(front + asked.file.bytes() as usize, 0);
        content.fill(asked.file.index(), 0, &mut text[front..]);
        text.extend_from_slice(SUFFIX);
        text
    }

    #[test]
    fn a_page_is_right_in_all_pieces_and_wrong_with_any_flipped_byte() {
        let content = Content::new(3);
        let mut connection = Connection::new(77);
        connection.drawn.kind = Kind::AdGet;
        connection.drawn.file = FileId {
            directory: 1,
            class: 1,
            file: 2,
        };
        let mut text = page(&connection, &content);
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let from = random.usize(..text.len());
            let to = random.usize(from..=text.len());
            assert!(connection.is_right(from as u64, &text[from..to], &content));
        }
        for at in 0..text.len() {
            text[at] ^= 1;
            assert!(!connection.is_right(0, &text, &content), "{at}");
            assert!(
                !connection.is_right(at as u64, &text[at..at + 1], &content),
                "{at}"
            );
            text[at] ^= 1;
        }
    }

    #[test]
    fn a_request_is_what_its_head_says() {
        let mut connection = Connection::new(77);
        connection.drawn.kind = Kind::Post;
        connection.drawn.close = true;
        let mut text = Vec::new();
        connection.write_request("h:80", 200, &mut text);
        let mut fields = [httparse::EMPTY_HEADER; 8];
        let mut request = httparse::Request::new(&mut fields);
        let used = request.parse(&text).unwrap().unwrap();
        assert_eq!(
            (request.method, request.path),
            (Some("POST"), Some("/post"))
        );
        let field = |name: &str| request.headers.iter().find(|field| field.name == name);
        assert_eq!(field("Content-Length").unwrap().value, b"200");
        assert_eq!(field("Connection").unwrap().value, b"close");
        assert_eq!(text.len() - used, 200);
        assert!(Asked::parse(&text[used..]).is_some());
    }
}
