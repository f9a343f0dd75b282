//! What comes into a load and leaves it: counts, lateness, and the integral of what is under way.
//!
//! An operation is *in the system* from its planned instant to the end of its reply. Two sums are
//! kept apart: the integral of the number in the system over the window (changed at each arrival
//! and each end), and the responses of those that ended in the window. By Little's law they are
//! equal but for what lies over the window's edges, which is kept too: so the law holds exactly,
//! in whole nanoseconds, or something was lost.

use measure::{HistogramError, LatencyHistogram, add_up};
use serde::{Deserialize, Serialize};

use crate::Times;

/// Accounts of one thread, or of several added up.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounts {
    /// When the load begins, is measured, and ends.
    pub times: Times,
    /// Arrivals within the window.
    pub arrivals: u64,
    /// Of these, those that found no place to wait; and those though more could have been sent.
    pub refused: u64,
    /// See [`Accounts::refused`].
    pub refused_free: u64,
    /// Under way, or waiting to be, when the window ended; and since when the oldest was due.
    pub left: u64,
    /// See [`Accounts::left`].
    pub oldest_left_ns: u64,
    /// Planned (or possible) to handed over, within the window.
    pub late: LatencyHistogram,
    #[serde(skip)]
    level: u64,
    #[serde(skip)]
    since_ns: u64,
    /// Integral of the level over the window.
    area_ns: i128,
    /// Responses that ended in the window.
    responses_ns: i128,
    /// Parts of these before the window.
    before_ns: i128,
    /// Parts within the window of those that ended behind it, or never.
    after_ns: i128,
}

/// Little's law: `area = responses - before + after`, in whole nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Little {
    pub area_ns: i128,
    pub responses_ns: i128,
    pub before_window_ns: i128,
    pub after_window_ns: i128,
    pub residual_ns: i128,
    /// Rate times mean response, to be compared with the mean outstanding.
    pub rate_times_response: f64,
}

impl Accounts {
    /// Accounts of nothing yet.
    ///
    /// # Errors
    /// Those of a histogram.
    pub fn new(times: Times) -> Result<Self, HistogramError> {
        Ok(Accounts {
            times,
            arrivals: 0,
            refused: 0,
            refused_free: 0,
            left: 0,
            oldest_left_ns: 0,
            late: LatencyHistogram::new()?,
            level: 0,
            since_ns: 0,
            area_ns: 0,
            responses_ns: 0,
            before_ns: 0,
            after_ns: 0,
        })
    }

    /// Counts an arrival, whether it will be sent or not.
    #[inline]
    pub fn arrive(&mut self, planned_ns: u64) {
        self.arrivals += u64::from(self.times.in_window(planned_ns));
    }

    /// Counts an arrival that found no place to wait.
    #[cold]
    pub fn refuse(&mut self, planned_ns: u64, is_free: bool) {
        if self.times.in_window(planned_ns) {
            self.refused += 1;
            self.refused_free += u64::from(is_free);
        }
    }

    /// Records that an operation that could have been handed over at `due_ns` was at `at_ns`. In
    /// the window is what was due or done in it: whoever comes back behind its end was late for
    /// what is in it.
    #[inline]
    pub fn handed(&mut self, at_ns: u64, due_ns: u64) {
        if self.times.in_window(at_ns) || self.times.in_window(due_ns) {
            self.late.record(at_ns.saturating_sub(due_ns).max(1)); // the histogram begins at 1
        }
    }

    #[inline]
    fn advance(&mut self, now_ns: u64) {
        if now_ns > self.since_ns {
            let within_ns = self.times.overlap(self.since_ns, now_ns);
            self.area_ns += i128::from(within_ns) * self.level as i128;
            self.since_ns = now_ns;
        }
    }

    /// One that is to be sent comes into the system: it is there since `planned_ns`, noticed now.
    #[inline]
    pub fn enter(&mut self, planned_ns: u64, now_ns: u64) {
        self.advance(now_ns);
        // Level counts from `since_ns` on, which an end may have moved behind `now_ns`: what was
        // due before the load's end is taken as of that end, however late.
        self.area_ns += i128::from(self.times.overlap(planned_ns, self.since_ns));
        self.level += 1;
    }

    /// One ends, or is given up.
    #[inline]
    pub fn leave(&mut self, planned_ns: u64, ended_ns: u64) {
        self.advance(ended_ns);
        // Noticed late: it was counted as here for too long.
        self.area_ns -= i128::from(self.times.overlap(ended_ns, self.since_ns));
        self.level = self.level.saturating_sub(1);
        if self.times.in_window(ended_ns) {
            self.responses_ns += i128::from(ended_ns) - i128::from(planned_ns);
            let before = i128::from(self.times.window_start_ns) - i128::from(planned_ns);
            self.before_ns += before.max(0);
        } else {
            self.censored(planned_ns, ended_ns);
        }
    }

    /// One is still there when nothing is counted any more.
    pub fn remain(&mut self, planned_ns: u64) {
        self.advance(self.times.window_end_ns);
        self.censored(planned_ns, u64::MAX);
    }

