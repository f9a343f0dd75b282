//! Who may set which attributes, and what becomes of set-id bits: chown(2), chmod(2), truncate(2)
//! as Linux and its NFS server have them (`nfsd_sanitize_attrs`, `setattr_should_drop_sgid`,
//! `do_truncate`). The directory store, where the kernel answers, is the truth for the memory one.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::trees::{ADDRESS, Tree, stores};
use server::Caller;
use server::Handle;
use server::store::{DirectorySink, Entry, ListFrom, Payload};
use wire::nfs3::{createhow3, fattr3, nfsstat3, sattr3, set_time, stable_how};

const NEW: sattr3 = sattr3::UNCHANGED;

fn mode(tree: &Tree, object: &Handle) -> u32 {
    tree.store.getattr(object).unwrap().mode & 0o7777
}

/// The mode that an object of `owner` has, set up as root, after `who` set `new`.
fn mode_after(tree: &Tree, object: &Handle, before: u32, who: &Caller, new: &sattr3) -> u32 {
    tree.chmod(object, before);
    tree.store.setattr(who, object, new, None).unwrap();
    mode(tree, object)
}

fn set(tree: &Tree, who: &Caller, object: &Handle, new: &sattr3) -> nfsstat3 {
    let done = tree.store.setattr(who, object, new, None);
    done.err().map_or(nfsstat3::NFS3_OK, |(status, _)| status)
}

/// Those stores in which this process may act as several users.
fn with_users() -> impl Iterator<Item = (Tree, Caller)> {
    stores().into_iter().filter_map(|tree| {
        let user = tree.other_user;
        if user.is_none() {
            eprintln!("skipped for {}: needs root", tree.store.description().kind);
        }
        user.map(|user| (tree, user))
    })
}

#[test]
fn a_write_takes_set_ids_away_unless_it_is_roots() {
    for (tree, other) in with_users() {
        let member = other.with_groups(&[tree.root_user.gid]);
        for (mode, writer, wanted) in [
            (0o6777, &other, 0o777),
            (0o4755, &tree.root_user, 0o4755),
            // Without group execution the bit means mandatory locking: it stays, for the group.
            (0o2766, &other, 0o766),
            (0o2766, &member, 0o2766),
            (0o2777, &member, 0o777),
            (0o1666, &other, 0o1666),
        ] {
            let file = tree.file(b"f");
            tree.chmod(&file, mode);
            tree.store
                .write(writer, &file, 0, b"x", stable_how::UNSTABLE)
                .unwrap();
            let seen = tree.store.getattr(&file).unwrap().mode;
            assert_eq!(seen & 0o7777, wanted, "{mode:o}");
            let top = tree.store.root();
            tree.store.remove(&tree.root_user, (&top, b"f")).unwrap();
        }
    }
}

#[test]
fn a_change_of_size_takes_set_ids_away_unless_it_is_roots() {
    for (tree, user) in with_users() {
        let root = tree.root_user;
        for (size, before, who, wanted) in [
            (Some(3), 0o6777, &user, 0o777),
            (Some(9000), 0o6777, &user, 0o777),
            (Some(3), 0o6777, &root, 0o6777),
            (Some(3), 0o2766, &user, 0o766),
        ] {
            let file = tree.file(b"f");
            tree.write(&file, 0, &[1; 100]);
            let new = sattr3 { size, ..NEW };
            let seen = mode_after(&tree, &file, before, who, &new);
            assert_eq!(seen, wanted, "{before:o} by {}", who.uid);
            // The same by CREATE of what is there (open(2) with O_TRUNC).
            tree.chmod(&file, before);
            let how = createhow3::UNCHECKED(sattr3 {
                size: Some(0),
                ..NEW
            });
            let top = tree.store.root();
            let found = tree.store.create(who, (&top, b"f"), &how).unwrap().0;
            assert_eq!(found.attributes.mode & 0o7777, wanted);
            assert_eq!(mode(&tree, &file), wanted, "{before:o} by {}", who.uid);
            tree.store.remove(&root, (&top, b"f")).unwrap();
        }
    }
}

