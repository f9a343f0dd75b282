//! The columns of a batch while it fills, and their way into Arrow arrays.

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, DictionaryArray, PrimitiveArray};
use arrow_schema::ArrowError;

use super::keys::Dictionaries;
use super::schema::has;
use super::texts::Dictionary;
use crate::limits::BATCH_ROWS;

macro_rules! rows {
    ($($name:ident: $kind:ty),* $(,)?) => {
        /// One vector a column; `present` tells which values count ([`has`]).
        #[derive(Debug)]
        pub(super) struct Rows { pub(super) present: Vec<u32>, $(pub(super) $name: Vec<$kind>,)* }

        impl Rows {
            pub(super) fn new() -> Self {
                Rows {
                    present: Vec::with_capacity(BATCH_ROWS),
                    $($name: Vec::with_capacity(BATCH_ROWS),)*
                }
            }
        }
    };
}
rows! {
    call_first_ns: i64, call_last_ns: i64, reply_first_ns: i64, reply_last_ns: i64,
    client: i32, server: i32, transport: i32, xid: u32, program: i32, version: u32,
    operation: i32, operations: i32, status: i32, sends: u16, replies: u16, user: u32,
    file_handle: i32, path: i32, offset: u64, count: u64, bytes: i64, frame_call: i64,
    frame_reply: i64, connection: u32, client_port: u16, server_port: u16, minor_version: u32,
    slot: u32, stable: i32, committed: i32, last_send_ns: i64, marks: i32,
}

/// Takes full columns apart: values, with the null bits of all of them.
struct Taker {
    present: Vec<u32>,
}

impl Taker {
    fn numbers<T: ArrowPrimitiveType>(
        &self,
        values: &mut Vec<T::Native>,
        bit: u32,
    ) -> Result<PrimitiveArray<T>, ArrowError> {
        let full = std::mem::replace(values, Vec::with_capacity(BATCH_ROWS));
        let nulls = self.nulls(bit).map(|mut bits| bits.finish().into());
        PrimitiveArray::try_new(full.into(), nulls)
    }

    fn column<T: ArrowPrimitiveType>(
        &self,
        values: &mut Vec<T::Native>,
        bit: u32,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.numbers::<T>(values, bit)?))
    }

    fn texts(
        &self,
        keys: &mut Vec<i32>,
        bit: u32,
        dictionary: &mut Dictionary,
    ) -> Result<ArrayRef, ArrowError> {
        let keys = self.numbers::<Int32Type>(keys, bit)?;
        Ok(Arc::new(DictionaryArray::try_new(keys, dictionary.take())?))
    }

    /// The bitmap of one bit of the rows' words; `None` if all rows have it (`bit` 0: always).
    fn nulls(&self, bit: u32) -> Option<BooleanBufferBuilder> {
        if self.present.iter().all(|word| word & bit == bit) {
            return None;
        }
        let mut bits = BooleanBufferBuilder::new(self.present.len());
        for words in self.present.chunks(64) {
            let each = words.iter().enumerate();
            let packed = each.fold(0u64, |packed, (place, word)| {
                packed | u64::from(word & bit != 0) << place
            });
            bits.append_packed_range(0..words.len(), &packed.to_le_bytes());
        }
        Some(bits)
    }
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.present.len()
    }

    /// All columns in the order of the schema; no row is left.
    pub(super) fn take(&mut self, of: &mut Dictionaries) -> Result<Vec<ArrayRef>, ArrowError> {
        let present = std::mem::take(&mut self.present);
        let mut taker = Taker { present };
        let columns = self.columns(&taker, of);
        taker.present.clear();
        self.present = taker.present;
        columns
    }

    fn columns(
        &mut self,
        take: &Taker,
        of: &mut Dictionaries,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            take.column::<Int64Type>(&mut self.call_first_ns, 0)?,
            take.column::<Int64Type>(&mut self.call_last_ns, 0)?,
            take.column::<Int64Type>(&mut self.reply_first_ns, has::REPLY_FIRST)?,
            take.column::<Int64Type>(&mut self.reply_last_ns, has::REPLY_LAST)?,
            take.texts(&mut self.client, 0, &mut of.client)?,
            take.texts(&mut self.server, 0, &mut of.server)?,
            take.texts(&mut self.transport, 0, &mut of.transport)?,
            take.column::<UInt32Type>(&mut self.xid, 0)?,
            take.texts(&mut self.program, 0, &mut of.program)?,
            take.column::<UInt32Type>(&mut self.version, 0)?,
            take.texts(&mut self.operation, 0, &mut of.operation)?,
            take.texts(&mut self.operations, has::OPERATIONS, &mut of.operations)?,
            take.texts(&mut self.status, has::STATUS, &mut of.status)?,
            take.column::<UInt16Type>(&mut self.sends, 0)?,
            take.column::<UInt16Type>(&mut self.replies, 0)?,
            take.column::<UInt32Type>(&mut self.user, has::USER)?,
            take.texts(&mut self.file_handle, has::FILE_HANDLE, &mut of.file_handle)?,
            take.texts(&mut self.path, has::PATH, &mut of.path)?,
            take.column::<UInt64Type>(&mut self.offset, has::OFFSET)?,
            take.column::<UInt64Type>(&mut self.count, has::COUNT)?,
            take.column::<Int64Type>(&mut self.bytes, 0)?,
            take.column::<Int64Type>(&mut self.frame_call, 0)?,
            take.column::<Int64Type>(&mut self.frame_reply, has::REPLY_FIRST)?,
            take.column::<UInt32Type>(&mut self.connection, 0)?,
            take.column::<UInt16Type>(&mut self.client_port, 0)?,
            take.column::<UInt16Type>(&mut self.server_port, 0)?,
            take.column::<UInt32Type>(&mut self.minor_version, has::MINOR_VERSION)?,
            take.column::<UInt32Type>(&mut self.slot, has::SLOT)?,
            take.texts(&mut self.stable, has::STABLE, &mut of.stable)?,
            take.texts(&mut self.committed, has::COMMITTED, &mut of.committed)?,
            take.column::<Int64Type>(&mut self.last_send_ns, has::LAST_SEND)?,
            take.texts(&mut self.marks, has::MARKS, &mut of.marks)?,
        ])
    }
}
