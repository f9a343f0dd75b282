//! XDR (RFC 4506): a borrowing reader, appending writers, and the macros that spell RFC types.
//!
//! [`Reader`] walks a byte slice front to back; every length is compared with its named limit and
//! with the bytes that are there before anything is done with it. It never allocates: opaque data
//! is handed out as slices of the input. Fixed runs of fields are taken with one bounds check
//! ([`Reader::array`]). Padding bytes are skipped, not compared with zero (RFC 4506 section 4.9
//! asks for zeros; receivers in the field do not check).
//!
//! [`Encode`] appends to a `Vec<u8>` and refuses what [`Decode`] would refuse, so that
//! `decode(encode(x)) == x` for all that can be encoded.

use crate::error::{Error, ErrorKind, Result};
use crate::fixed::Fixed;
use crate::limits::MAX_ARRAY_ELEMENTS;

/// Bytes that fill `length` up to a multiple of four (RFC 4506 section 3).
#[inline(always)]
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// A front-to-back walk over a byte slice. `Clone` gives a second, independent position.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    end: usize,
    hole: Option<Hole<'a>>,
}

/// Bytes that were left out of a message, and what follows them.
#[derive(Clone, Copy, Debug)]
struct Hole<'a> {
    missing: usize,
    tail: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte; offsets in errors count from it.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader {
            rest: bytes,
            end: bytes.len(),
            hole: None,
        }
    }

    /// A message of which `missing` bytes between `head` and `tail` were not kept. Only
    /// [`Reader::skip_payload`] passes over the hole; every other field that touches it is short.
    pub fn with_hole(head: &'a [u8], missing: usize, tail: &'a [u8]) -> Self {
        Reader {
            rest: head,
            end: head.len(),
            hole: Some(Hole { missing, tail }),
        }
    }

    /// Offset of the next byte.
    #[inline(always)]
    pub fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// All bytes not yet taken.
    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    #[inline(never)]
    fn short(&self, needed: usize, field: &'static str) -> Error {
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let left = u32::try_from(self.rest.len()).unwrap_or(u32::MAX);
        Error::new(ErrorKind::Short { needed, left }, self.offset(), field)
    }

    /// An error about the four bytes just taken.
    #[cold]
    #[inline(never)]
    fn behind(&self, kind: ErrorKind, field: &'static str) -> Error {
        Error::new(kind, self.offset().saturating_sub(4), field)
    }

    /// An error for a discriminant (the four bytes just taken) that the union does not have.
    #[cold]
    pub fn bad_value(&self, value: u32, field: &'static str) -> Error {
        self.behind(ErrorKind::BadValue { value }, field)
    }

    /// Takes `N` bytes with one bounds check.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<&'a [u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.short(N, field)),
        }
    }

    /// Takes a value of fixed size with one bounds check; `None`, with nothing taken, if it is
    /// short or no such value.
    #[inline(always)]
    pub fn fixed<T: Fixed>(&mut self) -> Option<T> {
        let (taken, rest) = self.rest.split_at_checked(T::BYTES)?;
        let (value, _) = T::get(taken)?;
        self.rest = rest;
        Some(value)
    }

    /// `unsigned int` (RFC 4506 section 4.2).
    #[inline(always)]
    pub fn u32(&mut self, field: &'static str) -> Result<u32> {
        self.array::<4>(field)
            .map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// `unsigned hyper` (RFC 4506 section 4.5).
    #[inline(always)]
    pub fn u64(&mut self, field: &'static str) -> Result<u64> {
        self.array::<8>(field)
            .map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// `bool` (RFC 4506 section 4.4): 0 or 1, anything else is an error.
    #[inline(always)]
    pub fn bool(&mut self, field: &'static str) -> Result<bool> {
        match self.u32(field)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(self.bad_value(value, field)),
        }
    }

    /// Takes `length` bytes and their padding.
    #[inline(always)]
    pub fn opaque_fixed(&mut self, length: usize, field: &'static str) -> Result<&'a [u8]> {
        let padded = length.saturating_add(padding(length));
        match (self.rest.get(..length), self.rest.get(padded..)) {
            (Some(taken), Some(rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            _ => Err(self.short(padded, field)),
        }
    }

    /// A length or element count, refused above `limit`.
    #[inline(always)]
    pub fn length(&mut self, limit: u32, field: &'static str) -> Result<u32> {
        let length = self.u32(field)?;
        if length > limit {
            return Err(self.behind(ErrorKind::TooLong { length, limit }, field));
        }
        Ok(length)
    }

    /// `opaque<limit>` or `string<limit>` (RFC 4506 sections 4.10 and 4.11).
    #[inline(always)]
    pub fn opaque(&mut self, limit: u32, field: &'static str) -> Result<&'a [u8]> {
        let length = self.length(limit, field)?;
        self.opaque_fixed(length as usize, field)
    }

    /// Passes over `length` bytes (a multiple of four).
    #[inline(always)]
    pub fn skip(&mut self, length: usize, field: &'static str) -> Result<()> {
        match self.rest.get(length..) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.short(length, field)),
        }
    }

    /// `opaque<limit>` whose bytes nobody looks at: returns its length, which is known even if the
    /// bytes are not there. `report` is called with the length before the bytes are passed over.
    #[inline(always)]
    pub fn skip_payload(
        &mut self,
        limit: u32,
        field: &'static str,
        report: impl FnOnce(u32),
    ) -> Result<()> {
        let length = self.length(limit, field)?;
        report(length);
        let padded = (length as usize).saturating_add(padding(length as usize));
        match self.rest.get(padded..) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => self.skip_hole(padded, field),
        }
    }

    #[cold]
    #[inline(never)]
    fn skip_hole(&mut self, padded: usize, field: &'static str) -> Result<()> {
        let behind_head = padded - self.rest.len();
        let resumed = self.hole.and_then(|hole| {
            let into_tail = behind_head.checked_sub(hole.missing)?;
            Some((hole, hole.tail.get(into_tail..)?))
        });
        let Some((hole, rest)) = resumed else {
            return Err(self.short(padded, field));
        };
        self.end = self
            .end
            .saturating_add(hole.missing)
            .saturating_add(hole.tail.len());
        self.rest = rest;
        self.hole = None;
        Ok(())
    }

    /// Runs `element` for each element of a counted array.
    #[inline(always)]
    pub fn each(
        &mut self,
        field: &'static str,
        mut element: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        for _ in 0..self.length(MAX_ARRAY_ELEMENTS, field)? {
            element(self)?;
        }
        Ok(())
    }

    /// Ends the walk: bytes left over are an error.
    #[inline]
    pub fn finish(&self, field: &'static str) -> Result<()> {
        if self.rest.is_empty() && self.hole.is_none() {
            return Ok(());
        }
        let bytes = u32::try_from(self.rest.len()).unwrap_or(u32::MAX);
        Err(Error::new(
            ErrorKind::Trailing { bytes },
            self.offset(),
            field,
        ))
    }
}

/// A type that reads itself from XDR, borrowing opaque data from the message.
pub trait Decode<'a>: Sized {
    /// Takes one value; `field` names it in errors.
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self>;

    /// Decodes a whole message: bytes left over are an error.
    fn decode_whole(bytes: &'a [u8], field: &'static str) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader, field)?;
        reader.finish(field)?;
        Ok(value)
    }
}

