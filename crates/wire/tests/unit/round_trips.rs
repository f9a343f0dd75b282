//! decode(encode(x)) == x for every type of NFSv3, MOUNT and portmap, and both decoders (full types
//! and summaries) agree on where a message ends.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::nfs3::*;
use wire::programs::{MOUNT, NFS, PORTMAP};
use wire::xdr::{Counted, Linked};
use wire::{Decode, Encode, End, mount, portmap, summarise_call, summarise_reply};

/// Opaque data for types that borrow: each value is made once and leaked (tests only).
fn opaque(range: std::ops::Range<usize>) -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), range).prop_map(|bytes| &*bytes.leak())
}
fn fh() -> impl Strategy<Value = nfs_fh3<'static>> {
    opaque(0..65).prop_map(nfs_fh3)
}
fn name() -> impl Strategy<Value = filename3<'static>> {
    opaque(0..40).prop_map(filename3)
}
fn path() -> impl Strategy<Value = nfspath3<'static>> {
    opaque(0..60).prop_map(nfspath3)
}
fn payload() -> impl Strategy<Value = payload3<'static>> {
    opaque(0..200).prop_map(payload3)
}
fn time() -> impl Strategy<Value = nfstime3> {
    any::<(u32, u32)>().prop_map(|(seconds, nseconds)| nfstime3 { seconds, nseconds })
}
fn spec() -> impl Strategy<Value = specdata3> {
    any::<(u32, u32)>().prop_map(|(specdata1, specdata2)| specdata3 {
        specdata1,
        specdata2,
    })
}
fn set_times() -> impl Strategy<Value = set_time> {
    prop_oneof![
        Just(set_time::DONT_CHANGE),
        Just(set_time::SET_TO_SERVER_TIME),
        time().prop_map(set_time::SET_TO_CLIENT_TIME),
    ]
}
fn sattr() -> impl Strategy<Value = sattr3> {
    (
        any::<(Option<u32>, Option<u32>, Option<u32>, Option<u64>)>(),
        set_times(),
        set_times(),
    )
        .prop_map(|((mode, uid, gid, size), atime, mtime)| sattr3 {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        })
}
fn fattr() -> impl Strategy<Value = fattr3> {
    (
        1u32..8,
        any::<[u32; 4]>(),
        any::<[u64; 4]>(),
        spec(),
        time(),
        time(),
        time(),
    )
        .prop_map(
            |(
                kind,
                [mode, nlink, uid, gid],
                [size, used, fsid, fileid],
                rdev,
                atime,
                mtime,
                ctime,
            )| {
                fattr3 {
                    type_: ftype3::from_code(kind).unwrap(),
                    mode,
                    nlink,
                    uid,
                    gid,
                    size,
                    used,
                    rdev,
                    fsid,
                    fileid,
                    atime,
                    mtime,
                    ctime,
                }
            },
        )
}
fn post_op() -> impl Strategy<Value = post_op_attr> {
    option::of(fattr())
}
fn wcc() -> impl Strategy<Value = wcc_data> {
    let attr = (any::<u64>(), time(), time());
    let attr = attr.prop_map(|(size, mtime, ctime)| wcc_attr { size, mtime, ctime });
    (option::of(attr), post_op()).prop_map(|(before, after)| wcc_data { before, after })
}
fn dirop() -> impl Strategy<Value = diropargs3<'static>> {
    (fh(), name()).prop_map(|(dir, name)| diropargs3 { dir, name })
}
fn how() -> impl Strategy<Value = stable_how> {
    (0u32..3).prop_map(|code| stable_how::from_code(code).unwrap())
}
fn res<T: Clone + std::fmt::Debug, F: Clone + std::fmt::Debug>(
    ok: impl Strategy<Value = T>,
    fail: impl Strategy<Value = F>,
) -> impl Strategy<Value = Res<T, F>> {
    let status = (1u32..).prop_map(|code| nfsstat3 { code });
    prop_oneof![
        ok.prop_map(Res::Ok),
        (status, fail).prop_map(|(s, f)| Res::Fail(s, f))
    ]
}

