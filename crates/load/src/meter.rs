//! What one thread measures: responses, lateness, series, and the integral of what is under way.
//!
//! An operation is *in the system* from its planned instant to the end of its reply. Two sums are
//! kept apart: the integral of the number in the system over the window (changed at each arrival
//! and each end), and the responses of those that ended in the window. By Little's law they are
//! equal but for what lies over the window's edges, which is kept too: so the law holds exactly,
//! in whole nanoseconds, or something was lost.

use measure::{HistogramError, LatencyHistogram, Series, add_up};
use serde::{Deserialize, Serialize};

use crate::exchange::Moved;
use crate::fault::Faults;
use crate::operation::{OPERATIONS, Operation};
use crate::targets::Call;

/// When a point begins, is measured, and ends; nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    pub start_ns: u64,
    pub window_start_ns: u64,
    pub window_end_ns: u64,
    pub end_ns: u64,
}

impl Times {
    /// Nanoseconds of [from, to) within the window.
    fn overlap(&self, from_ns: u64, to_ns: u64) -> u64 {
        let from = from_ns.max(self.window_start_ns);
        to_ns.min(self.window_end_ns).saturating_sub(from)
    }

    fn in_window(&self, at_ns: u64) -> bool {
        (self.window_start_ns..self.window_end_ns).contains(&at_ns)
    }
}

/// How a thread's loop ended; the worst of several is the whole's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Ending {
    Complete,
    Stopped,
    /// Nothing was answered for too long.
    Silent,
}

impl Ending {
    /// As reports say it.
    pub const fn name(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Stopped => "stopped",
            Ending::Silent => "silent",
        }
    }
}

/// Figures of one operation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct OperationFigures {
    /// Calls made, the whole time.
    pub calls: u64,
    /// Calls that ended, the whole time, and those of them that ended as they ought to.
    pub ended: u64,
    pub expected: u64,
    /// Ended as they ought to, within the window.
    pub measured: u64,
    pub not_drawn: u64,
    pub responses: Option<Box<LatencyHistogram>>,
}

impl OperationFigures {
    fn add(&mut self, other: Self) -> Result<(), HistogramError> {
        add_up!(self, other; calls, ended, expected, measured, not_drawn);
        match (&mut self.responses, other.responses) {
            (Some(sum), Some(other)) => sum.add(&other)?,
            (none, other) => *none = none.take().or(other),
        }
        Ok(())
    }
}

/// The number in the system, and Little's sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Population {
    pub level: u64,
    since_ns: u64,
    /// Integral of the level over the window.
    pub area_ns: i128,
    /// Responses that ended in the window.
    pub responses_ns: i128,
    /// Parts of these before the window.
    pub before_ns: i128,
    /// Parts within the window of those that ended behind it, or never.
    pub after_ns: i128,
}

impl Population {
    fn advance(&mut self, times: &Times, now_ns: u64) {
        if now_ns > self.since_ns {
            self.area_ns += i128::from(times.overlap(self.since_ns, now_ns)) * self.level as i128;
            self.since_ns = now_ns;
        }
    }

    /// One more, since `planned_ns`, as it is noticed now.
    pub fn arrive(&mut self, times: &Times, planned_ns: u64, now_ns: u64) {
        self.advance(times, now_ns);
        // Level counts from `since_ns` on, which an end may have moved behind `now_ns`: what was
        // due before the load's end is taken as of that end, however late.
        self.area_ns += i128::from(times.overlap(planned_ns, self.since_ns));
        self.level += 1;
    }

    /// One less.
    pub fn leave(&mut self, times: &Times, planned_ns: u64, ended_ns: u64) {
        self.advance(times, ended_ns);
        // Noticed late: it was counted as here for too long.
        self.area_ns -= i128::from(times.overlap(ended_ns, self.since_ns));
        self.level = self.level.saturating_sub(1);
        if times.in_window(ended_ns) {
            self.responses_ns += i128::from(ended_ns) - i128::from(planned_ns);
            let before = i128::from(times.window_start_ns) - i128::from(planned_ns);
            self.before_ns += before.max(0);
        } else {
            self.censored(times, planned_ns, ended_ns);
        }
    }

    /// One that is still there when nothing is counted any more.
    pub fn remain(&mut self, times: &Times, planned_ns: u64) {
        self.advance(times, times.window_end_ns);
        self.censored(times, planned_ns, u64::MAX);
    }

