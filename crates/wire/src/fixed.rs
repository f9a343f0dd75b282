//! Structures of fixed size: written and read in one piece.

/// A type that always takes the same number of bytes: several of them go out in one piece, where
/// each for itself would look for room.
pub trait Fixed {
    /// Its size.
    const BYTES: usize;

    /// Writes it at the front of `out`; what is left of `out`.
    fn put<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8];

    /// The value at the front of `bytes`, and what is left; `None` for one that there is not, or
    /// that is short (which field it was, [`Decode`] tells).
    fn get(bytes: &[u8]) -> Option<(Self, &[u8])>
    where
        Self: Sized;
}

/// A word at the front of `out`; what is left.
#[inline(always)]
fn put_word<const N: usize>(word: [u8; N], out: &mut [u8]) -> &mut [u8] {
    match out.split_first_chunk_mut() {
        Some((place, rest)) => {
            *place = word;
            rest
        }
        None => &mut [],
    }
}

/// Appends several words in one piece; `BYTES` is theirs.
#[inline(always)]
pub fn put_words<const WORDS: usize, const BYTES: usize>(out: &mut Vec<u8>, words: [u32; WORDS]) {
    let mut bytes = [0; BYTES];
    let mut rest = &mut bytes[..];
    for word in words {
        rest = word.put(rest);
    }
    out.extend_from_slice(&bytes);
}

impl Fixed for u32 {
    const BYTES: usize = 4;

    #[inline(always)]
    fn put<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8] {
        put_word(self.to_be_bytes(), out)
    }

    #[inline(always)]
    fn get(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (word, rest) = bytes.split_first_chunk()?;
        Some((u32::from_be_bytes(*word), rest))
    }
}
impl Fixed for u64 {
    const BYTES: usize = 8;

    #[inline(always)]
    fn put<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8] {
        put_word(self.to_be_bytes(), out)
    }

    #[inline(always)]
    fn get(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (word, rest) = bytes.split_first_chunk()?;
        Some((u64::from_be_bytes(*word), rest))
    }
}
