//! What every store with contents keeps to, whatever it lies on: RFC 1813 and POSIX, step by step.

use crate::trees::{Tree, stores};
use server::store::{DirectorySink, Entry, ListFrom, Payload, Store};
use server::{Caller, Handle};
use wire::nfs3::{createhow3, fattr3, nfsstat3, sattr3, set_time, stable_how};

type Names = Vec<(String, u64)>;

#[derive(Default)]
struct Collect {
    names: Names,
    room: usize,
    verifier: [u8; 8],
    with_attributes: usize,
}
impl DirectorySink for Collect {
    fn begin(&mut self, attributes: Option<fattr3>, verifier: [u8; 8]) {
        assert!(attributes.is_some());
        self.verifier = verifier;
    }
    fn entry(&mut self, entry: &Entry<'_>) -> bool {
        if self.names.len() == self.room {
            return false;
        }
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        self.with_attributes += usize::from(entry.found.is_some());
        self.names.push((name, entry.cookie));
        true
    }
}

fn page(tree: &Tree, dir: &Handle, cookie: u64, verifier: [u8; 8], room: usize) -> (Collect, bool) {
    let mut sink = Collect {
        room,
        ..Collect::default()
    };
    let from = ListFrom {
        cookie,
        verifier,
        with_objects: true,
    };
    let end = tree
        .store
        .list(&tree.root_user, dir, from, &mut sink)
        .unwrap();
    (sink, end)
}

fn read_all(store: &dyn Store, caller: &Caller, file: &Handle) -> Vec<u8> {
    let mut payload = Payload::new();
    let (done, attributes) = store.read(caller, file, 0, 1 << 20, &mut payload).unwrap();
    assert_eq!(done.count as usize, payload.len());
    assert_eq!(attributes.unwrap().size, payload.len() as u64);
    assert!(done.eof);
    payload.to_vec()
}

const GONE: nfsstat3 = nfsstat3::NFS3ERR_STALE;

#[test]
fn data_comes_back_with_wcc_around_it() {
    for tree in stores() {
        let file = tree.file(b"f");
        let before = tree.store.getattr(&file).unwrap();
        let caller = &tree.root_user;
        for (offset, stable) in [
            (0, stable_how::UNSTABLE),
            (5000, stable_how::DATA_SYNC),
            (9000, stable_how::FILE_SYNC),
        ] {
            let (done, wcc) = tree
                .store
                .write(caller, &file, offset, &[7; 3000], stable)
                .unwrap();
            assert_eq!(done.count, 3000);
            assert!(done.committed >= stable);
            let after = wcc.after.unwrap();
            assert_eq!(after.size, offset + 3000);
            assert_eq!(after, tree.store.getattr(&file).unwrap());
            if offset == 0 {
                let seen = wcc.before.unwrap();
                assert_eq!(
                    (seen.size, seen.mtime, seen.ctime),
                    (0, before.mtime, before.ctime)
                );
            }
        }
        let mut wanted = vec![0; 12_000];
        wanted[..3000].fill(7);
        wanted[5000..8000].fill(7);
        wanted[9000..].fill(7);
        assert_eq!(read_all(&*tree.store, caller, &file), wanted);
        let mut payload = Payload::new();
        let (done, _) = tree
            .store
            .read(caller, &file, 11_999, 4096, &mut payload)
            .unwrap();
        assert_eq!((done.count, done.eof), (1, true));
        let (verifier, _) = tree.store.commit(caller, &file, 0, 0).unwrap();
        let (again, _) = tree.store.commit(caller, &file, 0, 0).unwrap();
        assert_eq!(verifier, again);
    }
}

#[test]
fn truncation_shows_zeros_when_the_file_grows_again() {
    for tree in stores() {
        let file = tree.file(b"f");
        let caller = &tree.root_user;
        tree.write(&file, 0, &[9; 6000]);
        for size in [100, 6000] {
            let new = sattr3 {
                size: Some(size),
                ..sattr3::UNCHANGED
            };
            let ((), wcc) = tree.store.setattr(caller, &file, &new, None).unwrap();
            assert_eq!(wcc.after.unwrap().size, size);
        }
        let mut wanted = vec![0; 6000];
        wanted[..100].fill(9);
        assert_eq!(read_all(&*tree.store, caller, &file), wanted);
    }
}

