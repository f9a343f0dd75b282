//! What one process measured, to be added to what others did: the report of a load is made of it.
//!
//! Flow: a process adds up its threads ([`Sums`]); as JSON its sums go to whoever started it, which
//! puts those of all processes together ([`merge`]) as if one process had measured.
//!
//! Decisions: only parts of one load may be added: the same configuration, the same instants, each
//! part once. Counts and histograms are integers, so nothing is lost; what was touched goes along
//! as a bit for each file. The guard judges every process on its own (an average would hide one
//! that was late), and the whole where none of them is at fault. Sums come from other machines: the
//! shape, the bounds and what has to agree within them are looked at before they are added.

use generator::{Share, ThreadReport, Times};
use measure::{Clock, HistogramError, LatencyHistogram, MonotonicClock};
use serde::{Deserialize, Serialize};

use super::config::LoadConfig;
use super::ending::Done;
use super::fault::Fault;
use super::guard;
use super::meter::{CELLS_PER_KIND, Cell, Meter, Tally};
use super::open_files::OpenFiles;
use super::post_log::MAX_POSTS;
use super::report::{ProcessReport, Report, WriterReport};
use crate::error::WebError;
use crate::page::{KINDS, Kind};

/// Most of anything that one process counts: what a thousand of them count can be added.
const MAX_COUNT: u64 = 1 << 53;
/// Most that times of all its requests add up to, in nanoseconds.
const MAX_NS_SUM: u128 = 1 << 116;
/// Latest instant, in nanoseconds of any clock: 146 years.
const MAX_INSTANT_NS: u64 = 1 << 62;

/// What one process measured, or several together.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    schema: u32,
    pub(crate) debug_build: bool,
    pub(crate) config: LoadConfig,
    pub(crate) open_files: OpenFiles,
    pub(crate) start_realtime_ns: u64,
    /// When the last thread was there to begin.
    pub(crate) began_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) stopped: bool,
    pub(crate) meter: Meter,
    /// Of each thread, and so are `threads`.
    pub(crate) posts: Vec<WriterReport>,
    pub(crate) threads: Vec<ThreadReport>,
    /// Of each connection within the timed part.
    pub(crate) window_bytes: Vec<u64>,
}

impl Sums {
    /// Of one process, of what its threads hand over.
    pub(crate) fn of(
        config: LoadConfig,
        open_files: OpenFiles,
        (times, start_realtime_ns): (Times, u64),
        threads: Vec<Done>,
    ) -> Result<Self, HistogramError> {
        let mut sums = Sums {
            schema: crate::SCHEMA,
            debug_build: cfg!(debug_assertions),
            meter: Meter::new(times, &config)?,
            config,
            open_files,
            start_realtime_ns,
            began_ns: 0,
            end_ns: MonotonicClock.now_ns(),
            stopped: false,
            posts: Vec::new(),
            threads: Vec::new(),
            window_bytes: Vec::new(),
        };
        for done in threads {
            sums.threads.push(done.thread);
            sums.posts.push(WriterReport {
                writer: done.writer,
                drawn: done.posts,
                unacknowledged: done.unacknowledged,
            });
            sums.window_bytes.extend(done.window_bytes);
            sums.began_ns = sums.began_ns.max(done.began_ns);
            sums.stopped |= done.stopped;
            sums.meter.add(done.meter)?;
        }
        Ok(sums)
    }

    /// Reads what a process handed over; its clock is `ahead_ns` ahead of that of the whole load.
    fn read(text: &str, ahead_ns: i64) -> Result<Self, WebError> {
        let sums: Sums =
            serde_json::from_str(text).map_err(|error| WebError::Parts(error.to_string()))?;
        if sums.schema != crate::SCHEMA {
            let why = format!("version {}, not {}", sums.schema, crate::SCHEMA);
            return Err(WebError::Parts(why));
        }
        sums.config.check()?;
        match sums.wrong() {
            Some(what) => Err(WebError::Parts(format!("its {what} cannot be"))),
            None => sums
                .moved(ahead_ns)
                .ok_or_else(|| WebError::Parts("its instants cannot be".to_owned())),
        }
    }

