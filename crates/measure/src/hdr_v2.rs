//! HdrHistogram V2 bytes, written by the `hdrhistogram` crate and read with bounds first.
//!
//! Layout (big endian; HdrHistogram's Java `AbstractHistogram.encodeIntoByteBuffer` is the
//! specification): compressed form = cookie, length, zlib stream of the plain form; plain form =
//! cookie, payload length, normalising offset, significant digits, lowest value, highest value,
//! conversion ratio (f64), then zig-zag LEB128 numbers: a count, or a negative run of empty slots.
//!
//! The crate trusts lengths and digits, so hostile bytes could make it allocate gigabytes or
//! overflow. [`decode`] therefore inflates within [`MAX_PLAIN_BYTES`], checks the header and walks
//! all numbers before the crate sees them.

use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use std::io::Read;

/// Largest plain form accepted. Five digits over the whole u64 range need 6.3 million slots, and
/// real ones are mostly empty runs; this project's own need less than 300 KB in the worst case.
pub const MAX_PLAIN_BYTES: usize = 8 << 20;

/// Most significant digits that HdrHistogram knows.
pub const MAX_DIGITS: u8 = 5;

/// Most values a histogram may count in all (counts are signed 64-bit in the format).
pub const MAX_COUNT: u64 = i64::MAX.unsigned_abs();

const HEADER_BYTES: usize = 40;
const COOKIE_PLAIN: u32 = 0x1c84_9303;
const COOKIE_COMPRESSED: u32 = 0x1c84_9304;
/// The low byte's high half tells the word size of counts, which V2 does not use (always LEB128).
const COOKIE_WORD_SIZE: u32 = 0xf0;

