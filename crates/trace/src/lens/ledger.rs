//! What is counted of calls per file, class of files, client, server: one kind of row for all.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::latencies::{QUANTILES, mean_ns};
use super::operations::{Unfit, add, add_halves, halves};
use super::pool::{Chain, Gathered, Pool};
use super::statuses::Statuses;
use crate::call::{Call, Outcome};
use crate::ends::Ends;
use measure::add_up;

/// Groups of operations that rows tell apart.
pub const GROUPS: [&str; 5] = ["READ", "WRITE", "COMMIT", "attributes", "other"];

/// The group of a call, an index of [`GROUPS`]; attributes are GETATTR, ACCESS and LOOKUP.
#[inline(always)]
pub fn group(call: &Call) -> u8 {
    match Kind::of(call) {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Commit => 2,
        Kind::GetAttr | Kind::Access | Kind::Lookup => 3,
        Kind::Open | Kind::Close | Kind::Other => 4,
    }
}

/// A row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    calls: [u64; GROUPS.len()],
    answered: u64,
    retransmissions: u64,
    duplicate_replies: u64,
    errors: u64,
    bytes_read: u64,
    bytes_written: u64,
    latencies: u64,
    negative: u64,
    unheld: u64,
    sum_ns: i128,
    latency_ns: Ends,
    sent_ns: Ends,
    /// Its latencies by group, in the pool of its table.
    pub chain: Chain,
}

/// What a row counted, as plain numbers that travel.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    calls: [u64; GROUPS.len()],
    /// As [`Row`] lists them.
    numbers: [u64; 9],
    /// Upper and lower half of the sum.
    sum_ns: (i64, u64),
    latency_ns: Option<(i64, i64)>,
    sent_ns: Option<(i64, i64)>,
}

impl Row {
    /// Counts a call. Gives the latency that the pool had no room for.
    #[inline(always)]
    pub fn count<const PARTS: usize>(
        &mut self,
        call: &Call,
        group: u8,
        pool: &mut Pool<PARTS>,
    ) -> Option<u64> {
        self.calls[usize::from(group)] += 1;
        self.answered += u64::from(call.replies > 0);
        self.retransmissions += u64::from(call.retransmissions());
        self.duplicate_replies += u64::from(call.duplicate_replies());
        self.errors += u64::from(is_error(call.outcome));
        self.bytes_read += u64::from(call.bytes_read);
        self.bytes_written += u64::from(call.bytes_written);
        self.sent_ns.take(call.call_first.time_ns);
        let latency_ns = call.latency_ns()?;
        self.latencies += 1;
        self.sum_ns += i128::from(latency_ns);
        self.latency_ns.take(latency_ns);
        let Ok(latency_ns) = u64::try_from(latency_ns) else {
            self.negative += 1;
            return None;
        };
        if pool.record(&mut self.chain, group, latency_ns) {
            return None;
        }
        self.unheld += 1;
        Some(latency_ns)
    }

    /// Adds what another row counted; its chain stays where it is.
    pub fn add(&mut self, other: &Row) {
        for (mine, theirs) in self.calls.iter_mut().zip(other.calls) {
            *mine += theirs;
        }
        add_up!(
            self, other; answered, retransmissions, duplicate_replies, errors, bytes_read,
            bytes_written, latencies, negative, unheld, sum_ns,
        );
        self.latency_ns.add(other.latency_ns);
        self.sent_ns.add(other.sent_ns);
    }

    /// What it counted, without its chain.
    pub fn counted(&self) -> Counted {
        Counted {
            calls: self.calls,
            numbers: [
                self.answered,
                self.retransmissions,
                self.duplicate_replies,
                self.errors,
                self.bytes_read,
                self.bytes_written,
                self.latencies,
                self.negative,
                self.unheld,
            ],
            sum_ns: halves(self.sum_ns),
            latency_ns: self.latency_ns.known(),
            sent_ns: self.sent_ns.known(),
        }
    }

    /// Adds what was counted elsewhere; its chain stays as it is.
    ///
    /// # Errors
    /// Nobody can have counted that.
    pub fn add_counted(&mut self, from: &Counted) -> Result<(), Unfit> {
        let numbers = [
            &mut self.answered,
            &mut self.retransmissions,
            &mut self.duplicate_replies,
            &mut self.errors,
            &mut self.bytes_read,
            &mut self.bytes_written,
            &mut self.latencies,
            &mut self.negative,
            &mut self.unheld,
        ];
        for (to, more) in numbers.into_iter().zip(from.numbers) {
            add(to, more)?;
        }
        for (to, more) in self.calls.iter_mut().zip(from.calls) {
            add(to, more)?;
        }
        self.sum_ns = add_halves(self.sum_ns, from.sum_ns)?;
        for (to, more) in [
            (&mut self.latency_ns, from.latency_ns),
            (&mut self.sent_ns, from.sent_ns),
        ] {
            if let Some((least, most)) = more {
                to.add(Ends { least, most });
            }
        }
        let whole = self.answered <= self.calls() && self.latencies <= self.calls();
        let timed = self.latencies == 0 || self.latency_ns.known().is_some();
        if whole && timed {
            Ok(())
        } else {
            Err(Unfit::Wrong)
        }
    }