    /// What cannot have been measured with this configuration.
    fn wrong(&self) -> Option<&'static str> {
        let (config, meter) = (&self.config, &self.meter);
        let directories = config.file_set.directories as usize;
        let times = &meter.accounts.times;
        let in_order = [
            times.start_ns,
            times.window_start_ns,
            times.window_end_ns,
            times.end_ns,
            MAX_INSTANT_NS,
        ];
        let instants = [self.start_realtime_ns, self.began_ns, self.end_ns];
        let threads = config.threads as usize;
        let connections = config.connections_here() as usize;
        let planned = config.times(times.start_ns.min(MAX_INSTANT_NS));
        // As both read the configuration's fractions.
        let near = |at_ns: u64, planned_ns: u64| at_ns.abs_diff(planned_ns) < 1000;
        let as_planned = near(times.window_start_ns, planned.window_start_ns)
            && near(times.window_end_ns, planned.window_end_ns)
            && near(times.end_ns, planned.end_ns);
        let is_writer = |(post, thread): (&WriterReport, u32)| {
            post.writer == (config.process << 8 | thread)
                && post.drawn <= MAX_POSTS
                && post.unacknowledged.len() as u64 <= post.drawn
                && post
                    .unacknowledged
                    .iter()
                    .all(|number| *number < post.drawn)
        };
        let interval_ns = (config.series_interval_s * 1e9) as u64;
        let is_series = |series: &measure::Series| {
            series.interval_ns().checked_shr(series.doublings()) == Some(interval_ns.max(1))
        };
        let checks = [
            (in_order.is_sorted() && as_planned, "instants"),
            (
                instants.iter().all(|at_ns| *at_ns <= MAX_INSTANT_NS),
                "instants",
            ),
            (self.threads.len() == threads, "threads"),
            (self.threads.iter().all(is_thread), "threads"),
            (self.posts.len() == threads, "POSTs"),
            (self.posts.iter().zip(0..).all(is_writer), "POSTs"),
            (self.window_bytes.len() == connections, "connections"),
            (total(&self.window_bytes).is_some(), "connections"),
            (meter.drawn.directories.len() == directories, "directories"),
            (meter.done.directories.len() == directories, "directories"),
            (meter.has_shape_of(config), "file set"),
            (meter.drawn.adds_up(), "drawn requests"),
            (meter.done.adds_up(), "requests"),
            (meter.adds_up(), "requests"),
            (is_series(&meter.done_series), "series"),
            (is_series(&meter.received_series), "series"),
        ];
        checks
            .into_iter()
            .find_map(|(right, what)| (!right).then_some(what))
    }

    /// The same on a clock that this one is ahead of.
    fn moved(mut self, ahead_ns: i64) -> Option<Self> {
        let times = &mut self.meter.accounts.times;
        for at_ns in [
            &mut times.start_ns,
            &mut times.window_start_ns,
            &mut times.window_end_ns,
            &mut times.end_ns,
            &mut self.began_ns,
            &mut self.end_ns,
        ] {
            *at_ns = at_ns.checked_add_signed(ahead_ns.checked_neg()?)?;
        }
        Some(self)
    }

    /// Adds a process that measured the same load.
    fn add(&mut self, other: Self) -> Result<(), WebError> {
        let part = other.config.part;
        // Another number, so that no two name their POSTs alike.
        let first = |config: &LoadConfig| i64::from(config.process) - i64::from(config.part.index);
        let mut alike = other.config.clone();
        (alike.process, alike.part) = (self.config.process, self.config.part);
        let is_one = alike == self.config
            && first(&other.config) == first(&self.config)
            && part.of == self.config.part.of
            && other.meter.accounts.times == self.meter.accounts.times;
        if !is_one {
            let why = format!("process {} is of another load", part.index + 1);
            return Err(WebError::Parts(why));
        }
        self.debug_build |= other.debug_build;
        if other.open_files.needed > self.open_files.needed {
            self.open_files = other.open_files;
        }
        self.began_ns = self.began_ns.max(other.began_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.stopped |= other.stopped;
        self.posts.extend(other.posts);
        self.threads.extend(other.threads);
        self.window_bytes.extend(other.window_bytes);
        Ok(self.meter.add(other.meter)?)
    }
}

/// The report of the load that several processes made. `parts`: what each of them handed over, in
/// the order of their numbers, and by how many nanoseconds its clock is ahead of the whole load's.
///
/// # Errors
/// [`WebError::Parts`] if one cannot be read, is missing, or is of another load;
/// [`WebError::Histogram`] for latencies that cannot be added.
pub fn merge(parts: &[(String, i64)]) -> Result<Report, WebError> {
    let (mut whole, mut processes, mut reasons) = (None::<Sums>, Vec::new(), Vec::new());
    for (place, (text, ahead_ns)) in parts.iter().enumerate() {
        let sums = Sums::read(text, *ahead_ns)?;
        let Share { index, of } = sums.config.part;
        if of as usize != parts.len() || index as usize != place {
            let why = format!(
                "{} parts are there, one of them is {index} of {of}",
                parts.len()
            );
            return Err(WebError::Parts(why));
        }
        let report = sums.clone().figures()?;
        let own = guard::of_generator(&report);
        reasons.extend(own.iter().map(|one| one.of_process(index, of)));
        processes.push(ProcessReport::of(&report, own));
        match &mut whole {
            None => whole = Some(sums),
            Some(whole) => whole.add(sums)?,
        }
    }
    let Some(mut sums) = whole else {
        return Err(WebError::Parts("none is there".to_owned()));
    };
    sums.config.part = Share::default();
    let mut report = sums.figures()?;
    report.reasons = guard::of_load(&report);
    if reasons.is_empty() {
        reasons = guard::of_generator(&report);
    }
    report.reasons.extend(reasons);
    report.valid = report.reasons.is_empty() && report.flags.is_empty();
    report.processes = processes;
    Ok(report)
}

