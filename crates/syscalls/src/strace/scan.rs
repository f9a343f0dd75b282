//! Pieces of a line that strace or perf trace wrote: numbers, times, quoted strings, arguments.
//!
//! strace escapes what it prints within quotes and between `<` and `>` after a descriptor, so that
//! a quote, a `<` or a `>` of a path never stands there as it is (util.c of strace 6.1,
//! `string_quote` with `QUOTE_FORCE_...`); what is nested is counted.

/// Most arguments that are looked at; no call of interest has more than six.
pub const ARGUMENTS_MAX: usize = 8;
/// Deepest nesting of brackets that is understood.
const DEPTH_MAX: usize = 64;

/// The arguments of a call, as they were printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arguments<'a> {
    all: [&'a [u8]; ARGUMENTS_MAX],
    len: usize,
}

impl<'a> Arguments<'a> {
    /// By place (strace).
    pub fn at(&self, place: usize) -> Option<&'a [u8]> {
        self.all[..self.len].get(place).copied()
    }

    /// By name (`fd: 3`, perf trace).
    pub fn named(&self, name: &str) -> Option<&'a [u8]> {
        self.all[..self.len].iter().find_map(|argument| {
            let rest = argument.strip_prefix(name.as_bytes())?;
            Some(trim(rest.strip_prefix(b":")?))
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.all[..self.len].iter().copied()
    }

    fn push(&mut self, argument: &'a [u8]) {
        if self.len < ARGUMENTS_MAX {
            self.all[self.len] = trim(argument);
            self.len += 1;
        }
    }
}

