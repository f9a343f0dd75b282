//! A call as what changed in it since it was written last; a new one since the last new one of its
//! connection.
//!
//! Times and frames are told from the call's first byte on, so that they are short. Numbers that
//! mean something to their reader alone (connections, files, lists) are not written here: the
//! caller does that, and tells in which fields.

use wire::summary::Stability;

use super::Damaged;
use super::bytes::{Cursor, put, put_signed};
use crate::block::{Endpoint, Transport};
use crate::call::{Call, FileId, OperationsId, Outcome, Stamp};
use crate::calls::REFUSALS;

/// Bits of the fields that changed, in the order in which they are written: what replies change
/// first, what hardly ever changes last.
mod changed {
    pub const REPLY_FIRST: u64 = 1;
    pub const REPLY_LAST: u64 = 1 << 1;
    pub const REPLIES: u64 = 1 << 2;
    pub const OUTCOME: u64 = 1 << 3;
    pub const REPLY_BYTES: u64 = 1 << 4;
    pub const BYTES_READ: u64 = 1 << 5;
    pub const FILE_SIZE: u64 = 1 << 6;
    pub const COMMITTED: u64 = 1 << 7;
    pub const MARKS: u64 = 1 << 8;
    pub const DONE: u64 = 1 << 9;
    pub const XID: u64 = 1 << 10;
    pub const CALL_LAST: u64 = 1 << 11;
    pub const OFFSET: u64 = 1 << 12;
    pub const COUNT: u64 = 1 << 13;
    pub const BYTES_WRITTEN: u64 = 1 << 14;
    pub const CALL_BYTES: u64 = 1 << 15;
    pub const OPERATION: u64 = 1 << 16;
    pub const SLOT: u64 = 1 << 17;
    pub const USER: u64 = 1 << 18;
    pub const STABLE: u64 = 1 << 19;
    pub const LAST_SEND: u64 = 1 << 20;
    pub const SENDS: u64 = 1 << 21;
    pub const PROGRAM: u64 = 1 << 22;
    pub const ALL: u64 = (1 << 23) - 1;
}

/// What is likely to be the same of the next new call of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Like {
    xid: u32,
    program: u32,
    version: u32,
    procedure: u32,
    operation: u32,
    minor_version: u32,
    operations: Option<OperationsId>,
    user: Option<u32>,
    file: Option<FileId>,
    offset: Option<u64>,
    count: Option<u64>,
    stable: Option<Stability>,
    bytes_written: u32,
    call_bytes: u32,
    slot: Option<u32>,
}

impl Like {
    /// As this one was sent.
    #[inline(always)]
    pub(super) fn of(call: &Call) -> Self {
        Like {
            xid: call.xid,
            program: call.program,
            version: call.version,
            procedure: call.procedure,
            operation: call.operation,
            minor_version: call.minor_version,
            operations: call.operations,
            user: call.user,
            file: call.file,
            offset: call.offset,
            count: call.count,
            stable: call.stable,
            bytes_written: call.bytes_written,
            call_bytes: call.call_bytes,
            slot: call.slot,
        }
    }

    /// What a new call is taken to be: sent once, not answered, with the next transaction id.
    #[inline(always)]
    pub(super) fn call(&self, ends: &Ends, number: u64, first: Stamp) -> Call {
        Call {
            number,
            call_first: first,
            call_last: first,
            last_send: first,
            client: ends.client,
            server: ends.server,
            transport: ends.transport,
            connection: ends.connection,
            xid: self.xid.wrapping_add(1),
            program: self.program,
            version: self.version,
            procedure: self.procedure,
            operation: self.operation,
            minor_version: self.minor_version,
            operations: self.operations,
            sends: 1,
            user: self.user,
            file: self.file,
            offset: self.offset,
            count: self.count,
            stable: self.stable,
            bytes_written: self.bytes_written,
            call_bytes: self.call_bytes,
            slot: self.slot,
            ..Call::default()
        }
    }
}

/// Who calls whom over which connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub connection: u32,
    pub client: Endpoint,
    pub server: Endpoint,
    pub transport: Transport,
}

