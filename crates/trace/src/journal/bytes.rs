//! Numbers and texts as few bytes, and back; whatever stands in them, reading ends well.

use super::Damaged;

/// Bytes of the longest number.
const MAX_NUMBER_BYTES: u32 = 10;

/// Writes a number in groups of seven bits, the lowest first (LEB128).
#[inline]
pub fn put(out: &mut Vec<u8>, number: u64) {
    let mut left = number;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
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
    #[inline]
    pub fn number(&mut self) -> Result<u64, Damaged> {
        let first = self.byte()?;
        match first < 0x80 {
            true => Ok(first.into()),
            false => self.long(first),
        }
    }

    fn long(&mut self, first: u8) -> Result<u64, Damaged> {
        let mut number = u64::from(first & 0x7f);
        for place in 1..MAX_NUMBER_BYTES {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            number |= bits << (7 * place);
            if byte < 0x80 {
                let fits = place < MAX_NUMBER_BYTES - 1 || bits <= 1;
                return fits.then_some(number).ok_or(Damaged);
            }
        }
        Err(Damaged)
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
    fn what_is_cut_or_too_long_is_refused() {
        for bytes in [&[][..], &[0x80], &[0xff; 10], &[0xff; 11], &[5, 1, 2]] {
            assert_eq!(Cursor::new(bytes).bytes(), Err(Damaged), "{bytes:?}");
        }
        assert_eq!(Cursor::new(&[0x80, 2]).small::<u8>(), Err(Damaged));
        let most = [[0xff; 9].as_slice(), &[1]].concat();
        assert_eq!(Cursor::new(&most).number(), Ok(u64::MAX));
    }
}
