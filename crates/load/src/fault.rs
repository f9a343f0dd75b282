//! Answers that ought not to be: what kinds there are, and how many of each came.

use std::collections::BTreeMap;

use client::CallError;
use serde::{Deserialize, Serialize};
use wire::nfs3::nfsstat3;
use wire::rpc::ReplyStatus;

use crate::exchange::World;
use crate::layout::Name;
use crate::operation::Operation;
use crate::targets::{Call, Targets};

/// Most kinds that are told apart; further ones are counted together.
pub const MAX_KINDS: usize = 256;

/// What was wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A status that the operation ought not to have.
    Status(u32),
    /// RPC refused the call.
    Rpc(&'static str),
    /// Bytes that no RFC allows.
    Malformed,
    /// No answer until the major timeout.
    TimedOut,
    /// It could not be sent.
    Unsendable,
    /// Well-formed, but untrue.
    Untrue(&'static str),
    /// One kind too many.
    Other,
}

impl Fault {
    /// Of a call that has no results.
    pub fn of(error: &CallError) -> Self {
        match error {
            CallError::Nfs(status) => Fault::Status(status.code),
            CallError::Rpc(status) => Fault::Rpc(status.name()),
            CallError::TimedOut { .. } => Fault::TimedOut,
            CallError::Protocol(why) => Fault::Untrue(why),
            CallError::Malformed(_) => Fault::Malformed,
            _ => Fault::Unsendable,
        }
    }

    /// Whether the server says that it does not have the operation.
    pub fn is_unsupported(self) -> bool {
        let unavailable = [
            ReplyStatus::ProcedureUnavailable.name(),
            ReplyStatus::ProgramUnavailable.name(),
        ];
        match self {
            Fault::Status(code) => code == nfsstat3::NFS3ERR_NOTSUPP.code,
            Fault::Rpc(name) => unavailable.contains(&name),
            _ => false,
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Status(code) => match (nfsstat3 { code: *code }).name() {
                Some(name) => out.write_str(name),
                None => write!(out, "unknown status {code}"),
            },
            Fault::Rpc(name) => out.write_str(name),
            Fault::Malformed => out.write_str("malformed reply"),
            Fault::TimedOut => out.write_str("no answer in time"),
            Fault::Unsendable => out.write_str("not sent"),
            Fault::Untrue(why) => out.write_str(why),
            Fault::Other => out.write_str("other kinds"),
        }
    }
}

/// A kind and how often it came, for the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCount {
    /// The procedure.
    pub operation: Operation,
    /// Status or what was wrong.
    pub what: String,
    /// How often.
    pub count: u64,
    /// Whether the server does not have the operation.
    pub unsupported: bool,
}

/// All that were met.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    counts: BTreeMap<(Operation, Fault), u64>,
    total: u64,
    first: Option<(u64, String)>,
}

impl Faults {
    /// Counts one; `example` is asked for the first only.
    #[cold]
    pub fn add(
        &mut self,
        (operation, fault): (Operation, Fault),
        at_ns: u64,
        example: impl FnOnce() -> String,
    ) {
        self.total += 1;
        if self.first.is_none() {
            self.first = Some((
                at_ns,
                format!("{} {}: {fault}", operation.name(), example()),
            ));
        }
        let known = self.counts.contains_key(&(operation, fault));
        let fault = match known || self.counts.len() < MAX_KINDS {
            true => fault,
            false => Fault::Other,
        };
        *self.counts.entry((operation, fault)).or_default() += 1;
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// All of them in words, as threads' and processes' are added up.
    pub fn into_sums(self) -> FaultSums {
        let count = |((operation, fault), count): (&(Operation, Fault), &u64)| FaultCount {
            operation: *operation,
            what: fault.to_string(),
            count: *count,
            unsupported: fault.is_unsupported(),
        };
        FaultSums {
            kinds: self.counts.iter().map(count).collect(),
            first: self.first,
        }
    }
}

/// What several threads, or processes, met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSums {
    /// One of each kind; at most [`MAX_KINDS`] of a thread.
    pub kinds: Vec<FaultCount>,
    /// When the first was met, and what it was.
    first: Option<(u64, String)>,
}

impl FaultSums {
    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        for kind in other.kinds {
            let same = |mine: &&mut FaultCount| {
                (mine.operation, &mine.what) == (kind.operation, &kind.what)
            };
            match self.kinds.iter_mut().find(same) {
                Some(mine) => mine.count += kind.count,
                None => self.kinds.push(kind),
            }
        }
        self.kinds
            .sort_by(|one, other| (one.operation, &one.what).cmp(&(other.operation, &other.what)));
        self.first = match (self.first.take(), other.first) {
            (Some(mine), Some(theirs)) => Some(if theirs.0 < mine.0 { theirs } else { mine }),
            (mine, theirs) => mine.or(theirs),
        };
    }

    /// The first that was met, in words.
    pub fn first(&self) -> Option<&str> {
        self.first.as_ref().map(|(_, text)| text.as_str())
    }
}

/// What an operation was about, for the first unexpected answer.
#[cold]
pub(crate) fn describe(call: &Call, targets: &Targets, world: &World<'_>) -> String {
    match call.operation {
        Operation::Create | Operation::Remove => {
            Name::scratch(targets.scratch_number(call.item)).to_string()
        }
        Operation::ReadLink => {
            let link = world.mount.links.get(call.item as usize);
            link.map_or_else(String::new, |(number, _)| Name::link(*number).to_string())
        }
        Operation::ReadDir | Operation::ReadDirPlus => {
            Name::directory(u64::from(call.item)).to_string()
        }
        _ => {
            let name = targets.files.get(call.item as usize);
            let name = name.map_or_else(String::new, |file| Name::file(file.number).to_string());
            match call.count {
                0 => name,
                count => format!("{name} [{count} bytes at {}]", call.offset),
            }
        }
    }
}
