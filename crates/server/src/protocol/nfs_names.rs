//! NFSv3 procedures on names: LOOKUP, the makers, REMOVE, RMDIR, RENAME, LINK.

use wire::nfs3::{
    CREATE3args, CREATE3resok, LINK3args, LINK3wcc, LOOKUP3args, LOOKUP3resok, MKDIR3args,
    MKNOD3args, REMOVE3args, RENAME3args, RENAME3wcc, RMDIR3args, SYMLINK3args, diropargs3, fattr3,
    mknoddata3, nfs_fh3, nfsstat3,
};

use super::arguments;
use super::export::{Named, Service, check_name};
use super::nfs::{Appended, changed, fail, succeed};
use crate::Caller;
use crate::store::{Changed, Found, LINK_BYTES_MAX, NO_WCC, Special};

/// Checks a name that is to be made: `.` and `..` are always there.
fn check_new(name: &[u8]) -> Result<(), nfsstat3> {
    check_name(name)?;
    match name {
        b"." | b".." => Err(nfsstat3::NFS3ERR_EXIST),
        _ => Ok(()),
    }
}

/// Checks a name that is to go: never `.` nor `..` (RFC 1813 sections 3.3.13 and 3.3.14).
fn check_old(name: &[u8]) -> Result<(), nfsstat3> {
    check_name(name)?;
    match name {
        b"." => Err(nfsstat3::NFS3ERR_INVAL),
        b".." => Err(nfsstat3::NFS3ERR_EXIST),
        _ => Ok(()),
    }
}

impl Service {
    pub(super) fn lookup(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: LOOKUP3args<'_> = arguments(body)?;
        let name = args.what.name.0;
        let named = match self.named(caller, args.what.dir) {
            Ok(named) => named,
            Err(status) => return fail(out, status, &None::<fattr3>),
        };
        let store = &named.export.store;
        if let Err(status) = check_name(name) {
            return fail(out, status, &store.getattr(&named.handle).ok());
        }
        match store.lookup(&named.caller, &named.handle, name) {
            Ok((found, dir_attributes)) => {
                let sealed = self.seal(named.export, &found.handle);
                succeed(
                    out,
                    &LOOKUP3resok {
                        object: nfs_fh3(sealed.as_bytes()),
                        obj_attributes: Some(found.attributes),
                        dir_attributes,
                    },
                )
            }
            Err((status, seen)) => fail(out, status, &seen),
        }
    }

