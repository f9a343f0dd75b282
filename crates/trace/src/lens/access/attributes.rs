//! Attributes asked again, and opens: what keeps caches right, and what it costs.
//!
//! Linux keeps a file's attributes for at least `acregmin` (3 s, nfs(5)) before it asks again,
//! unless the file is opened (close-to-open consistency) or was changed by the client itself. The
//! same client asking for the same file's attributes sooner, again and again, without an OPEN
//! between, is the sign of `noac` or `actimeo=0`. NFSv3 has no OPEN: there a cache that is off
//! looks like a program that opens files all the time, and nothing is said; a GETATTR or ACCESS
//! directly in front of a READ or WRITE of the same file is what is left of one.

use serde_json::{Value, json};

use crate::call::Call;
use crate::lens::kinds::Kind;

/// `acregmin` of nfs(5), unless it is set.
pub(super) const ATTRIBUTES_KEPT_NS: i64 = 3_000_000_000;
/// A revalidation belongs to the READ or WRITE that follows it within this time.
const NEXT_NS: i64 = 1_000_000_000;

/// What was last asked of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    getattr_ns: Option<i64>,
    client: u32,
    /// It was opened since.
    opened: bool,
    /// The last call about the file asked for attributes or access: when.
    revalidated_ns: Option<i64>,
    pub getattrs: u32,
    pub again: u32,
}

/// Totals over all files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attributes {
    pub getattrs: u64,
    pub accesses: u64,
    pub lookups: u64,
    /// GETATTRs of a file whose attributes the same client had asked for within the time.
    pub again: u64,
    /// Of those, NFSv4's without an OPEN of the file between: with a cache they need not be.
    pub again_unopened: u64,
    /// NFSv4's of them all.
    pub getattrs_v4: u64,
    /// READs and WRITEs directly after a GETATTR or ACCESS of their file.
    pub revalidated: u64,
    pub data_calls: u64,
}

impl Attributes {
    /// A call that succeeded, of a file.
    #[inline(always)]
    pub fn call(&mut self, kind: Kind, call: &Call, asked: Option<&mut Asked>) {
        match kind {
            Kind::GetAttr => {
                self.getattrs += 1;
                self.getattrs_v4 += u64::from(call.version == 4);
            }
            Kind::Access => self.accesses += 1,
            Kind::Lookup => self.lookups += 1,
            Kind::Read | Kind::Write => self.data_calls += 1,
            _ => {}
        }
        let Some(asked) = asked else {
            return;
        };
        let (client, now_ns) = (client_of(call), call.call_first.time_ns);
        let same = asked.client == client;
        match kind {
            Kind::GetAttr => {
                let kept = asked.getattr_ns.filter(|&before_ns| {
                    same && now_ns.saturating_sub(before_ns) < ATTRIBUTES_KEPT_NS
                });
                let opened = std::mem::take(&mut asked.opened);
                let unopened = call.version == 4 && !opened && kept.is_some();
                self.again_unopened += u64::from(unopened);
                asked.getattrs = asked.getattrs.saturating_add(1);
                asked.getattr_ns = Some(now_ns);
                asked.revalidated_ns = Some(now_ns);
                if kept.is_some() {
                    asked.again = asked.again.saturating_add(1);
                    self.again += 1;
                }
            }
            Kind::Access => asked.revalidated_ns = Some(now_ns),
            Kind::Read | Kind::Write => {
                if let Some(before_ns) = asked.revalidated_ns.take() {
                    let follows = same && now_ns.saturating_sub(before_ns) <= NEXT_NS;
                    self.revalidated += u64::from(follows);
                }
            }
            Kind::Open => {
                asked.opened = true;
                asked.revalidated_ns = None;
            }
            _ => asked.revalidated_ns = None,
        }
        asked.client = client;
    }

    pub fn json(&self) -> Value {
        let each =
            |calls: u64| (self.data_calls > 0).then(|| calls as f64 / self.data_calls as f64);
        json!({
            "getattr_calls": self.getattrs,
            "access_calls": self.accesses,
            "lookup_calls": self.lookups,
            "read_and_write_calls": self.data_calls,
            "getattr_per_read_or_write": each(self.getattrs),
            "access_per_read_or_write": each(self.accesses),
            "lookup_per_read_or_write": each(self.lookups),
            "getattr_asked_again": self.again,
            "getattr_asked_again_unopened": self.again_unopened,
            "asked_again_within_ns": ATTRIBUTES_KEPT_NS,
            "revalidated_before_read_or_write": self.revalidated,
        })
    }
}

/// Tells clients apart well enough: all of an IPv4 address, a mix of an IPv6 one.
fn client_of(call: &Call) -> u32 {
    let host = call.client.host.bits();
    (host ^ (host >> 32) ^ (host >> 64) ^ (host >> 96)) as u32
}
