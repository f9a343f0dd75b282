//! `access`: how files are read and written, and what that says of the client's caches.
//!
//! Flow: each settled call that did not fail goes to the counts of its kind ([`sizes`],
//! [`attributes`]), and by its file to the file's record: patterns of its READs and of its WRITEs
//! ([`pattern`]), uncommitted data ([`commits`]). At the end come totals, the files with most
//! calls, and observations: sentences whose counts and thresholds are stated with them.
//!
//! Decisions: calls are taken in the order of their first sends, which is the order in which the
//! client wanted them; requests of a read-ahead that overtake each other are told from jumps by
//! whether they were outstanding together. Failed calls move no data and are only counted.
//! Unanswered ones count, since they were wanted.
//!
//! Limits: [`MAX_DATA_FILES`] files have patterns; further ones count in sizes and totals, and are
//! stated. A COMPOUND with several READs or WRITEs counts by the one that names it. Access through
//! a client's cache is not on the wire: a file read twice may show once.

mod attributes;
mod commits;
mod observations;
mod pattern;
mod sizes;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use wire::nfs4::opcode;

use self::attributes::{Asked, Attributes};
use self::commits::{Commits, Uncommitted};
use self::pattern::{CLASS_NAMES, CLASSES, Pattern, Request};
use self::sizes::Sizes;
use super::kinds::{Kind, is_nfs};
use super::{Extent, Interest, Lens, Section};
use crate::call::{Call, FileId, OperationsId, Outcome, marks};
use crate::limits::{MAX_FILES, MAX_OPERATION_LISTS};
use crate::names::Names;

/// Files whose reads and writes are followed: 0.7 kB each with both.
const MAX_DATA_FILES: usize = 16_384;
/// Files shown: those with most calls.
const SHOWN: usize = 50;

/// READs or WRITEs of one file.
#[derive(Clone, Debug, Default)]
struct Direction {
    pattern: Pattern,
    calls: u64,
    bytes: u64,
}

/// A file that is read or written.
#[derive(Clone, Debug, Default)]
struct DataFile {
    reads: Option<Box<Direction>>,
    writes: Option<Box<Direction>>,
    uncommitted: Uncommitted,
    commits: u64,
}

/// What is kept of each file by its number.
#[derive(Clone, Copy, Debug, Default)]
struct FileRecord {
    asked: Asked,
    calls: u32,
    /// Place among the data files and 1; 0: none.
    data: u32,
}

/// Operations of NFSv4 that open and close, and delegations.
#[derive(Clone, Copy, Debug, Default)]
struct Opens {
    opens: u64,
    closes: u64,
    returned: u64,
    recalled: u64,
}

/// The lens.
#[derive(Debug, Default)]
pub(super) struct Access {
    files: Vec<FileRecord>,
    data_files: Vec<DataFile>,
    calls: u64,
    failed: u64,
    read_sizes: Sizes,
    write_sizes: Sizes,
    commit_sizes: Sizes,
    commits: Commits,
    attributes: Attributes,
    opens: Opens,
    /// COMPOUNDs of each list of operations.
    lists: Vec<u64>,
    not_followed: u64,
    without_file: u64,
}

impl Lens for Access {
    fn interest(&self) -> Interest {
        Interest {
            calls: true,
            files: true,
            ..Interest::default()
        }
    }

    #[inline]
    fn call(&mut self, call: &Call) {
        if call.has(marks::CALLBACK) {
            self.opens.recalled += u64::from(call.operation == opcode::CB_RECALL);
            return;
        }
        if !is_nfs(call) {
            return;
        }
        self.calls += 1;
        if matches!(call.outcome, Outcome::Status(1..) | Outcome::Refused(_)) {
            self.failed += 1;
            return;
        }
        if let Some(list) = call.operations {
            self.list(list);
        }
        let kind = Kind::of(call);
        let record = file_record(&mut self.files, call.file);
        self.attributes
            .call(kind, call, record.map(|record| &mut record.asked));
        match kind {
            Kind::Read => self.read(call),
            Kind::Write => self.write(call),
            Kind::Commit => self.commit(call),
            _ => {}
        }
    }

