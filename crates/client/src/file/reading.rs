//! Reading: parts of `rsize`, all at once; short answers continued.

use std::sync::Arc;

use measure::{Clock, MonotonicClock};
use parking_lot::Mutex;
use wire::nfs3::{READ3args, READ3res, Res, fattr3};

use super::pieces::Overlay;
use super::{File, Inner};
use crate::error::CallError;
use crate::nfs3::Read;

/// Most bytes of one read; more is answered short, as read(2) may.
pub const MAX_READ_BYTES: usize = 16 << 20;

/// What a read found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadData {
    /// The bytes; fewer than asked for only at the file's end.
    pub bytes: Vec<u8>,
    /// Whether they end where the file does.
    pub end_of_file: bool,
    /// Attributes of the reply that came last, if it had some.
    pub attributes: Option<fattr3>,
}

type Done = Box<dyn FnOnce(Result<ReadData, CallError>) + Send>;

/// A read whose parts are under way.
struct Job {
    parts: Vec<Part>,
    left: usize,
    error: Option<CallError>,
    attributes: Option<fattr3>,
    done: Option<Done>,
    offset: u64,
    wanted: usize,
    /// What was written and not committed when the read began.
    overlay: Option<Overlay>,
}

struct Part {
    offset: u64,
    wanted: usize,
    bytes: Vec<u8>,
    end_of_file: bool,
}

impl File {
    /// Reads up to `length` bytes (at most [`MAX_READ_BYTES`]). Sees what this `File` wrote before,
    /// even what a restarted server has lost and will get again. `done` is run once, with the bytes
    /// or the first error of any part: in the reactor's thread (here if nothing is to be read).
    pub fn read_then(
        &self,
        offset: u64,
        length: usize,
        done: impl FnOnce(Result<ReadData, CallError>) + Send + 'static,
    ) {
        let step = self.inner.read_size_bytes as usize;
        let end = offset.saturating_add(length.min(MAX_READ_BYTES) as u64);
        let mut parts = Vec::new();
        let mut at = offset;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(step).min(step);
            parts.push(Part {
                offset: at,
                wanted,
                bytes: Vec::new(),
                end_of_file: false,
            });
            at += wanted as u64;
        }
        if parts.is_empty() {
            done(Ok(ReadData::default()));
            return;
        }
        let count = parts.len();
        let job = Arc::new(Mutex::new(Job {
            left: count,
            parts,
            error: None,
            attributes: None,
            done: Some(Box::new(done)),
            offset,
            wanted: usize::try_from(end - offset).unwrap_or(usize::MAX),
            overlay: self.inner.dirty.lock().overlay(offset, end),
        }));
        Inner::pump(&self.inner);
        for index in 0..count {
            Inner::ask(&self.inner, &job, index);
        }
    }
}

impl Inner {
    /// Asks for what is left of a part.
    fn ask(inner: &Arc<Inner>, job: &Arc<Mutex<Job>>, index: usize) {
        let (offset, count) = {
            let job = job.lock();
            let Some(part) = job.parts.get(index) else {
                return;
            };
            let got = part.bytes.len();
            (part.offset + got as u64, part.wanted - got)
        };
        let arguments = READ3args {
            file: inner.handle.as_fh(),
            offset,
            count: u32::try_from(count).unwrap_or(u32::MAX),
        };
        let (again, job) = (Arc::clone(inner), Arc::clone(job));
        let sent_ns = MonotonicClock.now_ns();
        let caller = inner.caller.as_ref();
        inner
            .client
            .call_then::<Read>(caller, &arguments, move |result| {
                let attributes = match &result {
                    Ok(Res::Ok(read)) => read.file_attributes,
                    Ok(Res::Fail(_, attributes)) => *attributes,
                    Err(_) => None,
                };
                if let Some(new) = &attributes {
                    again.learn(sent_ns, |cache, asked| {
                        cache.update(&again.handle, new, asked);
                    });
                }
                let goes_on = {
                    let mut job = job.lock();
                    job.take(index, count, result)
                };
                if goes_on {
                    Inner::ask(&again, &job, index);
                } else {
                    finish(&job);
                }
            });
    }
}

impl Job {
    /// Takes an answer; true if the part has to be continued.
    fn take(
        &mut self,
        index: usize,
        asked: usize,
        result: Result<READ3res<'_>, CallError>,
    ) -> bool {
        let Some(part) = self.parts.get_mut(index) else {
            return false;
        };
        let taken = match result {
            Ok(Res::Ok(read)) => {
                self.attributes = read.file_attributes.or(self.attributes);
                part.take(asked, &read)
            }
            Ok(Res::Fail(status, attributes)) => {
                self.attributes = attributes.or(self.attributes);
                Err(CallError::Nfs(status))
            }
            Err(error) => Err(error),
        };
        match taken {
            Ok(true) => return true,
            Ok(false) => {}
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
        self.left -= 1;
        false
    }
}

impl Part {
    fn take(&mut self, asked: usize, read: &wire::nfs3::READ3resok<'_>) -> Result<bool, CallError> {
        let data = read.data.0;
        if data.len() > asked || read.count as usize != data.len() {
            return Err(CallError::Protocol(
                "READ: count, data and what was asked differ",
            ));
        }
        if self.bytes.is_empty() {
            self.bytes
                .reserve_exact(if read.eof { data.len() } else { self.wanted });
        }
        self.bytes.extend_from_slice(data);
        self.end_of_file = read.eof;
        if self.bytes.len() == self.wanted || read.eof {
            return Ok(false);
        }
        if data.is_empty() {
            return Err(CallError::Protocol("READ: no byte, and not the file's end"));
        }
        Ok(true)
    }
}

/// Hands out the bytes up to the first end of file, when the last part has its answer.
fn finish(job: &Mutex<Job>) {
    let mut job = job.lock();
    if job.left > 0 {
        return;
    }
    let Some(done) = job.done.take() else {
        return;
    };
    let result = match job.error {
        Some(error) => Err(error),
        None => {
            let attributes = job.attributes;
            let mut parts = std::mem::take(&mut job.parts).into_iter();
            let mut data = ReadData {
                attributes,
                ..ReadData::default()
            };
            if let Some(first) = parts.next() {
                (data.bytes, data.end_of_file) = (first.bytes, first.end_of_file);
                let mut whole = data.bytes.len() == first.wanted;
                // A part that ends early is the end of the file, whatever was seen behind it.
                for part in parts.take_while(|part| {
                    std::mem::replace(&mut whole, part.bytes.len() == part.wanted)
                }) {
                    data.bytes.extend_from_slice(&part.bytes);
                    data.end_of_file = part.end_of_file;
                }
            }
            if let Some(overlay) = job.overlay.take() {
                let end = overlay.apply(job.offset, job.wanted, &mut data.bytes);
                data.end_of_file = (data.end_of_file || data.bytes.len() < job.wanted) && end;
            }
            Ok(data)
        }
    };
    drop(job);
    done(result);
}
