//! The model at work: events in order of their instants, exact whatever the moments of asking.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hashbrown::HashMap;
use wire::nfs3::procedure;

use super::cache::Cache;
use super::disk::{Disk, DiskDescription, DiskJob};
use super::nvram::Nvram;
use super::{ModelDescription, PROCEDURES, Random, Spread, Stall, transfer_ns};

/// Objects whose unstable data is kept apart; beyond it they share one.
const MAX_DIRTY_OBJECTS: usize = 1 << 16;

/// What the model has to know of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// NFSv3 procedure number; 0 for other programs.
    pub procedure: u32,
    /// Which object (any number that tells them apart).
    pub object: u64,
    /// Offset of READ, WRITE and COMMIT, bytes.
    pub offset: u64,
    /// Data read or written, bytes.
    pub data_bytes: u64,
    /// True for a WRITE that must be stable.
    pub stable: bool,
    /// Size of the request, bytes.
    pub request_bytes: u64,
    /// Size of the reply as far as it is known before, bytes.
    pub reply_bytes: u64,
}

/// What the loop is to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the call.
    Start(u64),
    /// Send its reply; what it went through.
    Finish(u64, Stages),
}

/// Where a call was when, by the model's own clock: exact, however late the loop looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Time that the request took to come in, nanoseconds.
    pub way_in_ns: u64,
    /// When a worker took it.
    pub started_ns: u64,
    /// When the worker was done with it: service, disk and stalls are over.
    pub served_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrived(u64),
    ServiceDone(u64),
    /// Which disk, which call.
    DiskDone(usize, u64),
    StableDone(u64),
    Depart(u64),
}

/// What the disk has to do for a call.
#[derive(Clone, Copy, Debug)]
enum Work {
    Nothing,
    /// Bytes from or to a place.
    Transfer {
        place: (u64, u64),
        bytes: u64,
    },
    /// Bytes that have to be stable when the call ends.
    MakeStable {
        bytes: u64,
    },
}

/// The model's state.
#[derive(Debug)]
pub struct Engine {
    description: ModelDescription,
    /// By number of the procedure.
    service_ns: [u64; PROCEDURES],
    stalls: Vec<Stall>,
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    calls: HashMap<u64, (Shape, Stages)>,
    busy_workers: u32,
    waiting: VecDeque<u64>,
    disks: Vec<Disk>,
    nvram: Option<Nvram>,
    cache: Option<Cache>,
    dirty: HashMap<u64, u64>,
    dirty_bytes: u64,
    way_in_free_ns: u64,
    way_out_free_ns: u64,
}

impl Engine {
    /// A model that starts at `start_ns` (stalls count from there). Check the description first.
    #[must_use]
    pub fn new(description: ModelDescription, start_ns: u64) -> Self {
        let mut stalls: Vec<Stall> = description
            .stalls
            .iter()
            .map(|stall| Stall {
                at_ns: start_ns.saturating_add(stall.at_ns),
                for_ns: stall.for_ns,
            })
            .collect();
        stalls.sort_unstable();
        let rate = description.disk.map_or(1, |disk| {
            disk.rate_bytes_per_s.saturating_mul(disk.disks.into())
        });
        Engine {
            service_ns: description.service_times_ns(),
            stalls,
            random: Random::new(description.seed),
            events: BinaryHeap::new(),
            sequence: 0,
            calls: HashMap::new(),
            busy_workers: 0,
            waiting: VecDeque::new(),
            disks: description.disk.map_or_else(Vec::new, |disk| {
                (0..disk.disks).map(|_| Disk::new(disk)).collect()
            }),
            nvram: description.nvram_bytes.map(|size| Nvram::new(size, rate)),
            cache: description
                .disk
                .and_then(|disk| disk.cache_bytes)
                .and_then(Cache::new),
            dirty: HashMap::new(),
            dirty_bytes: 0,
            way_in_free_ns: 0,
            way_out_free_ns: 0,
            description,
        }
    }

    /// True if a datagram is to be lost.
    pub fn loses(&mut self) -> bool {
        self.random.chance(self.description.loss)
    }

    /// True if a reply is to be sent twice.
    pub fn doubles(&mut self) -> bool {
        self.random.chance(self.description.duplicate)
    }