    /// The part that CREATE, MKDIR, SYMLINK and MKNOD share.
    fn make(
        &self,
        caller: &Caller,
        place: &diropargs3<'_>,
        out: &mut Vec<u8>,
        make: impl FnOnce(&Named<'_>, &[u8]) -> Changed<Found>,
    ) -> Appended {
        let named = match self.named_to_change(caller, place.dir) {
            Ok(named) => named,
            Err(status) => return fail(out, status, &NO_WCC),
        };
        if let Err(status) = check_new(place.name.0) {
            return fail(out, status, &NO_WCC);
        }
        match make(&named, place.name.0) {
            Ok((found, dir_wcc)) => {
                let sealed = self.seal(named.export, &found.handle);
                succeed(
                    out,
                    &CREATE3resok {
                        obj: Some(nfs_fh3(sealed.as_bytes())),
                        obj_attributes: Some(found.attributes),
                        dir_wcc,
                    },
                )
            }
            Err((status, wcc)) => fail(out, status, &wcc),
        }
    }

    pub(super) fn create(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: CREATE3args<'_> = arguments(body)?;
        self.make(caller, &args.where_, out, |at, name| {
            let store = &at.export.store;
            store.create(&at.caller, &at.handle, name, &args.how)
        })
    }

    pub(super) fn mkdir(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: MKDIR3args<'_> = arguments(body)?;
        self.make(caller, &args.where_, out, |at, name| {
            let store = &at.export.store;
            store.mkdir(&at.caller, &at.handle, name, &args.attributes)
        })
    }

    pub(super) fn symlink(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: SYMLINK3args<'_> = arguments(body)?;
        let text = args.symlink.symlink_data.0;
        self.make(caller, &args.where_, out, |at, name| {
            if text.len() > LINK_BYTES_MAX {
                return Err((nfsstat3::NFS3ERR_NAMETOOLONG, NO_WCC));
            }
            if text.is_empty() || text.contains(&0) {
                return Err((nfsstat3::NFS3ERR_INVAL, NO_WCC));
            }
            let (store, new) = (&at.export.store, &args.symlink.symlink_attributes);
            store.symlink(&at.caller, &at.handle, name, new, text)
        })
    }

    pub(super) fn mknod(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: MKNOD3args<'_> = arguments(body)?;
        self.make(caller, &args.where_, out, |at, name| {
            let (new, special) = match &args.what {
                mknoddata3::CHR(new, device) => (new, Special::CharacterDevice(*device)),
                mknoddata3::BLK(new, device) => (new, Special::BlockDevice(*device)),
                mknoddata3::SOCK(new) => (new, Special::Socket),
                mknoddata3::FIFO(new) => (new, Special::Fifo),
                mknoddata3::REG | mknoddata3::DIR | mknoddata3::LNK => {
                    return Err((nfsstat3::NFS3ERR_BADTYPE, NO_WCC));
                }
            };
            let store = &at.export.store;
            store.mknod(&at.caller, &at.handle, name, new, special)
        })
    }

    fn unname(
        &self,
        caller: &Caller,
        object: &diropargs3<'_>,
        out: &mut Vec<u8>,
        unname: impl FnOnce(&Named<'_>, &[u8]) -> Changed<()>,
    ) -> Appended {
        let named = match self.named_to_change(caller, object.dir) {
            Ok(named) => named,
            Err(status) => return fail(out, status, &NO_WCC),
        };
        match check_old(object.name.0) {
            Ok(()) => changed(out, unname(&named, object.name.0)),
            Err(status) => fail(out, status, &NO_WCC),
        }
    }

    pub(super) fn remove(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: REMOVE3args<'_> = arguments(body)?;
        self.unname(caller, &args.object, out, |at, name| {
            at.export.store.remove(&at.caller, &at.handle, name)
        })
    }

    pub(super) fn rmdir(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: RMDIR3args<'_> = arguments(body)?;
        self.unname(caller, &args.object, out, |at, name| {
            at.export.store.rmdir(&at.caller, &at.handle, name)
        })
    }

    pub(super) fn rename(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: RENAME3args<'_> = arguments(body)?;
        let nothing = RENAME3wcc {
            fromdir_wcc: NO_WCC,
            todir_wcc: NO_WCC,
        };
        let both = self
            .named_to_change(caller, args.from.dir)
            .and_then(|from| {
                let to = self.named_to_change(caller, args.to.dir)?;
                if from.export.id != to.export.id {
                    return Err(nfsstat3::NFS3ERR_XDEV);
                }
                for name in [args.from.name.0, args.to.name.0] {
                    check_name(name)?;
                    if matches!(name, b"." | b"..") {
                        return Err(nfsstat3::NFS3ERR_INVAL);
                    }
                }
                Ok((from, to))
            });
        let (from, to) = match both {
            Ok(both) => both,
            Err(status) => return fail(out, status, &nothing),
        };
        let (status, wcc) = from.export.store.rename(
            &from.caller,
            (&from.handle, args.from.name.0),
            (&to.handle, args.to.name.0),
        );
        // Success and failure have the same body.
        fail(out, status, &wcc)
    }

    pub(super) fn link(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: LINK3args<'_> = arguments(body)?;
        let nothing = LINK3wcc {
            file_attributes: None,
            linkdir_wcc: NO_WCC,
        };
        let both = self.named_to_change(caller, args.file).and_then(|file| {
            let dir = self.named_to_change(caller, args.link.dir)?;
            if file.export.id != dir.export.id {
                return Err(nfsstat3::NFS3ERR_XDEV);
            }
            check_new(args.link.name.0)?;
            Ok((file, dir))
        });
        let (file, dir) = match both {
            Ok(both) => both,
            Err(status) => return fail(out, status, &nothing),
        };
        let store = &dir.export.store;
        let name = args.link.name.0;
        let (status, wcc) = store.link(&dir.caller, &file.handle, &dir.handle, name);
        fail(out, status, &wcc)
    }
}