/// Encodes, decodes and compares. Values borrow leaked bytes: the encoding may live as long.
fn same<T: Encode + PartialEq + std::fmt::Debug + Decode<'static>>(value: &T) -> &'static [u8] {
    let mut bytes = Vec::new();
    value.encode(&mut bytes).unwrap();
    assert_eq!(bytes.len() % 4, 0);
    let bytes: &'static [u8] = bytes.leak();
    assert_eq!(&T::decode_whole(bytes, "value").unwrap(), value);
    bytes
}
macro_rules! call {
    ($program:expr, $version:expr, $procedure:expr, $value:expr) => {{
        let bytes = same($value);
        let summary = summarise_call($program, $version, $procedure, bytes, true);
        prop_assert_eq!(summary.end, End::Complete);
        summary
    }};
}
macro_rules! reply {
    ($program:expr, $version:expr, $procedure:expr, $value:expr) => {{
        let bytes = same($value);
        let summary = summarise_reply($program, $version, $procedure, bytes, true);
        prop_assert_eq!(summary.end, End::Complete);
        summary
    }};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nfs3_arguments(
        (file, offset, count, stable) in (fh(), any::<u64>(), any::<u32>(), how()),
        (what, other, data, text) in (dirop(), dirop(), payload(), path()),
        (attributes, guard, dev) in (sattr(), option::of(time()), spec()),
        verifier in any::<[u8; 8]>(),
    ) {
        call!(NFS, 3, 1, &GETATTR3args { object: file });
        let set = SETATTR3args { object: file, new_attributes: attributes, guard };
        prop_assert_eq!(call!(NFS, 3, 2, &set).arguments.set_size, attributes.size);
        let summary = call!(NFS, 3, 3, &LOOKUP3args { what });
        prop_assert_eq!(summary.arguments.name, Some(what.name.0));
        call!(NFS, 3, 4, &ACCESS3args { object: file, access: count });
        call!(NFS, 3, 5, &READLINK3args { symlink: file });
        let summary = call!(NFS, 3, 6, &READ3args { file, offset, count });
        prop_assert_eq!(summary.arguments.file_handle, Some(file.0));
        prop_assert_eq!(summary.arguments.offset, Some(offset));
        prop_assert_eq!(summary.arguments.count, Some(count.into()));
        let write = WRITE3args { file, offset, count, stable, data };
        let summary = call!(NFS, 3, 7, &write);
        prop_assert_eq!(summary.arguments.data_bytes, Some(data.0.len() as u32));
        let mut head = Vec::new();
        write.encode_head(&mut head).unwrap();
        head.extend_from_slice(data.0);
        head.resize(head.len().next_multiple_of(4), 0);
        let mut whole = Vec::new();
        write.encode(&mut whole).unwrap();
        prop_assert_eq!(head, whole);
        for how in [createhow3::UNCHECKED(attributes), createhow3::GUARDED(attributes),
            createhow3::EXCLUSIVE(verifier)] {
            call!(NFS, 3, 8, &CREATE3args { where_: what, how });
        }
        call!(NFS, 3, 9, &MKDIR3args { where_: what, attributes });
        let symlink = symlinkdata3 { symlink_attributes: attributes, symlink_data: text };
        let summary = call!(NFS, 3, 10, &SYMLINK3args { where_: what, symlink });
        prop_assert_eq!(summary.arguments.target_name, Some(text.0));
        for node in [mknoddata3::CHR(attributes, dev), mknoddata3::BLK(attributes, dev),
            mknoddata3::SOCK(attributes), mknoddata3::FIFO(attributes), mknoddata3::REG,
            mknoddata3::DIR, mknoddata3::LNK] {
            call!(NFS, 3, 11, &MKNOD3args { where_: what, what: node });
        }
        call!(NFS, 3, 12, &REMOVE3args { object: what });
        call!(NFS, 3, 13, &RMDIR3args { object: what });
        let summary = call!(NFS, 3, 14, &RENAME3args { from: what, to: other });
        prop_assert_eq!(summary.arguments.target_handle, Some(other.dir.0));
        call!(NFS, 3, 15, &LINK3args { file, link: other });
        let dir = READDIR3args { dir: file, cookie: offset, cookieverf: verifier, count };
        call!(NFS, 3, 16, &dir);
        let plus = READDIRPLUS3args {
            dir: file, cookie: offset, cookieverf: verifier, dircount: 1, maxcount: count,
        };
        prop_assert_eq!(call!(NFS, 3, 17, &plus).arguments.count, Some(count.into()));
        call!(NFS, 3, 18, &FSSTAT3args { fsroot: file });
        call!(NFS, 3, 19, &FSINFO3args { fsroot: file });
        call!(NFS, 3, 20, &PATHCONF3args { object: file });
        call!(NFS, 3, 21, &COMMIT3args { file, offset, count });
    }

    #[test]
    fn nfs3_results(
        (attributes, dir, other) in (post_op(), post_op(), wcc()),
        (object, maybe, text, data) in (fh(), option::of(fh()), path(), payload()),
        (file_wcc, count, eof, committed) in (wcc(), any::<u32>(), any::<bool>(), how()),
        (verf, sizes, own) in (any::<[u8; 8]>(), any::<[u64; 7]>(), fattr()),
        status in (1u32..).prop_map(|code| nfsstat3 { code }),
    ) {
        reply!(NFS, 3, 1, &GETATTR3res::Ok(GETATTR3resok { obj_attributes: own }));
        reply!(NFS, 3, 1, &GETATTR3res::Fail(status, ()));
        reply!(NFS, 3, 2, &SETATTR3res::Ok(file_wcc));
        reply!(NFS, 3, 2, &SETATTR3res::Fail(status, file_wcc));
        let looked =
            LOOKUP3resok { object, obj_attributes: attributes, dir_attributes: dir };
        let summary = reply!(NFS, 3, 3, &LOOKUP3res::Ok(looked));
        prop_assert_eq!(summary.results.file_handle, Some(object.0));
        reply!(NFS, 3, 3, &LOOKUP3res::Fail(status, dir));
        reply!(NFS, 3, 4, &ACCESS3res::Ok(ACCESS3resok { obj_attributes: dir, access: count }));
        let link = READLINK3resok { symlink_attributes: dir, data: text };
        reply!(NFS, 3, 5, &READLINK3res::Ok(link));
        let read = READ3resok { file_attributes: attributes, count, eof, data };
        let summary = reply!(NFS, 3, 6, &READ3res::Ok(read));
        let stated = summary.results.attributes.and_then(|a| a.size_bytes);
        prop_assert_eq!(stated, attributes.map(|a| a.size));
        prop_assert_eq!(summary.results.data_bytes, Some(data.0.len() as u32));
        reply!(NFS, 3, 6, &READ3res::Fail(status, attributes));
        let write = WRITE3resok { file_wcc, count, committed, verf };
        let summary = reply!(NFS, 3, 7, &WRITE3res::Ok(write));
        prop_assert_eq!(summary.results.verifier, Some(verf));
        prop_assert_eq!(summary.results.before_size_bytes, file_wcc.before.map(|b| b.size));
        let made = CREATE3resok { obj: maybe, obj_attributes: attributes, dir_wcc: other };
        for procedure in 8..=11 {
            reply!(NFS, 3, procedure, &CREATE3res::Ok(made));
            reply!(NFS, 3, procedure, &CREATE3res::Fail(status, other));
        }
        reply!(NFS, 3, 12, &REMOVE3res::Ok(other));
        reply!(NFS, 3, 13, &RMDIR3res::Fail(status, other));
        let renamed = RENAME3wcc { fromdir_wcc: file_wcc, todir_wcc: other };
        reply!(NFS, 3, 14, &RENAME3res::Ok(renamed));
        reply!(NFS, 3, 14, &RENAME3res::Fail(status, renamed));
        let linked = LINK3wcc { file_attributes: dir, linkdir_wcc: other };
        reply!(NFS, 3, 15, &LINK3res::Ok(linked));
        reply!(NFS, 3, 15, &LINK3res::Fail(status, linked));
        let [tbytes, fbytes, abytes, tfiles, ffiles, afiles, maxfilesize] = sizes;
        reply!(NFS, 3, 18, &FSSTAT3res::Ok(FSSTAT3resok {
            obj_attributes: dir, tbytes, fbytes, abytes, tfiles, ffiles, afiles, invarsec: count,
        }));
        reply!(NFS, 3, 19, &FSINFO3res::Ok(FSINFO3resok {
            obj_attributes: dir, rtmax: count, rtpref: 2, rtmult: 3, wtmax: 4, wtpref: 5,
            wtmult: 6, dtpref: 7, maxfilesize,
            time_delta: nfstime3 { seconds: 0, nseconds: 1 }, properties: 0x1b,
        }));
        reply!(NFS, 3, 20, &PATHCONF3res::Ok(PATHCONF3resok {
            obj_attributes: dir, linkmax: count, name_max: 255, no_trunc: eof,
            chown_restricted: true, case_insensitive: false, case_preserving: true,
        }));
        reply!(NFS, 3, 20, &PATHCONF3res::Fail(status, dir));
        reply!(NFS, 3, 21, &COMMIT3res::Ok(COMMIT3resok { file_wcc, verf }));
        reply!(NFS, 3, 21, &COMMIT3res::Fail(status, file_wcc));
    }

    #[test]
    fn nfs3_directories(
        page in res(
            (post_op(), any::<[u8; 8]>(), any::<bool>(),
             vec((any::<u64>(), name(), any::<u64>(), post_op(), option::of(fh())), 0..12)),
            post_op(),
        ),
        limit in 0u32..3000,
    ) {
        let (dir_attributes, cookieverf, eof, list) = match page {
            Res::Ok(page) => page,
            Res::Fail(status, attributes) => {
                reply!(NFS, 3, 16, &READDIR3res::Fail(status, attributes));
                reply!(NFS, 3, 17, &READDIRPLUS3res::Fail(status, attributes));
                return Ok(());
            }
        };
        let plus: Vec<entryplus3<'static>> = list
            .into_iter()
            .map(|(fileid, name, cookie, name_attributes, name_handle)| entryplus3 {
                fileid, name, cookie, name_attributes, name_handle,
            })
            .collect();
        let plain = plus
            .iter()
            .map(|e| entry3 { fileid: e.fileid, name: e.name, cookie: e.cookie })
            .collect();
        let entries = Linked(plain);
        let summary = reply!(NFS, 3, 16, &READDIR3res::Ok(READDIR3resok {
            dir_attributes, cookieverf, entries, eof,
        }));
        prop_assert_eq!(summary.results.entries, Some(plus.len() as u32));
        // The writer takes entries while they fit, and never exceeds the limit.
        let mut out = Vec::new();
        let mut writer =
            DirectoryWriter::begin(&mut out, &dir_attributes, cookieverf, limit, u32::MAX).unwrap();
        let taken: Vec<_> =
            plus.iter().copied().take_while(|e| writer.entry_plus(e).unwrap()).collect();
        prop_assert_eq!(writer.finish(eof).unwrap(), taken.len());
        prop_assert!(taken.is_empty() || out.len() <= 4 + limit as usize);
        let written: &'static [u8] = out.leak();
        let read = READDIRPLUS3res::decode_whole(written, "page").unwrap();
        let entries = Linked(taken);
        prop_assert_eq!(read, READDIRPLUS3res::Ok(READDIRPLUS3resok {
            dir_attributes, cookieverf, entries, eof,
        }));
        let entries = Linked(plus);
        reply!(NFS, 3, 17, &READDIRPLUS3res::Ok(READDIRPLUS3resok {
            dir_attributes, cookieverf, entries, eof,
        }));
    }

    #[test]
    fn mount_types(
        handle in opaque(0..65),
        flavors in vec(any::<u32>(), 0..5),
        (host, dir) in (opaque(0..30), opaque(0..50)),
        groups in vec(opaque(0..20), 0..4),
    ) {
        let summary = call!(MOUNT, 3, 1, &mount::dirpath(dir));
        prop_assert_eq!(summary.arguments.name, Some(dir));
        let fhandle = mount::fhandle3(handle);
        let resok = mount::mountres3_ok { fhandle, auth_flavors: Counted(flavors) };
        let summary = reply!(MOUNT, 3, 1, &mount::mountres3::Ok(resok));
        prop_assert_eq!(summary.results.file_handle, Some(handle));
        reply!(MOUNT, 3, 1, &mount::mountres3::Fail(mount::mountstat3::MNT3ERR_ACCES));
        let body = mount::mountbody {
            ml_hostname: mount::name(host), ml_directory: mount::dirpath(dir),
        };
        reply!(MOUNT, 3, 2, &Linked(vec![body, body]));
        let ex_groups = Linked(groups.into_iter().map(mount::name).collect());
        let node = mount::exportnode { ex_dir: mount::dirpath(dir), ex_groups };
        reply!(MOUNT, 3, 5, &Linked(vec![node.clone(), node]));
        same(&mount::fhstatus::Ok([7; 32]));
        same(&mount::fhstatus::Fail(13));
    }

    #[test]
    fn portmap_types(
        words in any::<[u32; 4]>(),
        ints in any::<[i32; 4]>(),
        (one, two, three) in (opaque(0..20), opaque(0..20), opaque(0..20)),
    ) {
        use portmap::*;
        let [prog, vers, prot, port] = words;
        let map = mapping { prog, vers, prot, port };
        for procedure in 1..=3 {
            call!(PORTMAP, 2, procedure, &map);
        }
        reply!(PORTMAP, 2, 4, &Linked(vec![map; 3]));
        prop_assert_eq!(reply!(PORTMAP, 2, 3, &port).results.count, Some(port.into()));
        let call = call_args { prog, vers, proc_: prot, args: passed_on(one) };
        call!(PORTMAP, 2, 5, &call);
        call!(PORTMAP, 4, 10, &call);
        reply!(PORTMAP, 2, 5, &call_result { port, res: passed_on(two) });
        let [a, b, c] = [one, two, three].map(rpcb_string);
        let entry = rpcb { r_prog: prog, r_vers: vers, r_netid: a, r_addr: b, r_owner: c };
        for (version, procedure) in [(3, 1), (3, 3), (4, 2), (4, 9), (4, 11)] {
            call!(PORTMAP, version, procedure, &entry);
        }
        reply!(PORTMAP, 3, 4, &Linked(vec![entry; 2]));
        reply!(PORTMAP, 4, 3, &a);
        reply!(PORTMAP, 3, 5, &rpcb_rmtcallres { addr: a, results: passed_on(two) });
        reply!(PORTMAP, 3, 7, &netbuf { maxlen: port, buf: passed_on(one) });
        reply!(PORTMAP, 4, 11, &Linked(vec![rpcb_entry {
            r_maddr: a, r_nc_netid: b, r_nc_semantics: port, r_nc_protofmly: c, r_nc_proto: a,
        }]));
        let [success, failure, indirect, setinfo] = ints;
        // `rpcb_stat` of versions 2, 3 and 4.
        let mut all = Vec::new();
        for _ in 0..3 {
            [9; 52].encode(&mut all).unwrap();
            [setinfo, success].iter().try_for_each(|n| n.encode(&mut all)).unwrap();
            let addresses = rpcbs_addrlist { prog, vers, success, failure, netid: a };
            Linked(vec![addresses]).encode(&mut all).unwrap();
            let calls = rpcbs_rmtcalllist {
                prog, vers, proc_: prot, success, failure, indirect, netid: b,
            };
            Linked(vec![calls]).encode(&mut all).unwrap();
        }
        prop_assert_eq!(summarise_reply(PORTMAP, 4, 12, &all, true).end, End::Complete);
    }
}
