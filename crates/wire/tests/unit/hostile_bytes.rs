//! Random, mutated and cut bytes: never a panic, never an allocation beyond what came; recognition
//! and record marking.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::record::{RecordDecoder, RecordMark, begin_record, finish_record};
use wire::rpc::recognise::{Found, looks_like_record};
use wire::rpc::*;
use wire::{Decode, nfs3, programs, summarise_call, summarise_reply};

/// Counts the bytes that this thread asks for.
struct Counting;
thread_local!(static ALLOCATED: Cell<usize> = const { Cell::new(0) });
// SAFETY: passes every request on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().saturating_add(layout.size()));
        // SAFETY: as the caller of `alloc` promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller of `dealloc` promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}
#[global_allocator]
static COUNTING: Counting = Counting;

fn allocated(work: impl FnOnce()) -> usize {
    let before = ALLOCATED.get();
    work();
    ALLOCATED.get() - before
}

/// Bytes of a list element in memory for each byte on the wire: growth by doubling included.
const MEMORY_PER_WIRE_BYTE: usize = 64;

/// The first plausible record; records start at any byte of a stream (TCP keeps no alignment).
fn find_record(stream: &[u8]) -> Option<(usize, RecordMark, Found<'_>)> {
    (0..stream.len()).find_map(|offset| {
        let (mark, found) = looks_like_record(&stream[offset..])?;
        Some((offset, mark, found))
    })
}

fn everything(program: u32, version: u32, procedure: u32, body: &[u8], complete: bool) {
    let used = allocated(|| {
        let _ = summarise_call(program, version, procedure, body, complete);
        let _ = summarise_reply(program, version, procedure, body, complete);
        let _ = (
            looks_like_call(body),
            looks_like_reply(body),
            find_record(body),
        );
    });
    assert_eq!(used, 0, "summaries allocate nothing");
    let used = allocated(|| {
        let _ = nfs3::READDIRPLUS3res::decode_whole(body, "body");
        let _ = nfs3::READDIR3res::decode_whole(body, "body");
        let _ = wire::mount::mountres3::decode_whole(body, "body");
        let _ = wire::mount::exports::decode_whole(body, "body");
    });
    assert!(
        used <= 1024 + body.len() * MEMORY_PER_WIRE_BYTE * 5,
        "{used} for {}",
        body.len()
    );
}

fn place() -> impl Strategy<Value = (u32, u32, u32)> {
    use programs::*;
    let program = prop::sample::select(vec![NFS, MOUNT, NLM, NSM, NFSACL, PORTMAP, 0x4000_0000]);
    (program, 1u32..5, 0u32..25)
}

fn valid() -> Vec<(u32, u32, u32, bool, Vec<u8>)> {
    include_str!("../data/captured_messages.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            let number = |key: &str| {
                let part = parts[3..].iter().find_map(|part| part.strip_prefix(key));
                part.unwrap().parse::<u32>().unwrap()
            };
            let bytes = (0..parts[2].len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&parts[2][i..i + 2], 16).unwrap())
                .collect();
            let place = (number("program="), number("version="), number("procedure="));
            (place.0, place.1, place.2, parts[0] == "call", bytes)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes((program, version, procedure) in place(), body in vec(any::<u8>(), 0..400)) {
        everything(program, version, procedure, &body, true);
        everything(program, version, procedure, &body, false);
    }

    #[test]
    fn small_words((program, version, procedure) in place(),
        words in vec(prop_oneof![0u32..4, 0u32..80, any::<u32>()], 0..60)) {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        everything(program, version, procedure, &body, true);
    }

    #[test]
    fn mutated_messages(index in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>()) {
        let all = valid();
        let (program, version, procedure, is_call, mut bytes) = all[index.index(all.len())].clone();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
            let start = if is_call {
                Call::parse(bytes).map_or(0, |call| call.body_offset)
            } else {
                Reply::parse(bytes).map_or(0, |reply| reply.body_offset)
            };
            everything(program, version, procedure, &bytes[start..], true);
        }
    }

    #[test]
    fn random_bytes_are_no_record(bytes in vec(any::<u8>(), 0..2000)) {
        prop_assert_eq!(find_record(&bytes), None);
    }

    #[test]
    fn records_in_any_split(
        records in vec((vec(any::<u8>(), 0..300), 1usize..5), 1..8),
        pieces in vec(1usize..200, 1..40),
    ) {
        let mut stream = Vec::new();
        for (record, fragments) in &records {
            let size = record.len().div_ceil(*fragments).max(1);
            let mut parts = record.chunks(size).peekable();
            if record.is_empty() {
                stream.extend(RecordMark { length: 0, last: true }.to_bytes());
            }
            while let Some(part) = parts.next() {
                let mark = RecordMark { length: part.len() as u32, last: parts.peek().is_none() };
                stream.extend(mark.to_bytes());
                stream.extend_from_slice(part);
            }
        }
        let mut decoder = RecordDecoder::new(1 << 20);
        let (mut found, mut rest, mut turn) = (Vec::new(), &stream[..], pieces.iter().cycle());
        while !rest.is_empty() {
            let (mut now, later) = rest.split_at((*turn.next().unwrap()).min(rest.len()));
            rest = later;
            while !now.is_empty() {
                let fed = decoder.feed(now).unwrap();
                let consumed = fed.consumed;
                found.extend(fed.record.map(<[u8]>::to_vec));
                now = &now[consumed..];
            }
        }
        prop_assert!(decoder.is_idle());
        let sent: Vec<Vec<u8>> = records.into_iter().map(|(record, _)| record).collect();
        prop_assert_eq!(found, sent);
    }
}

