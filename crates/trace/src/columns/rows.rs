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

/// Rows that are gathered before they go to their columns.
const GATHERED: usize = 64;

/// The values of one column. The last rows lie in a small place of their own: to write there costs
/// a store, where a vector looks for room each time.
#[derive(Debug)]
struct Column<T> {
    last: [T; GATHERED],
    values: Vec<T>,
}

impl<T: Copy + Default> Column<T> {
    fn new() -> Self {
        Column {
            last: [T::default(); GATHERED],
            values: Vec::with_capacity(BATCH_ROWS),
        }
    }

    /// So many of the last rows are complete.
    #[inline]
    fn keep(&mut self, count: usize) {
        let rows = self.last.get(..count).unwrap_or_default();
        self.values.extend_from_slice(rows);
    }

    /// All values; none is left.
    fn take(&mut self) -> Vec<T> {
        std::mem::replace(&mut self.values, Vec::with_capacity(BATCH_ROWS))
    }
}

macro_rules! rows {
    ($($name:ident: $kind:ty),* $(,)?) => {
        /// A row; `present` tells which of its values count ([`has`]).
        #[derive(Debug)]
        pub(super) struct Row { pub(super) present: u32, $(pub(super) $name: $kind,)* }

        /// The columns of the rows so far.
        #[derive(Debug)]
        pub(super) struct Rows {
            length: usize,
            /// Words of the last rows.
            present: [u32; GATHERED],
            bitmaps: Bitmaps,
            $($name: Column<$kind>,)*
        }

        impl Default for Rows {
            fn default() -> Self {
                Rows {
                    length: 0,
                    present: [0; GATHERED],
                    bitmaps: Bitmaps::default(),
                    $($name: Column::new(),)*
                }
            }
        }

        impl Rows {
            /// Adds a row.
            #[inline(always)]
            pub(super) fn push(&mut self, row: &Row) {
                let at = self.length % GATHERED;
                self.present[at] = row.present;
                $(self.$name.last[at] = row.$name;)*
                self.length += 1;
                if at + 1 == GATHERED {
                    self.keep(GATHERED);
                }
            }

            /// So many of the last rows go to their columns.
            #[inline(never)]
            fn keep(&mut self, count: usize) {
                self.bitmaps.add(self.present.get(..count).unwrap_or_default());
                $(self.$name.keep(count);)*
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
    slot: u32, stable: i32, committed: i32, last_send_ns: i64, marks: i32, fsid: u64,
    file_id: u64,
}

/// Nullable columns that a row's word can tell of.
const NULLABLE: usize = u32::BITS as usize;

/// Which rows have a value, as bitmaps: one for each bit of the rows' words.
#[derive(Debug, Default)]
struct Bitmaps {
    /// Row `n` is bit `n % 8` of byte `n / 8`.
    of: [Vec<u8>; NULLABLE],
    rows: usize,
    /// Bits that some row has not.
    missing: u32,
}

impl Bitmaps {
    /// Adds the words of [`GATHERED`] rows (of fewer at the end). Mostly all of them have a bit, or
    /// none has.
    fn add(&mut self, words: &[u32]) {
        let every = words.iter().fold(u32::MAX, |every, word| every & word);
        let any = words.iter().fold(0, |any, word| any | word);
        self.missing |= !every;
        self.rows += words.len();
        for (bit, bitmap) in self.of.iter_mut().enumerate() {
            let bits = match (every >> bit & 1, any >> bit & 1) {
                (1, _) => u64::MAX,
                (_, 0) => 0,
                _ => words
                    .iter()
                    .rev()
                    .fold(0, |bits, word| bits << 1 | u64::from(word >> bit & 1)),
            };
            bitmap.extend_from_slice(&bits.to_le_bytes());
        }
    }

    fn clear(&mut self) {
        self.of.iter_mut().for_each(Vec::clear);
        (self.rows, self.missing) = (0, 0);
    }
}

/// Takes full columns apart: values, with their null bits.
struct Taker<'b>(&'b Bitmaps);

impl Taker<'_> {
    fn numbers<T: ArrowPrimitiveType>(
        &self,
        values: &mut Column<T::Native>,
        bit: u32,
    ) -> Result<PrimitiveArray<T>, ArrowError> {
        let nulls = self.nulls(bit).map(|mut bits| bits.finish().into());
        PrimitiveArray::try_new(values.take().into(), nulls)
    }

    fn column<T: ArrowPrimitiveType>(
        &self,
        values: &mut Column<T::Native>,
        bit: u32,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.numbers::<T>(values, bit)?))
    }

    fn texts(
        &self,
        keys: &mut Column<i32>,
        bit: u32,
        dictionary: &mut Dictionary,
    ) -> Result<ArrayRef, ArrowError> {
        let keys = self.numbers::<Int32Type>(keys, bit)?;
        // SAFETY: the keys of rows that have a text are those that this dictionary gave for it
        // since it was last taken, as the rows were; each is the place of a text in it.
        let coded = unsafe { DictionaryArray::new_unchecked(keys, dictionary.take()) };
        Ok(Arc::new(coded))
    }

    /// The bitmap of one bit of the rows' words; `None` if all rows have it (`bit` 0: always).
    fn nulls(&self, bit: u32) -> Option<BooleanBufferBuilder> {
        if self.0.missing & bit == 0 {
            return None;
        }
        let bitmap = self.0.of.get(bit.trailing_zeros() as usize)?;
        let mut bits = BooleanBufferBuilder::new(self.0.rows);
        bits.append_packed_range(0..self.0.rows, bitmap);
        Some(bits)
    }
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// All columns in the order of the schema; no row is left.
    pub(super) fn take(&mut self, of: &mut Dictionaries) -> Result<Vec<ArrayRef>, ArrowError> {
        self.keep(self.length % GATHERED);
        self.length = 0;
        let mut bitmaps = std::mem::take(&mut self.bitmaps);
        let columns = self.columns(&Taker(&bitmaps), of);
        bitmaps.clear();
        self.bitmaps = bitmaps;
        columns
    }

    fn columns(
        &mut self,
        take: &Taker<'_>,
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
            take.column::<UInt64Type>(&mut self.fsid, has::FILE_ID)?,
            take.column::<UInt64Type>(&mut self.file_id, has::FILE_ID)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_those_of_the_words() {
        for count in [1, 31, 63, 64, 65, 128, 1000] {
            // Bits 0 to 19 are mixed, 20 changes from one stretch of rows to another.
            let mixed = |row: usize| (row as u32).wrapping_mul(0x85eb_ca6b) >> 12 | 1 << 30;
            let word = |row: usize| mixed(row) | u32::from(row / GATHERED % 2 == 1) << 20;
            let present: Vec<u32> = (0..count).map(word).collect();
            let mut bitmaps = Bitmaps::default();
            present
                .chunks(GATHERED)
                .for_each(|words| bitmaps.add(words));
            let taker = Taker(&bitmaps);
            assert!(taker.nulls(0).is_none() && taker.nulls(1 << 30).is_none());
            for bit in (0..22).map(|place| 1 << place) {
                let every = present.iter().all(|word| word & bit != 0);
                let Some(mut bits) = taker.nulls(bit) else {
                    assert!(every);
                    continue;
                };
                let bits = bits.finish();
                assert_eq!(bits.len(), count);
                for (row, word) in present.iter().enumerate() {
                    assert_eq!(bits.value(row), word & bit != 0);
                }
            }
        }
    }
}
