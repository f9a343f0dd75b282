//! Where the time of a program's processes goes: on a processor, waiting for one, or blocked, by
//! the number that the program itself keeps for what it waits for.
//!
//! PostgreSQL (14 and newer) has such a number in each process, and a pointer to it under an
//! exported name. `bpf/waits.h` reads it each time a process leaves a processor. So every
//! nanosecond of every process is accounted for, once, by the scheduler's own instants: nothing is
//! sampled. No tracepoint of a system call is attached, which would slow every call of the machine.
//!
//! A server of threads that keeps no such number (MariaDB) is told by the call that a thread is in
//! when it leaves a processor, with its descriptor (`calls.rs`); of a futex, how it is waited for.
//! Needs x86-64 and Linux 6.9, which lets threads be named.
//!
//! Limits: a wait that blocks nobody (a read from the page cache) is time on a processor. A pause
//! that has not ended is in no total. Threads are told apart by number; one that is used again
//! adds to the same rows. What Linux itself executes in between (interrupts) counts as the process.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use aya::maps::{Array, HashMap, MapData};
use aya::{Ebpf, EbpfLoader};
use parking_lot::Mutex;

use super::layout::{Figure, WAITER_BYTES, WaitKey, WaitTotal};
use super::watch::{OBJECT, attach_btf, failed, map, of_map, refused, storage};
use super::{WaitRow, calls, grants, scope};
use crate::error::WatchError;
use crate::exported::{NotFound, address_of, image_of};

/// Watches until it is stopped or dropped.
pub struct Waits {
    attached: Mutex<Option<Ebpf>>,
    totals: HashMap<MapData, WaitKey, WaitTotal>,
    figures: Array<MapData, u64>,
}

impl Waits {
    /// Begins to watch a process and its descendants, by the word that `symbol` of its program
    /// points to.
    pub fn start(root: u32, symbol: &str) -> Result<Self, WatchError> {
        start(root, symbol).map_err(|error| grants::explained(error, Path::new("/")))
    }

    /// Begins to watch all threads of a process and its descendants, by the calls that they are in.
    pub fn start_by_call(root: u32) -> Result<Self, WatchError> {
        start_by_call(root).map_err(|error| grants::explained(error, Path::new("/")))
    }

    /// Since it began, by thread and state.
    pub fn totals(&self) -> Vec<WaitRow> {
        let rows = self.totals.iter().filter_map(Result::ok);
        let mut rows: Vec<WaitRow> = rows
            .map(|(key, total)| WaitRow {
                tid: key.tid,
                state: key.state,
                ns: total.ns,
                times: total.times,
            })
            .collect();
        rows.sort_by_key(|row| (row.tid, row.state));
        rows
    }

    /// Pauses that are in no total: too many threads or states.
    pub fn uncounted(&self) -> u64 {
        self.figures
            .get(&(Figure::Uncounted as u32), 0)
            .unwrap_or(0)
    }

    /// How long its programs ran, and how often; 0 when the kernel does not keep it.
    pub fn run(&self) -> (Duration, u64) {
        let attached = self.attached.lock();
        let programs = attached.iter().flat_map(Ebpf::programs);
        let infos = programs.filter_map(|(_, program)| program.info().ok());
        infos.fold((Duration::ZERO, 0), |(time, runs), info| {
            (time + info.run_time(), runs + info.run_count())
        })
    }

    /// Ends it; totals stay as they are.
    pub fn stop(&self) {
        drop(self.attached.lock().take());
    }
}

fn start(root: u32, symbol: &str) -> Result<Waits, WatchError> {
    grants::may_load()?;
    grants::has_types(Path::new("/"))?;
    let address = address_of(root, symbol).map_err(|error| match error {
        NotFound::Unread(_) => WatchError::Gone { pid: root },
        NotFound::Absent(why) => refused(&format!("find {symbol} in process {root}"), why),
    })?;
    let mut loader = EbpfLoader::new();
    loader.override_global("wait_word", &address, true);
    let (waits, waiters) = attached(&mut loader, "switched")?;
    scope::take_in(&[root], waiters.fd().as_fd(), &[0; WAITER_BYTES])?;
    Ok(waits)
}

fn start_by_call(root: u32) -> Result<Waits, WatchError> {
    if !cfg!(target_arch = "x86_64") {
        let why = "only the calls of x86-64 are known".to_owned();
        return Err(refused("tell which call a thread is in", why));
    }
    grants::may_load()?;
    grants::has_types(Path::new("/"))?;
    let program = image_of(root).map_err(|_| WatchError::Gone { pid: root })?;
    let mut loader = EbpfLoader::new();
    loader
        .override_global("program_from", &program.start, true)
        .override_global("program_until", &program.end, true)
        .override_global("calls", &calls::WITH_DESCRIPTOR, true);
    let (waits, waiters) = attached(&mut loader, "switched_in_call")?;
    scope::take_in(&[root], waiters.fd().as_fd(), &[0; WAITER_BYTES])?;
    scope::take_in_threads(root, waiters.fd().as_fd(), &[0; WAITER_BYTES])?;
    Ok(waits)
}

/// Loaded and attached; and who is watched.
fn attached(loader: &mut EbpfLoader<'_>, at_switch: &str) -> Result<(Waits, MapData), WatchError> {
    let btf = aya::Btf::from_sys_fs().map_err(|error| failed("read its types", &error))?;
    let mut ebpf = loader
        .allow_unsupported_maps()
        .map_max_entries("ring", super::RING_BYTES_MIN)
        .map_max_entries("files", 1)
        .map_max_entries("counts", 1)
        .map_max_entries("blocks", 1)
        .load(&OBJECT.0)
        .map_err(|error| failed("make the maps of its programs", &error))?;
    let totals = HashMap::try_from(map(&mut ebpf, "wait_totals")?).map_err(of_map)?;
    let figures = Array::try_from(map(&mut ebpf, "figures")?).map_err(of_map)?;
    let waiters = storage(&mut ebpf, "waiters")?;
    attach_btf(&mut ebpf, "sched_process_fork", "waiter_forked", &btf)?;
    attach_btf(&mut ebpf, "sched_switch", at_switch, &btf)?;
    let waits = Waits {
        attached: Mutex::new(Some(ebpf)),
        totals,
        figures,
    };
    Ok((waits, waiters))
}
