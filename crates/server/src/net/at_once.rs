//! Which calls the loop answers itself although the store may wait for a device.
//!
//! A worker costs two wake-ups a call, several times what most calls cost while the kernel has in
//! memory what they ask for. So a call that comes alone, that changes nothing and moves little, is
//! answered where it was read, and so are changes of names where these are not synced; as soon as
//! one of them takes long, workers get the next ones.

use wire::nfs3::procedure;
use wire::programs;
use wire::rpc::Call;

use super::pending::shape_of;

/// A call that takes longer than this has waited for something.
const LONG_NS: u64 = 60_000;
/// Calls that workers get after one that took long.
const CALLS_AFTER_LONG: u32 = 256;
/// Most bytes of a READ.
const MOST_BYTES: u64 = 16 << 10;

#[derive(Debug)]
pub struct AtOnce {
    for_workers: u32,
    /// Changes of names wait for a device.
    names_block: bool,
}

impl AtOnce {
    pub fn new(names_block: bool) -> Self {
        AtOnce {
            for_workers: 0,
            names_block,
        }
    }

    /// Whether the loop may answer this call, which came alone, itself.
    pub fn may(&mut self, call: &Call<'_>) -> bool {
        if call.program != programs::NFS {
            return false;
        }
        let small = match call.procedure {
            procedure::NULL
            | procedure::GETATTR
            | procedure::LOOKUP
            | procedure::ACCESS
            | procedure::READLINK
            | procedure::FSINFO
            | procedure::PATHCONF => true,
            procedure::CREATE
            | procedure::MKDIR
            | procedure::SYMLINK
            | procedure::REMOVE
            | procedure::RMDIR
            | procedure::RENAME
            | procedure::LINK => !self.names_block,
            procedure::READ => shape_of(call, 0).data_bytes <= MOST_BYTES,
            _ => false,
        };
        if small && self.for_workers > 0 {
            self.for_workers -= 1;
            return false;
        }
        small
    }

    /// How long it took.
    pub fn took(&mut self, time_ns: u64) {
        if time_ns > LONG_NS {
            self.for_workers = CALLS_AFTER_LONG;
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Encode;
    use wire::nfs3::{READ3args, nfs_fh3};
    use wire::rpc::{OpaqueAuth, encode_call};

    use super::*;

    fn may(at_once: &mut AtOnce, program: u32, procedure: u32, arguments: &[u8]) -> bool {
        let mut message = Vec::new();
        let none = OpaqueAuth::NONE;
        encode_call(&mut message, 1, [program, 3, procedure], &none, &none).unwrap();
        message.extend_from_slice(arguments);
        at_once.may(&Call::parse(&message).unwrap())
    }

    fn read(count: u32) -> Vec<u8> {
        let mut arguments = Vec::new();
        let read = READ3args {
            file: nfs_fh3(b"handle"),
            offset: 0,
            count,
        };
        read.encode(&mut arguments).unwrap();
        arguments
    }

    #[test]
    fn what_changes_nothing_and_moves_little_is_answered_at_once() {
        let mut at_once = AtOnce::new(true);
        let mut asked =
            |program, procedure, arguments: &[u8]| may(&mut at_once, program, procedure, arguments);
        assert!(asked(programs::NFS, procedure::LOOKUP, &[]));
        assert!(asked(programs::NFS, procedure::READ, &read(8192)));
        assert!(!asked(programs::NFS, procedure::READ, &read(1 << 20)));
        for other in [procedure::WRITE, procedure::COMMIT, procedure::CREATE] {
            assert!(!asked(programs::NFS, other, &[]));
        }
        assert!(!asked(programs::MOUNT, 1, &[]), "MNT walks a path");
    }

    #[test]
    fn names_that_are_not_synced_are_changed_at_once() {
        for names_block in [false, true] {
            let mut at_once = AtOnce::new(names_block);
            let mut asked = |procedure| may(&mut at_once, programs::NFS, procedure, &[]);
            for change in [procedure::CREATE, procedure::RENAME, procedure::REMOVE] {
                assert_eq!(asked(change), !names_block);
            }
            assert!(!asked(procedure::WRITE) && !asked(procedure::COMMIT));
        }
    }

    #[test]
    fn after_one_that_took_long_workers_get_the_next() {
        let mut at_once = AtOnce::new(true);
        at_once.took(LONG_NS);
        assert!(may(&mut at_once, programs::NFS, procedure::GETATTR, &[]));
        at_once.took(LONG_NS + 1);
        for _ in 0..CALLS_AFTER_LONG {
            assert!(!may(&mut at_once, programs::NFS, procedure::GETATTR, &[]));
        }
        assert!(may(&mut at_once, programs::NFS, procedure::GETATTR, &[]));
    }
}
