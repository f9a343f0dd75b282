//! What the first bytes of a file say it is.
//!
//! Formats are told by their magic numbers, never by a file's name. What is no capture is named
//! in words a person can act on ("a PDF document"), since the mistake is usually a mixed-up file.

/// What may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Magic {
    /// pcap of any byte order and resolution.
    Pcap,
    /// pcapng.
    PcapNg,
    /// gzip (RFC 1952), deflate inside.
    Gzip,
    /// Zstandard (RFC 8878), frames or skippable frames.
    Zstd,
    /// Nothing that is read, or too few bytes to say.
    Other,
}

/// Bytes that decide [`Magic`].
pub(super) const MAGIC_BYTES: usize = 4;
/// Bytes that [`describe`] likes to see.
pub(super) const DESCRIBE_BYTES: usize = 4096;

/// What begins with these bytes.
pub(super) fn magic(bytes: &[u8]) -> Magic {
    let Some(first) = bytes.first_chunk::<4>() else {
        return Magic::Other;
    };
    match u32::from_be_bytes(*first) {
        0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 | 0xa1b2_cd34 | 0x34cd_b2a1 => {
            Magic::Pcap
        }
        0x0a0d_0d0a => Magic::PcapNg,
        0x28b5_2ffd => Magic::Zstd,
        // 0x184D2A50 to 5F, little-endian: skippable frames, as pzstd writes.
        word if word & 0xf0ff_ffff == 0x502a_4d18 => Magic::Zstd,
        word if word >> 8 == 0x001f_8b08 => Magic::Gzip,
        _ => Magic::Other,
    }
}

/// Beginnings of files that people hand over by mistake.
const KNOWN: &[(&[u8], &str)] = &[
    (
        b"snoop\0\0\0",
        "a snoop capture (Wireshark's editcap converts it)",
    ),
    (
        b"GMBU",
        "a Network Monitor 2 capture (Wireshark's editcap converts it)",
    ),
    (
        b"RTSS",
        "a Network Monitor 1 capture (Wireshark's editcap converts it)",
    ),
    (
        b"TRSNIFF data",
        "a Sniffer capture (Wireshark's editcap converts it)",
    ),
    (
        b"XCP\0",
        "a NetXRay capture (Wireshark's editcap converts it)",
    ),
    (
        b"iptrace ",
        "an AIX iptrace capture (Wireshark's editcap converts it)",
    ),
    (
        b"\xa1\xe2\xcb\x12",
        "a pcap variant of Navtel, which is not read",
    ),
    (
        b"\xfd7zXZ\0",
        "xz-compressed data (decompress it with `xz -dc FILE |`)",
    ),
    (
        b"BZh",
        "bzip2-compressed data (decompress it with `bzip2 -dc FILE |`)",
    ),
    (
        b"\x04\x22\x4d\x18",
        "lz4-compressed data (decompress it with `lz4 -dc FILE |`)",
    ),
    (
        b"\x1f\x9d",
        "data compressed by `compress` (decompress it with `zcat FILE |`)",
    ),
    (b"PK\x03\x04", "a zip archive (unpack it first)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive (unpack it first)"),
    (b"Rar!", "a rar archive (unpack it first)"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ", "a Windows program"),
    (b"#!", "a script"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xd0\xcf\x11\xe0", "an Office document"),
    (b"!<arch>", "an ar archive"),
];

/// What bytes that are no capture look like, in words.
pub(super) fn describe(bytes: &[u8]) -> String {
    for (begin, words) in KNOWN {
        if bytes.starts_with(begin) {
            return (*words).to_owned();
        }
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return "a tar archive (unpack it first)".to_owned();
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return "zero bytes (a file that was set up but never written?)".to_owned();
    }
    if let Some(text) = text(bytes) {
        return describe_text(text).to_owned();
    }
    if looks_like_erf(bytes) {
        return "perhaps an ERF capture (Wireshark's editcap converts it)".to_owned();
    }
    let shown = bytes.iter().take(8);
    let shown: Vec<String> = shown.map(|byte| format!("{byte:02x}")).collect();
    format!("bytes of no known format ({})", shown.join(" "))
}

/// The bytes as text, if they are: UTF-8 (perhaps cut within a character), no control characters.
fn text(bytes: &[u8]) -> Option<&str> {
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}');
    (!valid.is_empty() && !valid.contains(odd)).then_some(valid)
}

fn describe_text(text: &str) -> &'static str {
    let begin = text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']);
    let lower: String = begin.chars().take(16).collect::<String>().to_lowercase();
    let json = begin.starts_with('{')
        || begin
            .strip_prefix('[')
            .is_some_and(|rest| rest.trim_start().starts_with(['{', '"', '[', ']']));
    if json {
        "JSON text"
    } else if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
        "an HTML page"
    } else if begin.starts_with("<?xml") {
        "XML text"
    } else if begin.starts_with("0000") && begin.get(4..6).is_some_and(|it| it.contains(' ')) {
        "a hex dump in text (Wireshark's text2pcap converts it)"
    } else if printed_packets(begin) {
        "packets printed as text (capture with `tcpdump -w FILE`)"
    } else {
        "text"
    }
}