#[test]
fn setattr_obeys_its_guard_and_sets_times() {
    for tree in stores() {
        let file = tree.file(b"f");
        let caller = &tree.root_user;
        let seen = tree.store.getattr(&file).unwrap();
        let mut other = seen.ctime;
        other.seconds ^= 1;
        let new = sattr3 {
            mode: Some(0o640),
            mtime: set_time::SET_TO_CLIENT_TIME(wire::nfs3::nfstime3 {
                seconds: 1_000_000_000,
                nseconds: 7,
            }),
            ..sattr3::UNCHANGED
        };
        let refused = tree.store.setattr(caller, &file, &new, Some(other));
        assert_eq!(refused.unwrap_err().0, nfsstat3::NFS3ERR_NOT_SYNC);
        tree.store
            .setattr(caller, &file, &new, Some(seen.ctime))
            .unwrap();
        let after = tree.store.getattr(&file).unwrap();
        assert_eq!(after.mode & 0o7777, 0o640);
        assert_eq!(
            (after.mtime.seconds, after.mtime.nseconds),
            (1_000_000_000, 7)
        );
    }
}

#[test]
fn create_guarded_unchecked_exclusive() {
    for tree in stores() {
        let (root, caller) = (tree.store.root(), &tree.root_user);
        let create = |name: &[u8], how| tree.store.create(caller, (&root, name), &how);
        let guarded = createhow3::GUARDED(sattr3::UNCHANGED);
        let (made, wcc) = create(b"a", guarded).unwrap();
        assert_ne!(wcc.before.unwrap().mtime, wcc.after.unwrap().mtime);
        assert_eq!(
            create(b"a", guarded).unwrap_err().0,
            nfsstat3::NFS3ERR_EXIST
        );
        tree.write(&made.handle, 0, b"kept");
        let unchecked = createhow3::UNCHECKED(sattr3::UNCHANGED);
        assert_eq!(create(b"a", unchecked).unwrap().0.attributes.size, 4);
        let cut = sattr3 {
            size: Some(0),
            ..sattr3::UNCHANGED
        };
        let found = create(b"a", createhow3::UNCHECKED(cut)).unwrap().0;
        assert_eq!((found.attributes.size, found.handle), (0, made.handle));
        // The same verifier is the same CREATE sent twice; another is another client's.
        let first = create(b"x", createhow3::EXCLUSIVE(*b"verifier")).unwrap().0;
        let again = create(b"x", createhow3::EXCLUSIVE(*b"verifier")).unwrap().0;
        assert_eq!(first.handle, again.handle);
        let other = create(b"x", createhow3::EXCLUSIVE(*b"otherone"));
        assert_eq!(other.unwrap_err().0, nfsstat3::NFS3ERR_EXIST);
        assert_eq!(
            create(b"a", createhow3::EXCLUSIVE(*b"verifier"))
                .unwrap_err()
                .0,
            nfsstat3::NFS3ERR_EXIST
        );
    }
}

#[test]
fn removed_objects_are_stale_and_stay_so() {
    for tree in stores() {
        let (root, caller) = (tree.store.root(), &tree.root_user);
        let file = tree.file(b"f");
        tree.store.remove(caller, (&root, b"f")).unwrap();
        assert_eq!(tree.store.getattr(&file), Err(GONE));
        for round in 0..20 {
            // The number may be used again; the old handle must not find the new object.
            tree.file(format!("n{round}").as_bytes());
            assert_eq!(tree.store.getattr(&file), Err(GONE));
        }
        let mut payload = Payload::new();
        let read = tree.store.read(caller, &file, 0, 10, &mut payload);
        assert_eq!(read.unwrap_err().0, GONE);
        let write = tree
            .store
            .write(caller, &file, 0, b"x", stable_how::UNSTABLE);
        assert_eq!(write.unwrap_err().0, GONE);
        assert_eq!(tree.store.commit(caller, &file, 0, 0).unwrap_err().0, GONE);
        let dir = tree.dir(b"d");
        tree.store.rmdir(caller, (&root, b"d")).unwrap();
        let lookup = tree.store.lookup(caller, (&dir, b"x"));
        assert_eq!(lookup.unwrap_err().0, GONE);
        let create = tree.store.create(
            caller,
            (&dir, b"x"),
            &createhow3::UNCHECKED(sattr3::UNCHANGED),
        );
        assert!([GONE, nfsstat3::NFS3ERR_NOENT].contains(&create.unwrap_err().0));
    }
}

