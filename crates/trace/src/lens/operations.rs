//! Per operation: how many calls, what became of them, how long they took.
//!
//! One row per program, version and operation. A COMPOUND is counted twice, under two headings:
//! the row `COMPOUND` counts RPC calls and holds all latencies; the row of each operation inside
//! counts how often COMPOUNDs carried it, the errors that it raised itself, and the latencies of
//! the COMPOUNDs that it names. So `calls` of inner rows add up to more than the COMPOUNDs, and
//! their latencies to exactly them.
//!
//! Inner counts are kept per list of operations (few lists make up any load) and spread over the
//! rows at the end; a call costs one row, one list and one histogram. Rows are found by position:
//! the last protocol is looked at first, its rows are indexed by operation. Numbers without a name
//! get rows of their own until [`MAX_ROWS`]; beyond, they are counted together as `OTHER`.

mod counted;
mod json;
#[cfg(test)]
mod tests;

pub use counted::{Counted, Unfit};
pub(in crate::lens) use counted::{Failure, add, add_halves, halves};

use std::collections::BTreeMap;

use measure::add_up;
use serde_json::Value;
use wire::programs::{NFS, is_callback};

use super::latencies::Latencies;
use super::{Extent, Interest, Lens, Section};
use crate::call::{Brief, OperationsId, Outcome};
use crate::limits::MAX_OPERATION_LISTS;
use crate::names::Names;

/// Rows of all programs together. All named operations of all known protocols are some 220.
pub const MAX_ROWS: usize = 256;
/// Programs and versions told apart.
pub const MAX_PROTOCOLS: usize = 48;
/// Different errors of one row; further ones are counted as `OTHER`.
pub const MAX_ERRORS: usize = 160;

/// Operations with a place of their own; higher numbers share the last place of a protocol.
const PLACES: usize = 256;
/// Procedure number of COMPOUND and CB_COMPOUND (RFC 7530 section 15, RFC 8881 section 20).
const COMPOUND: u32 = 1;
const NO_ROW: u16 = u16::MAX;
/// Stands for operations, or programs, that are counted together.
const OTHER: u32 = u32::MAX;

const READ: u32 = 25;
const WRITE: u32 = 38;
const READ_PLUS: u32 = 68;

/// What became of calls; of inner operations: what became of the COMPOUNDs that carried them.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    calls: u64,
    answered: u64,
    not_executed: u64,
    unreadable: u64,
    refused: u64,
    retransmissions: u64,
    duplicate_replies: u64,
    bytes_read: u64,
    bytes_written: u64,
}

impl Counts {
    #[inline(always)]
    fn count(&mut self, call: &Brief) {
        self.calls += 1;
        self.answered += u64::from(call.replies > 0);
        self.retransmissions += u64::from(call.retransmissions());
        self.duplicate_replies += u64::from(call.duplicate_replies());
    }
}

#[derive(Debug)]
struct Row {
    operation: u32,
    counts: Counts,
    errors: Vec<(Outcome, u64)>,
    other_errors: u64,
    latencies: Latencies,
}

impl Row {
    fn new(operation: u32, digits: u8) -> Self {
        Row {
            operation,
            counts: Counts::default(),
            errors: Vec::new(),
            other_errors: 0,
            latencies: Latencies::new(digits),
        }
    }

    #[inline(always)]
    fn outcome(&mut self, outcome: Outcome) {
        if !matches!(
            outcome,
            Outcome::Status(0) | Outcome::Accepted | Outcome::Unanswered
        ) {
            self.failed(outcome);
        }
    }

    #[cold]
    fn failed(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Unreadable => {
                self.counts.unreadable += 1;
                return;
            }
            Outcome::Refused(_) => self.counts.refused += 1,
            _ => {}
        }
        self.error(outcome);
    }

    fn error(&mut self, outcome: Outcome) {
        if let Some((_, count)) = self.errors.iter_mut().find(|(known, _)| *known == outcome) {
            *count += 1;
        } else if self.errors.len() < MAX_ERRORS {
            self.errors.push((outcome, 1));
        } else {
            self.other_errors += 1;
        }
    }
}

/// COMPOUNDs that called the same operations.
#[derive(Clone, Debug, Default)]
struct List {
    counts: Counts,
    /// Those of which the server did only the first so many operations.
    stopped: BTreeMap<u16, u64>,
}

/// A program and version.
#[derive(Debug)]
struct Protocol {
    program: u32,
    version: u32,
    compounds: bool,
    places: Vec<u16>,
    lists: Vec<List>,
    minor_versions: [u64; 4],
    unlisted: u64,
}

impl Protocol {
    fn new(program: u32, version: u32) -> Self {
        Protocol {
            program,
            version,
            compounds: (program == NFS && version == 4) || is_callback(program),
            places: vec![NO_ROW; PLACES],
            lists: Vec::new(),
            minor_versions: [0; 4],
            unlisted: 0,
        }
    }

