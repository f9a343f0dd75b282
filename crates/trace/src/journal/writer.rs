//! Writes what happened, in its order, so that a player can tell it as it was told here.
//!
//! A record begins with a byte: its kind in three bits, and what there is to it. A call is written
//! whole when it is first told of, then by what changed; it has a number among those that are open.
//! Who is called by whom, and lists of operations, are written once and have numbers as well. All
//! of these begin anew at a checkpoint: what is behind one is understood without what is in front.

use hashbrown::{HashMap, HashSet};

use super::bytes::{put, put_bytes, put_signed};
use super::{MAX_PAIRS, call, record, transport};
use crate::block::{Endpoint, Transport};
use crate::call::{Call, FileId, OperationsId};
use crate::event::{Event, TransportEvent};
use crate::names::Names;

/// Who calls whom over which connection.
#[derive(Debug)]
struct Pair {
    ends: (u32, Endpoint, Endpoint),
    /// The last new call.
    last: Call,
}

/// Writes into memory; [`Writer::take`] takes it from there.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    pairs: Vec<Pair>,
    by_ends: HashMap<(u32, Endpoint), u32>,
    last_pair: usize,
    /// Open calls as they were told of last, by their places.
    calls: Vec<Call>,
    free: Vec<u32>,
    places: HashMap<u64, u32>,
    files: HashSet<FileId>,
    lists: HashSet<OperationsId>,
    last: Last,
    /// Bytes of the log of names that were taken over.
    names_bytes: usize,
    reached_back: bool,
    full: bool,
}

/// From what the next ones are told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    pub number: u64,
    pub frame: u64,
    pub time_ns: i64,
    pub connection: u32,
    pub transport_ns: i64,
}

/// What a call is told of for.
#[derive(Clone, Copy, Debug)]
struct Occasion {
    kind: u8,
    again: bool,
    /// When, if not at the time that the call itself tells.
    time_ns: Option<i64>,
}

impl Writer {
    /// Something happened.
    #[inline]
    pub fn event(&mut self, event: &Event<'_>, names: &Names) {
        self.names(names);
        match *event {
            Event::Sent {
                time_ns,
                call,
                again,
            } => {
                let occasion = Occasion {
                    kind: record::SENT,
                    again,
                    time_ns: (time_ns != call.last_send.time_ns).then_some(time_ns),
                };
                self.call_record(call, occasion, names);
            }
            Event::Replied {
                time_ns,
                call,
                again,
            } => {
                let usual = call.reply_first.is_some_and(|it| it.time_ns == time_ns);
                let occasion = Occasion {
                    kind: record::REPLIED,
                    again,
                    time_ns: (!usual).then_some(time_ns),
                };
                self.call_record(call, occasion, names);
            }
            Event::Transport(event) => self.transport(event),
        }
    }

    /// A call is settled.
    #[inline]
    pub fn call(&mut self, call: &Call, names: &Names) {
        self.names(names);
        let occasion = Occasion {
            kind: record::SETTLED,
            again: false,
            time_ns: None,
        };
        self.call_record(call, occasion, names);
    }

    /// What was learned of names since.
    #[inline]
    fn names(&mut self, names: &Names) {
        let log = names.log();
        if log.len() > self.names_bytes {
            self.out.push(record::NAMES);
            put_bytes(
                &mut self.out,
                log.get(self.names_bytes..).unwrap_or_default(),
            );
            self.names_bytes = log.len();
        }
    }

    /// The log of names was taken over to its end, and is emptied.
    pub fn names_end(&mut self, names: &Names) {
        self.names(names);
        self.names_bytes = 0;
    }

    /// Bytes that wait to be taken.
    pub fn waiting_bytes(&self) -> usize {
        self.out.len()
    }

    /// What was written since this was asked last; the buffer given is written into.
    pub fn take(&mut self, mut empty: Vec<u8>) -> Vec<u8> {
        empty.clear();
        std::mem::replace(&mut self.out, empty)
    }

    /// A checkpoint: nothing that was written before it is of use behind it.
    pub fn begin_anew(&mut self) {
        let out = std::mem::take(&mut self.out);
        let (reached_back, full) = (self.reached_back, self.full);
        *self = Writer {
            out,
            reached_back,
            full,
            ..Writer::default()
        };
    }

    /// Whether something since this was asked last depends on what was read before a checkpoint.
    pub fn take_reached_back(&mut self) -> bool {
        std::mem::take(&mut self.reached_back)
    }

    /// Whether there was more than is told apart.
    pub fn is_full(&self) -> bool {
        self.full
    }

    fn transport(&mut self, event: &TransportEvent) {
        let number = transport::number_of(&event.kind);
        let same = event.connection == self.last.connection;
        let ways = match event.from_client {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        };
        let at_once = event.time_ns == self.last.transport_ns;
        let head = record::TRANSPORT | number << 3 | u8::from(same) << 7;
        let low = u8::from(event.from_low);
        self.out
            .extend([head, ways | low << 2 | u8::from(at_once) << 3]);
        if !same {
            put(&mut self.out, event.connection.into());
            self.last.connection = event.connection;
        }
        if !at_once {
            let since_ns = event.time_ns.wrapping_sub(self.last.transport_ns);
            put_signed(&mut self.out, since_ns);
            self.last.transport_ns = event.time_ns;
        }
        transport::write(&mut self.out, &event.kind);
    }

