//! The files on the target: made in a directory of their own, removed whatever happens.
//!
//! Of several processes of one run each has a directory with its own files. Where they share files
//! there is one directory, which the first process makes and removes.

use std::path::{Path, PathBuf};

use measure::Clock as _;

use crate::config::Plan;
use crate::error::{Blame, FilesError};
use crate::layout::Layout;
use crate::syscalls::{Descriptor, Errno, SyncCall, available_bytes};

/// The run's directory and files. Dropping it removes them, unless they are to be kept.
#[derive(Debug)]
pub struct Workspace {
    directory: PathBuf,
    paths: Vec<PathBuf>,
    /// Those that this process makes: of `paths`.
    made: std::ops::Range<usize>,
    keep: bool,
}

/// What the page cache held of the files before a phase.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CacheState {
    /// Whether the kernel was asked to forget the files' pages.
    pub drop_asked: bool,
    /// Bytes in the page cache after that; unknown where mincore(2) does not tell.
    pub resident_bytes: Option<u64>,
    /// Size of the files.
    pub size_bytes: u64,
}

impl Workspace {
    /// Makes the directory, if the target has room for all files.
    pub fn make(plan: &Plan) -> Result<Self, FilesError> {
        let blame = Blame {
            step: "set-up",
            path: &plan.directory,
            direct: false,
        };
        let made = match (plan.shared, plan.process()) {
            (false, _) => plan.layout().own_files(),
            (true, 0) => 0..plan.files,
            (true, _) => 0..0,
        };
        let needed_bytes = made
            .clone()
            .map(|file| plan.layout().file_bytes(file))
            .sum();
        let available = available_bytes(&plan.directory);
        let available = available.map_err(|errno| blame.error("statvfs", None, errno))?;
        if available.is_some_and(|bytes| bytes < needed_bytes) {
            return Err(FilesError::TooSmall {
                path: plan.directory.clone(),
                available_bytes: available.unwrap_or(0),
                needed_bytes,
            });
        }
        // Process and time make a name that no other run has; mkdir fails if one has it after all.
        let (process, now_ns) = (std::process::id(), measure::MonotonicClock.now_ns());
        let name = match &plan.part {
            Some(part) if plan.shared => part.folder.clone(),
            Some(part) => format!("{}-{}", part.folder, part.index),
            None => format!("nfslab-files-{process}-{now_ns:x}"),
        };
        let directory = plan.directory.join(name);
        if !made.is_empty() {
            std::fs::create_dir(&directory)
                .map_err(|error| blame.error("mkdir", None, errno_of(&error)))?;
        }
        let paths = (0..plan.files)
            .map(|file| directory.join(format!("file{file:05}")))
            .collect();
        let number = |file: u64| usize::try_from(file).unwrap_or(usize::MAX);
        Ok(Self {
            directory,
            paths,
            made: number(made.start)..number(made.end),
            keep: plan.keep || made.is_empty(),
        })
    }

    /// Whether the directory is there, when whoever makes it has done so.
    ///
    /// An NFS client may believe for a while that a name that it was not told of is not there. To
    /// list the folder makes it ask.
    pub fn look(&self) -> Result<(), FilesError> {
        let above = self.directory.parent().unwrap_or(&self.directory);
        let is_there = std::fs::read_dir(above).is_ok_and(|mut entries| {
            entries.any(|one| one.is_ok_and(|one| one.path() == self.directory))
        });
        if is_there && self.directory.is_dir() {
            return Ok(());
        }
        Err(FilesError::NotShared {
            path: self.directory.clone(),
        })
    }

    /// The run's own directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The files, in order.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Replaces all files that this process makes by new, empty ones.
    ///
    /// Files and directory are synced, so that the file system is done with freeing the old blocks
    /// before the next phase is timed.
    pub fn renew(&self, step: &'static str) -> Result<(), FilesError> {
        if self.made.is_empty() {
            return Ok(());
        }
        self.unlink().map_err(|(path, error)| {
            Blame {
                step,
                path: &path,
                direct: false,
            }
            .error("unlink", None, errno_of(&error))
        })?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        for path in &self.paths[self.made.clone()] {
            let blame = Blame {
                step,
                path,
                direct: false,
            };
            let fail = |call| move |errno| blame.error(call, None, errno);
            let file = Descriptor::open(path, flags).map_err(fail("open"))?;
            file.sync(SyncCall::Fsync).map_err(fail("fsync"))?;
            file.close().map_err(fail("close"))?;
        }
        let blame = Blame {
            step,
            path: &self.directory,
            direct: false,
        };
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let directory = Descriptor::open(&self.directory, flags);
        let directory = directory.map_err(|errno| blame.error("open", None, errno))?;
        match directory.sync(SyncCall::Fsync) {
            // Some network and user-space file systems cannot sync a directory.
            Ok(()) | Err(Errno(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS)) => Ok(()),
            Err(errno) => Err(blame.error("fsync", None, errno)),
        }
    }

    /// Asks the kernel to forget the pages of the process's files if `drop_asked`, then looks what
    /// it still has of its blocks.
    pub fn settle_cache(
        &self,
        step: &'static str,
        layout: &Layout,
        drop_asked: bool,
    ) -> Result<CacheState, FilesError> {
        let (mut resident, mut size_bytes) = (Some(0), 0);
        for segment in layout.segments(layout.own()) {
            let path = &self.paths[usize::try_from(segment.file).unwrap_or(usize::MAX)];
            let blame = Blame {
                step,
                path,
                direct: false,
            };
            let fail = |call| move |errno| blame.error(call, None, errno);
            let file = Descriptor::open(path, libc::O_RDWR).map_err(fail("open"))?;
            if drop_asked {
                // Only clean pages can be dropped.
                file.sync(SyncCall::Fsync).map_err(fail("fsync"))?;
                file.drop_cache().map_err(fail("posix_fadvise"))?;
            }
            let bytes = layout.segment_bytes(&segment);
            size_bytes += bytes;
            let range = segment.offset..segment.offset + bytes;
            let in_cache = file.resident_bytes(range).ok();
            resident = resident.zip(in_cache).map(|(sum, bytes)| sum + bytes);
            file.close().map_err(fail("close"))?;
        }
        Ok(CacheState {
            drop_asked,
            resident_bytes: resident,
            size_bytes,
        })
    }

    fn unlink(&self) -> Result<(), (PathBuf, std::io::Error)> {
        for path in &self.paths[self.made.clone()] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err((path.clone(), error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes files and directory, unless they are to be kept. Tells what could not be removed.
    pub fn remove(mut self) -> Result<(), (PathBuf, std::io::Error)> {
        if std::mem::replace(&mut self.keep, true) {
            return Ok(());
        }
        self.unlink()?;
        std::fs::remove_dir(&self.directory).map_err(|error| (self.directory.clone(), error))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if !self.keep {
            // Best effort on the way out of an error, which is what the user is told about.
            let _ = self.unlink();
            let _ = std::fs::remove_dir(&self.directory);
        }
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}
