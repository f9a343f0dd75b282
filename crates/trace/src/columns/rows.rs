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
        pub(super) struct Rows { length: usize, present: Column<u32>, $($name: Column<$kind>,)* }

        impl Rows {
            pub(super) fn new() -> Self {
                Rows { length: 0, present: Column::new(), $($name: Column::new(),)* }
            }

            /// Adds a row.
            #[inline(always)]
            pub(super) fn push(&mut self, row: &Row) {
                let at = self.length % GATHERED;
                self.present.last[at] = row.present;
                $(self.$name.last[at] = row.$name;)*
                self.length += 1;
                if at + 1 == GATHERED {
                    self.keep(GATHERED);
                }
            }

            /// So many of the last rows go to their columns.
            #[inline(never)]
            fn keep(&mut self, count: usize) {
                self.present.keep(count);
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

/// Rows whose bits are turned into words at once.
const TURNED: usize = 32;

/// Takes full columns apart: values, with the null bits of all of them.
struct Taker {
    count: usize,
    /// Bits that all rows have.
    every: u32,
    /// For each 32 rows, the word of each bit: row `n` is its bit `n`.
    turned: Vec<[u32; TURNED]>,
}

impl Taker {
    fn of(present: &[u32]) -> Self {
        let turned = present.chunks(TURNED).map(|words| {
            let mut square = [0; TURNED];
            for (place, word) in square.iter_mut().zip(words) {
                *place = *word;
            }
            turn(&mut square);
            square
        });
        Taker {
            count: present.len(),
            every: present.iter().fold(u32::MAX, |every, word| every & word),
            turned: turned.collect(),
        }
    }

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
        Ok(Arc::new(DictionaryArray::try_new(keys, dictionary.take())?))
    }

    /// The bitmap of one bit of the rows' words; `None` if all rows have it (`bit` 0: always).
    fn nulls(&self, bit: u32) -> Option<BooleanBufferBuilder> {
        if self.every & bit == bit {
            return None;
        }
        let place = bit.trailing_zeros() as usize;
        let words = self.turned.iter().filter_map(|square| square.get(place));
        let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        let mut bits = BooleanBufferBuilder::new(self.count);
        bits.append_packed_range(0..self.count, &bytes);
        Some(bits)
    }
}

/// Turns a square of bits: bit `c` of word `r` becomes bit `r` of word `c` (Warren, Hacker's
/// Delight, 7-3): halves are swapped, then quarters, and so on.
fn turn(square: &mut [u32; TURNED]) {
    let mut mask = u32::MAX;
    for step in [16, 8, 4, 2, 1] {
        mask ^= mask << step;
        for pair in square.chunks_exact_mut(2 * step) {
            let (upper, lower) = pair.split_at_mut(step);
            for (upper, lower) in upper.iter_mut().zip(lower) {
                let swapped = (*upper >> step ^ *lower) & mask;
                *lower ^= swapped;
                *upper ^= swapped << step;
            }
        }
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
        let taker = Taker::of(&self.present.values);
        self.present.values.clear();
        self.columns(&taker, of)
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
            take.column::<UInt64Type>(&mut self.fsid, has::FILE_ID)?,
            take.column::<UInt64Type>(&mut self.file_id, has::FILE_ID)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_square_has_rows_as_columns() {
        let square: [u32; TURNED] =
            std::array::from_fn(|row| (row as u32 + 1).wrapping_mul(0x9e37_79b9));
        let mut turned = square;
        turn(&mut turned);
        for (row, word) in square.iter().enumerate() {
            for (column, other) in turned.iter().enumerate() {
                assert_eq!(word >> column & 1, other >> row & 1, "{row} {column}");
            }
        }
    }

    #[test]
    fn nulls_are_those_of_the_words() {
        for count in [1, 31, 32, 33, 64, 1000] {
            let word = |row: usize| (row as u32).wrapping_mul(0x85eb_ca6b) >> 9 | 1 << 30;
            let present: Vec<u32> = (0..count).map(word).collect();
            let taker = Taker::of(&present);
            assert!(taker.nulls(0).is_none() && taker.nulls(1 << 30).is_none());
            for bit in (0..20).map(|place| 1 << place) {
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
