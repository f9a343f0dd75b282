//! What all operations of a mount share: the client, what is known, and how calls are made.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use client::attributes::{Asked, AttributeCache};
use client::nfs3::{FileHandle, Procedure};
use client::{CallError, Caller, Client, MountOptions, Reply};
use fuser::{FileAttr, FileType, INodeNo, Notifier, Request};
use measure::{Clock, MonotonicClock};
use parking_lot::{Mutex, MutexGuard};
use wire::Encode;
use wire::nfs3::{Res, fattr3, ftype3, nfsstat3, nfstime3, specdata3, wcc_data};

use crate::callers::Callers;
use crate::inodes::{Inode, Inodes, Name, Place};
use crate::open_directories::OpenDirectory;
use crate::open_files::{Numbered, OpenFile};
use crate::waiting::Waiting;

/// Bytes of all files together that wait for their COMMIT, as far as their number allows.
const MAX_DIRTY_BYTES: u64 = 512 << 20;
/// Bytes of one file that may wait in any case.
const MIN_DIRTY_BYTES: u64 = 4 << 20;

/// See the module's text.
pub(crate) struct Shared {
    pub client: Arc<Client>,
    pub options: MountOptions,
    pub attributes: Arc<Mutex<AttributeCache>>,
    inodes: Mutex<Inodes>,
    pub files: Numbered<OpenFile>,
    pub directories: Numbered<OpenDirectory>,
    pub callers: Callers,
    /// Requests of the kernel that are not answered.
    pub waiting: Arc<Waiting>,
    /// Longest name (PATHCONF).
    pub name_max: u32,
    /// Whether names that differ in case alone are the same (PATHCONF).
    pub folds_case: bool,
    /// Largest file (FSINFO); 0 if the server has no opinion.
    pub max_file_bytes: u64,
    /// Preferred size of READDIR (FSINFO).
    pub directory_bytes: u32,
    /// The server said that it has no READDIRPLUS (Linux: NFS_CAP_READDIRPLUS is cleared).
    pub lacks_readdirplus: AtomicBool,
    /// Writes, syncs and drains that go on in the background.
    pub writers: AtomicU64,
    pub silly_names: AtomicU64,
    /// Questions of the kernel for attributes.
    pub attributes_asked: AtomicU64,
    /// Inodes whose pages the kernel has to drop. As many as there are answers to stat(2) and
    /// open(2) that tell of a change, which the kernel bounds.
    pub void_pages: OnceLock<Sender<Void>>,
}

/// An inode whose pages and attributes are void in the kernel, and what is done when they are gone.
pub(crate) struct Void {
    ino: u64,
    then: Box<dyn FnOnce() + Send>,
}

/// What a call brought.
type Brought<'a, P> = Result<<P as Procedure>::Results<'a>, CallError>;

