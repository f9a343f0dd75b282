//! The marker of a file set: what it was made with, and how much of it is whole. Written last.

use client::nfs3::{Create, FileHandle, Lookup, Read, Write, call_once};
use client::{CallError, Engine};
use serde::{Deserialize, Serialize};
use wire::nfs3::{
    CREATE3args, LOOKUP3args, READ3args, Res, WRITE3args, createhow3, diropargs3, filename3,
    nfsstat3, payload3, sattr3, stable_how,
};

use crate::checked::Checked;
use crate::layout::{Layout, MARKER};

/// Version of what lies on the server.
const FORMAT: u32 = 2;
/// Largest marker: the most sizes a plan may have, and room.
const MAX_BYTES: u32 = 256 << 10;
/// Two shares are the same when they differ by less: they went through decimal text.
const SAME: f64 = 1e-9;

/// What a file set was made with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    format: u32,
    seed: u64,
    files_per_directory: u64,
    symlinks_share: f64,
    file_sizes_bytes: Vec<(u64, f64)>,
    /// Number of its mount: it is part of what stands in the files.
    mount: u64,
    /// Files that are whole, from the first.
    pub files: u64,
    /// Scratch names that were set up.
    pub scratch: u64,
}

impl Marker {
    /// Of the set that a plan asks for.
    pub fn of(checked: &Checked, mount: u64) -> Self {
        let layout: &Layout = &checked.layout;
        Marker {
            format: FORMAT,
            seed: checked.plan.seed,
            files_per_directory: layout.files_per_directory,
            symlinks_share: checked.plan.file_set.symlinks_share,
            file_sizes_bytes: layout.size_shares(),
            mount,
            files: layout.files,
            scratch: layout.scratch,
        }
    }

    /// Why a set made with `self` is not one of `wanted`, whatever its size.
    pub fn differs(&self, wanted: &Self) -> Option<String> {
        let same = |one: f64, other: f64| (one - other).abs() < SAME;
        let sizes = self.file_sizes_bytes.iter().zip(&wanted.file_sizes_bytes);
        let sizes_same = self.file_sizes_bytes.len() == wanted.file_sizes_bytes.len()
            && sizes.clone().all(|(a, b)| a.0 == b.0 && same(a.1, b.1));
        let checks = [
            ("the format", self.format == wanted.format),
            ("seed", self.seed == wanted.seed),
            (
                "files_per_directory",
                self.files_per_directory == wanted.files_per_directory,
            ),
            (
                "symlinks_share",
                same(self.symlinks_share, wanted.symlinks_share),
            ),
            ("file_sizes_bytes", sizes_same),
            ("the number of its mount", self.mount == wanted.mount),
        ];
        let wrong = checks.iter().find(|(_, same)| !same)?;
        Some(format!("it was made with another value of {}", wrong.0))
    }
}

fn place(root: &FileHandle) -> diropargs3<'_> {
    diropargs3 {
        dir: root.as_fh(),
        name: filename3(MARKER.as_bytes()),
    }
}

fn failed(status: nfsstat3) -> CallError {
    CallError::Nfs(status)
}

/// Reads the marker; `Ok(None)` if there is none, an inner error if it makes no sense.
pub fn read(
    engine: &mut Engine,
    root: &FileHandle,
) -> Result<Option<Result<Marker, String>>, CallError> {
    let arguments = LOOKUP3args { what: place(root) };
    let found = call_once::<Lookup, _, _>(engine, &arguments, |result| match result {
        Res::Ok(found) => FileHandle::try_from(found.object).map(Some),
        Res::Fail(nfsstat3::NFS3ERR_NOENT, _) => Ok(None),
        Res::Fail(status, _) => Err(failed(status)),
    })?;
    let Some(handle) = found else {
        return Ok(None);
    };
    let mut text = Vec::new();
    loop {
        let arguments = READ3args {
            file: handle.as_fh(),
            offset: text.len() as u64,
            count: 32 << 10,
        };
        let end = call_once::<Read, _, _>(engine, &arguments, |result| match result {
            Res::Ok(part) => {
                text.extend_from_slice(part.data.0);
                Ok(part.eof || part.data.0.is_empty())
            }
            Res::Fail(status, _) => Err(failed(status)),
        })?;
        if end || text.len() > MAX_BYTES as usize {
            break;
        }
    }
    Ok(Some(serde_json::from_slice(&text).map_err(|error| {
        format!("{MARKER} makes no sense: {error}")
    })))
}

/// Writes the marker, safely.
pub fn write(engine: &mut Engine, root: &FileHandle, marker: &Marker) -> Result<(), CallError> {
    let text = serde_json::to_vec(marker)
        .map_err(|_| CallError::Protocol("the marker cannot be written as JSON"))?;
    let arguments = CREATE3args {
        where_: place(root),
        how: createhow3::UNCHECKED(sattr3 {
            mode: Some(0o644),
            size: Some(0),
            ..sattr3::UNCHANGED
        }),
    };
    let made = call_once::<Create, _, _>(engine, &arguments, |result| match result {
        Res::Ok(made) => made.obj.map(FileHandle::try_from).transpose(),
        Res::Fail(status, _) => Err(failed(status)),
    })?;
    let handle = match made {
        Some(handle) => handle,
        None => call_once::<Lookup, _, _>(engine, &LOOKUP3args { what: place(root) }, |result| {
            match result {
                Res::Ok(found) => FileHandle::try_from(found.object),
                Res::Fail(status, _) => Err(failed(status)),
            }
        })?,
    };
    let mut written = 0;
    while let Some(rest) = text.get(written..).filter(|rest| !rest.is_empty()) {
        let part = rest.get(..rest.len().min(8 << 10)).unwrap_or_default();
        let arguments = WRITE3args {
            file: handle.as_fh(),
            offset: written as u64,
            count: u32::try_from(part.len()).unwrap_or(u32::MAX),
            stable: stable_how::FILE_SYNC,
            data: payload3(part),
        };
        let taken = call_once::<Write, _, _>(engine, &arguments, |result| match result {
            Res::Ok(done) if done.count > 0 => Ok(done.count as usize),
            Res::Ok(_) => Err(CallError::Protocol("a WRITE took nothing")),
            Res::Fail(status, _) => Err(failed(status)),
        })?;
        written += taken.min(part.len());
    }
    Ok(())
}
