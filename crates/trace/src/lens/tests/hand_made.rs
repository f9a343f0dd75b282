//! Calls and captures made by hand, for the tests of lenses: their times are the truth.

use serde_json::Value;
use wire::nfs3::procedure;
use wire::programs::NFS;

use crate::block::{Endpoint, Host, Transport};
use crate::call::{Call, FileId, Outcome, Stamp};
use crate::event::{Event, TransportEvent, TransportKind};
use crate::lens::{Extent, Lens, Section};
use crate::names::Names;

/// Beginning of all captures made here.
pub const START_NS: i64 = 1_700_000_000_000_000_000;
/// One millisecond.
pub const MS: i64 = 1_000_000;

/// An instant, relative to the start; its frame is the microsecond, so that it can be told.
pub fn stamp(time_ns: i64) -> Stamp {
    Stamp {
        time_ns: START_NS + time_ns,
        frame: (time_ns / 1000).unsigned_abs() + 1,
    }
}

/// Client `client` (last byte of its address), port 700 + connection.
pub fn endpoint(last: u8, port: u16) -> Endpoint {
    Endpoint {
        host: Host::from_v4([10, 0, 0, last]),
        port,
    }
}

/// A READ of 4 KiB from client 10.0.0.2 to server 10.0.0.1, answered if `reply_ns` is given.
pub fn read(send_ns: i64, reply_ns: Option<i64>) -> Call {
    Call {
        call_first: stamp(send_ns),
        call_last: stamp(send_ns),
        last_send: stamp(send_ns),
        reply_first: reply_ns.map(stamp),
        reply_last: reply_ns.map(stamp),
        client: endpoint(2, 700),
        server: endpoint(1, 2049),
        transport: Transport::Udp,
        program: NFS,
        version: 3,
        procedure: procedure::READ,
        operation: procedure::READ,
        outcome: reply_ns.map_or(Outcome::Unanswered, |_| Outcome::Status(0)),
        sends: 1,
        replies: u16::from(reply_ns.is_some()),
        file: Some(FileId(0)),
        offset: Some(0),
        count: Some(4096),
        bytes_read: if reply_ns.is_some() { 4096 } else { 0 },
        call_bytes: 100,
        reply_bytes: 4200,
        ..Call::default()
    }
}

/// What happens in a capture, in any order of making.
#[derive(Debug, Default)]
pub struct Capture {
    calls: Vec<Call>,
    happenings: Vec<(i64, Happening)>,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Sent(usize, bool),
    Replied(usize, bool),
    Transport(TransportEvent),
}

impl Capture {
    /// Adds a call: sent, sent again at `again`, answered as it says, and at `duplicates`.
    pub fn call(&mut self, mut call: Call, again: &[i64], duplicates: &[i64]) {
        let index = self.calls.len();
        call.sends = 1 + again.len() as u16;
        call.replies += duplicates.len() as u16;
        if let Some(&last) = again.last() {
            call.last_send = stamp(last);
        }
        let sent = call.call_first.time_ns - START_NS;
        self.happenings.push((sent, Happening::Sent(index, false)));
        for &time in again {
            self.happenings.push((time, Happening::Sent(index, true)));
        }
        if let Some(reply) = call.reply_last {
            self.happenings
                .push((reply.time_ns - START_NS, Happening::Replied(index, false)));
        }
        for &time in duplicates {
            self.happenings
                .push((time, Happening::Replied(index, true)));
        }
        self.calls.push(call);
    }

    /// Adds calls of one lane, one after the other: each takes `latency_ns`, `every_ns` apart.
    pub fn lane(&mut self, template: Call, [from, to]: [i64; 2], every_ns: i64, latency_ns: i64) {
        let mut time = from;
        while time < to {
            let mut call = read(time, Some(time + latency_ns));
            call.client = template.client;
            call.server = template.server;
            call.transport = template.transport;
            call.connection = template.connection;
            self.call(call, &[], &[]);
            time += every_ns;
        }
    }

