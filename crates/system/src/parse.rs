//! From the bytes of /proc files to numbers: pure functions, for bytes of any kind.
//!
//! Each takes the bytes and a row to fill, one place for each field of the catalogue, in the
//! kernel's own units. What is not there is left alone ([`None`] before is [`None`] after); what
//! is there but no number is counted as unreadable. Nothing here allocates or panics.

use crate::catalog::{CPU, Field, STAT};

/// A row of values in the kernel's units.
pub type Row<'a> = &'a mut [Option<u64>];

/// Lines without their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
}

/// Words between spaces and tabs.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ' || byte == b'\t')
        .filter(|word| !word.is_empty())
}

/// A decimal number that fits 64 bits; nothing else.
#[must_use]
pub fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            None
        } else {
            value.checked_mul(10)?.checked_add(u64::from(digit))
        }
    })
}

/// Puts `word` at `place`; counts it in `unreadable` if it is no number.
fn put(place: &mut Option<u64>, word: &[u8], unreadable: &mut u64) {
    match number(word) {
        Some(value) => *place = Some(value),
        None => *unreadable += 1,
    }
}

/// A file of `key value` or `key: value unit` lines (meminfo, vmstat, memory.stat, cpu.stat).
///
/// Gives the number of values that are no numbers.
pub fn keyed(bytes: &[u8], fields: &[Field], row: Row<'_>) -> u64 {
    let (mut unreadable, mut expected) = (0, 0);
    for line in lines(bytes) {
        let mut words = words(line);
        let Some(key) = words.next() else { continue };
        let key = key.strip_suffix(b":").unwrap_or(key);
        let Some(index) = find(fields, key, expected) else {
            continue;
        };
        expected = index + 1;
        if let (Some(place), Some(word)) = (row.get_mut(index), words.next()) {
            put(place, word, &mut unreadable);
        }
    }
    unreadable
}

/// Position of `key`, looked for at `expected` first, where files of one kernel always have it.
fn find(fields: &[Field], key: &[u8], expected: usize) -> Option<usize> {
    let is = |field: &Field| field.key.as_bytes() == key;
    if fields.get(expected).is_some_and(is) {
        return Some(expected);
    }
    fields.iter().position(is)
}

/// /proc/stat: [`CPU`] fields of the first line, then [`STAT`] fields, then the number of CPUs.
///
/// Gives the number of values that are no numbers.
pub fn stat(bytes: &[u8], row: Row<'_>) -> u64 {
    let (mut unreadable, mut cpus) = (0, 0_u64);
    let mut seen_any = false;
    for line in lines(bytes) {
        let mut words = words(line);
        let Some(key) = words.next() else { continue };
        if key == b"cpu" {
            seen_any = true;
            for (place, word) in row.iter_mut().zip(words).take(CPU.len()) {
                put(place, word, &mut unreadable);
            }
        } else if key.starts_with(b"cpu") {
            cpus += 1;
        } else if let Some(index) = STAT.iter().position(|field| field.key.as_bytes() == key)
            && let (Some(place), Some(word)) = (row.get_mut(CPU.len() + index), words.next())
        {
            put(place, word, &mut unreadable);
        }
    }
    if let (true, Some(place)) = (seen_any, row.get_mut(CPU.len() + STAT.len())) {
        *place = Some(cpus);
    }
    unreadable
}

/// A file of /proc/pressure: the `total=` of the lines `some` and `full`.
pub fn pressure(bytes: &[u8], fields: &[Field], row: Row<'_>) -> u64 {
    let mut unreadable = 0;
    for line in lines(bytes) {
        let mut words = words(line);
        let Some(key) = words.next() else { continue };
        let index = fields.iter().position(|field| field.key.as_bytes() == key);
        let total = words.find_map(|word| word.strip_prefix(b"total="));
        if let (Some(place), Some(total)) = (index.and_then(|index| row.get_mut(index)), total) {
            put(place, total, &mut unreadable);
        }
    }
    unreadable
}

/// A file that holds one number.
pub fn single(bytes: &[u8], row: Row<'_>) -> u64 {
    let mut unreadable = 0;
    if let (Some(place), Some(word)) = (row.first_mut(), lines(bytes).next()) {
        put(place, word.trim_ascii(), &mut unreadable);
    }
    unreadable
}

/// Lines of a file with one device each, as name and the bytes behind it.
pub type DeviceLine<'a> = (&'a [u8], &'a [u8]);

/// Lines of /proc/diskstats: name, and the fields behind it.
pub fn disk_lines(bytes: &[u8]) -> impl Iterator<Item = DeviceLine<'_>> {
    lines(bytes).filter_map(|line| {
        let (_major, rest) = word(line)?;
        let (_minor, rest) = word(rest)?;
        let (name, rest) = word(rest)?;
        Some((name, rest))
    })
}

/// Lines of /proc/net/dev behind its two header lines: name, and the fields behind it.
///
/// The name ends at the last colon (an alias may hold one: `eth0:1`); old kernels print numbers
/// right behind it.
pub fn net_lines(bytes: &[u8]) -> impl Iterator<Item = DeviceLine<'_>> {
    lines(bytes).filter_map(|line| {
        let colon = line.iter().rposition(|&byte| byte == b':')?;
        let name = line[..colon].trim_ascii();
        (!name.is_empty()).then_some((name, &line[colon + 1..]))
    })
}

/// The fields of a device's line by position. Gives the number of fields, and of unreadable ones.
pub fn positional(fields: &[u8], row: Row<'_>) -> (usize, u64) {
    let (mut count, mut unreadable) = (0, 0);
    for (place, word) in row.iter_mut().zip(words(fields)) {
        put(place, word, &mut unreadable);
        count += 1;
    }
    (count, unreadable)
}

/// First word and what is behind it.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let end = line
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(line.len());
    (end > 0).then(|| line.split_at(end))
}