/// What can be wrong with a histogram, its bytes or a question to it.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum HistogramError {
    /// Significant digits out of range, or two histograms that differ in them.
    #[error("{digits} significant digits: must be 1 to 5, and equal when histograms are added")]
    Digits {
        /// Digits asked for.
        digits: u32,
    },
    /// A quantile outside 0..=1.
    #[error("quantile {quantile} lies outside 0 to 1")]
    Quantile {
        /// Quantile asked for.
        quantile: f64,
    },
    /// Counts would pass [`MAX_COUNT`].
    #[error("counts pass 2^63 - 1, the most the HdrHistogram format holds")]
    Full,
    /// The bytes end early.
    #[error("{have} bytes where at least {need} are needed: cut short, or no histogram")]
    Short {
        /// Bytes there are.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The first four bytes are no HdrHistogram V2 cookie.
    #[error("the first bytes 0x{cookie:08x} are no HdrHistogram V2 cookie")]
    Cookie {
        /// The bytes found.
        cookie: u32,
    },
    /// Larger than anything this reads.
    #[error("more than {limit} bytes when inflated, the most accepted")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// A header field that is impossible or not supported.
    #[error("header field {field} has the impossible or unsupported value {value}")]
    Header {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// The payload is damaged.
    #[error("payload byte {offset}: {problem}")]
    Payload {
        /// Byte offset in the payload.
        offset: usize,
        /// What is wrong there.
        problem: &'static str,
    },
    /// The zlib stream is damaged.
    #[error("the compressed part cannot be inflated: {reason}")]
    Inflate {
        /// zlib's reason.
        reason: String,
    },
    /// The library refused.
    #[error("the HdrHistogram library says: {reason}")]
    Library {
        /// Its reason.
        reason: String,
    },
}

/// Compressed V2 bytes of `buckets`.
///
/// # Errors
/// [`HistogramError::Library`] if the crate cannot write it (counts above 2^63).
pub fn encode(buckets: &Histogram<u64>) -> Result<Vec<u8>, HistogramError> {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(buckets, &mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(HistogramError::Library {
            reason: error.to_string(),
        }),
    }
}

/// Histogram from V2 bytes of any origin, compressed or plain.
///
/// # Errors
/// [`HistogramError`] naming the field or byte at fault.
pub fn decode(bytes: &[u8]) -> Result<Histogram<u64>, HistogramError> {
    let cookie = number(bytes, 0)?;
    let plain = match cookie & !COOKIE_WORD_SIZE {
        base if base == COOKIE_COMPRESSED & !COOKIE_WORD_SIZE => inflate(bytes)?,
        base if base == COOKIE_PLAIN & !COOKIE_WORD_SIZE => {
            check_size(bytes.len())?;
            bytes.to_vec()
        }
        _ => return Err(HistogramError::Cookie { cookie }),
    };
    decode_plain(plain)
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, HistogramError> {
    let length = number(bytes, 4)? as usize;
    let need = length.saturating_add(8);
    let Some(compressed) = bytes.get(8..need) else {
        return Err(HistogramError::Short {
            have: bytes.len(),
            need,
        });
    };
    let mut plain = Vec::new();
    let limit = MAX_PLAIN_BYTES as u64 + 1;
    ZlibDecoder::new(compressed)
        .take(limit)
        .read_to_end(&mut plain)
        .map_err(|error| HistogramError::Inflate {
            reason: error.to_string(),
        })?;
    check_size(plain.len())?;
    Ok(plain)
}

const fn check_size(size_bytes: usize) -> Result<(), HistogramError> {
    if size_bytes > MAX_PLAIN_BYTES {
        return Err(HistogramError::TooLarge {
            limit: MAX_PLAIN_BYTES,
        });
    }
    Ok(())
}

fn decode_plain(mut plain: Vec<u8>) -> Result<Histogram<u64>, HistogramError> {
    let cookie = number(&plain, 0)?;
    if cookie & !COOKIE_WORD_SIZE != COOKIE_PLAIN & !COOKIE_WORD_SIZE {
        return Err(HistogramError::Cookie { cookie });
    }
    let length = number(&plain, 4)? as usize;
    let need = length.saturating_add(HEADER_BYTES);
    let slots = check_header(&plain)?;
    let Some(payload) = plain.get(HEADER_BYTES..need) else {
        return Err(HistogramError::Short {
            have: plain.len(),
            need,
        });
    };
    check_payload(payload, slots)?;
    // The crate knows one word size only; V2 payloads are the same for all.
    plain[..4].copy_from_slice(&COOKIE_PLAIN_CRATE.to_be_bytes());
    Deserializer::new()
        .deserialize(&mut plain.as_slice())
        .map_err(|error| HistogramError::Library {
            reason: error.to_string(),
        })
}

/// The plain cookie as the crate expects it (word size 1).
const COOKIE_PLAIN_CRATE: u32 = 0x1c84_9303 | 0x10;

/// Checks digits and range; gives the number of slots the counts array has.
fn check_header(plain: &[u8]) -> Result<u64, HistogramError> {
    let wrong = |field, value: String| Err(HistogramError::Header { field, value });
    let offset = number(plain, 8)?;
    if offset != 0 {
        return wrong("normalising offset", offset.to_string());
    }
    let digits = number(plain, 12)?;
    if !(1..=u32::from(MAX_DIGITS)).contains(&digits) {
        return Err(HistogramError::Digits { digits });
    }
    let low = long(plain, 16)?;
    let high = long(plain, 24)?;
    let ratio = f64::from_bits(long(plain, 32)?);
    if ratio.to_bits() != 1.0_f64.to_bits() {
        return wrong("conversion ratio", ratio.to_string());
    }
    if low == 0 || low > high / 2 {
        return wrong("lowest value", low.to_string());
    }
    // Slots: HdrHistogram's sub-bucket count is the power of two at or above 2 * 10^digits.
    let sub_buckets = (2 * 10_u64.pow(digits)).next_power_of_two();
    let unit_bits = u64::from(low.ilog2());
    if unit_bits + u64::from(sub_buckets.ilog2()) > 62 {
        return wrong("lowest value", low.to_string());
    }
    let buckets = u64::from(high.ilog2()) + 2;
    Ok(buckets * sub_buckets)
}

/// Walks all numbers: none too long, none past `slots`, no total past [`MAX_COUNT`].
fn check_payload(payload: &[u8], slots: u64) -> Result<(), HistogramError> {
    let (mut offset, mut slot, mut total) = (0_usize, 0_u64, 0_u64);
    while offset < payload.len() {
        let fail = |problem| Err(HistogramError::Payload { offset, problem });
        let Some((encoded, used)) = varint(&payload[offset..]) else {
            return fail("a number is cut short");
        };
        let value = (encoded >> 1).cast_signed() ^ -((encoded & 1).cast_signed());
        let (skip, count) = if value < 0 {
            (value.unsigned_abs(), 0)
        } else {
            (1, value)
        };
        slot = slot.saturating_add(skip);
        if slot > slots {
            return fail("more slots than the range has");
        }
        total = total.saturating_add(count.unsigned_abs());
        if total > MAX_COUNT {
            return fail("counts pass 2^63 - 1");
        }
        offset += used;
    }
    Ok(())
}

/// LEB128 as HdrHistogram has it: at most nine bytes, the ninth carrying eight bits.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().enumerate().take(9) {
        if index == 8 {
            return Some((value | u64::from(byte) << 56, 9));
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn number(bytes: &[u8], offset: usize) -> Result<u32, HistogramError> {
    bytes
        .get(offset..offset + 4)
        .and_then(|part| part.try_into().ok())
        .map(u32::from_be_bytes)
        .ok_or(HistogramError::Short {
            have: bytes.len(),
            need: offset + 4,
        })
}

fn long(bytes: &[u8], offset: usize) -> Result<u64, HistogramError> {
    Ok(u64::from(number(bytes, offset)?) << 32 | u64::from(number(bytes, offset + 4)?))
}
