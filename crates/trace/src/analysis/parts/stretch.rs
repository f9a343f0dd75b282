//! What was counted between two checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::JoinError;
use crate::block::{Endpoint, Host, Transport};
use crate::ends::Ends;
use crate::lens::operations::{Counted, Operations};
use crate::lens::{LensOptions, make};
use crate::names::Names;
use crate::stream;

/// Numbers that add up; those of a stretch may be below zero, where something was taken back.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::analysis) struct Sums {
    /// Packets, bytes, captured bytes, cut packets, kernel's drops, skipped bytes, bytes and gaps
    /// lost, calls.
    numbers: [i64; 9],
    anomalies: BTreeMap<String, i64>,
}

impl Sums {
    pub(in crate::analysis) fn of(numbers: [u64; 9], anomalies: &[(&str, u64)]) -> Self {
        let mut sums = Sums {
            numbers: numbers.map(|number| i64::try_from(number).unwrap_or(i64::MAX)),
            ..Sums::default()
        };
        for (kind, count) in anomalies {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            *sums.anomalies.entry((*kind).to_owned()).or_default() += count;
        }
        sums
    }

    pub(in crate::analysis) fn without(&self, before: &Self) -> Self {
        let mut sums = self.clone();
        for (number, less) in sums.numbers.iter_mut().zip(before.numbers) {
            *number -= less;
        }
        for (kind, less) in &before.anomalies {
            *sums.anomalies.entry(kind.clone()).or_default() -= less;
        }
        sums
    }

    /// Ports used anew that only who read what came before could count.
    pub(super) fn count_ports_reused(&mut self, more: u64) -> Option<()> {
        if more > 0 {
            let kind = stream::Anomaly::PortReused.name().to_owned();
            let count = self.anomalies.entry(kind).or_default();
            *count = count.checked_add_unsigned(more)?;
        }
        Some(())
    }

    /// Each; one below zero, which no capture has, is 0.
    pub(super) fn numbers(&self) -> [u64; 9] {
        let whole = |number: i64| u64::try_from(number).unwrap_or(0);
        self.numbers.map(whole)
    }

    /// Kinds that occurred, and how often.
    pub(super) fn anomalies(&self) -> Result<Vec<(&str, u64)>, JoinError> {
        let count = |count: i64| u64::try_from(count).map_err(|_| JoinError::Wrong);
        let each = self.anomalies.iter();
        each.map(|(kind, it)| Ok((kind.as_str(), count(*it)?)))
            .collect()
    }

    fn add(&mut self, more: &Self) -> Option<()> {
        for (number, more) in self.numbers.iter_mut().zip(more.numbers) {
            *number = number.checked_add(more)?;
        }
        for (kind, more) in &more.anomalies {
            let count = self.anomalies.entry(kind.clone()).or_default();
            *count = count.checked_add(*more)?;
        }
        Some(())
    }
}

/// A connection by its two ends, the lower one first: hosts as numbers in hexadecimal, ports.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(in crate::analysis) struct Known(String, u16, String, u16, bool);

impl Known {
    pub(super) fn of((one, other, transport): stream::Ends) -> Self {
        let host = |end: Endpoint| format!("{:x}", Host::bits(end.host));
        let udp = transport == Transport::Udp;
        Known(host(one), one.port, host(other), other.port, udp)
    }
}

/// What was counted between two checkpoints.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::analysis) struct Stretch {
    pub(in crate::analysis) operations: Vec<Counted>,
    /// What other lenses counted.
    pub(in crate::analysis) lenses: BTreeMap<String, Value>,
    pub(in crate::analysis) sums: Sums,
    pub(in crate::analysis) times_ns: Option<(i64, i64)>,
    /// The first checkpoint that something in it looked back behind.
    pub(in crate::analysis) reached_back: Option<usize>,
    /// A table was full.
    pub(in crate::analysis) beyond: bool,
    /// Connections that were first seen in it.
    pub(in crate::analysis) newcomers: BTreeSet<Known>,
    /// Connections opened again, whose SYN before that was not seen.
    pub(in crate::analysis) opened: BTreeSet<(Known, u32)>,
}

impl Stretch {
    /// With what follows it; `number` tells what its connections are here.
    pub(super) fn add(&mut self, more: Self, number: &dyn Fn(u32) -> u32) -> Result<(), JoinError> {
        if self.beyond || more.beyond {
            return Err(JoinError::Full);
        }
        if !self.lenses.keys().eq(more.lenses.keys()) {
            return Err(JoinError::Wrong);
        }
        for (name, counted) in &mut self.lenses {
            *counted = put_together(name, counted, more.lenses.get(name), number)?;
        }
        let mut all = Operations::default();
        all.add(&self.operations)?;
        all.add(&more.operations)?;
        self.operations = all.counted(&Names::default());
        self.sums.add(&more.sums).ok_or(JoinError::Wrong)?;
        let mut times = Ends::default();
        for (least, most) in self.times_ns.into_iter().chain(more.times_ns) {
            times.add(Ends { least, most });
        }
        self.times_ns = times.known();
        let reached_back = self.reached_back.into_iter().chain(more.reached_back);
        self.reached_back = reached_back.min();
        self.newcomers.extend(more.newcomers);
        self.opened.extend(more.opened);
        Ok(())
    }
}

/// What a lens counted in two stretches.
fn put_together(
    name: &str,
    one: &Value,
    other: Option<&Value>,
    number: &dyn Fn(u32) -> u32,
) -> Result<Value, JoinError> {
    let options = LensOptions {
        of_a_part: true,
        ..LensOptions::default()
    };
    let lens = make(name, &options).ok().flatten();
    let mut lens = lens.ok_or(JoinError::Wrong)?;
    lens.add_counted(one, &|own| own)?;
    lens.add_counted(other.ok_or(JoinError::Wrong)?, number)?;
    Ok(lens.take_counted()?)
}
