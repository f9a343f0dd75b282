//! From the kernel's units to ours, and what went wrong on the way.

use crate::catalog::Scale;

/// Factors that depend on the machine.
#[derive(Debug, Clone, Copy)]
pub struct Units {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Nanoseconds of a clock tick.
    pub tick_ns: u64,
}

impl Units {
    /// This machine's.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let ask = |name| {
            // SAFETY: takes an integer and touches no memory of ours.
            let answer = unsafe { libc::sysconf(name) };
            u64::try_from(answer).ok().filter(|&number| number > 0)
        };
        Self {
            page_bytes: ask(libc::_SC_PAGESIZE).unwrap_or(4096),
            tick_ns: 1_000_000_000 / ask(libc::_SC_CLK_TCK).unwrap_or(100),
        }
    }

    /// From the kernel's unit to ours; None if it does not fit.
    pub fn scale(self, scale: Scale, value: u64) -> Option<i64> {
        let factor = match scale {
            Scale::One => 1,
            Scale::Kib => 1024,
            Scale::Page => self.page_bytes,
            Scale::Sector => 512,
            Scale::Tick => self.tick_ns,
            Scale::Millisecond32 => 1_000_000,
            Scale::Microsecond => 1_000,
        };
        value
            .checked_mul(factor)
            .and_then(|value| i64::try_from(value).ok())
    }
}

/// What went wrong while sampling; all zero in a healthy recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Files that could not be read at some tick.
    pub read_errors: u64,
    /// Values that are no numbers or do not fit after scaling.
    pub unreadable_values: u64,
    /// Lines of devices beyond [`MAX_DEVICES`](crate::devices::MAX_DEVICES).
    pub devices_left_out: u64,
}
