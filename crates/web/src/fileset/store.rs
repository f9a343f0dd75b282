//! The file set in a folder: made by several threads, found again, checked.
//!
//! A directory is written under a temporary name and renamed when its 36 files are whole. After the
//! last one the file system is told to write everything out (syncfs(2); a network file system has
//! been told at each close(2), whose errors count), and the definition is written beside it, under
//! a temporary name, synced and renamed: [`MARKER`]. A set whose marker is there is found; without
//! it the work goes on: directories whose 36 sizes are right are kept. A set of more directories
//! has those of a smaller one in it.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use measure::Random;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{Content, FILES_PER_DIRECTORY, FOLDER, FileId, FileSet, MAX_FILE_BYTES};
use crate::error::WebError;
use crate::progress::Progress;
use generator::{Observer, TICK_NS};

/// Name of the definition, beside the folder of the file set.
pub const MARKER: &str = "file_set.json";
/// Most threads that write.
const MAX_THREADS: u32 = 64;
/// Most paths that a check names.
const MAX_NAMED: usize = 20;

/// Where, what, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// The document root: a folder that exists.
    pub root: PathBuf,
    /// Which files.
    pub file_set: FileSet,
    /// Threads that write, 1 to 64.
    #[serde(default = "four")]
    pub threads: u32,
    /// Files whose bytes a check reads.
    #[serde(default = "hundred")]
    pub sample_files: u64,
}

const fn four() -> u32 {
    4
}
const fn hundred() -> u64 {
    100
}

/// What was done to have the file set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Written {
    pub files: u64,
    pub bytes: u64,
    /// Directories that were there, and that were made.
    pub directories_found: u32,
    pub directories_made: u32,
    pub written_bytes: u64,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Checked {
    pub files: u64,
    pub bytes: u64,
    /// Whether the marker says that the set is complete.
    pub complete: bool,
    pub missing: u64,
    pub wrong_size: u64,
    pub sampled: Sampled,
    /// Some of the files that are wrong, with what is: at most 20.
    pub wrong: Vec<String>,
}

/// Files that were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Sampled {
    pub files: u64,
    pub bytes: u64,
    pub wrong_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    schema: u32,
    file_set: FileSet,
}

impl StoreConfig {
    fn marker(&self) -> PathBuf {
        self.root.join(MARKER)
    }

    fn folder(&self, directory: u32) -> PathBuf {
        self.root.join(FOLDER).join(format!("dir{directory:05}"))
    }

    /// Directories that the marker says are complete.
    fn complete(&self) -> Result<u32, WebError> {
        let path = self.marker();
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(WebError::file(&path, "reading")(errno(&error))),
        };
        let wrong = |why: String| WebError::FileSet {
            path: self.root.display().to_string(),
            why,
        };
        let marker: Marker = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("{MARKER} cannot be read: {error}")))?;
        if marker.schema != crate::SCHEMA || marker.file_set.seed != self.file_set.seed {
            return Err(wrong(format!(
                "it has a file set of seed {} (version {}), asked for is seed {} (version {})",
                marker.file_set.seed,
                marker.schema,
                self.file_set.seed,
                crate::SCHEMA
            )));
        }
        Ok(marker.file_set.directories)
    }
}

/// Errno of an error of the standard library.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Sizes of a directory's files that are not what they ought to be: of each, what is there.
fn wrong_sizes(folder: &Path) -> impl Iterator<Item = (FileId, Option<u64>)> {
    let folder = folder.to_path_buf();
    (0..u64::from(FILES_PER_DIRECTORY)).filter_map(move |index| {
        let id = FileId::of(index);
        let path = folder.join(name(id));
        let size = std::fs::symlink_metadata(path);
        let size = size
            .ok()
            .filter(std::fs::Metadata::is_file)
            .map(|found| found.len());
        (size != Some(id.bytes())).then_some((id, size))
    })
}

fn name(id: FileId) -> String {
    format!("class{}_{}", id.class, id.file)
}

/// What the threads share.
struct Work<'w> {
    config: &'w StoreConfig,
    content: &'w Content,
    next: AtomicU32,
    found: AtomicU32,
    made: AtomicU32,
    written_bytes: AtomicU64,
    stop: AtomicBool,
}

