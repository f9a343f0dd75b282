//! Writes what happened, in its order, so that a player can tell it as it was told here.
//!
//! A record begins with a byte: its kind in three bits, and what there is to it. A call is written
//! whole when it is first told of, then by what changed. Who is called by whom, and lists of
//! operations, are written once and have numbers from then on. All of these begin anew at a
//! checkpoint: what is behind one is understood without what is in front.

use hashbrown::HashMap;

use super::bytes::{put, put_bytes, put_signed};
use super::call::{self, Ends, Like, Marks};
use super::ring::Ring;
use super::{MAX_PAIRS, record, transport};
use crate::block::{Endpoint, Transport};
use crate::call::Call;
use crate::event::{Event, TransportEvent};
use crate::names::Names;

/// Who calls whom, and what the last new call was like.
#[derive(Debug)]
struct Pair {
    ends: Ends,
    like: Like,
}

/// Writes into memory; [`Writer::take`] takes it from there.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    pairs: Vec<Pair>,
    by_ends: HashMap<(u32, Endpoint), u32>,
    last_pair: usize,
    /// Calls that were not answered, as they were told of last: more is told of them.
    calls: Ring<Call>,
    /// Marks of all that were told of.
    told: Ring<Marks>,
    files: Seen,
    lists: Seen,
    last: Last,
    /// Bytes of the log of names that were taken over.
    names_bytes: usize,
    reached_back: bool,
    full: bool,
}

/// Small numbers that were seen.
#[derive(Debug, Default)]
struct Seen(Vec<u64>);