/// A type that appends itself as XDR.
pub trait Encode {
    /// Appends the value. On an error (a length above its limit) `out` holds a partial value.
    fn encode(&self, out: &mut Vec<u8>) -> Result<()>;
}

/// Appends `opaque<limit>`: length, bytes, zero padding.
#[inline]
pub fn put_opaque(out: &mut Vec<u8>, bytes: &[u8], limit: u32, field: &'static str) -> Result<()> {
    put_length(out, bytes.len(), limit, field)?;
    put_opaque_fixed(out, bytes);
    Ok(())
}

/// Appends fixed-length opaque data and its padding.
#[inline]
pub fn put_opaque_fixed(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    if let Some(zeros) = [0u8; 3].get(..padding(bytes.len())) {
        out.extend_from_slice(zeros);
    }
}

/// Appends a length word, refused above `limit`.
#[inline]
pub fn put_length(out: &mut Vec<u8>, length: usize, limit: u32, field: &'static str) -> Result<()> {
    let stated = u32::try_from(length).unwrap_or(u32::MAX);
    if stated > limit {
        return Err(Error::new(
            ErrorKind::TooLong {
                length: stated,
                limit,
            },
            out.len(),
            field,
        ));
    }
    out.extend_from_slice(&stated.to_be_bytes());
    Ok(())
}

