//! Every NFSv4 argument and result is passed over exactly.
//!
//! `data/nfs4_operations.txt` holds values made from the XDR text of RFC 7863 and RFC 8276 by a
//! generator that knows XDR only. Each is put in front of a second operation: if the decoder takes
//! one byte too many or too few, the second operation is not found or bytes are left over.

use wire::nfs4::operation_name;
use wire::programs::{NFS, NFS4_CALLBACK_FIRST};
use wire::{End, summarise_call, summarise_reply};

/// `OP_PUTROOTFH`, and `OP_CB_RECALL_SLOT`: short, and not among the operations' first words.
const AFTER_FORE: u32 = 24;
const AFTER_BACK: u32 = 10;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

struct Vector {
    side: String,
    name: String,
    code: u32,
    bytes: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let inside = include_str!("../data/nfs4_operations.txt").to_owned();
    let text = match std::env::var("NFS4_OPERATIONS") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => inside,
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            Vector {
                side: parts[0].to_owned(),
                name: parts[1].to_owned(),
                code: parts[2].parse().unwrap(),
                bytes: unhex(parts[3]),
            }
        })
        .collect()
}

/// The vector inside a COMPOUND of two operations; the second one is `after`.
fn body(vector: &Vector, after: u32) -> Vec<u8> {
    let head: &[u32] = match vector.side.as_str() {
        "call" => &[0, 2, 2],
        "cb_call" => &[0, 2, 0, 2],
        _ => &[0, 0, 2],
    };
    let tail: &[u32] = match vector.side.as_str() {
        "call" => &[after],
        "cb_call" => &[after, 9],
        _ => &[after, 0],
    };
    let bytes = |words: &[u32]| {
        words
            .iter()
            .flat_map(|w| w.to_be_bytes())
            .collect::<Vec<u8>>()
    };
    [bytes(head), vector.bytes.clone(), bytes(tail)].concat()
}

fn decode(side: &str, body: &[u8], complete: bool) -> (End, Vec<u32>) {
    let program = if side.starts_with("cb") {
        NFS4_CALLBACK_FIRST
    } else {
        NFS
    };
    let version = if program == NFS { 4 } else { 1 };
    if side.ends_with("call") {
        let summary = summarise_call(program, version, 1, body, complete);
        let operations = summary.compound.map(|c| c.operations.iter().collect());
        (summary.end, operations.unwrap_or_default())
    } else {
        let summary = summarise_reply(program, version, 1, body, complete);
        let operations = summary.compound.map(|c| c.operations.iter().collect());
        (summary.end, operations.unwrap_or_default())
    }
}

#[test]
fn every_operation_ends_where_its_xdr_says() {
    let vectors = vectors();
    assert!(vectors.len() > 500, "{} vectors", vectors.len());
    for vector in &vectors {
        let after = if vector.side.starts_with("cb") {
            AFTER_BACK
        } else {
            AFTER_FORE
        };
        let (end, operations) = decode(&vector.side, &body(vector, after), true);
        let what = format!("{} {}", vector.side, vector.name);
        assert_eq!(end, End::Complete, "{what}");
        assert_eq!(operations, [vector.code, after], "{what}");
        if !vector.side.starts_with("cb") {
            assert_eq!(operation_name(vector.code), Some(vector.name.as_str()));
        }
    }
}

#[test]
fn every_operation_of_the_protocol_is_covered() {
    let vectors = vectors();
    for side in ["call", "reply"] {
        for code in (3..=75).chain([10044]) {
            assert!(
                vectors.iter().any(|v| v.side == side && v.code == code),
                "{side} {code}"
            );
        }
    }
    for side in ["cb_call", "cb_reply"] {
        for code in (3..=15).chain([10044]) {
            assert!(
                vectors.iter().any(|v| v.side == side && v.code == code),
                "{side} {code}"
            );
        }
    }
}

