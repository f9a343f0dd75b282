//! Summaries of the protocols around NFS, for [`crate::summary`]: MOUNT v1 to v3, NLM v1 to v4,
//! NSM v1, NFSACL v2 and v3 (headers), portmap v2 and rpcbind v3 and v4.
//!
//! What their summaries report: MOUNT the path and the root's handle; NLM caller, file handle,
//! offset and length of the lock, and the status; NSM the monitored name; portmap nothing but the
//! status of the decoding (names, ports and addresses are for [`crate::portmap`]).

use crate::error::Result;
use crate::limits::{
    MAX_LOCK_NAME_BYTES, MAX_MOUNT_NAME_BYTES, MAX_MOUNT_PATH_BYTES, MAX_NETOBJ_BYTES, NFS2_FHSIZE,
    NFS3_FHSIZE,
};
use crate::portmap;
use crate::summary::{Arguments, Results};
use crate::xdr::{Decode, Reader};

/// Result of a body that is not looked into: it is passed over to its end.
fn skip_all(reader: &mut Reader<'_>) -> Result<()> {
    reader.skip(reader.rest().len(), "body")
}

/// Arguments of MOUNT (RFC 1813 appendix I; RFC 1094 appendix A).
pub(crate) fn mount_call<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Option<Result<()>> {
    match procedure {
        // MNT, UMNT, and PATHCONF of version 2.
        1 | 3 | 7 => Some(reader.opaque(MAX_MOUNT_PATH_BYTES, "dirpath").map(|path| {
            arguments.name = Some(path);
        })),
        0 | 2 | 4..=6 => Some(Ok(())),
        _ => None,
    }
}

/// Results of MOUNT.
pub(crate) fn mount_reply<'a>(
    version: u32,
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Option<Result<()>> {
    match procedure {
        1 => Some(mnt_reply(version, reader, results)),
        2 => Some(linked(reader, |reader| {
            reader.opaque(MAX_MOUNT_NAME_BYTES, "mountbody.ml_hostname")?;
            reader
                .opaque(MAX_MOUNT_PATH_BYTES, "mountbody.ml_directory")
                .map(|_| ())
        })),
        5 | 6 => Some(linked(reader, |reader| {
            reader.opaque(MAX_MOUNT_PATH_BYTES, "exportnode.ex_dir")?;
            linked(reader, |reader| {
                reader
                    .opaque(MAX_MOUNT_NAME_BYTES, "groupnode.gr_name")
                    .map(|_| ())
            })
        })),
        0 | 3 | 4 => Some(Ok(())),
        7 => Some(skip_all(reader)),
        _ => None,
    }
}

fn mnt_reply<'a>(version: u32, reader: &mut Reader<'a>, results: &mut Results<'a>) -> Result<()> {
    let status = reader.u32("mountres.fhs_status")?;
    results.status = Some(status);
    if status != 0 {
        return Ok(());
    }
    if version < 3 {
        let handle: &'a [u8] = reader.array::<NFS2_FHSIZE>("fhstatus.fhandle")?;
        results.file_handle = Some(handle);
        return Ok(());
    }
    results.file_handle = Some(reader.opaque(NFS3_FHSIZE, "mountres3_ok.fhandle")?);
    let field = "mountres3_ok.auth_flavors";
    reader.each(field, |reader| reader.skip(4, field))
}

/// A linked list; each element takes bytes, which bounds the loop.
fn linked<'a>(
    reader: &mut Reader<'a>,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<()>,
) -> Result<()> {
    while reader.bool("list")? {
        element(reader)?;
    }
    Ok(())
}

fn netobj<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8]> {
    reader.opaque(MAX_NETOBJ_BYTES, field)
}

/// Offset or length of a lock: 64 bits in version 4, 32 before.
fn range(version: u32, reader: &mut Reader<'_>, field: &'static str) -> Result<Option<u64>> {
    if version == 4 {
        reader.u64(field).map(Some)
    } else {
        Ok(Some(reader.u32(field)?.into()))
    }
}

/// `nlm_lock` and `nlm4_lock`.
fn alock<'a>(version: u32, reader: &mut Reader<'a>, arguments: &mut Arguments<'a>) -> Result<()> {
    arguments.name = Some(reader.opaque(MAX_LOCK_NAME_BYTES, "nlm_lock.caller_name")?);
    arguments.file_handle = Some(netobj(reader, "nlm_lock.fh")?);
    netobj(reader, "nlm_lock.oh")?;
    reader.skip(4, "nlm_lock.svid")?;
    arguments.offset = range(version, reader, "nlm_lock.l_offset")?;
    arguments.count = range(version, reader, "nlm_lock.l_len")?;
    Ok(())
}

