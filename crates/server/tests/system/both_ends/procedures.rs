//! Every procedure end to end, over each transport and IP version, on memory and on a folder: what
//! comes back is what RFC 1813 says, and what the local file system shows.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use client::nfs3::*;
use server::net::ServerOptions;
use wire::nfs3::*;

use super::pair::{NEW, ask, at, create, mount, service, start};
use crate::trees::Tree;

type Status = nfsstat3;
const OK: Status = nfsstat3::NFS3_OK;

fn status<T, F>(result: &Res<T, F>) -> Status {
    result.status()
}

/// Where the export is on this machine, if it is a folder: `look` sees it.
fn local<T>(folder: Option<&Path>, look: impl FnOnce(&Path) -> T) {
    if let Some(folder) = folder {
        look(folder);
    }
}

#[test]
fn every_procedure_over_every_transport() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: its calls are root's, who may look into every folder");
        return;
    }
    let ways = [
        ("127.0.0.1:0", "proto=tcp"),
        ("127.0.0.1:0", "proto=udp"),
        ("127.0.0.1:0", "proto=tcp,nconnect=4"),
        ("[::1]:0", "proto=tcp6"),
        ("[::1]:0", "proto=udp6"),
    ];
    for (address, text) in ways {
        if let Err(error) = std::net::TcpListener::bind(address) {
            eprintln!("skipped: nothing can listen on {address} ({error})");
            continue;
        }
        for tree in [
            Tree::memory(1 << 28),
            Tree::directory(true),
            Tree::directory(false),
        ] {
            let kind = tree.store.description().kind;
            eprintln!("{kind} at {address} with {text}");
            tree.chmod(&tree.store.root(), 0o777);
            let service = service(Arc::from(tree.store));
            let server = start(&service, address.parse().unwrap(), ServerOptions::default());
            let mounted = mount(server.addresses()[0], text);
            let folder = tree.folder.as_ref().map(|folder| folder.path());
            everything(&mounted, folder, Server::Ours);
            let (counters, _) = mounted.client.figures().unwrap();
            assert_eq!((counters.failed, counters.unknown_replies), (0, 0));
            assert_eq!(
                (counters.malformed_replies, counters.misdirected_replies),
                (0, 0)
            );
            // Over UDP a slow machine may send again what was on its way.
            assert!(text.contains("udp") || counters.late_replies == 0);
        }
    }
}

/// Whose answers are looked at, where RFC 1813 leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Ours,
    Ganesha,
}

pub fn everything(mounted: &Export, folder: Option<&Path>, server: Server) {
    ask::<Null, _>(&mounted.client, &(), |()| ());
    asks_of_the_whole(mounted, server);
    let file = files(mounted, folder);
    other_objects(mounted, folder);
    names(mounted, &file, folder);
    listing(mounted);
    removal(mounted, &file, folder);
}

fn asks_of_the_whole(mounted: &Export, server: Server) {
    let (client, root) = (&mounted.client, &mounted.root);
    let object = root.as_fh();
    ask::<GetAttr, _>(client, &GETATTR3args { object }, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert_eq!(got.obj_attributes.type_, ftype3::NF3DIR);
    });
    ask::<FsInfo, _>(client, &FSINFO3args { fsroot: object }, |got| {
        let Res::Ok(info) = got else {
            panic!("{got:?}")
        };
        assert!(info.rtmax >= 1 << 16 && info.wtmax >= 1 << 16);
        let sizes = (info.rtmax, info.wtmax);
        assert!(server != Server::Ours || sizes == (1 << 20, 1 << 20));
        assert!(info.properties & properties::FSF3_SYMLINK != 0);
    });
    ask::<FsStat, _>(client, &FSSTAT3args { fsroot: object }, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert!(got.tbytes >= got.fbytes && got.fbytes >= got.abytes && got.tbytes > 0);
    });
    ask::<PathConf, _>(client, &PATHCONF3args { object }, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert!(got.no_trunc && got.case_preserving);
        // Ganesha says 1024, and refuses names of 256 all the same.
        assert!(got.name_max == 255 || server == Server::Ganesha);
    });
    let access = access::READ | access::LOOKUP | access::MODIFY;
    ask::<Access, _>(client, &ACCESS3args { object, access }, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert_eq!(got.access, access);
    });
}