#[test]
fn a_change_of_owner_or_group_takes_set_ids_away_of_all_but_directories() {
    for (tree, user) in with_users() {
        let root = tree.root_user;
        let member = user.with_groups(&[77]);
        let give = |uid, gid| sattr3 { uid, gid, ..NEW };
        let own = give(Some(user.uid), Some(user.gid));
        for (before, who, new, wanted) in [
            (0o6755, &root, give(Some(5), None), 0o755),
            (0o6755, &root, give(None, Some(6)), 0o755),
            // To the same owner as well.
            (0o6755, &root, own, 0o755),
            (0o6755, &member, give(None, Some(77)), 0o755),
            (0o2745, &root, give(Some(5), None), 0o2745),
            // A mode that is set by the same call is no way round it.
            (
                0o755,
                &root,
                sattr3 {
                    mode: Some(0o6755),
                    ..own
                },
                0o755,
            ),
        ] {
            let file = tree.file(b"f");
            tree.store.setattr(&root, &file, &own, None).unwrap();
            let seen = mode_after(&tree, &file, before, who, &new);
            assert_eq!(seen, wanted, "{before:o} {new:?} by {}", who.uid);
            tree.store
                .remove(&root, (&tree.store.root(), b"f"))
                .unwrap();
        }
        let dir = tree.dir(b"d");
        let seen = mode_after(&tree, &dir, 0o6755, &root, &give(Some(5), Some(6)));
        assert_eq!(seen, 0o6755);
    }
}

#[test]
fn a_group_bit_of_a_group_that_is_not_the_owners_does_not_hold() {
    for (tree, user) in with_users() {
        let root = tree.root_user;
        let file = tree.file(b"f");
        let foreign = sattr3 {
            uid: Some(user.uid),
            gid: Some(4242),
            ..NEW
        };
        tree.store.setattr(&root, &file, &foreign, None).unwrap();
        let wanted = sattr3 {
            mode: Some(0o6755),
            ..NEW
        };
        assert_eq!(mode_after(&tree, &file, 0o644, &user, &wanted), 0o4755);
        let member = user.with_groups(&[4242]);
        assert_eq!(mode_after(&tree, &file, 0o644, &member, &wanted), 0o6755);
        assert_eq!(mode_after(&tree, &file, 0o644, &root, &wanted), 0o6755);
        // Nor that of a new file in a directory that hands its group down.
        let dir = tree.dir(b"d");
        let shared = sattr3 {
            gid: Some(4242),
            ..NEW
        };
        tree.store.setattr(&root, &dir, &shared, None).unwrap();
        tree.chmod(&dir, 0o2777);
        let how = createhow3::GUARDED(wanted);
        for (name, who, wanted) in [(b"a", &user, 0o4755), (b"b", &member, 0o6755)] {
            let made = tree.store.create(who, (&dir, name), &how).unwrap().0;
            assert_eq!(made.attributes.gid, 4242);
            assert_eq!(made.attributes.mode & 0o7777, wanted);
        }
    }
}

#[test]
fn who_may_set_what() {
    for (tree, user) in with_users() {
        let root = tree.root_user;
        let file = tree.file(b"f");
        tree.chmod(&file, 0o666);
        let seen = tree.store.getattr(&file).unwrap();
        let (perm, ok) = (nfsstat3::NFS3ERR_PERM, nfsstat3::NFS3_OK);
        let uid = |uid| sattr3 {
            uid: Some(uid),
            ..NEW
        };
        let gid = |gid| sattr3 {
            gid: Some(gid),
            ..NEW
        };
        // Not the owner: not even what is so already.
        assert_eq!(set(&tree, &user, &file, &uid(seen.uid)), perm);
        assert_eq!(set(&tree, &user, &file, &gid(seen.gid)), perm);
        assert_eq!(tree.store.getattr(&file).unwrap().ctime, seen.ctime);
        assert_eq!(set(&tree, &root, &file, &uid(user.uid)), ok);
        assert_eq!(set(&tree, &user, &file, &uid(user.uid)), ok);
        assert_eq!(set(&tree, &user, &file, &uid(9)), perm);
        // The group as it is; one that the owner is not in.
        assert_eq!(set(&tree, &user, &file, &gid(seen.gid)), ok);
        assert_eq!(set(&tree, &user, &file, &gid(9)), perm);
        // An id that nobody can have, and a time of which there is none.
        let invalid = nfsstat3::NFS3ERR_INVAL;
        assert_eq!(set(&tree, &root, &file, &uid(u32::MAX)), invalid);
        assert_eq!(set(&tree, &root, &file, &gid(u32::MAX)), invalid);
        for nseconds in [
            1_000_000_000,
            libc::UTIME_NOW as u32,
            libc::UTIME_OMIT as u32,
        ] {
            let time = wire::nfs3::nfstime3 {
                seconds: 1,
                nseconds,
            };
            let mtime = set_time::SET_TO_CLIENT_TIME(time);
            assert_eq!(set(&tree, &root, &file, &sattr3 { mtime, ..NEW }), invalid);
        }
        let seen = tree.store.getattr(&file).unwrap();
        assert_eq!((seen.uid, seen.gid), (user.uid, root.gid));
    }
}

