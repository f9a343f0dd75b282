//! What is answered to a request.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, COOKIE, HeaderValue, REFERER, SET_COOKIE, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};

use super::body::{PIECE_BYTES, PageBody};
use super::logs::{AccessLog, Post, write_date};
use super::{Counters, count};
use crate::fileset::MAX_FILE_BYTES;
use crate::page::{
    Asked, Cookie, Kind, MAX_POST_BYTES, SUFFIX, next_ad, write_posted, write_prefix,
};

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Service {
    pub root: Arc<OwnedFd>,
    pub posts: Option<mpsc::Sender<Post>>,
    pub access: Option<AccessLog>,
    pub counters: Arc<Counters>,
}

type Answer = Response<PageBody>;

/// A file that was opened, with its first piece.
struct Opened {
    file: Arc<File>,
    bytes: u64,
    first: Bytes,
}

impl Service {
    /// Answers, counts, and logs.
    pub async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Answer {
        let logged = self.access.as_ref().map(|_| LogLine::of(peer, &request));
        let path = request.uri().path();
        let answer = match Kind::of_path(path) {
            Some(Kind::Post) => self.post(request).await,
            Some(kind) => self.page(kind, &request).await,
            None => self.file(&request).await,
        };
        let answer = answer.unwrap_or_else(|status| self.refuse(status));
        if let (Some(access), Some(logged)) = (&self.access, logged) {
            access.line(&logged.finish(&answer));
        }
        answer
    }

    fn refuse(&self, status: StatusCode) -> Answer {
        let counter = match status {
            StatusCode::NOT_FOUND => &self.counters.not_found,
            StatusCode::METHOD_NOT_ALLOWED => &self.counters.method_not_allowed,
            StatusCode::INTERNAL_SERVER_ERROR => &self.counters.io_errors,
            _ => &self.counters.bad_request,
        };
        count(counter, 1);
        let text = status.canonical_reason().unwrap_or_default();
        let mut answer = Response::new(PageBody::of(text, &self.counters));
        *answer.status_mut() = status;
        answer
    }

    /// Opens a file beneath the root and reads up to `most` bytes of it.
    async fn open(&self, path: &str, most: u64) -> Result<Opened, StatusCode> {
        let (root, path) = (Arc::clone(&self.root), path.to_owned());
        let opened = tokio::task::spawn_blocking(move || open_beneath(&root, &path, most)).await;
        let status = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::IO | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::STALE) | None => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            Some(_) => StatusCode::NOT_FOUND,
        };
        opened
            .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?
            .map_err(status)
    }

    async fn file(&self, request: &Request<Incoming>) -> Result<Answer, StatusCode> {
        let head = *request.method() == Method::HEAD;
        if !head && *request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let path = request.uri().path().trim_start_matches('/');
        let most = if head { 0 } else { PIECE_BYTES };
        let opened = self.open(path, most).await?;
        count(&self.counters.kinds[Kind::StaticGet as usize], 1);
        // To HEAD, hyper answers with the body's length and no body.
        let from = opened.first.len() as u64;
        let rest = (opened.file, from, opened.bytes);
        let body = PageBody::with_file(opened.first, rest, Bytes::new(), &self.counters);
        Ok(typed(body, "application/octet-stream"))
    }

    async fn page(&self, kind: Kind, request: &Request<Incoming>) -> Result<Answer, StatusCode> {
        if *request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let query = request.uri().query().unwrap_or_default();
        let asked = Asked::parse(query.as_bytes()).ok_or(StatusCode::BAD_REQUEST)?;
        let cookie = match kind {
            Kind::AdGet => Some(cookie(request.headers()).ok_or(StatusCode::BAD_REQUEST)?),
            _ => None,
        };
        let path = asked.file.path();
        let path = std::str::from_utf8(&path).map_err(|_| StatusCode::BAD_REQUEST)?;
        let most = if kind == Kind::CgiGet {
            MAX_FILE_BYTES
        } else {
            PIECE_BYTES
        };
        let opened = self.open(path, most).await?;
        let ad = cookie.map(next_ad);
        let mut front = Vec::with_capacity(256 + opened.first.len());
        write_prefix(kind, &asked, ad, &mut front);
        front.extend_from_slice(&opened.first);
        count(&self.counters.kinds[kind as usize], 1);
        let rest = (opened.file, opened.first.len() as u64, opened.bytes);
        let suffix = Bytes::from_static(SUFFIX);
        let body = PageBody::with_file(front.into(), rest, suffix, &self.counters);
        let mut answer = typed(body, "text/html");
        if let (Some(cookie), Some(last_ad)) = (cookie, ad) {
            let mut text = Vec::new();
            Cookie { last_ad, ..cookie }.write(&mut text);
            if let Ok(value) = HeaderValue::from_bytes(&text) {
                answer.headers_mut().insert(SET_COOKIE, value);
            }
        }
        Ok(answer)
    }

    async fn post(&self, request: Request<Incoming>) -> Result<Answer, StatusCode> {
        let Some(posts) = &self.posts else {
            return Err(StatusCode::NOT_FOUND);
        };
        if *request.method() != Method::POST {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let body = Limited::new(request.into_body(), MAX_POST_BYTES)
            .collect()
            .await;
        let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?.to_bytes();
        let id = Asked::parse(&body).ok_or(StatusCode::BAD_REQUEST)?.id;
        let (done, number) = oneshot::channel();
        let sent = posts
            .send(Post {
                id,
                body_bytes: body.len(),
                done,
            })
            .await;
        sent.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        let number = number
            .await
            .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        count(&self.counters.kinds[Kind::Post as usize], 1);
        let mut text = Vec::new();
        write_posted(id, number, &mut text);
        Ok(typed(PageBody::of(text, &self.counters), "text/plain"))
    }
}

