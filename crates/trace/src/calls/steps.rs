//! What a call says about names, kept until its reply says whether it is so.
//!
//! A call's steps are short records in NFSv4's words (LOOKUP a name, PUTFH a handle, ...); the
//! procedures of NFSv2 and v3 are written as one step. The bytes of all waiting calls lie one
//! behind another in chunks, which are dropped in the order in which they were filled.

use std::collections::VecDeque;

use wire::nfs4::opcode::{
    CREATE, GETFH, LINK, LOOKUP, LOOKUPP, OPEN, OPENATTR, PUTFH, PUTPUBFH, PUTROOTFH, READDIR,
    REMOVE, RENAME, RESTOREFH, SAVEFH, SECINFO, SECINFO_NO_NAME,
};
use wire::summary::{Arguments, CallOperation, Visitor};

use super::open::NONE;
use crate::block::Host;
use crate::call::FileId;
use crate::names::Names;

/// Bytes of one chunk; steps of one call are shorter.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes that one call's steps may take: four names of the longest kind.
const MAX_STEPS_BYTES: usize = 20 << 10;
/// Chunks held: 32 MiB.
const MAX_CHUNKS: usize = 512;

/// Not an opcode: NFSv2 and v3's MNT, whose name is a path.
pub const MOUNT_ROOT: u8 = 1;

/// One thing that a call says about names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step<'a> {
    /// Place in the COMPOUND.
    pub index: u16,
    /// NFSv4's opcode for it.
    pub opcode: u8,
    /// The object or directory, where the call states it.
    pub file: Option<FileId>,
    /// Target directory of RENAME and LINK.
    pub target: Option<FileId>,
    /// Name.
    pub name: &'a [u8],
    /// New name of RENAME and LINK.
    pub target_name: &'a [u8],
}

impl Step<'_> {
    /// Appends the step.
    pub fn write(&self, out: &mut Vec<u8>) {
        let length = |name: &[u8]| u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes();
        out.extend_from_slice(&self.index.to_le_bytes());
        out.push(self.opcode);
        for file in [self.file, self.target] {
            out.extend_from_slice(&file.map_or(NONE, |id| id.0).to_le_bytes());
        }
        out.extend_from_slice(&length(self.name));
        out.extend_from_slice(&length(self.target_name));
        out.extend_from_slice(self.name);
        out.extend_from_slice(self.target_name);
    }
}

/// Steps front to back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps<'a>(pub &'a [u8]);

impl<'a> Iterator for Steps<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        let (index, rest) = self.0.split_first_chunk()?;
        let (opcode, rest) = rest.split_first()?;
        let (file, rest) = rest.split_first_chunk()?;
        let (target, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (target_length, rest) = rest.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let (target_name, rest) =
            rest.split_at_checked(u16::from_le_bytes(*target_length).into())?;
        self.0 = rest;
        let known = |bytes: &[u8; 4]| {
            let number = u32::from_le_bytes(*bytes);
            (number != NONE).then_some(FileId(number))
        };
        Some(Step {
            index: u16::from_le_bytes(*index),
            opcode: *opcode,
            file: known(file),
            target: known(target),
            name,
            target_name,
        })
    }
}

/// Steps of the waiting calls.
#[derive(Debug, Default)]
pub struct Pool {
    chunks: VecDeque<Vec<u8>>,
    /// Number of the front chunk.
    base: u64,
    spare: Vec<u8>,
}

impl Pool {
    /// Keeps steps; gives their place, `None` if there is no room.
    pub fn add(&mut self, steps: &[u8]) -> Option<(u64, u16)> {
        if steps.len() > MAX_STEPS_BYTES {
            return None;
        }
        let full = |chunk: &Vec<u8>| chunk.len() + steps.len() > CHUNK_BYTES;
        if self.chunks.back().is_none_or(full) {
            if self.chunks.len() >= MAX_CHUNKS {
                return None;
            }
            let mut chunk = std::mem::take(&mut self.spare);
            chunk.clear();
            chunk.reserve_exact(CHUNK_BYTES);
            self.chunks.push_back(chunk);
        }
        let last = self.base + self.chunks.len() as u64 - 1;
        let chunk = self.chunks.back_mut()?;
        let place = last * CHUNK_BYTES as u64 + chunk.len() as u64;
        chunk.extend_from_slice(steps);
        Some((place, steps.len() as u16))
    }

    /// Steps kept there.
    pub fn get(&self, place: u64, length: u16) -> &[u8] {
        let chunk = (place / CHUNK_BYTES as u64).wrapping_sub(self.base) as usize;
        let from = (place % CHUNK_BYTES as u64) as usize;
        self.chunks
            .get(chunk)
            .and_then(|chunk| chunk.get(from..from + usize::from(length)))
            .unwrap_or_default()
    }

    /// All steps in front of this place are wanted no more.
    pub fn release_before(&mut self, place: u64) {
        let first = place / CHUNK_BYTES as u64;
        while self.base < first {
            match self.chunks.pop_front() {
                Some(chunk) => self.spare = chunk,
                None => return,
            }
            self.base += 1;
        }
    }
}

/// Writes the steps of a COMPOUND's call.
#[derive(Debug)]
pub struct Collector<'n, 's> {
    pub names: &'n mut Names,
    pub server: Host,
    pub steps: &'s mut Vec<u8>,
    /// Whether any step can teach a name; handles alone cannot.
    pub teaches: bool,
}

impl<'a> Visitor<'a> for Collector<'_, '_> {
    #[inline]
    fn call_operation(&mut self, operation: &CallOperation<'a>) {
        let opcode = operation.opcode;
        match opcode {
            PUTFH | SAVEFH | RESTOREFH => {}
            LOOKUP | LOOKUPP | OPEN | CREATE | REMOVE | RENAME | LINK | PUTROOTFH | PUTPUBFH
            | READDIR | OPENATTR | SECINFO | SECINFO_NO_NAME | GETFH => self.teaches = true,
            _ => return,
        }
        if self.steps.len() > MAX_STEPS_BYTES {
            return;
        }
        let arguments = &operation.arguments;
        let handle = (opcode == PUTFH).then_some(arguments.file_handle).flatten();
        let file = handle.and_then(|handle| self.names.file_id(self.server, handle));
        let step = Step {
            index: operation.index as u16,
            opcode: opcode as u8,
            file,
            target: None,
            name: arguments.name.unwrap_or_default(),
            target_name: arguments.target_name.unwrap_or_default(),
        };
        step.write(self.steps);
    }
}

/// The step of a procedure of NFSv2 or v3, if it says anything about names.
pub fn of_procedure<'a>(
    version: u32,
    procedure: u32,
    file: Option<FileId>,
    arguments: &Arguments<'a>,
    target: impl FnOnce(&'a [u8]) -> Option<FileId>,
) -> Option<Step<'a>> {
    let opcode = match (version, procedure) {
        (3, 3) | (2, 4) => LOOKUP,
        (3, 8..=11) | (2, 9 | 13 | 14) => CREATE,
        (3, 12 | 13) | (2, 10 | 15) => REMOVE,
        (3, 14) | (2, 11) => RENAME,
        (3, 15) | (2, 12) => LINK,
        _ => return None,
    };
    // A symbolic link's text stands where the new name of RENAME and LINK does.
    let names_target = matches!(opcode, RENAME | LINK);
    Some(Step {
        index: 0,
        opcode: opcode as u8,
        file,
        target: arguments.target_handle.and_then(target),
        name: arguments.name.unwrap_or_default(),
        target_name: arguments
            .target_name
            .filter(|_| names_target)
            .unwrap_or_default(),
    })
}
