//! From a plan to files on servers: made once, extended for a larger load, looked through again.
//!
//! Flow, for each mount: mount; find or make the set's directory; read its marker; make and find
//! the directories; look at every file that the marker vouches for (name, type, size; one that grew
//! is cut back); make the rest; write the marker. So what a run works on is known by name, handle
//! and size when it begins, and a preparation that was interrupted goes on where it was.
//!
//! Decisions: files are looked at with LOOKUP, one by one: it works on every server, and gives the
//! handles that the run needs. What is there without a marker may be of somebody else: names that
//! are not of a set are refused. Only the handles of what is worked on are kept.

mod jobs;
mod marker;
mod names;
mod pipeline;
mod watch;

use client::nfs3::{FileHandle, MountedEngine};
use client::{CallError, Caller, MountOptions};
use measure::Clock;

use crate::checked::Checked;
use crate::content::Content;
use crate::error::LoadError;
use crate::layout::{Layout, MARKER, Name};
use crate::plan::MAX_TRANSFER_BYTES;
use crate::progress::Progress;
use generator::Observer;
use jobs::{Find, MakeDirectory, MakeFile, MakeLink, MakeScratch, Wanted};
use marker::Marker;
use pipeline::Pipeline;
use watch::Watch;

/// Numbers of files on different mounts lie so far apart, so that their contents differ.
pub(crate) const MOUNT_STRIDE: u64 = 1 << 40;

/// A file that is worked on.
#[derive(Debug, Clone, Copy)]
pub struct AccessedFile {
    /// Its number in the set.
    pub number: u64,
    /// Its handle.
    pub handle: FileHandle,
    /// Its size.
    pub size: u64,
}

/// The set on one mount.
#[derive(Debug, Clone)]
pub struct PreparedMount {
    /// Address and export, for people.
    pub server: String,
    /// Address of NFS.
    pub address: std::net::SocketAddr,
    /// Options in effect.
    pub options: MountOptions,
    /// Root of the export.
    pub root: FileHandle,
    /// Directories of files, by number.
    pub directories: Vec<FileHandle>,
    /// Scratch directories, by number.
    pub scratch_directories: Vec<FileHandle>,
    /// What is worked on.
    pub files: Vec<AccessedFile>,
    /// Links to files that are worked on, by number.
    pub links: Vec<(u64, FileHandle)>,
    /// Which scratch files are there, by number.
    pub scratch: Vec<bool>,
    /// Files found and made.
    pub found: u64,
    /// Files made now.
    pub made: u64,
    /// Bytes written now.
    pub written_bytes: u64,
}

/// A plan whose files are there.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The plan.
    pub checked: Checked,
    /// Its mounts, in order.
    pub mounts: Vec<PreparedMount>,
    pub(crate) content: Content,
}

/// Makes the file sets of a plan, or finds them.
///
/// # Errors
/// [`LoadError`]; what was made stays, and is found by the next try.
pub fn prepare(
    checked: Checked,
    observer: &mut dyn Observer<Progress>,
) -> Result<Prepared, LoadError> {
    let content = Content::default();
    let mut mounts = Vec::new();
    let mut watch = Watch {
        observer,
        mount: 0,
        mounts: checked.plan.servers.len(),
        step: "mount",
        done: 0,
        total: 0,
        written_bytes: 0,
        told_ns: 0,
    };
    for index in 0..checked.plan.servers.len() {
        watch.mount = index;
        watch.told_ns = 0; // at least one look for each
        mounts.push(prepare_mount(&checked, index, &content, &mut watch)?);
    }
    Ok(Prepared {
        checked,
        mounts,
        content,
    })
}

/// Ids of the calls.
pub(crate) fn caller(checked: &Checked) -> Caller {
    match checked.plan.caller {
        Some(ids) => Caller::user(ids.uid, ids.gid, &[]),
        None => Caller::process(),
    }
}

/// A transfer above the server's most would come back short: it is refused before.
fn check_sizes(checked: &Checked, options: &MountOptions) -> Result<(), LoadError> {
    let sizes = [
        ("read_sizes_bytes", &checked.reads, options.read_size_bytes),
        (
            "write_sizes_bytes",
            &checked.writes,
            options.write_size_bytes,
        ),
    ];
    for (field, sizes, most) in sizes {
        let sizes = sizes.iter().flat_map(|sizes| sizes.shares());
        if let Some((size, _)) = sizes.into_iter().find(|(size, _)| *size > most) {
            let why = format!("rsize, wsize or the server allow {most} bytes at most");
            let fix = "Take smaller transfers, or raise the option if the server allows it.";
            return Err(LoadError::plan(field, size, why, fix));
        }
    }
    Ok(())
}

