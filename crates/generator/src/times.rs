//! When a load begins, is measured, and ends.

use serde::{Deserialize, Serialize};

/// Instants of a load, nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The first operation may come.
    pub start_ns: u64,
    /// The measured window.
    pub window_start_ns: u64,
    /// Without this instant.
    pub window_end_ns: u64,
    /// Nothing is begun, or waited for, any more.
    pub end_ns: u64,
}

impl Times {
    /// Instants of a load whose parts take so many seconds: before, in and behind the window.
    #[must_use]
    pub fn new(start_ns: u64, before_s: f64, window_s: f64, behind_s: f64) -> Self {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let window_start_ns = start_ns + ns(before_s);
        let window_end_ns = window_start_ns + ns(window_s);
        Times {
            start_ns,
            window_start_ns,
            window_end_ns,
            end_ns: window_end_ns + ns(behind_s),
        }
    }

    /// Nanoseconds of [from, to) within the window.
    #[inline]
    pub(crate) fn overlap(&self, from_ns: u64, to_ns: u64) -> u64 {
        let from = from_ns.max(self.window_start_ns);
        to_ns.min(self.window_end_ns).saturating_sub(from)
    }

    /// Whether an instant is in the window.
    #[inline]
    #[must_use]
    pub fn in_window(&self, at_ns: u64) -> bool {
        (self.window_start_ns..self.window_end_ns).contains(&at_ns)
    }

    /// The phase of an instant before the window's end.
    #[must_use]
    pub fn phase(&self, now_ns: u64) -> Option<&'static str> {
        match now_ns {
            now if now < self.window_start_ns => Some("warm_up"),
            now if now < self.window_end_ns => Some("measure"),
            _ => None,
        }
    }
}
