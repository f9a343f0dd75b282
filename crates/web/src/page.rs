//! Requests and the replies that belong to them: what the generator and the server both know.
//!
//! A dynamic page is a small HTML head that names what was asked for, the bytes of the static file,
//! and a foot. All parts have lengths that depend on the kind alone, so that the length of every
//! reply is known before it comes, and every byte can be checked.
//!
//! Paths: `/dynamic/standard?path=P&id=ID`, `/dynamic/cgi?path=P&id=ID`, `/dynamic/ad?path=P&id=ID`
//! with the cookie `nfslab=user=U&last_ad=A`, and `POST /post` with the body
//! `path=P&id=ID&fill=...`. P is a file's path as in [`crate::fileset`]; an id is the number of the
//! generator's thread and the number of its request, in hexadecimal ([`RequestId`]). The next ad is
//! [`next_ad`]; the server sets it as the cookie, too.

use serde::{Deserialize, Serialize};

use crate::fileset::{FileId, PATH_BYTES};

/// Ads that rotate.
pub const ADS: u16 = 360;
/// Kinds of requests.
pub const KINDS: usize = 5;
/// Length of an id in text.
pub const ID_BYTES: usize = 19;
/// Length of a POST's number in text.
const NUMBER_BYTES: usize = 12;
/// What stands behind a file in a dynamic page.
pub const SUFFIX: &[u8] = b"\n</pre>\n</body>\n</html>\n";
/// Longest body of a POST that the server takes.
pub const MAX_POST_BYTES: usize = 64 << 10;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file.
    StaticGet,
    /// A page made for each request, written as it is read.
    DynamicGet,
    /// The same, complete before its first byte is sent (no process is started).
    CgiGet,
    /// The same with an ad chosen by the cookie.
    AdGet,
    /// A line for the log.
    Post,
}

impl Kind {
    /// All of them, in the order of arrays in reports.
    pub const ALL: [Kind; KINDS] = [
        Kind::StaticGet,
        Kind::DynamicGet,
        Kind::CgiGet,
        Kind::AdGet,
        Kind::Post,
    ];

    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::StaticGet => "static_get",
            Kind::DynamicGet => "dynamic_get",
            Kind::CgiGet => "cgi_get",
            Kind::AdGet => "ad_get",
            Kind::Post => "post",
        }
    }

    /// Path of the dynamic part.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Kind::StaticGet => "/",
            Kind::DynamicGet => "/dynamic/standard",
            Kind::CgiGet => "/dynamic/cgi",
            Kind::AdGet => "/dynamic/ad",
            Kind::Post => "/post",
        }
    }

    /// The kind of page that a path asks for.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        [Kind::DynamicGet, Kind::CgiGet, Kind::AdGet, Kind::Post]
            .into_iter()
            .find(|kind| kind.path() == path)
    }
}

/// Which request: unique over all generator threads that have different writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// Generator process and thread.
    pub writer: u32,
    /// From 0, within the writer.
    pub number: u64,
}

impl RequestId {
    /// `writer-number`, 8 and 10 hexadecimal digits.
    #[must_use]
    pub fn text(self) -> [u8; ID_BYTES] {
        let mut text = [b'-'; ID_BYTES];
        let mut put = |range: std::ops::Range<usize>, mut rest: u64| {
            for at in range.rev() {
                if let Some(digit) = text.get_mut(at) {
                    *digit = b"0123456789abcdef"[(rest & 15) as usize];
                }
                rest >>= 4;
            }
        };
        put(0..8, u64::from(self.writer));
        put(9..ID_BYTES, self.number);
        text
    }

    /// The id of a text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let number = |range| u64::from_str_radix(text.get(range)?, 16).ok();
        let id = RequestId {
            writer: u32::try_from(number(0..8)?).ok()?,
            number: number(9..ID_BYTES)?,
        };
        (id.text() == text.as_bytes()).then_some(id)
    }
}

/// What a dynamic request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The static file in the page.
    pub file: FileId,
    /// Echoed.
    pub id: RequestId,
}

