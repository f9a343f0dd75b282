//! One point: threads up, load on, watched, threads down, added up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use client::Engine;
use client::record::{RecordReader, RpcRecord};
use generator::{Observer, Schedule, Share, TICK_NS, Times};
use measure::clock::realtime_ns;
use measure::thread::watched;
use measure::{Clock, Random};
use parking_lot::Mutex;

use crate::checked::Checked;
use crate::error::LoadError;
use crate::exchange::World;
use crate::meter::{Ending, Meter};
use crate::plan::{LoadPlan, Stability};
use crate::prepare::{Prepared, PreparedMount, caller};
use crate::progress::Board;
use crate::progress::Progress;
use crate::report::Report;
use crate::source::{Processes, Source};
use crate::sums::Sums;
use crate::targets::{Habits, Targets};
use crate::worker::{Done, State, Worker};

/// Where records of single calls can be taken, also while a point runs.
#[derive(Debug, Default)]
pub struct Records(Mutex<Vec<RecordReader>>);

impl Records {
    /// Moves what is there to `out`; returns how many were lost so far because nobody took them.
    pub fn drain(&self, out: &mut Vec<RpcRecord>) -> u64 {
        let readers = self.0.lock();
        readers.iter().map(|reader| reader.drain(out)).sum()
    }

    fn add(&self, reader: RecordReader) {
        self.0.lock().push(reader);
    }

    fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Measures one point. The file set is used up: prepare it again before the next one, which cuts
/// what has grown.
///
/// # Errors
/// [`LoadError`] if it could not be begun; what servers do while it runs is in the report.
pub fn run<C: Clock + Clone>(
    prepared: Prepared,
    clock: &C,
    records: &Records,
    observer: &mut dyn Observer<Progress>,
) -> Result<Report, LoadError> {
    let checked = prepared.checked.clone();
    Ok(run_part(prepared, clock, records, observer)?.report(&checked)?)
}

/// The same, to be put together with what other processes measured ([`crate::merge`]).
///
/// # Errors
/// As [`run`].
pub fn run_part<C: Clock + Clone>(
    prepared: Prepared,
    clock: &C,
    records: &Records,
    observer: &mut dyn Observer<Progress>,
) -> Result<Sums, LoadError> {
    records.clear();
    let plan = &prepared.checked.plan;
    let board = Board::default();
    let engines = connect(&prepared, clock, records)?;
    let start_ns = generator::start_ns(observer, clock)?;
    let realtime_ns = realtime_ns() + start_ns.saturating_sub(clock.now_ns());
    let times = Times::new(start_ns, plan.warm_up_s, plan.measure_s, plan.cool_down_s);
    let interval_ns = (plan.series_interval_s * 1e9) as u64;
    let mut workers = Vec::new();
    for (index, engine) in engines.into_iter().enumerate() {
        let meter = Meter::new(times, interval_ns)?;
        workers.push(worker(&prepared, index, engine, meter, &board)?);
    }
    let done = watch(workers, (&board, times), clock, observer)?;
    let mut sums = Sums::new(&prepared, (times, realtime_ns), interval_ns)?;
    for done in done {
        if let Some(why) = done.system_error {
            let what = "a generator thread failed";
            return Err(LoadError::System { what, why });
        }
        sums.add(done)?;
    }
    Ok(sums)
}

fn number(thread: usize) -> u32 {
    u32::try_from(thread).unwrap_or(u32::MAX)
}

/// The mount of a thread.
fn mount_of(prepared: &Prepared, thread: usize) -> Result<(usize, &PreparedMount), LoadError> {
    let index = thread % prepared.mounts.len().max(1);
    let mount = prepared.mounts.get(index).ok_or(LoadError::System {
        what: "no mount",
        why: "the plan has no servers".to_owned(),
    })?;
    Ok((index, mount))
}

fn connect<C: Clock + Clone>(
    prepared: &Prepared,
    clock: &C,
    records: &Records,
) -> Result<Vec<Engine<C>>, LoadError> {
    let checked = &prepared.checked;
    let threads = checked.plan.threads as usize;
    let mut engines = Vec::new();
    for thread in 0..threads {
        let (_, mount) = mount_of(prepared, thread)?;
        let mut options = mount.options.clone();
        // What waits, waits here, where it is counted; never in the engine's queue.
        options.max_requests = checked.outstanding_of(number(thread)).max(1);
        let engine = Engine::connect(mount.address, &options, clock.clone());
        let mut engine = engine.map_err(|source| LoadError::Connect {
            server: mount.server.clone(),
            source,
        })?;
        engine.set_caller(caller(checked));
        if checked.plan.record_calls > 0 {
            let room = checked.plan.record_calls.div_ceil(threads);
            records.add(engine.record_every_call(room));
        }
        engines.push(engine);
    }
    Ok(engines)
}

fn source(
    checked: &Checked,
    (share, processes_here): (Share, u32),
    start_ns: u64,
    random: &mut Random,
) -> Source {
    let rate = checked.plan.load.rate_ops_per_s();
    match &checked.plan.load {
        LoadPlan::Open { arrivals, .. } => {
            Source::Open(Schedule::new((start_ns, rate), *arrivals, share, random))
        }
        LoadPlan::Closed {
            clients,
            processes,
            think,
            ..
        } => {
            let cycle_ns = f64::from(clients.saturating_mul(*processes)) / rate * 1e9;
            let processes = Processes::new((start_ns, cycle_ns), processes_here, *think, random);
            Source::Closed(processes)
        }
    }
}

fn worker<'w, C: Clock>(
    prepared: &'w Prepared,
    thread: usize,
    engine: Engine<C>,
    meter: Meter,
    board: &'w Board,
) -> Result<Worker<'w, C>, LoadError> {
    let checked = &prepared.checked;
    let plan = &checked.plan;
    let (mount_index, mount) = mount_of(prepared, thread)?;
    let share = checked.share(number(thread));
    let stream = |purpose| {
        Random::new(
            plan.seed,
            &[purpose, u64::from(share.index), plan.repetition],
        )
    };
    let mut schedule_random = stream(1);
    let outstanding_max = checked.outstanding_of(number(thread));
    let start_ns = meter.sums.accounts.times.start_ns;
    let source = source(
        checked,
        (share, outstanding_max),
        start_ns,
        &mut schedule_random,
    );
    let habits = Habits {
        append_share: plan.append_share,
        missing_share: plan.lookup_missing_share,
        verify_share: plan.verify_share,
        growth_share: plan.file_set.growth_share,
        unstable: plan.stability == Stability::Unstable,
    };
    let servers = u32::try_from(prepared.mounts.len()).unwrap_or(1).max(1);
    let of_server = plan.threads / servers;
    let index = number(thread) / servers + plan.part.index * of_server;
    let targets = Targets::new(
        mount,
        (mount_index, &checked.layout),
        (index, checked.workers_of_server()),
        (checked.reads.as_ref(), checked.writes.as_ref()),
        habits,
    );
    if targets.files.is_empty() {
        return Err(LoadError::plan(
            "file_set",
            checked.layout.accessed_files,
            "one of the threads has no file to work on",
            "Take a larger file set, a larger accessed_share, or fewer threads.",
        ));
    }
    Ok(Worker {
        process: plan.part.index,
        mount: mount_index,
        engine,
        world: World {
            mount,
            layout: &checked.layout,
            content: &prepared.content,
            stability: plan.stability,
            calibration: plan.file_set.calibration,
        },
        targets,
        mix: &checked.mix,
        source,
        schedule_random,
        mix_random: stream(2),
        random: stream(3),
        meter,
        board,
        outstanding_max,
        silence_ns: (plan.silence_limit_s * 1e9) as u64,
        state: State::default(),
    })
}