fn typed(body: PageBody, kind: &'static str) -> Answer {
    let mut answer = Response::new(body);
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn cookie(headers: &HeaderMap) -> Option<Cookie> {
    let values = headers.get_all(COOKIE).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .find_map(Cookie::parse)
}

/// A regular file beneath the root: no `..`, no symbolic link leads out of it.
fn open_beneath(root: &OwnedFd, path: &str, most: u64) -> io::Result<Opened> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK; // a FIFO would wait
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(rustix::fs::openat2(
        root,
        path,
        flags,
        Mode::empty(),
        within,
    )?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(Errno::NOENT.into());
    }
    let bytes = found.len();
    let mut first = vec![0; usize::try_from(bytes.min(most)).unwrap_or_default()];
    for (piece, offset) in first
        .chunks_mut(PIECE_BYTES as usize)
        .zip((0..).step_by(PIECE_BYTES as usize))
    {
        file.read_exact_at(piece, offset)?;
    }
    Ok(Opened {
        file: Arc::new(file),
        bytes,
        first: first.into(),
    })
}

/// A line of the access log in the making, in the combined format.
struct LogLine {
    front: Vec<u8>,
    back: Vec<u8>,
}

impl LogLine {
    fn of(peer: SocketAddr, request: &Request<Incoming>) -> Self {
        let (mut front, mut back) = (Vec::with_capacity(256), Vec::new());
        let _ = write!(front, "{} - - [", peer.ip());
        write_date(measure::clock::realtime_ns() / 1_000_000_000, &mut front);
        let (method, uri) = (request.method(), request.uri());
        let version = request.version();
        let _ = write!(front, "] \"{method} {uri} {version:?}\" ");
        for name in [REFERER, USER_AGENT] {
            let value = request
                .headers()
                .get(name)
                .map_or(&b"-"[..], HeaderValue::as_bytes);
            back.extend_from_slice(b" \"");
            for byte in value {
                match byte {
                    b'"' | b'\\' | 0..32 | 127.. => {
                        let _ = write!(back, "\\x{byte:02X}");
                    }
                    _ => back.push(*byte),
                }
            }
            back.push(b'"');
        }
        back.push(b'\n');
        LogLine { front, back }
    }

    fn finish(mut self, answer: &Answer) -> Vec<u8> {
        let bytes = hyper::body::Body::size_hint(answer.body()).lower();
        let _ = write!(self.front, "{} {bytes}", answer.status().as_u16());
        self.front.extend_from_slice(&self.back);
        self.front
    }
}