/// What a call's continuation gets: its results, when it was sent, and whether more than once.
type Continuation = Box<dyn FnOnce(&Arc<Shared>, Result<Reply<'_>, CallError>, u64, bool) + Send>;

impl Shared {
    #[allow(clippy::too_many_arguments)] // once
    pub fn new(
        client: Arc<Client>,
        options: MountOptions,
        root: FileHandle,
        root_attributes: &fattr3,
        info: &wire::nfs3::FSINFO3resok,
        (name_max, folds_case): (u32, bool),
    ) -> Arc<Self> {
        let limit = client::attributes::DEFAULT_LIMIT;
        let attributes = Arc::new(Mutex::new(AttributeCache::new(&options, limit)));
        let directory_bytes = match info.dtpref {
            0 => 64 << 10,
            preferred => preferred.clamp(4 << 10, 1 << 20),
        };
        Arc::new(Shared {
            client,
            options,
            attributes,
            inodes: Mutex::new(Inodes::new(root, root_attributes)),
            files: Numbered::default(),
            directories: Numbered::default(),
            callers: Callers::default(),
            waiting: Arc::default(),
            name_max,
            folds_case,
            max_file_bytes: info.maxfilesize,
            directory_bytes,
            lacks_readdirplus: AtomicBool::new(false),
            writers: AtomicU64::new(0),
            silly_names: AtomicU64::new(u64::from(std::process::id())),
            attributes_asked: AtomicU64::new(0),
            void_pages: OnceLock::new(),
        })
    }

    pub fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.inodes.lock()
    }

    pub fn cache(&self) -> MutexGuard<'_, AttributeCache> {
        self.attributes.lock()
    }

    /// The kernel's inode; ESTALE for one that it should have forgotten.
    pub fn inode(&self, ino: INodeNo) -> Result<Arc<Inode>, fuser::Errno> {
        self.inodes().get(ino.0).ok_or(fuser::Errno::ESTALE)
    }

    pub fn caller(&self, request: &Request) -> Caller {
        self.callers.of(request)
    }

    /// The directory and the place in it that the kernel named.
    pub fn at(&self, (parent, name): Name<'_>) -> Result<(Arc<Inode>, Place), fuser::Errno> {
        let directory = self.inode(parent)?;
        if name.len() > self.name_max as usize {
            return Err(fuser::Errno::ENAMETOOLONG);
        }
        Ok((directory, (parent.0, name.as_bytes().into())))
    }

    /// Makes a call; `then` gets its results and the instant of its sending, in the reactor's
    /// thread. NFS3ERR_JUKEBOX is waited out.
    pub fn ask<P: Procedure>(
        self: &Arc<Self>,
        caller: &Caller,
        arguments: &P::Arguments<'_>,
        then: impl FnOnce(&Arc<Self>, Brought<'_, P>, u64) + Send + 'static,
    ) {
        self.ask_told::<P>(caller, arguments, |shared, result, sent_ns, _| {
            then(shared, result, sent_ns);
        });
    }

    /// As [`Shared::ask`]; `then` is told, too, whether the call was sent more than once: then the
    /// server may have run it before.
    pub fn ask_told<P: Procedure>(
        self: &Arc<Self>,
        caller: &Caller,
        arguments: &P::Arguments<'_>,
        then: impl FnOnce(&Arc<Self>, Brought<'_, P>, u64, bool) + Send + 'static,
    ) {
        let mut bytes = Vec::new();
        match arguments.encode(&mut bytes) {
            Err(error) => then(self, Err(CallError::Malformed(error)), 0, false),
            Ok(()) => {
                let decoded: Continuation = Box::new(move |shared, result, sent_ns, again| {
                    then(shared, client::nfs3::decode::<P>(result), sent_ns, again);
                });
                self.send(P::TARGET, caller.clone(), (bytes, false), decoded);
            }
        }
    }

    fn send(
        self: &Arc<Self>,
        target: [u32; 3],
        caller: Caller,
        (bytes, before): (Vec<u8>, bool),
        then: Continuation,
    ) {
        let again = Arc::clone(self);
        let sent_ns = MonotonicClock.now_ns();
        let (same, who) = (bytes.clone(), caller.clone());
        let ended = Box::new(move |result: Result<Reply<'_>, CallError>| {
            let later = result.as_ref().is_ok_and(|reply| {
                reply.body.first_chunk::<4>() == Some(&nfsstat3::NFS3ERR_JUKEBOX.code.to_be_bytes())
            });
            let more = before || result.as_ref().is_ok_and(|reply| reply.sends > 1);
            if later {
                again.after_jukebox(move |shared| shared.send(target, who, (same, more), then));
            } else {
                then(&again, result, sent_ns, more);
            }
        });
        self.client
            .submit(target, Some(&caller), bytes, None, ended);
    }

    /// Waits as long as NFS3ERR_JUKEBOX asks for, in a thread of its own, then goes on.
    pub fn after_jukebox(self: &Arc<Self>, then: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let shared = Arc::clone(self);
        let waits = move || {
            // If the client was shut down, the call that follows says so.
            let _ = shared.client.wait_out_jukebox();
            then(&shared);
        };
        let name = "nfs-jukebox".to_owned();
        // Without a thread the closure is dropped, and its reply says EIO.
        let _ = std::thread::Builder::new().name(name).spawn(waits);
    }

    /// Takes attributes that a reply carried.
    pub fn learn(&self, handle: &FileHandle, new: &fattr3, sent_ns: u64) {
        let now_ns = MonotonicClock.now_ns();
        self.cache().update(handle, new, Asked { sent_ns, now_ns });
    }

    /// [`Shared::learn`], if there are attributes.
    pub fn learn_some(&self, handle: &FileHandle, new: &Option<fattr3>, sent_ns: u64) {
        if let Some(new) = new {
            self.learn(handle, new, sent_ns);
        }
    }

    /// Takes what a changing call carried.
    pub fn learn_wcc(&self, handle: &FileHandle, wcc: &wcc_data, sent_ns: u64) {
        let now_ns = MonotonicClock.now_ns();
        self.cache()
            .update_wcc(handle, wcc, Asked { sent_ns, now_ns });
    }

    /// How long the kernel may believe an object's attributes, or a directory's entries.
    pub fn believed(&self, handle: &FileHandle) -> Duration {
        self.cache().remaining(handle, MonotonicClock.now_ns())
    }

    /// Attributes for the kernel. What was written here and is not in them yet counts.
    pub fn file_attr(&self, inode: &Inode, attributes: &fattr3, sent_ns: u64) -> FileAttr {
        let mut size = attributes.size;
        if attributes.type_ == ftype3::NF3REG {
            let version = self.cache().data_version(&inode.handle);
            let mut state = inode.state();
            state.told_version = version;
            if state.settled_ns.is_none_or(|settled| sent_ns < settled) {
                size = size.max(state.written_end);
            }
        }
        let block_bytes = self.options.write_size_bytes.clamp(4 << 10, 1 << 20);
        FileAttr {
            ino: INodeNo(match inode.ino {
                crate::inodes::ROOT => attributes.fileid,
                ino => ino,
            }),
            size,
            blocks: attributes.used.div_ceil(512),
            atime: time(attributes.atime),
            mtime: time(attributes.mtime),
            ctime: time(attributes.ctime),
            crtime: UNIX_EPOCH,
            kind: kind(attributes.type_),
            // Twelve bits: they fit.
            perm: u16::try_from(attributes.mode & 0o7777).unwrap_or(0),
            nlink: attributes.nlink,
            uid: attributes.uid,
            gid: attributes.gid,
            rdev: device(&attributes.rdev),
            blksize: 1 << block_bytes.ilog2(),
            flags: 0,
        }
    }

    /// Bytes of one file that may wait for their COMMIT before its writers wait.
    pub fn dirty_limit_bytes(&self) -> u64 {
        let files = self.writers.load(Ordering::Relaxed).max(1);
        let least = MIN_DIRTY_BYTES.max(2 * u64::from(self.options.write_size_bytes));
        (MAX_DIRTY_BYTES / files).max(least)
    }

    /// Whether the kernel's pages of a file are those of the contents that replies have told of;
    /// from now on they are taken to be. What changes while data written here are on their way is
    /// taken for our own doing: replies to WRITEs side by side overtake each other. (Linux does so
    /// as long as a file is open for writing: `have_writers`.)
    pub fn pages_hold(&self, inode: &Inode) -> bool {
        let version = self.cache().data_version(&inode.handle);
        let mut state = inode.state();
        let holds = state.pages_version == version || state.wrote;
        state.pages_version = version;
        state.wrote &= state.is_dirty();
        holds
    }

    /// What was written to a file is on stable storage: its pages are those of the contents.
    pub fn settled(&self, inode: &Inode) {
        let version = self.cache().data_version(&inode.handle);
        let mut state = inode.state();
        if state.is_dirty() {
            return;
        }
        if std::mem::take(&mut state.wrote) {
            state.pages_version = state.pages_version.and(version);
            state.told_version = state.told_version.and(version);
        }
        // Replies to calls from now on have all that was written.
        if state.settled_ns.is_none() {
            state.settled_ns = Some(MonotonicClock.now_ns());
        }
    }

    /// Whether the kernel was told attributes of a file that another client has changed since.
    pub fn told_old(&self, inode: &Inode) -> bool {
        let version = self.cache().data_version(&inode.handle);
        let state = inode.state();
        state.told_version.is_some() && state.told_version != version && !state.wrote
    }

    /// Has the kernel drop an inode's pages and attributes, then goes on. Not in this thread: the
    /// kernel may wait for an answer that this thread has to give. And not before a reply that
    /// brings attributes: the kernel would take that for older than the dropping, and ignore it.
    pub fn drop_pages(&self, ino: u64, then: impl FnOnce() + Send + 'static) {
        let void = Void {
            ino,
            then: Box::new(then),
        };
        // With `noac` the kernel compares times itself (FUSE_AUTO_INVAL_DATA).
        let queue = self
            .void_pages
            .get()
            .filter(|_| self.options.attribute_cache);
        let refused = match queue {
            // It lives as long as the mount; a mount that ends drops its pages itself.
            Some(queue) => queue.send(void).map_err(|refused| refused.0).err(),
            None => Some(void),
        };
        if let Some(void) = refused {
            (void.then)();
        }
    }

    /// Tells the kernel of void pages until the mount ends.
    pub fn drop_void_pages(notifier: &Notifier, queue: &std::sync::mpsc::Receiver<Void>) {
        for void in queue {
            // ENOENT: the kernel has forgotten it. ENODEV: the mount is gone.
            let _ = notifier.inval_inode(INodeNo(void.ino), 0, 0);
            (void.then)();
        }
    }

    /// What a call brought, or its errno, where what a refusal carries is of no use.
    pub fn done<T, F>(&self, result: Result<Res<T, F>, CallError>) -> Result<T, fuser::Errno> {
        match result {
            Ok(Res::Ok(done)) => Ok(done),
            Ok(Res::Fail(status, _)) => Err(self.errno(&CallError::Nfs(status))),
            Err(error) => Err(self.errno(&error)),
        }
    }

    /// An errno for the kernel.
    pub fn errno(&self, error: &CallError) -> fuser::Errno {
        match error {
            CallError::Closed => fuser::Errno::EIO,
            error => fuser::Errno::from_i32(error.errno().raw_os_error()),
        }
    }
}

