//! The null store: any file answers, writes are swallowed. It calibrates clients and networks.
//!
//! Every name in the root is a file of the stated size; READ gives zeros; WRITE, CREATE and all
//! else that would change something succeed and change nothing. What a client measures against it
//! is the client, the wire and the server's protocol part alone.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use wire::nfs3::{
    FSSTAT3resok, LINK3wcc, RENAME3wcc, createhow3, fattr3, ftype3, nfsstat3, nfstime3, sattr3,
    stable_how, wcc_data, writeverf3,
};

use super::{
    Changed, DirectorySink, Entry, Found, ListFrom, Listed, Payload, Place, ReadDone, Seen,
    Special, Store, StoreDescription, WriteDone, wcc_of,
};
use crate::{Caller, Handle};

const ROOT: u64 = 1;

/// A store without contents.
#[derive(Clone, Copy, Debug)]
pub struct NullStore {
    file_bytes: u64,
    started: nfstime3,
}

impl NullStore {
    /// Every file has `file_bytes`.
    #[must_use]
    pub fn new(file_bytes: u64) -> Self {
        NullStore {
            file_bytes,
            started: super::memory::now(),
        }
    }

    fn attributes(&self, handle: &Handle) -> fattr3 {
        let is_root = handle.object == ROOT;
        let (type_, mode, nlink, size) = match is_root {
            true => (ftype3::NF3DIR, 0o777, 2, 4096),
            false => (ftype3::NF3REG, 0o666, 1, self.file_bytes),
        };
        fattr3 {
            type_,
            mode,
            nlink,
            fileid: handle.object,
            ..fattr3::plain_file(size, self.started)
        }
    }

    fn wcc(&self, handle: &Handle) -> wcc_data {
        let attributes = self.attributes(handle);
        wcc_of(Some(&attributes), Some(attributes))
    }

    fn found(&self, name: &[u8]) -> Found {
        let mut hasher = SipHasher24::new();
        hasher.write(name);
        // Away from the root's number and from zero.
        let handle = match name {
            b"." | b".." => self.root(),
            _ => Handle::new(hasher.finish() | 2, 0),
        };
        Found {
            handle,
            attributes: self.attributes(&handle),
        }
    }
}

impl Store for NullStore {
    fn description(&self) -> StoreDescription {
        StoreDescription {
            kind: "null",
            settings: vec![("file_bytes", self.file_bytes.to_string())],
        }
    }
    fn root(&self) -> Handle {
        Handle::new(ROOT, 0)
    }
    fn getattr(&self, object: &Handle) -> Result<fattr3, nfsstat3> {
        Ok(self.attributes(object))
    }
    fn setattr(
        &self,
        _caller: &Caller,
        object: &Handle,
        _new: &sattr3,
        _guard: Option<nfstime3>,
    ) -> Changed<()> {
        Ok(((), self.wcc(object)))
    }
    fn lookup(&self, _: &Caller, (dir, name): Place<'_>) -> Seen<Found> {
        Ok((self.found(name), Some(self.attributes(dir))))
    }
    fn access(&self, _caller: &Caller, object: &Handle, asked: u32) -> Seen<u32> {
        Ok((asked, Some(self.attributes(object))))
    }
    fn readlink(&self, _caller: &Caller, link: &Handle, _text: &mut Vec<u8>) -> Seen<()> {
        Err((nfsstat3::NFS3ERR_INVAL, Some(self.attributes(link))))
    }
    fn read(
        &self,
        _caller: &Caller,
        file: &Handle,
        offset: u64,
        count: u32,
        payload: &mut Payload,
    ) -> Seen<ReadDone> {
        let left = self.file_bytes.saturating_sub(offset);
        let count = u64::from(count).min(left) as u32;
        payload.push_zeros(count as usize);
        let eof = u64::from(count) == left;
        Ok((ReadDone { count, eof }, Some(self.attributes(file))))
    }
    fn write(
        &self,
        _caller: &Caller,
        file: &Handle,
        _offset: u64,
        data: &[u8],
        _stable: stable_how,
    ) -> Changed<WriteDone> {
        let done = WriteDone {
            count: u32::try_from(data.len()).unwrap_or(u32::MAX),
            committed: stable_how::FILE_SYNC,
            verifier: [0; 8],
        };
        Ok((done, self.wcc(file)))
    }
    fn create(&self, _: &Caller, (dir, name): Place<'_>, _: &createhow3) -> Changed<Found> {
        Ok((self.found(name), self.wcc(dir)))
    }
    fn mkdir(&self, _: &Caller, (dir, _): Place<'_>, _: &sattr3) -> Changed<Found> {
        Err((nfsstat3::NFS3ERR_NOTSUPP, self.wcc(dir)))
    }
    fn symlink(&self, _: &Caller, (dir, _): Place<'_>, _: &sattr3, _: &[u8]) -> Changed<Found> {
        Err((nfsstat3::NFS3ERR_NOTSUPP, self.wcc(dir)))
    }
    fn mknod(&self, _: &Caller, (dir, _): Place<'_>, _: &sattr3, _: Special) -> Changed<Found> {
        Err((nfsstat3::NFS3ERR_NOTSUPP, self.wcc(dir)))
    }
    fn remove(&self, _: &Caller, (dir, _): Place<'_>) -> Changed<()> {
        Ok(((), self.wcc(dir)))
    }
    fn rmdir(&self, _: &Caller, (dir, _): Place<'_>) -> Changed<()> {
        Ok(((), self.wcc(dir)))
    }
    fn rename(&self, _: &Caller, from: Place<'_>, to: Place<'_>) -> (nfsstat3, RENAME3wcc) {
        let wcc = RENAME3wcc {
            fromdir_wcc: self.wcc(from.0),
            todir_wcc: self.wcc(to.0),
        };
        (nfsstat3::NFS3_OK, wcc)
    }
    fn link(&self, _: &Caller, file: &Handle, (dir, _): Place<'_>) -> (nfsstat3, LINK3wcc) {
        let wcc = LINK3wcc {
            file_attributes: Some(self.attributes(file)),
            linkdir_wcc: self.wcc(dir),
        };
        (nfsstat3::NFS3_OK, wcc)
    }
    fn list(
        &self,
        _caller: &Caller,
        dir: &Handle,
        from: ListFrom,
        sink: &mut dyn DirectorySink,
    ) -> Listed {
        sink.begin(Some(self.attributes(dir)), [0; 8]);
        let names: [&[u8]; 2] = [b".", b".."];
        for (name, cookie) in names.into_iter().zip(1u64..) {
            let found = self.found(name);
            let entry = Entry {
                fileid: ROOT,
                name,
                cookie,
                found: from.with_objects.then_some(found),
            };
            if cookie > from.cookie && !sink.entry(&entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }
    fn fsstat(&self, object: &Handle) -> Result<FSSTAT3resok, nfsstat3> {
        Ok(FSSTAT3resok {
            obj_attributes: Some(self.attributes(object)),
            tbytes: 1 << 50,
            fbytes: 1 << 50,
            abytes: 1 << 50,
            tfiles: 1 << 40,
            ffiles: 1 << 40,
            afiles: 1 << 40,
            invarsec: 0,
        })
    }
    fn commit(&self, _: &Caller, file: &Handle, _: u64, _: u32) -> Changed<writeverf3> {
        Ok(([0; 8], self.wcc(file)))
    }
}