/// Arguments of NLM (X/Open XNFS, RFC 1813 appendix II).
pub(crate) fn nlm_call<'a>(
    version: u32,
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Option<Result<()>> {
    if procedure == 0 {
        return Some(Ok(()));
    }
    if !matches!(procedure, 1..=15 | 20..=23) || (version < 3 && procedure > 15) {
        return None;
    }
    Some(nlm_call_of(version, procedure, reader, arguments))
}

fn nlm_call_of<'a>(
    version: u32,
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Result<()> {
    if procedure == 23 {
        arguments.name = Some(reader.opaque(MAX_LOCK_NAME_BYTES, "nlm_notify.name")?);
        return reader.skip(4, "nlm_notify.state");
    }
    netobj(reader, "cookie")?;
    match procedure {
        // TEST and GRANTED.
        1 | 5 | 6 | 10 => {
            reader.bool("nlm_testargs.exclusive")?;
            alock(version, reader, arguments)
        }
        // LOCK and NM_LOCK.
        2 | 7 | 22 => {
            reader.bool("nlm_lockargs.block")?;
            reader.bool("nlm_lockargs.exclusive")?;
            alock(version, reader, arguments)?;
            reader.bool("nlm_lockargs.reclaim")?;
            reader.skip(4, "nlm_lockargs.state")
        }
        // CANCEL.
        3 | 8 => {
            reader.bool("nlm_cancargs.block")?;
            reader.bool("nlm_cancargs.exclusive")?;
            alock(version, reader, arguments)
        }
        // UNLOCK.
        4 | 9 => alock(version, reader, arguments),
        // SHARE and UNSHARE.
        20 | 21 => {
            arguments.name = Some(reader.opaque(MAX_LOCK_NAME_BYTES, "nlm_share.caller_name")?);
            arguments.file_handle = Some(netobj(reader, "nlm_share.fh")?);
            netobj(reader, "nlm_share.oh")?;
            reader.skip(8, "nlm_share.mode")?;
            reader.bool("nlm_shareargs.reclaim").map(|_| ())
        }
        // TEST_RES; the others carry a status only.
        11 => nlm_stat(version, true, reader).map(|_| ()),
        _ => nlm_stat(version, false, reader).map(|_| ()),
    }
}

/// `nlm_stats`, and for TEST the holder of a denied lock.
fn nlm_stat(version: u32, test: bool, reader: &mut Reader<'_>) -> Result<u32> {
    /// `nlm_denied` (XNFS).
    const DENIED: u32 = 1;
    let status = reader.u32("nlm_stat.stat")?;
    if test && status == DENIED {
        reader.bool("nlm_holder.exclusive")?;
        reader.skip(4, "nlm_holder.svid")?;
        netobj(reader, "nlm_holder.oh")?;
        reader.skip(if version == 4 { 16 } else { 8 }, "nlm_holder.l_offset")?;
    }
    Ok(status)
}

/// Results of NLM. The `_MSG` and `_RES` procedures answer nothing.
pub(crate) fn nlm_reply<'a>(
    version: u32,
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Option<Result<()>> {
    let mut decode = || {
        netobj(reader, "cookie")?;
        results.status = Some(nlm_stat(version, procedure == 1, reader)?);
        if matches!(procedure, 20 | 21) {
            reader.skip(4, "nlm_shareres.sequence")?;
        }
        Ok(())
    };
    match procedure {
        1..=5 | 20..=22 => Some(decode()),
        0 | 6..=15 | 23 => Some(Ok(())),
        _ => None,
    }
}

/// Arguments of NSM (X/Open XNFS).
pub(crate) fn nsm_call<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Option<Result<()>> {
    let mut name = |reader: &mut Reader<'a>| {
        reader
            .opaque(MAX_LOCK_NAME_BYTES, "mon_name")
            .map(|name| arguments.name = Some(name))
    };
    let my_id = |reader: &mut Reader<'a>| {
        reader.opaque(MAX_LOCK_NAME_BYTES, "my_id.my_name")?;
        reader.skip(12, "my_id.my_prog")
    };
    Some(match procedure {
        0 | 5 => Ok(()),
        1 => name(reader),
        2 => name(reader)
            .and_then(|()| my_id(reader))
            .and_then(|()| reader.skip(16, "mon.priv")),
        3 => name(reader).and_then(|()| my_id(reader)),
        4 => my_id(reader),
        6 => name(reader).and_then(|()| reader.skip(4, "stat_chge.state")),
        _ => return None,
    })
}

