//! One operation as a call, and its reply against what is known.
//!
//! Each reply is decoded whole and checked: status, type and size of what it tells of, count and
//! end of data, bytes on the share that is compared, names that belong to their directory, the
//! link's text, the write verifier. What the check needs was kept in the [`Call`].

use client::nfs3::{
    Access, Commit, Create, FileHandle, FsInfo, FsStat, GetAttr, Lookup, Null, PathConf, Read,
    ReadDir, ReadDirPlus, ReadLink, Remove, SetAttr, Write, decode,
};
use client::{CallError, Engine, Reply};
use measure::Clock;
use wire::nfs3 as v3;
use wire::nfs3::{
    Res, createhow3, diropargs3, fattr3, filename3, ftype3, nfsstat3, post_op_attr, sattr3,
    set_time, stable_how,
};

use crate::content::Content;
use crate::fault::Fault;
use crate::layout::{Layout, Name};
use crate::operation::Operation;
use crate::plan::Stability;
use crate::prepare::PreparedMount;
use crate::targets::{Call, File, Targets};

/// Size of a listing asked for: SFS reads up to 128 entries.
const LISTING_BYTES: u32 = 8 << 10;
/// Size of a listing with attributes and handles.
const LISTING_PLUS_BYTES: u32 = 32 << 10;
/// All that a file can be asked for, but to be executed.
const RIGHTS: u32 = 0x1f;

/// What operations are made from and checked against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World<'w> {
    pub mount: &'w PreparedMount,
    pub layout: &'w Layout,
    pub content: &'w Content,
    pub stability: Stability,
    pub calibration: bool,
}

/// Bytes of data that a reply confirmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub read: u32,
    pub written: u32,
    pub verified: u32,
    pub verifier: Option<[u8; 8]>,
}

type Checked = Result<Moved, Fault>;

