//! Which calls the loop answers itself although the store may wait for a device.
//!
//! A worker costs two wake-ups a call, several times what most calls cost while the kernel has in
//! memory what they ask for. So a call that comes alone, that changes nothing and moves little, is
//! answered where it was read, and so are changes of names where these are not synced; as soon as
//! one of them has waited, workers get the next ones.
//!
//! Time alone does not tell: on a busy machine a call takes long because its thread had no
//! processor, and workers would only need more of it. So after one that took long it is counted
//! for a while how often the thread sleeps (getrusage(2): 0.3 us a call).

use measure::clock::times_slept;
use wire::nfs3::procedure;
use wire::programs;
use wire::rpc::Call;

use super::pending::shape_of;

/// A call that takes longer than this may have waited for a device.
const LONG_NS: u64 = 60_000;
/// Calls that are watched after one that took long, or that workers get after one that waited.
const CALLS_AFTER_LONG: u32 = 256;
/// Most bytes of a READ, or of a WRITE that is not synced.
const MOST_BYTES: u64 = 16 << 10;

#[derive(Debug)]
pub struct AtOnce {
    for_workers: u32,
    watched: u32,
    /// Changes of names wait for a device.
    names_block: bool,
}

impl AtOnce {
    pub fn new(names_block: bool) -> Self {
        AtOnce {
            for_workers: 0,
            watched: 0,
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
            procedure::SETATTR
            | procedure::CREATE
            | procedure::MKDIR
            | procedure::SYMLINK
            | procedure::REMOVE
            | procedure::RMDIR
            | procedure::RENAME
            | procedure::LINK => !self.names_block,
            procedure::READ | procedure::WRITE => {
                let shape = shape_of(call, 0);
                shape.data_bytes <= MOST_BYTES && !shape.stable
            }
            _ => false,
        };
        if small && self.for_workers > 0 {
            self.for_workers -= 1;
            return false;
        }
        small
    }

    /// How often the thread has slept, if that is to be told of the call to come.
    pub fn watch(&self) -> Option<u64> {
        (self.watched > 0).then(times_slept)
    }

    /// How long a call took that was `watched` when it began; how often the thread `has_slept` now.
    pub fn took(&mut self, time_ns: u64, watched: Option<u64>, has_slept: impl Fn() -> u64) {
        if time_ns <= LONG_NS {
            self.watched = self.watched.saturating_sub(1);
        } else if watched.is_some_and(|before| has_slept() != before) {
            self.for_workers = CALLS_AFTER_LONG;
        } else {
            self.watched = CALLS_AFTER_LONG;
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Encode;
    use wire::nfs3::{READ3args, WRITE3args, nfs_fh3, payload3, stable_how};
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

    fn write(length: usize, stable: stable_how) -> Vec<u8> {
        let (mut arguments, data) = (Vec::new(), vec![0; length]);
        let write = WRITE3args {
            file: nfs_fh3(b"handle"),
            offset: 0,
            count: length as u32,
            stable,
            data: payload3(&data),
        };
        write.encode(&mut arguments).unwrap();
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
        let mut write_of =
            |length, stable| asked(programs::NFS, procedure::WRITE, &write(length, stable));
        assert!(write_of(8192, stable_how::UNSTABLE));
        assert!(!write_of(1 << 20, stable_how::UNSTABLE));
        assert!(!write_of(8, stable_how::DATA_SYNC) && !write_of(8, stable_how::FILE_SYNC));
        for other in [procedure::COMMIT, procedure::CREATE, procedure::SETATTR] {
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
            assert!(!asked(procedure::COMMIT));
        }
    }

    #[test]
    fn after_one_that_waited_workers_get_the_next() {
        let mut at_once = AtOnce::new(true);
        let asked = |at_once: &mut AtOnce| may(at_once, programs::NFS, procedure::GETATTR, &[]);
        at_once.took(LONG_NS, at_once.watch(), || 7);
        assert_eq!(at_once.watch(), None, "nothing took long");
        at_once.took(LONG_NS + 1, None, || 7);
        assert!(at_once.watch().is_some() && asked(&mut at_once));
        at_once.took(LONG_NS + 1, Some(7), || 7);
        assert!(
            asked(&mut at_once),
            "it had no processor, but did not sleep"
        );
        at_once.took(LONG_NS, Some(7), || 8);
        assert!(asked(&mut at_once), "it slept, but not for long");
        at_once.took(LONG_NS + 1, Some(7), || 8);
        for _ in 0..CALLS_AFTER_LONG {
            assert!(!asked(&mut at_once));
        }
        assert!(asked(&mut at_once));
        for _ in 0..CALLS_AFTER_LONG {
            at_once.took(LONG_NS, Some(8), || 8);
        }
        assert_eq!(at_once.watch(), None, "all is quick again");
    }
}
