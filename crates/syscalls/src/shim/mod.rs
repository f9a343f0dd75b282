//! A library that a launched program preloads, which records its calls on files.
//!
//! ```text
//! program ── LD_PRELOAD ──> shim (C, `shim/`) ──> ring in a shared file ──> Gatherer ──> tally
//!   its children, and what they start: the same file          every 50 ms
//! ```
//!
//! The library and the shared file lie in a folder that the caller names: it should be in memory
//! (/dev/shm), since pages of a file on the storage under test would be written to it
//! ([`ShimFigures::on_disk`] says so). Its room is reserved beforehand, so that no program can
//! fail on it. Whoever may write in the folder may record: the file gets the folder's owner, and
//! its group and others may write if they may write there.
//!
//! Decisions. A file is told by device, inode and birth time, without asking a server anew
//! (AT_STATX_DONT_SYNC), and by its handle (name_to_handle_at): file systems give an inode number
//! again at once, and births are stamped by a clock that ticks every few milliseconds. A read or
//! write without an offset is placed by asking where the descriptor stands behind it; when several
//! threads use one description at once, that may be where another one has taken it. A full ring
//! loses records, which are counted by kind; a writer that was killed in the midst of one costs
//! that one slot.
//!
//! Limits: what the C library calls within itself (stdio), static and set-user programs, calls
//! without the C library (Go, io_uring), programs of musl or 32 bits. Then nothing is loaded, and
//! [`ShimFigures::processes`] stays 0.

mod gather;
mod layout;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::record::CountRecord;
use crate::tally::{Lost, Options, Taken, Tally};
use gather::{Gatherer, STUCK, Stopped};
use layout::{Figure, Shared};
use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(shim)]
const LIBRARY: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/shim.so")));
#[cfg(not(shim))]
const LIBRARY: Option<&[u8]> = None;
const LEFT_OUT: &str = env!("NFSLAB_SHIM_LEFT_OUT");

/// Slots of the ring: 16 MiB, a quarter of a second at a million calls a second.
pub const SLOTS_LOG2: u32 = 18;
/// Files of the shared table: 2 MiB.
pub const FILES_LOG2: u32 = 16;
/// How often the ring is emptied.
pub const POLL: Duration = Duration::from_millis(50);
const LIBRARY_NAME: &str = "nfslab-shim.so";
const RING_NAME: &str = "nfslab-shim.ring";

/// Why the shim cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// Built without a C compiler.
    #[error("the preload shim was left out when nfslab was built")]
    LeftOut {
        /// What the build said.
        why: &'static str,
    },
    /// The dynamic loader takes blanks and colons for the end of a name.
    #[error("{} cannot be preloaded from", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
    },
    /// A file could not be made.
    #[error("cannot make {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShimFigures {
    /// Programs that loaded it (each exec anew); 0: nothing was seen, and never will be.
    pub processes: u64,
    /// Children that they forked.
    pub forks: u64,
    /// Records read, names among them.
    pub records: u64,
    /// Records whose writer ended, or stood still, before it had written them.
    pub torn: u64,
    /// Calls other than syncs, reads and writes that found the ring full.
    pub lost_calls: u64,
    /// What found no room, in the ring or after it.
    pub lost: Lost,
    /// Records that make no sense.
    pub not_understood: u64,
    /// CPU time of the thread that reads, ns.
    pub thread_cpu_ns: u64,
    /// 1 if the shared file is not in memory.
    pub on_disk: u64,
}

#[derive(Debug)]
struct Inside {
    shared: Shared,
    gatherer: Mutex<Gatherer>,
    stop: Mutex<bool>,
    stopping: Condvar,
    thread_cpu_ns: AtomicU64,
}

impl Inside {
    fn gatherer(&self) -> MutexGuard<'_, Gatherer> {
        self.gatherer.lock()
    }

    fn poll(&self) {
        let mut stop = self.stop.lock();
        while !*stop {
            self.stopping.wait_for(&mut stop, POLL);
            self.gatherer().drain(&self.shared);
            self.thread_cpu_ns.store(thread_cpu_ns(), Ordering::Relaxed);
        }
    }
}

/// Reads what launched programs record.
#[derive(Debug)]
pub struct ShimRecords {
    folder: PathBuf,
    on_disk: bool,
    inside: Arc<Inside>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Writes the library into a folder; says where it is.
///
/// # Errors
/// [`ShimError`]: left out, or the file cannot be made.
pub fn write_library(folder: &Path) -> Result<PathBuf, ShimError> {
    let library = LIBRARY.ok_or(ShimError::LeftOut { why: LEFT_OUT })?;
    let path = folder.join(LIBRARY_NAME);
    let name = path.as_os_str().as_encoded_bytes();
    if name
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || *byte == b':')
    {
        return Err(ShimError::Folder {
            folder: folder.to_owned(),
        });
    }
    let written = || {
        let temporary = folder.join(format!("{LIBRARY_NAME}.{}", std::process::id()));
        let mut file = File::create(&temporary)?;
        file.write_all(library)?;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        fs::rename(&temporary, &path)
    };
    written().map_err(|source| ShimError::Io {
        path: path.clone(),
        source,
    })?;
    Ok(path)
}

