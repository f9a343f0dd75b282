//! One load: threads up, watched, down, added up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use generator::{Observer, Schedule, TICK_NS, Times};
use measure::clock::realtime_ns;
use measure::thread::watched;
use measure::{Clock, MonotonicClock, Random};

use super::config::{LoadConfig, LoadMode};
use super::connection::Line;
use super::draw::Draws;
use super::ending::Done;
use super::meter::Meter;
use super::open_files::OpenFiles;
use super::report::Report;
use super::sums::Sums;
use super::worker::{Board, State, Worker, WorkerError};
use crate::error::WebError;
use crate::fileset::Content;
use crate::progress::Progress;

/// Puts a load on a server.
///
/// # Errors
/// [`WebError`] if it could not be begun, or this machine failed; what the server does is in the
/// report. Stopped by the observer, it ends with a report that says so.
pub fn run(config: LoadConfig, observer: &mut dyn Observer<Progress>) -> Result<Report, WebError> {
    Ok(run_part(config, observer)?.report()?)
}

/// The same, to be put together with what other processes measured ([`super::merge`]).
///
/// # Errors
/// As [`run`].
pub fn run_part(
    config: LoadConfig,
    observer: &mut dyn Observer<Progress>,
) -> Result<Sums, WebError> {
    config.check()?;
    let connections = u64::from(config.connections_here());
    let open_files = OpenFiles::raise(connections, u64::from(config.threads))?;
    let content = Content::new(config.file_set.seed);
    let start_ns = generator::start_ns(observer, &MonotonicClock)?;
    let start_realtime_ns = realtime_ns() + start_ns.saturating_sub(MonotonicClock.now_ns());
    let times = config.times(start_ns);
    let board = Board::default();
    let worker = |thread| worker(&config, thread, times, (&content, &board));
    let workers = (0..config.threads)
        .map(worker)
        .collect::<Result<Vec<_>, _>>()?;
    let threads = watch(workers, (&board, times), observer)?;
    let instants = (times, start_realtime_ns);
    Ok(Sums::of(config, open_files, instants, threads)?)
}

fn worker<'w>(
    config: &LoadConfig,
    thread: u32,
    times: Times,
    (content, board): (&'w Content, &'w Board),
) -> Result<Worker<'w>, WebError> {
    let share = config.share(thread);
    let all = config.load.connections();
    let (connections, first_user) = (share.part(all), share.first(all));
    let writer = config.process << 8 | thread;
    let (line, schedule, backlog) = match config.load {
        LoadMode::Closed { .. } => (None, None, 0),
        LoadMode::LineSpeed {
            line_bits_per_s,
            receive_buffer_bytes,
            ..
        } => (
            Some(Line::new(line_bits_per_s, receive_buffer_bytes)),
            None,
            0,
        ),
        LoadMode::Open {
            rate_per_s,
            arrivals,
            backlog,
            ..
        } => {
            let stream = [0x7765_6203, u64::from(config.process), u64::from(thread)];
            let mut random = Random::new(config.seed, &stream);
            let schedule =
                Schedule::new((times.start_ns, rate_per_s), arrivals, share, &mut random);
            (None, Some((schedule, random)), share.part(backlog) as usize)
        }
    };
    let state = State::new(connections, first_user)
        .map_err(|errno| WebError::system("epoll cannot be had", errno))?;
    Ok(Worker {
        address: config.address,
        host: (config.host.clone()).unwrap_or_else(|| config.address.to_string()),
        post_bytes: config.post_bytes,
        timeout_ns: (config.timeout_s * 1e9) as u64,
        line,
        schedule,
        backlog,
        content,
        draws: Draws::new(config, thread)?,
        meter: Meter::new(times, config)?,
        board,
        writer,
        process: config.part.index,
        state,
    })
}

/// Runs the threads to their end, telling the observer and obeying it.
fn watch(
    workers: Vec<Worker<'_>>,
    (board, times): (&Board, Times),
    observer: &mut dyn Observer<Progress>,
) -> Result<Vec<Done>, WebError> {
    let work = |worker: Worker<'_>| {
        let done = worker.run();
        if done.is_err() {
            board.stop.store(true, Ordering::Relaxed);
        }
        done
    };
    let tick = Duration::from_nanos(TICK_NS);
    let results = watched("web", workers, work, &board.stop, tick, || {
        observer.tick(&progress(board, times))
    })
    .map_err(|error| WebError::system("the generator's threads", error))?;
    let failed = |error| match error {
        WorkerError::Histogram(error) => WebError::Histogram(error),
        WorkerError::System(errno) => WebError::system("a generator thread failed", errno),
    };
    results
        .into_iter()
        .map(|result: Result<Done, _>| result.map_err(failed))
        .collect()
}

fn progress(board: &Board, times: Times) -> Progress {
    let now_ns = MonotonicClock.now_ns();
    Progress::Load {
        phase: times.phase(now_ns).unwrap_or("drain"),
        elapsed_ns: now_ns.saturating_sub(times.start_ns),
        total_ns: times.window_end_ns - times.start_ns,
        done: board.done.load(Ordering::Relaxed),
        failed: board.failed.load(Ordering::Relaxed),
    }
}
