//! What the programs in the kernel send and keep, as bytes: the mirror of `bpf/state.h`.
//!
//! The kernel is trusted to send whole records; one that is too short is counted as not understood
//! and passed over.

use crate::record::{BlockKind, LATENCY_BUCKETS, PLACES, SIZE_BUCKETS};

/// Bytes of `struct thread`.
pub const THREAD_BYTES: usize = 88;
/// Where `counted` is in it.
pub const THREAD_COUNTED: usize = 86;
/// Bytes before the text of a name.
const NAME_HEADER_BYTES: usize = 80;

/// `enum flag`.
pub mod flag {
    /// The offset is known.
    pub const HAS_OFFSET: u8 = 1;
    /// A write that returns when its bytes are durable.
    pub const SYNCHRONOUS: u8 = 2;
    /// It is to be a row of `syncs`.
    pub const IS_SYNC: u8 = 4;
    /// It is to be a row of `events`.
    pub const IS_ACCESS: u8 = 8;
}

/// `enum figure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Figure {
    /// Rows of `syncs` that found no room in the ring.
    LostSyncs = 0,
    /// Rows of `events`.
    LostEvents = 1,
    /// Rows of `names`.
    LostNames = 2,
    /// Rows of `blocks`, or requests beyond the table of those under way.
    LostBlocks = 3,
    /// Calls on files, or rows of counts, beyond the maps.
    Uncounted = 4,
    /// Ends of calls that began before.
    Unmatched = 5,
    /// Processes forked by watched ones.
    Forked = 6,
    /// Watched processes that ended.
    Exited = 7,
    /// Accesses whose place could not be judged: another processor was judging.
    Unplaced = 8,
    /// Names of files that found no room in the ring; told again when the file is used again.
    LostFiles = 9,
}

/// A call, as the ring has it.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord {
    pub call: u8,
    pub flags: u8,
    pub file_id: u32,
    pub start_ns: u64,
    pub latency_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub offset: u64,
    pub size: u64,
    pub result: i64,
}

/// A name of a file, or a call that changes one.
#[derive(Clone, Copy, Debug)]
pub struct NameParts<'a> {
    pub call: u8,
    pub truncated: bool,
    pub file_id: u32,
    pub start_ns: u64,
    pub latency_ns: u64,
    pub pid: u32,
    pub result: i64,
    pub inode: u64,
    pub device: u32,
    pub mounts: [i32; 2],
    /// Below a mount, leaf first; the string of the program; the same of the new name.
    pub texts: [&'a [u8]; 4],
}

/// A request of a block device.
#[derive(Clone, Copy, Debug)]
pub struct BlockParts {
    pub kind: BlockKind,
    pub fua: bool,
    pub device: u32,
    pub issue_ns: u64,
    pub latency_ns: u64,
    pub sector: u64,
    pub size: u32,
    pub pid: u32,
}

/// What the ring holds.
#[derive(Clone, Copy, Debug)]
pub enum Sent<'a> {
    /// The end of a call.
    Call(CallRecord),
    /// unlink, rename.
    Name(NameParts<'a>),
    /// What a file is called.
    File(NameParts<'a>),
    /// A block request is done.
    Block(BlockParts),
}

impl<'a> Sent<'a> {
    /// None when it cannot be.
    pub fn parse(bytes: &'a [u8]) -> Option<Sent<'a>> {
        match bytes.first()? {
            0 => call(bytes).map(Sent::Call),
            1 => name(bytes).map(Sent::Name),
            2 => name(bytes).map(Sent::File),
            3 => block(bytes).map(Sent::Block),
            _ => None,
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 4)?;
    part.try_into().ok().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at + 8)?;
    part.try_into().ok().map(u64::from_ne_bytes)
}

fn call(bytes: &[u8]) -> Option<CallRecord> {
    Some(CallRecord {
        call: *bytes.get(1)?,
        flags: *bytes.get(2)?,
        file_id: u32_at(bytes, 4)?,
        start_ns: u64_at(bytes, 8)?,
        latency_ns: u64_at(bytes, 16)?,
        pid: u32_at(bytes, 24)?,
        tid: u32_at(bytes, 28)?,
        offset: u64_at(bytes, 32)?,
        size: u64_at(bytes, 40)?,
        result: u64_at(bytes, 48)? as i64,
    })
}

fn name(bytes: &[u8]) -> Option<NameParts<'_>> {
    let mut texts: [&[u8]; 4] = [&[]; 4];
    let mut rest = bytes.get(NAME_HEADER_BYTES..)?;
    for (part, text) in texts.iter_mut().enumerate() {
        let length = u32_at(bytes, 60 + 4 * part)? as usize;
        (*text, rest) = rest.split_at_checked(length)?;
    }
    Some(NameParts {
        call: *bytes.get(1)?,
        truncated: *bytes.get(2)? != 0,
        file_id: u32_at(bytes, 4)?,
        start_ns: u64_at(bytes, 8)?,
        latency_ns: u64_at(bytes, 16)?,
        pid: u32_at(bytes, 24)?,
        result: u64_at(bytes, 32)? as i64,
        inode: u64_at(bytes, 40)?,
        device: u32_at(bytes, 48)?,
        mounts: [u32_at(bytes, 52)? as i32, u32_at(bytes, 56)? as i32],
        texts,
    })
}

fn block(bytes: &[u8]) -> Option<BlockParts> {
    Some(BlockParts {
        kind: match bytes.get(1)? {
            0 => BlockKind::Read,
            1 => BlockKind::Write,
            2 => BlockKind::Flush,
            _ => BlockKind::Other,
        },
        fua: *bytes.get(2)? != 0,
        device: u32_at(bytes, 4)?,
        issue_ns: u64_at(bytes, 8)?,
        latency_ns: u64_at(bytes, 16)?,
        sector: u64_at(bytes, 24)?,
        size: u32_at(bytes, 32)?,
        pid: u32_at(bytes, 36)?,
    })
}

/// `struct count_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CountKey {
    pub file_id: u32,
    pub call: u32,
}