impl ShimRecords {
    /// Makes library and shared file in a folder, and begins to read.
    ///
    /// # Errors
    /// [`ShimError`]: left out, or the files cannot be made (a shared file is there already, or
    /// there is no room for it).
    pub fn new(folder: &Path, options: Options) -> Result<Self, ShimError> {
        Self::sized(folder, options, SLOTS_LOG2, FILES_LOG2)
    }

    /// As [`ShimRecords::new`], with a ring of `1 << slots_log2` slots.
    ///
    /// # Errors
    /// As there.
    pub fn sized(
        folder: &Path,
        options: Options,
        slots_log2: u32,
        files_log2: u32,
    ) -> Result<Self, ShimError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| ShimError::Io { path, source }
        };
        let folder = folder.canonicalize().map_err(io(folder))?;
        write_library(&folder)?;
        let path = folder.join(RING_NAME);
        let (slots_log2, files_log2) = (slots_log2.clamp(4, 24), files_log2.clamp(4, 20));
        let bytes = Shared::bytes(slots_log2, files_log2);
        let file = shared_file(&folder, &path, bytes).map_err(io(&path))?;
        let on_disk = !in_memory(&file);
        let level = options.level as u32;
        let shared = Shared::make(&file, slots_log2, files_log2, level, options.lseek);
        let shared = shared.map_err(io(&path))?;
        let inside = Arc::new(Inside {
            shared,
            gatherer: Mutex::new(Gatherer::new(Tally::new(options))),
            stop: Mutex::new(false),
            stopping: Condvar::new(),
            thread_cpu_ns: AtomicU64::new(0),
        });
        let reader = Arc::clone(&inside);
        let builder = std::thread::Builder::new().name("shim reader".to_owned());
        let thread = builder.spawn(move || reader.poll()).map_err(io(&path))?;
        Ok(ShimRecords {
            folder,
            on_disk,
            inside,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// What a program is to be launched with: names and values of its environment.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("LD_PRELOAD", self.folder.join(LIBRARY_NAME)),
            ("NFSLAB_SHIM_FILE", self.folder.join(RING_NAME)),
        ]
    }

    /// What came since the last time, the ring emptied before.
    pub fn take(&self) -> Taken {
        let mut gatherer = self.inside.gatherer();
        gatherer.drain(&self.inside.shared);
        gatherer.tally.take()
    }

    /// Totals now.
    pub fn counts(&self) -> Vec<CountRecord> {
        let mut gatherer = self.inside.gatherer();
        gatherer.drain(&self.inside.shared);
        gatherer.tally.counts().to_vec()
    }

    /// What happened so far.
    pub fn figures(&self) -> ShimFigures {
        let mut gatherer = self.inside.gatherer();
        let shared = &self.inside.shared;
        gatherer.drain(shared);
        let lost = gatherer.tally.lost();
        ShimFigures {
            processes: shared.figure(Figure::Loads),
            forks: shared.figure(Figure::Forks),
            records: gatherer.records,
            torn: gatherer.torn,
            lost_calls: shared.figure(Figure::LostCalls),
            lost: Lost {
                syncs: lost.syncs + shared.figure(Figure::LostSyncs),
                events: lost.events + shared.figure(Figure::LostEvents),
                names: lost.names + gatherer.lost_names + shared.figure(Figure::LostNames),
                uncounted: lost.uncounted + shared.figure(Figure::LostFiles),
            },
            not_understood: gatherer.not_understood,
            thread_cpu_ns: self.inside.thread_cpu_ns.load(Ordering::Relaxed),
            on_disk: self.on_disk.into(),
        }
    }

    /// Ends it: programs that still run record no more. What came can still be taken.
    pub fn stop(&self) {
        let thread = self.thread.lock().take();
        let Some(thread) = thread else {
            return;
        };
        *self.inside.stop.lock() = true;
        self.inside.stopping.notify_all();
        // A thread that panicked has nothing more to say; what it gathered is still there.
        let _ = thread.join();
        self.inside.shared.close();
        let since = Instant::now();
        while self.inside.gatherer().drain(&self.inside.shared) == Stopped::Waiting
            && since.elapsed() < 4 * STUCK
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Whoever starts now finds no file, and records nothing; the library stays, since programs
        // that still run may start others, whose loader would complain.
        let _ = fs::remove_file(self.folder.join(RING_NAME));
    }
}

impl Drop for ShimRecords {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An empty file of this length, its room reserved, as open to others as its folder.
fn shared_file(folder: &Path, path: &Path, bytes: usize) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(path)?;
    let prepare = || {
        let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: an open descriptor.
        let failed = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        let owner = folder.metadata()?;
        let mode = 0o600 | owner.mode() & 0o022 | (owner.mode() & 0o022) << 1;
        let ours = file.metadata()?;
        if (owner.uid(), owner.gid()) != (ours.uid(), ours.gid()) {
            // Only root can give it away; others own their folder or write in a shared one.
            let _ = std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()));
        }
        file.set_permissions(fs::Permissions::from_mode(mode))
    };
    if let Err(error) = prepare() {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(file)
}

/// Is the file in memory (tmpfs)?
fn in_memory(file: &File) -> bool {
    // SAFETY: statfs has no invalid values, and an open descriptor is given.
    unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &mut about) == 0
            && i128::from(about.f_type) == i128::from(libc::TMPFS_MAGIC)
    }
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place for the answer.
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
    }
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