impl World<'_> {
    fn directory(&self, number: u64) -> FileHandle {
        let directories = &self.mount.directories;
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        let last = directories.len().saturating_sub(1);
        directories
            .get(place.min(last))
            .copied()
            .unwrap_or(self.mount.root)
    }

    fn scratch_directory(&self, number: u64) -> FileHandle {
        let directories = &self.mount.scratch_directories;
        let place = usize::try_from(self.layout.directory_of(number)).unwrap_or(usize::MAX);
        let last = directories.len().saturating_sub(1);
        directories
            .get(place.min(last))
            .copied()
            .unwrap_or(self.mount.root)
    }

    fn link(&self, item: u32) -> (u64, FileHandle) {
        self.mount
            .links
            .get(item as usize)
            .copied()
            .unwrap_or((0, self.mount.root))
    }

    /// Hands a call to the engine.
    #[inline]
    pub fn submit<C: Clock>(
        &self,
        engine: &mut Engine<C>,
        call: &Call,
        targets: &Targets,
        token: u64,
    ) -> Result<(), CallError> {
        let root = &self.mount.root;
        match call.operation {
            Operation::Null => engine.submit_typed::<Null>(&(), token),
            Operation::FsStat => {
                let fsroot = root.as_fh();
                engine.submit_typed::<FsStat>(&v3::FSSTAT3args { fsroot }, token)
            }
            Operation::FsInfo => {
                let fsroot = root.as_fh();
                engine.submit_typed::<FsInfo>(&v3::FSINFO3args { fsroot }, token)
            }
            Operation::PathConf => {
                let object = root.as_fh();
                engine.submit_typed::<PathConf>(&v3::PATHCONF3args { object }, token)
            }
            Operation::ReadLink => {
                let (_, handle) = self.link(call.item);
                let symlink = handle.as_fh();
                engine.submit_typed::<ReadLink>(&v3::READLINK3args { symlink }, token)
            }
            Operation::ReadDir | Operation::ReadDirPlus => self.submit_listing(engine, call, token),
            Operation::Create | Operation::Remove => {
                let number = targets.scratch_number(call.item);
                self.submit_scratch(engine, call.operation, number, token)
            }
            _ => match targets.files.get(call.item as usize) {
                Some(file) => self.submit_file(engine, call, file, token),
                None => Err(CallError::Protocol("no such file")),
            },
        }
    }

    fn submit_file<C: Clock>(
        &self,
        engine: &mut Engine<C>,
        call: &Call,
        file: &File,
        token: u64,
    ) -> Result<(), CallError> {
        let handle = file.handle.as_fh();
        match call.operation {
            Operation::GetAttr => {
                engine.submit_typed::<GetAttr>(&v3::GETATTR3args { object: handle }, token)
            }
            Operation::Access => {
                let arguments = v3::ACCESS3args {
                    object: handle,
                    access: RIGHTS,
                };
                engine.submit_typed::<Access>(&arguments, token)
            }
            Operation::Lookup => {
                let name = match call.missing {
                    true => Name::missing(file.number),
                    false => Name::file(file.number),
                };
                let dir = self.directory(self.layout.directory_of(file.number));
                let what = diropargs3 {
                    dir: dir.as_fh(),
                    name: filename3(name.as_bytes()),
                };
                engine.submit_typed::<Lookup>(&v3::LOOKUP3args { what }, token)
            }
            Operation::Read => {
                let arguments = v3::READ3args {
                    file: handle,
                    offset: call.offset,
                    count: call.count,
                };
                engine.submit_typed::<Read>(&arguments, token)
            }
            Operation::Write => {
                let bytes = self.content.bytes(file.content, call.offset, call.count);
                let arguments = v3::WRITE3args {
                    file: handle,
                    offset: call.offset,
                    count: call.count,
                    stable: self.stable(),
                    data: v3::payload3(bytes),
                };
                let payload = self.content.payload(file.content, call.offset, call.count);
                engine.submit_write(None, arguments, payload, token)
            }
            Operation::Commit => {
                let arguments = v3::COMMIT3args {
                    file: handle,
                    offset: 0,
                    count: 0,
                };
                engine.submit_typed::<Commit>(&arguments, token)
            }
            _ => {
                let new_attributes = match call.cut {
                    true => sattr3 {
                        size: Some(call.offset),
                        ..sattr3::UNCHANGED
                    },
                    false => sattr3 {
                        mode: Some(0o644),
                        mtime: set_time::SET_TO_SERVER_TIME,
                        ..sattr3::UNCHANGED
                    },
                };
                let arguments = v3::SETATTR3args {
                    object: handle,
                    new_attributes,
                    guard: None,
                };
                engine.submit_typed::<SetAttr>(&arguments, token)
            }
        }
    }

    fn stable(&self) -> stable_how {
        match self.stability {
            Stability::Unstable => stable_how::UNSTABLE,
            Stability::FileSync => stable_how::FILE_SYNC,
        }
    }

    fn submit_listing<C: Clock>(
        &self,
        engine: &mut Engine<C>,
        call: &Call,
        token: u64,
    ) -> Result<(), CallError> {
        let directory = self.directory(u64::from(call.item));
        let (dir, cookie, cookieverf) = (directory.as_fh(), 0, [0; 8]);
        if call.operation == Operation::ReadDir {
            let arguments = v3::READDIR3args {
                dir,
                cookie,
                cookieverf,
                count: LISTING_BYTES,
            };
            return engine.submit_typed::<ReadDir>(&arguments, token);
        }
        let arguments = v3::READDIRPLUS3args {
            dir,
            cookie,
            cookieverf,
            dircount: LISTING_BYTES,
            maxcount: LISTING_PLUS_BYTES,
        };
        engine.submit_typed::<ReadDirPlus>(&arguments, token)
    }

    fn submit_scratch<C: Clock>(
        &self,
        engine: &mut Engine<C>,
        operation: Operation,
        number: u64,
        token: u64,
    ) -> Result<(), CallError> {
        let name = Name::scratch(number);
        let directory = self.scratch_directory(number);
        let place = diropargs3 {
            dir: directory.as_fh(),
            name: filename3(name.as_bytes()),
        };
        if operation == Operation::Remove {
            return engine.submit_typed::<Remove>(&v3::REMOVE3args { object: place }, token);
        }
        let arguments = v3::CREATE3args {
            where_: place,
            how: createhow3::UNCHECKED(sattr3 {
                mode: Some(0o644),
                ..sattr3::UNCHANGED
            }),
        };
        engine.submit_typed::<Create>(&arguments, token)
    }

    /// What a reply confirms, or what is wrong with it.
    #[inline]
    pub fn check(
        &self,
        call: &Call,
        targets: &Targets,
        result: Result<Reply<'_>, CallError>,
    ) -> Checked {
        let file = targets.files.get(call.item as usize);
        match call.operation {
            Operation::Null => given(decode::<Null>(result)).map(|()| Moved::default()),
            Operation::GetAttr => {
                let found = accepted(decode::<GetAttr>(result))?;
                self.about_file(call, file, &Some(found.obj_attributes))
            }
            Operation::Lookup => self.check_lookup(call, file, result),
            Operation::Access => {
                let rights = accepted(decode::<Access>(result))?;
                if rights.access & !RIGHTS != 0 {
                    return Err(Fault::Untrue("rights that were not asked for"));
                }
                self.about_file(call, file, &rights.obj_attributes)
            }
            Operation::Read => self.check_read(call, file, result),
            Operation::Write => self.check_write(call, file, result),
            Operation::Commit => {
                let done = accepted(decode::<Commit>(result))?;
                let moved = self.about_file(call, file, &done.file_wcc.after)?;
                Ok(Moved {
                    verifier: Some(done.verf),
                    ..moved
                })
            }
            Operation::SetAttr => {
                let done = accepted(decode::<SetAttr>(result))?;
                if let (true, Some(after)) = (call.cut, &done.after)
                    && after.size != call.offset
                {
                    return Err(Fault::Untrue("another size than the one that was set"));
                }
                Ok(Moved::default())
            }
            Operation::ReadLink => {
                let found = accepted(decode::<ReadLink>(result))?;
                let (number, _) = self.link(call.item);
                match found.data.0 == Name::file(number).as_bytes() {
                    true => of_type(&found.symlink_attributes, ftype3::NF3LNK),
                    false => Err(Fault::Untrue("another text in the link")),
                }
            }
            Operation::ReadDir | Operation::ReadDirPlus => self.check_listing(call, result),
            Operation::Create => {
                let made = accepted(decode::<Create>(result))?;
                of_type(&made.obj_attributes, ftype3::NF3REG)
            }
            Operation::Remove => accepted(decode::<Remove>(result)).map(|_| Moved::default()),
            Operation::FsStat => {
                let space = accepted(decode::<FsStat>(result))?;
                of_type(&space.obj_attributes, ftype3::NF3DIR)
            }
            Operation::FsInfo => {
                let limits = accepted(decode::<FsInfo>(result))?;
                of_type(&limits.obj_attributes, ftype3::NF3DIR)
            }
            Operation::PathConf => {
                let limits = accepted(decode::<PathConf>(result))?;
                of_type(&limits.obj_attributes, ftype3::NF3DIR)
            }
        }
    }

    /// Attributes against what is known of the file: nothing cuts it while it is shared.
    #[inline]
    fn about_file(&self, call: &Call, file: Option<&File>, found: &post_op_attr) -> Checked {
        let (Some(file), Some(found)) = (file, found) else {
            return Ok(Moved::default());
        };
        if found.type_ != ftype3::NF3REG {
            return Err(Fault::Untrue("another type"));
        }
        if !self.calibration && !(call.low..=file.high).contains(&found.size) {
            return Err(Fault::Untrue("another size"));
        }
        Ok(Moved::default())
    }

    fn check_lookup(
        &self,
        call: &Call,
        file: Option<&File>,
        result: Result<Reply<'_>, CallError>,
    ) -> Checked {
        match given(decode::<Lookup>(result))? {
            Res::Fail(nfsstat3::NFS3ERR_NOENT, _) if call.missing => Ok(Moved::default()),
            Res::Ok(_) if call.missing => Err(Fault::Untrue("a file that was never made")),
            Res::Fail(status, _) => Err(Fault::Status(status.code)),
            // Handles need not be the same: RFC 1813 section 2.5 lets servers have several.
            Res::Ok(found) => self.about_file(call, file, &found.obj_attributes),
        }
    }

    #[inline]
    fn check_read(
        &self,
        call: &Call,
        file: Option<&File>,
        result: Result<Reply<'_>, CallError>,
    ) -> Checked {
        let done = accepted(decode::<Read>(result))?;
        let Some(file) = file else {
            return Ok(Moved::default());
        };
        self.about_file(call, Some(file), &done.file_attributes)?;
        if done.count != call.count || done.data.0.len() != call.count as usize {
            return Err(Fault::Untrue("fewer bytes than the file has there"));
        }
        let end = call.offset + u64::from(call.count);
        if done.eof && end < call.low {
            return Err(Fault::Untrue("an end of file before its end"));
        }
        if !done.eof && end == call.low && call.quiet && file.low == file.high {
            return Err(Fault::Untrue("no end of file at its end"));
        }
        if call.verify
            && self
                .content
                .mismatch(file.content, call.offset, done.data.0)
                .is_some()
        {
            return Err(Fault::Untrue("other bytes than were written"));
        }
        Ok(Moved {
            read: call.count,
            verified: if call.verify { call.count } else { 0 },
            ..Moved::default()
        })
    }

    fn check_write(
        &self,
        call: &Call,
        file: Option<&File>,
        result: Result<Reply<'_>, CallError>,
    ) -> Checked {
        let done = accepted(decode::<Write>(result))?;
        self.about_file(call, file, &done.file_wcc.after)?;
        if done.count != call.count {
            return Err(Fault::Untrue("fewer bytes were taken"));
        }
        if self.stability == Stability::FileSync && done.committed != stable_how::FILE_SYNC {
            return Err(Fault::Untrue("less safe than was asked for"));
        }
        Ok(Moved {
            written: call.count,
            verifier: Some(done.verf),
            ..Moved::default()
        })
    }

    fn check_listing(&self, call: &Call, result: Result<Reply<'_>, CallError>) -> Checked {
        let mut seen = Seen::new(self.layout, u64::from(call.item));
        let end = if call.operation == Operation::ReadDir {
            let page = accepted(decode::<ReadDir>(result))?;
            of_type(&page.dir_attributes, ftype3::NF3DIR)?;
            page.entries
                .0
                .iter()
                .try_for_each(|entry| seen.entry(entry.name.0, None))?;
            page.eof
        } else {
            let page = accepted(decode::<ReadDirPlus>(result))?;
            of_type(&page.dir_attributes, ftype3::NF3DIR)?;
            for entry in &page.entries.0 {
                seen.entry(entry.name.0, entry.name_attributes.as_ref())?;
            }
            page.eof
        };
        match end && !self.calibration && seen.is_short() {
            true => Err(Fault::Untrue("a listing without some of its names")),
            false => Ok(Moved::default()),
        }
    }
}

