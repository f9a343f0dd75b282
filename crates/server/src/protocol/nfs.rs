//! NFSv3 procedures on objects and data (RFC 1813 section 3.3): which arguments, which result.

use measure::DataCall;
use wire::nfs3::{
    ACCESS3args, ACCESS3resok, COMMIT3args, COMMIT3resok, FSINFO3args, FSSTAT3args, GETATTR3args,
    PATHCONF3args, READ3args, READLINK3args, READLINK3resok, SETATTR3args, WRITE3args, WRITE3resok,
    access, nfs_fh3, nfspath3, nfsstat3, post_op_attr, procedure, wcc_data,
};
use wire::rpc::ReplyStatus;
use wire::xdr::Encode;

use super::export::Service;
use super::{Refused, arguments};
use crate::store::{Changed, NO_WCC, Payload, READ_BYTES_MAX, Store, WRITE_BYTES_MAX};
use crate::{Caller, Handle};

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

/// Appends a result, or why there is none with what is known of attributes.
pub(super) fn answer<K: Encode>(
    out: &mut Vec<u8>,
    result: Result<impl Encode, (nfsstat3, K)>,
) -> Appended {
    match result {
        Ok(result) => succeed(out, &result),
        Err((status, known)) => fail(out, status, &known),
    }
}

/// Appends the result of a change that has only `wcc_data`.
pub(super) fn changed(out: &mut Vec<u8>, result: Changed<()>) -> Appended {
    answer(out, result.map(|((), wcc)| wcc))
}

/// Of an object that was not looked at.
pub(super) fn unseen(status: nfsstat3) -> (nfsstat3, post_op_attr) {
    (status, None)
}

/// Of an object whose change was not begun.
pub(super) fn unchanged(status: nfsstat3) -> (nfsstat3, wcc_data) {
    (status, NO_WCC)
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
        answer(out, seen.map_err(|status| (status, ())))
    }

    fn setattr(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: SETATTR3args<'_> = arguments(body)?;
        let named = self.named_to_change(caller, args.object);
        let set = named.map_err(unchanged).and_then(|named| {
            let (store, new) = (&named.export.store, &args.new_attributes);
            store.setattr(&named.caller, &named.handle, new, args.guard)
        });
        changed(out, set)
    }

    fn access(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        const CHANGES: u32 = access::MODIFY | access::EXTEND | access::DELETE;
        let args: ACCESS3args<'_> = arguments(body)?;
        let named = self.named(caller, args.object).map_err(unseen);
        let granted = named.and_then(|named| {
            let store = &named.export.store;
            let (mut access, obj_attributes) =
                store.access(&named.caller, &named.handle, args.access)?;
            if named.export.options.read_only {
                access &= !CHANGES;
            }
            Ok(ACCESS3resok {
                obj_attributes,
                access,
            })
        });
        answer(out, granted)
    }

    fn readlink(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: READLINK3args<'_> = arguments(body)?;
        let mut text = Vec::new();
        let named = self.named(caller, args.symlink).map_err(unseen);
        let read = named.and_then(|named| {
            let store = &named.export.store;
            store.readlink(&named.caller, &named.handle, &mut text)
        });
        let link = read.map(|((), symlink_attributes)| READLINK3resok {
            symlink_attributes,
            data: nfspath3(&text),
        });
        answer(out, link)
    }

    fn read(
        &self,
        caller: &Caller,
        body: &[u8],
        out: &mut Vec<u8>,
        payload: &mut Payload,
    ) -> Appended {
        let args: READ3args<'_> = arguments(body)?;
        let count = args.count.min(READ_BYTES_MAX);
        let named = self.named(caller, args.file).map_err(unseen);
        let read = named.and_then(|named| {
            let store = &named.export.store;
            let read = store.read(&named.caller, &named.handle, args.offset, count, payload)?;
            self.count(&named, DataCall::Read, read.0.count);
            Ok(read)
        });
        match read {
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
        let named = self.named_to_change(caller, args.file).map_err(unchanged);
        let written = named.and_then(|named| {
            if (args.count as usize) > args.data.0.len() {
                return Err(unchanged(nfsstat3::NFS3ERR_INVAL));
            }
            let data = args.data.0.get(..count).unwrap_or_default();
            let store = &named.export.store;
            let (done, file_wcc) =
                store.write(&named.caller, &named.handle, args.offset, data, args.stable)?;
            self.count(&named, DataCall::Write, done.count);
            Ok(WRITE3resok {
                file_wcc,
                count: done.count,
                committed: self.committed(args.stable, done.committed),
                verf: done.verifier,
            })
        });
        answer(out, written)
    }

    fn commit(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: COMMIT3args<'_> = arguments(body)?;
        let named = self.named_to_change(caller, args.file).map_err(unchanged);
        let committed = named.and_then(|named| {
            let store = &named.export.store;
            let done = store.commit(&named.caller, &named.handle, args.offset, args.count)?;
            self.count(&named, DataCall::Commit, 0);
            Ok(done)
        });
        let result = committed.map(|(verf, file_wcc)| COMMIT3resok { file_wcc, verf });
        answer(out, result)
    }

    fn about<T: Encode>(
        &self,
        caller: &Caller,
        object: nfs_fh3<'_>,
        out: &mut Vec<u8>,
        ask: impl FnOnce(&dyn Store, &Handle) -> Result<T, nfsstat3>,
    ) -> Appended {
        let named = self.named(caller, object);
        let result = named.and_then(|named| ask(&*named.export.store, &named.handle));
        answer(out, result.map_err(unseen))
    }

    fn fsstat(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: FSSTAT3args<'_> = arguments(body)?;
        self.about(caller, args.fsroot, out, |store, root| store.fsstat(root))
    }

    fn fsinfo(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: FSINFO3args<'_> = arguments(body)?;
        self.about(caller, args.fsroot, out, |store, root| store.fsinfo(root))
    }

    fn pathconf(&self, caller: &Caller, body: &[u8], out: &mut Vec<u8>) -> Appended {
        let args: PATHCONF3args<'_> = arguments(body)?;
        self.about(caller, args.object, out, |store, object| {
            store.pathconf(object)
        })
    }
}
