//! Every call of the kernel's NFS client and every request of its NFS server, by the tracepoints of
//! sunrpc: no probe on system calls, no capture.
//!
//! ```text
//! tracepoint ──> ring of each processor (perf_event_open(2)) ── take() ──> in order ──> calls
//! ```
//!
//! Decisions. Tracepoints are opened by descriptors of this process and end with it, however it
//! ends; nothing is written to tracefs. A call of the client costs one record, a request of the
//! server six. What a ring has no room for is counted.
//!
//! Limits. All clients and servers of the machine are seen: whoever asks picks by client and
//! program. The client's times are whole microseconds. A request waits from the moment its
//! connection is put into the server's queue: where several requests arrive on one connection at
//! once, those behind the first count from when the connection is put there again.

pub mod calls;
pub mod events;
pub mod format;
pub mod tcp;

use std::io;
use std::path::Path;

use measure::clock::{Clock as _, MonotonicClock};
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use crate::error::WatchError;
use crate::tracefs::Tracefs;

use calls::Event;
pub use calls::{Calls, ClientCall, ServedCall};
use events::{Decoder, Point};
use format::Format;

/// Bytes of a ring: some 3,000 calls of one processor between two takes.
const RING_BYTES: usize = 512 << 10;
/// A record, and what is told next of its call, is in its ring at most so long after its instant.
const SETTLED_NS: u64 = 2_000_000 + calls::PAIR_NS;
/// PERF_RECORD_LOST and PERF_RECORD_SAMPLE (linux/perf_event.h).
const LOST: u32 = 2;
pub(crate) const SAMPLE: u32 = 9;
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Which side is watched.
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    /// The kernel's clients.
    pub client: bool,
    /// Of these: which file a READ, WRITE or COMMIT is about.
    pub files: bool,
    /// The kernel's servers.
    pub server: bool,
}

/// What ended until an instant.
#[derive(Debug)]
pub struct Taken {
    /// CLOCK_MONOTONIC.
    pub until_ns: u64,
    /// Calls of the clients.
    pub client: Vec<ClientCall>,
    /// Requests of the servers.
    pub served: Vec<ServedCall>,
}

/// Watches from `start` on, until it is dropped.
pub struct Watch {
    rings: Vec<(usize, Sampler)>,
    decoders: Vec<Decoder>,
    waiting: Vec<Event>,
    calls: Calls,
    lost: u64,
}

impl Watch {
    /// Opens the tracepoints; those that this kernel lacks are an error, but for those of calls
    /// that are sent again and of files.
    pub fn start(sides: Sides) -> Result<Self, WatchError> {
        let root = Path::new("/");
        let tracefs = Tracefs::open(root).map_err(|why| WatchError::Tracefs { why })?;
        let mut points = Vec::new();
        if sides.client {
            points.extend(Point::CLIENT);
        }
        if sides.files {
            points.extend(Point::FILES);
        }
        if sides.server {
            points.extend(Point::SERVER);
        }
        let processors = processors();
        let mut watch = Watch {
            rings: Vec::new(),
            decoders: Vec::new(),
            waiting: Vec::new(),
            calls: Calls::default(),
            lost: 0,
        };
        for point in points {
            let Some(format) = format(&tracefs, point)? else {
                continue;
            };
            let decoder = Decoder::new(point, &format).map_err(|field| WatchError::Tracefs {
                why: format!("{} has no field {field} on this kernel", point.name()),
            })?;
            for processor in &processors {
                let ring = ring(format.number, *processor).map_err(refused)?;
                watch.rings.push((watch.decoders.len(), ring));
            }
            watch.decoders.push(decoder);
        }
        Ok(watch)
    }

    /// The calls that ended since the last time.
    pub fn take(&mut self) -> Taken {
        self.taken(MonotonicClock.now_ns().saturating_sub(SETTLED_NS))
    }

    /// Stops, and takes what is left.
    pub fn stop(&mut self) -> Taken {
        for (_, ring) in &mut self.rings {
            // It ends with its descriptor at the latest.
            let _ = ring.disable();
        }
        let taken = self.taken(MonotonicClock.now_ns());
        self.rings.clear();
        taken
    }

