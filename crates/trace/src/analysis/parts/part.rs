//! What was found in some files of a capture, and what joining it with its neighbours needs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::{Findings, summary};
use super::numbering::Numbering;
use super::stretch::{Known, Stretch};
use crate::block::Block;
use crate::lens::operations::{Operations, Unfit};
use crate::lens::{Extent, LENSES, Lens, LensOptions, Section};
use crate::limits::{DUPLICATE_NS, MAX_CONNECTIONS, MAX_OPERATION_LISTS};
use crate::names::Names;
use crate::packet::{Anomaly, Lost};
use crate::source::{Totals, overlaps};
use crate::stream::{Began, Rest};

/// The form of a part's JSON.
const VERSION: u32 = 4;
/// Longest JSON of a part that is read: what 16 checkpoints with full tables take, and more.
pub const MAX_PART_BYTES: usize = 256 << 20;

/// Why parts are not joined: then the files are read in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Reading on and beginning anew came to no common state.
    #[error("what was under way at a file's end was not over within the next one")]
    Open,
    /// Something after the checkpoint depends on what came long before.
    #[error(
        "a connection that was idle at a file's end was used again, or old bytes were sent again"
    )]
    ReachedBack,
    /// A table was full.
    #[error(
        "more connections, operations or lists of them, or names of files, than are told apart"
    )]
    Full,
    /// There is no call of RPC.
    #[error("there is no call in it")]
    NoCalls,
    /// It is no part.
    #[error("it is not a part that this version of nfslab made")]
    Wrong,
}

impl JoinError {
    /// Whether it is a matter of two neighbours: reading the files of both in a row helps.
    pub fn of_neighbours(self) -> bool {
        matches!(self, JoinError::Open | JoinError::ReachedBack)
    }
}

impl From<Unfit> for JoinError {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Full => JoinError::Full,
            Unfit::Wrong => JoinError::Wrong,
        }
    }
}

/// How a part ends.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) enum End {
    /// The capture's end.
    Last,
    /// The next file's reader is right from this checkpoint of its file on.
    Agrees {
        checkpoint: usize,
        /// What it does not know of connections.
        rest: Vec<(Known, Rest)>,
        /// What comes must not be more than a second earlier.
        now_ns: i64,
        /// Numbers of connections that both know: there, here.
        numbers: Vec<(u32, u32)>,
        /// Connections numbered so far: here, there.
        numbered: [u32; 2],
    },
    /// Neither.
    #[default]
    Open,
}

impl End {
    /// The same, with what is known of connections from before, and what they are there.
    fn knowing(self, mut known: BTreeMap<Known, Rest>, numbering: &Numbering) -> Self {
        let End::Agrees {
            checkpoint,
            rest,
            now_ns,
            numbers,
            numbered: [here, there],
        } = self
        else {
            return self;
        };
        for (connection, mut more) in rest {
            if let Some(idle) = &mut more.idle {
                let number = idle.number_mut();
                *number = numbering.of(*number);
            }
            let rest = known.entry(connection).or_default();
            rest.syns.extend(more.syns);
            rest.idle = more.idle;
        }
        let numbers = numbers.into_iter();
        End::Agrees {
            checkpoint,
            rest: known.into_iter().collect(),
            now_ns,
            numbers: numbers
                .map(|(there, here)| (there, numbering.of(here)))
                .collect(),
            numbered: [numbering.of(here), there],
        }
    }
}

/// What was found in one file, or in several in a row.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    version: u32,
    pub(super) stretches: Vec<Stretch>,
    /// Earliest time where each file begins, and latest time in it.
    files: Vec<Option<(i64, i64)>>,
    /// Lists of COMPOUND operations that occurred.
    pub(super) lists: BTreeSet<Vec<u32>>,
    /// Whether fragments of IP came.
    pub(super) fragments: bool,
    pub(super) cpu_ns: u64,
    pub(super) end: End,
    /// Connections and pairs of UDP that its last reader saw.
    pub(super) seen: [usize; 2],
    /// How connections and pairs that were first seen in it began.
    pub(super) began: Vec<(Known, Began)>,
}

