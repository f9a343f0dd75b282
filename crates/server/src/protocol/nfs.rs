//! NFSv3 procedures on objects and data (RFC 1813 section 3.3): which arguments, which result.

use wire::nfs3::{
    ACCESS3args, ACCESS3resok, COMMIT3args, COMMIT3resok, FSINFO3args, FSSTAT3args, GETATTR3args,
    PATHCONF3args, READ3args, READLINK3args, SETATTR3args, WRITE3args, WRITE3resok, access, fattr3,
    nfs_fh3, nfspath3, nfsstat3, post_op_attr, procedure,
};
use wire::rpc::ReplyStatus;
use wire::xdr::Encode;

use super::export::{Named, Service};
use super::{Refused, arguments};
use crate::Caller;
use crate::store::{Changed, NO_WCC, Payload, READ_BYTES_MAX, WRITE_BYTES_MAX};

/// A procedure's status, after its result was appended.
pub(super) type Appended = Result<nfsstat3, Refused>;

/// Appends a failure: status and what is known of attributes.
pub(super) fn fail(out: &mut Vec<u8>, status: nfsstat3, known: &impl Encode) -> Appended {
    status.encode(out)?;
    known.encode(out)?;
    Ok(status)
}

/// Appends a success.
pub(super) fn succeed(out: &mut Vec<u8>, result: &impl Encode) -> Appended {
    nfsstat3::NFS3_OK.encode(out)?;
    result.encode(out)?;
    Ok(nfsstat3::NFS3_OK)
}

/// Appends the result of a change that has only `wcc_data`.
pub(super) fn changed(out: &mut Vec<u8>, result: Changed<()>) -> Appended {
    match result {
        Ok(((), wcc)) => succeed(out, &wcc),
        Err((status, wcc)) => fail(out, status, &wcc),
    }
}

impl Service {
    /// Runs a procedure of NFSv3.
    pub(super) fn nfs(
        &self,
        caller: &Caller,
        number: u32,
        body: &[u8],
        out: &mut Vec<u8>,
        payload: &mut Payload,
    ) -> Result<u32, Refused> {
        let status = match number {
            procedure::NULL => Ok(nfsstat3::NFS3_OK),
            procedure::GETATTR => self.getattr(caller, body, out),
            procedure::SETATTR => self.setattr(caller, body, out),
            procedure::LOOKUP => self.lookup(caller, body, out),
            procedure::ACCESS => self.access(caller, body, out),
            procedure::READLINK => self.readlink(caller, body, out),
            procedure::READ => self.read(caller, body, out, payload),
            procedure::WRITE => self.write(caller, body, out),
            procedure::CREATE => self.create(caller, body, out),
            procedure::MKDIR => self.mkdir(caller, body, out),
            procedure::SYMLINK => self.symlink(caller, body, out),
            procedure::MKNOD => self.mknod(caller, body, out),
            procedure::REMOVE => self.remove(caller, body, out),
            procedure::RMDIR => self.rmdir(caller, body, out),
            procedure::RENAME => self.rename(caller, body, out),
            procedure::LINK => self.link(caller, body, out),
            procedure::READDIR => self.readdir(caller, body, out),
            procedure::READDIRPLUS => self.readdirplus(caller, body, out),
            procedure::FSSTAT => self.fsstat(caller, body, out),
            procedure::FSINFO => self.fsinfo(caller, body, out),
            procedure::PATHCONF => self.pathconf(caller, body, out),
            procedure::COMMIT => self.commit(caller, body, out),
            _ => Err(Refused(ReplyStatus::ProcedureUnavailable)),
        };
        status.map(|status| status.code)
    }

    fn getattr(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: GETATTR3args<'_> = arguments(body)?;
        let seen = self
            .named(caller, args.object)
            .and_then(|named| named.export.store.getattr(&named.handle));
        match seen {
            Ok(attributes) => succeed(out, &attributes),
            Err(status) => fail(out, status, &()),
        }
    }

    fn setattr(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: SETATTR3args<'_> = arguments(body)?;
        match self.named_to_change(caller, args.object) {
            Ok(named) => {
                let (store, new) = (&named.export.store, &args.new_attributes);
                changed(
                    out,
                    store.setattr(&named.caller, &named.handle, new, args.guard),
                )
            }
            Err(status) => fail(out, status, &NO_WCC),
        }
    }

