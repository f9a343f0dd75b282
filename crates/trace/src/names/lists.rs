//! Lists of COMPOUND operations by number.

use wire::limits::MAX_LISTED_OPERATIONS;
use wire::nfs4::OperationList;
use wire::nfs4::opcode::ILLEGAL;

use super::Names;
use crate::call::OperationsId;
use crate::limits::MAX_OPERATION_LISTS;

impl Names {
    /// The opcodes of a COMPOUND, up to `wire::limits::MAX_LISTED_OPERATIONS`.
    pub fn operations(&self, id: OperationsId) -> &[u32] {
        self.operations
            .get(id.0 as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// All lists of COMPOUND operations that have a number.
    pub fn operation_lists(&self) -> &[Vec<u32>] {
        &self.operations
    }

    /// The number of a list of COMPOUND operations; `None` (and counted) beyond
    /// [`MAX_OPERATION_LISTS`].
    #[inline]
    pub fn operations_id(&mut self, list: &OperationList) -> Option<OperationsId> {
        self.list_of(list.codes())
    }

    /// The same of the list with these [`OperationList::codes`]; `None` also of more codes than a
    /// list has.
    #[inline]
    pub fn list_of(&mut self, codes: &[u8]) -> Option<OperationsId> {
        if let Some(id) = self.by_codes.get(codes) {
            return Some(*id);
        }
        self.new_list(codes)
    }

    #[cold]
    fn new_list(&mut self, codes: &[u8]) -> Option<OperationsId> {
        if codes.len() > MAX_LISTED_OPERATIONS {
            return None;
        }
        if self.operations.len() >= MAX_OPERATION_LISTS {
            self.beyond.operation_lists += 1;
            return None;
        }
        let id = OperationsId(self.operations.len() as u32);
        let opcode = |code: &u8| match *code {
            u8::MAX => ILLEGAL,
            code => u32::from(code),
        };
        self.operations.push(codes.iter().map(opcode).collect());
        self.by_codes.insert(codes.to_vec(), id);
        Some(id)
    }
}
