//! Loads the programs, attaches them, reads what they keep.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aya::maps::{Array, HashMap, Map, MapData, RingBuf};
use aya::programs::{BtfTracePoint, Program, TracePoint};
use aya::{Btf, Ebpf, EbpfLoader};
use parking_lot::Mutex;

use crate::error::{WatchError, chain, system_error};
use crate::record::{Call, CountRecord, NO_FILE};
use crate::tracefs::Tracefs;

use super::kernel;
use super::layout::{CountKey, Counts, Figure, THREAD_BYTES, THREAD_COUNTED};
use super::probes::{Probe, call_table, probes};
use super::reader::Reader;
use super::{COUNTS_PER_FILE, FILES_MAX, Figures, Options, RING_BYTES_MAX, RING_BYTES_MIN, Taken};
use super::{grants, scope};

/// Aligned for the loader, which reads it as an ELF file in place.
#[repr(C, align(32))]
pub(super) struct Aligned<T: ?Sized>(pub(super) T);

pub(super) static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/watch.o"));

/// Watches processes until it is stopped or dropped.
pub struct Watch {
    /// Kept for what they cost; detached by dropping.
    attached: Mutex<Option<Attached>>,
    reader: Mutex<Reader>,
    counts: HashMap<MapData, CountKey, Counts>,
    figures: Array<MapData, u64>,
    taken_in: u64,
    attach_ns: u64,
    ended: Mutex<Option<Ended>>,
    /// Detaches.
    detaching: Mutex<Option<JoinHandle<()>>>,
}

/// What was there when it was stopped.
struct Ended {
    counts: Vec<CountRecord>,
    figures: Figures,
}

struct Attached {
    /// Closed first: nothing calls the programs then.
    events: Vec<OwnedFd>,
    programs: Ebpf,
}

impl Watch {
    /// Begins to watch.
    pub fn start(options: &Options) -> Result<Self, WatchError> {
        check(options)?;
        let begun = Instant::now();
        let root = Path::new("/");
        start(options, root, begun).map_err(|error| grants::explained(error, root))
    }

    /// What was seen since the last time.
    pub fn take(&self) -> Taken {
        self.reader.lock().shelf().take()
    }

    /// Totals per file and call.
    pub fn counts(&self) -> Vec<CountRecord> {
        match self.ended.lock().as_ref() {
            Some(ended) => ended.counts.clone(),
            None => self.counts_now(),
        }
    }

    fn counts_now(&self) -> Vec<CountRecord> {
        let mut rows: Vec<CountRecord> = self
            .reader
            .lock()
            .shelf()
            .counts
            .values()
            .cloned()
            .collect();
        let kept = self.counts.iter().filter_map(Result::ok);
        rows.extend(kept.filter_map(|(key, counts)| count_record(&key, &counts)));
        rows.sort_by_key(|row| (row.file_id, row.call));
        rows
    }

    /// What it cost and what was lost.
    pub fn figures(&self) -> Figures {
        match self.ended.lock().as_ref() {
            Some(ended) => ended.figures,
            None => self.figures_now(),
        }
    }

    fn figures_now(&self) -> Figures {
        let of = |figure: Figure| self.figures.get(&(figure as u32), 0).unwrap_or(0);
        let reader = self.reader.lock();
        let shelf = reader.shelf();
        let lost_names = of(Figure::LostNames);
        let (run_ns, runs) = self.run();
        Figures {
            lost_syncs: of(Figure::LostSyncs) + shelf.lost.syncs,
            lost_events: of(Figure::LostEvents) + shelf.lost.events,
            lost_names: lost_names + of(Figure::LostFiles) + shelf.lost.names,
            lost_blocks: of(Figure::LostBlocks) + shelf.lost.blocks,
            uncounted: of(Figure::Uncounted) + lost_names,
            unplaced: of(Figure::Unplaced),
            unmatched: of(Figure::Unmatched),
            not_understood: shelf.lost.not_understood,
            attach_ns: self.attach_ns,
            thread_cpu_ns: shelf.cpu_ns,
            kernel_run_ns: run_ns,
            kernel_runs: runs,
            watched: (self.taken_in + of(Figure::Forked)).saturating_sub(of(Figure::Exited)),
        }
    }

    /// Ends it; what was seen can still be taken, and is as of now.
    ///
    /// Linux detaches one tracepoint after another, for a second or two, and those that are left
    /// go on counting meanwhile: so what they kept is read before. A thread detaches them;
    /// [`Watch::wait_detached`] waits for it.
    pub fn stop(&self) {
        let mut ended = self.ended.lock();
        if ended.is_some() {
            return;
        }
        self.reader.lock().stop();
        *ended = Some(Ended {
            counts: self.counts_now(),
            figures: self.figures_now(),
        });
        drop(ended);
        let Some(attached) = self.attached.lock().take() else {
            return;
        };
        let thread = std::thread::Builder::new().name("nfslab-detach".to_owned());
        // Where no thread can be had, what it was given is dropped, which detaches it here.
        *self.detaching.lock() = thread.spawn(move || attached.detach()).ok();
    }

