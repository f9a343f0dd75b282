//! MOUNT versions 1 to 3: handing out root handles, listing exports and mounts.
//!
//! The list of mounts is what clients said; it has no meaning for access (RFC 1813 section 5.2.2)
//! and keeps at most [`MAX_MOUNTS`] entries, the oldest going first.

use std::net::SocketAddr;

use wire::mount::{
    dirpath, exportnode, exports, fhandle3, fhstatus, mountbody, mountlist, mountres3,
    mountres3_ok, mountstat3, name, procedure,
};
use wire::nfs3::{ftype3, nfsstat3};
use wire::rpc::ReplyStatus;
use wire::rpc::auth::AUTH_SYS;
use wire::xdr::{Counted, Encode, Linked};

use super::export::{Export, Service, check_name};
use super::{Refused, arguments};
use crate::{Caller, Handle};

/// Mounts remembered for DUMP.
const MAX_MOUNTS: usize = 1024;
/// `EXPORTALL` of versions 1 and 2: as EXPORT (RFC 1094 appendix A.5).
const EXPORTALL: u32 = 6;
/// Components of a path below an export.
const MAX_COMPONENTS: usize = 512;

impl Service {
    /// Runs a procedure of MOUNT.
    pub(super) fn mount(
        &self,
        address: SocketAddr,
        version: u32,
        number: u32,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u32, Refused> {
        match number {
            procedure::NULL => {}
            procedure::MNT => return self.mnt(address, version, body, out),
            procedure::DUMP => self.dump(out)?,
            procedure::UMNT => {
                let path: dirpath<'_> = arguments(body)?;
                self.forget(address, Some(path.0));
            }
            procedure::UMNTALL => self.forget(address, None),
            procedure::EXPORT => self.export_list(out)?,
            EXPORTALL if version < 3 => self.export_list(out)?,
            _ => return Err(Refused(ReplyStatus::ProcedureUnavailable)),
        }
        Ok(0)
    }

    fn mnt(
        &self,
        address: SocketAddr,
        version: u32,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u32, Refused> {
        let path: dirpath<'_> = arguments(body)?;
        let found = self.resolve(address, path.0);
        if found
            .as_ref()
            .is_ok_and(|(export, _)| !export.options.hidden)
        {
            self.remember(address, path.0);
        }
        let status = found.as_ref().err().map_or(0, |status| status.code());
        if version < 3 {
            let handle = found.map(|(export, handle)| self.seal(export, &handle));
            let result = match handle.map(|sealed| sealed.as_bytes().try_into()) {
                Ok(Ok(bytes)) => fhstatus::Ok(bytes),
                // A handle that does not fit these versions: EACCES.
                Ok(Err(_)) => fhstatus::Fail(mountstat3::MNT3ERR_ACCES.code()),
                Err(status) => fhstatus::Fail(status.code()),
            };
            result.encode(out)?;
            return Ok(status);
        }
        match found {
            Ok((export, handle)) => {
                let sealed = self.seal(export, &handle);
                mountres3::Ok(mountres3_ok {
                    fhandle: fhandle3(sealed.as_bytes()),
                    auth_flavors: Counted(vec![AUTH_SYS]),
                })
                .encode(out)?;
            }
            Err(status) => mountres3::Fail(status).encode(out)?,
        }
        Ok(status)
    }

    /// The export of a path (the longest that it begins with) and the directory below it.
    fn resolve(&self, address: SocketAddr, path: &[u8]) -> Result<(&Export, Handle), mountstat3> {
        let export = self
            .exports
            .iter()
            .filter(|export| below(&export.path, path).is_some())
            .max_by_key(|export| export.path.len())
            .ok_or(mountstat3::MNT3ERR_NOENT)?;
        let rest = below(&export.path, path).unwrap_or_default();
        let caller = export.seen_as(&Caller::with_ids(address, 0, 0));
        let mut handle = export.store.root();
        let components = rest.split(|byte| *byte == b'/').filter(|c| !c.is_empty());
        for (depth, component) in components.enumerate() {
            if depth >= MAX_COMPONENTS || matches!(component, b"." | b"..") {
                return Err(mountstat3::MNT3ERR_INVAL);
            }
            check_name(component).map_err(mount_status)?;
            let (found, _) = export
                .store
                .lookup(&caller, (&handle, component))
                .map_err(|(status, _)| mount_status(status))?;
            if found.attributes.type_ != ftype3::NF3DIR {
                return Err(mountstat3::MNT3ERR_NOTDIR);
            }
            handle = found.handle;
        }
        Ok((export, handle))
    }

    fn remember(&self, address: SocketAddr, path: &[u8]) {
        let entry = (address.ip().to_string().into_bytes(), path.to_vec());
        let mut mounted = self.mounted.lock();
        if mounted.contains(&entry) {
            return;
        }
        if mounted.len() >= MAX_MOUNTS {
            mounted.remove(0);
        }
        mounted.push(entry);
    }

    fn forget(&self, address: SocketAddr, path: Option<&[u8]>) {
        let host = address.ip().to_string().into_bytes();
        let mut mounted = self.mounted.lock();
        mounted.retain(|(h, p)| *h != host || path.is_some_and(|path| path != &**p));
    }

    fn dump(&self, out: &mut Vec<u8>) -> Result<(), Refused> {
        let mounted = self.mounted.lock();
        let list = mounted.iter().map(|(host, path)| mountbody {
            ml_hostname: name(host),
            ml_directory: dirpath(path),
        });
        let list: mountlist<'_> = Linked(list.collect());
        Ok(list.encode(out)?)
    }

    fn export_list(&self, out: &mut Vec<u8>) -> Result<(), Refused> {
        let told = self.exports.iter().filter(|export| !export.options.hidden);
        let list = told.map(|export| exportnode {
            ex_dir: dirpath(&export.path),
            ex_groups: Linked(Vec::new()),
        });
        let list: exports<'_> = Linked(list.collect());
        Ok(list.encode(out)?)
    }
}

/// What of `path` lies below `export`; `None` if it does not.
fn below<'p>(export: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let export = export.strip_suffix(b"/").unwrap_or(export);
    let rest = path.strip_prefix(export)?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

fn mount_status(status: nfsstat3) -> mountstat3 {
    mountstat3::from_code(status.code).unwrap_or(mountstat3::MNT3ERR_SERVERFAULT)
}
