//! What a reader learned, done again to the names of the whole capture (see the log's essay).
//!
//! Bytes may be anything: what makes no sense is refused, and nothing is held that the bytes did
//! not carry, but for one number for each file that a reader may know.

use wire::limits::NFS4_FHSIZE;
use wire::summary::Attributes;

use super::Names;
use super::log::op;

use crate::block::Host;
use crate::call::FileId;
use crate::journal::Damaged;
use crate::journal::bytes::Cursor;
use crate::limits::MAX_FILES;

/// Why names cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Nobody wrote this.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// A bound of files or of names was met.
    #[error("there are more files or names than are followed; the files have to be read in a row")]
    Full,
    /// What was learned depends on what was met before the reader's checkpoint.
    #[error("what was learned depends on earlier files; the files have to be read in a row")]
    ReachedBack,
}

/// Not a number of a file: the reader's is not defined.
const UNDEFINED: u32 = u32::MAX;
/// Not a number of a file: the whole table had no room for this directory entry.
const REFUSED: u32 = u32::MAX - 1;

/// What a reader's numbers of files are in the whole capture's names.
#[derive(Debug, Default)]
pub struct Replay {
    numbers: Vec<u32>,
}

fn host(cursor: &mut Cursor<'_>) -> Result<Host, Damaged> {
    let (high, low) = (cursor.number()?, cursor.number()?);
    Ok(Host::from_bits(u128::from(high) << 64 | u128::from(low)))
}

/// A table of names that gave no number had no room.
fn room(id: Option<FileId>) -> Result<FileId, ReplayError> {
    id.ok_or(ReplayError::Full)
}

impl Replay {
    /// A checkpoint of the reader, or another reader's first: all its numbers are defined anew.
    pub fn begin_anew(&mut self) {
        self.numbers.clear();
    }

    /// The file with this number of the reader; `None` if it is a directory's entry for which the
    /// whole table had no room.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Damaged`] if the number was not defined.
    pub fn number(&self, local: u32) -> Result<Option<FileId>, ReplayError> {
        match self.numbers.get(local as usize) {
            None | Some(&UNDEFINED) => Err(Damaged.into()),
            Some(&REFUSED) => Ok(None),
            Some(number) => Ok(Some(FileId(*number))),
        }
    }

    /// Does to `names` whatever is written until the cursor's end.
    ///
    /// # Errors
    ///
    /// After any of them `names` are good for nothing more.
    pub fn apply(&mut self, names: &mut Names, cursor: &mut Cursor<'_>) -> Result<(), ReplayError> {
        let before = names.beyond();
        while !cursor.is_empty() {
            let operation = cursor.byte()?;
            self.operation(operation, names, cursor)?;
        }
        let after = names.beyond();
        let within = after.files == before.files && after.names == before.names;
        within.then_some(()).ok_or(ReplayError::Full)
    }

    fn operation(
        &mut self,
        operation: u8,
        names: &mut Names,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), ReplayError> {
        match operation {
            op::FILE | op::ENTRY | op::DEFINITION => {
                let (local, server) = (cursor.small()?, host(cursor)?);
                self.handle(operation, names, local, server, cursor.bytes()?)
            }
            op::ENTRY_AGAIN => {
                if self.number(cursor.small()?)?.is_none() {
                    names.beyond.entries += 1;
                }
                Ok(())
            }
            op::ENTRY_REFUSED => {
                let (server, handle) = (host(cursor)?, cursor.bytes()?);
                match names.entry_id(server, handle) {
                    None => Ok(()),
                    Some(_) => Err(ReplayError::Full),
                }
            }
            op::ROOT | op::SERVER_ROOT => {
                let (local, server) = (cursor.small()?, host(cursor)?);
                if operation == op::ROOT {
                    return self.settle(local, room(names.root(server))?);
                }
                names.is_server_root(server, self.file(local)?);
                Ok(())
            }
            op::FULL => Err(ReplayError::Full),
            op::TYPE | op::NUMBERS => self.attributes(operation, names, cursor),
            _ => self.naming(operation, names, cursor),
        }
    }