/// CREATE in its three ways, SETATTR with its guard, WRITE, READ, COMMIT.
fn files(mounted: &Export, folder: Option<&Path>) -> FileHandle {
    let client = &mounted.client;
    let file = create(mounted, b"f");
    creating_again(mounted);
    let write = |offset, data: &[u8], stable| {
        let arguments = WRITE3args {
            file: file.as_fh(),
            offset,
            count: data.len() as u32,
            stable,
            data: payload3(data),
        };
        ask::<Write, _>(client, &arguments, |got| match got {
            Res::Ok(done) => {
                assert_eq!(done.count as usize, data.len());
                assert!(done.committed >= stable);
                done.verf
            }
            Res::Fail(status, _) => panic!("{status:?}"),
        })
    };
    let verifier = write(3, b"hello", stable_how::FILE_SYNC);
    assert_eq!(write(8, b"!", stable_how::UNSTABLE), verifier);
    let commit = COMMIT3args {
        file: file.as_fh(),
        offset: 0,
        count: 0,
    };
    ask::<Commit, _>(client, &commit, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert_eq!(got.verf, verifier);
    });
    let read = |offset, count| {
        let file = file.as_fh();
        ask::<Read, _>(
            client,
            &READ3args {
                file,
                offset,
                count,
            },
            |got| {
                let Res::Ok(got) = got else { panic!("{got:?}") };
                assert_eq!(got.count as usize, got.data.0.len());
                (got.data.0.to_vec(), got.eof)
            },
        )
    };
    assert_eq!(read(0, 100), (b"\0\0\0hello!".to_vec(), true));
    assert_eq!(read(3, 2), (b"he".to_vec(), false));
    assert_eq!(read(50, 2), (Vec::new(), true));
    truncation(mounted, &file);
    assert_eq!(read(0, 100), (b"\0\0\0he".to_vec(), true));
    local(folder, |folder| {
        assert_eq!(std::fs::read(folder.join("f")).unwrap(), b"\0\0\0he");
        assert_eq!(
            std::fs::metadata(folder.join("f")).unwrap().mode() & 0o7777,
            0o640
        );
    });
    file
}

/// CREATE of what is there, and EXCLUSIVE, which is its own when it is sent twice.
fn creating_again(mounted: &Export) {
    let (client, root) = (&mounted.client, &mounted.root);
    let again = |how: createhow3| {
        let where_ = at(root, b"f");
        ask::<Create, _>(client, &CREATE3args { where_, how }, |got| status(&got))
    };
    assert_eq!(again(createhow3::GUARDED(NEW)), nfsstat3::NFS3ERR_EXIST);
    assert_eq!(again(createhow3::UNCHECKED(sattr3::UNCHANGED)), OK);
    let exclusive = |verifier: &[u8; 8]| {
        let (where_, how) = (at(root, b"once"), createhow3::EXCLUSIVE(*verifier));
        ask::<Create, _>(client, &CREATE3args { where_, how }, |got| match got {
            Res::Ok(made) => Ok(made.obj.unwrap().0.to_vec()),
            Res::Fail(status, _) => Err(status),
        })
    };
    let first = exclusive(b"verifier").unwrap();
    assert_eq!(
        exclusive(b"verifier"),
        Ok(first),
        "the same call again finds its own file"
    );
    assert_eq!(exclusive(b"another."), Err(nfsstat3::NFS3ERR_EXIST));
}

/// SETATTR to five bytes, if the guard is right.
fn truncation(mounted: &Export, file: &FileHandle) {
    let object = file.as_fh();
    let ctime = ask::<GetAttr, _>(&mounted.client, &GETATTR3args { object }, |got| match got {
        Res::Ok(got) => got.obj_attributes.ctime,
        Res::Fail(status, ()) => panic!("{status:?}"),
    });
    let new_attributes = sattr3 {
        size: Some(5),
        ..sattr3::UNCHANGED
    };
    let cut = |guard| {
        let arguments = SETATTR3args {
            object,
            new_attributes,
            guard: Some(guard),
        };
        ask::<SetAttr, _>(&mounted.client, &arguments, |got| status(&got))
    };
    let other = nfstime3 {
        seconds: ctime.seconds ^ 1,
        ..ctime
    };
    assert_eq!(cut(other), nfsstat3::NFS3ERR_NOT_SYNC);
    assert_eq!(cut(ctime), OK);
}