    fn call_record(&mut self, call: &Call, occasion: Occasion, names: &Names) {
        self.define(call, names);
        let settled = occasion.kind == record::SETTLED;
        let mut head = occasion.kind;
        head |= if occasion.again { record::AGAIN } else { 0 };
        head |= occasion.time_ns.map_or(0, |_| record::OTHER_TIME);
        let place = match settled {
            true => self.places.remove(&call.number),
            false => self.places.get(&call.number).copied(),
        };
        match place {
            Some(place) => {
                let Some(known) = self.calls.get_mut(place as usize) else {
                    return;
                };
                head |= ids(call, known);
                self.out.push(head);
                put(&mut self.out, place.into());
                put_ids(&mut self.out, call, head);
                call::write(&mut self.out, call, known);
                match settled {
                    true => self.free.push(place),
                    false => *known = *call,
                }
            }
            None => self.new_call(call, head | record::NEW, settled),
        }
        if let Some(time_ns) = occasion.time_ns {
            put_signed(&mut self.out, time_ns.wrapping_sub(call.call_first.time_ns));
        }
    }

    fn new_call(&mut self, call: &Call, head: u8, settled: bool) {
        let pair = self.pair(call);
        let known = &mut self.pairs[pair];
        let template = call::template(&known.last, call.number, call.call_first);
        let head = head | ids(call, &template);
        let (last, out) = (&mut self.last, &mut self.out);
        out.push(head);
        put(out, pair as u64);
        put_signed(out, call.number.wrapping_sub(last.number).cast_signed());
        let first = call.call_first;
        put_signed(out, first.frame.wrapping_sub(last.frame).cast_signed());
        put_signed(out, first.time_ns.wrapping_sub(last.time_ns));
        *last = Last {
            number: call.number,
            frame: first.frame,
            time_ns: first.time_ns,
            ..*last
        };
        put_ids(out, call, head);
        call::write(out, call, &template);
        known.last = *call;
        if settled {
            return;
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.calls.push(*call);
                self.calls.len() as u32 - 1
            }
        };
        self.calls[place as usize] = *call;
        self.places.insert(call.number, place);
    }

    /// Its number; it is written if it is new.
    #[inline]
    fn pair(&mut self, call: &Call) -> usize {
        let ends = (call.connection, call.client, call.server);
        let last = self.pairs.get(self.last_pair);
        if last.is_none_or(|pair| pair.ends != ends) {
            self.last_pair = self.find_pair(call, ends);
        }
        self.last_pair
    }

    fn find_pair(&mut self, call: &Call, ends: (u32, Endpoint, Endpoint)) -> usize {
        let (connection, client, server) = ends;
        let number = *self
            .by_ends
            .entry((connection, client))
            .or_insert(self.pairs.len() as u32) as usize;
        if number < self.pairs.len() {
            return number;
        }
        self.full |= self.pairs.len() >= MAX_PAIRS;
        let last = Call {
            client,
            server,
            connection,
            transport: call.transport,
            ..Call::default()
        };
        self.pairs.push(Pair { ends, last });
        let udp = u8::from(call.transport == Transport::Udp) << 3;
        self.out.push(record::PAIR | udp);
        put(&mut self.out, connection.into());
        transport::put_end(&mut self.out, &client);
        transport::put_end(&mut self.out, &server);
        number
    }

    /// Writes down what the call's numbers mean, where that was not done yet.
    #[inline]
    fn define(&mut self, call: &Call, names: &Names) {
        if let Some(list) = call.operations
            && self.lists.insert(list)
        {
            self.out.push(record::LIST);
            put(&mut self.out, list.0.into());
            put_bytes(&mut self.out, names.codes_of(list));
        }
        if let Some(file) = call.file
            && self.files.insert(file)
            && !names.is_defined(file)
        {
            let mut definition = Vec::new();
            self.reached_back |= !names.write_definition(file, &mut definition);
            self.out.push(record::NAMES);
            put_bytes(&mut self.out, &definition);
        }
    }
}

/// Which of the call's numbers are others.
fn ids(call: &Call, known: &Call) -> u8 {
    let file = u8::from(call.file != known.file) * record::FILE;
    file | u8::from(call.operations != known.operations) * record::OPERATIONS
}

fn put_ids(out: &mut Vec<u8>, call: &Call, head: u8) {
    if head & record::FILE != 0 {
        put(out, call.file.map_or(0, |file| u64::from(file.0) + 1));
    }
    if head & record::OPERATIONS != 0 {
        put(out, call.operations.map_or(0, |list| u64::from(list.0) + 1));
    }
}