#[test]
fn a_name_that_is_there_needs_no_right_to_make_names() {
    for (tree, user) in with_users() {
        let dir = tree.dir(b"d");
        let file = tree.file_in(&dir, b"f");
        tree.chmod(&file, 0o666);
        let how = |size| createhow3::UNCHECKED(sattr3 { size, ..NEW });
        for size in [None, Some(0)] {
            let found = tree
                .store
                .create(&user, (&dir, b"f"), &how(size))
                .unwrap()
                .0;
            assert_eq!(found.handle, file);
        }
        let refused = tree.store.create(&user, (&dir, b"g"), &how(None));
        assert_eq!(refused.unwrap_err().0, nfsstat3::NFS3ERR_ACCES);
    }
}

#[test]
fn a_directory_moves_to_another_one_only_by_who_may_write_to_it() {
    for (tree, user) in with_users() {
        let (root, top) = (tree.root_user, tree.store.root());
        let (from, to) = (tree.dir(b"from"), tree.dir(b"to"));
        tree.chmod(&from, 0o777);
        tree.chmod(&to, 0o777);
        let made = tree
            .store
            .mkdir(&root, (&from, b"d"), &NEW)
            .unwrap()
            .0
            .handle;
        tree.chmod(&made, 0o755);
        let rename =
            |name: &[u8], to: &Handle| tree.store.rename(&user, (&from, name), (to, b"e")).0;
        assert_eq!(rename(b"d", &to), nfsstat3::NFS3ERR_ACCES);
        // Its own name may change: its `..` does not.
        assert_eq!(rename(b"d", &from), nfsstat3::NFS3_OK);
        tree.chmod(&made, 0o757);
        assert_eq!(rename(b"e", &to), nfsstat3::NFS3_OK);
        assert_eq!(
            tree.store.lookup(&root, (&made, b"..")).unwrap().0.handle,
            to
        );
        assert_eq!(tree.store.getattr(&top).unwrap().nlink, 4);
    }
}

struct Objects(Vec<(Vec<u8>, bool)>);
impl DirectorySink for Objects {
    fn begin(&mut self, _: Option<fattr3>, _: [u8; 8]) {}
    fn entry(&mut self, entry: &Entry<'_>) -> bool {
        self.0.push((entry.name.to_vec(), entry.found.is_some()));
        true
    }
}

#[test]
fn names_may_be_read_without_search_permission_but_not_what_they_name() {
    for (tree, user) in with_users() {
        let dir = tree.dir(b"d");
        for name in [&b"a"[..], b"b", b"c"] {
            tree.file_in(&dir, name);
        }
        for (mode, shown) in [(0o744, false), (0o755, true)] {
            tree.chmod(&dir, mode);
            let from = ListFrom {
                cookie: 0,
                verifier: [0; 8],
                with_objects: true,
            };
            let mut seen = Objects(Vec::new());
            tree.store.list(&user, &dir, from, &mut seen).unwrap();
            assert_eq!(seen.0.len(), 5);
            let inside = seen.0.iter().filter(|(name, _)| !name.starts_with(b"."));
            assert!(
                inside.clone().all(|(_, found)| *found == shown),
                "{:?}",
                seen.0
            );
        }
    }
}

/// An access control list in which the group's own entry says less than the mode, which shows the
/// list's mask (acl(5)): who is in the group may not write, whatever way it tries.
#[test]
fn an_access_control_list_counts_for_truncation_too() {
    for (tree, user) in with_users() {
        let Some(folder) = &tree.folder else {
            continue;
        };
        let file = tree.file(b"f");
        let owned = sattr3 {
            gid: Some(user.gid),
            ..NEW
        };
        tree.store
            .setattr(&tree.root_user, &file, &owned, None)
            .unwrap();
        let nobody = u32::MAX;
        let entries = [
            (1, 6, nobody),
            (4, 4, nobody),
            (0x10, 6, nobody),
            (0x20, 0, nobody),
        ];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            list.extend([tag, 0, rights, 0]);
            list.extend(id.to_le_bytes());
        }
        let path = folder.path().join("f");
        let none = rustix::fs::XattrFlags::empty();
        if let Err(error) = rustix::fs::setxattr(path, "system.posix_acl_access", &list, none) {
            eprintln!("skipped: no access control lists here ({error})");
            return;
        }
        assert_eq!(mode(&tree, &file), 0o660, "the mask is what the mode shows");
        let (store, stable) = (&tree.store, stable_how::UNSTABLE);
        let written = store.write(&user, &file, 0, b"x", stable);
        assert_eq!(written.unwrap_err().0, nfsstat3::NFS3ERR_ACCES);
        let cut = sattr3 {
            size: Some(0),
            ..NEW
        };
        assert_eq!(set(&tree, &user, &file, &cut), nfsstat3::NFS3ERR_ACCES);
    }
}

