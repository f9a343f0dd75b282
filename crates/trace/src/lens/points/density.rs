//! Counts over time and latency in bounded memory, for captures with more calls than are kept.
//!
//! The length of a capture is not known before its end. So a column of the grid begins as short
//! as the calls seen so far allow, and whenever the columns run out, neighbours are added up and
//! each column is twice as long: counts stay exact, only their place gets coarser.

use super::Point;
use super::encode::sparse;
use super::word::{AGAIN, CODE_MASK, UNANSWERED};

/// Columns of time.
pub(super) const COLUMNS: usize = 4096;
/// Latency codes of one row: 32 of 512 a decade, so 16 rows a decade.
pub(super) const CODES_PER_ROW: usize = 32;
const LATENCY_ROWS: usize = 128;
/// Row of the calls without a reply.
pub(super) const UNANSWERED_ROW: usize = LATENCY_ROWS;
/// Row of the calls sent again (they are in a row of latency, or of no reply, too).
pub(super) const AGAIN_ROW: usize = LATENCY_ROWS + 1;
/// Rows of one column.
pub(super) const ROWS: usize = LATENCY_ROWS + 2;

/// The columns' common length, and the time at which the first begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// Step in which the first column begins.
    pub(super) origin: u64,
    /// A column holds `1 << shift` steps.
    pub(super) shift: u32,
}

impl Scale {
    /// The finest one that holds `first..=last` in half of its columns.
    pub(super) fn covering(first: u64, last: u64) -> Self {
        let mut scale = Scale {
            origin: first,
            shift: 0,
        };
        while scale.column(last) >= COLUMNS / 2 {
            scale.shift += 1;
        }
        scale
    }

    /// Column of a step; steps before the first column lie in it.
    #[inline]
    pub(super) fn column(self, step: u64) -> usize {
        usize::try_from(step.saturating_sub(self.origin) >> self.shift).unwrap_or(usize::MAX)
    }
}

/// One panel's counts, column after column.
#[derive(Debug)]
pub(super) struct Grid {
    cells: Vec<u32>,
}

impl Grid {
    pub(super) fn new() -> Self {
        // Zeroed memory of the system: pages that are never touched are never there.
        Grid {
            cells: vec![0; COLUMNS * ROWS],
        }
    }

    /// Counts a point whose column is known to exist.
    #[inline]
    pub(super) fn count(&mut self, column: usize, point: &Point) {
        let start = column.min(COLUMNS - 1) * ROWS;
        let Some(cells) = self.cells.get_mut(start..start + ROWS) else {
            return;
        };
        let code = point.word() & CODE_MASK;
        let row = if code == UNANSWERED {
            UNANSWERED_ROW
        } else {
            usize::from(code) / CODES_PER_ROW
        };
        if let Some(cell) = cells.get_mut(row) {
            *cell = cell.saturating_add(1);
        }
        if point.word() & AGAIN != 0
            && let Some(cell) = cells.get_mut(AGAIN_ROW)
        {
            *cell = cell.saturating_add(1);
        }
    }

    /// Adds neighbouring columns up: each then holds twice the time.
    pub(super) fn halve(&mut self) {
        for column in 0..COLUMNS {
            let half = column / 2;
            for row in 0..ROWS {
                let value = std::mem::take(&mut self.cells[column * ROWS + row]);
                let cell = &mut self.cells[half * ROWS + row];
                *cell = cell.saturating_add(value);
            }
        }
    }

    /// As bytes ([`sparse`]).
    pub(super) fn encode(&self) -> Vec<u8> {
        sparse(&self.cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_double_without_losing_a_count() {
        let mut scale = Scale::covering(1000, 1000);
        assert_eq!(
            scale,
            Scale {
                origin: 1000,
                shift: 0
            }
        );
        let mut grid = Grid::new();
        let mut step = 1000_u64;
        for k in 0..5000_u64 {
            step += k % 7;
            while scale.column(step) >= COLUMNS {
                grid.halve();
                scale.shift += 1;
            }
            let word = if k % 10 == 0 {
                UNANSWERED | AGAIN
            } else {
                (k % 4000) as u16
            };
            grid.count(scale.column(step), &Point::new(step, word, 1, 0));
        }
        assert_eq!(scale.shift, 2);
        let sum = |rows: std::ops::Range<usize>| -> u32 {
            (0..COLUMNS)
                .flat_map(|c| rows.clone().map(move |r| c * ROWS + r))
                .map(|i| grid.cells[i])
                .sum()
        };
        assert_eq!(sum(0..UNANSWERED_ROW + 1), 5000);
        assert_eq!(sum(UNANSWERED_ROW..UNANSWERED_ROW + 1), 500);
        assert_eq!(sum(AGAIN_ROW..AGAIN_ROW + 1), 500);
    }

    #[test]
    fn a_scale_leaves_half_of_its_columns_for_what_comes() {
        let scale = Scale::covering(5, 5 + 10_000);
        assert!(scale.column(10_005) < COLUMNS / 2);
        assert!(scale.column(10_005) >= COLUMNS / 4);
        assert_eq!(scale.column(0), 0);
        let far = Scale::covering(0, u64::MAX);
        assert!(far.column(u64::MAX) < COLUMNS / 2);
    }
}
