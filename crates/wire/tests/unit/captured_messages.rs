//! Messages from real captures decode to the values that tshark prints, and their prefixes to
//! part of them.
//!
//! `data/captured_messages.txt` states each message's origin and tshark's values.

use std::collections::HashMap;

use wire::rpc::{Call, Reply, looks_like_call, looks_like_reply};
use wire::summary::{Arguments, DirectoryEntry, Results};
use wire::{Body, End, Visitor, summarise_call, summarise_reply, summarise_reply_with};

struct Message {
    is_call: bool,
    origin: String,
    bytes: Vec<u8>,
    values: HashMap<String, String>,
}

impl Message {
    fn number(&self, key: &str) -> u32 {
        self.values[key].parse().unwrap()
    }

    fn place(&self) -> (u32, u32, u32) {
        (
            self.number("program"),
            self.number("version"),
            self.number("procedure"),
        )
    }

    /// Compares `ours` with tshark's value, if tshark has one.
    fn expect(&self, key: &str, ours: Option<impl ToString>) {
        if let Some(theirs) = self.values.get(key) {
            let ours = ours.map(|value| value.to_string());
            assert_eq!(ours.as_ref(), Some(theirs), "{key} of {}", self.origin);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

fn messages() -> Vec<Message> {
    include_str!("../data/captured_messages.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            let values = parts[3..].iter().filter_map(|part| part.split_once('='));
            Message {
                is_call: parts[0] == "call",
                origin: parts[1].to_owned(),
                bytes: unhex(parts[2]),
                values: values
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
            }
        })
        .collect()
}

#[test]
fn calls_agree_with_tshark() {
    let calls: Vec<Message> = messages().into_iter().filter(|m| m.is_call).collect();
    assert!(calls.len() >= 30, "{}", calls.len());
    for message in calls {
        let call = looks_like_call(&message.bytes).unwrap();
        message.expect("xid", Some(call.xid));
        assert_eq!(
            (call.program, call.version, call.procedure),
            message.place()
        );
        let ids = call.credential.unwrap().ids();
        message.expect("uid", ids.map(|ids| ids.0));
        message.expect("gid", ids.map(|ids| ids.1));
        let (program, version, procedure) = message.place();
        let summary = summarise_call(program, version, procedure, call.body.unwrap(), true);
        assert_eq!(summary.end, End::Complete, "{}", message.origin);
        let arguments = summary.arguments;
        message.expect("handle", arguments.file_handle.map(hex));
        message.expect("offset", arguments.offset);
        message.expect("count", arguments.count);
        message.expect("stable", arguments.stable.map(|stable| stable as u32));
        message.expect(
            "name",
            arguments
                .name
                .map(|n| String::from_utf8_lossy(n).into_owned()),
        );
        let compound = summary.compound.as_ref();
        message.expect("named", compound.and_then(|c| c.named_by));
        message.expect("operations", compound.map(|c| list(c.operations.iter())));
        let sequence = compound.and_then(|c| c.sequence);
        message.expect("slot", sequence.map(|s| s.slot));
        message.expect(
            "slot_sequence",
            sequence.map(|s| s.sequence).map(|n| format!("{n:#010x}")),
        );
    }
}

fn list(operations: impl Iterator<Item = u32>) -> String {
    operations
        .map(|code| code.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

#[derive(Default)]
struct Names(Vec<String>);
impl<'a> Visitor<'a> for Names {
    fn entry(&mut self, entry: &DirectoryEntry<'a>) {
        self.0
            .push(String::from_utf8_lossy(entry.name).into_owned());
    }
}

#[test]
fn replies_agree_with_tshark() {
    let replies: Vec<Message> = messages().into_iter().filter(|m| !m.is_call).collect();
    assert!(replies.len() >= 30, "{}", replies.len());
    for message in replies {
        let reply = looks_like_reply(&message.bytes).unwrap();
        message.expect("xid", Some(reply.xid));
        let (program, version, procedure) = message.place();
        let mut names = Names::default();
        let body = Body::new(reply.body.unwrap(), true);
        let summary = summarise_reply_with([program, version, procedure], body, &mut names);
        assert_eq!(summary.end, End::Complete, "{}", message.origin);
        let results = summary.results;
        message.expect("status", results.status);
        message.expect("handle", results.file_handle.map(hex));
        message.expect("size", results.attributes.and_then(|a| a.size_bytes));
        message.expect("count", results.count);
        message.expect("verifier", results.verifier.map(|verifier| hex(&verifier)));
        message.expect("entries", results.entries);
        message.expect("last_entry", names.0.last());
        let compound = summary.compound.as_ref();
        message.expect("operations", compound.map(|c| list(c.operations.iter())));
    }
}

/// Every field known of a prefix is the whole message's.
fn part_of<T: PartialEq + std::fmt::Debug + Copy>(part: Option<T>, whole: Option<T>, what: &str) {
    if part.is_some() {
        assert_eq!(part, whole, "{what}");
    }
}

fn arguments_are_part(part: &Arguments<'_>, whole: &Arguments<'_>) {
    part_of(part.file_handle, whole.file_handle, "file_handle");
    part_of(part.name, whole.name, "name");
    part_of(part.target_handle, whole.target_handle, "target_handle");
    part_of(part.target_name, whole.target_name, "target_name");
    part_of(part.offset, whole.offset, "offset");
    part_of(part.count, whole.count, "count");
    part_of(part.stable, whole.stable, "stable");
    part_of(part.data_bytes, whole.data_bytes, "data_bytes");
}

fn results_are_part(part: &Results<'_>, whole: &Results<'_>) {
    part_of(part.status, whole.status, "status");
    part_of(part.file_handle, whole.file_handle, "file_handle");
    part_of(part.count, whole.count, "count");
    part_of(part.verifier, whole.verifier, "verifier");
    part_of(part.eof, whole.eof, "eof");
    part_of(part.committed, whole.committed, "committed");
}

#[test]
fn every_prefix_gives_part_of_the_whole() {
    for message in messages() {
        let (program, version, procedure) = message.place();
        for length in 0..message.bytes.len() {
            let cut = &message.bytes[..length];
            if message.is_call {
                let whole = Call::parse(&message.bytes).unwrap();
                let Ok(part) = Call::parse(cut) else {
                    assert!(length < 24, "{} {length}", message.origin);
                    continue;
                };
                part_of(part.credential, whole.credential, "credential");
                part_of(part.verifier, whole.verifier, "verifier");
                let Some(body) = part.body else { continue };
                let part = summarise_call(program, version, procedure, body, false);
                let whole = summarise_call(program, version, procedure, whole.body.unwrap(), true);
                assert!(
                    matches!(part.end, End::Truncated(_)),
                    "{}: {part:?}",
                    message.origin
                );
                let (a, b) = (part.compound, whole.compound);
                if a.and_then(|c| c.named_by) == b.and_then(|c| c.named_by) {
                    arguments_are_part(&part.arguments, &whole.arguments);
                }
                if let (Some(a), Some(b)) = (a, b) {
                    assert!(b.operations.codes().starts_with(a.operations.codes()));
                    part_of(a.sequence, b.sequence, "sequence");
                }
            } else {
                let whole = Reply::parse(&message.bytes).unwrap();
                let Ok(part) = Reply::parse(cut) else {
                    assert!(length < 12, "{} {length}", message.origin);
                    continue;
                };
                part_of(part.status, whole.status, "status");
                let Some(body) = part.body else { continue };
                let part = summarise_reply(program, version, procedure, body, false);
                let whole = summarise_reply(program, version, procedure, whole.body.unwrap(), true);
                assert!(
                    matches!(part.end, End::Truncated(_)),
                    "{}: {part:?}",
                    message.origin
                );
                let (a, b) = (part.compound, whole.compound);
                if a.and_then(|c| c.named_by) == b.and_then(|c| c.named_by) {
                    results_are_part(&part.results, &whole.results);
                }
            }
        }
    }
}