/// What a server without root has to do by itself; under root this very test runs once more as
/// another user.
#[test]
fn an_ordinary_users_server() {
    if rustix::process::geteuid().is_root() {
        let (nobody, test) = (65534, std::env::current_exe().unwrap());
        let mut run = Command::new(&test);
        run.args(["--exact", "owners_and_modes::an_ordinary_users_server"])
            .env("TMPDIR", "/tmp")
            .current_dir("/")
            .uid(nobody)
            .gid(nobody);
        match crate::process::output(&mut run) {
            Ok(run) => {
                let said = String::from_utf8_lossy(&run.stdout);
                assert!(run.status.success() && said.contains("1 passed"), "{said}");
            }
            Err(error) => eprintln!("skipped: another user cannot run this test ({error})"),
        }
        return;
    }
    for tree in [Tree::directory(false), Tree::unsettled(false)] {
        writes_what_it_made_whatever_the_mode(&tree);
        asks_for_the_right_to_make_names_only_if_it_makes_one(&tree);
        says_what_a_mode_refuses(&tree);
        gives_a_new_directory_the_groups_bit(&tree);
    }
}

fn writes_what_it_made_whatever_the_mode(tree: &Tree) {
    let (user, top) = (&tree.root_user, tree.store.root());
    for mode in [0o444, 0o400, 0o200, 0] {
        let how = createhow3::GUARDED(sattr3 {
            mode: Some(mode),
            ..NEW
        });
        let name = format!("{mode:o}").into_bytes();
        let file = tree
            .store
            .create(user, (&top, &name), &how)
            .unwrap()
            .0
            .handle;
        let store = &tree.store;
        let stable = stable_how::FILE_SYNC;
        store.write(user, &file, 0, b"data", stable).unwrap();
        store.commit(user, &file, 0, 0).unwrap();
        let mut payload = Payload::new();
        store.read(user, &file, 0, 10, &mut payload).unwrap();
        assert_eq!(payload.to_vec(), b"data", "{mode:o}");
    }
    let exclusive = createhow3::EXCLUSIVE(*b"verifier");
    let made = tree.store.create(user, (&top, b"x"), &exclusive).unwrap().0;
    let again = tree.store.create(user, (&top, b"x"), &exclusive).unwrap().0;
    assert_eq!(made.handle, again.handle);
    let stable = stable_how::UNSTABLE;
    let written = tree.store.write(user, &made.handle, 0, b"x", stable);
    written.unwrap();
}

fn asks_for_the_right_to_make_names_only_if_it_makes_one(tree: &Tree) {
    let (user, top) = (&tree.root_user, tree.store.root());
    // A directory that takes no new name still has those that are there.
    let dir = tree.dir(b"d");
    let file = tree.file_in(&dir, b"f");
    tree.chmod(&dir, 0o555);
    let how = createhow3::UNCHECKED(NEW);
    let found = tree.store.create(user, (&dir, b"f"), &how).unwrap().0;
    assert_eq!(found.handle, file);
    let refused = tree.store.create(user, (&dir, b"g"), &how).unwrap_err().0;
    assert_eq!(refused, nfsstat3::NFS3ERR_ACCES);
    tree.chmod(&dir, 0o755);
    // Closed and opened again: both ways.
    tree.chmod(&file, 0);
    tree.chmod(&file, 0o600);
    tree.write(&file, 0, b"x");
    tree.store.remove(user, (&dir, b"f")).unwrap();
    tree.store.rmdir(user, (&top, b"d")).unwrap();
}

/// A file that was not made here and is closed to its owner: no input/output error.
fn says_what_a_mode_refuses(tree: &Tree) {
    let path = tree.folder.as_ref().unwrap().path().join("closed");
    std::fs::write(&path, b"closed").unwrap();
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    let user = Caller::with_ids(ADDRESS, tree.root_user.uid, tree.root_user.gid);
    let top = tree.store.root();
    let file = tree
        .store
        .lookup(&user, (&top, b"closed"))
        .unwrap()
        .0
        .handle;
    let stable = stable_how::UNSTABLE;
    let refused = tree.store.write(&user, &file, 0, b"x", stable);
    assert_eq!(refused.unwrap_err().0, nfsstat3::NFS3ERR_ACCES);
    let mut payload = Payload::new();
    tree.store.read(&user, &file, 0, 10, &mut payload).unwrap();
    assert_eq!(payload.to_vec(), b"closed");
}