/// A line as tcpdump prints it: `12:34:56.789012 IP ...`.
fn printed_packets(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let clock = line.as_bytes().get(..9).unwrap_or_default();
    let is_clock = clock.iter().enumerate().all(|(at, byte)| match at {
        2 | 5 => *byte == b':',
        8 => *byte == b'.',
        _ => byte.is_ascii_digit(),
    });
    clock.len() == 9 && is_clock && (line.contains(" IP") || line.contains(" ARP"))
}

/// ERF has no magic: two records of a known type whose lengths fit each other.
fn looks_like_erf(bytes: &[u8]) -> bool {
    let record = |at: usize| {
        let head: &[u8; 16] = bytes.get(at..)?.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([head[10], head[11]]));
        let wire = usize::from(u16::from_be_bytes([head[14], head[15]]));
        let kind = head[8] & 0x7f;
        let plausible = (1..=48).contains(&kind) && length >= 16 && wire > 0;
        plausible.then_some(at + length)
    };
    record(0).and_then(record).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_their_magic_numbers() {
        assert_eq!(magic(b"\xd4\xc3\xb2\xa1\x02\0"), Magic::Pcap);
        assert_eq!(magic(b"\xa1\xb2\x3c\x4d"), Magic::Pcap);
        assert_eq!(magic(b"\x0a\x0d\x0d\x0a"), Magic::PcapNg);
        assert_eq!(magic(b"\x1f\x8b\x08\0"), Magic::Gzip);
        assert_eq!(magic(b"\x28\xb5\x2f\xfd"), Magic::Zstd);
        assert_eq!(magic(b"\x5e\x2a\x4d\x18"), Magic::Zstd);
        assert_eq!(magic(b"\x1f\x8b"), Magic::Other);
        assert_eq!(magic(b"text"), Magic::Other);
    }

    #[test]
    fn what_it_is_instead_in_words() {
        let words = |bytes: &[u8]| describe(bytes);
        assert_eq!(words(b"%PDF-1.7"), "a PDF document");
        assert_eq!(words(b"{\"a\": 1}"), "JSON text");
        assert_eq!(words(b"[ {\"a\": 1}]"), "JSON text");
        assert_eq!(words(b"<!DOCTYPE html>"), "an HTML page");
        assert_eq!(words(b"plain words\n"), "text");
        assert_eq!(words("gr\u{fc}n".as_bytes()), "text");
        let printed = b"12:34:56.789012 IP 10.0.0.1.900 > 10.0.0.2.2049: Flags [S]\n";
        assert!(words(printed).starts_with("packets printed as text"));
        assert!(words(b"\x7fELF\x02").contains("ELF"));
        assert!(words(&[0; 64]).starts_with("zero bytes"));
        assert!(words(b"\xfd7zXZ\0\0").starts_with("xz"));
        assert_eq!(
            words(b"\x01\xff\xfe"),
            "bytes of no known format (01 ff fe)"
        );
        let mut tar = vec![b'a'; 257];
        tar.extend_from_slice(b"ustar\0");
        assert!(words(&tar).starts_with("a tar archive"));
    }

    #[test]
    fn erf_by_two_records_that_fit() {
        let mut record = vec![1, 2, 3, 4, 5, 6, 7, 8, 2, 4, 0, 32, 0, 0, 0, 60];
        record.resize(32, 0xee);
        let two = [record.clone(), record].concat();
        assert!(describe(&two).contains("ERF"));
    }
}
