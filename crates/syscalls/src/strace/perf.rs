//! A line of `perf trace`: `   330.452 ( 0.001 ms): python3/30817 close(fd: 3</path>)  = 0`.
//!
//! A call that was interrupted by another thread's line ends in `...`; where it returned stands
//! `... [continued]: read())  = 1` with the time of its beginning again. Times are milliseconds
//! since the first line (since the machine began with `-T`); arguments that are 0 are left out.

use super::scan;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// When the call was entered, ns; None: before the first line.
    pub start_ns: Option<u64>,
    /// How long it took, ns; None when it has not returned.
    pub latency_ns: Option<u64>,
    /// Thread, where it is said.
    pub tid: Option<u32>,
    /// What it is.
    pub body: Body<'a>,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// `name(` and what follows.
    Call(&'a [u8], &'a [u8]),
    /// Has not returned so far; what follows `name(`.
    Unfinished(&'a [u8], &'a [u8]),
    /// Returned now; what stands behind `)`.
    Continued(&'a [u8], &'a [u8]),
}

/// Reads a line; None when it is not one of perf trace.
pub fn line(text: &[u8]) -> Option<Line<'_>> {
    let text = text.trim_ascii();
    let (start_ns, rest) = match text.strip_prefix(b"? ") {
        Some(rest) => (None, rest),
        None => {
            let (ns, rest) = scan::milliseconds(text)?;
            (Some(ns), rest.strip_prefix(b" ")?)
        }
    };
    let rest = rest.trim_ascii_start().strip_prefix(b"(")?;
    let end = rest.iter().take(32).position(|byte| *byte == b')')?;
    let inside = rest[..end].trim_ascii();
    let latency_ns = match scan::milliseconds(inside) {
        Some((ns, b" ms")) => Some(ns),
        None if inside.is_empty() => None,
        _ => return None,
    };
    let rest = rest[end + 1..].strip_prefix(b":")?.trim_ascii_start();
    let (tid, rest) = thread(rest);
    let body = match rest.strip_prefix(b"... [continued]: ") {
        Some(rest) => {
            let (name, rest) = named(rest)?;
            Body::Continued(name, rest.strip_prefix(b"))")?)
        }
        None => {
            let (name, rest) = named(rest)?;
            match rest.strip_suffix(b"...") {
                Some(rest) if latency_ns.is_none() => Body::Unfinished(name, rest.trim_ascii()),
                _ => Body::Call(name, rest),
            }
        }
    };
    Some(Line {
        start_ns,
        latency_ns,
        tid,
        body,
    })
}

/// `name/12`: a name may have blanks, parentheses and slashes in it.
fn thread(text: &[u8]) -> (Option<u32>, &[u8]) {
    let ends = text.iter().take(48).enumerate();
    for (at, _) in ends.filter(|(_, byte)| **byte == b'/') {
        if let Some((tid, rest)) = scan::digits(&text[at + 1..])
            && rest.first() == Some(&b' ')
            && let Ok(tid) = u32::try_from(tid)
        {
            return (Some(tid), rest.trim_ascii_start());
        }
    }
    (None, text)
}

fn named(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let len = text.iter().take_while(word).count();
    let rest = text.get(len..)?.strip_prefix(b"(")?;
    (len > 0).then_some((&text[..len], rest))
}
