//! The set's own directory: made or found, and looked into before anything is written there.

use client::CallError::Nfs;
use client::nfs3::{FileHandle, Lookup, MkDir, ReadDir, call_once};
use client::{CallError, Engine};
use wire::nfs3::{
    LOOKUP3args, MKDIR3args, READDIR3args, Res, diropargs3, filename3, nfsstat3, sattr3,
};

use crate::layout::{MARKER, Name};

/// Makes or finds a directory of any name.
pub fn directory_named(
    engine: &mut Engine,
    parent: &FileHandle,
    name: &str,
) -> Result<FileHandle, CallError> {
    let place = diropargs3 {
        dir: parent.as_fh(),
        name: filename3(name.as_bytes()),
    };
    let look = |engine: &mut Engine| {
        call_once::<Lookup, _, _>(engine, &LOOKUP3args { what: place }, |found| match found {
            Res::Ok(found) => FileHandle::try_from(found.object),
            Res::Fail(status, _) => Err(Nfs(status)),
        })
    };
    match look(engine) {
        Err(Nfs(nfsstat3::NFS3ERR_NOENT)) => {}
        result => return result,
    }
    let arguments = MKDIR3args {
        where_: place,
        attributes: sattr3 {
            mode: Some(0o755),
            ..sattr3::UNCHANGED
        },
    };
    let made = call_once::<MkDir, _, _>(engine, &arguments, |made| match made {
        Res::Ok(made) => made.obj.map(FileHandle::try_from).transpose(),
        Res::Fail(nfsstat3::NFS3ERR_EXIST, _) => Ok(None),
        Res::Fail(status, _) => Err(Nfs(status)),
    })?;
    match made {
        Some(handle) => Ok(handle),
        None => look(engine),
    }
}

/// A name in a directory without marker that no set has: the first page is enough to be wary.
pub fn foreign_name(engine: &mut Engine, root: &FileHandle) -> Result<Option<String>, CallError> {
    let arguments = READDIR3args {
        dir: root.as_fh(),
        cookie: 0,
        cookieverf: [0; 8],
        count: 8192,
    };
    call_once::<ReadDir, _, _>(engine, &arguments, |result| match result {
        Res::Ok(page) => Ok(page.entries.0.iter().find_map(|entry| {
            let name = entry.name.0;
            let ours = matches!(Name::parse(name), Some((b'd' | b'x', _)))
                || matches!(name, b"." | b"..")
                || name == MARKER.as_bytes();
            (!ours).then(|| String::from_utf8_lossy(name).into_owned())
        })),
        Res::Fail(status, _) => Err(Nfs(status)),
    })
}