#[test]
fn a_claimed_length_is_never_allocated() {
    let mark = RecordMark {
        length: 1 << 20,
        last: true,
    }
    .to_bytes();
    let used = allocated(|| {
        let mut decoder = RecordDecoder::new(1 << 24);
        assert!(decoder.feed(&mark).unwrap().record.is_none());
        assert!(decoder.feed(&[1; 100]).unwrap().record.is_none());
        assert_eq!(decoder.buffered_bytes(), 100);
    });
    assert!(used < 1024, "{used}");
    let too_long = RecordMark {
        length: (1 << 20) + 1,
        last: true,
    }
    .to_bytes();
    assert!(RecordDecoder::new(1 << 20).feed(&too_long).is_err());
    // Two fragments that are too long together.
    let mut decoder = RecordDecoder::new(1000);
    let mut stream = RecordMark {
        length: 600,
        last: false,
    }
    .to_bytes()
    .to_vec();
    stream.extend([0; 600]);
    stream.extend(
        RecordMark {
            length: 600,
            last: true,
        }
        .to_bytes(),
    );
    assert!(decoder.feed(&stream).is_err());
}

#[test]
fn records_are_found_behind_a_hole() {
    for (.., is_call, message) in valid() {
        let mut stream = vec![0x5a; 1001];
        let place = begin_record(&mut stream);
        stream.extend_from_slice(&message);
        finish_record(&mut stream, place, 0).unwrap();
        let (offset, mark, found) = find_record(&stream).unwrap();
        assert_eq!((offset, mark.length as usize), (1001, message.len()));
        assert_eq!(matches!(found, Found::Call(_)), is_call);
        // A capture with a short snaplen: the fixed words of a call are enough.
        if is_call {
            assert!(looks_like_record(&stream[1001..1001 + 28]).is_some());
        }
    }
}

/// RFC 9289 section 4.1: a NULL call with AUTH_TLS, answered with STARTTLS.
#[test]
fn tls_probe() {
    let mut call = Vec::new();
    let tls = OpaqueAuth {
        flavor: auth::AUTH_TLS,
        body: &[],
    };
    encode_call(&mut call, 1, [100_003, 4, 0], &tls, &OpaqueAuth::NONE).unwrap();
    assert_eq!(call.len(), 40);
    assert!(looks_like_call(&call).unwrap().is_tls_probe());
    let mut reply = Vec::new();
    let granted = OpaqueAuth {
        flavor: auth::AUTH_NONE,
        body: b"STARTTLS",
    };
    encode_reply(&mut reply, 1, &granted, ReplyStatus::Success).unwrap();
    assert!(looks_like_reply(&reply).is_some());
    assert!(looks_like_tls_record(&[22, 3, 1, 2, 0, 1]));
    assert!(!looks_like_tls_record(&[22, 3, 9, 2, 0, 1]));
}

