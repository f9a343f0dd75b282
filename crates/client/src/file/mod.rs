//! One open file: READ and WRITE calls as a program's reads, writes, fsync and close need them.
//! Nothing here waits, so that a file system may call it: who has to know is told.
//!
//! Reading: [`File::read_then`] asks for `rsize` at a time, all parts at once, and goes on where a
//! server answered with less than it was asked for.
//!
//! Writing: [`File::write_behind`] gathers bytes in a row ([`gathering`], at several places at
//! once) to WRITEs of `wsize`, as a kernel's page cache does. With `sync` each WRITE is FILE_SYNC.
//! Otherwise they are UNSTABLE, and the bytes are kept ([`dirty`]) until a COMMIT has said, with
//! the write verifier under which they were taken, that they are on stable storage. After a restart
//! of the server the verifier differs: what it may have lost is sent again, then committed again.
//! No byte is given up before that. If at a sync one WRITE is all there is to do, it is FILE_SYNC
//! and saves the COMMIT (Linux: `FLUSH_COND_STABLE`). At an fdatasync it is DATA_SYNC, and the next
//! fsync has the file's attributes committed. Of a log, each of whose writes is synced at once, it
//! goes out with the write: the sync finds it on its way.
//!
//! Decisions:
//! * Two WRITEs that overlap are never under way at a time: nothing else orders them. A newer one
//!   takes the overlapped bytes out of what is kept of older ones.
//! * An error of a WRITE sticks: later writes fail with it, and the next [`File::sync_then`]
//!   reports and clears it, once.
//! * What is kept is bounded ([`MAX_IN_FLIGHT_BYTES`], [`MAX_UNCOMMITTED_BYTES`]): beyond it WRITEs
//!   are not sent yet, or `write_behind` tells its caller to wait.
//! * A read has what was written and is not committed laid over it: after a restart the server may
//!   not have it for a while.
//!
//! Limits: no page cache here (a mount has the kernel's); truncation is the caller's SETATTR, after
//! [`File::sync_then`].

mod dirty;
mod gathering;
mod pieces;
mod place;
mod reading;
mod settling;
mod writing;

use std::sync::Arc;

use measure::{Clock, MonotonicClock};
use parking_lot::Mutex;

use crate::attributes::{Asked, AttributeCache};
use crate::engine::Caller;
use crate::handle::Client;
use crate::nfs3::FileHandle;
use crate::options::MountOptions;

use dirty::Dirty;
pub use reading::{MAX_READ_BYTES, ReadData};
pub use settling::MAX_COMMIT_ROUNDS;

/// Bytes of WRITEs under way for one file; further ones are sent later.
pub const MAX_IN_FLIGHT_BYTES: u64 = 16 << 20;
/// Bytes kept until they are committed, for one file; beyond it who writes has to wait.
pub const MAX_UNCOMMITTED_BYTES: u64 = 64 << 20;

/// An open file. Many threads may use it.
#[derive(Debug)]
pub struct File {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Arc<Client>,
    handle: FileHandle,
    caller: Option<Caller>,
    read_size_bytes: u32,
    write_size_bytes: u32,
    sync: bool,
    dirty: Mutex<Dirty>,
    /// Told what replies say of the file's attributes.
    attributes: Option<Arc<Mutex<AttributeCache>>>,
}

impl Inner {
    /// Tells the attribute cache what a reply to a call sent at `sent_ns` carried.
    fn learn(&self, sent_ns: u64, tell: impl FnOnce(&mut AttributeCache, Asked)) {
        if let Some(cache) = &self.attributes {
            let now_ns = MonotonicClock.now_ns();
            let mut cache = cache.lock();
            tell(&mut cache, Asked { sent_ns, now_ns });
        }
    }
}

impl File {
    /// A file by its handle, with the sizes and the `sync` of these options (after
    /// [`MountOptions::negotiate`]). `caller`: who makes the calls, if not the client's own.
    /// `attributes` learns what replies say, on the monotonic clock.
    pub fn new(
        client: Arc<Client>,
        handle: FileHandle,
        caller: Option<Caller>,
        options: &MountOptions,
        attributes: Option<Arc<Mutex<AttributeCache>>>,
    ) -> Self {
        let inner = Inner {
            client,
            handle,
            caller,
            read_size_bytes: options.read_size_bytes.max(1),
            write_size_bytes: options.write_size_bytes.max(1),
            sync: options.sync,
            dirty: Mutex::new(Dirty::default()),
            attributes,
        };
        File {
            inner: Arc::new(inner),
        }
    }

    /// The file's handle.
    pub fn handle(&self) -> &FileHandle {
        &self.inner.handle
    }

    /// Bytes under way, and bytes kept until they are committed.
    pub fn dirty_bytes(&self) -> (u64, u64) {
        let dirty = self.inner.dirty.lock();
        (dirty.in_flight_bytes(), dirty.kept_bytes())
    }
}
