//! Several files as one capture: in the order of their first packets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::progress::Shared;
use super::raw::Raw;
use super::reader::Reader;
use super::start::start;
use super::{Bounds, Input};
use crate::block::Block;
use crate::error::TraceError;

/// Puts files in the order of their first packets' times and tells how many were in another place.
/// Every file is opened, so what cannot be read is told before anything is read. Streams cannot be
/// looked into beforehand: with one among them the order stays.
pub(super) fn in_time_order(
    inputs: Vec<Input>,
    bounds: Bounds,
) -> Result<(Vec<Input>, u64), TraceError> {
    let mut block = Block::default();
    let mut timed = Vec::with_capacity(inputs.len());
    let mut all_files = true;
    // A file without packets stays behind its predecessor.
    let mut known_ns = i64::MIN;
    for input in inputs {
        if let Input::File(path) = &input
            && path.is_file()
        {
            known_ns = first_ns(path, bounds, &mut block)?.unwrap_or(known_ns);
        } else {
            all_files = false;
        }
        timed.push((known_ns, input));
    }
    let sorted = timed.is_sorted_by_key(|(first_ns, _)| *first_ns);
    if !all_files || sorted {
        return Ok((timed.into_iter().map(|(_, input)| input).collect(), 0));
    }
    let before: Vec<i64> = timed.iter().map(|(first_ns, _)| *first_ns).collect();
    timed.sort_by_key(|(first_ns, _)| *first_ns);
    let pairs = timed.iter().zip(&before);
    let moved = pairs.filter(|((now, _), was)| now != *was).count() as u64;
    Ok((timed.into_iter().map(|(_, input)| input).collect(), moved))
}

/// [`in_time_order`] of files by name.
///
/// # Errors
/// A file cannot be read.
pub fn in_order(paths: Vec<PathBuf>) -> Result<(Vec<PathBuf>, u64), TraceError> {
    let inputs = paths.into_iter().map(Input::File).collect();
    let (inputs, moved) = in_time_order(inputs, Bounds::default())?;
    let paths = inputs.into_iter().filter_map(|input| match input {
        Input::File(path) => Some(path),
        Input::Stream { .. } => None,
    });
    Ok((paths.collect(), moved))
}

/// Earliest time in the file's first block of packets.
fn first_ns(path: &Path, bounds: Bounds, block: &mut Block) -> Result<Option<i64>, TraceError> {
    let shared = Arc::new(Shared::default());
    let raw = Raw::open(path, &shared)?;
    let bounds = Bounds {
        window_bytes: 0,
        ..bounds
    };
    let started = start(path.display().to_string(), raw, bounds, &shared)?;
    let mut reader = Reader::of_started(started, bounds, shared);
    reader.read(block)?;
    Ok(block.times_ns.map(|(first_ns, _)| first_ns))
}