/// RFC 2203 sections 5.3.1 and 5.3.2.2, by hand: an integrity-protected GETATTR of NFSv3.
#[test]
fn gss_integrity_is_unwrapped_and_privacy_is_not() {
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|w| w.to_be_bytes())
            .collect::<Vec<u8>>()
    };
    let header = |service| {
        // xid, CALL, RPC 2, NFS 3, GETATTR; cred: flavour 6, length 24: version 1, DATA,
        // sequence 5, service, handle of 4 bytes; verifier: flavour 6, a checksum of 4 bytes.
        words(&[
            7,
            0,
            2,
            100_003,
            3,
            1,
            6,
            24,
            1,
            0,
            5,
            service,
            4,
            0xabcd_ef01,
            6,
            4,
            9,
        ])
    };
    // Length 16: sequence 5, then the arguments (a handle of 5 bytes); then a checksum.
    let body = words(&[16, 5, 5, 0x0102_0304, 0x0500_0000, 4, 0x1111_1111]);
    let message = [header(2), body.clone()].concat();
    let call = looks_like_call(&message).unwrap();
    let Payload::Integrity {
        sequence: 5,
        bytes,
        complete: true,
    } = call.arguments()
    else {
        panic!("{:?}", call.arguments());
    };
    let summary = summarise_call(100_003, 3, 1, bytes, true);
    assert_eq!(summary.arguments.file_handle, Some(&[1, 2, 3, 4, 5][..]));
    assert_eq!(summary.end, wire::End::Complete);
    let message = [header(3), body].concat();
    let call = looks_like_call(&message).unwrap();
    assert_eq!(call.arguments(), Payload::Private { bytes: 28 });
}

/// Every reply status survives encoding (RFC 5531 section 9).
#[test]
fn reply_statuses() {
    for status in [
        ReplyStatus::Success,
        ReplyStatus::ProgramUnavailable,
        ReplyStatus::ProgramMismatch { low: 2, high: 4 },
        ReplyStatus::ProcedureUnavailable,
        ReplyStatus::GarbageArguments,
        ReplyStatus::SystemError,
        ReplyStatus::RpcMismatch { low: 2, high: 2 },
        ReplyStatus::AuthError(1),
    ] {
        let mut bytes = Vec::new();
        encode_reply(&mut bytes, 3, &OpaqueAuth::NONE, status).unwrap();
        let reply = looks_like_reply(&bytes).unwrap();
        assert_eq!((reply.xid, reply.status), (3, Some(status)));
    }
}

/// Sizes of `fattr3`'s fields and of theirs: RFC 1813 section 2.6.
const FATTR3: [(usize, &str); 17] = [
    (4, "fattr3.type_"),
    (4, "fattr3.mode"),
    (4, "fattr3.nlink"),
    (4, "fattr3.uid"),
    (4, "fattr3.gid"),
    (8, "fattr3.size"),
    (8, "fattr3.used"),
    (4, "specdata3.specdata1"),
    (4, "specdata3.specdata2"),
    (8, "fattr3.fsid"),
    (8, "fattr3.fileid"),
    (4, "nfstime3.seconds"),
    (4, "nfstime3.nseconds"),
    (4, "nfstime3.seconds"),
    (4, "nfstime3.nseconds"),
    (4, "nfstime3.seconds"),
    (4, "nfstime3.nseconds"),
];

#[test]
fn what_is_wrong_in_a_fixed_structure_is_told_by_its_field() {
    let bytes: Vec<u8> = [[0u8, 0, 0, 1]; 21].concat();
    assert!(nfs3::fattr3::decode_whole(&bytes, "body").is_ok());
    let mut at = 0;
    for (size, field) in FATTR3 {
        for cut in at..at + size {
            let error = nfs3::fattr3::decode_whole(&bytes[..cut], "body").unwrap_err();
            assert_eq!(
                (error.field, error.offset as usize),
                (field, at),
                "{cut} bytes"
            );
        }
        at += size;
    }
    assert_eq!(at, bytes.len());
    for kind in [0, 8, 9, 255] {
        let mut wrong = bytes.clone();
        wrong[3] = kind;
        let error = nfs3::fattr3::decode_whole(&wrong, "body").unwrap_err();
        assert_eq!((error.field, error.offset), ("fattr3.type_", 0), "{kind}");
    }
}