/// The call's number of its operation, whatever it means.
fn operation(call: &Call) -> [u32; 3] {
    [call.procedure, call.operation, call.minor_version]
}

/// [`Call::marks`], and whether the file's end was told.
pub(super) type Marks = (u16, bool);

#[inline(always)]
pub(super) fn marks(call: &Call) -> Marks {
    (call.marks, call.end_of_file)
}

/// Writes what is different from `base`.
#[inline(always)]
pub(super) fn write(out: &mut Vec<u8>, call: &Call, base: &Call) {
    let bits = differences(call, base);
    put(out, bits);
    write_changed(out, call, base, bits);
}

/// The same where nothing but marks may differ.
#[inline(always)]
pub(super) fn write_marks(out: &mut Vec<u8>, call: &Call, told: Marks) {
    let bits = match marks(call) == told {
        true => 0,
        false => changed::MARKS,
    };
    put(out, bits);
    write_changed(out, call, call, bits);
}

#[inline(always)]
fn differences(call: &Call, base: &Call) -> u64 {
    use changed as it;
    let bit = |differs: bool, bit: u64| u64::from(differs) * bit;
    bit(call.reply_first != base.reply_first, it::REPLY_FIRST)
        | bit(call.reply_last != base.reply_last, it::REPLY_LAST)
        | bit(call.replies != base.replies, it::REPLIES)
        | bit(call.outcome != base.outcome, it::OUTCOME)
        | bit(call.reply_bytes != base.reply_bytes, it::REPLY_BYTES)
        | bit(call.bytes_read != base.bytes_read, it::BYTES_READ)
        | bit(call.file_size_bytes != base.file_size_bytes, it::FILE_SIZE)
        | bit(call.committed != base.committed, it::COMMITTED)
        | bit(marks(call) != marks(base), it::MARKS)
        | bit(call.operations_done != base.operations_done, it::DONE)
        | bit(call.xid != base.xid, it::XID)
        | bit(call.call_last != base.call_last, it::CALL_LAST)
        | bit(call.offset != base.offset, it::OFFSET)
        | bit(call.count != base.count, it::COUNT)
        | bit(call.bytes_written != base.bytes_written, it::BYTES_WRITTEN)
        | bit(call.call_bytes != base.call_bytes, it::CALL_BYTES)
        | bit(operation(call) != operation(base), it::OPERATION)
        | bit(call.slot != base.slot, it::SLOT)
        | bit(call.user != base.user, it::USER)
        | bit(call.stable != base.stable, it::STABLE)
        | bit(call.last_send != base.last_send, it::LAST_SEND)
        | bit(call.sends != base.sends, it::SENDS)
        | bit(
            (call.program, call.version) != (base.program, base.version),
            it::PROGRAM,
        )
}

fn write_changed(out: &mut Vec<u8>, call: &Call, base: &Call, bits: u64) {
    use changed as it;
    let has = |bit: u64| bits & bit != 0;
    let first = call.call_first;
    if has(it::REPLY_FIRST) {
        put_stamp(out, call.reply_first, first);
    }
    if has(it::REPLY_LAST) {
        put_stamp(out, call.reply_last, call.reply_first.unwrap_or(first));
    }
    if has(it::REPLIES) {
        put(out, call.replies.into());
    }
    if has(it::OUTCOME) {
        put_outcome(out, call.outcome);
    }
    if has(it::REPLY_BYTES) {
        put(out, call.reply_bytes.into());
    }
    if has(it::BYTES_READ) {
        put(out, call.bytes_read.into());
    }
    if has(it::FILE_SIZE) {
        put_option(out, call.file_size_bytes);
    }
    if has(it::COMMITTED) {
        out.push(stability_number(call.committed));
    }
    if has(it::MARKS) {
        put(
            out,
            u64::from(call.marks) << 1 | u64::from(call.end_of_file),
        );
    }
    if has(it::DONE) {
        put(out, call.operations_done.into());
    }
    if bits >= it::XID {
        write_sent(out, call, base, bits);
    }
}

