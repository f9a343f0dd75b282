//! READDIR and READDIRPLUS: entries within the size that the client asked for.

use wire::nfs3::{
    DirectoryWriter, READDIR3args, READDIRPLUS3args, cookieverf3, entry3, entryplus3, fattr3,
    filename3, nfs_fh3, nfsstat3, post_op_attr,
};

use super::export::{Export, Named, Service};
use super::nfs::{Appended, fail};
use super::{Refused, arguments};
use crate::Caller;
use crate::store::{DirectorySink, Entry, ListFrom, READ_BYTES_MAX};

/// Writes entries into the reply.
struct Writer<'s, 'o> {
    service: &'s Service,
    export: &'s Export,
    out: Option<&'o mut Vec<u8>>,
    writer: Option<DirectoryWriter<'o>>,
    failed: Option<Refused>,
    max_bytes: u32,
    dircount: u32,
    plus: bool,
}

impl DirectorySink for Writer<'_, '_> {
    fn begin(&mut self, attributes: post_op_attr, verifier: cookieverf3) {
        let Some(out) = self.out.take() else {
            return;
        };
        match DirectoryWriter::begin(out, &attributes, verifier, self.max_bytes, self.dircount) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => self.failed = Some(error.into()),
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) -> bool {
        let Some(writer) = &mut self.writer else {
            return false;
        };
        let (fileid, name, cookie) = (entry.fileid, filename3(entry.name), entry.cookie);
        let written = if self.plus {
            let sealed = entry
                .found
                .map(|found| self.service.seal(self.export, &found.handle));
            writer.entry_plus(&entryplus3 {
                fileid,
                name,
                cookie,
                name_attributes: entry.found.map(|found| found.attributes),
                name_handle: sealed.as_ref().map(|sealed| nfs_fh3(sealed.as_bytes())),
            })
        } else {
            writer.entry(&entry3 {
                fileid,
                name,
                cookie,
            })
        };
        written.unwrap_or_else(|error| {
            self.failed = Some(error.into());
            false
        })
    }
}

impl Service {
    pub(super) fn readdir(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: READDIR3args<'_> = arguments(body)?;
        let from = ListFrom {
            cookie: args.cookie,
            verifier: args.cookieverf,
            with_objects: false,
        };
        let named = self.named(caller, args.dir);
        self.entries(named, from, [args.count, u32::MAX], out)
    }

    pub(super) fn readdirplus(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: READDIRPLUS3args<'_> = arguments(body)?;
        let from = ListFrom {
            cookie: args.cookie,
            verifier: args.cookieverf,
            with_objects: true,
        };
        let named = self.named(caller, args.dir);
        self.entries(named, from, [args.maxcount, args.dircount], out)
    }

    fn entries(
        &self,
        named: Result<Named<'_>, nfsstat3>,
        from: ListFrom,
        [max_bytes, dircount]: [u32; 2],
        out: &mut Vec<u8>,
    ) -> Appended {
        let named = match named {
            Ok(named) => named,
            Err(status) => return fail(out, status, &None::<fattr3>),
        };
        let start = out.len();
        let store = &named.export.store;
        let mut sink = Writer {
            service: self,
            export: named.export,
            out: Some(out),
            writer: None,
            failed: None,
            max_bytes: max_bytes.min(READ_BYTES_MAX),
            dircount,
            plus: from.with_objects,
        };
        let listed = store.list(&named.caller, &named.handle, from, &mut sink);
        if let Some(refused) = sink.failed {
            return Err(refused);
        }
        let entries = match (&listed, sink.writer) {
            (Ok(end), Some(writer)) => writer.finish(*end)?,
            _ => 0,
        };
        match listed {
            Ok(end) if end || entries > 0 => Ok(nfsstat3::NFS3_OK),
            Ok(_) => {
                out.truncate(start);
                let seen = store.getattr(&named.handle).ok();
                fail(out, nfsstat3::NFS3ERR_TOOSMALL, &seen)
            }
            Err((status, seen)) => {
                out.truncate(start);
                fail(out, status, &seen)
            }
        }
    }
}
