//! A line of strace: who, when, and what it is.
//!
//! In front may stand, in this order: `[pid 12]` (standard error) or `12` (a file), the latter
//! with a name (`12<sh>`, `-Y`); a time (`-t`, `-tt`, `-ttt`, `-r`, `--absolute-timestamps`), and
//! the time since the line before in parentheses when both were asked for; `[  59]` (`-n`) and
//! `[00007f9f69c1cad7]` (`-i`).

use super::scan;

/// Greatest process number of Linux (PID_MAX_LIMIT, 2^22); a greater number in front is a time.
const PID_MAX: u64 = 1 << 22;
/// Seconds since 1970 are more than this (1973), seconds since the line before are less.
const EPOCH_MIN_NS: u64 = 100_000_000 * 1_000_000_000;

/// When, as the line says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing is said.
    Unsaid,
    /// Since 1970, ns.
    Epoch(u64),
    /// Since midnight, ns.
    OfDay(u64),
    /// Since the line before, ns.
    Since(u64),
}

/// A line without its front.
#[derive(Clone, Copy, Debug)]
pub struct Front<'a> {
    /// Thread, if it is said.
    pub tid: Option<u32>,
    /// When it was written, for a call: entered.
    pub when: When,
    /// The rest.
    pub body: &'a [u8],
}

/// Takes the front off.
pub fn front(line: &[u8]) -> Front<'_> {
    let (tid, rest) = thread(line);
    let (when, rest) = time(rest);
    let mut body = rest.trim_ascii_start();
    while body.first() == Some(&b'[') {
        let Some(end) = body.iter().take(24).position(|byte| *byte == b']') else {
            break;
        };
        let plain = |byte: &u8| byte.is_ascii_hexdigit() || matches!(*byte, b' ' | b'?');
        if !body[1..end].iter().all(plain) {
            break;
        }
        body = body[end + 1..].trim_ascii_start();
    }
    Front { tid, when, body }
}

fn thread(line: &[u8]) -> (Option<u32>, &[u8]) {
    let bracketed = line.strip_prefix(b"[pid");
    let text = bracketed.unwrap_or(line).trim_ascii_start();
    let Some((pid, mut rest)) = scan::digits(text) else {
        return (None, line);
    };
    if rest.first() == Some(&b'<') {
        let end = rest.iter().position(|byte| *byte == b'>');
        rest = end.map_or(rest, |end| &rest[end + 1..]);
    }
    if bracketed.is_some() {
        match rest.strip_prefix(b"]") {
            Some(after) => rest = after,
            None => return (None, line),
        }
    } else if line.first() == Some(&b' ') || rest.first() != Some(&b' ') {
        return (None, line);
    }
    match u32::try_from(pid) {
        Ok(pid) if u64::from(pid) <= PID_MAX && pid > 0 => (Some(pid), rest),
        _ => (None, line),
    }
}

fn time(text: &[u8]) -> (When, &[u8]) {
    let text = text.trim_ascii_start();
    let found = match text.get(..3) {
        Some([_, _, b':']) => scan::time_of_day(text).map(|(ns, rest)| (When::OfDay(ns), rest)),
        _ => None,
    };
    let found = found.or_else(|| {
        let (ns, rest) = scan::seconds(text)?;
        let since_epoch = ns >= EPOCH_MIN_NS;
        Some((
            if since_epoch {
                When::Epoch(ns)
            } else {
                When::Since(ns)
            },
            rest,
        ))
    });
    let Some((when, rest)) = found.filter(|(_, rest)| rest.first() == Some(&b' ')) else {
        return (When::Unsaid, text);
    };
    let rest = rest.trim_ascii_start();
    // Both asked for: "12:34:56.142637 (+     0.000000) execve(".
    let end = rest.iter().take(40).position(|byte| *byte == b')');
    match end {
        Some(end) if rest.starts_with(b"(+") => (when, &rest[end + 1..]),
        _ => (when, rest),
    }
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// `name(` and what follows it.
    Call(&'a [u8], &'a [u8]),
    /// `<... name resumed>` and what follows it.
    Resumed(&'a [u8], &'a [u8]),
    /// `+++ exited with 0 +++` or `+++ killed by SIGKILL +++`.
    Exit,
    /// Signals, attached processes, stacks: nothing to be counted.
    Remark,
    /// `strace: Process 12 attached`: the calls of a thread that was not seen so far follow.
    Attached(u32),
    /// Something else.
    Other,
}