impl Asked {
    /// Appends `path=P&id=ID`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"path=");
        out.extend_from_slice(&self.file.path());
        out.extend_from_slice(b"&id=");
        out.extend_from_slice(&self.id.text());
    }

    /// Length of [`Asked::write`]'s text.
    pub const BYTES: usize = 5 + PATH_BYTES + 4 + ID_BYTES;

    /// Reads it; what follows after an `&` is left alone.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let rest = text.strip_prefix(b"path=")?;
        let (path, rest) = rest.split_at_checked(PATH_BYTES)?;
        let (id, rest) = rest.strip_prefix(b"&id=")?.split_at_checked(ID_BYTES)?;
        (rest.is_empty() || rest.starts_with(b"&")).then_some(())?;
        Some(Asked {
            file: FileId::from_path(path)?,
            id: RequestId::parse(id)?,
        })
    }
}

/// A user and the ad that was shown last: the cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cookie {
    /// Any number.
    pub user: u32,
    /// Below [`ADS`].
    pub last_ad: u16,
}

impl Cookie {
    /// Appends `nfslab=user=U&last_ad=A`, 8 and 3 decimal digits.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"nfslab=user=");
        decimal(u64::from(self.user % 100_000_000), 8, out);
        out.extend_from_slice(b"&last_ad=");
        decimal(u64::from(self.last_ad), 3, out);
    }

    /// Finds it in the value of a `Cookie` header.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let ours = header
            .split(';')
            .find_map(|part| part.trim().strip_prefix("nfslab=user="))?;
        let (user, last_ad) = ours.split_once("&last_ad=")?;
        let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
        (digits(user) && digits(last_ad)).then_some(())?;
        let last_ad = last_ad.parse().ok().filter(|ad| *ad < ADS)?;
        Some(Cookie {
            user: user.parse().ok()?,
            last_ad,
        })
    }
}

/// The ad after the last one: each user goes round in steps of an own, and sees all of them.
#[must_use]
pub const fn next_ad(cookie: Cookie) -> u16 {
    // Steps that have no divisor in common with 360.
    const STEPS: [u16; 8] = [1, 7, 11, 13, 17, 19, 23, 29];
    (cookie.last_ad + STEPS[(cookie.user % 8) as usize]) % ADS
}

fn decimal(mut rest: u64, digits: usize, out: &mut Vec<u8>) {
    let from = out.len();
    out.resize(from + digits, b'0');
    for digit in out.iter_mut().skip(from).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Appends what stands before the file in a dynamic page.
pub fn write_prefix(kind: Kind, asked: &Asked, ad: Option<u16>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<!DOCTYPE html>\n<html>\n<head><title>nfslab ");
    out.extend_from_slice(kind.name().as_bytes());
    out.extend_from_slice(b"</title></head>\n<body>\n<p>");
    out.extend_from_slice(&asked.file.path());
    out.push(b' ');
    out.extend_from_slice(&asked.id.text());
    out.extend_from_slice(b"</p>\n");
    if let Some(ad) = ad {
        out.extend_from_slice(b"<p>ad ");
        decimal(u64::from(ad), 3, out);
        out.extend_from_slice(b"</p>\n");
    }
    out.extend_from_slice(b"<pre>\n");
}

/// Length of [`write_prefix`]'s text.
#[must_use]
pub const fn prefix_bytes(kind: Kind) -> u64 {
    let ad = match kind {
        Kind::AdGet => 14,
        _ => 0,
    };
    (43 + kind.name().len() + 26 + PATH_BYTES + 1 + ID_BYTES + 5 + 6 + ad) as u64
}

/// Appends the reply to a POST: its id, and its number in the log.
pub fn write_posted(id: RequestId, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"posted ");
    out.extend_from_slice(&id.text());
    out.push(b' ');
    decimal(number, NUMBER_BYTES, out);
    out.push(b'\n');
}

/// Length of [`write_posted`]'s text, and of its part before the number.
pub const POSTED_BYTES: u64 = (POSTED_FRONT_BYTES + NUMBER_BYTES + 1) as u64;
/// See [`POSTED_BYTES`].
const POSTED_FRONT_BYTES: usize = 7 + ID_BYTES + 1;