    /// A call came. Ask for actions afterwards.
    pub fn arrive(&mut self, call: u64, shape: Shape, now_ns: u64) {
        let mut at_ns = now_ns;
        if let Some(rate) = self.description.bandwidth_bytes_per_s {
            let way = transfer_ns(shape.request_bytes, rate);
            at_ns = self.way_in_free_ns.max(now_ns).saturating_add(way);
            self.way_in_free_ns = at_ns;
        }
        let stages = Stages {
            way_in_ns: at_ns - now_ns,
            ..Stages::default()
        };
        self.calls.insert(call, (shape, stages));
        self.schedule(at_ns, Event::Arrived(call));
    }

    /// The instant of the next event, if there is one.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((at_ns, _, _))| *at_ns)
    }

    /// The next action that is due by `now_ns`, with its own instant. Ask until there is none.
    pub fn act(&mut self, now_ns: u64) -> Option<(u64, Action)> {
        while self.next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            let Reverse((at_ns, _, event)) = self.events.pop()?;
            match event {
                Event::Arrived(call) if self.worker_is_free() => {
                    return Some((at_ns, self.start(call, at_ns)));
                }
                Event::Arrived(call) => self.waiting.push_back(call),
                Event::ServiceDone(call) => self.served(call, at_ns),
                Event::DiskDone(number, call) => {
                    if let Some(disk) = self.disks.get_mut(number) {
                        disk.end();
                    }
                    self.start_disk(number, at_ns);
                    self.schedule(at_ns, Event::StableDone(call));
                }
                Event::StableDone(call) => {
                    self.busy_workers = self.busy_workers.saturating_sub(1);
                    self.send(call, at_ns);
                    if let Some(next) = self.waiting.pop_front() {
                        return Some((at_ns, self.start(next, at_ns)));
                    }
                }
                Event::Depart(call) => {
                    let (_, stages) = self.calls.remove(&call).unwrap_or_default();
                    return Some((at_ns, Action::Finish(call, stages)));
                }
            }
        }
        None
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at_ns, self.sequence, event)));
    }

    fn worker_is_free(&self) -> bool {
        self.description
            .threads
            .is_none_or(|threads| self.busy_workers < threads)
    }

    fn shape(&self, call: u64) -> Shape {
        self.calls.get(&call).copied().unwrap_or_default().0
    }

    fn start(&mut self, call: u64, at_ns: u64) -> Action {
        self.busy_workers += 1;
        if let Some((_, stages)) = self.calls.get_mut(&call) {
            stages.started_ns = at_ns;
        }
        let number = self.shape(call).procedure as usize % PROCEDURES;
        let mean = self.service_ns.get(number).copied();
        let mean = mean.unwrap_or_default();
        let service = match self.description.spread {
            Spread::Constant => mean,
            Spread::Exponential => self.random.exponential_ns(mean),
        };
        let end = self.through_stalls(at_ns, service);
        self.schedule(end, Event::ServiceDone(call));
        Action::Start(call)
    }

    /// When work of a length ends that begins at an instant, with stalls left out.
    fn through_stalls(&self, start_ns: u64, length_ns: u64) -> u64 {
        let (mut at_ns, mut left) = (start_ns, length_ns);
        for stall in &self.stalls {
            let end = stall.at_ns.saturating_add(stall.for_ns);
            if end <= at_ns {
                continue;
            }
            let before = stall.at_ns.saturating_sub(at_ns);
            if left < before || (left == before && before > 0) {
                break;
            }
            left -= before;
            at_ns = end;
        }
        at_ns.saturating_add(left)
    }

    /// The service time is over: what does the disk have to do?
    fn served(&mut self, call: u64, at_ns: u64) {
        let shape = self.shape(call);
        let work = match self.description.disk {
            Some(disk) => self.work_of(&shape, &disk),
            None => Work::Nothing,
        };
        let (place, bytes, commits) = match work {
            Work::Nothing => return self.schedule(at_ns, Event::StableDone(call)),
            Work::Transfer { place, bytes } => (place, bytes, false),
            Work::MakeStable { bytes } => match &mut self.nvram {
                Some(nvram) => {
                    let at_ns = nvram.take(bytes, at_ns);
                    return self.schedule(at_ns, Event::StableDone(call));
                }
                None => ((shape.object, shape.offset), bytes, true),
            },
        };
        let job = DiskJob {
            call,
            place,
            bytes,
            commits,
        };
        self.queue_disk(job, at_ns);
    }

    /// What a call wants of the disk.
    fn work_of(&mut self, shape: &Shape, disk: &DiskDescription) -> Work {
        let (object, offset, bytes) = (shape.object, shape.offset, shape.data_bytes);
        let place = (object, offset);
        match shape.procedure {
            procedure::READ => match &mut self.cache {
                Some(cache) => match cache.read(object, offset, bytes) {
                    Some((from, bytes)) => Work::Transfer {
                        place: (object, from),
                        bytes,
                    },
                    None => Work::Nothing,
                },
                None if self.random.chance(disk.read_hit_ratio) => Work::Nothing,
                None => Work::Transfer { place, bytes },
            },
            procedure::WRITE => {
                if let Some(cache) = &mut self.cache {
                    cache.write(object, offset, bytes);
                }
                if shape.stable {
                    return Work::MakeStable { bytes };
                }
                let after = self.dirty_bytes.saturating_add(bytes);
                if disk.dirty_limit_bytes.is_some_and(|limit| after > limit) {
                    return Work::Transfer { place, bytes };
                }
                self.soil(object, bytes);
                Work::Nothing
            }
            procedure::COMMIT => match self.clean(object) {
                Some(bytes) => Work::MakeStable { bytes },
                None => Work::Nothing,
            },
            procedure::SETATTR | procedure::CREATE..=procedure::LINK => {
                if let Some(cache) = &mut self.cache {
                    cache.attributes(object);
                }
                Work::MakeStable {
                    bytes: disk.metadata_bytes,
                }
            }
            procedure::GETATTR..=procedure::READLINK
            | procedure::READDIR
            | procedure::READDIRPLUS => {
                let cache = self.cache.as_mut();
                let known = cache.is_none_or(|cache| cache.attributes(object));
                let bytes = disk.metadata_bytes;
                if known {
                    Work::Nothing
                } else {
                    Work::Transfer { place, bytes }
                }
            }
            _ => Work::Nothing,
        }
    }

    fn queue_disk(&mut self, job: DiskJob, at_ns: u64) {
        let number = self
            .description
            .disk
            .map_or(0, |all| all.disk_of(job.place));
        if let Some(disk) = self.disks.get_mut(number) {
            disk.queue(job);
        }
        self.start_disk(number, at_ns);
    }

    fn start_disk(&mut self, number: usize, at_ns: u64) {
        if let Some((call, length)) = self.disks.get_mut(number).and_then(Disk::start) {
            let end = self.through_stalls(at_ns, length);
            self.schedule(end, Event::DiskDone(number, call));
        }
    }

    fn soil(&mut self, object: u64, bytes: u64) {
        let full = self.dirty.len() >= MAX_DIRTY_OBJECTS;
        let key = if full && !self.dirty.contains_key(&object) {
            0
        } else {
            object
        };
        *self.dirty.entry(key).or_default() += bytes;
        self.dirty_bytes += bytes;
    }

    /// Unstable bytes of an object, to be written now; `None` if there are none.
    fn clean(&mut self, object: u64) -> Option<u64> {
        let bytes = self.dirty.remove(&object)?;
        self.dirty_bytes = self.dirty_bytes.saturating_sub(bytes);
        Some(bytes)
    }

    fn send(&mut self, call: u64, at_ns: u64) {
        if let Some((_, stages)) = self.calls.get_mut(&call) {
            stages.served_ns = at_ns;
        }
        let mut leaves = at_ns;
        if let Some(rate) = self.description.bandwidth_bytes_per_s {
            let way = transfer_ns(self.shape(call).reply_bytes, rate);
            leaves = self.way_out_free_ns.max(leaves).saturating_add(way);
            self.way_out_free_ns = leaves;
        }
        let jitter = self.random.up_to(self.description.jitter_ns);
        let delay = self.description.delay_ns.saturating_add(jitter);
        self.schedule(leaves.saturating_add(delay), Event::Depart(call));
    }
}