/// Results of NSM.
pub(crate) fn nsm_reply<'a>(
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Option<Result<()>> {
    Some(match procedure {
        0 | 5 | 6 => Ok(()),
        1 | 2 => reader.u32("sm_stat_res.res_stat").and_then(|status| {
            results.status = Some(status);
            reader.skip(4, "sm_stat_res.state")
        }),
        3 | 4 => reader.skip(4, "sm_stat.state"),
        _ => return None,
    })
}

/// Arguments of NFSACL: the handle that each begins with; the rest is passed over.
pub(crate) fn nfsacl_call<'a>(
    version: u32,
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Option<Result<()>> {
    let last = if version == 2 { 5 } else { 3 };
    match procedure {
        0 => Some(Ok(())),
        procedure if procedure <= last => {
            let handle = if version == 2 {
                reader
                    .array::<NFS2_FHSIZE>("fhandle")
                    .map(|handle| handle as &'a [u8])
            } else {
                reader.opaque(NFS3_FHSIZE, "nfs_fh3")
            };
            Some(handle.and_then(|handle| {
                arguments.file_handle = Some(handle);
                skip_all(reader)
            }))
        }
        _ => None,
    }
}

/// Results of NFSACL: the status; the rest is passed over.
pub(crate) fn nfsacl_reply<'a>(
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Option<Result<()>> {
    if reader.rest().is_empty() {
        return Some(Ok(()));
    }
    Some(reader.u32("status").and_then(|status| {
        results.status = Some(status);
        skip_all(reader)
    }))
}

/// Arguments of portmap and rpcbind.
pub(crate) fn portmap_call<'a>(
    version: u32,
    procedure: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
) -> Option<Result<()>> {
    let decoded = match (version, procedure) {
        (_, 0 | 4) | (3 | 4, 6) | (4, 12) => Ok(()),
        (2, 1..=3) => portmap::mapping::decode(reader, "mapping").map(|_| ()),
        (3 | 4, 1..=3) | (4, 9 | 11) => portmap::rpcb::decode(reader, "rpcb").map(|_| ()),
        (_, 5) | (4, 10) => portmap::call_args::decode(reader, "call_args").map(|_| ()),
        (3 | 4, 7) => portmap::rpcb_string::decode(reader, "uaddr").map(|uaddr| {
            arguments.name = Some(uaddr.0);
        }),
        (3 | 4, 8) => portmap::netbuf::decode(reader, "netbuf").map(|_| ()),
        _ => return None,
    };
    Some(decoded)
}

/// Results of portmap and rpcbind. A port is reported as `count`, an address as `name`.
pub(crate) fn portmap_reply<'a>(
    version: u32,
    procedure: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
) -> Option<Result<()>> {
    let decoded = match (version, procedure) {
        (_, 0) => Ok(()),
        (_, 1 | 2) => reader.bool("bool").map(|_| ()),
        (2, 3) | (3 | 4, 6) => reader
            .u32("port")
            .map(|port| results.count = Some(port.into())),
        (2, 4) => linked(reader, |reader| reader.skip(16, "mapping")),
        (2, 5) => portmap::call_result::decode(reader, "call_result").map(|_| ()),
        (3 | 4, 3 | 8) | (4, 9) => portmap::rpcb_string::decode(reader, "uaddr").map(|uaddr| {
            results.name = Some(uaddr.0);
        }),
        (3 | 4, 4) => linked(reader, |reader| {
            portmap::rpcb::decode(reader, "rpcb").map(|_| ())
        }),
        (3 | 4, 5) | (4, 10) => {
            portmap::rpcb_rmtcallres::decode(reader, "rpcb_rmtcallres").map(|_| ())
        }
        (3 | 4, 7) => portmap::netbuf::decode(reader, "netbuf").map(|_| ()),
        (4, 11) => linked(reader, |reader| {
            portmap::rpcb_entry::decode(reader, "rpcb_entry").map(|_| ())
        }),
        (4, 12) => (0..3).try_for_each(|_| rpcb_stat(reader)),
        _ => return None,
    };
    Some(decoded)
}

/// `rpcb_stat` of one version, without building its lists.
fn rpcb_stat(reader: &mut Reader<'_>) -> Result<()> {
    reader.skip(size_of::<portmap::rpcbs_proc>() + 8, "rpcb_stat.info")?;
    linked(reader, |reader| {
        portmap::rpcbs_addrlist::decode(reader, "rpcb_stat.addrinfo").map(|_| ())
    })?;
    linked(reader, |reader| {
        portmap::rpcbs_rmtcalllist::decode(reader, "rpcb_stat.rmtinfo").map(|_| ())
    })
}