    /// Digits of its histograms. All rows of one protocol are alike, since COMPOUND adds them up;
    /// what is not NFS proper is rare and gets the small ones.
    fn digits(&self) -> u8 {
        if self.program == NFS { 3 } else { 2 }
    }
}

/// The lens.
#[derive(Debug, Default)]
pub struct Operations {
    protocols: Vec<Protocol>,
    last: usize,
    rows: Vec<Row>,
}

impl Lens for Operations {
    fn interest(&self) -> Interest {
        Interest::default()
    }

    fn finish(&mut self, names: &Names, _extent: &Extent) -> Section {
        for at in 0..self.protocols.len() {
            self.spread(at, names);
        }
        let mut rows = Vec::new();
        for protocol in &self.protocols {
            rows.extend(protocol.places.iter().filter_map(|place| {
                let row = self.rows.get(usize::from(*place))?;
                Some((protocol, row))
            }));
        }
        rows.sort_by_key(|(protocol, row)| (protocol.program, protocol.version, row.operation));
        let rows = rows
            .iter()
            .map(|(protocol, row)| json::row_json(protocol, row));
        Section::from(rows.collect::<Value>())
    }
}

impl Operations {
    /// A call is settled: what is counted of it.
    #[inline(always)]
    pub fn brief(&mut self, call: &Brief, names: &Names) {
        let at = self.protocol(call.program, call.version);
        if self.protocols[at].compounds && call.procedure == COMPOUND {
            // A copy, so that other calls' briefs need not be written to memory.
            let call = *call;
            return self.compound(at, &call, names);
        }
        // NFSv4 has no such procedure: its number must not count as the operation that has it, nor
        // its latency as a COMPOUND's.
        let alien = self.protocols[at].compounds && call.procedure > COMPOUND;
        let row = self.row(at, if alien { OTHER } else { call.operation });
        row.counts.count(call);
        row.counts.bytes_read += u64::from(call.bytes_read);
        row.counts.bytes_written += u64::from(call.bytes_written);
        row.outcome(call.outcome);
        if let Some(latency_ns) = call.latency_ns.filter(|_| !alien) {
            row.latencies.record(latency_ns);
        }
    }

    /// Place of a program and version; the last place holds those beyond the bound.
    #[inline(always)]
    fn protocol(&mut self, program: u32, version: u32) -> usize {
        match self.protocols.get(self.last) {
            Some(last) if last.program == program && last.version == version => {}
            _ => self.last = self.find_protocol(program, version),
        }
        self.last
    }

    fn find_protocol(&mut self, program: u32, version: u32) -> usize {
        let known = |p: &Protocol| p.program == program && p.version == version;
        if let Some(at) = self.protocols.iter().position(known) {
            return at;
        }
        if self.protocols.len() < MAX_PROTOCOLS {
            self.protocols.push(Protocol::new(program, version));
        } else if self.protocols.len() == MAX_PROTOCOLS {
            self.protocols.push(Protocol::new(OTHER, OTHER));
        }
        self.protocols.len() - 1
    }

    /// The row of an operation, made if need be.
    #[inline(always)]
    fn row(&mut self, at: usize, operation: u32) -> &mut Row {
        let place = (operation as usize).min(PLACES - 1);
        let mut index = self.protocols[at].places[place];
        if index == NO_ROW || place == PLACES - 1 {
            index = self.make_row(at, operation);
        }
        &mut self.rows[usize::from(index)]
    }

    /// Names a place's row; the last place is shared by all that have no own one.
    #[cold]
    fn make_row(&mut self, at: usize, operation: u32) -> u16 {
        let protocol = &mut self.protocols[at];
        let mut place = (operation as usize).min(PLACES - 1);
        if self.rows.len() >= MAX_ROWS || protocol.program == OTHER {
            place = PLACES - 1;
        }
        let index = protocol.places[place];
        if index == NO_ROW {
            let row = Row::new(operation, protocol.digits());
            let index = u16::try_from(self.rows.len()).unwrap_or(NO_ROW);
            self.rows.push(row);
            protocol.places[place] = index;
            return index;
        }
        let row = &mut self.rows[usize::from(index)];
        if row.operation != operation {
            row.operation = OTHER;
        }
        index
    }