fn time(time: nfstime3) -> std::time::SystemTime {
    UNIX_EPOCH + Duration::new(u64::from(time.seconds), time.nseconds.min(999_999_999))
}

pub(crate) fn kind(type_: ftype3) -> FileType {
    match type_ {
        ftype3::NF3REG => FileType::RegularFile,
        ftype3::NF3DIR => FileType::Directory,
        ftype3::NF3BLK => FileType::BlockDevice,
        ftype3::NF3CHR => FileType::CharDevice,
        ftype3::NF3LNK => FileType::Symlink,
        ftype3::NF3SOCK => FileType::Socket,
        ftype3::NF3FIFO => FileType::NamedPipe,
    }
}

/// A device number as the kernel packs it (`new_encode_dev`: 12 bits major, 20 bits minor).
fn device(number: &specdata3) -> u32 {
    let (major, minor) = (number.specdata1, number.specdata2);
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12)
}

/// The reverse of [`device`].
pub(crate) fn device_numbers(packed: u32) -> specdata3 {
    specdata3 {
        specdata1: (packed >> 8) & 0xfff,
        specdata2: (packed & 0xff) | ((packed >> 12) & 0xf_ff00),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_packed_as_linux_does() {
        for (major, minor) in [(8, 1), (259, 3), (4095, 1_048_575), (1, 300)] {
            let number = specdata3 {
                specdata1: major,
                specdata2: minor,
            };
            let packed = device(&number);
            assert_eq!(device_numbers(packed), number);
            // glibc's encoding of dev_t agrees in its lower 32 bits.
            let glibc = libc::makedev(major, minor);
            assert_eq!(u64::from(packed), glibc & 0xffff_ffff);
        }
    }
}
