//! Lines of a catalogue (`catalogue.jsonl`) as columns.
//!
//! Only what nfslab itself writes is understood here: whole lines with fields of the very types
//! that are written, none of them unknown, and a checksum that is right, if there is one. Anything
//! else, damaged or merely odd, makes the whole file "not plain": whoever asks then reads it line
//! by line, with all the allowances that this needs (`nfslab.results.catalogue`).

use std::borrow::{Borrow, Cow};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

const CRC: &str = r#","crc32":""#;
const DIGITS_BYTES: usize = r#"01234567"}"#.len();
/// Distinct sets of names of metrics; more is no sane experiment.
const METRIC_SETS_MAX: usize = 64;
/// Integers up to here are exact as floating-point numbers.
const EXACT_MAX: i64 = 1 << 53;

/// A catalogue as columns, one entry a line in each.
#[derive(Default)]
pub struct Lines {
    /// Name of the run.
    pub run_id: Vec<String>,
    /// Point of the matrix.
    pub point_id: Coded<String>,
    /// 0-based repetition.
    pub block: Vec<i64>,
    /// 0-based place in the order of the experiment.
    pub position: Vec<i64>,
    /// Of this point and block.
    pub attempt: Vec<i64>,
    /// "ok" or "failed".
    pub status: Coded<String>,
    /// Why it failed.
    pub reason: Coded<String>,
    /// An object of JSON, as it stands there; nobody looked whether its texts are Unicode.
    pub factors: Coded<String>,
    /// Checks that did not come out well.
    pub flags: Coded<Vec<String>>,
    /// "stable", "volatile" or "unknown".
    pub durability: Coded<String>,
    /// Digest of what was in effect.
    pub setup: Coded<String>,
    /// Wall clock.
    pub started_unix_ns: Vec<i64>,
    /// Monotonic clock.
    pub duration_ns: Vec<i64>,
    /// Distinct sets of metrics.
    pub metric_sets: Vec<MetricSet>,
    /// Index of each line's set.
    pub metric_set: Vec<usize>,
}

/// A column of few distinct values.
pub struct Coded<T> {
    /// Each once, in order of appearance.
    pub distinct: Vec<T>,
    /// Index of each line's value.
    pub codes: Vec<usize>,
    known: HashMap<T, usize>,
}

/// Lines with the same metrics in the same order.
pub struct MetricSet {
    /// No two are equal.
    pub names: Vec<String>,
    /// As many for each of these lines, one line after the other; all finite.
    pub values: Vec<f64>,
}

impl<T> Default for Coded<T> {
    fn default() -> Self {
        Self {
            distinct: Vec::new(),
            codes: Vec::new(),
            known: HashMap::new(),
        }
    }
}

impl<T> Coded<T> {
    /// Each line's value.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.codes
            .iter()
            .filter_map(|code| self.distinct.get(*code))
    }
}

impl<T: Hash + Eq + Clone> Coded<T> {
    fn push<Q>(&mut self, value: &Q)
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = T> + ?Sized,
    {
        // Most lines say the same as the one before.
        let last = self.codes.last().copied();
        let same = last.filter(|last| self.distinct.get(*last).map(Borrow::borrow) == Some(value));
        let code = match same.or_else(|| self.known.get(value).copied()) {
            Some(code) => code,
            None => {
                let code = self.distinct.len();
                self.distinct.push(value.to_owned());
                self.known.insert(value.to_owned(), code);
                code
            }
        };
        self.codes.push(code);
    }
}

impl Lines {
    /// The lines of a whole file; None where anything about them is not plain.
    #[must_use]
    pub fn read(content: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(content).ok()?;
        let mut lines = Self::default();
        for line in text.split_terminator('\n').filter(|line| !line.is_empty()) {
            lines.push(parsed(line)?)?;
        }
        // A line without its end was cut off while it was appended.
        (text.is_empty() || text.ends_with('\n')).then_some(lines)
    }

    /// Values of a metric, None in lines without it.
    pub fn metric(&self, name: &str) -> impl Iterator<Item = Option<f64>> {
        let mut sets: Vec<_> = self
            .metric_sets
            .iter()
            .map(|set| {
                let place = set.names.iter().position(|one| one == name);
                (place, set.values.chunks_exact(set.names.len().max(1)))
            })
            .collect();
        self.metric_set.iter().map(move |set| {
            let (place, values) = sets.get_mut(*set)?;
            values.next()?.get((*place)?).copied()
        })
    }