macro_rules! encode_numbers {
    ($($number:ty)*) => {$(
        impl Encode for $number {
            #[inline(always)]
            fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
                out.extend_from_slice(&self.to_be_bytes());
                Ok(())
            }
        }
    )*};
}
encode_numbers! { u32 i32 u64 }
impl<'a> Decode<'a> for u32 {
    #[inline(always)]
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        reader.u32(field)
    }
}
impl<'a> Decode<'a> for i32 {
    #[inline(always)]
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        reader
            .array::<4>(field)
            .map(|bytes| i32::from_be_bytes(*bytes))
    }
}
impl<'a> Decode<'a> for u64 {
    #[inline(always)]
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        reader.u64(field)
    }
}
impl Encode for bool {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        u32::from(*self).encode(out)
    }
}
impl<'a> Decode<'a> for bool {
    #[inline(always)]
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        reader.bool(field)
    }
}
impl Encode for () {
    #[inline]
    fn encode(&self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
impl<'a> Decode<'a> for () {
    #[inline(always)]
    fn decode(_reader: &mut Reader<'a>, _field: &'static str) -> Result<Self> {
        Ok(())
    }
}
/// Fixed opaque data whose length is a multiple of four (verifiers, NFSv2 handles).
impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_opaque_fixed(out, self);
        Ok(())
    }
}
impl<'a, const N: usize> Decode<'a> for [u8; N] {
    #[inline(always)]
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        let value = *reader.array::<N>(field)?;
        reader.skip(padding(N), field)?;
        Ok(value)
    }
}
/// Optional data: a `bool` and, if it is true, the value (RFC 4506 section 4.19).
impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.is_some().encode(out)?;
        match self {
            Some(value) => value.encode(out),
            None => Ok(()),
        }
    }
}
impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline(always)]
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        if reader.bool(field)? {
            T::decode(reader, field).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// A linked list of XDR (`struct entry *next`): each element is preceded by TRUE, the end is
/// FALSE. The vector grows with the bytes that are there, never with a claim.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Linked<T>(pub Vec<T>);

impl<T: Encode> Encode for Linked<T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        for element in &self.0 {
            true.encode(out)?;
            element.encode(out)?;
        }
        false.encode(out)
    }
}
impl<'a, T: Decode<'a>> Decode<'a> for Linked<T> {
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        let mut elements = Vec::new();
        while reader.bool(field)? {
            if elements.len() >= MAX_ARRAY_ELEMENTS as usize {
                let kind = ErrorKind::TooLong {
                    length: MAX_ARRAY_ELEMENTS.saturating_add(1),
                    limit: MAX_ARRAY_ELEMENTS,
                };
                return Err(Error::new(kind, reader.offset(), field));
            }
            elements.push(T::decode(reader, field)?);
        }
        Ok(Linked(elements))
    }
}

/// A counted array of XDR (`T name<>`, RFC 4506 section 4.13), grown like [`Linked`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Counted<T>(pub Vec<T>);

impl<T: Encode> Encode for Counted<T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_length(out, self.0.len(), MAX_ARRAY_ELEMENTS, "count")?;
        self.0.iter().try_for_each(|element| element.encode(out))
    }
}
impl<'a, T: Decode<'a>> Decode<'a> for Counted<T> {
    fn decode(reader: &mut Reader<'a>, field: &'static str) -> Result<Self> {
        let mut elements = Vec::new();
        reader.each(field, |reader| {
            elements.push(T::decode(reader, field)?);
            Ok(())
        })?;
        Ok(Counted(elements))
    }
}
