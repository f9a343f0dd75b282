//! What a lens finds does not depend on which others run, nor on rows of the calls, nor on how many
//! threads they share: shared captures as they are and spoilt at random, whole and in part.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use serde_json::Value;
use trace::analysis::{Findings, Options, Pass};
use trace::block::Block;
use trace::lens::LENSES;
use trace::source::{Bounds, Reader};

use crate::quick_way::{shared, spoilt};

/// What only those find that learn names of files.
const OF_NAMES: [&str; 3] = [
    "files_beyond_limit",
    "names_beyond_limit",
    "entries_beyond_limit",
];

fn analysed(
    capture: &[u8],
    lenses: &[&str],
    window_ns: Option<(i64, i64)>,
    rows: bool,
    threads: usize,
) -> Findings {
    let options = Options {
        lenses: lenses.iter().map(|name| (*name).to_owned()).collect(),
        window_ns,
        ..Options::default()
    };
    let bytes = Cursor::new(capture.to_vec());
    let mut reader = Reader::of_bytes("capture", bytes, Bounds::default()).unwrap();
    if let Some(window_ns) = window_ns {
        reader.count_part(window_ns);
    }
    let mut pass = Pass::new(&options, Arc::default()).unwrap();
    pass.begin_lens_threads(threads).unwrap();
    let (sender, _batches) = sync_channel(64);
    if rows {
        pass.set_columns(sender);
    }
    let mut block = Block::default();
    while reader.read(&mut block).unwrap() {
        pass.block(&block).unwrap();
    }
    pass.finish(&reader.totals(), &[]).unwrap()
}

/// The summary without what depends on names of files.
fn common(summary: &Value) -> Value {
    let mut common = summary.clone();
    common["files_named"] = Value::Null;
    if let Some(anomalies) = common["anomalies"].as_array_mut() {
        anomalies.retain(|it| !OF_NAMES.iter().any(|kind| it["kind"] == *kind));
    }
    common
}

fn agree(capture: &[u8], window_ns: Option<(i64, i64)>, seed: u64, what: &str) {
    let all: Vec<&str> = LENSES.iter().map(|(name, ..)| *name).collect();
    let right = analysed(capture, &all, window_ns, false, 0);
    let named = right.summary["files_named"].as_u64().unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut others = all[1..].to_vec();
    random.shuffle(&mut others);
    let mut groups: Vec<(Vec<&str>, bool)> = Vec::new();
    while let Some(first) = others.pop() {
        let mut group = vec![all[0], first];
        while random.bool() {
            group.extend(others.pop());
        }
        groups.push((group, random.u8(..4) == 0));
    }
    groups.push((all.clone(), random.bool()));
    groups.push((vec![all[0]], true));
    groups.push((vec![all[0]], false));
    let mut fullest = 0;
    for (group, rows) in groups {
        let threads = random.usize(..4);
        let found = analysed(capture, &group, window_ns, rows, threads);
        let what = format!("{what}, {group:?}, rows {rows}, {threads} threads");
        assert_eq!(common(&found.summary), common(&right.summary), "{what}");
        fullest = fullest.max(found.summary["files_named"].as_u64().unwrap());
        if found.summary["files_named"] == named {
            assert_eq!(found.summary, right.summary, "{what}");
        } else {
            assert_eq!(found.summary["files_named"], 0, "{what}");
        }
        assert_eq!(found.sections.len(), group.len());
        for (name, section) in &found.sections {
            let (_, right) = right.sections.iter().find(|(it, _)| it == name).unwrap();
            assert!(section == right, "{what}: {name} differs");
        }
    }
    assert_eq!(fullest, named, "{what}");
}

#[test]
fn lenses_find_the_same_whichever_others_run() {
    for (name, capture) in shared() {
        let seeds = if capture.len() > 4 << 20 { 1 } else { 4 };
        for seed in 0..seeds {
            let window_ns = (seed % 3 == 2).then_some((300_000_000, 900_000_000));
            let capture = match seed {
                0 => capture.clone(),
                _ => spoilt(&capture, seed),
            };
            agree(&capture, window_ns, seed, &format!("{name}, seed {seed}"));
        }
    }
}