/// Tells what it is.
pub fn body(text: &[u8]) -> Body<'_> {
    match text.first() {
        Some(b'+') if text.starts_with(b"+++ ") => {
            if text.starts_with(b"+++ exited") || text.starts_with(b"+++ killed") {
                Body::Exit
            } else {
                Body::Remark
            }
        }
        Some(b'-') if text.starts_with(b"--- ") => Body::Remark,
        Some(b'>') if text.starts_with(b"> ") => Body::Remark,
        Some(b'<') => resumed(text),
        Some(first) if first.is_ascii_lowercase() || *first == b'_' => call(text),
        Some(b'P') => attached(text).map_or(Body::Other, Body::Attached),
        _ => Body::Other,
    }
}

fn call(text: &[u8]) -> Body<'_> {
    let word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let len = text.iter().take_while(word).count();
    if text.get(len) == Some(&b'(') {
        return Body::Call(&text[..len], &text[len + 1..]);
    }
    match text.strip_prefix(b"strace: ") {
        Some(rest) => attached(rest).map_or(Body::Remark, Body::Attached),
        None => Body::Other,
    }
}

fn resumed(text: &[u8]) -> Body<'_> {
    let Some(rest) = text.strip_prefix(b"<... ") else {
        return Body::Other;
    };
    let Some(end) = rest.iter().position(|byte| *byte == b' ') else {
        return Body::Other;
    };
    let (name, rest) = rest.split_at(end);
    match rest.strip_prefix(b" resumed>") {
        Some(rest) => Body::Resumed(name, rest),
        None if name == b"resuming" => Body::Remark,
        None => Body::Other,
    }
}

fn attached(text: &[u8]) -> Option<u32> {
    let rest = text.strip_prefix(b"Process ")?;
    let (pid, rest) = scan::digits(rest)?;
    let pid = u32::try_from(pid).ok()?;
    rest.starts_with(b" attached").then_some(pid)
}

/// Where a remark about an attached process was written into an unfinished line, if it was.
pub fn interrupted_by(text: &[u8]) -> Option<(&[u8], u32)> {
    const MARK: &[u8] = b"strace: Process ";
    if !text.ends_with(b" attached") {
        return None;
    }
    let tail = text.len().saturating_sub(MARK.len() + 24);
    let at = text[tail..]
        .windows(MARK.len())
        .rposition(|part| part == MARK)?;
    let pid = attached(text[tail + at..].strip_prefix(b"strace: ")?)?;
    Some((&text[..tail + at], pid))
}

/// Takes `<unfinished ...>` off the end.
pub fn unfinished(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b"<unfinished ...>")?;
    Some(text.trim_ascii_end())
}

/// What a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// A result (negative is -errno), and what stands behind it: `3</path>`.
    Returned(i64, &'a [u8]),
    /// `?`: it is going to be called again, or never returned.
    Unknown,
}

/// What stands behind the arguments: result, and duration in ns if it was measured.
pub fn outcome(text: &[u8]) -> Option<(Outcome<'_>, Option<u64>)> {
    let text = scan::trim(text).strip_prefix(b"=")?.trim_ascii();
    let (text, duration) = match duration(text) {
        Some((text, ns)) => (text, Some(ns)),
        None => (text, None),
    };
    if text.first() == Some(&b'?') {
        return Some((Outcome::Unknown, duration));
    }
    let value = scan::number(text)?;
    if value < 0
        && let Some(rest) = text.strip_prefix(b"-1 E")
    {
        let len = rest.iter().take_while(|byte| **byte != b' ').count();
        let name = &text[3..4 + len];
        return Some((
            Outcome::Returned(-super::errno::number(name), text),
            duration,
        ));
    }
    Some((Outcome::Returned(value, text), duration))
}

/// `<0.000012>` at the end.
fn duration(text: &[u8]) -> Option<(&[u8], u64)> {
    let inner = text.strip_suffix(b">")?;
    let tail = inner.len().saturating_sub(32);
    let at = tail + inner[tail..].iter().rposition(|byte| *byte == b'<')?;
    let (ns, rest) = scan::seconds(&inner[at + 1..])?;
    (rest.is_empty() && inner[at + 1..].contains(&b'.')).then_some((text[..at].trim_ascii(), ns))
}
