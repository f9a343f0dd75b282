//! Plays journals, one after the other, as if what they tell happened in one reading.

use hashbrown::HashMap;

use super::bytes::Cursor;
use super::call::{self, Ends, Like};
use super::ring::Ring;
use super::writer::Last;
use super::{Damaged, MAX_PAIRS, record, transport};
use crate::block::Transport;
use crate::call::{Call, FileId, OperationsId, Stamp};
use crate::calls::Output;
use crate::event::{Event, TransportEvent};
use crate::limits::MAX_OPERATION_LISTS;
use crate::names::Names;
use crate::names::replay::{Replay, ReplayError};
use crate::stream::Facts;

/// Why a journal is not played on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    /// It is none.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// A table is full: reading in a row drops what does not fit, and counts it.
    #[error("more files, names or lists of operations than are kept")]
    Full,
    /// It tells of something that only who read the files in front could know.
    #[error("a name in it is known from an earlier file alone")]
    ReachedBack,
}

impl From<ReplayError> for PlayError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Damaged(damaged) => PlayError::Damaged(damaged),
            ReplayError::Full => PlayError::Full,
            ReplayError::ReachedBack => PlayError::ReachedBack,
        }
    }
}

/// What a journal's numbers are in the whole capture.
pub struct Shift {
    /// Frames in front of its reader's first.
    pub frames: u64,
    /// What its calls' numbers are less than in the whole.
    pub calls: u64,
    /// What its connections are.
    pub connection: Box<dyn Fn(u32) -> u32 + Send>,
}

impl std::fmt::Debug for Shift {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Shift({}, {})", self.frames, self.calls)
    }
}

/// A connection as it is in the whole capture.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    number: u32,
    facts: Facts,
}

/// Plays.
#[derive(Debug, Default)]
pub struct Player {
    names: Names,
    replay: Replay,
    /// What earlier readers knew of connections, by their numbers in the whole.
    facts: HashMap<u32, Facts>,
    shift: Option<Shift>,
    connections: HashMap<u32, Connection>,
    latest: (u32, Connection),
    /// Who calls whom, with the numbers of the whole, and what its last new call was like.
    pairs: Vec<(Ends, Like)>,
    calls: Ring<Call>,
    lists: HashMap<u32, OperationsId>,
    last: Last,
}

impl Player {
    /// What comes is another reader's journal.
    pub fn next_reader(&mut self, shift: Shift) {
        self.shift = Some(shift);
        self.begin_anew();
    }

    /// What earlier readers know of a connection, by its number in the whole.
    pub fn know(&mut self, connection: u32, facts: &Facts) {
        self.facts.entry(connection).or_default().add(facts);
    }

    /// What comes is behind a checkpoint.
    pub fn begin_anew(&mut self) {
        self.replay.begin_anew();
        self.connections.clear();
        self.latest = (0, self.connection_anew(0));
        self.pairs.clear();
        self.calls.clear();
        self.lists.clear();
        // From here on all numbers are those of the whole.
        let (number, frame) = self
            .shift
            .as_ref()
            .map_or((0, 0), |it| (it.calls, it.frames));
        self.last = Last {
            number,
            frame,
            ..Last::default()
        };
    }

    /// Names of the whole capture.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Tells what these records tell.
    ///
    /// # Errors
    /// They are none, or cannot be told as if all files were read in a row.
    pub fn play<O: Output>(&mut self, records: &[u8], output: &mut O) -> Result<(), PlayError> {
        let mut cursor = Cursor::new(records);
        while !cursor.is_empty() {
            let head = cursor.byte()?;
            match head & record::KIND {
                record::TRANSPORT => self.transport(head, &mut cursor, output)?,
                record::SENT | record::REPLIED | record::SETTLED => {
                    self.call(head, &mut cursor, output)?;
                }
                record::NAMES => {
                    let mut operations = Cursor::new(cursor.bytes()?);
                    self.replay.apply(&mut self.names, &mut operations)?;
                }
                record::LIST => {
                    let number = cursor.small()?;
                    if number as usize >= MAX_OPERATION_LISTS {
                        return Err(Damaged.into());
                    }
                    let list = self.names.list_of(cursor.bytes()?);
                    self.lists.insert(number, list.ok_or(PlayError::Full)?);
                }
                record::PAIR => self.pair(head, &mut cursor)?,
                _ => return Err(Damaged.into()),
            }
        }
        Ok(())
    }

    fn connection_anew(&self, number: u32) -> Connection {
        let number = self
            .shift
            .as_ref()
            .map_or(number, |it| (it.connection)(number));
        let facts = self.facts.get(&number).copied().unwrap_or_default();
        Connection { number, facts }
    }

    #[inline]
    fn connection(&mut self, number: u32) -> Connection {
        if self.latest.0 != number {
            let known = self.connections.get(&number).copied();
            let found = known.unwrap_or_else(|| self.connection_anew(number));
            if known.is_none() && self.connections.len() < MAX_PAIRS {
                self.connections.insert(number, found);
            }
            self.latest = (number, found);
        }
        self.latest.1
    }

