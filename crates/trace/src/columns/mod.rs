//! Settled calls as Arrow record batches: one row a call, in the order of the calls.
//!
//! The columns and their order are a contract with users ([`schema`]); what each means is told in
//! docs/captures.md. Times are 64-bit integers, nanoseconds since 1970, not Arrow timestamps: SQL
//! engines give the difference of timestamps in microseconds, and a latency wants all its digits.
//! Offsets and counts are unsigned, since a lock to the end of a file has the count 2^64 - 1.
//!
//! Texts are dictionaries of 32-bit keys. Each batch has its own, with the texts of its own rows
//! only: a Parquet row group, which holds its dictionaries in whole, then costs what its rows cost,
//! and memory stays flat however many files a capture names. A row's path is what was known when
//! its batch first met the file (or, if nothing was, at the row itself): rows are made when calls
//! settle, so a name that comes in the reply of the same call is there. Later names and renamings
//! show from the next batch on.
//!
//! Finding keys costs nothing that grows: small memos in front of the dictionaries, a table by
//! number for files and operation lists. Null bits are gathered as one word a row; each 64 of them
//! go to the bitmaps at once, since mostly all of these rows have a value, or none has.

mod keys;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod texts;

use arrow_array::RecordBatch;

use crate::call::Call;
use crate::error::TraceError;
use crate::limits::BATCH_ROWS;
use crate::names::Names;
use keys::Keys;
pub(crate) use keys::hexadecimal;
use rows::{Row, Rows};
use schema::has;
pub use schema::{SCHEMA_VERSION, schema};

/// Makes batches of calls. The first batch may be empty, so that a reader learns the columns.
#[derive(Debug, Default)]
pub struct Batches {
    rows: Rows,
    keys: Keys,
}

impl Batches {
    /// Adds a row; gives a batch when [`BATCH_ROWS`] are there.
    ///
    /// # Errors
    /// [`TraceError::Thread`] if Arrow refuses the columns, which would be a fault of this module.
    #[inline]
    pub fn push(&mut self, call: &Call, names: &Names) -> Result<Option<RecordBatch>, TraceError> {
        self.add(call, names);
        if self.rows.len() < BATCH_ROWS {
            return Ok(None);
        }
        self.take().map(Some)
    }

    /// The rows that are left; a batch without rows if there never was any.
    ///
    /// # Errors
    /// As [`Batches::push`].
    pub fn finish(&mut self) -> Result<Option<RecordBatch>, TraceError> {
        if self.rows.len() == 0 && self.keys.number > 1 {
            return Ok(None);
        }
        self.take().map(Some)
    }

    fn take(&mut self) -> Result<RecordBatch, TraceError> {
        let columns = self.rows.take(&mut self.keys.dictionaries);
        self.keys.next_batch();
        columns
            .and_then(|columns| RecordBatch::try_new(schema(), columns))
            .map_err(|error| TraceError::Thread(error.to_string()))
    }

    #[inline(always)]
    fn add(&mut self, call: &Call, names: &Names) {
        let mut present = stated(call);
        let keys = &mut self.keys;
        let client = keys.host(call.client.host, true);
        let server = keys.host(call.server.host, false);
        let transport = keys.transport(call.transport);
        let (program, operation) = keys.operation(call);
        let operations = keys.operations(call, names);
        let status = keys.status(call);
        let file = keys.file(call.file, names);
        let stable = keys.stability(call.stable, 0);
        let committed = keys.stability(call.committed, 1);
        let marks = keys.marks(call.marks);
        let numbers = call.file.and_then(|file| names.numbers(file));
        let (fsid, file_id) = numbers.unwrap_or_default();
        let mut note = |bit: u32, is: bool| present |= if is { bit } else { 0 };

        note(has::OPERATIONS, operations >= 0);
        note(has::STATUS, status >= 0);
        note(has::FILE_HANDLE, file.handle >= 0);
        note(has::PATH, file.path >= 0);
        note(has::MINOR_VERSION, operations >= 0);
        note(has::STABLE, stable >= 0);
        note(has::COMMITTED, committed >= 0);
        note(has::MARKS, marks >= 0);
        note(has::FILE_ID, numbers.is_some());

        let (reply_first, reply_last) = (
            call.reply_first.unwrap_or_default(),
            call.reply_last.unwrap_or_default(),
        );
        self.rows.push(&Row {
            present,
            call_first_ns: call.call_first.time_ns,
            call_last_ns: call.call_last.time_ns,
            reply_first_ns: reply_first.time_ns,
            reply_last_ns: reply_last.time_ns,
            client,
            server,
            transport,
            xid: call.xid,
            program,
            version: call.version,
            operation,
            operations,
            status,
            sends: call.sends,
            replies: call.replies,
            user: call.user.unwrap_or_default(),
            file_handle: file.handle,
            path: file.path,
            offset: call.offset.unwrap_or_default(),
            count: call.count.unwrap_or_default(),
            bytes: i64::from(call.bytes_read) + i64::from(call.bytes_written),
            frame_call: call.call_first.frame as i64,
            frame_reply: reply_first.frame as i64,
            connection: call.connection,
            client_port: call.client.port,
            server_port: call.server.port,
            minor_version: call.minor_version,
            slot: call.slot.unwrap_or_default(),
            stable,
            committed,
            last_send_ns: call.last_send.time_ns,
            marks,
            fsid,
            file_id,
        });
    }
}

/// Which nullable columns the call has by itself: [`has`].
#[inline(always)]
fn stated(call: &Call) -> u32 {
    let bits = [
        (has::REPLY_FIRST, call.reply_first.is_some()),
        (has::REPLY_LAST, call.reply_last.is_some()),
        (has::USER, call.user.is_some()),
        (has::OFFSET, call.offset.is_some()),
        (has::COUNT, call.count.is_some()),
        (has::SLOT, call.slot.is_some()),
        (has::LAST_SEND, call.sends > 1),
    ];
    bits.iter()
        .fold(0, |all, (bit, is)| all | if *is { *bit } else { 0 })
}