/// The same of what is known when it is sent.
fn write_sent(out: &mut Vec<u8>, call: &Call, base: &Call, bits: u64) {
    use changed as it;
    let has = |bit: u64| bits & bit != 0;
    let first = call.call_first;
    if has(it::XID) {
        put(out, call.xid.into());
    }
    if has(it::CALL_LAST) {
        put_stamp(out, Some(call.call_last), first);
    }
    if has(it::OFFSET) {
        // Mostly where the last one ended, or near it.
        out.push(u8::from(call.offset.is_some()));
        let from = base
            .offset
            .unwrap_or(0)
            .wrapping_add(base.count.unwrap_or(0));
        let distance = call.offset.unwrap_or(from).wrapping_sub(from);
        put_signed(out, distance.cast_signed());
    }
    if has(it::COUNT) {
        put_option(out, call.count);
    }
    if has(it::BYTES_WRITTEN) {
        put(out, call.bytes_written.into());
    }
    if has(it::CALL_BYTES) {
        put(out, call.call_bytes.into());
    }
    if has(it::OPERATION) {
        for number in operation(call) {
            put(out, number.into());
        }
    }
    if has(it::SLOT) {
        put_option(out, call.slot.map(u64::from));
    }
    if has(it::USER) {
        put_option(out, call.user.map(u64::from));
    }
    if has(it::STABLE) {
        out.push(stability_number(call.stable));
    }
    if has(it::LAST_SEND) {
        put_stamp(out, Some(call.last_send), first);
    }
    if has(it::SENDS) {
        put(out, call.sends.into());
    }
    if has(it::PROGRAM) {
        put(out, call.program.into());
        put(out, call.version.into());
    }
}

/// What [`write`] wrote, into what was `base`.
pub(super) fn read(cursor: &mut Cursor<'_>, call: &mut Call) -> Result<(), Damaged> {
    let bits = cursor.number()?;
    match bits {
        0 => Ok(()),
        bits if bits <= changed::ALL => read_changed(cursor, call, bits),
        _ => Err(Damaged),
    }
}

fn read_changed(cursor: &mut Cursor<'_>, call: &mut Call, bits: u64) -> Result<(), Damaged> {
    use changed as it;
    let has = |bit: u64| bits & bit != 0;
    let first = call.call_first;
    if has(it::REPLY_FIRST) {
        call.reply_first = stamp(cursor, first)?;
    }
    if has(it::REPLY_LAST) {
        call.reply_last = stamp(cursor, call.reply_first.unwrap_or(first))?;
    }
    if has(it::REPLIES) {
        call.replies = cursor.small()?;
    }
    if has(it::OUTCOME) {
        call.outcome = outcome(cursor)?;
    }
    if has(it::REPLY_BYTES) {
        call.reply_bytes = cursor.small()?;
    }
    if has(it::BYTES_READ) {
        call.bytes_read = cursor.small()?;
    }
    if has(it::FILE_SIZE) {
        call.file_size_bytes = option(cursor)?;
    }
    if has(it::COMMITTED) {
        call.committed = stability(cursor.byte()?)?;
    }
    if has(it::MARKS) {
        let both: u32 = cursor.small()?;
        call.marks = u16::try_from(both >> 1).map_err(|_| Damaged)?;
        call.end_of_file = both & 1 != 0;
    }
    if has(it::DONE) {
        call.operations_done = cursor.small()?;
    }
    match bits >= it::XID {
        true => read_sent(cursor, call, bits),
        false => Ok(()),
    }
}

