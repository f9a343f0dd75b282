//! What the counts say, as sentences. Each states its count, of how many, and from where on it is
//! said; none is a judgement that the counts do not carry.

use serde_json::{Value, json};

use super::Access;
use super::pattern::Class;

/// Fewest calls that are enough to say something.
const MIN_CALLS: u64 = 100;

/// An observation: said if `count` is at least `least` of `of`.
struct Observation {
    name: &'static str,
    count: u64,
    of: u64,
    least: f64,
    text: String,
}

/// The observations that hold.
pub(super) fn list(access: &Access) -> Vec<Value> {
    let all = [
        attribute_storm(access),
        asked_again(access),
        revalidation(access),
        open_close(access),
        random(access, true),
        random(access, false),
        synchronous(access),
        commit_after_each(access),
        rewritten(access),
    ];
    all.into_iter()
        .filter(|one| {
            one.of >= MIN_CALLS && one.count as f64 >= one.least * one.of as f64 && one.count > 0
        })
        .map(|one| {
            json!({
                "name": one.name,
                "count": one.count,
                "of": one.of,
                "share": one.count as f64 / one.of as f64,
                "said_from_share": one.least,
                "said_from_calls": MIN_CALLS,
                "text": one.text,
            })
        })
        .collect()
}

fn percent(count: u64, of: u64) -> String {
    format!("{:.0} %", 100.0 * count as f64 / of.max(1) as f64)
}

/// Half and more of all calls ask for attributes, access or names.
fn attribute_storm(access: &Access) -> Observation {
    let attributes = &access.attributes;
    let count = attributes.getattrs + attributes.accesses + attributes.lookups;
    Observation {
        name: "attribute_storm",
        count,
        of: access.calls,
        least: 0.5,
        text: format!(
            "{} of all calls ask for attributes, access rights or names ({} GETATTR, {} ACCESS, \
             {} LOOKUP; {} READ and WRITE)",
            percent(count, access.calls),
            attributes.getattrs,
            attributes.accesses,
            attributes.lookups,
            attributes.data_calls
        ),
    }
}

/// Attributes asked again within the time that a cache keeps them, and no OPEN of the file between.
fn asked_again(access: &Access) -> Observation {
    let attributes = &access.attributes;
    let (count, of) = (attributes.again_unopened, attributes.getattrs_v4);
    Observation {
        name: "attribute_cache_off",
        count,
        of,
        least: 0.5,
        text: format!(
            "{} of the GETATTRs ask for attributes that the same client had asked for within 3 s, \
             without an OPEN of the file between: the attribute cache looks off (noac, actimeo=0)",
            percent(count, of)
        ),
    }
}

/// READs and WRITEs that come directly after a GETATTR or ACCESS of their file.
fn revalidation(access: &Access) -> Observation {
    let attributes = &access.attributes;
    Observation {
        name: "revalidation_before_data",
        count: attributes.revalidated,
        of: attributes.data_calls,
        least: 0.2,
        text: format!(
            "{} of the READs and WRITEs come directly after a GETATTR or ACCESS of their file: \
             close-to-open revalidation at every open, or a cache that is off",
            percent(attributes.revalidated, attributes.data_calls)
        ),
    }
}

/// Opens beside the calls that move data.
fn open_close(access: &Access) -> Observation {
    let (opens, data) = (access.opens.opens, access.attributes.data_calls);
    Observation {
        name: "opens_dominate",
        count: opens,
        of: opens + data,
        least: 0.3,
        text: format!(
            "{opens} OPENs and {} CLOSEs beside {data} READs and WRITEs: files are opened for \
             little data each ({} delegations returned, {} recalled)",
            access.opens.closes, access.opens.returned, access.opens.recalled
        ),
    }
}

fn random(access: &Access, reads: bool) -> Observation {
    let (mut count, mut of) = (0, 0);
    for file in &access.data_files {
        let direction = if reads { &file.reads } else { &file.writes };
        if let Some(direction) = direction {
            count += u64::from(direction.pattern.counts[Class::Random as usize]);
            of += direction
                .pattern
                .counts
                .iter()
                .map(|&one| u64::from(one))
                .sum::<u64>();
        }
    }
    let (name, what) = if reads {
        ("random_reads", "READs")
    } else {
        ("random_writes", "WRITEs")
    };
    Observation {
        name,
        count,
        of,
        least: 0.5,
        text: format!(
            "{} of the {what} jump within their file",
            percent(count, of)
        ),
    }
}

fn synchronous(access: &Access) -> Observation {
    let (count, of) = access.commits.synchronous();
    Observation {
        name: "synchronous_writes",
        count,
        of,
        least: 0.5,
        text: format!(
            "{} of the WRITEs ask for stable storage at once (DATA_SYNC or FILE_SYNC): the file \
             system is mounted sync, files are opened O_SYNC or O_DIRECT, or each write is the \
             last before its fsync",
            percent(count, of)
        ),
    }
}

fn commit_after_each(access: &Access) -> Observation {
    let (commits, writes) = access.commits.writes_of_a_commit();
    let (_, all) = access.commits.synchronous();
    Observation {
        name: "commit_after_few_writes",
        count: if writes < 2.0 { commits } else { 0 },
        of: all,
        least: 0.3,
        text: format!(
            "{commits} COMMITs after {writes:.1} WRITEs each: every write waits for stable storage"
        ),
    }
}

fn rewritten(access: &Access) -> Observation {
    let (count, of) = access.commits.rewritten();
    Observation {
        name: "rewritten_before_commit",
        count,
        of,
        least: 0.1,
        text: format!(
            "{} of the unstable WRITEs write bytes that were written and not committed yet",
            percent(count, of)
        ),
    }
}