    fn push(&mut self, line: Line<'_>) -> Option<()> {
        if !line.factors.get().starts_with('{') {
            return None;
        }
        self.run_id.push(line.run_id);
        self.point_id.push(&*line.point_id);
        self.block.push(line.block);
        self.position.push(line.position);
        self.attempt.push(line.attempt);
        self.status.push(known(&line.status, &["ok", "failed"])?);
        self.reason.push(&*line.reason);
        self.factors.push(line.factors.get());
        self.flags.push(&line.flags);
        self.durability
            .push(known(&line.durability, &["stable", "volatile", "unknown"])?);
        self.setup.push(&*line.setup);
        self.started_unix_ns.push(line.started_unix_ns);
        self.duration_ns.push(line.duration_ns);
        let index = self.set_of(&line.metrics.0)?;
        self.metric_set.push(index);
        let values = line.metrics.0.iter().map(|(_, value)| value);
        self.metric_sets.get_mut(index)?.values.extend(values);
        Some(())
    }

    /// The set with these metrics, a new one where there is none.
    fn set_of(&mut self, metrics: &[(Cow<'_, str>, f64)]) -> Option<usize> {
        let names = || metrics.iter().map(|(name, _)| &**name);
        let is_it = |set: &MetricSet| set.names.iter().map(String::as_str).eq(names());
        if let Some(found) = self.metric_sets.iter().position(is_it) {
            return Some(found);
        }
        let mut seen = HashSet::new();
        if self.metric_sets.len() >= METRIC_SETS_MAX || !names().all(|name| seen.insert(name)) {
            return None;
        }
        self.metric_sets.push(MetricSet {
            names: names().map(str::to_owned).collect(),
            values: Vec::new(),
        });
        Some(self.metric_sets.len() - 1)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    run_id: String,
    #[serde(borrow)]
    point_id: Cow<'a, str>,
    block: i64,
    position: i64,
    attempt: i64,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    factors: &'a RawValue,
    #[serde(borrow)]
    metrics: Metrics<'a>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(borrow, default = "unstated")]
    durability: Cow<'a, str>,
    #[serde(borrow, default)]
    setup: Cow<'a, str>,
    started_unix_ns: i64,
    duration_ns: i64,
    #[serde(default)]
    crc32: Stated,
}

fn unstated() -> Cow<'static, str> {
    Cow::Borrowed("unknown")
}

/// Was there such a field, whatever it says?
#[derive(Default)]
struct Stated(bool);

impl<'de> Deserialize<'de> for Stated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

/// Names and values in the order in which they stand.
struct Metrics<'a>(Vec<(Cow<'a, str>, f64)>);

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Metrics<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Metrics<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics<'de>, A::Error> {
                let mut pairs = Vec::with_capacity(16);
                while let Some((Name(name), text)) = map.next_entry::<_, &RawValue>()? {
                    let value = number(text.get());
                    pairs.push((name, value.ok_or_else(|| A::Error::custom("no number"))?));
                }
                Ok(Metrics(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// The number that a value of JSON is, to the nearest; None where every reader may not agree.
///
/// Not read by `serde_json`: its last digit may be wrong. Its feature `float_roundtrip` mends that,
/// but for all crates at once.
fn number(text: &str) -> Option<f64> {
    if text.contains(['.', 'e', 'E']) {
        return text.parse().ok().filter(|value: &f64| value.is_finite());
    }
    let whole: i64 = text.parse().ok()?;
    #[allow(clippy::cast_precision_loss)]
    (-EXACT_MAX..=EXACT_MAX)
        .contains(&whole)
        .then_some(whole as f64)
}

/// A line whose checksum, where it has one, is right.
fn parsed(line: &str) -> Option<Line<'_>> {
    // What is no object could pass for one: serde takes arrays for structures.
    if !line.starts_with('{') {
        return None;
    }
    let (front, digits) = line.split_at_checked(line.len().checked_sub(DIGITS_BYTES)?)?;
    let body = front.strip_suffix(CRC);
    if let Some(body) = body {
        if digits != format!("{:08x}\"}}", crc32fast::hash(body.as_bytes())) {
            return None;
        }
    } else if line.contains(CRC) {
        return None;
    }
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    (line.crc32.0 == body.is_some()).then_some(line)
}

fn known<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    words.iter().find(|one| **one == word).copied()
}
