//! Names of what calls carry as numbers: file handles with their paths, operation lists, statuses.

use crate::call::{Call, FileId, OperationsId};

/// What is known of a file handle. Handles are told apart per server host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The handle's bytes.
    pub handle: Vec<u8>,
    /// Its directory, if LOOKUP, CREATE, READDIRPLUS, OPEN, ... showed it.
    pub parent: Option<FileId>,
    /// Its name in the directory (the exported path, for a root known by MOUNT).
    pub name: Option<Vec<u8>>,
    /// `ftype`: 1 file, 2 directory, 5 symbolic link, ...; 0 not known.
    pub file_type: u32,
    /// Root of an export or of a server's name space.
    pub is_root: bool,
}

/// Files and operation lists by number.
#[derive(Debug, Default)]
pub struct Names {
    files: Vec<File>,
    operations: Vec<Vec<u32>>,
}

impl Names {
    /// A file's record.
    pub fn file(&self, id: FileId) -> Option<&File> {
        self.files.get(id.0 as usize)
    }

    /// Files known.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The opcodes of a COMPOUND.
    pub fn operations(&self, id: OperationsId) -> &[u32] {
        self.operations
            .get(id.0 as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// Path as far as it is known: `/export/a/b` from a known root, `.../b` below an unknown
    /// directory, `None` if not even its own name is known. Bytes that are not UTF-8 are replaced.
    pub fn path(&self, _id: FileId) -> Option<String> {
        None
    }
}

/// Name of an operation: `READ`, `COMPOUND`, `CB_RECALL`, `MNT`; numbers where there is no name.
pub fn operation_name(program: u32, version: u32, operation: u32) -> String {
    let _ = (program, version);
    operation.to_string()
}

/// The name under which a call is counted: a COMPOUND's naming operation, else its procedure.
pub fn call_name(call: &Call) -> String {
    operation_name(call.program, call.version, call.operation)
}