    fn access(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        const CHANGES: u32 = access::MODIFY | access::EXTEND | access::DELETE;
        let args: ACCESS3args<'_> = arguments(body)?;
        let named = match self.named(caller, args.object) {
            Ok(named) => named,
            Err(status) => return fail(out, status, &None::<fattr3>),
        };
        let denied = if named.export.options.read_only {
            CHANGES
        } else {
            0
        };
        let store = &named.export.store;
        match store.access(&named.caller, &named.handle, args.access) {
            Ok((access, obj_attributes)) => succeed(
                out,
                &ACCESS3resok {
                    obj_attributes,
                    access: access & !denied,
                },
            ),
            Err((status, seen)) => fail(out, status, &seen),
        }
    }

    fn readlink(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: READLINK3args<'_> = arguments(body)?;
        let named = match self.named(caller, args.symlink) {
            Ok(named) => named,
            Err(status) => return fail(out, status, &None::<fattr3>),
        };
        let mut text = Vec::new();
        let store = &named.export.store;
        match store.readlink(&named.caller, &named.handle, &mut text) {
            Ok(((), attributes)) => {
                nfsstat3::NFS3_OK.encode(out)?;
                attributes.encode(out)?;
                nfspath3(&text).encode(out)?;
                Ok(nfsstat3::NFS3_OK)
            }
            Err((status, seen)) => fail(out, status, &seen),
        }
    }

    fn read(
        &self,
        caller: &Caller,
        body: &[u8],
        out: &mut Vec<u8>,
        payload: &mut Payload,
    ) -> Appended {
        let args: READ3args<'_> = arguments(body)?;
        let named = match self.named(caller, args.file) {
            Ok(named) => named,
            Err(status) => return fail(out, status, &None::<fattr3>),
        };
        let count = args.count.min(READ_BYTES_MAX);
        let Named {
            export,
            handle,
            caller,
        } = &named;
        match export
            .store
            .read(caller, handle, args.offset, count, payload)
        {
            Ok((done, attributes)) => {
                nfsstat3::NFS3_OK.encode(out)?;
                attributes.encode(out)?;
                done.count.encode(out)?;
                done.eof.encode(out)?;
                // The length of what follows: the payload, sent from where it lies.
                done.count.encode(out)?;
                payload.push_padding();
                Ok(nfsstat3::NFS3_OK)
            }
            Err((status, seen)) => {
                payload.clear();
                fail(out, status, &seen)
            }
        }
    }

    fn write(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: WRITE3args<'_> = arguments(body)?;
        // The count is what is to be written; data that is not there cannot be.
        let count = args.count.min(WRITE_BYTES_MAX) as usize;
        let named = match self.named_to_change(caller, args.file) {
            Ok(named) => named,
            Err(status) => return fail(out, status, &NO_WCC),
        };
        if (args.count as usize) > args.data.0.len() {
            return fail(out, nfsstat3::NFS3ERR_INVAL, &NO_WCC);
        }
        let data = args.data.0.get(..count).unwrap_or_default();
        let store = &named.export.store;
        let written = store.write(&named.caller, &named.handle, args.offset, data, args.stable);
        match written {
            Ok((done, file_wcc)) => succeed(
                out,
                &WRITE3resok {
                    file_wcc,
                    count: done.count,
                    committed: done.committed,
                    verf: done.verifier,
                },
            ),
            Err((status, wcc)) => fail(out, status, &wcc),
        }
    }

    fn commit(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: COMMIT3args<'_> = arguments(body)?;
        let named = match self.named_to_change(caller, args.file) {
            Ok(named) => named,
            Err(status) => return fail(out, status, &NO_WCC),
        };
        let store = &named.export.store;
        match store.commit(&named.caller, &named.handle, args.offset, args.count) {
            Ok((verf, file_wcc)) => succeed(out, &COMMIT3resok { file_wcc, verf }),
            Err((status, wcc)) => fail(out, status, &wcc),
        }
    }

    fn about<T: Encode>(
        &self,
        caller: &Caller,
        object: nfs_fh3<'_>,
        out: &mut Vec<u8>,
        ask: impl FnOnce(&Named<'_>) -> Result<T, nfsstat3>,
    ) -> Appended {
        let none: post_op_attr = None;
        match self.named(caller, object).and_then(|named| ask(&named)) {
            Ok(result) => succeed(out, &result),
            Err(status) => fail(out, status, &none),
        }
    }

    fn fsstat(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: FSSTAT3args<'_> = arguments(body)?;
        self.about(caller, args.fsroot, out, |named| {
            named.export.store.fsstat(&named.handle)
        })
    }

    fn fsinfo(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: FSINFO3args<'_> = arguments(body)?;
        self.about(caller, args.fsroot, out, |named| {
            named.export.store.fsinfo(&named.handle)
        })
    }

    fn pathconf(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: PATHCONF3args<'_> = arguments(body)?;
        self.about(caller, args.object, out, |named| {
            named.export.store.pathconf(&named.handle)
        })
    }
}