    fn naming(
        &mut self,
        operation: u8,
        names: &mut Names,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), ReplayError> {
        let file = self.file(cursor.small()?)?;
        match operation {
            op::ROOT_OF_NO_PATH => names.set_root(file, None),
            op::ROOT_OF_PATH => names.set_root(file, Some(cursor.bytes()?)),
            op::CHILD => {
                let child = cursor.small()?;
                let found = names.child_or_new(file, cursor.bytes()?);
                return self.settle(child, room(found)?);
            }
            op::PARENT => {
                let parent = self.number(cursor.small()?)?;
                if parent.is_none() || names.parent(file) != parent {
                    return Err(ReplayError::ReachedBack);
                }
            }
            op::NO_PARENT if names.parent(file).is_some() => return Err(ReplayError::ReachedBack),
            op::NO_PARENT => {}
            op::NAME => {
                let child = self.number(cursor.small()?)?;
                let name = cursor.bytes()?;
                if let Some(child) = child {
                    names.set_name(file, name, child);
                }
            }
            op::RENAME => {
                let to = self.file(cursor.small()?)?;
                names.rename(file, cursor.bytes()?, to, cursor.bytes()?);
            }
            op::REMOVE => names.remove(file, cursor.bytes()?),
            _ => return Err(Damaged.into()),
        }
        Ok(())
    }

    fn attributes(
        &self,
        operation: u8,
        names: &mut Names,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), ReplayError> {
        let file = self.number(cursor.small()?)?;
        let mut attributes = Attributes::default();
        if operation == op::TYPE {
            attributes.file_type = Some(cursor.small()?);
        } else {
            attributes.fsid = Some(cursor.number()?);
            attributes.file_id = Some(cursor.number()?);
        }
        if let Some(file) = file {
            names.set_attributes(file, &attributes);
        }
        Ok(())
    }

    /// A number is that of a handle.
    fn handle(
        &mut self,
        operation: u8,
        names: &mut Names,
        local: u32,
        server: Host,
        handle: &[u8],
    ) -> Result<(), ReplayError> {
        if handle.is_empty() || handle.len() > NFS4_FHSIZE as usize {
            return Err(Damaged.into());
        }
        let found = match operation {
            op::FILE => room(names.file_id(server, handle))?,
            op::ENTRY => match names.entry_id(server, handle) {
                Some(found) => found,
                None => return self.refuse(local),
            },
            _ => names
                .known(server, handle)
                .ok_or(ReplayError::ReachedBack)?,
        };
        let place = self.place(local)?;
        if operation == op::FILE && *place == REFUSED {
            *place = UNDEFINED;
        }
        self.settle(local, found)
    }

    /// A file that has to have a number: the reader asked for it, or did more than list it.
    fn file(&self, local: u32) -> Result<FileId, ReplayError> {
        room(self.number(local)?)
    }

    fn refuse(&mut self, local: u32) -> Result<(), ReplayError> {
        match self.place(local)? {
            place @ &mut (UNDEFINED | REFUSED) => {
                *place = REFUSED;
                Ok(())
            }
            _ => Err(Damaged.into()),
        }
    }

    /// The reader's number is this file, and no other one.
    fn settle(&mut self, local: u32, file: FileId) -> Result<(), ReplayError> {
        match self.place(local)? {
            place @ &mut UNDEFINED => *place = file.0,
            place if *place == file.0 => {}
            _ => return Err(ReplayError::ReachedBack),
        }
        Ok(())
    }

    fn place(&mut self, local: u32) -> Result<&mut u32, ReplayError> {
        let at = local as usize;
        if at < MAX_FILES && at >= self.numbers.len() {
            self.numbers.resize(at + 1, UNDEFINED);
        }
        self.numbers.get_mut(at).ok_or_else(|| Damaged.into())
    }
}