fn prepare_mount(
    checked: &Checked,
    index: usize,
    content: &Content,
    watch: &mut Watch<'_>,
) -> Result<PreparedMount, LoadError> {
    let (Some(plan), Some(options)) = (checked.plan.servers.get(index), checked.options.get(index))
    else {
        return Err(LoadError::plan(
            "servers",
            index,
            "no such server",
            "Please report this.",
        ));
    };
    let server = format!("{}:{}", plan.address, plan.export);
    let mounted = MountedEngine::mount(plan.address, &plan.export, options.clone());
    let mut mounted = mounted.map_err(|source| LoadError::Connect {
        server: server.clone(),
        source,
    })?;
    check_sizes(checked, &mounted.options)?;
    mounted.engine.set_caller(caller(checked));
    let mut mount = PreparedMount {
        server: server.clone(),
        address: mounted.address,
        options: mounted.options.clone(),
        root: mounted.root,
        directories: Vec::new(),
        scratch_directories: Vec::new(),
        files: Vec::new(),
        links: Vec::new(),
        scratch: Vec::new(),
        found: 0,
        made: 0,
        written_bytes: 0,
    };
    let mut maker = Maker {
        checked,
        layout: &checked.layout,
        index,
        pipeline: Pipeline {
            engine: &mut mounted.engine,
            content,
            server: &server,
            silence_limit_s: checked.plan.silence_limit_s,
        },
        watch,
    };
    let now_ns = maker.pipeline.engine.clock().now_ns();
    maker.watch.look(now_ns)?;
    match checked.plan.file_set.calibration {
        true => maker.calibrate(&mut mount)?,
        false => maker.make(&mut mount)?,
    }
    Ok(mount)
}

/// Makes one mount's set.
struct Maker<'m, 'p, 'o> {
    checked: &'m Checked,
    layout: &'m Layout,
    index: usize,
    pipeline: Pipeline<'p>,
    watch: &'m mut Watch<'o>,
}

