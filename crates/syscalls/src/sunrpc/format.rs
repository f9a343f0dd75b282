//! Where the fields of a tracepoint's records lie, as tracefs says it (`events/*/*/format`).
//!
//! Source: Documentation/trace/events.rst, "Event formats". Kernels differ in offsets and in which
//! fields there are: nothing is assumed of either.

use std::collections::HashMap;

/// Longest text that is read.
const TEXT_MAX: usize = 64;

/// A tracepoint's number and fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// For perf_event_open(2).
    pub number: u64,
    fields: HashMap<String, Field>,
}

/// Bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
}

impl Format {
    /// Of the file's text; None when it has no number.
    pub fn parse(text: &str) -> Option<Self> {
        let mut format = Format::default();
        let mut number = None;
        for line in text.lines().map(str::trim) {
            if let Some(id) = line.strip_prefix("ID:") {
                number = id.trim().parse().ok();
            } else if let Some(declared) = line.strip_prefix("field:") {
                format.fields.extend(field(declared));
            }
        }
        format.number = number?;
        Some(format)
    }

    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }
}

/// `u32 xid; offset:16; size:4; signed:0;`, with tabs in between.
fn field(declared: &str) -> Option<(String, Field)> {
    let mut parts = declared.split(';').map(str::trim);
    let declaration = parts.next()?;
    let name = declaration.split_whitespace().last()?;
    let name = name.split('[').next()?.trim_start_matches('*');
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            _ => {}
        }
    }
    let place = Field {
        offset: offset?,
        size: size?,
    };
    Some((name.to_owned(), place))
}

impl Field {
    /// The number in a record; None where the record is too short, or no number is that long.
    pub fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        match self.size {
            1 => Some(u64::from(*bytes.first()?)),
            2 => Some(u64::from(u16::from_ne_bytes(bytes.try_into().ok()?))),
            4 => Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?))),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// The text that a `__data_loc` leads to: length and place in one number. Without its end mark.
    pub fn text(self, record: &[u8]) -> Option<&str> {
        let place = self.number(record)?;
        let (at, length) = ((place & 0xffff) as usize, (place >> 16) as usize);
        let bytes = record.get(at..at.checked_add(length.min(TEXT_MAX))?)?;
        let bytes = bytes.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXTS: &str = "(ID: [0-9]{1,21}|field:[a-z_*\\[\\] ]{0,12};|\toffset:[0-9]{1,21};\
        |size:[0-9]{0,21};|\n){0,24}";

    /// As Linux 6.12 prints it.
    const PRINTED: &str = "name: rpc_stats_latency\nID: 1723\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:u32 xid;\toffset:16;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc char[] progname;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned long rtt;\toffset:40;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"xid=0x%08x\", REC->xid\n";

    #[test]
    fn fields_are_found_by_name() {
        let format = Format::parse(PRINTED).unwrap();
        assert_eq!(format.number, 1723);
        let mut record = vec![0; 56];
        record[16..20].copy_from_slice(&0x8421_0007_u32.to_ne_bytes());
        record[24..28].copy_from_slice(&((4_u32 << 16) | 48).to_ne_bytes());
        record[40..48].copy_from_slice(&123_456_789_012_u64.to_ne_bytes());
        record[48..52].copy_from_slice(b"nfs\0");
        let of = |name: &str| format.field(name).unwrap();
        assert_eq!(of("xid").number(&record), Some(0x8421_0007));
        assert_eq!(of("rtt").number(&record), Some(123_456_789_012));
        assert_eq!(of("progname").text(&record), Some("nfs"));
        assert_eq!(format.field("execute"), None);
        assert_eq!(of("rtt").number(&record[..47]), None);
        assert_eq!(of("progname").text(&record[..50]), None);
    }

    #[test]
    fn a_text_without_a_number_is_no_format() {
        assert_eq!(Format::parse("name: x\nformat:\n"), None);
        assert_eq!(Format::parse(""), None);
    }

    proptest! {
        #[test]
        fn nothing_breaks_it(text in TEXTS,
                             record: Vec<u8>) {
            if let Some(format) = Format::parse(&text) {
                for field in format.fields.values() {
                    let _ = (field.number(&record), field.text(&record));
                }
            }
        }
    }
}