fn other_objects(mounted: &Export, folder: Option<&Path>) {
    let (client, root) = (&mounted.client, &mounted.root);
    let directory = MKDIR3args {
        where_: at(root, b"d"),
        attributes: NEW,
    };
    assert_eq!(ask::<MkDir, _>(client, &directory, |got| status(&got)), OK);
    assert_eq!(
        ask::<MkDir, _>(client, &directory, |got| status(&got)),
        nfsstat3::NFS3ERR_EXIST
    );
    let link = SYMLINK3args {
        where_: at(root, b"l"),
        symlink: symlinkdata3 {
            symlink_attributes: sattr3::UNCHANGED,
            symlink_data: nfspath3(b"../elsewhere/f"),
        },
    };
    let link: FileHandle = ask::<SymLink, _>(client, &link, |got| match got {
        Res::Ok(made) => made.obj.unwrap().try_into().unwrap(),
        Res::Fail(status, _) => panic!("{status:?}"),
    });
    let symlink = link.as_fh();
    ask::<ReadLink, _>(client, &READLINK3args { symlink }, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert_eq!(got.data.0, b"../elsewhere/f");
    });
    let pipe = MKNOD3args {
        where_: at(root, b"p"),
        what: mknoddata3::FIFO(NEW),
    };
    ask::<MkNod, _>(client, &pipe, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert_eq!(got.obj_attributes.unwrap().type_, ftype3::NF3FIFO);
    });
    let file = MKNOD3args {
        where_: at(root, b"q"),
        what: mknoddata3::REG,
    };
    assert_eq!(
        ask::<MkNod, _>(client, &file, |got| status(&got)),
        nfsstat3::NFS3ERR_BADTYPE
    );
    local(folder, |folder| {
        let target = std::fs::read_link(folder.join("l")).unwrap();
        assert_eq!(target, Path::new("../elsewhere/f"));
        let pipe = std::fs::symlink_metadata(folder.join("p")).unwrap();
        assert!(pipe.file_type().is_fifo());
    });
}

fn lookup(mounted: &Export, dir: &FileHandle, name: &[u8]) -> Result<FileHandle, Status> {
    let what = at(dir, name);
    ask::<Lookup, _>(&mounted.client, &LOOKUP3args { what }, |got| match got {
        Res::Ok(found) => Ok(found.object.try_into().unwrap()),
        Res::Fail(status, _) => Err(status),
    })
}

/// LOOKUP, RENAME, LINK.
fn names(mounted: &Export, file: &FileHandle, folder: Option<&Path>) {
    let (client, root) = (&mounted.client, &mounted.root);
    assert_eq!(lookup(mounted, root, b"f"), Ok(*file));
    assert_eq!(
        lookup(mounted, root, b"nothing"),
        Err(nfsstat3::NFS3ERR_NOENT)
    );
    let long = [b'n'; 256];
    assert_eq!(
        lookup(mounted, root, &long[..255]),
        Err(nfsstat3::NFS3ERR_NOENT)
    );
    assert_eq!(
        lookup(mounted, root, &long),
        Err(nfsstat3::NFS3ERR_NAMETOOLONG)
    );
    assert_eq!(lookup(mounted, file, b"x"), Err(nfsstat3::NFS3ERR_NOTDIR));
    let directory = lookup(mounted, root, b"d").unwrap();
    assert_eq!(lookup(mounted, &directory, b".."), Ok(*root));
    let moved = RENAME3args {
        from: at(root, b"f"),
        to: at(&directory, b"g"),
    };
    assert_eq!(ask::<Rename, _>(client, &moved, |got| status(&got)), OK);
    assert_eq!(lookup(mounted, root, b"f"), Err(nfsstat3::NFS3ERR_NOENT));
    assert_eq!(lookup(mounted, &directory, b"g"), Ok(*file));
    let linked = LINK3args {
        file: file.as_fh(),
        link: at(root, b"h"),
    };
    ask::<Link, _>(client, &linked, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert_eq!(got.file_attributes.unwrap().nlink, 2);
    });
    local(folder, |folder| {
        let [one, other] =
            ["d/g", "h"].map(|name| std::fs::metadata(folder.join(name)).unwrap().ino());
        assert_eq!(one, other);
    });
}