    fn finish(&mut self, names: &Names, _: &Extent) -> Section {
        self.opens(names);
        self.json(names).into()
    }
}

/// The file's record, counted as called once more; `None` if it is not known or beyond the bound.
#[inline(always)]
fn file_record(files: &mut Vec<FileRecord>, file: Option<FileId>) -> Option<&mut FileRecord> {
    let index = file?.0 as usize;
    if index >= files.len() {
        if index >= MAX_FILES {
            return None;
        }
        files.resize_with(index + 1, Default::default);
    }
    let record = &mut files[index];
    record.calls = record.calls.saturating_add(1);
    Some(record)
}

impl Access {
    /// A COMPOUND that went well.
    #[inline(always)]
    fn list(&mut self, list: OperationsId) {
        let index = list.0 as usize;
        if index >= self.lists.len() {
            if index >= MAX_OPERATION_LISTS {
                return;
            }
            self.lists.resize(index + 1, 0);
        }
        self.lists[index] += 1;
    }

    /// What lists of operations have, as often as they were called.
    fn opens(&mut self, names: &Names) {
        for (index, calls) in std::mem::take(&mut self.lists).into_iter().enumerate() {
            let operations = names.operations(OperationsId(index as u32));
            let has = |operation| u64::from(operations.contains(&operation)) * calls;
            self.opens.opens += has(opcode::OPEN);
            self.opens.closes += has(opcode::CLOSE);
            self.opens.returned += has(opcode::DELEGRETURN);
        }
    }

    /// The record of the file that is read or written.
    #[inline(always)]
    fn data_file(&mut self, call: &Call) -> Option<usize> {
        let Some(file) = call.file else {
            self.without_file += 1;
            return None;
        };
        let Some(record) = self.files.get_mut(file.0 as usize) else {
            self.not_followed += 1;
            return None;
        };
        if record.data == 0 {
            if self.data_files.len() >= MAX_DATA_FILES {
                self.not_followed += 1;
                return None;
            }
            self.data_files.push(DataFile::default());
            record.data = self.data_files.len() as u32;
        }
        Some(record.data as usize - 1)
    }

    #[inline(always)]
    fn read(&mut self, call: &Call) {
        if let Some(count) = call.count {
            self.read_sizes.add(count);
        }
        if let Some(file) = self.data_file(call) {
            add(
                &mut self.data_files[file].reads,
                call,
                u64::from(call.bytes_read),
            );
        }
    }

    #[inline(always)]
    fn write(&mut self, call: &Call) {
        if let Some(count) = call.count {
            self.write_sizes.add(count);
        }
        let Some(file) = self.data_file(call) else {
            return;
        };
        let file = &mut self.data_files[file];
        add(&mut file.writes, call, u64::from(call.bytes_written));
        if let (Some(offset), Some(count)) = (call.offset, call.count) {
            let stability = [call.stable, call.committed];
            let sent_ns = call.call_first.time_ns;
            self.commits
                .write(&mut file.uncommitted, [offset, count], sent_ns, stability);
        }
    }

    fn commit(&mut self, call: &Call) {
        let (Some(offset), Some(count)) = (call.offset, call.count) else {
            return;
        };
        self.commit_sizes.add(count);
        if let Some(file) = self.data_file(call) {
            let file = &mut self.data_files[file];
            file.commits += 1;
            let sent_ns = call.call_first.time_ns;
            self.commits
                .commit(&mut file.uncommitted, offset, count, sent_ns);
        }
    }

