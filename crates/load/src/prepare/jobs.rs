//! The jobs that a file set is made of, and looked through with.

use client::nfs3::FileHandle;
use wire::nfs3::{ftype3, nfsstat3, stable_how};

use super::pipeline::{Answer, Ask, Job, Next};
use crate::layout::Name;

/// Makes a directory, or finds it there.
pub struct MakeDirectory {
    pub parent: FileHandle,
    pub name: Name,
    pub number: u64,
    pub handle: Option<FileHandle>,
}

impl Job for MakeDirectory {
    fn first(&self) -> Ask {
        Ask::MakeDirectory(self.parent, self.name)
    }

    fn next(&mut self, asked: &Ask, answer: &Answer) -> Next {
        match (asked, answer.status) {
            (Ask::MakeDirectory(..), nfsstat3::NFS3ERR_EXIST) => {
                Next::Call(Ask::Look(self.parent, self.name))
            }
            (_, nfsstat3::NFS3_OK) => {
                self.handle = answer.handle;
                match (answer.handle, answer.found) {
                    (Some(_), Some((type_, _))) if type_ != ftype3::NF3DIR => {
                        Next::Wrong(format!("{} is no directory", self.name))
                    }
                    (Some(_), _) => Next::Done,
                    // A server need not give the handle of what it made (RFC 1813 section 3.3.9).
                    (None, _) => Next::Call(Ask::Look(self.parent, self.name)),
                }
            }
            _ => Next::Refused,
        }
    }
}

/// Makes a file of the set with its content.
pub struct MakeFile {
    pub directory: FileHandle,
    pub number: u64,
    pub size: u64,
    /// Most bytes of one WRITE.
    pub chunk: u32,
    pub handle: Option<FileHandle>,
    /// Added to the number for the content: mounts differ in it.
    stride: u64,
    verifier: Option<[u8; 8]>,
    written: u64,
}

impl MakeFile {
    pub fn new(directory: FileHandle, number: u64, size: u64, chunk: u32) -> Self {
        MakeFile {
            directory,
            number,
            size,
            chunk,
            handle: None,
            stride: 0,
            verifier: None,
            written: 0,
        }
    }

    /// Of another mount than the first.
    pub fn of_mount(self, stride: u64) -> Self {
        MakeFile { stride, ..self }
    }

    fn write(&self, handle: FileHandle) -> Next {
        let left = self.size - self.written;
        let count = u32::try_from(left).unwrap_or(u32::MAX).min(self.chunk);
        // What fits into one WRITE needs no COMMIT behind it.
        let stable = match self.size <= u64::from(self.chunk) {
            true => stable_how::FILE_SYNC,
            false => stable_how::UNSTABLE,
        };
        Next::Call(Ask::Write {
            handle,
            file: self.number + self.stride,
            offset: self.written,
            count,
            stable,
        })
    }

    fn after_write(&mut self, handle: FileHandle, answer: &Answer) -> Next {
        let left = self.size - self.written;
        if answer.count == 0 || u64::from(answer.count) > left {
            let name = Name::file(self.number);
            return Next::Wrong(format!("a WRITE of {name} took {} bytes", answer.count));
        }
        let before = *self.verifier.get_or_insert(answer.verifier);
        if before != answer.verifier {
            return restarted();
        }
        self.written += u64::from(answer.count);
        match self.written < self.size {
            true => self.write(handle),
            false if self.size <= u64::from(self.chunk) => Next::Done,
            false => Next::Call(Ask::Commit(handle)),
        }
    }
}

fn restarted() -> Next {
    Next::Wrong("the server was restarted while the files were made; prepare again".to_owned())
}

impl Job for MakeFile {
    fn first(&self) -> Ask {
        Ask::Make(self.directory, Name::file(self.number))
    }

    fn next(&mut self, asked: &Ask, answer: &Answer) -> Next {
        if answer.status != nfsstat3::NFS3_OK {
            return Next::Refused;
        }
        match (asked, self.handle.or(answer.handle)) {
            (_, None) => Next::Call(Ask::Look(self.directory, Name::file(self.number))),
            (Ask::Make(..) | Ask::Look(..), Some(handle)) => {
                self.handle = Some(handle);
                match self.size {
                    0 => Next::Done,
                    _ => self.write(handle),
                }
            }
            (Ask::Write { .. }, Some(handle)) => self.after_write(handle, answer),
            (Ask::Commit(_), _) if self.verifier != Some(answer.verifier) => restarted(),
            _ => Next::Done,
        }
    }
}

