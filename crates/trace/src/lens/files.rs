//! Per file and per class of files: calls, bytes, errors, latencies.
//!
//! A row for each file handle (the table of handles is bounded by `limits::MAX_FILES`), with its
//! latencies in a pool that all files share. The files with the most calls, bytes and time are
//! shown; the others are added up. Classes (glob patterns of the path, the first match counts) are
//! decided when the capture has ended, since a file's path may be learned after its first call;
//! their latencies are those of their files put together. Only a latency that found the pool full
//! goes to the class that its file has at that moment, so that classes stay whole.
//!
//! A call that names no file handle, or one beyond the table, is counted in `without_file`.

mod classes;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::ledger::{Row, group, top};
use super::pool::{Chain, Pool};
use super::statuses::Statuses;
use super::{Extent, Interest, Lens, LensOptions, Section};
use crate::call::{Call, FileId};
use crate::limits::MAX_FILES;
use crate::names::Names;
use classes::Classes;

/// Files shown under each heading.
pub const TOP_FILES: usize = 40;
/// Blocks of latencies of all files; 16 MB.
pub const MAX_BLOCKS: usize = 400_000;
/// Parts of a power of two: quantiles are within 6.25 %.
const PARTS: usize = 8;

/// Stands for all calls without a file.
const NO_FILE: u32 = u32::MAX;

/// Makes the lens.
///
/// # Errors
/// `TraceError::Pattern` if a class's pattern is not a glob, or there are too many.
pub fn make(options: &LensOptions) -> Result<Box<dyn Lens>, crate::TraceError> {
    Ok(Box::new(Files::new(Classes::new(&options.file_classes)?)))
}

/// The class of each path, as this lens tells it; None for those that match no pattern.
///
/// # Errors
/// `TraceError::Pattern` if a class's pattern is not a glob, or there are too many.
pub fn classify(
    paths: &[String],
    classes: &[(String, String)],
) -> Result<Vec<Option<String>>, crate::TraceError> {
    let classes = Classes::new(classes)?;
    let class_of = |path: &String| Some(classes.name(classes.matching(path)?).to_owned());
    Ok(paths.iter().map(class_of).collect())
}

/// A file's row, and its class once that was needed.
#[derive(Clone, Debug, Default)]
struct Entry {
    row: Row,
    class: Option<u16>,
}

/// The lens.
#[derive(Debug)]
pub struct Files {
    entries: Vec<Entry>,
    pool: Pool<PARTS>,
    without_file: Row,
    /// Errors by file; those without one are kept under [`NO_FILE`].
    statuses: Statuses,
    classes: Classes,
    /// Latencies of each class that found the pool full.
    spilled: Vec<Chain>,
    spill: Pool<PARTS>,
}

impl Files {
    fn new(classes: Classes) -> Self {
        Files {
            entries: Vec::new(),
            pool: Pool::new(MAX_BLOCKS),
            without_file: Row::default(),
            statuses: Statuses::default(),
            spilled: vec![Chain::default(); classes.len()],
            spill: Pool::new(classes.len() * super::ledger::GROUPS.len() * 65),
            classes,
        }
    }

    #[cold]
    fn grow(&mut self, place: usize) {
        self.entries.resize(place + 1, Entry::default());
    }

    /// A latency that the pool had no room for.
    #[cold]
    fn spill(&mut self, id: FileId, group: u8, latency_ns: u64, names: &Names) {
        let Some(entry) = self.entries.get_mut(id.0 as usize) else {
            return;
        };
        let class = match entry.class {
            Some(class) => class,
            None => {
                let path = names.path(id);
                let class = self.classes.of(path.as_deref());
                entry.class = path.is_some().then_some(class);
                class
            }
        };
        if let Some(chain) = self.spilled.get_mut(usize::from(class)) {
            // Has room for all groups and powers of two of all classes; a part that is full
            // leaves the class without quantiles.
            let _ = self.spill.record(chain, group, latency_ns);
        }
    }
}

impl Lens for Files {
    fn interest(&self) -> Interest {
        Interest {
            calls: true,
            files: true,
            names: true,
            ..Interest::default()
        }
    }

    #[inline]
    fn call_named(&mut self, call: &Call, names: &Names) {
        let group = group(call);
        let place = call.file.map_or(usize::MAX, |file| file.0 as usize);
        if place >= self.entries.len() && place < MAX_FILES {
            self.grow(place);
        }
        let Some(entry) = self.entries.get_mut(place) else {
            self.without_file.count(call, group, &mut self.pool);
            self.statuses.count(NO_FILE, call);
            return;
        };
        self.statuses.count(place as u32, call);
        if let Some(latency_ns) = entry.row.count(call, group, &mut self.pool)
            && let Some(id) = call.file
        {
            self.spill(id, group, latency_ns, names);
        }
    }