#[test]
fn hard_links_keep_the_object() {
    for tree in stores() {
        let (root, caller) = (tree.store.root(), &tree.root_user);
        let file = tree.file(b"f");
        tree.write(&file, 0, b"data");
        let (status, wcc) = tree.store.link(caller, &file, (&root, b"g"));
        assert_eq!(status, nfsstat3::NFS3_OK);
        assert_eq!(wcc.file_attributes.unwrap().nlink, 2);
        let (status, _) = tree.store.link(caller, &file, (&root, b"g"));
        assert_eq!(status, nfsstat3::NFS3ERR_EXIST);
        tree.store.remove(caller, (&root, b"f")).unwrap();
        assert_eq!(read_all(&*tree.store, caller, &file), b"data");
        assert_eq!(tree.store.getattr(&file).unwrap().nlink, 1);
        let (found, _) = tree.store.lookup(caller, (&root, b"g")).unwrap();
        assert_eq!(found.handle, file);
        tree.store.remove(caller, (&root, b"g")).unwrap();
        assert_eq!(tree.store.getattr(&file), Err(GONE));
    }
}

#[test]
fn rename_as_posix_has_it() {
    for tree in stores() {
        let (root, caller) = (tree.store.root(), &tree.root_user);
        let (a, b) = (tree.dir(b"a"), tree.dir(b"b"));
        let file = tree.file_in(&a, b"f");
        let other = tree.file_in(&b, b"g");
        let rename =
            |from: (&Handle, &[u8]), to: (&Handle, &[u8])| tree.store.rename(caller, from, to).0;
        assert_eq!(rename((&a, b"none"), (&b, b"x")), nfsstat3::NFS3ERR_NOENT);
        assert_eq!(rename((&a, b"f"), (&b, b"g")), nfsstat3::NFS3_OK);
        assert_eq!(tree.store.getattr(&other), Err(GONE));
        assert_eq!(
            tree.store.lookup(caller, (&b, b"g")).unwrap().0.handle,
            file
        );
        assert_eq!(rename((&root, b"a"), (&b, b"a")), nfsstat3::NFS3_OK);
        assert_eq!(tree.store.lookup(caller, (&a, b"..")).unwrap().0.handle, b);
        // b holds a: b cannot go below itself, nor be replaced by an empty directory.
        assert_eq!(rename((&root, b"b"), (&a, b"b")), nfsstat3::NFS3ERR_INVAL);
        tree.dir(b"c");
        assert_eq!(
            rename((&root, b"c"), (&root, b"b")),
            nfsstat3::NFS3ERR_NOTEMPTY
        );
        assert_eq!(rename((&b, b"g"), (&root, b"c")), nfsstat3::NFS3ERR_ISDIR);
        assert_eq!(rename((&root, b"c"), (&b, b"g")), nfsstat3::NFS3ERR_NOTDIR);
        assert_eq!(rename((&root, b"c"), (&b, b"a")), nfsstat3::NFS3_OK);
        assert_eq!(tree.store.getattr(&a), Err(GONE));
        assert_eq!(tree.store.getattr(&b).unwrap().nlink, 3);
        tree.store.link(caller, &file, (&root, b"same"));
        assert_eq!(rename((&root, b"same"), (&b, b"g")), nfsstat3::NFS3_OK);
        assert_eq!(tree.store.getattr(&file).unwrap().nlink, 2);
    }
}

