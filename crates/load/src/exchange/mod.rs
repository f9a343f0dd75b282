//! One operation as a call, and (`replies`) its reply against what is known.
//!
//! Each reply is decoded whole and checked: status, type and size of what it tells of, count and
//! end of data, bytes on the share that is compared, names that belong to their directory, the
//! link's text, the write verifier. What the check needs was kept in the [`Call`].

mod replies;

use client::nfs3::{
    Access, Commit, Create, FileHandle, FsInfo, FsStat, GetAttr, Lookup, Null, PathConf, Read,
    ReadDir, ReadDirPlus, ReadLink, Remove, SetAttr,
};
use client::{CallError, Engine};
use measure::Clock;
use wire::nfs3 as v3;
use wire::nfs3::{createhow3, diropargs3, filename3, sattr3, set_time, stable_how};

use crate::content::Content;
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

impl World<'_> {
    fn directory(&self, number: u64) -> FileHandle {
        self.one_of(&self.mount.directories, number)
    }

    fn scratch_directory(&self, number: u64) -> FileHandle {
        let directory = self.layout.directory_of(number);
        self.one_of(&self.mount.scratch_directories, directory)
    }

    fn one_of(&self, directories: &[FileHandle], number: u64) -> FileHandle {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
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
            _ => Self::submit_setattr(engine, call, file, token),
        }
    }

    fn submit_setattr<C: Clock>(
        engine: &mut Engine<C>,
        call: &Call,
        file: &File,
        token: u64,
    ) -> Result<(), CallError> {
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
            object: file.handle.as_fh(),
            new_attributes,
            guard: None,
        };
        engine.submit_typed::<SetAttr>(&arguments, token)
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
}