/// Runs the threads to their end, telling the observer and obeying it.
fn watch<C: Clock>(
    workers: Vec<Worker<'_, C>>,
    (board, times): (&Board, Times),
    clock: &C,
    observer: &mut dyn Observer<Progress>,
) -> Result<Vec<Done>, LoadError> {
    let work = |worker: Worker<'_, C>| {
        let done = worker.run();
        // A server that went away ends its own threads only.
        if done.ending == Ending::Stopped {
            board.stop.store(true, Ordering::Relaxed);
        }
        done
    };
    let tick = Duration::from_nanos(TICK_NS);
    watched("load", workers, work, &board.stop, tick, || {
        observer.tick(&progress(board, times, clock.now_ns()))
    })
    .map_err(|error| LoadError::System {
        what: "the generator's threads",
        why: error.to_string(),
    })
}

fn progress(board: &Board, times: Times, now_ns: u64) -> Progress {
    let behind = if now_ns < times.end_ns {
        "cool_down"
    } else {
        "drain"
    };
    Progress::Run {
        phase: times.phase(now_ns).unwrap_or(behind),
        elapsed_ns: now_ns.saturating_sub(times.start_ns),
        total_ns: times.end_ns - times.start_ns,
        answered: board.answered.load(Ordering::Relaxed),
        unexpected: board.unexpected.load(Ordering::Relaxed),
        outstanding: board.outstanding.load(Ordering::Relaxed),
    }
}