/// The sum of counts, unless it is more than can be counted.
fn total<'c>(counts: impl IntoIterator<Item = &'c u64>) -> Option<u64> {
    let sum = counts
        .into_iter()
        .try_fold(0_u64, |sum, count| sum.checked_add(*count));
    sum.filter(|sum| *sum <= MAX_COUNT)
}

/// All values of a histogram, those out of its range, too.
fn recorded(histogram: &LatencyHistogram) -> Option<u64> {
    total(&[histogram.count(), histogram.below(), histogram.above()])
}

fn is_thread(thread: &ThreadReport) -> bool {
    let times = [
        thread.window_ns,
        thread.cpu_ns,
        thread.user_ns,
        thread.system_ns,
        thread.spin_ns,
    ];
    let counts = [
        thread.waited_ns.unwrap_or(0),
        thread.voluntary_switches,
        thread.involuntary_switches,
    ];
    total(times.iter().chain(&counts)).is_some() && (thread.cpu_share - thread.share()).abs() < 1e-9
}

impl Tally {
    /// Whether kinds, files and directories tell of the same requests; POSTs ask for no file.
    fn adds_up(&self) -> bool {
        let Some((posts, gets)) = self.kinds.split_last() else {
            return false;
        };
        let gets = total(gets);
        gets.is_some()
            && total([posts]).is_some()
            && total(self.files.as_flattened()) == gets
            && total(&self.directories) == gets
    }
}

impl Cell {
    fn adds_up(&self) -> bool {
        let done = total(&[self.done]);
        done.is_some()
            && total(&[self.bytes]).is_some()
            && recorded(&self.last_byte) == done
            && recorded(&self.first_byte) == done
    }
}

impl Meter {
    /// Whether there is room for what the configuration asks for, and for nothing else.
    fn has_shape_of(&self, config: &LoadConfig) -> bool {
        let files = config.file_set.files();
        let last = self.touched.last().copied().unwrap_or(0);
        let beyond = match files % 64 {
            0 => 0,
            used => last >> used,
        };
        self.touched.len() as u64 == files.div_ceil(64)
            && beyond == 0
            && self.cells.len() == KINDS * CELLS_PER_KIND
    }

    /// Whether what was counted in several ways is the same, and can be added.
    fn adds_up(&self) -> bool {
        let cells = || self.cells.iter().flatten();
        let of_kind = |kind: Kind| {
            let from = kind as usize * CELLS_PER_KIND;
            let cells = self
                .cells
                .get(from..from + CELLS_PER_KIND)
                .unwrap_or_default();
            let done = total(cells.iter().flatten().map(|cell| &cell.done));
            done == self.done.kinds.get(kind as usize).copied()
        };
        let status = Fault::Status(0).index();
        let failed = self.faults.iter().filter_map(|of_kind| of_kind.get(status));
        let (accounts, counts) = (&self.accounts, &self.counts);
        let sums = accounts.little(0.0);
        let little = [
            sums.area_ns,
            sums.responses_ns,
            sums.before_window_ns,
            sums.after_window_ns,
        ];
        let done = total(&self.done.kinds);
        cells().all(|cell| cell.adds_up())
            && total(cells().map(|cell| &cell.bytes)).is_some()
            && Kind::ALL.into_iter().all(of_kind)
            && total(self.faults.as_flattened()).is_some()
            && total(failed) == total(self.statuses.values())
            && recorded(&accounts.late).is_some()
            && done.is_some_and(|done| counts.verified_replies <= done)
            && accounts.oldest_left_ns <= MAX_INSTANT_NS
            && accounts.refused <= accounts.arrivals
            && accounts.refused_free <= accounts.refused
            && little.iter().all(|ns| ns.unsigned_abs() <= MAX_NS_SUM)
            && total(&[
                self.faults_outside,
                accounts.arrivals,
                accounts.left,
                counts.unfinished,
                counts.connects,
                counts.idle_closed,
                counts.close_ignored,
                counts.received_bytes,
                counts.verified_bytes,
            ])
            .is_some()
    }
}