/// `struct counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub errors: u64,
    pub bytes: u64,
    pub latency_sum_ns: u64,
    pub latency_max_ns: u64,
    pub latencies: [u64; LATENCY_BUCKETS],
    pub sizes: [u64; SIZE_BUCKETS],
    pub places: [u64; PLACES],
}

/// Bytes of `struct waiter` of bpf/waits.h.
pub const WAITER_BYTES: usize = 40;

/// `struct wait_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WaitKey {
    pub tid: u32,
    pub state: u32,
}

/// `struct wait_total`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WaitTotal {
    pub ns: u64,
    pub times: u64,
}

// SAFETY: integers only, no padding, and every pattern of bits is a value.
unsafe impl aya::Pod for CountKey {}
// SAFETY: as above.
unsafe impl aya::Pod for WaitKey {}
// SAFETY: as above.
unsafe impl aya::Pod for WaitTotal {}
// SAFETY: as above.
unsafe impl aya::Pod for Counts {}

/// Device as Linux keeps it inside: major, minor (MKDEV of linux/kdev_t.h).
pub fn device(number: u32) -> (u32, u32) {
    (number >> 20, number & 0xf_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CALLS, Place};

    const STATE: &str = include_str!("../../bpf/state.h");

    /// The names in an enumeration of state.h, in their order.
    fn names(of: &str) -> Vec<&'static str> {
        let begin = format!("enum {of} {{");
        let body = STATE.split_once(&begin).map_or("", |(_, rest)| rest);
        let body = body.split_once('}').map_or("", |(body, _)| body);
        let body = body.split("/*").next().unwrap_or_default();
        let names = body.split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).collect()
    }

    /// SyncFileRange is SYNC_FILE_RANGE there.
    fn shouted(name: &str) -> String {
        let mut text = String::new();
        for letter in name.chars() {
            if letter.is_uppercase() && !text.is_empty() {
                text.push('_');
            }
            text.push(letter.to_ascii_uppercase());
        }
        text
    }

    #[test]
    fn calls_and_places_have_the_same_numbers_in_the_kernel() {
        let calls = CALLS.map(|call| shouted(&format!("{call:?}")));
        let there: Vec<&str> = names("call")
            .iter()
            .map(|n| n.trim_end_matches('_'))
            .collect();
        assert_eq!(there, calls);
        let places = [
            Place::First,
            Place::Sequential,
            Place::Rewrite,
            Place::Forward,
            Place::Backward,
        ];
        let places = places.map(|place| shouted(&format!("{place:?}")));
        assert_eq!(names("place")[..PLACES], places);
    }

    #[test]
    fn figures_have_the_same_numbers_in_the_kernel() {
        let figures = [
            Figure::LostSyncs,
            Figure::LostEvents,
            Figure::LostNames,
            Figure::LostBlocks,
            Figure::Uncounted,
            Figure::Unmatched,
            Figure::Forked,
            Figure::Exited,
            Figure::Unplaced,
            Figure::LostFiles,
        ];
        for figure in figures {
            let name = shouted(&format!("{figure:?}"));
            let there = names("figure").iter().position(|other| *other == name);
            assert_eq!(there, Some(figure as usize), "{name}");
        }
        for (name, value) in [("LATENCY", LATENCY_BUCKETS), ("SIZE", SIZE_BUCKETS)] {
            assert!(STATE.contains(&format!("#define {name}_BUCKETS {value}\n")));
        }
    }

    #[test]
    fn what_is_too_short_is_no_record() {
        for kind in 0..5 {
            for length in 0..40 {
                let mut bytes = vec![0; length];
                bytes.iter_mut().take(1).for_each(|byte| *byte = kind);
                assert!(Sent::parse(&bytes).is_none(), "{kind} {length}");
            }
        }
        assert!(Sent::parse(&[0; 56]).is_some());
        // A name whose parts are longer than what there is.
        let mut name = vec![1; 80];
        assert!(Sent::parse(&name).is_none());
        name[60..76].fill(0);
        assert!(Sent::parse(&name).is_some());
    }
}