#[test]
fn errors_of_names() {
    for tree in stores() {
        let (root, caller) = (tree.store.root(), &tree.root_user);
        let file = tree.file(b"f");
        let dir = tree.dir(b"d");
        tree.file_in(&dir, b"inside");
        let status = |result: Result<_, (nfsstat3, _)>| result.map(|((), _)| ()).unwrap_err().0;
        assert_eq!(
            status(tree.store.remove(caller, (&root, b"d"))),
            nfsstat3::NFS3ERR_ISDIR
        );
        assert_eq!(
            status(tree.store.rmdir(caller, (&root, b"f"))),
            nfsstat3::NFS3ERR_NOTDIR
        );
        assert_eq!(
            status(tree.store.rmdir(caller, (&root, b"d"))),
            nfsstat3::NFS3ERR_NOTEMPTY
        );
        assert_eq!(
            status(tree.store.rmdir(caller, (&root, b"no"))),
            nfsstat3::NFS3ERR_NOENT
        );
        let lookup = tree.store.lookup(caller, (&file, b"x"));
        assert_eq!(lookup.unwrap_err().0, nfsstat3::NFS3ERR_NOTDIR);
        let lookup = tree.store.lookup(caller, (&root, b"x"));
        assert_eq!(lookup.unwrap_err().0, nfsstat3::NFS3ERR_NOENT);
        let mut payload = Payload::new();
        let read = tree.store.read(caller, &dir, 0, 10, &mut payload);
        assert_eq!(read.unwrap_err().0, nfsstat3::NFS3ERR_ISDIR);
        // The root has no directory above.
        let (found, _) = tree.store.lookup(caller, (&root, b"..")).unwrap();
        assert_eq!(found.handle, root);
    }
}

#[test]
fn symbolic_links_are_text_and_nothing_else() {
    for tree in stores() {
        let (root, caller) = (tree.store.root(), &tree.root_user);
        let text = b"/etc/passwd";
        let (link, _) = tree
            .store
            .symlink(caller, (&root, b"l"), &sattr3::UNCHANGED, text)
            .unwrap();
        assert_eq!(link.attributes.type_, wire::nfs3::ftype3::NF3LNK);
        let mut read = Vec::new();
        tree.store
            .readlink(caller, &link.handle, &mut read)
            .unwrap();
        assert_eq!(read, text);
        let (found, _) = tree.store.lookup(caller, (&root, b"l")).unwrap();
        assert_eq!(found.handle, link.handle);
        let mut payload = Payload::new();
        let read = tree.store.read(caller, &link.handle, 0, 10, &mut payload);
        assert!(read.is_err() && payload.is_empty());
        let through = tree.store.lookup(caller, (&link.handle, b"x"));
        assert_eq!(through.unwrap_err().0, nfsstat3::NFS3ERR_NOTDIR);
        let wrong = tree.store.readlink(caller, &root, &mut Vec::new());
        assert_eq!(wrong.unwrap_err().0, nfsstat3::NFS3ERR_INVAL);
    }
}

#[test]
fn cookies_stay_valid_while_names_come_and_go() {
    for tree in stores() {
        let (root, caller) = (tree.store.root(), &tree.root_user);
        let stays: Vec<String> = (0..60).map(|i| format!("stays{i}")).collect();
        for name in &stays {
            tree.file(name.as_bytes());
        }
        for i in 0..30 {
            tree.file(format!("goes{i}").as_bytes());
        }
        let (mut names, mut cookie, mut verifier, mut round) = (Vec::new(), 0, [0; 8], 0);
        loop {
            let (seen, end) = page(&tree, &root, cookie, verifier, 7);
            assert_eq!(seen.with_attributes, seen.names.len());
            verifier = seen.verifier;
            cookie = seen.names.last().map_or(cookie, |(_, cookie)| *cookie);
            names.extend(seen.names.into_iter().map(|(name, _)| name));
            if end {
                break;
            }
            let _ = tree
                .store
                .remove(caller, (&root, format!("goes{round}").as_bytes()));
            tree.file(format!("comes{round}").as_bytes());
            round += 1;
            assert!(round < 200, "the listing does not end");
        }
        for name in stays.iter().map(String::as_str).chain([".", ".."]) {
            let seen = names.iter().filter(|seen| *seen == name).count();
            assert_eq!(seen, 1, "{name} in {}", tree.store.description().kind);
        }
    }
}