    /// Adds something below RPC.
    pub fn transport(
        &mut self,
        time_ns: i64,
        connection: u32,
        from_client: bool,
        kind: TransportKind,
    ) {
        self.happenings.push((
            time_ns,
            Happening::Transport(TransportEvent {
                time_ns: START_NS + time_ns,
                connection,
                from_client: Some(from_client),
                kind,
            }),
        ));
    }

    /// Shows all to a lens in the order of time, then the settled calls in the order of the calls.
    pub fn show(mut self, lens: &mut dyn Lens, end_ns: i64) -> Section {
        let names = Names::default();
        self.happenings.sort_by_key(|&(time, _)| time);
        let mut order: Vec<usize> = (0..self.calls.len()).collect();
        order.sort_by_key(|&index| self.calls[index].call_first.time_ns);
        for (number, &index) in order.iter().enumerate() {
            self.calls[index].number = number as u64;
        }
        let mut seen: Vec<(u16, u16, Stamp)> = vec![(0, 0, Stamp::default()); self.calls.len()];
        for &(time_ns, happening) in &self.happenings {
            let time_ns = time_ns + START_NS;
            match happening {
                Happening::Sent(index, again) => {
                    seen[index].0 += 1;
                    seen[index].2.time_ns = time_ns;
                    let call = as_known(&self.calls[index], seen[index]);
                    lens.event(&Event::Sent {
                        time_ns,
                        call: &call,
                        again,
                    });
                }
                Happening::Replied(index, again) => {
                    seen[index].1 += 1;
                    let call = as_known(&self.calls[index], seen[index]);
                    let first = call.reply_first.filter(|_| !again);
                    let time_ns = first.map_or(time_ns, |first| first.time_ns);
                    lens.event(&Event::Replied {
                        time_ns,
                        call: &call,
                        again,
                    });
                }
                Happening::Transport(event) => lens.event(&Event::Transport(&event)),
            }
        }
        for &index in &order {
            lens.call(&self.calls[index]);
        }
        let extent = Extent {
            first_ns: START_NS,
            last_ns: START_NS + end_ns,
            capture_first_ns: START_NS,
            packets: self.happenings.len() as u64,
            calls: self.calls.len() as u64,
        };
        lens.finish(&names, &extent)
    }
}

/// A call as known after so many sends and replies.
fn as_known(call: &Call, (sends, replies, last_send): (u16, u16, Stamp)) -> Call {
    let answered = replies > 0;
    Call {
        sends,
        replies,
        last_send: Stamp {
            frame: call.last_send.frame,
            ..last_send
        },
        reply_first: call.reply_first.filter(|_| answered),
        reply_last: call.reply_last.filter(|_| answered),
        outcome: if answered {
            call.outcome
        } else {
            Outcome::Unanswered
        },
        ..*call
    }
}

/// A blob's elements as integers.
pub fn integers(section: &Section, name: &str) -> Vec<i64> {
    blob(section, name, "<i8").map(i64::from_le_bytes).collect()
}

/// A blob's elements as floating point numbers.
pub fn floats(section: &Section, name: &str) -> Vec<f64> {
    blob(section, name, "<f8").map(f64::from_le_bytes).collect()
}

fn blob<'a>(section: &'a Section, name: &str, dtype: &str) -> impl Iterator<Item = [u8; 8]> + 'a {
    let blob = section.blobs.iter().find(|blob| blob.name == name).unwrap();
    assert_eq!(blob.dtype, dtype);
    blob.bytes
        .chunks_exact(8)
        .map(|bytes| bytes.try_into().unwrap())
}

/// A number at a JSON pointer.
pub fn number(value: &Value, pointer: &str) -> i64 {
    value
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_else(|| panic!("no integer at {pointer}: {:?}", value.pointer(pointer)))
}