/// RFC 1813 3.3.8: the mode of the call, whatever the server's umask and however the file is made.
#[test]
fn a_new_file_has_the_mode_and_owner_that_were_asked_for() {
    for (tree, user) in with_users() {
        let (root, top) = (tree.root_user, tree.store.root());
        tree.chmod(&top, 0o777);
        for (asked, wanted) in [
            (None, 0o644),
            (Some(0), 0),
            (Some(0o444), 0o444),
            // Beyond any usual umask, and beyond what open(2) is given.
            (Some(0o666), 0o666),
            (Some(0o4711), 0o4711),
        ] {
            let new = sattr3 {
                mode: asked,
                size: Some(0),
                ..NEW
            };
            let given = sattr3 {
                uid: Some(user.uid),
                ..new
            };
            // Who gives a file away takes its set-user-id bit (chown(2)).
            let cases = [
                (&root, &new, wanted, root.uid),
                (&user, &new, wanted, user.uid),
                (&root, &given, wanted & 0o777, user.uid),
            ];
            for (who, new, wanted, owner) in cases {
                for how in [createhow3::UNCHECKED(*new), createhow3::GUARDED(*new)] {
                    let made = tree.store.create(who, (&top, b"new"), &how).unwrap().0;
                    let kind = tree.store.description().kind;
                    let seen = (made.attributes.mode, made.attributes.uid);
                    assert_eq!(seen, (wanted, owner), "{asked:?} by {} on {kind}", who.uid);
                    assert_eq!(mode(&tree, &made.handle), wanted);
                    tree.store.remove(&root, (&top, b"new")).unwrap();
                }
            }
        }
    }
}

/// mkdir(2): a new directory has S_ISGID and the group of the one it is made in, also where its
/// maker is not in that group and could not set the bit itself.
#[test]
fn a_directory_made_in_a_set_group_id_directory_is_one_too() {
    for (tree, user) in with_users() {
        let root = tree.root_user;
        let shared = tree.dir(b"shared");
        let new = sattr3 {
            gid: Some(4242),
            mode: Some(0o2777),
            ..NEW
        };
        tree.store.setattr(&root, &shared, &new, None).unwrap();
        for (name, who, asked, wanted) in [
            (b"a", &user, Some(0o755), 0o2755),
            (b"b", &user, Some(0o700), 0o2700),
            // Beyond any usual umask: the mode is set once more after the making.
            (b"c", &user, Some(0o777), 0o2777),
            (b"d", &root, Some(0o1770), 0o3770),
            (b"e", &user.with_groups(&[4242]), Some(0o2750), 0o2750),
        ] {
            let new = sattr3 { mode: asked, ..NEW };
            let made = tree.store.mkdir(who, (&shared, name), &new).unwrap().0;
            let kind = tree.store.description().kind;
            let seen = (made.attributes.mode, made.attributes.gid);
            assert_eq!(seen, (wanted, 4242), "{asked:?} by {} on {kind}", who.uid);
            assert_eq!(mode(&tree, &made.handle), wanted);
            // A file in it has the group and no bit.
            let how = createhow3::GUARDED(NEW);
            let file = tree
                .store
                .create(who, (&made.handle, b"f"), &how)
                .unwrap()
                .0;
            assert_eq!((file.attributes.mode, file.attributes.gid), (0o644, 4242));
        }
        // Elsewhere none is given.
        let new = sattr3 {
            mode: Some(0o755),
            ..NEW
        };
        let plain = tree
            .store
            .mkdir(&root, (&tree.store.root(), b"plain"), &new);
        assert_eq!(plain.unwrap().0.attributes.mode, 0o755);
    }
}

fn gives_a_new_directory_the_groups_bit(tree: &Tree) {
    let folder = tree.folder.as_ref().unwrap().path();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o2755);
    std::fs::set_permissions(folder, mode).unwrap();
    for (name, mode, wanted) in [(b"d", 0o755, 0o2755), (b"e", 0o777, 0o2777)] {
        let new = sattr3 {
            mode: Some(mode),
            ..NEW
        };
        let (user, top) = (&tree.root_user, tree.store.root());
        let made = tree.store.mkdir(user, (&top, name), &new).unwrap().0;
        assert_eq!(made.attributes.mode, wanted);
    }
}
