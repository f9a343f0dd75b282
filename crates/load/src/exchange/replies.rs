//! Replies, against what is known of what they tell of.

use client::nfs3::{
    Access, Commit, Create, FsInfo, FsStat, GetAttr, Lookup, Null, PathConf, Read, ReadDir,
    ReadDirPlus, ReadLink, Remove, SetAttr, Write, decode,
};
use client::{CallError, Reply};
use wire::nfs3::{Res, fattr3, ftype3, nfsstat3, post_op_attr, stable_how};

use super::{Moved, RIGHTS, World};
use crate::fault::Fault;
use crate::layout::{Layout, Name};
use crate::operation::Operation;
use crate::plan::Stability;
use crate::targets::{Call, File, Targets};

type Checked = Result<Moved, Fault>;

impl World<'_> {
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
        // Not if it grew meanwhile: a call that was sent again is answered after later ones.
        if !done.eof && end == call.low && file.high == call.low {
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
