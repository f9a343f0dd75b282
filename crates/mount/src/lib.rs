//! An NFS mount without the kernel's NFS: a FUSE file system over the client.
//!
//! Purpose: programs use it as they use a kernel's mount, and `rsize`, `wsize`, `ac`, `sync` and
//! `nconnect` mean what nfs(5) says, while every call is seen.
//!
//! Flow: the kernel's page cache asks for pages and hands over written ones; [`file_system`] makes
//! calls of that, and their continuations reply, in the client's thread. Nothing waits for anything
//! but its own calls. Written data are gathered and kept by [`client::File`] until they are
//! committed. Attributes are believed as [`client::attributes`] says, by the kernel too: that time
//! goes with each reply. When replies tell that somebody else changed a file, the kernel is told to
//! drop its pages.
//!
//! Decisions: no cache of pages here, and none of writing in the kernel unless `writeback` asks
//! for it (FUSE's writeback cache trusts its own sizes and times, which is not close-to-open).
//! Users are those of the requests. Permission is checked by mode bits in the kernel, and by the
//! server with ACCESS at each open.
//!
//! Limits: locks are local to the mount (`nolock`). A process that serves a mount must not map
//! files of it: an unmapping waits, with the memory map locked, for pages that a thread here takes,
//! and that thread may need more memory. See `docs/mount.md`.

mod callers;
mod error;
mod file_system;
mod general;
mod inodes;
mod kernel;
mod new_directories;
mod open_directories;
mod open_files;
mod shared;
mod source;
mod waiting;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use client::nfs3::{Export, GetAttr, MountService, PathConf};
use client::options::MountOptions;
use client::record::{Counters, Operations};
use client::{CallError, Caller, Client, ConnectError};
use measure::FileCounts;
use parking_lot::{Condvar, Mutex};
use wire::nfs3::{GETATTR3args, PATHCONF3args, Res, fattr3};

pub use error::MountError;
pub use general::GeneralOptions;
pub use kernel::{FILE_SYSTEM_TYPE, Unmount, unmount};
pub use source::Source;

use file_system::FileSystem;
use kernel::Attached;
use shared::Shared;

/// Threads that take the kernel's requests. Two: one copies written data while the other goes on.
const SESSION_THREADS: usize = 2;
/// Read-ahead in units of `rsize`: as many READs are under way for one reader.
const READ_AHEAD_READS: u32 = 4;
/// Least and most of read-ahead, KiB.
const READ_AHEAD_KIB: (u32, u32) = (1024, 8192);
/// How often gathered data are sent that are as old (Linux: `dirty_writeback_centisecs`).
const PUSH_INTERVAL: Duration = Duration::from_secs(5);
/// How many of these intervals until data are committed (Linux: `dirty_expire_centisecs`).
const COMMIT_INTERVALS: u32 = 6;
/// Longest name in any case, and where the server does not say (Linux: NFS3_MAXNAMLEN).
const NAME_MAX: u32 = 255;

/// A file's path in the mount, and its calls.
pub type CallsOfFile = (Option<Vec<u8>>, FileCounts);

/// What a mount shares with its threads.
#[derive(Default)]
struct Life {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Life {
    fn end(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }
}

/// A mounted file system. It is unmounted (lazily, if it is in use) when this is dropped.
pub struct Mount {
    source: Source,
    general: GeneralOptions,
    shared: Arc<Shared>,
    attached: Attached,
    read_ahead_kib: Option<u32>,
    life: Arc<Life>,
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "Mount({} on {})",
            self.source,
            self.directory().display()
        )
    }
}

/// What `/proc/mounts` is to show as the source (`fsname=` of mount.fuse3(8): an export's path may
/// be a secret), and the other options.
fn shown_as(source: &Source, options: &str) -> (String, String) {
    let (names, rest): (Vec<&str>, Vec<&str>) = options
        .split(',')
        .partition(|option| option.starts_with("fsname="));
    let name = names.last().and_then(|option| option.split_once('='));
    let shown = name.map_or_else(|| source.to_string(), |(_, name)| name.to_owned());
    (shown, rest.join(","))
}

/// Whether a mount would take these options.
///
/// # Errors
/// [`MountError::Option`] for the first that it would not.
pub fn check_options(options: &str) -> Result<(), MountError> {
    let (_, rest) = GeneralOptions::split(options);
    MountOptions::parse(&rest)?;
    Ok(())
}