    #[inline(never)]
    fn compound(&mut self, at: usize, call: &Brief, names: &Names) {
        let row = self.row(at, COMPOUND);
        row.counts.count(call);
        row.counts.bytes_read += u64::from(call.bytes_read);
        row.counts.bytes_written += u64::from(call.bytes_written);
        row.outcome(call.outcome);

        let protocol = &mut self.protocols[at];
        let minor = (call.minor_version as usize).min(protocol.minor_versions.len() - 1);
        protocol.minor_versions[minor] += 1;
        match call.operations {
            Some(id) if (id.0 as usize) < MAX_OPERATION_LISTS => {
                let place = id.0 as usize;
                if place >= protocol.lists.len() {
                    protocol.lists.resize(place + 1, List::default());
                }
                let list = &mut protocol.lists[place];
                list.counts.count(call);
                if call.outcome != Outcome::Status(0) && call.replies > 0 {
                    self.stopped(at, call, id, names);
                }
            }
            _ => self.without_list(at, call),
        }
        self.named(at, call);
    }

    /// What belongs to the operation that names a COMPOUND alone: latency and payload.
    #[inline(always)]
    fn named(&mut self, at: usize, call: &Brief) {
        if call.operation == COMPOUND {
            if let Some(latency_ns) = call.latency_ns {
                self.row(at, COMPOUND).latencies.record(latency_ns);
            }
            return; // cut before its operations: the COMPOUND row has the payload already
        }
        let row = self.row(at, inside(call.operation));
        if let Some(latency_ns) = call.latency_ns {
            row.latencies.record(latency_ns);
        }
        row.counts.bytes_read += u64::from(call.bytes_read);
        if call.bytes_written > 0 {
            let bytes = u64::from(call.bytes_written);
            // A COMPOUND that reads and writes is named by its READ.
            let fore = !is_callback(call.program);
            let reads = fore && matches!(call.operation, READ | READ_PLUS);
            let writer = if reads { WRITE } else { inside(call.operation) };
            self.row(at, writer).counts.bytes_written += bytes;
        }
    }

    /// A COMPOUND that failed, was refused or whose reply cannot be read.
    #[cold]
    fn stopped(&mut self, at: usize, call: &Brief, id: OperationsId, names: &Names) {
        let operations = names.operations(id);
        let done = usize::from(call.operations_done).min(operations.len());
        let list = &mut self.protocols[at].lists[id.0 as usize];
        match call.outcome {
            Outcome::Status(_) if done > 0 => {
                if done < operations.len() {
                    *list.stopped.entry(done as u16).or_default() += 1;
                }
                self.row(at, inside(operations[done - 1]))
                    .error(call.outcome);
            }
            Outcome::Refused(_) => list.counts.refused += 1,
            _ => list.counts.unreadable += 1,
        }
    }

    /// Without its list (cut, or too many different ones) only the naming operation is known.
    #[cold]
    fn without_list(&mut self, at: usize, call: &Brief) {
        self.protocols[at].unlisted += 1;
        if call.operation != COMPOUND {
            self.row(at, inside(call.operation)).counts.count(call);
        }
    }

    /// Spreads the lists over the rows, and gives COMPOUND all latencies.
    fn spread(&mut self, at: usize, names: &Names) {
        self.spread_lists(at, names);
        if self.protocols[at].compounds {
            self.sum_latencies(at);
        }
    }

    /// Spreads the lists over the rows.
    fn spread_lists(&mut self, at: usize, names: &Names) {
        let lists = std::mem::take(&mut self.protocols[at].lists);
        for (id, list) in lists.iter().enumerate() {
            let Ok(id) = u32::try_from(id) else { break };
            if list.counts.calls == 0 {
                continue;
            }
            for (place, operation) in names.operations(OperationsId(id)).iter().enumerate() {
                let skipped: u64 = list
                    .stopped
                    .range(..=place.min(usize::from(u16::MAX)) as u16)
                    .map(|(_, count)| count)
                    .sum();
                let not_executed = skipped + list.counts.refused;
                let counts = &mut self.row(at, inside(*operation)).counts;
                add_up!(counts, list.counts; calls, unreadable, retransmissions, duplicate_replies);
                counts.not_executed += not_executed;
                counts.answered += list.counts.answered - not_executed;
            }
        }
    }

    fn sum_latencies(&mut self, at: usize) {
        let protocol = &self.protocols[at];
        let Some(compound) = self
            .rows
            .get(usize::from(protocol.places[COMPOUND as usize]))
        else {
            return;
        };
        let mut all = compound.latencies.clone();
        for place in protocol.places.iter().skip(COMPOUND as usize + 1) {
            if let Some(row) = self.rows.get(usize::from(*place)) {
                all.add(&row.latencies);
            }
        }
        self.row(at, COMPOUND).latencies = all;
    }
}

/// The row of an operation inside a COMPOUND. There are none numbered 0 and 1 (RFC 7530 section
/// 16.2): what claims to be must not count as the procedures NULL and COMPOUND.
#[inline(always)]
fn inside(operation: u32) -> u32 {
    if operation <= COMPOUND {
        OTHER
    } else {
        operation
    }
}
