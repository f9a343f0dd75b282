//! The memory store's size limit: reached exactly, and given back.

use crate::trees::Tree;
use wire::nfs3::{createhow3, nfsstat3, sattr3, stable_how};

const FULL: nfsstat3 = nfsstat3::NFS3ERR_NOSPC;

#[test]
fn data_fills_it_and_removal_frees_it() {
    let limit = 1 << 20;
    let tree = Tree::memory(limit);
    let (root, user) = (tree.store.root(), &tree.root_user);
    let before = tree.store.fsstat(&root).unwrap().fbytes;
    let file = tree.file(b"f");
    let mut written = 0u64;
    let refused = loop {
        let write = tree
            .store
            .write(user, &file, written, &[1; 4096], stable_how::UNSTABLE);
        match write {
            Ok(_) => written += 4096,
            Err((status, wcc)) => {
                assert_eq!(wcc.after.unwrap().size, written);
                break status;
            }
        }
    };
    assert_eq!(refused, FULL);
    // All but one page, the inodes and the name is data.
    assert!(written + 4 * 4096 >= limit && written < limit, "{written}");
    // What is there can be written again, and a hole costs nothing.
    tree.write(&file, 0, &[2; 4096]);
    let grow = sattr3 {
        size: Some(1 << 40),
        ..sattr3::UNCHANGED
    };
    tree.store.setattr(user, &file, &grow, None).unwrap();
    tree.store.remove(user, (&root, b"f")).unwrap();
    assert_eq!(tree.store.fsstat(&root).unwrap().fbytes, before);
}

#[test]
fn names_are_bounded_too() {
    let tree = Tree::memory(200_000);
    let (root, user) = (tree.store.root(), &tree.root_user);
    let before = tree.store.fsstat(&root).unwrap().fbytes;
    let how = createhow3::GUARDED(sattr3::UNCHANGED);
    let mut made = 0;
    while tree
        .store
        .create(user, (&root, format!("{made:0200}").as_bytes()), &how)
        .is_ok()
    {
        made += 1;
        assert!(made < 1000);
    }
    assert!(made > 100);
    for i in 0..made {
        tree.store
            .remove(user, (&root, format!("{i:0200}").as_bytes()))
            .unwrap();
    }
    assert_eq!(tree.store.fsstat(&root).unwrap().fbytes, before);
}

#[test]
fn offsets_beyond_the_largest_file_are_refused() {
    let tree = Tree::memory(1 << 20);
    let file = tree.file(b"f");
    let user = &tree.root_user;
    for offset in [u64::MAX, u64::MAX - 1, i64::MAX as u64] {
        let write = tree
            .store
            .write(user, &file, offset, b"ab", stable_how::UNSTABLE);
        assert_eq!(write.unwrap_err().0, nfsstat3::NFS3ERR_FBIG);
        let mut payload = server::store::Payload::new();
        let (done, _) = tree
            .store
            .read(user, &file, offset, 10, &mut payload)
            .unwrap();
        assert_eq!((done.count, done.eof), (0, true));
    }
}