    fn transport<O: Output>(
        &mut self,
        head: u8,
        cursor: &mut Cursor<'_>,
        output: &mut O,
    ) -> Result<(), PlayError> {
        let bits = cursor.byte()?;
        if head & 1 << 7 == 0 {
            self.last.connection = cursor.small()?;
        }
        if bits & 1 << 3 == 0 {
            let since_ns = cursor.signed()?;
            self.last.transport_ns = self.last.transport_ns.wrapping_add(since_ns);
        }
        let connection = self.connection(self.last.connection);
        let mut event = TransportEvent {
            time_ns: self.last.transport_ns,
            connection: connection.number,
            from_client: match bits & 3 {
                0 => None,
                1 => Some(true),
                _ => Some(false),
            },
            from_low: bits & 1 << 2 != 0,
            kind: transport::read(cursor, head >> 3 & 15)?,
        };
        connection.facts.complete(&mut event);
        output.event(&Event::Transport(&event), &self.names);
        Ok(())
    }

    fn pair(&mut self, head: u8, cursor: &mut Cursor<'_>) -> Result<(), PlayError> {
        if self.pairs.len() >= MAX_PAIRS {
            return Err(Damaged.into());
        }
        let ends = Ends {
            connection: self.connection(cursor.small()?).number,
            client: transport::end(cursor)?,
            server: transport::end(cursor)?,
            transport: match head & 1 << 3 {
                0 => Transport::Tcp,
                _ => Transport::Udp,
            },
        };
        self.pairs.push((ends, Like::default()));
        Ok(())
    }

    fn call<O: Output>(
        &mut self,
        head: u8,
        cursor: &mut Cursor<'_>,
        output: &mut O,
    ) -> Result<(), PlayError> {
        let new = head & record::NEW != 0;
        let pair = match new {
            true => Some(self.new_call(cursor)?),
            false => None,
        };
        let number = match new {
            true => self.last.number,
            false => self
                .last
                .number
                .wrapping_sub(cursor.signed()?.cast_unsigned()),
        };
        let file = match head & record::FILE {
            0 => None,
            _ => Some(self.file(cursor)?),
        };
        let operations = match head & record::OPERATIONS {
            0 => None,
            _ => Some(self.operations(cursor)?),
        };
        let call = self.calls.get(number).ok_or(Damaged)?;
        call.file = file.unwrap_or(call.file);
        call.operations = operations.unwrap_or(call.operations);
        call::read(cursor, call)?;
        if let Some((_, like)) = pair.and_then(|pair| self.pairs.get_mut(pair)) {
            *like = Like::of(call);
        }
        let again = head & record::AGAIN != 0;
        let kind = head & record::KIND;
        let time_ns = match (head & record::OTHER_TIME, kind) {
            (0, record::SENT) => call.last_send.time_ns,
            (0, _) => call.reply_first.map_or(0, |reply| reply.time_ns),
            _ => call.call_first.time_ns.wrapping_add(cursor.signed()?),
        };
        let (call, names) = (&*call, &self.names);
        match kind {
            record::SENT => {
                let event = Event::Sent {
                    time_ns,
                    call,
                    again,
                };
                output.event(&event, names);
            }
            record::REPLIED => {
                let event = Event::Replied {
                    time_ns,
                    call,
                    again,
                };
                output.event(&event, names);
            }
            _ => {
                output.call(call, names);
                self.calls.leave(number);
            }
        }
        Ok(())
    }

    /// A new call takes its place, as it is taken to be; gives its pair.
    fn new_call(&mut self, cursor: &mut Cursor<'_>) -> Result<usize, Damaged> {
        let pair = cursor.small::<usize>()?;
        let (ends, like) = self.pairs.get(pair).ok_or(Damaged)?;
        let now = Last {
            number: self.last.number.wrapping_add_signed(cursor.signed()?),
            frame: self.last.frame.wrapping_add_signed(cursor.signed()?),
            time_ns: self.last.time_ns.wrapping_add(cursor.signed()?),
            ..self.last
        };
        self.last = now;
        let first = Stamp {
            time_ns: now.time_ns,
            frame: now.frame,
        };
        let place = self.calls.enter(now.number).ok_or(Damaged)?;
        *place = like.call(ends, now.number, first);
        Ok(pair)
    }

    fn file(&self, cursor: &mut Cursor<'_>) -> Result<Option<FileId>, PlayError> {
        let Some(local) = own_number(cursor)? else {
            return Ok(None);
        };
        // Its reader could not say which one it is.
        let known = self.replay.number(local);
        known.map_err(|_| PlayError::ReachedBack)
    }

    fn operations(&self, cursor: &mut Cursor<'_>) -> Result<Option<OperationsId>, Damaged> {
        let Some(local) = own_number(cursor)? else {
            return Ok(None);
        };
        self.lists
            .get(&local)
            .map(|list| Some(*list))
            .ok_or(Damaged)
    }
}

/// A number that its reader gave, if there is one.
fn own_number(cursor: &mut Cursor<'_>) -> Result<Option<u32>, Damaged> {
    let one_more = cursor.number()?;
    let number = one_more.checked_sub(1).map(u32::try_from);
    number.transpose().map_err(|_| Damaged)
}
