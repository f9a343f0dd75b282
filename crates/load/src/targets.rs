//! What one thread works on: its files and scratch names, and who has them under way.
//!
//! Each file belongs to one thread, so nothing here has a lock. Rules of conflict: an operation
//! that makes others' checks meaningless (REMOVE, CREATE, a cut) takes only what nobody has under
//! way, and nobody takes what it has; all others share. A draw that finds nothing in
//! [`MAX_TRIES`] tries gives nothing, and the caller counts it.
//!
//! Sizes are kept as two bounds: `low` is what the server has confirmed, `high` what was asked for.
//! Reads stay below `low`, so that they are whole whatever appends are under way.

use client::nfs3::FileHandle;
use measure::Random;

use crate::layout::Layout;
use crate::operation::Operation;
use crate::prepare::{AccessedFile, MOUNT_STRIDE, PreparedMount};
use measure::weights::Weights;

/// Draws for one operation before it is given up.
pub const MAX_TRIES: usize = 16;
/// Files remembered as written and not committed; beyond it the oldest is forgotten.
pub const MAX_UNCOMMITTED: usize = 1024;
/// Unit in which it is remembered what was touched.
pub const TOUCH_BYTES: u64 = 4096;

/// A file that is worked on.
#[derive(Debug)]
pub(crate) struct File {
    /// In the set.
    pub number: u64,
    /// For its content.
    pub content: u64,
    pub handle: FileHandle,
    /// When it was made.
    pub base: u64,
    pub low: u64,
    pub high: u64,
    users: u32,
    exclusive: bool,
    listed: bool,
    first_block: u64,
}

#[derive(Debug, Clone, Copy)]
struct Scratch {
    number: u64,
    present: bool,
    busy: bool,
}

/// An operation under way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Call {
    pub planned_ns: u64,
    pub operation: Operation,
    /// File, link, directory or scratch name, by place.
    pub item: u32,
    pub process: u32,
    pub count: u32,
    pub offset: u64,
    /// The file's confirmed size when it was drawn.
    pub low: u64,
    pub verify: bool,
    /// LOOKUP of a name that is not there.
    pub missing: bool,
    pub cut: bool,
    /// WRITE behind the end.
    pub appends: bool,
}

/// What is drawn from, besides the mix.
#[derive(Debug, Clone)]
pub(crate) struct Habits {
    pub append_share: f64,
    pub missing_share: f64,
    pub verify_share: f64,
    pub growth_share: f64,
    pub unstable: bool,
}

#[derive(Debug)]
pub(crate) struct Targets {
    pub files: Vec<File>,
    /// READ and WRITE sizes with the number of files that are large enough (the first ones).
    reads: Option<Weights<(u32, u32)>>,
    writes: Option<Weights<(u32, u32)>>,
    habits: Habits,
    links: u32,
    listed: Vec<u32>,
    scratch: Vec<Scratch>,
    uncommitted: Vec<u32>,
    next_uncommitted: usize,
    grown: Vec<u32>,
    grown_bytes: u64,
    growth_max: u64,
    touched: Vec<u64>,
    touched_files: Vec<u64>,
}

impl Targets {
    /// What thread `owner` of `owners` has of a mount.
    pub fn new(
        mount: &PreparedMount,
        (mount_index, layout): (usize, &Layout),
        (owner, owners): (u32, u32),
        (reads, writes): (Option<&Weights<u32>>, Option<&Weights<u32>>),
        habits: Habits,
    ) -> Self {
        let mine = |number: u64| layout.owner(number, owners) == owner;
        let mut chosen: Vec<&AccessedFile> = mount
            .files
            .iter()
            .filter(|file| mine(file.number))
            .collect();
        chosen.sort_by_key(|file| (std::cmp::Reverse(file.size), file.number));
        let stride = mount_index as u64 * MOUNT_STRIDE;
        let mut blocks = 0;
        let files: Vec<File> = chosen
            .into_iter()
            .map(|file| {
                let first_block = blocks;
                blocks += file.size.div_ceil(TOUCH_BYTES);
                File {
                    number: file.number,
                    content: file.number + stride,
                    handle: file.handle,
                    base: file.size,
                    low: file.size,
                    high: file.size,
                    users: 0,
                    exclusive: false,
                    listed: false,
                    first_block,
                }
            })
            .collect();
        let large = |size: u32| {
            let enough = files.partition_point(|file| file.base >= u64::from(size));
            (size, u32::try_from(enough).unwrap_or(u32::MAX))
        };
        let bytes: u64 = files.iter().map(|file| file.base).sum();
        let growth_max = (bytes as f64 * habits.growth_share) as u64;
        let numbered = (0..layout.scratch).zip(&mount.scratch);
        let scratch = numbered.filter(|(number, _)| mine(*number));
        let directories = (0_u32..).take(mount.directories.len());
        let listed = directories.filter(|number| layout.is_listed(u64::from(*number)));
        Targets {
            reads: reads.map(|sizes| sizes.map(large)),
            writes: writes.map(|sizes| sizes.map(large)),
            links: u32::try_from(mount.links.len()).unwrap_or(u32::MAX),
            listed: listed.collect(),
            scratch: scratch
                .map(|(number, present)| Scratch {
                    number,
                    present: *present,
                    busy: false,
                })
                .collect(),
            uncommitted: Vec::with_capacity(MAX_UNCOMMITTED),
            next_uncommitted: 0,
            grown: Vec::new(),
            grown_bytes: 0,
            growth_max,
            touched: vec![0; usize::try_from(blocks.div_ceil(64)).unwrap_or(0)],
            touched_files: vec![0; files.len().div_ceil(64)],
            habits,
            files,
        }
    }