/// Names of a directory as they come.
struct Seen<'l> {
    layout: &'l Layout,
    directory: u64,
    files: u64,
}

impl<'l> Seen<'l> {
    fn new(layout: &'l Layout, directory: u64) -> Self {
        Seen {
            layout,
            directory,
            files: 0,
        }
    }

    fn entry(&mut self, name: &[u8], found: Option<&fattr3>) -> Result<(), Fault> {
        let right = match Name::parse(name) {
            _ if matches!(name, b"." | b"..") => ftype3::NF3DIR,
            Some((b'f', n)) if self.layout.directory_of(n) == self.directory => {
                self.files += u64::from(n < self.layout.files);
                ftype3::NF3REG
            }
            Some((b'l', n)) if self.layout.directory_of(n) == self.directory => ftype3::NF3LNK,
            _ => return Err(Fault::Untrue("a name that was never made")),
        };
        match found {
            Some(found) if found.type_ != right => Err(Fault::Untrue("another type")),
            _ => Ok(()),
        }
    }

    fn is_short(&self) -> bool {
        let range = self.layout.files_in(self.directory);
        self.files != range.end - range.start
    }
}

fn given<T>(result: Result<T, CallError>) -> Result<T, Fault> {
    result.map_err(|error| Fault::of(&error))
}

#[inline]
fn accepted<T, F>(result: Result<Res<T, F>, CallError>) -> Result<T, Fault> {
    match given(result)? {
        Res::Ok(done) => Ok(done),
        Res::Fail(status, _) => Err(Fault::Status(status.code)),
    }
}

fn of_type(found: &post_op_attr, right: ftype3) -> Checked {
    match found {
        Some(found) if found.type_ != right => Err(Fault::Untrue("another type")),
        _ => Ok(Moved::default()),
    }
}