#[test]
fn a_cut_operation_is_truncated_and_never_malformed() {
    for vector in vectors().iter().filter(|v| v.bytes.len() < 400) {
        let whole = body(
            vector,
            if vector.side.starts_with("cb") {
                10
            } else {
                24
            },
        );
        for length in 0..whole.len() {
            let (end, operations) = decode(&vector.side, &whole[..length], false);
            assert!(
                matches!(end, End::Truncated(_)),
                "{} {length}: {end:?}",
                vector.name
            );
            assert!(operations.len() <= 2);
            let (end, _) = decode(&vector.side, &whole[..length], true);
            assert!(
                matches!(end, End::Malformed(_)),
                "{} {length}: {end:?}",
                vector.name
            );
        }
    }
}

/// Opcode, status, file handle, whether it is whole.
type Operation = (u32, Option<u32>, Option<Vec<u8>>, bool);

#[derive(Default)]
struct Seen(Vec<Operation>);
impl<'a> wire::Visitor<'a> for Seen {
    fn call_operation(&mut self, operation: &wire::summary::CallOperation<'a>) {
        let handle = operation.arguments.file_handle.map(<[u8]>::to_vec);
        self.0
            .push((operation.opcode, None, handle, operation.whole));
    }
    fn reply_operation(&mut self, operation: &wire::summary::ReplyOperation<'a>) {
        let handle = operation.results.file_handle.map(<[u8]>::to_vec);
        self.0.push((
            operation.opcode,
            operation.results.status,
            handle,
            operation.whole,
        ));
    }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A field that was cut is unknown: it never shows the operation in front (RFC 7531, by hand).
#[test]
fn nothing_is_carried_over_from_one_operation_to_the_next() {
    // READ of 3 words' state id first, so that all behind it are not the naming operation:
    // PUTFH a, READ, PUTFH b, GETATTR; the second handle is cut after one of its two words.
    let call = bytes_of(&[
        0,
        0,
        5,
        22,
        4,
        0xaaaa_aaaa,
        25,
        0,
        0,
        0,
        0,
        0,
        8,
        9,
        22,
        8,
        0xbbbb_bbbb,
    ]);
    let mut seen = Seen::default();
    let body = wire::Body::new(&call, false);
    let summary = wire::summarise_call_with([NFS, 4, 1], body, &mut seen);
    assert_eq!(summary.compound.and_then(|c| c.named_by), Some(25));
    assert_eq!(summary.arguments.file_handle, Some(&[0xaa; 4][..]));
    assert_eq!(seen.0[1], (25, None, Some(vec![0xaa; 4]), true));
    assert_eq!(seen.0[2], (22, None, None, false));
    // READ failed would end a COMPOUND; here PUTFH, READ (empty), PUTFH with its status cut.
    let reply = bytes_of(&[0, 0, 4, 25, 0, 1, 0, 22, 70, 22]);
    let mut seen = Seen::default();
    let body = wire::Body::new(&reply, false);
    wire::summarise_reply_with([NFS, 4, 1], body, &mut seen);
    assert_eq!(seen.0[1], (22, Some(70), None, true));
    assert_eq!(seen.0[2], (22, None, None, false));
}

/// A WRITE whose payload was not kept: the operations behind it are decoded all the same.
#[test]
fn operations_behind_a_hole_are_decoded() {
    let mut call = bytes_of(&[0, 1, 3, 22, 4, 0xaaaa_aaaa, 38, 0, 0, 0, 0, 0, 8, 2, 1001]);
    let head_bytes = call.len() + 100;
    call.resize(call.len() + 1004, 0x77);
    call.extend(bytes_of(&[9, 1, 0x18]));
    let whole = summarise_call(NFS, 4, 1, &call, true);
    assert_eq!(whole.end, End::Complete);
    for missing in [0, 1, 500, 904] {
        let tail = &call[head_bytes + missing..];
        let body = wire::Body::with_hole(&call[..head_bytes], missing, tail, true);
        let holed = wire::summarise_call_with([NFS, 4, 1], body, &mut wire::Ignore);
        assert_eq!(holed, whole);
        assert_eq!(holed.compound.map(|c| c.data_bytes), Some(1001));
    }
    // A hole that reaches into the next operation hides it.
    let body = wire::Body::with_hole(&call[..head_bytes], 905, &call[head_bytes + 905..], true);
    let holed = wire::summarise_call_with([NFS, 4, 1], body, &mut wire::Ignore);
    assert_ne!(holed.end, End::Complete);
}