    /// An operation with what it works on; `None` if nothing is free for it.
    #[inline]
    pub fn draw(&mut self, operation: Operation, random: &mut Random) -> Option<Call> {
        let call = Call {
            operation,
            ..Call::default()
        };
        match operation {
            Operation::Null | Operation::FsStat | Operation::FsInfo | Operation::PathConf => {
                Some(call)
            }
            Operation::GetAttr | Operation::Access => self.shared(call, self.count(), random),
            Operation::Lookup => {
                let call = self.shared(call, self.count(), random)?;
                let missing = random.chance(self.habits.missing_share);
                Some(Call { missing, ..call })
            }
            Operation::ReadLink => {
                let item = below(random, self.links)?;
                Some(Call { item, ..call })
            }
            Operation::ReadDir | Operation::ReadDirPlus => {
                let place = below(random, u32::try_from(self.listed.len()).unwrap_or(u32::MAX))?;
                let item = *self.listed.get(place as usize)?;
                Some(Call { item, ..call })
            }
            Operation::Read => self.draw_read(call, random),
            Operation::Write => self.draw_write(call, random),
            Operation::Commit => self.draw_commit(call, random),
            Operation::SetAttr => self.draw_setattr(call, random),
            Operation::Create => self.draw_scratch(call, false, random),
            Operation::Remove => self.draw_scratch(call, true, random),
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.files.len()).unwrap_or(u32::MAX)
    }

    /// Any of the first `among` files that nobody has to itself.
    #[inline]
    fn shared(&mut self, call: Call, among: u32, random: &mut Random) -> Option<Call> {
        for _ in 0..MAX_TRIES {
            let item = below(random, among)?;
            if let Some(call) = self.take(call, item) {
                return Some(call);
            }
        }
        None
    }

    /// Shares a file, unless somebody has it to itself.
    #[inline]
    fn take(&mut self, call: Call, item: u32) -> Option<Call> {
        let file = self.files.get_mut(item as usize)?;
        if file.exclusive {
            return None;
        }
        file.users += 1;
        Some(Call {
            item,
            low: file.low,
            ..call
        })
    }

    fn draw_read(&mut self, call: Call, random: &mut Random) -> Option<Call> {
        let (size, large) = self.reads.as_ref()?.draw(random)?;
        let call = self.transfer(call, (size, large), random)?;
        let verify = random.chance(self.habits.verify_share);
        Some(Call { verify, ..call })
    }

    /// A place of `size` bytes, aligned to them, in a file that has as many; if none has, as much
    /// as a file has.
    fn transfer(
        &mut self,
        call: Call,
        (size, large): (u32, u32),
        random: &mut Random,
    ) -> Option<Call> {
        let among = if large == 0 { self.count() } else { large };
        let call = self.shared(call, among, random)?;
        let base = self.files.get(call.item as usize)?.base;
        let size = u64::from(size);
        let places = base / size;
        let offset = match places {
            0 => 0,
            places => random.below(places) * size,
        };
        let count = u32::try_from(size.min(base - offset)).unwrap_or(u32::MAX);
        self.touch(call.item, offset, count);
        Some(Call {
            offset,
            count,
            ..call
        })
    }

    fn draw_write(&mut self, call: Call, random: &mut Random) -> Option<Call> {
        let (size, large) = self.writes.as_ref()?.draw(random)?;
        let room = self.grown_bytes.saturating_add(u64::from(size)) <= self.growth_max;
        if !(random.chance(self.habits.append_share) && room) {
            return self.transfer(call, (size, large), random);
        }
        let call = self.shared(call, self.count(), random)?;
        let file = self.files.get_mut(call.item as usize)?;
        let offset = file.high;
        file.high += u64::from(size);
        self.grown_bytes += u64::from(size);
        if !file.listed {
            file.listed = true;
            self.grown.push(call.item);
        }
        set(&mut self.touched_files, u64::from(call.item));
        Some(Call {
            offset,
            count: size,
            appends: true,
            ..call
        })
    }

    fn draw_commit(&mut self, call: Call, random: &mut Random) -> Option<Call> {
        while let Some(item) = self.uncommitted.pop() {
            if let Some(call) = self.take(call, item) {
                return Some(call);
            }
        }
        self.shared(call, self.count(), random)
    }