    #[inline]
    fn censored(&mut self, planned_ns: u64, ended_ns: u64) {
        let end_ns = self.times.window_end_ns;
        if ended_ns >= end_ns {
            self.after_ns += i128::from(self.times.overlap(planned_ns, end_ns));
        }
    }

    /// Notes what was planned before the window's end and is left there.
    pub fn note_left(&mut self, planned_ns: impl Iterator<Item = u64>) {
        let end_ns = self.times.window_end_ns;
        let mut oldest_ns = end_ns;
        for planned_ns in planned_ns.filter(|planned_ns| *planned_ns < end_ns) {
            self.left += 1;
            oldest_ns = oldest_ns.min(planned_ns);
        }
        self.oldest_left_ns = end_ns - oldest_ns;
    }

    /// Adds those of another thread or process.
    ///
    /// # Errors
    /// Those of adding histograms.
    pub fn add(&mut self, other: &Self) -> Result<(), HistogramError> {
        add_up!(
            self, other; arrivals, refused, refused_free, left, area_ns, responses_ns, before_ns,
            after_ns,
        );
        self.oldest_left_ns = self.oldest_left_ns.max(other.oldest_left_ns);
        self.late.add(&other.late)
    }

    /// The mean number in the system over the window.
    #[must_use]
    pub fn outstanding_mean(&self) -> f64 {
        self.area_ns as f64 / (self.times.window_end_ns - self.times.window_start_ns) as f64
    }

    /// Little's law in these accounts; its residual is 0, or they are wrong.
    #[must_use]
    pub const fn little(&self, rate_times_response: f64) -> Little {
        Little {
            area_ns: self.area_ns,
            responses_ns: self.responses_ns,
            before_window_ns: self.before_ns,
            after_window_ns: self.after_ns,
            residual_ns: self.area_ns - (self.responses_ns - self.before_ns + self.after_ns),
            rate_times_response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        start_ns: 0,
        window_start_ns: 1000,
        window_end_ns: 5000,
        end_ns: 6000,
    };

    /// Random stays, told in the order and with the delays of a loop; all sums by brute force.
    #[test]
    fn littles_law_holds_exactly_however_late_things_are_noticed() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..300 {
            let mut events = Vec::new(); // (noticed, planned, end or none)
            let mut stays = Vec::new();
            for _ in 0..random.usize(0..40) {
                let planned = random.u64(0..6000);
                let end = planned + random.u64(1..3000);
                let answered = random.u8(..) < 200;
                events.push((planned + random.u64(0..50), planned, None));
                if answered {
                    // Its arrival was noticed first.
                    let (noticed, ..) = events[events.len() - 1];
                    let end = end.max(noticed);
                    events.push((end + random.u64(0..50), planned, Some(end)));
                    stays.push((planned, Some(end)));
                } else {
                    stays.push((planned, None));
                }
            }
            events.sort_by_key(|(noticed, _, end)| (*noticed, end.is_some()));
            let mut accounts = Accounts::new(TIMES).unwrap();
            for (noticed, planned, end) in events {
                match end {
                    None => accounts.enter(planned, noticed),
                    Some(end) => accounts.leave(planned, end),
                }
            }
            for (planned, _) in stays.iter().filter(|(_, end)| end.is_none()) {
                accounts.remain(*planned);
            }
            accounts.advance(20_000);
            let area: i128 = stays
                .iter()
                .map(|(planned, end)| {
                    let end = end.unwrap_or(u64::MAX);
                    (1000..5000).filter(|t| (*planned..end).contains(t)).count() as i128
                })
                .sum();
            assert_eq!(accounts.area_ns, area);
            let inside = |end: &Option<u64>| end.is_some_and(|end| (1000..5000).contains(&end));
            let ended: i128 = stays
                .iter()
                .filter(|(_, end)| inside(end))
                .map(|(planned, end)| i128::from(end.unwrap() - planned))
                .sum();
            assert_eq!(accounts.responses_ns, ended);
            assert_eq!(accounts.little(0.0).residual_ns, 0);
        }
    }

    #[test]
    fn an_arrival_that_is_taken_behind_a_later_end_is_under_way_until_then() {
        let mut accounts = Accounts::new(TIMES).unwrap();
        accounts.enter(1000, 1000);
        accounts.leave(1000, 5500);
        // Noticed behind 5500, and told as of 4999: nothing is due later.
        accounts.enter(4000, 4999);
        accounts.leave(4000, 5700);
        assert_eq!(accounts.area_ns, 4000 + 1000);
        assert_eq!(accounts.little(0.0).residual_ns, 0);
    }

    #[test]
    fn a_lost_end_breaks_the_law() {
        let mut accounts = Accounts::new(TIMES).unwrap();
        accounts.enter(1000, 1000);
        accounts.enter(2000, 2000);
        accounts.leave(1000, 3000);
        accounts.advance(6000);
        assert_eq!(
            accounts.little(0.0).residual_ns,
            3000,
            "2000 to 5000 is nobody's"
        );
    }
}