#[test]
fn permissions_of_other_users() {
    for tree in stores() {
        let Some(user) = tree.other_user else {
            eprintln!("skipped for {}: needs root", tree.store.description().kind);
            continue;
        };
        let (root, admin) = (tree.store.root(), &tree.root_user);
        let file = tree.file(b"secret");
        tree.chmod(&file, 0o600);
        let mut payload = Payload::new();
        let read = tree.store.read(&user, &file, 0, 10, &mut payload);
        assert_eq!(read.unwrap_err().0, nfsstat3::NFS3ERR_ACCES);
        let write = tree
            .store
            .write(&user, &file, 0, b"x", stable_how::UNSTABLE);
        assert_eq!(write.unwrap_err().0, nfsstat3::NFS3ERR_ACCES);
        assert_eq!(tree.store.access(&user, &file, 0x3f).unwrap().0, 0);
        assert_eq!(tree.store.access(admin, &file, 0x3f).unwrap().0, 0x0d);
        let dir = tree.dir(b"closed");
        tree.chmod(&dir, 0o755);
        let how = createhow3::UNCHECKED(sattr3::UNCHANGED);
        let create = tree.store.create(&user, (&dir, b"x"), &how);
        assert_eq!(create.unwrap_err().0, nfsstat3::NFS3ERR_ACCES);
        let chmod = sattr3 {
            mode: Some(0o777),
            ..sattr3::UNCHANGED
        };
        let set = tree.store.setattr(&user, &file, &chmod, None);
        assert_eq!(set.unwrap_err().0, nfsstat3::NFS3ERR_PERM);
        tree.chmod(&root, 0o777);
        let (own, _) = tree.store.create(&user, (&root, b"own"), &how).unwrap();
        assert_eq!(own.attributes.uid, user.uid);
        assert_eq!(own.attributes.gid, user.gid);
        // The owner goes on reading and writing a file whose mode says no.
        tree.store
            .setattr(
                &user,
                &own.handle,
                &sattr3 {
                    mode: Some(0),
                    ..chmod
                },
                None,
            )
            .unwrap();
        tree.store
            .write(&user, &own.handle, 0, b"x", stable_how::UNSTABLE)
            .unwrap();
        let mut payload = Payload::new();
        tree.store
            .read(&user, &own.handle, 0, 1, &mut payload)
            .unwrap();
        // Groups count: a directory of group 4242 with mode 0770.
        let shared = tree.dir(b"shared");
        let group = sattr3 {
            mode: Some(0o770),
            gid: Some(4242),
            ..sattr3::UNCHANGED
        };
        tree.store.setattr(admin, &shared, &group, None).unwrap();
        assert!(tree.store.create(&user, (&shared, b"x"), &how).is_err());
        let member = user.with_groups(&[1, 4242]);
        tree.store.create(&member, (&shared, b"x"), &how).unwrap();
        // Sticky directories: only one's own may go.
        let sticky = tree.dir(b"sticky");
        tree.chmod(&sticky, 0o1777);
        tree.file_in(&sticky, b"roots");
        let gone = tree.store.remove(&user, (&sticky, b"roots"));
        let refused = [nfsstat3::NFS3ERR_ACCES, nfsstat3::NFS3ERR_PERM];
        assert!(refused.contains(&gone.unwrap_err().0));
    }
}

#[test]
fn ids_that_no_user_has_are_refused() {
    for tree in stores() {
        let Some(user) = tree.other_user else {
            continue;
        };
        if tree.folder.is_none() {
            continue;
        }
        // -1 means "leave as it is" to the kernel: it must not become the server's own id.
        let root = tree.store.root();
        tree.chmod(&root, 0o777);
        let how = createhow3::UNCHECKED(sattr3::UNCHANGED);
        let no_user = Caller::with_ids(user.address, u32::MAX, 5);
        let no_group = Caller::with_ids(user.address, 5, u32::MAX);
        for caller in [no_user, no_group] {
            let store = &tree.store;
            let refused = std::thread::scope(|scope| {
                // A thread that has not acted as anyone yet.
                let fresh = scope.spawn(|| store.create(&caller, (&root, b"x"), &how).is_err());
                fresh.join().unwrap()
            });
            assert!(refused);
            assert!(store.lookup(&tree.root_user, (&root, b"x")).is_err());
        }
    }
}