    /// Cuts a file that grew, if one is idle; else mode and time of any.
    fn draw_setattr(&mut self, call: Call, random: &mut Random) -> Option<Call> {
        for _ in 0..MAX_TRIES {
            let grown = u32::try_from(self.grown.len()).unwrap_or(u32::MAX);
            let Some(place) = below(random, grown) else {
                break;
            };
            let place = place as usize;
            let item = *self.grown.get(place)?;
            let file = self.files.get_mut(item as usize)?;
            if file.users == 0 && !file.exclusive {
                file.exclusive = true;
                self.grown.swap_remove(place);
                file.listed = false;
                return Some(Call {
                    item,
                    offset: file.base,
                    cut: true,
                    ..call
                });
            }
        }
        self.shared(call, self.count(), random)
    }

    /// A scratch name that is there, or one that is not; CREATE takes one that is there if need be.
    fn draw_scratch(&mut self, call: Call, present: bool, random: &mut Random) -> Option<Call> {
        let count = u32::try_from(self.scratch.len()).unwrap_or(u32::MAX);
        let mut second = None;
        for _ in 0..MAX_TRIES {
            let item = below(random, count)?;
            let name = self.scratch.get(item as usize)?;
            if name.busy {
                continue;
            }
            if name.present == present {
                second = Some(item);
                break;
            }
            second = second.or((!present).then_some(item));
        }
        let item = second?;
        self.scratch.get_mut(item as usize)?.busy = true;
        Some(Call { item, ..call })
    }

    /// Number of a scratch name.
    pub fn scratch_number(&self, item: u32) -> u64 {
        self.scratch
            .get(item as usize)
            .map_or(0, |name| name.number)
    }

    /// An operation ended: as it ought to, or nobody knows what it did.
    #[inline]
    pub fn release(&mut self, call: &Call, expected: bool) {
        match call.operation {
            Operation::Create | Operation::Remove => {
                if let Some(name) = self.scratch.get_mut(call.item as usize) {
                    name.present = call.operation == Operation::Create;
                    name.busy = !expected; // never drawn again if nobody knows
                }
            }
            Operation::GetAttr
            | Operation::Access
            | Operation::Lookup
            | Operation::Read
            | Operation::Commit => self.leave(call),
            Operation::SetAttr if call.cut => {
                let Some(file) = self.files.get_mut(call.item as usize) else {
                    return;
                };
                if expected {
                    self.grown_bytes = self.grown_bytes.saturating_sub(file.high - file.base);
                    (file.low, file.high) = (file.base, file.base);
                    file.exclusive = false;
                }
            }
            Operation::SetAttr => self.leave(call),
            Operation::Write => {
                self.leave(call);
                if expected {
                    self.written(call);
                }
            }
            _ => {}
        }
    }

    fn leave(&mut self, call: &Call) {
        if let Some(file) = self.files.get_mut(call.item as usize) {
            file.users = file.users.saturating_sub(1);
        }
    }

    fn written(&mut self, call: &Call) {
        if let Some(file) = self.files.get_mut(call.item as usize) {
            file.low = file.low.max(call.offset + u64::from(call.count));
        }
        if !self.habits.unstable {
            return;
        }
        if self.uncommitted.len() < MAX_UNCOMMITTED {
            self.uncommitted.push(call.item);
        } else if let Some(place) = self.uncommitted.get_mut(self.next_uncommitted) {
            *place = call.item;
            self.next_uncommitted = (self.next_uncommitted + 1) % MAX_UNCOMMITTED;
        }
    }

    #[inline]
    fn touch(&mut self, item: u32, offset: u64, count: u32) {
        let Some(file) = self.files.get(item as usize) else {
            return;
        };
        set(&mut self.touched_files, u64::from(item));
        if count == 0 {
            return;
        }
        let first = offset / TOUCH_BYTES;
        let last = (offset + u64::from(count) - 1) / TOUCH_BYTES;
        for block in first..=last {
            set(&mut self.touched, file.first_block + block);
        }
    }

    /// Files and bytes (of their first size) that READ and WRITE touched.
    pub fn touched(&self) -> (u64, u64) {
        let files: u32 = self
            .touched_files
            .iter()
            .map(|word| word.count_ones())
            .sum();
        let mut bytes = 0;
        for file in &self.files {
            for block in 0..file.base.div_ceil(TOUCH_BYTES) {
                if is_set(&self.touched, file.first_block + block) {
                    bytes += (file.base - block * TOUCH_BYTES).min(TOUCH_BYTES);
                }
            }
        }
        (u64::from(files), bytes)
    }
}

fn set(words: &mut [u64], bit: u64) {
    if let Some(word) = words.get_mut((bit / 64) as usize) {
        *word |= 1 << (bit % 64);
    }
}

fn is_set(words: &[u64], bit: u64) -> bool {
    words
        .get((bit / 64) as usize)
        .is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

#[inline]
fn below(random: &mut Random, bound: u32) -> Option<u32> {
    (bound > 0).then(|| random.below(u64::from(bound)) as u32)
}