/// The same of what is known when it is sent.
fn read_sent(cursor: &mut Cursor<'_>, call: &mut Call, bits: u64) -> Result<(), Damaged> {
    use changed as it;
    let has = |bit: u64| bits & bit != 0;
    let first = call.call_first;
    if has(it::XID) {
        call.xid = cursor.small()?;
    }
    if has(it::CALL_LAST) {
        call.call_last = stamp(cursor, first)?.ok_or(Damaged)?;
    }
    if has(it::OFFSET) {
        let known = cursor.byte()? != 0;
        let from = call
            .offset
            .unwrap_or(0)
            .wrapping_add(call.count.unwrap_or(0));
        let offset = from.wrapping_add_signed(cursor.signed()?);
        call.offset = known.then_some(offset);
    }
    if has(it::COUNT) {
        call.count = option(cursor)?;
    }
    if has(it::BYTES_WRITTEN) {
        call.bytes_written = cursor.small()?;
    }
    if has(it::CALL_BYTES) {
        call.call_bytes = cursor.small()?;
    }
    if has(it::OPERATION) {
        call.procedure = cursor.small()?;
        call.operation = cursor.small()?;
        call.minor_version = cursor.small()?;
    }
    if has(it::SLOT) {
        call.slot = small_option(cursor)?;
    }
    if has(it::USER) {
        call.user = small_option(cursor)?;
    }
    if has(it::STABLE) {
        call.stable = stability(cursor.byte()?)?;
    }
    if has(it::LAST_SEND) {
        call.last_send = stamp(cursor, first)?.ok_or(Damaged)?;
    }
    if has(it::SENDS) {
        call.sends = cursor.small()?;
    }
    if has(it::PROGRAM) {
        call.program = cursor.small()?;
        call.version = cursor.small()?;
    }
    Ok(())
}

/// Time and frame from those of another moment on. Without a moment: 0.
fn put_stamp(out: &mut Vec<u8>, stamp: Option<Stamp>, from: Stamp) {
    let Some(stamp) = stamp else {
        return put(out, 0);
    };
    let frames = stamp.frame.wrapping_sub(from.frame).cast_signed();
    let folded = (frames << 1 ^ frames >> 63).cast_unsigned();
    // One more, so that 0 is free: no capture has so many frames that it does not fit.
    put(out, folded.saturating_add(1));
    put_signed(out, stamp.time_ns.wrapping_sub(from.time_ns));
}

fn stamp(cursor: &mut Cursor<'_>, from: Stamp) -> Result<Option<Stamp>, Damaged> {
    let Some(folded) = cursor.number()?.checked_sub(1) else {
        return Ok(None);
    };
    let frames = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
    Ok(Some(Stamp {
        frame: from.frame.wrapping_add_signed(frames),
        time_ns: from.time_ns.wrapping_add(cursor.signed()?),
    }))
}

fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    match number {
        // Offsets and sizes have 64 bits: one more would not fit.
        None => out.push(0),
        Some(number) => {
            out.push(1);
            put(out, number);
        }
    }
}

fn option(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Damaged> {
    match cursor.byte()? {
        0 => Ok(None),
        1 => cursor.number().map(Some),
        _ => Err(Damaged),
    }
}

fn small_option(cursor: &mut Cursor<'_>) -> Result<Option<u32>, Damaged> {
    let found = option(cursor)?;
    found.map(u32::try_from).transpose().map_err(|_| Damaged)
}

fn put_outcome(out: &mut Vec<u8>, outcome: Outcome) {
    match outcome {
        Outcome::Unanswered => put(out, 0),
        Outcome::Accepted => put(out, 1),
        Outcome::Unreadable => put(out, 2),
        Outcome::Refused(name) => {
            let place = REFUSALS.iter().position(|refusal| *refusal == name);
            put(out, 3);
            out.push(place.map_or(u8::MAX, |place| place as u8));
        }
        // Most are 0: one byte.
        Outcome::Status(status) => put(out, 4 + u64::from(status)),
    }
}

fn outcome(cursor: &mut Cursor<'_>) -> Result<Outcome, Damaged> {
    Ok(match cursor.number()? {
        0 => Outcome::Unanswered,
        1 => Outcome::Accepted,
        2 => Outcome::Unreadable,
        3 => {
            let place = usize::from(cursor.byte()?);
            let name = REFUSALS.get(place).copied();
            Outcome::Refused(name.unwrap_or_default())
        }
        status => Outcome::Status(u32::try_from(status - 4).map_err(|_| Damaged)?),
    })
}

fn stability_number(stability: Option<Stability>) -> u8 {
    match stability {
        None => 0,
        Some(Stability::Unstable) => 1,
        Some(Stability::DataSync) => 2,
        Some(Stability::FileSync) => 3,
    }
}

fn stability(number: u8) -> Result<Option<Stability>, Damaged> {
    Ok(match number {
        0 => None,
        1 => Some(Stability::Unstable),
        2 => Some(Stability::DataSync),
        3 => Some(Stability::FileSync),
        _ => return Err(Damaged),
    })
}