impl Work<'_> {
    /// One thread's part: directories until none is left.
    fn directories(&self) -> Result<(), WebError> {
        let mut bytes = vec![0; MAX_FILE_BYTES as usize];
        while !self.stop.load(Ordering::Relaxed) {
            let directory = self.next.fetch_add(1, Ordering::Relaxed);
            if directory >= self.config.file_set.directories {
                break;
            }
            let folder = self.config.folder(directory);
            if wrong_sizes(&folder).next().is_none() {
                self.found.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if let Err(error) = self.directory(directory, &folder, &mut bytes) {
                self.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            self.made.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn directory(&self, directory: u32, folder: &Path, bytes: &mut [u8]) -> Result<(), WebError> {
        let part = folder.with_extension("part");
        for old in [folder, &part] {
            match std::fs::remove_dir_all(old) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(WebError::file(old, "removing")(errno(&error)));
                }
                _ => {}
            }
        }
        let made = std::fs::create_dir(&part);
        made.map_err(|error| WebError::file(&part, "making")(errno(&error)))?;
        let first = u64::from(directory) * u64::from(FILES_PER_DIRECTORY);
        for index in first..first + u64::from(FILES_PER_DIRECTORY) {
            let id = FileId::of(index);
            let bytes = bytes.get_mut(..id.bytes() as usize).unwrap_or_default();
            self.content.fill(index, 0, bytes);
            let path = part.join(name(id));
            write_file(&path, bytes).map_err(WebError::file(&path, "writing"))?;
            self.written_bytes.fetch_add(id.bytes(), Ordering::Relaxed);
        }
        std::fs::rename(&part, folder)
            .map_err(|error| WebError::file(folder, "renaming")(errno(&error)))
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Errno> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    // Readable by a web server of another user.
    let descriptor = rustix::fs::open(path, flags, Mode::from_bits_truncate(0o644))?;
    let mut file = File::from(descriptor);
    let written = file.write_all(bytes).map_err(|error| errno(&error));
    // close(2) may be where a network file system tells of lost writes.
    // SAFETY: the descriptor was the file's alone, and is used no more.
    let closed = unsafe { rustix::io::try_close(file.into_raw_fd()) };
    written.and(closed)
}

/// Makes the file set, or what is missing of it.
///
/// # Errors
/// [`WebError`]; what was made stays, and is found the next time.
pub fn write(
    config: &StoreConfig,
    observer: &mut dyn Observer<Progress>,
) -> Result<Written, WebError> {
    config.file_set.check()?;
    let threads = config.threads.clamp(1, MAX_THREADS);
    let complete = config.complete()?;
    let mut written = Written {
        files: config.file_set.files(),
        bytes: config.file_set.bytes(),
        directories_found: config.file_set.directories,
        directories_made: 0,
        written_bytes: 0,
    };
    if complete >= config.file_set.directories {
        return Ok(written);
    }
    let folder = config.root.join(FOLDER);
    if let Err(error) = std::fs::create_dir(&folder)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(WebError::file(&folder, "making")(errno(&error)));
    }
    check_space(config, complete)?;
    let content = Content::new(config.file_set.seed);
    let work = Work {
        config,
        content: &content,
        next: AtomicU32::new(complete),
        found: AtomicU32::new(complete),
        made: AtomicU32::new(0),
        written_bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    run_threads(&work, threads, observer)?;
    written.directories_found = work.found.into_inner();
    written.directories_made = work.made.into_inner();
    written.written_bytes = work.written_bytes.into_inner();
    finish(config)?;
    Ok(written)
}

fn run_threads(
    work: &Work<'_>,
    threads: u32,
    observer: &mut dyn Observer<Progress>,
) -> Result<(), WebError> {
    let mut asked_to_stop = false;
    let outcome = std::thread::scope(|scope| {
        let start = |_| scope.spawn(|| work.directories());
        let threads: Vec<_> = (0..threads).map(start).collect();
        while !threads
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            let progress = Progress::Files {
                directories: u64::from(work.config.file_set.directories),
                done: u64::from(
                    work.found.load(Ordering::Relaxed) + work.made.load(Ordering::Relaxed),
                ),
                written_bytes: work.written_bytes.load(Ordering::Relaxed),
            };
            if !observer.tick(&progress) {
                asked_to_stop = true;
                work.stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_nanos(TICK_NS / 10));
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(), WebError>>| {
            let defect = |_| WebError::system("a writing thread failed", "a defect");
            thread.join().map_err(defect)?
        };
        threads
            .into_iter()
            .map(join)
            .collect::<Result<Vec<()>, _>>()
    });
    outcome?;
    match asked_to_stop {
        true => Err(WebError::Cancelled),
        false => Ok(()),
    }
}

/// Whether what is missing has room, in whole blocks.
fn check_space(config: &StoreConfig, complete: u32) -> Result<(), WebError> {
    let room = rustix::fs::statvfs(&config.root);
    let room = room.map_err(WebError::file(&config.root, "asking for its space"))?;
    if room.f_blocks == 0 {
        return Ok(()); // a file system that does not tell
    }
    let block = room.f_frsize.max(1);
    let blocks = |index| FileId::of(index).bytes().div_ceil(block) * block;
    let of_directory: u64 = (0..u64::from(FILES_PER_DIRECTORY)).map(blocks).sum();
    let there = |directory: &u32| !config.folder(*directory).exists();
    let missing = (complete..config.file_set.directories)
        .filter(there)
        .count() as u64;
    let (needed_bytes, available_bytes) = (missing * of_directory, room.f_bavail * block);
    if needed_bytes > available_bytes {
        return Err(WebError::Space {
            path: config.root.display().to_string(),
            needed_bytes,
            available_bytes,
        });
    }
    Ok(())
}

/// Everything out to the storage, then the marker.
fn finish(config: &StoreConfig) -> Result<(), WebError> {
    let path = config.marker();
    let part = path.with_extension("part");
    let marker = Marker {
        schema: crate::SCHEMA,
        file_set: config.file_set,
    };
    let text = serde_json::to_vec(&marker)
        .map_err(|error| WebError::system("the definition cannot be written", error))?;
    let failed = |path: &Path, doing| {
        let path = path.to_path_buf();
        move |error: std::io::Error| WebError::file(&path, doing)(errno(&error))
    };
    let root = File::open(&config.root).map_err(failed(&config.root, "opening"))?;
    rustix::fs::syncfs(root.as_fd()).map_err(WebError::file(&config.root, "syncing"))?;
    let mut file = File::create(&part).map_err(failed(&part, "making"))?;
    file.write_all(&text).map_err(failed(&part, "writing"))?;
    file.sync_all().map_err(failed(&part, "syncing"))?;
    std::fs::rename(&part, &path).map_err(failed(&path, "renaming"))?;
    root.sync_all().map_err(failed(&config.root, "syncing"))
}

/// Looks at the size of every file and at the bytes of some.
///
/// # Errors
/// [`WebError`] for what is no file set of this seed, or was stopped; what is wrong with files is
/// in the result.
pub fn check(
    config: &StoreConfig,
    observer: &mut dyn Observer<Progress>,
) -> Result<Checked, WebError> {
    config.file_set.check()?;
    let mut checked = Checked {
        files: config.file_set.files(),
        bytes: config.file_set.bytes(),
        complete: config.complete()? >= config.file_set.directories,
        ..Checked::default()
    };
    for directory in 0..config.file_set.directories {
        let folder = config.folder(directory);
        for (id, size) in wrong_sizes(&folder) {
            match size {
                None => checked.missing += 1,
                Some(_) => checked.wrong_size += 1,
            }
            let found = size.map_or("is missing".to_owned(), |size| format!("has {size} bytes"));
            checked.name(&folder.join(name(id)), &found);
        }
        tick(config, observer, directory)?;
    }
    let content = Content::new(config.file_set.seed);
    let mut random = Random::new(config.file_set.seed, &[0x7765_6201]);
    for _ in 0..config.sample_files.min(checked.files) {
        let id = FileId::of(random.below(checked.files));
        let path = config.folder(id.directory).join(name(id));
        let Ok(bytes) = std::fs::read(&path) else {
            continue; // counted above
        };
        checked.sampled.files += 1;
        checked.sampled.bytes += bytes.len() as u64;
        if let Some(at) = content.mismatch(id.index(), 0, &bytes) {
            checked.sampled.wrong_bytes += 1;
            checked.name(&path, &format!("is wrong at byte {at}"));
        }
        tick(config, observer, config.file_set.directories)?;
    }
    Ok(checked)
}

fn tick(
    config: &StoreConfig,
    observer: &mut dyn Observer<Progress>,
    done: u32,
) -> Result<(), WebError> {
    if !done.is_multiple_of(64) && done != config.file_set.directories {
        return Ok(());
    }
    let progress = Progress::Files {
        directories: u64::from(config.file_set.directories),
        done: u64::from(done),
        written_bytes: 0,
    };
    match observer.tick(&progress) {
        true => Ok(()),
        false => Err(WebError::Cancelled),
    }
}

impl Checked {
    fn name(&mut self, path: &Path, what: &str) {
        if self.wrong.len() < MAX_NAMED {
            self.wrong.push(format!("{} {what}", path.display()));
        }
    }
}