    /// Latencies that its pool had no room for.
    pub fn unheld(&self) -> u64 {
        self.unheld
    }

    /// Calls of all groups.
    pub fn calls(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// File data moved, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }

    /// Sum of all latencies.
    pub fn time_ns(&self) -> i128 {
        self.sum_ns
    }

    /// All figures but quantiles of these rows together, into `out`; gives their sum. Each comes
    /// with its place among the statuses.
    pub fn put_all<'r>(
        out: &mut Map<String, Value>,
        rows: impl Iterator<Item = (u32, &'r Row)>,
        statuses: &Statuses,
    ) -> Row {
        let (places, rows): (Vec<u32>, Vec<&Row>) = rows.unzip();
        let mut sum = Row::default();
        rows.into_iter().for_each(|row| sum.add(row));
        sum.put(out);
        let errors = statuses.json(places.into_iter(), sum.errors);
        out.insert("errors_by_status".to_owned(), errors);
        sum
    }

    fn put(&self, out: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
        let named = GROUPS.iter().zip(self.calls);
        let groups: Map<String, Value> = named
            .map(|(name, calls)| ((*name).to_owned(), json!(calls)))
            .collect();
        let calls = self.calls();
        put("calls", json!(calls));
        put("calls_by_kind", Value::Object(groups));
        put("answered", json!(self.answered));
        put("unanswered", json!(calls - self.answered));
        put("retransmissions", json!(self.retransmissions));
        put("duplicate_replies", json!(self.duplicate_replies));
        put("errors", json!(self.errors));
        put("bytes_read", json!(self.bytes_read));
        put("bytes_written", json!(self.bytes_written));
        let sent_ns = self.sent_ns.known();
        put("first_ns", json!(sent_ns.map(|(first, _)| first)));
        put("last_ns", json!(sent_ns.map(|(_, last)| last)));
        put("latencies", json!(self.latencies));
        put("negative_latencies", json!(self.negative));
        put("total_latency_ns", json!(i64::try_from(self.sum_ns).ok()));
        put("latency_ns", self.latency_json());
    }

    /// Smallest, mean and largest, null if there are none; the quantiles follow.
    fn latency_json(&self) -> Value {
        let ends = self.latency_ns.known();
        let mut object = json!({
            "min": ends.map(|(least, _)| least),
            "mean": mean_ns(self.sum_ns, self.latencies),
            "max": ends.map(|(_, most)| most),
        });
        for (name, _) in QUANTILES {
            object[name] = Value::Null;
        }
        object
    }

    /// Adds quantiles to what [`Row::put_all`] wrote: of all latencies, and of each group in
    /// `latency_ns_by_kind`; and the histogram. `gather` gives the latencies of one group, or of
    /// all. They are null where not all latencies are held.
    pub fn put_quantiles(
        &self,
        out: &mut Map<String, Value>,
        mut gather: impl FnMut(Option<u8>) -> Gathered,
    ) {
        let all = gather(None);
        let whole = all.count() + self.negative == self.latencies;
        let value = |of: &Gathered, thousandths: u64| {
            let found = of.quantile_ns(thousandths).filter(|_| whole)?;
            i64::try_from(found).ok()
        };
        if let Some(latency) = out.get_mut("latency_ns").and_then(Value::as_object_mut) {
            for (name, thousandths) in QUANTILES {
                // The middle of a part may lie beyond the values in it.
                let Ends { least, most } = self.latency_ns;
                let found = value(&all, thousandths).map(|ns| ns.clamp(least, most));
                latency.insert(name.to_owned(), json!(found));
            }
        }
        let histogram = whole.then(|| all.histogram_json());
        out.insert("histogram".to_owned(), json!(histogram));
        let mut groups = Map::new();
        for (group, name) in GROUPS.iter().enumerate() {
            let of = gather(u8::try_from(group).ok());
            if of.count() == 0 || !whole {
                continue;
            }
            let mut entry = Map::new();
            entry.insert("latencies".to_owned(), json!(of.count()));
            for (quantile, thousandths) in QUANTILES {
                entry.insert(quantile.to_owned(), json!(value(&of, thousandths)));
            }
            groups.insert((*name).to_owned(), Value::Object(entry));
        }
        out.insert("latency_ns_by_kind".to_owned(), Value::Object(groups));
    }
}

/// Whether the server, or RPC, said no. A reply that cannot be read is no error.
#[inline(always)]
pub fn is_error(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Status(status) => status != 0,
        Outcome::Refused(_) => true,
        Outcome::Unanswered | Outcome::Accepted | Outcome::Unreadable => false,
    }
}

/// The rows' numbers that are first by `key`, highest first; equal ones in their own order.
pub fn top<K: Ord>(numbers: &[u32], most: usize, key: impl Fn(u32) -> K) -> Vec<u32> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by_key(|number| std::cmp::Reverse(key(*number)));
    sorted.truncate(most);
    sorted
}