/// Makes the link to a file, or finds it there.
pub struct MakeLink {
    pub directory: FileHandle,
    pub number: u64,
    pub handle: Option<FileHandle>,
}

impl Job for MakeLink {
    fn first(&self) -> Ask {
        let (name, text) = (Name::link(self.number), Name::file(self.number));
        Ask::Link(self.directory, name, text)
    }

    fn next(&mut self, asked: &Ask, answer: &Answer) -> Next {
        let look = Ask::Look(self.directory, Name::link(self.number));
        match (asked, answer.status, answer.handle) {
            (Ask::Link(..), nfsstat3::NFS3ERR_EXIST, _)
            | (Ask::Link(..), nfsstat3::NFS3_OK, None) => Next::Call(look),
            (_, nfsstat3::NFS3_OK, handle) => {
                self.handle = handle;
                Next::Done
            }
            _ => Next::Refused,
        }
    }
}

/// Makes a scratch file.
pub struct MakeScratch {
    pub directory: FileHandle,
    pub number: u64,
}

impl Job for MakeScratch {
    fn first(&self) -> Ask {
        Ask::Make(self.directory, Name::scratch(self.number))
    }

    fn next(&mut self, _: &Ask, answer: &Answer) -> Next {
        match answer.status {
            nfsstat3::NFS3_OK => Next::Done,
            _ => Next::Refused,
        }
    }
}

/// What an object looked for has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A file of at least this size; a longer one is cut to it.
    File(u64),
    /// A file of any size.
    AnyFile,
    Link,
    Directory,
    /// A file that may be missing.
    Scratch,
}

/// Looks for an object.
pub struct Find {
    pub directory: FileHandle,
    pub name: Name,
    pub number: u64,
    pub wanted: Wanted,
    pub handle: Option<FileHandle>,
    /// Its size after all.
    pub size: u64,
}

impl Find {
    pub fn new(directory: FileHandle, name: Name, number: u64, wanted: Wanted) -> Self {
        Find {
            directory,
            name,
            number,
            wanted,
            handle: None,
            size: 0,
        }
    }

    fn look_at(&mut self, type_: ftype3, size: u64) -> Next {
        let name = self.name;
        let right = match self.wanted {
            Wanted::Link => ftype3::NF3LNK,
            Wanted::Directory => ftype3::NF3DIR,
            _ => ftype3::NF3REG,
        };
        self.size = size;
        match (self.wanted, self.handle) {
            _ if type_ != right => Next::Wrong(format!("{name} is a {type_:?}, no {right:?}")),
            (Wanted::File(wanted), _) if size < wanted => {
                Next::Wrong(format!("{name} has {size} bytes instead of {wanted}"))
            }
            (Wanted::File(wanted), Some(handle)) if size > wanted => {
                Next::Call(Ask::Cut(handle, wanted))
            }
            _ => Next::Done,
        }
    }
}

impl Job for Find {
    fn first(&self) -> Ask {
        Ask::Look(self.directory, self.name)
    }

    fn next(&mut self, asked: &Ask, answer: &Answer) -> Next {
        match (asked, answer.status) {
            (Ask::Look(..), nfsstat3::NFS3ERR_NOENT) => match self.wanted {
                Wanted::Scratch => Next::Done,
                _ => Next::Wrong(format!("{} is missing", self.name)),
            },
            (Ask::Cut(_, size), nfsstat3::NFS3_OK) => {
                self.size = *size;
                Next::Done
            }
            (_, nfsstat3::NFS3_OK) => {
                self.handle = self.handle.or(answer.handle);
                match (answer.found, self.handle) {
                    (Some((type_, size)), _) => self.look_at(type_, size),
                    (None, Some(handle)) => Next::Call(Ask::Attributes(handle)),
                    (None, None) => Next::Refused,
                }
            }
            _ => Next::Refused,
        }
    }
}