    fn json(&mut self, names: &Names) -> Value {
        let observations = observations::list(self);
        let left = self
            .data_files
            .iter()
            .fold((0, 0_u64), |(files, bytes), file| {
                let left = file.uncommitted.bytes;
                (files + u64::from(left > 0), bytes.saturating_add(left))
            });
        json!({
            "calls": self.calls,
            "failed": self.failed,
            "reads": direction_json(&mut self.read_sizes, &self.data_files, |file| &file.reads),
            "writes": direction_json(&mut self.write_sizes, &self.data_files, |file| &file.writes),
            "stability": self.commits.stability_json(),
            "commits": self.commits.json(left),
            "commit_sizes": self.commit_sizes.json(),
            "attributes": self.attributes.json(),
            "opens": {
                "open": self.opens.opens,
                "close": self.opens.closes,
                "delegations_returned": self.opens.returned,
                "delegations_recalled": self.opens.recalled,
            },
            "observations": observations,
            "files": self.top(names),
            "data_files": self.data_files.len(),
            "calls_not_followed": self.not_followed,
            "calls_without_file": self.without_file,
            "rule": {"share": pattern::SHARE, "random_share": pattern::RANDOM_SHARE},
        })
    }

    /// The files with most calls.
    fn top(&self, names: &Names) -> Vec<Value> {
        let mut order: Vec<(u32, u32)> = self
            .files
            .iter()
            .enumerate()
            .filter(|(_, record)| record.calls > 0)
            .map(|(id, record)| (record.calls, id as u32))
            .collect();
        order.sort_unstable_by_key(|&(calls, id)| (std::cmp::Reverse(calls), id));
        order.truncate(SHOWN);
        order
            .into_iter()
            .map(|(calls, id)| {
                let record = &self.files[id as usize];
                let data = (record.data as usize).checked_sub(1);
                let data = data.and_then(|place| self.data_files.get(place));
                json!({
                    "file": id,
                    "path": names.path(FileId(id)),
                    "calls": calls,
                    "getattr_calls": record.asked.getattrs,
                    "getattr_asked_again": record.asked.again,
                    "commits": data.map(|file| file.commits),
                    "reads": data.and_then(|file| file.reads.as_deref()).map(Direction::json),
                    "writes": data.and_then(|file| file.writes.as_deref()).map(Direction::json),
                })
            })
            .collect()
    }
}

#[inline(always)]
fn add(direction: &mut Option<Box<Direction>>, call: &Call, bytes: u64) {
    let direction = direction.get_or_insert_with(Default::default);
    direction.calls += 1;
    direction.bytes += bytes;
    if let (Some(offset), Some(length)) = (call.offset, call.count) {
        let sent_ns = call.call_first.time_ns;
        let reply_ns = call.reply_first.map_or(sent_ns, |reply| reply.time_ns);
        let request = Request {
            offset,
            length,
            sent_ns,
            reply_ns,
        };
        direction.pattern.add(&request);
    }
}

fn classes(counts: &[u64; CLASSES]) -> Map<String, Value> {
    let names = CLASS_NAMES.iter().zip(counts);
    names
        .map(|(name, count)| ((*name).to_owned(), json!(count)))
        .collect()
}

impl Direction {
    fn json(&self) -> Value {
        json!({
            "calls": self.calls,
            "bytes": self.bytes,
            "pattern": self.pattern.verdict(),
            "classes": classes(&self.pattern.counts.map(u64::from)),
        })
    }
}

fn direction_json(
    sizes: &mut Sizes,
    files: &[DataFile],
    of: impl Fn(&DataFile) -> &Option<Box<Direction>>,
) -> Value {
    let mut counts = [0_u64; CLASSES];
    let mut verdicts = Map::new();
    let mut bytes = 0_u64;
    for direction in files.iter().filter_map(|file| of(file).as_deref()) {
        for (sum, count) in counts.iter_mut().zip(direction.pattern.counts) {
            *sum += u64::from(count);
        }
        bytes = bytes.saturating_add(direction.bytes);
        let verdict = verdicts
            .entry(direction.pattern.verdict())
            .or_insert_with(|| json!({"files": 0, "calls": 0, "bytes": 0}));
        for (key, more) in [
            ("files", 1),
            ("calls", direction.calls),
            ("bytes", direction.bytes),
        ] {
            verdict[key] = json!(verdict[key].as_u64().unwrap_or(0).saturating_add(more));
        }
    }
    json!({
        "calls": sizes.count,
        "bytes": bytes,
        "classes": classes(&counts),
        "files_by_pattern": verdicts,
        "sizes": sizes.json(),
    })
}