    /// Returns when nothing is attached any more after a `stop`.
    pub fn wait_detached(&self) {
        if let Some(thread) = self.detaching.lock().take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }

    /// How long our programs ran, ns, and how often; 0 when the kernel does not keep it.
    fn run(&self) -> (u64, u64) {
        let attached = self.attached.lock();
        let Some(attached) = attached.as_ref() else {
            return (0, 0);
        };
        let infos = attached
            .programs
            .programs()
            .filter_map(|(_, program)| program.info().ok());
        infos.fold((0, 0), |(ns, runs), info| {
            let run = info.run_time().as_nanos().min(u64::MAX.into()) as u64;
            (ns + run, runs + info.run_count())
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

fn check(options: &Options) -> Result<(), WatchError> {
    let refuse = |what: String| Err(WatchError::Config { what });
    if options.roots.is_empty() {
        return refuse("no process to watch was named".to_owned());
    }
    if !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&options.ring_bytes) {
        let (ring, min, max) = (options.ring_bytes, RING_BYTES_MIN, RING_BYTES_MAX);
        return refuse(format!("ring_bytes {ring} is not within {min} and {max}"));
    }
    if !(1..=FILES_MAX).contains(&options.files_max) {
        let files = options.files_max;
        return refuse(format!("files_max {files} is not within 1 and {FILES_MAX}"));
    }
    Ok(())
}

fn start(options: &Options, root: &Path, begun: Instant) -> Result<Watch, WatchError> {
    grants::may_load()?;
    grants::has_types(root)?;
    let (btf, ebpf) = loaded(options);
    let (btf, mut ebpf) = (btf?, ebpf?);
    let tracefs = Tracefs::open(root).map_err(|why| WatchError::Tracefs { why })?;
    let figures = Array::try_from(map(&mut ebpf, "figures")?).map_err(of_map)?;
    let counts = HashMap::try_from(map(&mut ebpf, "counts")?).map_err(of_map)?;
    let ring = RingBuf::try_from(map(&mut ebpf, "ring")?).map_err(of_map)?;
    let threads = storage(&mut ebpf, "threads")?;
    let reader = Reader::start(ring, &options.roots)
        .map_err(|error| refused("start a thread", error.to_string()))?;
    attach_btf(&mut ebpf, "sched_process_fork", "forked", &btf)?;
    attach_btf(&mut ebpf, "sched_process_exit", "exited", &btf)?;
    if options.blocks {
        attach_btf(&mut ebpf, "block_rq_issue", "block_issued", &btf)?;
        attach_btf(&mut ebpf, "block_rq_complete", "block_completed", &btf)?;
    }
    let mut events = Vec::new();
    for probe in probes(options) {
        attach_pair(&mut ebpf, &tracefs, probe, &mut events)?;
    }
    // Last, so that all calls are seen from the same instant on: what is attached first would count
    // for the time that the rest takes.
    let mut entry = [0; THREAD_BYTES];
    entry[THREAD_COUNTED] = 1;
    let taken_in = scope::take_in(&options.roots, threads.fd().as_fd(), &entry)?;
    Ok(Watch {
        attached: Mutex::new(Some(Attached {
            events,
            programs: ebpf,
        })),
        reader: Mutex::new(reader),
        counts,
        figures,
        taken_in: taken_in as u64,
        attach_ns: nanoseconds(begun.elapsed()),
        ended: Mutex::default(),
        detaching: Mutex::default(),
    })
}

impl Attached {
    /// Closes the events at the same time: Linux waits for two grace periods in each, one of which
    /// they share then (perf_event_detach_bpf_prog()); the other one is waited for under a lock
    /// (perf_trace_event_unreg()).
    fn detach(self) {
        std::thread::scope(|scope| {
            for event in self.events {
                // One for which no thread can be had is closed here.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(event));
            }
        });
        drop(self.programs);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().min(u64::MAX.into()) as u64
}

/// The types of the kernel, and the programs. The loader reads the types for itself, and reading
/// them takes as long as all the rest: both are done at the same time.
fn loaded(options: &Options) -> (Result<Btf, WatchError>, Result<Ebpf, WatchError>) {
    std::thread::scope(|scope| {
        let types = scope.spawn(Btf::from_sys_fs);
        let programs = load(options);
        let types = match types.join() {
            Ok(types) => types.map_err(|error| WatchError::Btf { why: chain(&error) }),
            Err(_) => Err(WatchError::Btf {
                why: "their reader ended by itself".to_owned(),
            }),
        };
        (types, programs)
    })
}

fn load(options: &Options) -> Result<Ebpf, WatchError> {
    let ring_bytes = options.ring_bytes.next_power_of_two();
    let (level, half) = (options.level as u32, u64::from(ring_bytes / 2));
    let calls = call_table(options);
    let mut loader = EbpfLoader::new();
    loader
        .allow_unsupported_maps()
        .override_global("level", &level, true)
        .override_global("ring_half", &half, true)
        .override_global("calls", &calls, true)
        .map_max_entries("wait_totals", 1)
        .map_max_entries("ring", ring_bytes)
        .map_max_entries("files", options.files_max)
        .map_max_entries("counts", options.files_max * COUNTS_PER_FILE);
    if !options.blocks {
        loader.map_max_entries("blocks", 1);
    }
    let loaded = loader.load(&OBJECT.0);
    loaded.map_err(|error| failed("make the maps of its programs", &error))
}

pub(super) fn map(ebpf: &mut Ebpf, name: &str) -> Result<Map, WatchError> {
    let missing = || refused("load the programs", format!("there is no map {name}"));
    ebpf.take_map(name).ok_or_else(missing)
}

/// Storage of tasks, which aya has no type for. To be kept until all programs are loaded.
pub(super) fn storage(ebpf: &mut Ebpf, name: &str) -> Result<MapData, WatchError> {
    match map(ebpf, name)? {
        Map::Unsupported(data) => Ok(data),
        _ => Err(refused(
            "use storage of tasks",
            "the map is of another type".to_owned(),
        )),
    }
}

pub(super) fn of_map(error: aya::maps::MapError) -> WatchError {
    failed("use a map of its programs", &error)
}

pub(super) fn attach_btf(
    ebpf: &mut Ebpf,
    point: &str,
    name: &str,
    btf: &Btf,
) -> Result<(), WatchError> {
    let step = format!("attach a program to {point}");
    let program: &mut BtfTracePoint = program(ebpf, name)?
        .try_into()
        .map_err(|error| failed(&step, &error))?;
    program
        .load(point, btf)
        .map_err(|error| failed(&step, &error))?;
    program.attach().map_err(|error| failed(&step, &error))?;
    Ok(())
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Program, WatchError> {
    let missing = || refused("load the programs", format!("there is no program {name}"));
    ebpf.program_mut(name).ok_or_else(missing)
}

/// Attaches the programs of a call to its begin and its end. A call this kernel has not is none.
fn attach_pair(
    ebpf: &mut Ebpf,
    tracefs: &Tracefs,
    probe: &Probe,
    events: &mut Vec<OwnedFd>,
) -> Result<(), WatchError> {
    for (when, name) in [("enter", probe.enter), ("exit", probe.leave)] {
        let point = format!("sys_{when}_{}", probe.name);
        let number = match tracefs.number("syscalls", &point) {
            Ok(number) => number,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(WatchError::Tracefs {
                    why: format!("{point}: {error}"),
                });
            }
        };
        let step = format!("attach a program to {point}");
        let program: &mut TracePoint = program(ebpf, name)?
            .try_into()
            .map_err(|error| failed(&step, &error))?;
        if program.fd().is_err() {
            program.load().map_err(|error| failed(&step, &error))?;
        }
        let program = program.fd().map_err(|error| failed(&step, &error))?;
        let event = kernel::attach(number, program.as_fd()).map_err(|e| failed(&step, &e))?;
        events.push(event);
    }
    Ok(())
}

pub(super) fn refused(step: &str, why: String) -> WatchError {
    WatchError::Bpf {
        step: step.to_owned(),
        why,
    }
}

pub(super) fn failed(step: &str, error: &(dyn std::error::Error + 'static)) -> WatchError {
    let denied = system_error(error)
        .and_then(std::io::Error::raw_os_error)
        .filter(|code| matches!(*code, libc::EPERM | libc::EACCES));
    // A program that the verifier refuses gives EACCES, too: its log then says why.
    let why = chain(error);
    match denied {
        Some(code) if !why.contains("processed ") => WatchError::Permission {
            step: step.to_owned(),
            source: std::io::Error::from_raw_os_error(code),
        },
        _ => refused(step, why),
    }
}

fn count_record(key: &CountKey, counts: &Counts) -> Option<CountRecord> {
    let call = Call::numbered(u8::try_from(key.call).ok()?)?;
    Some(CountRecord {
        file_id: key.file_id,
        call,
        calls: counts.latencies.iter().sum(),
        errors: counts.errors,
        bytes: counts.bytes,
        latency_sum_ns: counts.latency_sum_ns,
        latency_max_ns: counts.latency_max_ns,
        latencies: counts.latencies,
        sizes: counts.sizes,
        places: counts.places,
    })
}

const _: () = assert!(NO_FILE == u32::MAX, "NO_FILE of bpf/state.h");