/// READDIR in small pieces and READDIRPLUS: the same names, and the handles of LOOKUP.
fn listing(mounted: &Export) {
    let client = &mounted.client;
    let dir = mounted.root.as_fh();
    let (mut cookie, mut cookieverf, mut plain) = (0, [0; 8], BTreeMap::new());
    let mut pieces = 0;
    loop {
        let arguments = READDIR3args {
            dir,
            cookie,
            cookieverf,
            count: 200,
        };
        pieces += 1;
        let end = ask::<ReadDir, _>(client, &arguments, |got| {
            let Res::Ok(got) = got else { panic!("{got:?}") };
            cookieverf = got.cookieverf;
            for entry in got.entries.0.iter() {
                cookie = entry.cookie;
                assert!(plain.insert(entry.name.0.to_vec(), entry.fileid).is_none());
            }
            got.eof
        });
        if end {
            break;
        }
    }
    assert!(pieces > 1, "200 bytes hold a few entries only");
    let names: Vec<&[u8]> = plain.keys().map(Vec::as_slice).collect();
    let wanted: [&[u8]; 7] = [b".", b"..", b"d", b"h", b"l", b"once", b"p"];
    assert_eq!(names, wanted);
    let arguments = READDIRPLUS3args {
        dir,
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 4096,
        maxcount: 32_768,
    };
    let full = ask::<ReadDirPlus, _>(client, &arguments, |got| {
        let Res::Ok(got) = got else { panic!("{got:?}") };
        assert!(got.eof);
        let of = |entry: &entryplus3<'_>| {
            let handle: FileHandle = entry.name_handle.unwrap().try_into().unwrap();
            (entry.name.0.to_vec(), entry.fileid, handle)
        };
        got.entries.0.iter().map(of).collect::<Vec<_>>()
    });
    for (name, fileid, handle) in full {
        assert_eq!(plain.remove(&name), Some(fileid));
        if name != b".." {
            assert_eq!(lookup(mounted, &mounted.root, &name), Ok(handle));
        }
    }
    assert!(plain.is_empty());
}

fn removal(mounted: &Export, file: &FileHandle, folder: Option<&Path>) {
    let (client, root) = (&mounted.client, &mounted.root);
    let remove = |dir: &FileHandle, name: &[u8]| {
        let object = at(dir, name);
        ask::<Remove, _>(client, &REMOVE3args { object }, |got| status(&got))
    };
    let rmdir = |name: &[u8]| {
        let object = at(root, name);
        ask::<RmDir, _>(client, &RMDIR3args { object }, |got| status(&got))
    };
    let directory = lookup(mounted, root, b"d").unwrap();
    assert_eq!(rmdir(b"d"), nfsstat3::NFS3ERR_NOTEMPTY);
    assert_eq!(rmdir(b"h"), nfsstat3::NFS3ERR_NOTDIR);
    assert_eq!(remove(root, b"h"), OK);
    assert_eq!(remove(&directory, b"g"), OK);
    let object = file.as_fh();
    ask::<GetAttr, _>(client, &GETATTR3args { object }, |got| {
        assert_eq!(status(&got), nfsstat3::NFS3ERR_STALE);
    });
    assert_eq!(rmdir(b"d"), OK);
    for name in [&b"l"[..], b"once", b"p"] {
        assert_eq!(remove(root, name), OK);
    }
    assert_eq!(remove(root, b"p"), nfsstat3::NFS3ERR_NOENT);
    local(folder, |folder| {
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
    });
}

#[test]
fn the_mount_service_end_to_end() {
    let tree = Tree::memory(1 << 20);
    let service = service(Arc::from(tree.store));
    let server = start(
        &service,
        "127.0.0.1:0".parse().unwrap(),
        ServerOptions::default(),
    );
    let address = server.addresses()[0];
    for proto in ["tcp", "udp"] {
        let port = address.port();
        let text = format!("port={port},mountport={port},proto={proto}");
        let options = client::MountOptions::parse(&text).unwrap();
        let mut mounts = MountService::connect(address.ip(), &options).unwrap();
        let wrong = mounts.mnt("/other").unwrap_err();
        assert_eq!(wrong.errno(), rustix::io::Errno::NOENT);
        mounts.mnt("/export").unwrap();
        assert_eq!(
            mounts.exports().unwrap(),
            [("/export".to_owned(), Vec::new())]
        );
        let here = ("127.0.0.1".to_owned(), "/export".to_owned());
        assert_eq!(mounts.mounts().unwrap(), [here]);
        mounts.umnt("/export").unwrap();
        assert_eq!(mounts.mounts().unwrap(), []);
    }
}