/// Without spaces around it.
pub fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// Splits what follows the opening parenthesis of a call: its arguments and what stands behind
/// the closing one. None when it is not closed (the call is unfinished).
pub fn arguments(text: &[u8]) -> (Arguments<'_>, Option<&[u8]>) {
    let mut found = Arguments::default();
    let (mut depth, mut from, mut at) = (0_usize, 0_usize, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = after_quotes(text, at);
                continue;
            }
            b'<' if decorates(text, at) => {
                at = after_decoration(text, at);
                continue;
            }
            b'/' if text.get(at + 1) == Some(&b'*') => {
                at = after_comment(text, at);
                continue;
            }
            b'(' | b'[' | b'{' if depth < DEPTH_MAX => depth += 1,
            b')' if depth == 0 => {
                if !trim(&text[from..at]).is_empty() {
                    found.push(&text[from..at]);
                }
                return (found, text.get(at + 1..));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if from < text.len() && !trim(&text[from..]).is_empty() {
        found.push(&text[from..]);
    }
    (found, None)
}

/// Behind the quoted string that begins at `at`; the end if it is not closed.
pub fn after_quotes(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Does this `<` begin what a descriptor is (`3</path>`, `AT_FDCWD</path>`)? A shift is `21<<X`.
fn decorates(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    before.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'D' || *byte == b'/')
        && text.get(at + 1) != Some(&b'<')
}

/// Behind the `>` that belongs to the `<` at `at`: `<char 1:3>` may be within, and `->`.
fn after_decoration(text: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    for (place, byte) in text.iter().enumerate().skip(at) {
        match byte {
            b'<' => depth += 1,
            b'>' if text.get(place.wrapping_sub(1)) == Some(&b'-') => {}
            b'>' => {
                depth -= 1;
                if depth == 0 {
                    return place + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

fn after_comment(text: &[u8], at: usize) -> usize {
    let rest = text.get(at + 2..).unwrap_or_default();
    let end = rest.windows(2).position(|pair| pair == b"*/");
    end.map_or(text.len(), |end| at + 2 + end + 2)
}

/// The digits in front, as a number, and the rest.
pub fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = decimal(text.get(..len)?)?;
    Some((value, &text[len..]))
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

/// A number as strace prints it in front of `text`: decimal, hexadecimal or octal, maybe negative.
pub fn number(text: &[u8]) -> Option<i64> {
    let text = trim(text);
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let value = match text.strip_prefix(b"0x") {
        Some(hexadecimal) => radix(hexadecimal, 16)?,
        None if text.len() > 1 && text[0] == b'0' && text[1].is_ascii_digit() => radix(text, 8)?,
        None => digits(text)?.0,
    };
    // Sizes and offsets beyond 2^63 are negative numbers that were printed without a sign.
    let value = value as i64;
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

fn radix(text: &[u8], base: u32) -> Option<u64> {
    let valid = |byte: &&u8| char::from(**byte).is_digit(base);
    let len = text.iter().take_while(valid).count();
    let front = std::str::from_utf8(text.get(..len)?).ok()?;
    u64::from_str_radix(front, base).ok()
}

/// Seconds with a fraction in front of `text` as ns, and the rest.
pub fn seconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let (whole, rest) = digits(text)?;
    let whole_ns = whole.checked_mul(1_000_000_000)?;
    let Some(rest) = rest.strip_prefix(b".") else {
        return Some((whole_ns, rest));
    };
    let (fraction_ns, rest) = fraction(rest, 9)?;
    Some((whole_ns.checked_add(fraction_ns)?, rest))
}

/// A decimal fraction of a unit of `10^scale` ns, and the rest; digits below 1 ns are left out.
fn fraction(text: &[u8], scale: usize) -> Option<(u64, &[u8])> {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let kept = len.min(scale);
    let value = if kept == 0 {
        0
    } else {
        decimal(&text[..kept])?
    };
    Some((value * 10_u64.pow((scale - kept) as u32), &text[len..]))
}

/// Milliseconds with a fraction in front of `text` as ns, and the rest (perf trace).
pub fn milliseconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let (whole, rest) = digits(text)?;
    let (fraction_ns, rest) = fraction(rest.strip_prefix(b".")?, 6)?;
    let whole_ns = whole.checked_mul(1_000_000)?;
    Some((whole_ns.checked_add(fraction_ns)?, rest))
}

/// A time of day (`12:34:56.789012`) as ns since midnight, and the rest.
pub fn time_of_day(text: &[u8]) -> Option<(u64, &[u8])> {
    let (hours, rest) = digits(text)?;
    let (minutes, rest) = digits(rest.strip_prefix(b":")?)?;
    let (seconds_ns, rest) = seconds(rest.strip_prefix(b":")?)?;
    let valid = hours < 24 && minutes < 60 && seconds_ns < 61_000_000_000;
    valid.then(|| ((hours * 60 + minutes) * 60_000_000_000 + seconds_ns, rest))
}

/// The path of a quoted string; None when it is not one, or was cut short (`"..."...`).
pub fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let text = trim(text);
    let end = after_quotes(text, 0);
    if text.first() != Some(&b'"') || end < 2 || text.get(end - 1) != Some(&b'"') {
        return None;
    }
    text[end..].is_empty().then(|| unescaped(&text[1..end - 1]))
}

/// With strace's escapes taken back.
pub fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let Some(escaped) = text.get(at) else {
            break;
        };
        at += 1;
        match escaped {
            b'n' => plain.push(b'\n'),
            b't' => plain.push(b'\t'),
            b'r' => plain.push(b'\r'),
            b'f' => plain.push(b'\x0c'),
            b'v' => plain.push(b'\x0b'),
            b'x' => {
                let front = text.get(at..(at + 2).min(text.len())).unwrap_or_default();
                let value = radix(front, 16).unwrap_or(u64::from(b'x'));
                plain.push(value as u8);
                at += front.iter().take_while(|b| b.is_ascii_hexdigit()).count();
            }
            b'0'..=b'7' => {
                let front = text.get(at - 1..(at + 2).min(text.len()));
                let front = front.unwrap_or_default();
                let len = front
                    .iter()
                    .take_while(|b| (b'0'..=b'7').contains(b))
                    .count();
                plain.push(radix(&front[..len], 8).unwrap_or(0) as u8);
                at += len - 1;
            }
            other => plain.push(*other),
        }
    }
    plain
}

/// What a descriptor was said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<'a> {
    /// Nothing was said (no `-y`).
    Nothing,
    /// A file: its path as it was printed, and whether it has lost its name.
    Path(&'a [u8], bool),
    /// A socket, a pipe, a device and the like.
    Other,
}

/// A descriptor and what it was said to be: `3`, `3</path>`, `3</path>(deleted)`,
/// `AT_FDCWD</path>` (-100).
pub fn descriptor(text: &[u8]) -> Option<(i32, Shown<'_>)> {
    let text = trim(text);
    let (number, rest) = match text.strip_prefix(b"AT_FDCWD").or(text.strip_prefix(b"CWD")) {
        Some(rest) => (-100, rest),
        None => {
            let (negative, front) = match text.strip_prefix(b"-") {
                Some(rest) => (true, rest),
                None => (false, text),
            };
            let (value, rest) = match front.strip_prefix(b"0x") {
                Some(hexadecimal) => {
                    let valid = |byte: &&u8| byte.is_ascii_hexdigit();
                    let len = hexadecimal.iter().take_while(valid).count();
                    (radix(hexadecimal, 16)?, &hexadecimal[len..])
                }
                None => digits(front)?,
            };
            let value = i32::try_from(value).ok()?;
            (if negative { -value } else { value }, rest)
        }
    };
    Some((number, shown(rest)))
}

fn shown(text: &[u8]) -> Shown<'_> {
    if text.first() != Some(&b'<') {
        return Shown::Nothing;
    }
    let end = after_decoration(text, 0);
    let inner = text.get(1..end.saturating_sub(1)).unwrap_or_default();
    // All in hexadecimal (-xx).
    if inner.starts_with(b"\\x2f") {
        let deleted = text[end..].starts_with(b"(deleted)");
        return if is_device(&unescaped(inner)) {
            Shown::Other
        } else {
            Shown::Path(inner, deleted)
        };
    }
    if inner.first() != Some(&b'/') || inner.contains(&b'<') {
        let block = inner.windows(7).any(|part| part == b"<block ");
        let path = inner.split(|byte| *byte == b'<').next();
        return match path {
            Some(path) if block => Shown::Path(path, false),
            _ => Shown::Other,
        };
    }
    if is_device(inner) {
        return Shown::Other;
    }
    let deleted = text[end..].starts_with(b"(deleted)");
    // perf trace shows what the kernel says: `/path (deleted)`.
    match inner.strip_suffix(b" (deleted)") {
        Some(path) => Shown::Path(path, true),
        None => Shown::Path(inner, deleted),
    }
}

/// Is this the path of a character device that is met often? (`-yy` says it of all.)
pub fn is_device(path: &[u8]) -> bool {
    let Some(name) = path.strip_prefix(b"/dev/") else {
        return false;
    };
    const NAMES: [&[u8]; 9] = [
        b"null", b"zero", b"full", b"random", b"urandom", b"ptmx", b"console", b"fuse", b"kmsg",
    ];
    NAMES.contains(&name) || name.starts_with(b"tty") || name.starts_with(b"pts/")
}