    fn censored(&mut self, times: &Times, planned_ns: u64, ended_ns: u64) {
        if ended_ns >= times.window_end_ns {
            self.after_ns += i128::from(times.overlap(planned_ns, times.window_end_ns));
        }
    }

    pub fn add(&mut self, other: &Self) {
        add_up!(self, other; area_ns, responses_ns, before_ns, after_ns);
    }

    /// 0, or Little's law does not hold.
    pub fn residual_ns(&self) -> i128 {
        self.area_ns - (self.responses_ns - self.before_ns + self.after_ns)
    }
}

/// Counts of the whole point, where nothing else is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Arrivals within the window.
    pub arrivals: u64,
    /// Of these, not sent; and those though fewer than the most were under way.
    pub not_sent: u64,
    pub not_sent_free: u64,
    /// Under way, or waiting for a slot, when the window ended; and since when the oldest was due.
    pub left: u64,
    pub oldest_left_ns: u64,
    /// Never answered, or never handed over, when the point ended.
    pub unanswered: u64,
    pub unsent: u64,
    /// Moved and looked at by what was answered within the window.
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub verified_bytes: u64,
    /// WRITEs behind the end, answered within the window.
    pub appended: u64,
    pub verifier_changes: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        add_up!(self, other; arrivals, not_sent, not_sent_free, left);
        self.oldest_left_ns = self.oldest_left_ns.max(other.oldest_left_ns);
        add_up!(
            self, other; unanswered, unsent, read_bytes, written_bytes, verified_bytes, appended,
            verifier_changes,
        );
    }
}

/// What adds up over threads and processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub operations: Vec<OperationFigures>,
    pub population: Population,
    /// Planned (or slot free) to handed over, within the window.
    pub late: LatencyHistogram,
    /// Most by which a reply lay there before it was taken, for each one taken in the window.
    pub pick_up: LatencyHistogram,
    pub planned: Series,
    pub answered: Series,
    /// Responses as bytes: their sum in each interval.
    pub responses: Series,
    pub counts: Counts,
}

impl Measured {
    pub fn new(start_ns: u64, interval_ns: u64) -> Result<Self, HistogramError> {
        let series = || Series::new(start_ns, interval_ns);
        Ok(Measured {
            operations: vec![OperationFigures::default(); OPERATIONS],
            population: Population::default(),
            late: LatencyHistogram::new()?,
            pick_up: LatencyHistogram::new()?,
            planned: series(),
            answered: series(),
            responses: series(),
            counts: Counts::default(),
        })
    }

    pub fn add(&mut self, other: Self) -> Result<(), HistogramError> {
        for (sum, one) in self.operations.iter_mut().zip(other.operations) {
            sum.add(one)?;
        }
        self.population.add(&other.population);
        self.late.add(&other.late)?;
        self.pick_up.add(&other.pick_up)?;
        self.planned.add(other.planned);
        self.answered.add(other.answered);
        self.responses.add(other.responses);
        self.counts.add(&other.counts);
        Ok(())
    }
}

/// Everything that one thread measures.
#[derive(Debug)]
pub(crate) struct Meter {
    pub times: Times,
    pub sums: Measured,
    pub faults: Faults,
}

impl Meter {
    pub fn new(times: Times, interval_ns: u64) -> Result<Self, HistogramError> {
        Ok(Meter {
            times,
            sums: Measured::new(times.start_ns, interval_ns)?,
            faults: Faults::default(),
        })
    }

    pub fn figures(&mut self, operation: Operation) -> Option<&mut OperationFigures> {
        self.sums.operations.get_mut(operation.index())
    }

    /// An arrival, whether it will be sent or not.
    #[inline]
    pub fn arrive(&mut self, planned_ns: u64) {
        self.sums.planned.record(planned_ns, 0);
        self.sums.counts.arrivals += u64::from(self.times.in_window(planned_ns));
    }

    /// One that is to be sent comes into the system.
    #[inline]
    pub fn enter(&mut self, planned_ns: u64, now_ns: u64) {
        self.sums.population.arrive(&self.times, planned_ns, now_ns);
    }

    /// It ends, or is given up.
    #[inline]
    pub fn leave(&mut self, planned_ns: u64, ended_ns: u64) {
        let population = &mut self.sums.population;
        population.leave(&self.times, planned_ns, ended_ns);
    }