impl Seen {
    /// Whether it is seen for the first time.
    #[inline(always)]
    fn is_new(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1u64 << (number % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let before = self.0[word];
        self.0[word] |= bit;
        before & bit == 0
    }
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
    /// Kind and bits of the record.
    head: u8,
    /// When, if not at the time that the call itself tells.
    time_ns: Option<i64>,
}

impl Occasion {
    #[inline(always)]
    fn new(kind: u8, again: bool, time_ns: Option<i64>) -> Self {
        let again = if again { record::AGAIN } else { 0 };
        let other = time_ns.map_or(0, |_| record::OTHER_TIME);
        Occasion {
            head: kind | again | other,
            time_ns,
        }
    }
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
                let other = (time_ns != call.last_send.time_ns).then_some(time_ns);
                let occasion = Occasion::new(record::SENT, again, other);
                self.call_record(call, occasion, names);
            }
            Event::Replied {
                time_ns,
                call,
                again,
            } => {
                let usual = call.reply_first.is_some_and(|it| it.time_ns == time_ns);
                let occasion = Occasion::new(record::REPLIED, again, (!usual).then_some(time_ns));
                self.call_record(call, occasion, names);
            }
            Event::Transport(event) => self.transport(event),
        }
    }

    /// A call is settled.
    #[inline]
    pub fn call(&mut self, call: &Call, names: &Names) {
        self.names(names);
        self.settled(call, names);
    }

    /// What was learned of names since.
    #[inline(always)]
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
        let out = &mut self.out;
        out.extend([head, ways | low << 2 | u8::from(at_once) << 3]);
        if !same {
            put(out, event.connection.into());
            self.last.connection = event.connection;
        }
        if !at_once {
            put_signed(out, event.time_ns.wrapping_sub(self.last.transport_ns));
            self.last.transport_ns = event.time_ns;
        }
        transport::write(out, &event.kind);
    }

    fn call_record(&mut self, call: &Call, occasion: Occasion, names: &Names) {
        self.define(call, names);
        let open = self.calls.get(call.number);
        match open {
            Some(known) => {
                let head = occasion.head | ids(call, known);
                let out = &mut self.out;
                out.push(head);
                let distance = self.last.number.wrapping_sub(call.number);
                put_signed(out, distance.cast_signed());
                put_ids(out, call, head);
                call::write(out, call, known);
                match call.replies {
                    0 => *known = *call,
                    _ => drop(self.calls.leave(call.number)),
                }
            }
            None => self.new_call(call, occasion.head | record::NEW),
        }
        if let Some(time_ns) = occasion.time_ns {
            put_signed(&mut self.out, time_ns.wrapping_sub(call.call_first.time_ns));
        }
        match self.told.enter(call.number) {
            Some(marks) => *marks = call::marks(call),
            None => self.full = true,
        }
    }

    /// Whatever changes of a call is told as an event: only marks are set without one. So nothing
    /// more is kept of those that were told of.
    fn settled(&mut self, call: &Call, names: &Names) {
        let Some(marks) = self.told.leave(call.number) else {
            self.define(call, names);
            return self.new_call(call, record::SETTLED | record::NEW);
        };
        self.calls.leave(call.number);
        let distance = self.last.number.wrapping_sub(call.number);
        self.out.push(record::SETTLED);
        put_signed(&mut self.out, distance.cast_signed());
        call::write_marks(&mut self.out, call, marks);
    }

    fn new_call(&mut self, call: &Call, head: u8) {
        let pair = self.pair(call);
        let known = &mut self.pairs[pair];
        let first = call.call_first;
        let taken = known.like.call(&known.ends, call.number, first);
        let head = head | ids(call, &taken);
        let (last, out) = (&mut self.last, &mut self.out);
        out.push(head);
        put(out, pair as u64);
        put_signed(out, call.number.wrapping_sub(last.number).cast_signed());
        put_signed(out, first.frame.wrapping_sub(last.frame).cast_signed());
        put_signed(out, first.time_ns.wrapping_sub(last.time_ns));
        *last = Last {
            number: call.number,
            frame: first.frame,
            time_ns: first.time_ns,
            ..*last
        };
        put_ids(out, call, head);
        call::write(out, call, &taken);
        known.like = Like::of(call);
        if head & record::KIND != record::SETTLED && call.replies == 0 {
            match self.calls.enter(call.number) {
                Some(place) => *place = *call,
                None => self.full = true,
            }
        }
    }

    /// Its number; it is written if it is new.
    #[inline(always)]
    fn pair(&mut self, call: &Call) -> usize {
        let last = self.pairs.get(self.last_pair).map(|pair| &pair.ends);
        let same = |ends: &Ends| (ends.connection, ends.client) == (call.connection, call.client);
        if !last.is_some_and(same) {
            self.last_pair = self.find_pair(call);
        }
        self.last_pair
    }

    fn find_pair(&mut self, call: &Call) -> usize {
        let key = (call.connection, call.client);
        let new = self.pairs.len() as u32;
        let number = *self.by_ends.entry(key).or_insert(new);
        if number == new {
            self.new_pair(Ends {
                connection: call.connection,
                client: call.client,
                server: call.server,
                transport: call.transport,
            });
        }
        number as usize
    }

    #[cold]
    fn new_pair(&mut self, ends: Ends) {
        self.full |= self.pairs.len() >= MAX_PAIRS;
        let udp = u8::from(ends.transport == Transport::Udp) << 3;
        self.out.push(record::PAIR | udp);
        put(&mut self.out, ends.connection.into());
        transport::put_end(&mut self.out, &ends.client);
        transport::put_end(&mut self.out, &ends.server);
        let like = Like::default();
        self.pairs.push(Pair { ends, like });
    }

    /// Writes down what the call's numbers mean, where that was not done yet.
    #[inline(always)]
    fn define(&mut self, call: &Call, names: &Names) {
        if let Some(list) = call.operations
            && self.lists.is_new(list.0)
        {
            self.out.push(record::LIST);
            put(&mut self.out, list.0.into());
            put_bytes(&mut self.out, names.codes_of(list));
        }
        if let Some(file) = call.file
            && self.files.is_new(file.0)
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
#[inline(always)]
fn ids(call: &Call, known: &Call) -> u8 {
    let file = u8::from(call.file != known.file) * record::FILE;
    let operations = u8::from(call.operations != known.operations) * record::OPERATIONS;
    file | operations
}

#[inline(always)]
fn put_ids(out: &mut Vec<u8>, call: &Call, head: u8) {
    if head & record::FILE != 0 {
        put(out, call.file.map_or(0, |file| u64::from(file.0) + 1));
    }
    if head & record::OPERATIONS != 0 {
        put(out, call.operations.map_or(0, |list| u64::from(list.0) + 1));
    }
}
