//! Stand-in.
use super::Names;
use crate::call::{FileId, OperationsId};
use crate::journal::bytes::Cursor;
/// Stand-in.
#[derive(Debug, Default)]
pub struct Replay;
/// Stand-in.
#[derive(Clone, Copy, Debug)]
pub enum ReplayError {
    /// .
    Damaged,
    /// .
    Full,
    /// .
    ReachedBack,
}
impl Replay {
    /// .
    pub fn begin_anew(&mut self) {}
    /// .
    pub fn apply(&mut self, _: &mut Names, _: &mut Cursor<'_>) -> Result<(), ReplayError> {
        Ok(())
    }
    /// .
    pub fn number(&self, local: u32) -> Result<Option<FileId>, ReplayError> {
        Ok(Some(FileId(local)))
    }
}
impl Names {
    /// .
    pub fn keep_log(&mut self) {}
    /// .
    pub fn clear_log(&mut self) {}
    /// .
    pub fn log_anew(&mut self) {}
    /// .
    pub fn take_reached_back(&mut self) -> bool {
        false
    }
    /// .
    pub fn log(&self) -> &[u8] {
        &[]
    }
    /// .
    pub fn is_defined(&self, _: FileId) -> bool {
        true
    }
    /// .
    pub fn write_definition(&self, _: FileId, _: &mut Vec<u8>) -> bool {
        true
    }
    /// .
    pub fn codes_of(&self, id: OperationsId) -> &[u8] {
        self.by_codes
            .iter()
            .find(|(_, it)| **it == id)
            .map_or(&[], |(codes, _)| codes)
    }
    /// .
    pub fn list_of(&mut self, codes: &[u8]) -> Option<OperationsId> {
        if let Some(id) = self.by_codes.get(codes) {
            return Some(*id);
        }
        let id = OperationsId(self.operations.len() as u32);
        self.operations
            .push(codes.iter().map(|code| u32::from(*code)).collect());
        self.by_codes.insert(codes.to_vec(), id);
        Some(id)
    }
}
