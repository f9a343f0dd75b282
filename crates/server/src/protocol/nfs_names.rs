//! NFSv3 procedures on names: LOOKUP, the makers, REMOVE, RMDIR, RENAME, LINK.

use wire::nfs3::{
    CREATE3args, CREATE3resok, LINK3args, LINK3wcc, LOOKUP3args, LOOKUP3resok, MKDIR3args,
    MKNOD3args, REMOVE3args, RENAME3args, RENAME3wcc, RMDIR3args, SYMLINK3args, diropargs3,
    mknoddata3, nfs_fh3, nfsstat3,
};

use super::arguments;
use super::export::{Service, check_name};
use super::nfs::{Appended, changed, fail, succeed, unchanged, unseen};
use crate::Caller;
use crate::store::{Changed, Found, LINK_BYTES_MAX, NO_WCC, Place, Special, Store};

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
        let named = self.named(caller, args.what.dir).map_err(unseen);
        let found = named.and_then(|named| {
            let (store, dir) = (&named.export.store, &named.handle);
            check_name(name).map_err(|status| (status, store.getattr(dir).ok()))?;
            let (found, dir_attributes) = store.lookup(&named.caller, (dir, name))?;
            let sealed = self.seal(named.export, &found.handle);
            Ok((sealed, found.attributes, dir_attributes))
        });
        match found {
            Ok((sealed, attributes, dir_attributes)) => succeed(
                out,
                &LOOKUP3resok {
                    object: nfs_fh3(sealed.as_bytes()),
                    obj_attributes: Some(attributes),
                    dir_attributes,
                },
            ),
            Err((status, seen)) => fail(out, status, &seen),
        }
    }

    /// The part that CREATE, MKDIR, SYMLINK and MKNOD share: what `make` makes, in the named place.
    fn make(
        &self,
        caller: &Caller,
        place: &diropargs3<'_>,
        out: &mut Vec<u8>,
        make: impl FnOnce(&dyn Store, &Caller, Place<'_>) -> Changed<Found>,
    ) -> Appended {
        let named = self.named_to_change(caller, place.dir);
        let made = named.map_err(unchanged).and_then(|named| {
            check_new(place.name.0).map_err(unchanged)?;
            let at = (&named.handle, place.name.0);
            let (found, dir_wcc) = make(&*named.export.store, &named.caller, at)?;
            let sealed = self.seal(named.export, &found.handle);
            Ok((sealed, found.attributes, dir_wcc))
        });
        match made {
            Ok((sealed, attributes, dir_wcc)) => succeed(
                out,
                &CREATE3resok {
                    obj: Some(nfs_fh3(sealed.as_bytes())),
                    obj_attributes: Some(attributes),
                    dir_wcc,
                },
            ),
            Err((status, wcc)) => fail(out, status, &wcc),
        }
    }

    pub(super) fn create(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: CREATE3args<'_> = arguments(body)?;
        self.make(caller, &args.where_, out, |store, caller, at| {
            store.create(caller, at, &args.how)
        })
    }

    pub(super) fn mkdir(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: MKDIR3args<'_> = arguments(body)?;
        self.make(caller, &args.where_, out, |store, caller, at| {
            store.mkdir(caller, at, &args.attributes)
        })
    }

    pub(super) fn symlink(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: SYMLINK3args<'_> = arguments(body)?;
        let text = args.symlink.symlink_data.0;
        self.make(caller, &args.where_, out, |store, caller, at| {
            if text.len() > LINK_BYTES_MAX {
                return Err((nfsstat3::NFS3ERR_NAMETOOLONG, NO_WCC));
            }
            if text.is_empty() || text.contains(&0) {
                return Err((nfsstat3::NFS3ERR_INVAL, NO_WCC));
            }
            store.symlink(caller, at, &args.symlink.symlink_attributes, text)
        })
    }

    pub(super) fn mknod(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: MKNOD3args<'_> = arguments(body)?;
        self.make(caller, &args.where_, out, |store, caller, at| {
            let (new, special) = match &args.what {
                mknoddata3::CHR(new, device) => (new, Special::CharacterDevice(*device)),
                mknoddata3::BLK(new, device) => (new, Special::BlockDevice(*device)),
                mknoddata3::SOCK(new) => (new, Special::Socket),
                mknoddata3::FIFO(new) => (new, Special::Fifo),
                mknoddata3::REG | mknoddata3::DIR | mknoddata3::LNK => {
                    return Err((nfsstat3::NFS3ERR_BADTYPE, NO_WCC));
                }
            };
            store.mknod(caller, at, new, special)
        })
    }

    fn unname(
        &self,
        caller: &Caller,
        object: &diropargs3<'_>,
        out: &mut Vec<u8>,
        unname: impl FnOnce(&dyn Store, &Caller, Place<'_>) -> Changed<()>,
    ) -> Appended {
        let named = self.named_to_change(caller, object.dir);
        let gone = named.map_err(unchanged).and_then(|named| {
            check_old(object.name.0).map_err(unchanged)?;
            let at = (&named.handle, object.name.0);
            unname(&*named.export.store, &named.caller, at)
        });
        changed(out, gone)
    }

    pub(super) fn remove(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: REMOVE3args<'_> = arguments(body)?;
        self.unname(caller, &args.object, out, |store, caller, at| {
            store.remove(caller, at)
        })
    }

    pub(super) fn rmdir(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: RMDIR3args<'_> = arguments(body)?;
        self.unname(caller, &args.object, out, |store, caller, at| {
            store.rmdir(caller, at)
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
        let (status, wcc) = store.link(&dir.caller, &file.handle, (&dir.handle, name));
        fail(out, status, &wcc)
    }
}