impl Maker<'_, '_, '_> {
    fn wrong(&self, why: impl Into<String>, fix: &str) -> LoadError {
        LoadError::FileSet {
            server: self.pipeline.server.to_owned(),
            why: why.into(),
            fix: fix.to_owned(),
        }
    }

    fn failed(&self, doing: impl Into<String>, source: CallError) -> LoadError {
        LoadError::Call {
            server: self.pipeline.server.to_owned(),
            doing: doing.into(),
            source,
        }
    }

    /// The set of a server whose every name is a file: one directory, sizes as it says.
    fn calibrate(&mut self, mount: &mut PreparedMount) -> Result<(), LoadError> {
        mount.directories.push(mount.root);
        mount.scratch_directories.push(mount.root);
        let layout = self.layout;
        let mine = |file: &u64| layout.is_accessed(*file) && self.checked.owns(*file);
        let files = (0..layout.files).filter(mine);
        let root = mount.root;
        let jobs = files.map(|file| Find::new(root, Name::file(file), file, Wanted::AnyFile));
        self.watch.begin("look", layout.accessed_files);
        self.pipeline
            .run(jobs, self.watch, |job| keep(mount, &job))?;
        mount.scratch = (0..layout.scratch).map(|number| number % 2 == 0).collect();
        Ok(())
    }

    fn make(&mut self, mount: &mut PreparedMount) -> Result<(), LoadError> {
        let root = self.set_root(mount.root)?;
        let wanted = Marker::of(self.checked, self.index as u64);
        let there = self.marker(&root, &wanted)?;
        let (whole, scratch) = there
            .as_ref()
            .map_or((0, 0), |old| (old.files, old.scratch));
        let layout = self.layout;
        if self.checked.plan.part.index > 0 && (whole < layout.files || scratch < layout.scratch) {
            let fix = "Prepare with part 0 first; the other parts only use what it made.";
            return Err(self.wrong("the file set is not there, or too small", fix));
        }
        let count = layout.directories();
        mount.directories = self.directories(&root, count, Name::directory)?;
        let count = layout.scratch_directories();
        mount.scratch_directories = self.directories(&root, count, Name::scratch_directory)?;
        self.find(mount, whole.min(layout.files))?;
        self.make_files(mount, whole)?;
        self.make_links(mount, whole)?;
        self.scratch(mount, scratch)?;
        mount.files.sort_unstable_by_key(|file| file.number);
        mount.links.sort_unstable_by_key(|link| link.0);
        if whole < layout.files || scratch < layout.scratch {
            // What a larger load made is still there.
            let mut wanted = wanted;
            wanted.files = whole.max(layout.files);
            wanted.scratch = scratch.max(layout.scratch);
            let engine = &mut *self.pipeline.engine;
            let written = marker::write(engine, &root, &wanted);
            written.map_err(|source| self.failed(format!("writing {MARKER}"), source))?;
        }
        Ok(())
    }

    /// The directory of this mount's set.
    fn set_root(&mut self, export: FileHandle) -> Result<FileHandle, LoadError> {
        let directory = &self.checked.plan.file_set.directory;
        let name = match self.checked.plan.servers.len() {
            1 => directory.clone(),
            _ => format!("{directory}-{}", self.index),
        };
        let engine = &mut *self.pipeline.engine;
        let made = names::directory_named(engine, &export, &name);
        made.map_err(|source| self.failed(format!("making the directory {name}"), source))
    }

    /// The marker that is there, if it fits.
    fn marker(&mut self, root: &FileHandle, wanted: &Marker) -> Result<Option<Marker>, LoadError> {
        const OTHER: &str = "Remove that directory of the export, or ask for what it was made \
                             with. (A server whose every name is a file wants --calibration.)";
        let read = marker::read(self.pipeline.engine, root);
        match read.map_err(|source| self.failed(format!("reading {MARKER}"), source))? {
            Some(Err(why)) => Err(self.wrong(why, OTHER)),
            Some(Ok(there)) => match there.differs(wanted) {
                Some(why) => Err(self.wrong(why, OTHER)),
                None => Ok(Some(there)),
            },
            None => match names::foreign_name(self.pipeline.engine, root) {
                Ok(None) => Ok(None),
                Ok(Some(name)) => {
                    let why = format!("the directory holds {name}, which is of no file set");
                    Err(self.wrong(why, OTHER))
                }
                Err(source) => Err(self.failed("listing the file set's directory", source)),
            },
        }
    }

    fn directories(
        &mut self,
        root: &FileHandle,
        count: u64,
        name: fn(u64) -> Name,
    ) -> Result<Vec<FileHandle>, LoadError> {
        self.watch.begin("directories", count);
        let mut found: Vec<(u64, FileHandle)> = Vec::new();
        if self.checked.plan.part.index > 0 {
            let look = |number| Find::new(*root, name(number), number, Wanted::Directory);
            let done = |job: Find| found.extend(job.handle.map(|handle| (job.number, handle)));
            self.pipeline.run((0..count).map(look), self.watch, done)?;
        } else {
            let make = |number| MakeDirectory {
                parent: *root,
                name: name(number),
                number,
                handle: None,
            };
            let done = |job: MakeDirectory| {
                found.extend(job.handle.map(|handle| (job.number, handle)));
            };
            self.pipeline.run((0..count).map(make), self.watch, done)?;
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        Ok(found.into_iter().map(|(_, handle)| handle).collect())
    }

    /// Looks at the files and links that the marker vouches for.
    fn find(&mut self, mount: &mut PreparedMount, whole: u64) -> Result<(), LoadError> {
        let layout = self.layout;
        let directories = std::mem::take(&mut mount.directories);
        let place = |file: u64| directory(&directories, layout.directory_of(file));
        self.watch.begin("look", whole);
        let part = self.checked.plan.part.index > 0;
        let mine = |file: u64| layout.is_accessed(file) && self.checked.owns(file);
        let all = (0..whole).filter(|file| !part || mine(*file));
        let files = all.filter_map(|file| {
            let wanted = match part {
                true => Wanted::AnyFile, // part 0 has looked at sizes
                false => Wanted::File(layout.size_bytes(file)),
            };
            Some(Find::new(place(file)?, Name::file(file), file, wanted))
        });
        let done = |job: Find| {
            mount.found += 1;
            if mine(job.number) {
                keep(mount, &job);
            }
        };
        self.pipeline.run(files, self.watch, done)?;
        let linked = (0..whole).filter(|file| layout.has_link(*file));
        let links = linked.filter_map(|file| {
            Some(Find::new(
                place(file)?,
                Name::link(file),
                file,
                Wanted::Link,
            ))
        });
        self.watch.begin("links", 0);
        let done = |job: Find| keep_link(layout, &mut mount.links, job.number, job.handle);
        self.pipeline.run(links, self.watch, done)?;
        mount.directories = directories;
        Ok(())
    }

    fn make_files(&mut self, mount: &mut PreparedMount, whole: u64) -> Result<(), LoadError> {
        let layout = self.layout;
        let stride = self.index as u64 * MOUNT_STRIDE;
        let chunk = mount.options.write_size_bytes.min(MAX_TRANSFER_BYTES);
        self.watch
            .begin("files", layout.files.saturating_sub(whole));
        let directories = std::mem::take(&mut mount.directories);
        let files = (whole..layout.files).filter_map(|file| {
            let place = directory(&directories, layout.directory_of(file))?;
            let size = layout.size_bytes(file);
            Some(MakeFile::new(place, file, size, chunk).of_mount(stride))
        });
        let before = self.watch.written_bytes;
        let done = |job: MakeFile| {
            mount.made += 1;
            let mine = layout.is_accessed(job.number) && self.checked.owns(job.number);
            if let (true, Some(handle)) = (mine, job.handle) {
                let (number, size) = (job.number, job.size);
                mount.files.push(AccessedFile {
                    number,
                    handle,
                    size,
                });
            }
        };
        self.pipeline.run(files, self.watch, done)?;
        mount.written_bytes = self.watch.written_bytes - before;
        mount.directories = directories;
        Ok(())
    }

    fn make_links(&mut self, mount: &mut PreparedMount, whole: u64) -> Result<(), LoadError> {
        let layout = self.layout;
        self.watch.begin("links", 0);
        let linked = (whole..layout.files).filter(|file| layout.has_link(*file));
        let links = linked.filter_map(|number| {
            Some(MakeLink {
                directory: directory(&mount.directories, layout.directory_of(number))?,
                number,
                handle: None,
            })
        });
        let mut kept = std::mem::take(&mut mount.links);
        let done = |job: MakeLink| keep_link(layout, &mut kept, job.number, job.handle);
        self.pipeline.run(links, self.watch, done)?;
        mount.links = kept;
        Ok(())
    }

    /// Every second scratch name is there to begin with; later it is as runs left it.
    fn scratch(&mut self, mount: &mut PreparedMount, there: u64) -> Result<(), LoadError> {
        let layout = self.layout;
        self.watch.begin("scratch", layout.scratch);
        let mut present: Vec<bool> = (0..layout.scratch)
            .map(|n| n >= there && n % 2 == 0)
            .collect();
        let place = |n: u64| directory(&mount.scratch_directories, layout.directory_of(n));
        let part = self.checked.plan.part.index > 0;
        let mine = |number: &u64| !part || self.checked.owns(*number);
        let old = (0..there.min(layout.scratch))
            .filter(mine)
            .filter_map(|number| {
                let name = Name::scratch(number);
                Some(Find::new(place(number)?, name, number, Wanted::Scratch))
            });
        let mut is_there = |number: u64, yes: bool| {
            if let Some(place) = usize::try_from(number)
                .ok()
                .and_then(|n| present.get_mut(n))
            {
                *place = yes;
            }
        };
        let done = |job: Find| is_there(job.number, job.handle.is_some());
        self.pipeline.run(old, self.watch, done)?;
        let new = (there..layout.scratch)
            .filter(|n| n % 2 == 0)
            .filter_map(|number| {
                let directory = place(number)?;
                Some(MakeScratch { directory, number })
            });
        self.pipeline.run(new, self.watch, drop)?;
        mount.scratch = present;
        Ok(())
    }
}

fn directory(directories: &[FileHandle], number: u64) -> Option<FileHandle> {
    directories.get(usize::try_from(number).ok()?).copied()
}

fn keep(mount: &mut PreparedMount, job: &Find) {
    if let Some(handle) = job.handle {
        mount.files.push(AccessedFile {
            number: job.number,
            handle,
            size: job.size,
        });
    }
}

fn keep_link(
    layout: &Layout,
    links: &mut Vec<(u64, FileHandle)>,
    number: u64,
    handle: Option<FileHandle>,
) {
    if let (true, Some(handle)) = (layout.is_accessed(number), handle) {
        links.push((number, handle));
    }
}