impl Mount {
    /// Mounts `source` on `directory` with options of nfs(5) and mount(8), and serves it until it
    /// is unmounted.
    ///
    /// # Errors
    /// [`MountError`], with the step that failed; then nothing is mounted.
    pub fn new(source: &Source, directory: &Path, options: &str) -> Result<Self, MountError> {
        let (general, rest) = GeneralOptions::split(options);
        let (shown, rest) = shown_as(source, &rest);
        let options = MountOptions::parse(&rest)?;
        let directory = kernel::check_directory(directory)?;
        let host = source.address(&options)?;
        let export = Export::mount(host, &source.export, options)?;
        Self::start(source, &shown, directory, general, export)
    }

    fn start(
        source: &Source,
        shown: &str,
        directory: PathBuf,
        general: GeneralOptions,
        export: Export,
    ) -> Result<Self, MountError> {
        let caller = Caller::process();
        let about = |source: CallError| ConnectError::Call {
            what: "asking for the attributes of the export's root".to_owned(),
            source,
        };
        let root = ask_root(&export, &caller).map_err(about)?;
        let names = ask_about_names(&export, &caller);
        let Export {
            client,
            root: handle,
            options,
            info,
        } = export;
        let shared = Shared::new(client, options, handle, &root, &info, names);
        let (device, attached) = kernel::attach(directory, shown, general)?;
        let mut mount = Mount {
            source: source.clone(),
            general,
            shared,
            attached,
            read_ahead_kib: None,
            life: Arc::new(Life::default()),
        };
        // From here on, dropping `mount` unmounts.
        mount.serve(device)?;
        let reads = mount.shared.options.read_size_bytes / 1024 * READ_AHEAD_READS;
        let kib = reads.clamp(READ_AHEAD_KIB.0, READ_AHEAD_KIB.1);
        mount.read_ahead_kib = kernel::set_read_ahead(mount.attached.connection, kib);
        Ok(mount)
    }

    /// Starts the threads: the session's, the one that tells the kernel of void pages, and the one
    /// that sends old data.
    fn serve(&self, device: OwnedFd) -> Result<(), MountError> {
        let system = |what: &'static str| move |error| MountError::system(what, error);
        let waiting = Arc::clone(&self.shared.waiting);
        let answers = device.try_clone();
        waiting.use_device(answers.map_err(system("another descriptor of /dev/fuse"))?);
        let mut config = fuser::Config::default();
        config.n_threads = Some(SESSION_THREADS);
        let file_system = FileSystem(Arc::clone(&self.shared));
        // Who may come in is the kernel's business (allow_other): nothing is filtered here.
        let acl = fuser::SessionACL::All;
        let session = fuser::Session::from_fd(file_system, device, acl, config)
            .map_err(system("the first words with the kernel"))?;
        let notifier = session.notifier();
        let (sender, queue) = mpsc::channel();
        let _ = self.shared.void_pages.set(sender);
        spawn("nfs-void-pages", move || {
            Shared::drop_void_pages(&notifier, &queue);
        })?;
        let (life, shared) = (Arc::clone(&self.life), Arc::clone(&self.shared));
        spawn("nfs-old-data", move || tend(&life, &shared))?;
        let looking = Arc::clone(&waiting);
        spawn("nfs-killed", move || looking.look_for_killed())?;
        let life = Arc::clone(&self.life);
        spawn("nfs-mount", move || {
            // An error here means that the kernel has ended it, or that it was aborted.
            let _ = session.run();
            waiting.over();
            life.end();
        })
    }