    /// An arrival that found no place to wait.
    #[cold]
    pub fn refuse(&mut self, planned_ns: u64, slots_free: bool) {
        if self.times.in_window(planned_ns) {
            self.sums.counts.not_sent += 1;
            self.sums.counts.not_sent_free += u64::from(slots_free);
        }
    }

    /// An operation that could have been handed over at `due_ns` was at `at_ns`. In the window is
    /// what was due or done in it: whoever comes back behind its end was late for what is in it.
    #[inline]
    pub fn handed(&mut self, at_ns: u64, due_ns: u64) {
        if self.times.in_window(at_ns) || self.times.in_window(due_ns) {
            self.sums.late.record(at_ns.saturating_sub(due_ns).max(1)); // the histogram begins at 1
        }
    }

    /// Replies taken at `at_ns` may have lain there for as long as this.
    #[inline]
    pub fn taken(&mut self, at_ns: u64, replies: u64, delay_ns: u64) {
        if self.times.in_window(at_ns) {
            self.sums.pick_up.record_n(delay_ns.max(1), replies);
        }
    }

    /// An operation's reply was as it ought to be.
    #[inline]
    pub fn expected(
        &mut self,
        call: &Call,
        ended_ns: u64,
        moved: &Moved,
    ) -> Result<(), HistogramError> {
        let measured = self.times.in_window(ended_ns);
        let response_ns = ended_ns.saturating_sub(call.planned_ns);
        let bytes = u64::from(moved.read) + u64::from(moved.written);
        self.sums.answered.record(ended_ns, bytes);
        self.sums.responses.record(ended_ns, response_ns);
        let Some(figures) = self.sums.operations.get_mut(call.operation.index()) else {
            return Ok(());
        };
        figures.expected += 1;
        if !measured {
            return Ok(());
        }
        figures.measured += 1;
        let histogram = match &mut figures.responses {
            Some(histogram) => histogram,
            none => none.insert(Box::new(LatencyHistogram::new()?)),
        };
        histogram.record(response_ns);
        self.sums.counts.read_bytes += u64::from(moved.read);
        self.sums.counts.written_bytes += u64::from(moved.written);
        self.sums.counts.verified_bytes += u64::from(moved.verified);
        self.sums.counts.appended += u64::from(call.appends);
        Ok(())
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
            let mut population = Population::default();
            for (noticed, planned, end) in events {
                match end {
                    None => population.arrive(&TIMES, planned, noticed),
                    Some(end) => population.leave(&TIMES, planned, end),
                }
            }
            for (planned, _) in stays.iter().filter(|(_, end)| end.is_none()) {
                population.remain(&TIMES, *planned);
            }
            population.advance(&TIMES, 20_000);
            let area: i128 = stays
                .iter()
                .map(|(planned, end)| {
                    let end = end.unwrap_or(u64::MAX);
                    (1000..5000).filter(|t| (*planned..end).contains(t)).count() as i128
                })
                .sum();
            assert_eq!(population.area_ns, area);
            let inside = |end: &Option<u64>| end.is_some_and(|end| (1000..5000).contains(&end));
            let ended: i128 = stays
                .iter()
                .filter(|(_, end)| inside(end))
                .map(|(planned, end)| i128::from(end.unwrap() - planned))
                .sum();
            assert_eq!(population.responses_ns, ended);
            assert_eq!(population.residual_ns(), 0);
        }
    }

    #[test]
    fn an_arrival_that_is_taken_behind_a_later_end_is_under_way_until_then() {
        let mut population = Population::default();
        population.arrive(&TIMES, 1000, 1000);
        population.leave(&TIMES, 1000, 5500);
        // Noticed behind 5500, and told as of 4999: nothing is due later.
        population.arrive(&TIMES, 4000, 4999);
        population.leave(&TIMES, 4000, 5700);
        assert_eq!(population.area_ns, 4000 + 1000);
        assert_eq!(population.residual_ns(), 0);
    }

    #[test]
    fn a_lost_end_breaks_the_law() {
        let mut population = Population::default();
        population.arrive(&TIMES, 1000, 1000);
        population.arrive(&TIMES, 2000, 2000);
        population.leave(&TIMES, 1000, 3000);
        population.advance(&TIMES, 6000);
        assert_eq!(population.residual_ns(), 3000, "2000 to 5000 is nobody's");
    }
}
