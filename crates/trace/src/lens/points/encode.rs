//! Points in time order -> short byte columns.
//!
//! * `steps`: differences of the times in steps of 10 µs, LEB128; the first from the origin;
//! * `words`: code and flags of each call ([`super::word`]), 16 bits;
//! * `frames`: differences of the frame numbers, zigzag LEB128;
//! * `operations`: index into the section's list of operations, 8 bits; only where a panel holds
//!   several.

use super::Point;
use crate::lens::Blob;

/// Appends an unsigned number, seven bits a byte, the lowest first.
#[inline]
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small numbers of either sign as small unsigned ones (0, -1, 1, -2, ... as 0, 1, 2, 3, ...).
#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Columns of points that are sorted by time, as blobs named `prefix.steps` and so on.
pub(super) fn columns(
    prefix: &str,
    points: impl Iterator<Item = Point>,
    first_step: u64,
    with: Columns,
) -> Vec<Blob> {
    let (mut steps, mut words) = (Vec::new(), Vec::new());
    let (mut frames, mut operations) = (Vec::new(), Vec::new());
    let (mut before, mut frame_before) = (first_step, 0_i64);
    for point in points {
        let step = point.step();
        varint(&mut steps, step.saturating_sub(before));
        before = step;
        words.extend_from_slice(&point.word().to_le_bytes());
        if with.frames {
            let frame = i64::from(point.frame);
            varint(&mut frames, zigzag(frame - frame_before));
            frame_before = frame;
        }
        if with.operations {
            operations.push(point.operation);
        }
    }
    let blob = |name: &str, dtype, bytes| Blob {
        name: format!("{prefix}.{name}"),
        dtype,
        bytes,
    };
    let mut blobs = vec![blob("steps", "|u1", steps), blob("words", "<u2", words)];
    if with.frames {
        blobs.push(blob("frames", "|u1", frames));
    }
    if with.operations {
        blobs.push(blob("operations", "|u1", operations));
    }
    blobs
}

/// Which columns a list of points has besides time and word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// Frame numbers (all fit 32 bits).
    pub(super) frames: bool,
    /// Operations (a panel that holds several).
    pub(super) operations: bool,
}

/// Mostly empty cells: (length of the run of zeros before, count) for each that is not empty.
pub(super) fn sparse(cells: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut zeros = 0_u64;
    for &count in cells {
        if count == 0 {
            zeros += 1;
        } else {
            varint(&mut out, zeros);
            varint(&mut out, u64::from(count));
            zeros = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_leb128() {
        // Examples of the DWARF standard, section 7.6.
        for (value, bytes) in [
            (2_u64, vec![2_u8]),
            (127, vec![127]),
            (128, vec![0x80, 1]),
            (129, vec![0x81, 1]),
            (12857, vec![57 + 0x80, 100]),
        ] {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!(out, bytes);
        }
        let mut out = Vec::new();
        varint(&mut out, u64::MAX);
        assert_eq!(out.len(), 10);
    }

    #[test]
    fn zigzag_orders_by_size() {
        let values = [0, -1, 1, -2, 2].map(zigzag);
        assert_eq!(values, [0, 1, 2, 3, 4]);
        assert_eq!(zigzag(i64::MIN), u64::MAX);
    }

    #[test]
    fn empty_cells_cost_nothing() {
        assert_eq!(sparse(&[0; 1000]), Vec::<u8>::new());
        assert_eq!(sparse(&[0, 0, 3, 1, 0]), vec![2, 3, 0, 1]);
    }
}
