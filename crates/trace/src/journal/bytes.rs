//! Numbers and texts as few bytes, and back; whatever stands in them, reading ends well.

use super::Damaged;

/// Writes a number: of up to 8 bytes, each with 7 bits of it, the lowest first; how many there are
/// stands in the first byte as zeros behind its lowest one. More bits follow a byte of zeros.
#[inline(always)]
pub fn put(out: &mut Vec<u8>, number: u64) {
    let bits = u64::BITS - (number | 1).leading_zeros();
    let bytes = bits.div_ceil(7);
    if bytes > 8 {
        out.push(0);
        out.extend_from_slice(&number.to_le_bytes());
        return;
    }
    // Eight bytes at once, of which some are taken back: no loop.
    let length = out.len() + bytes as usize;
    let word = (number << 1 | 1) << (bytes - 1);
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(length);
}

/// The same of one that may be negative: near zero is short.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, (number << 1 ^ number >> 63).cast_unsigned());
}

/// Bytes with their length in front.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// From the first of these bytes on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor(bytes)
    }

    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    /// What [`put`] wrote.
    #[inline(always)]
    pub fn number(&mut self) -> Result<u64, Damaged> {
        let first = *self.0.first().ok_or(Damaged)?;
        let bytes = first.trailing_zeros() as usize + 1;
        match self.0.first_chunk::<8>() {
            Some(word) if bytes <= 8 => {
                let word = u64::from_le_bytes(*word) << (64 - 8 * bytes);
                self.0 = self.0.get(bytes..).ok_or(Damaged)?;
                Ok(word >> (64 - 8 * bytes) >> bytes)
            }
            _ => self.number_at_end(bytes),
        }
    }

    /// The same of one that is long, or within the last bytes.
    #[cold]
    fn number_at_end(&mut self, bytes: usize) -> Result<u64, Damaged> {
        let (own, rest) = self.0.split_at_checked(bytes).ok_or(Damaged)?;
        self.0 = rest;
        let (skipped, shift) = if bytes > 8 { (1, 0) } else { (0, bytes) };
        let mut word = [0; 8];
        let own = own.get(skipped..).unwrap_or_default();
        word.iter_mut().zip(own).for_each(|(to, from)| *to = *from);
        Ok(u64::from_le_bytes(word) >> shift)
    }

    /// What [`put`] wrote of a smaller type.
    #[inline]
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Damaged> {
        T::try_from(self.number()?).map_err(|_| Damaged)
    }

    /// What [`put_signed`] wrote.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Damaged> {
        let folded = self.number()?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    /// What [`put_bytes`] wrote.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length: usize = self.small()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_come_back() {
        let mut random = fastrand::Rng::with_seed(3);
        let numbers: Vec<u64> = (0..2000)
            .map(|_| random.u64(..) >> random.u32(..64))
            .chain([0, 0x7f, 0x80, u64::MAX])
            .collect();
        let mut out = Vec::new();
        for number in &numbers {
            put(&mut out, *number);
            put_signed(&mut out, number.cast_signed());
            put_signed(&mut out, -(*number >> 1).cast_signed());
            put_bytes(&mut out, &number.to_le_bytes());
        }
        let mut cursor = Cursor::new(&out);
        for number in numbers {
            assert_eq!(cursor.number(), Ok(number));
            assert_eq!(cursor.signed(), Ok(number.cast_signed()));
            assert_eq!(cursor.signed(), Ok(-(number >> 1).cast_signed()));
            assert_eq!(cursor.bytes(), Ok(&number.to_le_bytes()[..]));
        }
        assert!(cursor.is_empty());
    }

    #[test]
    fn each_length_comes_back_at_the_end_and_in_front_of_more() {
        for bits in 0..=64 {
            let edges = [0, 1, 2].map(|less| (1u128 << bits) - 1 - less.min((1 << bits) - 1));
            for number in edges.map(|it| it as u64) {
                let mut out = Vec::new();
                put(&mut out, number);
                let usual = (64 - (number | 1).leading_zeros()).div_ceil(7) as usize;
                assert_eq!(out.len(), usual.min(9), "{number}");
                assert_eq!(Cursor::new(&out).number(), Ok(number));
                let length = out.len();
                out.extend([0xff; 20]);
                let mut cursor = Cursor::new(&out);
                assert_eq!(cursor.number(), Ok(number));
                assert_eq!(cursor.0.len(), out.len() - length);
                for cut in 0..length {
                    assert_eq!(Cursor::new(&out[..cut]).number(), Err(Damaged));
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = Vec::new();
        put(&mut out, 256);
        assert_eq!(Cursor::new(&out).small::<u8>(), Err(Damaged));
        out.clear();
        put_bytes(&mut out, &[1, 2, 3]);
        assert_eq!(Cursor::new(&out[..3]).bytes(), Err(Damaged));
        out.clear();
        put(&mut out, u64::MAX);
        assert_eq!(Cursor::new(&out).bytes(), Err(Damaged));
    }
}