impl Part {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Part {
            version: VERSION,
            ..Part::default()
        }
    }

    /// A block of the task's own file with this number, from 1, which begins at this time.
    pub(super) fn saw(&mut self, block: &Block, number: u64, begun_ns: Option<i64>) {
        let Some((begun_ns, (_, most_ns))) = begun_ns.zip(block.times_ns) else {
            return;
        };
        let place = number.saturating_sub(1) as usize;
        if place >= self.files.len() {
            self.files.resize(place + 1, None);
        }
        match &mut self.files[place] {
            Some((_, latest_ns)) => *latest_ns = most_ns.max(*latest_ns),
            unknown => *unknown = Some((begun_ns, most_ns)),
        }
    }

    /// As it travels.
    ///
    /// # Errors
    /// `Wrong` if it cannot be written.
    pub fn encode(&self) -> Result<Vec<u8>, JoinError> {
        serde_json::to_vec(self).map_err(|_| JoinError::Wrong)
    }

    /// A part that travelled; anything else is refused, here or when it is joined.
    ///
    /// # Errors
    /// `Wrong` if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, JoinError> {
        if bytes.len() > MAX_PART_BYTES {
            return Err(JoinError::Wrong);
        }
        let part: Part = serde_json::from_slice(bytes).map_err(|_| JoinError::Wrong)?;
        if part.version != VERSION {
            return Err(JoinError::Wrong);
        }
        Ok(part)
    }

    /// Both together; `next` begins with the file behind this one's last.
    ///
    /// # Errors
    /// They do not tell what reading both in a row would.
    pub fn join(mut self, next: Self) -> Result<Self, JoinError> {
        let End::Agrees {
            checkpoint,
            rest,
            now_ns,
            numbers,
            numbered,
        } = std::mem::take(&mut self.end)
        else {
            return Err(JoinError::Open);
        };
        if self.fragments && next.fragments {
            return Err(JoinError::ReachedBack);
        }
        let mut known: BTreeMap<Known, Rest> = rest.into_iter().collect();
        let idle = known.values().filter(|rest| rest.idle.is_some()).count();
        let seen = self.seen.iter().chain(&next.seen).max().copied();
        if idle.saturating_add(seen.unwrap_or_default()) >= MAX_CONNECTIONS {
            return Err(JoinError::Full);
        }
        let (Some(last), true) = (self.stretches.last_mut(), checkpoint < next.stretches.len())
        else {
            return Err(JoinError::Wrong);
        };
        let began: BTreeMap<&Known, &Began> =
            next.began.iter().map(|(it, how)| (it, how)).collect();
        let mut numbering = Numbering::new(numbers, numbered);
        for (number, stretch) in next.stretches.into_iter().enumerate() {
            let behind = number > checkpoint;
            let reused = come_back(&stretch, behind, &began, &mut known, &mut numbering)?;
            if behind {
                check_behind(&stretch, checkpoint, now_ns, &known)?;
                let stretch = Stretch {
                    reached_back: None,
                    ..stretch
                };
                last.add(stretch, &|it| numbering.of(it))?;
                last.sums
                    .count_ports_reused(reused)
                    .ok_or(JoinError::Wrong)?;
            }
        }
        self.end = next.end.knowing(known, &numbering);
        self.began_further(&next.began, &numbering);
        self.files.extend(next.files);
        self.lists.extend(next.lists);
        self.fragments |= next.fragments;
        self.cpu_ns = self.cpu_ns.saturating_add(next.cpu_ns);
        self.seen = next.seen;
        if self.lists.len() >= MAX_OPERATION_LISTS {
            return Err(JoinError::Full);
        }
        Ok(self)
    }

    /// How connections began that were first seen in the next part.
    fn began_further(&mut self, next: &[(Known, Began)], numbering: &Numbering) {
        let first_seen: BTreeSet<&Known> = self.began.iter().map(|(it, _)| it).collect();
        let more = next.iter().filter(|(it, _)| !first_seen.contains(it));
        let more: Vec<_> = more
            .map(|(it, how)| {
                let mut how = how.clone();
                how.number = numbering.of(how.number);
                (it.clone(), how)
            })
            .collect();
        self.began.extend(more);
    }

    /// What was found in a capture whose first and last files are among this part's. `moved` files
    /// were given in another place; `inputs` are their names as given.
    ///
    /// # Errors
    /// It is not the whole capture, or does not tell what reading it in a row would.
    pub fn findings(self, moved: u64, inputs: &[String]) -> Result<Findings, JoinError> {
        if self.end != End::Last || self.seen.iter().any(|seen| *seen >= MAX_CONNECTIONS) {
            return Err(JoinError::Open);
        }
        let mut stretches = self.stretches.into_iter();
        let mut all = stretches.next().ok_or(JoinError::Wrong)?;
        for stretch in stretches {
            all.add(stretch, &|own| own)?;
        }
        if all.beyond {
            return Err(JoinError::Full);
        }
        let numbers = all.sums.numbers();
        let [
            packets,
            bytes,
            captured,
            cut,
            drops,
            skipped,
            lost,
            gaps,
            calls,
        ] = numbers;
        if calls == 0 {
            return Err(JoinError::NoCalls);
        }
        let mut anomalies = all.sums.anomalies()?;
        anomalies.push((Anomaly::FilesReordered.name(), moved));
        anomalies.push((Anomaly::FilesOverlap.name(), overlapping(&self.files)));
        let (first_ns, last_ns) = all.times_ns.unwrap_or_default();
        let extent = Extent {
            first_ns,
            last_ns,
            capture_first_ns: first_ns,
            packets,
            calls,
        };
        anomalies.retain(|(_, count)| *count > 0);
        let whole = summary::Whole {
            extent,
            has_times: all.times_ns.is_some(),
            bytes,
            window_ns: None,
            lost: Lost { bytes: lost, gaps },
            files: 0,
        };
        let totals = Totals {
            captured_bytes: captured,
            truncated_frames: cut,
            kernel_drops: drops,
            skipped_bytes: skipped,
            ..Totals::default()
        };
        Ok(Findings {
            summary: summary::summary(&whole, &totals, &anomalies, inputs),
            sections: sections(&all, &extent)?,
            cpu_ns: self.cpu_ns,
        })
    }
}