/// Length of the body that belongs to a request.
#[must_use]
pub const fn reply_bytes(kind: Kind, file: FileId) -> u64 {
    match kind {
        Kind::StaticGet => file.bytes(),
        Kind::Post => POSTED_BYTES,
        _ => prefix_bytes(kind) + file.bytes() + SUFFIX.len() as u64,
    }
}

/// Whether `data` may stand at `offset` of the reply to a POST.
#[must_use]
pub fn is_posted(id: RequestId, offset: u64, data: &[u8]) -> bool {
    let mut expected = Vec::with_capacity(POSTED_BYTES as usize);
    write_posted(id, 0, &mut expected);
    let number = POSTED_FRONT_BYTES..POSTED_FRONT_BYTES + NUMBER_BYTES;
    let offset = offset as usize;
    let expected = expected.get(offset..).unwrap_or_default();
    data.len() <= expected.len()
        && data
            .iter()
            .zip(expected)
            .enumerate()
            .all(
                |(at, (byte, right))| match number.contains(&(offset + at)) {
                    true => byte.is_ascii_digit(),
                    false => byte == right,
                },
            )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked {
        file: FileId {
            directory: 7,
            class: 2,
            file: 3,
        },
        id: RequestId {
            writer: 0x2a,
            number: 0xbeef,
        },
    };

    #[test]
    fn lengths_are_known_before_the_text_is() {
        for kind in Kind::ALL {
            let mut text = Vec::new();
            let ad = (kind == Kind::AdGet).then_some(5);
            write_prefix(kind, &ASKED, ad, &mut text);
            assert_eq!(text.len() as u64, prefix_bytes(kind), "{kind:?}");
        }
        let mut text = Vec::new();
        write_posted(ASKED.id, 12, &mut text);
        assert_eq!(text, b"posted 0000002a-000000beef 000000000012\n");
        assert_eq!(text.len() as u64, POSTED_BYTES);
        assert!(is_posted(ASKED.id, 0, &text) && is_posted(ASKED.id, 30, &text[30..]));
        text[3] ^= 1;
        assert!(!is_posted(ASKED.id, 0, &text));
        assert!(!is_posted(ASKED.id, 40, b"x"));
    }

    #[test]
    fn a_query_is_read_as_it_was_written_and_not_otherwise() {
        let mut text = Vec::new();
        ASKED.write(&mut text);
        assert_eq!(
            text,
            b"path=file_set/dir00007/class2_3&id=0000002a-000000beef"
        );
        assert_eq!(text.len(), Asked::BYTES);
        assert_eq!(Asked::parse(&text), Some(ASKED));
        text.extend_from_slice(b"&fill=xyz");
        assert_eq!(Asked::parse(&text), Some(ASKED));
        for wrong in [
            "path=file_set/dir00007/class2_3&id=0000002a-000000beeg",
            "path=file_set/dir00007/class2_3&id=0000002A-000000BEEF",
            "path=file_set/../../etc/passwd&id=0000002a-000000beef",
            "path=file_set/dir00007/class2_3&id=0000002a-000000beefx",
            "path=",
        ] {
            assert_eq!(Asked::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn every_user_sees_all_ads_in_turn() {
        for user in 0..8 {
            let mut cookie = Cookie { user, last_ad: 3 };
            let mut seen = std::collections::HashSet::new();
            for _ in 0..ADS {
                let mut text = Vec::new();
                cookie.write(&mut text);
                let text = format!("a=b; {}; c=d", String::from_utf8(text).unwrap());
                assert_eq!(Cookie::parse(&text), Some(cookie));
                cookie.last_ad = next_ad(cookie);
                seen.insert(cookie.last_ad);
            }
            assert_eq!(seen.len(), 360);
        }
        for wrong in [
            "",
            "nfslab=user=1",
            "nfslab=user=1&last_ad=360",
            "nfslab=user=+1&last_ad=1",
        ] {
            assert_eq!(Cookie::parse(wrong), None, "{wrong}");
        }
    }
}