    /// Records that found no room, so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn taken(&mut self, until_ns: u64) -> Taken {
        for (place, ring) in &mut self.rings {
            while let Some(record) = ring.next_record() {
                match (record.ty(), self.decoders.get(*place)) {
                    (SAMPLE, Some(decoder)) => match event(decoder, &record.to_contiguous()) {
                        Some(event) => self.waiting.push(event),
                        None => self.lost += 1,
                    },
                    (LOST, _) => self.lost += lost(&record.to_contiguous()),
                    _ => {}
                }
            }
        }
        // What one ring has before another one is emptied may be later than what is in that one.
        self.waiting.sort_by_key(|event| event.at_ns);
        let told_ns = until_ns + calls::PAIR_NS;
        let settled = self.waiting.partition_point(|event| event.at_ns <= told_ns);
        for event in self.waiting.drain(..settled) {
            self.calls.take(event);
        }
        Taken {
            until_ns,
            client: self.calls.ended_until(until_ns),
            served: std::mem::take(&mut self.calls.served),
        }
    }
}

/// None: this kernel does not have it, and it is not needed.
fn format(tracefs: &Tracefs, point: Point) -> Result<Option<Format>, WatchError> {
    let text = match tracefs.format(point.category(), point.name()) {
        Ok(text) => text,
        Err(_) if point.is_extra() => return Ok(None),
        Err(error) => {
            let why = format!("{}/{}: {error}", point.category(), point.name());
            return Err(WatchError::Tracefs { why });
        }
    };
    let format = Format::parse(&text).ok_or_else(|| WatchError::Tracefs {
        why: format!("sunrpc/{} has no number", point.name()),
    })?;
    Ok(Some(format))
}

pub(crate) fn ring(number: u64, processor: usize) -> io::Result<Sampler> {
    let mut builder = Builder::new(Tracepoint::with_id(number));
    builder
        .any_pid()
        .one_cpu(processor)
        .include_kernel()
        .sample_period(1)
        .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::RAW)
        .clockid(Clock::MONOTONIC);
    let mut ring = builder.build()?.sampled(RING_BYTES)?;
    ring.enable()?;
    Ok(ring)
}

pub(crate) fn refused(error: io::Error) -> WatchError {
    let step = "open a tracepoint of sunrpc".to_owned();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => WatchError::Permission {
            step,
            source: error,
        },
        _ => WatchError::Bpf {
            step,
            why: error.to_string(),
        },
    }
}

/// Process, thread, time, length, record (perf_event_open(2), PERF_RECORD_SAMPLE): the last one.
pub(crate) fn raw(sample: &[u8]) -> Option<&[u8]> {
    let length = u32::from_ne_bytes(sample.get(16..20)?.try_into().ok()?) as usize;
    sample.get(20..20_usize.checked_add(length)?)
}

fn event(decoder: &Decoder, sample: &[u8]) -> Option<Event> {
    let tid = u32::from_ne_bytes(sample.get(4..8)?.try_into().ok()?);
    let at_ns = u64::from_ne_bytes(sample.get(8..16)?.try_into().ok()?);
    let what = decoder.decode(raw(sample)?)?;
    Some(Event { at_ns, tid, what })
}

/// Number of the event, then how many.
fn lost(record: &[u8]) -> u64 {
    let count = record.get(8..16).and_then(|bytes| bytes.try_into().ok());
    count.map_or(1, u64::from_ne_bytes)
}

/// Those that are online.
pub(crate) fn processors() -> Vec<usize> {
    numbers(&std::fs::read_to_string(ONLINE).unwrap_or_default())
}

/// "0-3,6" of sysfs.
fn numbers(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            found.extend(first..=last);
        }
    }
    if found.is_empty() {
        found.push(0);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn processors_are_read_as_sysfs_lists_them() {
        assert_eq!(numbers("0-3,6\n"), [0, 1, 2, 3, 6]);
        assert_eq!(numbers("0\n"), [0]);
        assert_eq!(numbers(""), [0]);
    }

    #[test]
    fn samples_are_process_thread_time_and_record() {
        let format = "ID: 1\nfield:u32 xid;\toffset:4;\tsize:4;\n";
        let decoder = Decoder::new(Point::Answered, &Format::parse(format).unwrap()).unwrap();
        let parts = [1_u32, 42, 7, 0, 12, 0, 70, 0];
        let sample: Vec<u8> = parts.into_iter().flat_map(u32::to_ne_bytes).collect();
        let found = event(&decoder, &sample).unwrap();
        assert_eq!((found.tid, found.at_ns), (42, 7));
        assert_eq!(found.what, calls::What::Answered { xid: 70 });
        assert_eq!(event(&decoder, &sample[..31]), None);
    }

    proptest! {
        #[test]
        fn no_sample_breaks_it(sample in proptest::collection::vec(any::<u8>(), 0..64)) {
            let format = "ID: 1\nfield:u32 xid;\toffset:4;\tsize:4;\n";
            let decoder = Decoder::new(Point::Answered, &Format::parse(format).unwrap()).unwrap();
            let _ = (event(&decoder, &sample), lost(&sample));
        }
    }
}