    fn finish(&mut self, names: &Names, _extent: &Extent) -> Section {
        let used: Vec<u32> = (0..self.entries.len())
            .filter(|place| self.entries[*place].row.calls() > 0)
            .filter_map(|place| u32::try_from(place).ok())
            .collect();
        let classes: Vec<u16> = used
            .iter()
            .map(|place| self.classes.of(names.path(FileId(*place)).as_deref()))
            .collect();
        let row = |place: u32| &self.entries[place as usize].row;
        let headings = [
            (
                "by_calls",
                top(&used, TOP_FILES, |place| row(place).calls()),
            ),
            (
                "by_bytes",
                top(&used, TOP_FILES, |place| row(place).bytes()),
            ),
            (
                "by_time",
                top(&used, TOP_FILES, |place| row(place).time_ns()),
            ),
        ];
        let mut shown: Vec<u32> = headings.iter().flat_map(|(_, top)| top.clone()).collect();
        shown.sort_unstable();
        shown.dedup();
        let order = |top: &Vec<u32>| -> Vec<usize> {
            let places = top
                .iter()
                .filter_map(|place| shown.binary_search(place).ok());
            places.collect()
        };
        let mut object = Map::new();
        object.insert("files".to_owned(), json!(used.len()));
        for (name, top) in &headings {
            object.insert((*name).to_owned(), json!(order(top)));
        }
        let list: Vec<Value> = shown
            .iter()
            .map(|place| self.file_json(*place, names))
            .collect();
        object.insert("list".to_owned(), Value::Array(list));
        object.insert("rest".to_owned(), self.rest_json(&used, &shown));
        object.insert(
            "without_file".to_owned(),
            self.row_json(&self.without_file, NO_FILE),
        );
        object.insert("classes".to_owned(), self.classes_json(&used, &classes));
        let error = Pool::<PARTS>::RELATIVE_ERROR;
        object.insert("quantile_relative_error".to_owned(), json!(error));
        Value::Object(object).into()
    }
}

impl Files {
    fn row_json(&self, row: &Row, place: u32) -> Value {
        let mut out = Map::new();
        Row::put_all(&mut out, [(place, row)].into_iter(), &self.statuses);
        row.put_quantiles(&mut out, |group| {
            let chain = std::iter::once(&row.chain);
            self.pool.gathered(chain, group)
        });
        Value::Object(out)
    }

    fn file_json(&self, place: u32, names: &Names) -> Value {
        let id = FileId(place);
        let path = names.path(id);
        let file = names.file(id);
        let handle = file.map(|file| crate::columns::hexadecimal(&file.handle));
        let mut out = self.row_json(&self.entries[place as usize].row, place);
        out["file"] = json!(place);
        out["path"] = json!(path);
        out["file_handle"] = json!(handle);
        out["server"] = json!(file.map(|file| file.server.to_string()));
        out["file_type"] = json!(file.map(|file| file.file_type));
        out["removed"] = json!(file.map(|file| file.removed));
        out["class"] = json!(self.classes.name(self.classes.of(path.as_deref())));
        out
    }

    /// Files that are not shown, added up.
    fn rest_json(&self, used: &[u32], shown: &[u32]) -> Value {
        let mut places = used.to_vec();
        places.retain(|place| shown.binary_search(place).is_err());
        let mut out = Map::new();
        out.insert("files".to_owned(), json!(places.len()));
        let rows = places
            .iter()
            .map(|place| (*place, &self.entries[*place as usize].row));
        Row::put_all(&mut out, rows, &self.statuses);
        Value::Object(out)
    }

    /// Classes that have files, in their own order; `of` is the class of each used file.
    fn classes_json(&self, used: &[u32], of: &[u16]) -> Value {
        let mut list = Vec::new();
        for class in 0..self.classes.len() {
            let members: Vec<(u32, &Row)> = used
                .iter()
                .zip(of)
                .filter(|(_, of)| usize::from(**of) == class)
                .map(|(place, _)| (*place, &self.entries[*place as usize].row))
                .collect();
            if members.is_empty() {
                continue;
            }
            let mut out = Map::new();
            out.insert("class".to_owned(), json!(self.classes.name(class as u16)));
            out.insert("files".to_owned(), json!(members.len()));
            let sum = Row::put_all(&mut out, members.iter().copied(), &self.statuses);
            sum.put_quantiles(&mut out, |group| {
                let chains = members.iter().map(|(_, row)| &row.chain);
                let mut gathered = self.pool.gathered(chains, group);
                self.spill
                    .gather(&self.spilled[class], group, &mut gathered);
                gathered
            });
            list.push(Value::Object(out));
        }
        Value::Array(list)
    }
}