/// The sections of the table by operation and of the other lenses.
fn sections(all: &Stretch, extent: &Extent) -> Result<Vec<(String, Section)>, JoinError> {
    let mut operations = Operations::default();
    operations.add(&all.operations)?;
    let names = Names::default();
    let mut found = Vec::new();
    for (at, (name, make, _)) in LENSES.iter().enumerate() {
        let section = match all.lenses.get(*name) {
            _ if at == 0 => operations.finish(&names, extent),
            None => continue,
            Some(counted) => {
                let lens = make(&LensOptions::default());
                let mut lens = lens.map_err(|_| JoinError::Wrong)?;
                lens.add_counted(counted, &|own| own)?;
                lens.finish(&names, extent)
            }
        };
        found.push(((*name).to_owned(), section));
    }
    Ok(found)
}

/// Idle connections that come back in a stretch are known no longer; of those that do so behind the
/// checkpoint: how many ports used anew nobody counted, and which ones went on.
fn come_back(
    stretch: &Stretch,
    behind: bool,
    began: &BTreeMap<&Known, &Began>,
    known: &mut BTreeMap<Known, Rest>,
    numbering: &mut Numbering,
) -> Result<u64, JoinError> {
    let mut reused = 0;
    for connection in &stretch.newcomers {
        let Some(rest) = known.get_mut(connection) else {
            continue;
        };
        if behind && rest.idle.is_some() {
            let began = began.get(connection).ok_or(JoinError::Wrong)?;
            let anew = began.continues(rest).ok_or(JoinError::ReachedBack)?;
            if let Some(idle) = rest.idle.as_mut().filter(|_| anew == 0) {
                numbering.goes_on(*idle.number_mut(), began.number);
            }
            reused += anew;
        }
        rest.idle = None;
    }
    Ok(reused)
}

/// Whether a stretch behind the checkpoint is what reading on would have found.
fn check_behind(
    stretch: &Stretch,
    checkpoint: usize,
    now_ns: i64,
    known: &BTreeMap<Known, Rest>,
) -> Result<(), JoinError> {
    let least_ns = stretch.times_ns.map(|(least_ns, _)| least_ns);
    let earlier = least_ns.is_some_and(|at_ns| at_ns < now_ns.saturating_sub(DUPLICATE_NS));
    let looked_back = stretch.reached_back.is_some_and(|at| at <= checkpoint);
    let mut opened = stretch.opened.iter();
    let sent_twice = opened.any(|(it, syn)| known.get(it).is_some_and(|it| it.syns.contains(syn)));
    match earlier || looked_back || sent_twice {
        true => Err(JoinError::ReachedBack),
        false => Ok(()),
    }
}

/// Files that begin before an earlier one ended.
fn overlapping(files: &[Option<(i64, i64)>]) -> u64 {
    let mut latest_ns = i64::MIN;
    let mut count = 0;
    for (begun_ns, ended_ns) in files.iter().flatten() {
        count += u64::from(overlaps(*begun_ns, latest_ns));
        latest_ns = latest_ns.max(*ended_ns);
    }
    count
}
