//! The stores under test, each with an empty tree.
#![allow(dead_code, clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use server::store::Store;
use server::store::directory::{DirectoryOptions, DirectoryStore};
use server::store::memory::MemoryStore;
use server::{Caller, Handle};
use wire::nfs3::{createhow3, sattr3, stable_how};

pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 700);

pub struct Tree {
    pub store: Box<dyn Store>,
    pub root_user: Caller,
    pub other_user: Option<Caller>,
    pub folder: Option<tempfile::TempDir>,
}

impl Tree {
    pub fn memory(limit_bytes: u64) -> Self {
        let root_user = Caller::with_ids(ADDRESS, 0, 0);
        Tree {
            store: Box::new(MemoryStore::new(limit_bytes, 77, &root_user)),
            root_user,
            other_user: Some(Caller::with_ids(ADDRESS, 1234, 1235)),
            folder: None,
        }
    }
    pub fn directory(kernel_handles: bool) -> Self {
        Self::folder(kernel_handles, true)
    }
    /// Without fsync for names: for many calls.
    pub fn unsettled(kernel_handles: bool) -> Self {
        Self::folder(kernel_handles, false)
    }
    fn folder(kernel_handles: bool, stable_names: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = DirectoryOptions {
            stable_names,
            kernel_handles,
            instance: 9,
        };
        let store = DirectoryStore::open(folder.path(), options).unwrap();
        let settings = store.description().settings;
        let as_caller = settings.contains(&("acts_as_caller", "true".to_owned()));
        // What the tests do as administrator they do as the user that owns the folder.
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Tree {
            store: Box::new(store),
            root_user: Caller::with_ids(ADDRESS, uid.as_raw(), gid.as_raw()),
            other_user: as_caller.then(|| Caller::with_ids(ADDRESS, 1234, 1235)),
            folder: Some(folder),
        }
    }
    pub fn file(&self, name: &[u8]) -> Handle {
        self.file_in(&self.store.root(), name)
    }
    pub fn file_in(&self, dir: &Handle, name: &[u8]) -> Handle {
        let how = createhow3::GUARDED(sattr3 {
            mode: Some(0o644),
            ..sattr3::UNCHANGED
        });
        let made = self.store.create(&self.root_user, (dir, name), &how);
        made.unwrap().0.handle
    }
    pub fn dir(&self, name: &[u8]) -> Handle {
        let new = sattr3 {
            mode: Some(0o755),
            ..sattr3::UNCHANGED
        };
        let made = self
            .store
            .mkdir(&self.root_user, (&self.store.root(), name), &new);
        made.unwrap().0.handle
    }
    pub fn write(&self, file: &Handle, offset: u64, data: &[u8]) {
        self.store
            .write(&self.root_user, file, offset, data, stable_how::UNSTABLE)
            .unwrap();
    }
    pub fn chmod(&self, object: &Handle, mode: u32) {
        let new = sattr3 {
            mode: Some(mode),
            ..sattr3::UNCHANGED
        };
        self.store
            .setattr(&self.root_user, object, &new, None)
            .unwrap();
    }
}

pub fn stores() -> Vec<Tree> {
    vec![
        Tree::memory(1 << 30),
        Tree::directory(true),
        Tree::directory(false),
    ]
}