    /// Where it is mounted from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.attached.directory
    }

    /// The client below it.
    pub fn client(&self) -> &Arc<Client> {
        &self.shared.client
    }

    /// Sends gathered data that nobody wrote to since this was done last; the mount does so itself
    /// every 5 s.
    pub fn send_old_data(&self) {
        self.shared.push_old_data();
    }

    /// Options of nfs(5) in effect, sizes as negotiated.
    pub fn options(&self) -> &MountOptions {
        &self.shared.options
    }

    /// All options in effect, those of mount(8) first; with the kernel's read-ahead in KiB.
    pub fn effective_options(&self) -> Vec<(&'static str, String)> {
        let mut all = self.general.effective();
        all.extend(self.shared.options.effective());
        if let Some(kib) = self.read_ahead_kib {
            all.push(("read_ahead_kb", kib.to_string()));
        }
        all
    }

    /// Objects that the kernel knows, open files, open directories.
    pub fn known(&self) -> (usize, usize, usize) {
        let known = self.shared.inodes().len();
        (
            known,
            self.shared.files.len(),
            self.shared.directories.len(),
        )
    }

    /// Totals, figures by operation, and calls on data by a file's path (None: it has none here)
    /// since the last time; the first time begins to count files.
    ///
    /// # Errors
    /// The client has ended.
    pub fn figures(&self) -> Result<(Counters, Operations, Vec<CallsOfFile>), CallError> {
        let taken = self.shared.client.with_engine(|engine| {
            let (counters, operations) = (*engine.counters(), engine.operations().clone());
            (counters, operations, engine.take_files())
        });
        let (counters, operations, files) = taken?;
        let inodes = self.shared.inodes();
        let named = files
            .into_iter()
            .map(|(id, counts)| (inodes.path(id), counts));
        Ok((counters, operations, named.collect()))
    }

    /// How often the kernel has asked for an object's attributes.
    pub fn attributes_asked(&self) -> u64 {
        self.shared.attributes_asked.load(Ordering::Relaxed)
    }

    /// Waits until it is unmounted, by whomever; false if that did not happen in time.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut ended = self.life.ended.lock();
        while !*ended {
            let Some(until) = until else {
                self.life.changed.wait(&mut ended);
                continue;
            };
            if self.life.changed.wait_until(&mut ended, until).timed_out() {
                return *ended;
            }
        }
        true
    }

    /// Unmounts. Data that programs have closed are on the server before.
    ///
    /// # Errors
    /// EBUSY while it is used, with [`Unmount::Normal`].
    pub fn unmount(&self, how: Unmount) -> Result<(), MountError> {
        let what = || format!("unmounting {}", self.directory().display());
        if how == Unmount::Force {
            self.shared.waiting.end(fuser::Errno::EIO);
        }
        kernel::detach(&self.attached, how).map_err(|error| MountError::system(what(), error))
    }

    /// Tells the server that it is no longer mounted (UMNT), as mount.nfs(8) does; best effort.
    pub fn tell_server(&self) {
        let options = &self.shared.options;
        let Ok(host) = self.source.address(options) else {
            return;
        };
        if let Ok(mut service) = MountService::connect(host, options) {
            let _ = service.umnt(&self.source.export);
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.unmount(Unmount::Lazy);
        // Whoever still uses it gets an error for what comes, and none hangs.
        self.shared.client.shutdown();
        self.life.end();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), MountError> {
    let inside = move || {
        measure::thread::leave_signals_to_others();
        run();
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn(inside);
    started
        .map(drop)
        .map_err(|error| MountError::system("a thread", error))
}

/// Sends and commits what has been waiting for long.
fn tend(life: &Life, shared: &Shared) {
    let mut round = 0;
    let mut ended = life.ended.lock();
    while !*ended {
        life.changed.wait_for(&mut ended, PUSH_INTERVAL);
        drop(ended);
        round += 1;
        if round % COMMIT_INTERVALS == 0 {
            shared.commit_old_data();
        } else {
            shared.push_old_data();
        }
        ended = life.ended.lock();
    }
}

fn ask_root(export: &Export, caller: &Caller) -> Result<fattr3, CallError> {
    let arguments = GETATTR3args {
        object: export.root.as_fh(),
    };
    let answer = export.client.call::<GetAttr>(Some(caller), &arguments)?;
    match answer.decode()? {
        Res::Ok(found) => Ok(found.obj_attributes),
        Res::Fail(status, ()) => Err(CallError::Nfs(status)),
    }
}

/// Longest name, and whether case is folded (PATHCONF). A server that does not say is taken to have
/// the usual limit, as Linux takes it (fs/nfs/client.c `nfs_create_server`), and to fold case.
fn ask_about_names(export: &Export, caller: &Caller) -> (u32, bool) {
    let arguments = PATHCONF3args {
        object: export.root.as_fh(),
    };
    let asked = export.client.call::<PathConf>(Some(caller), &arguments);
    let known = asked.and_then(|answer| {
        answer.decode().map(|limits| match limits {
            Res::Ok(limits) => Some((limits.name_max, limits.case_insensitive)),
            Res::Fail(..) => None,
        })
    });
    match known {
        Ok(Some((most, folds_case))) if most > 0 => (most.min(NAME_MAX), folds_case),
        _ => (NAME_MAX, true),
    }
}
