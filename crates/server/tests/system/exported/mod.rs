//! A folder that is served, beside another that is not: both ways of finding objects, and as root
//! and as an ordinary user.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::result_large_err
)]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use server::store::directory::{DirectoryOptions, DirectoryStore};
use server::store::{DirectorySink, Entry, ListFrom, Payload, Store};
use server::{Caller, Handle};
use wire::nfs3::{createhow3, nfsstat3, post_op_attr, sattr3, stable_how};

use crate::process::output;
use crate::trees::ADDRESS;

pub const STALE: nfsstat3 = nfsstat3::NFS3ERR_STALE;
pub const OK: nfsstat3 = nfsstat3::NFS3_OK;
const NOBODY: u32 = 65534;

/// `export` and `outside` in one folder.
pub struct Exported {
    base: tempfile::TempDir,
    kernel_handles: bool,
    pub export: PathBuf,
    pub outside: PathBuf,
    pub store: DirectoryStore,
    pub me: Caller,
}

pub fn serve(folder: &Path, kernel_handles: bool) -> DirectoryStore {
    let options = DirectoryOptions {
        stable_names: false,
        kernel_handles,
        instance: 1,
    };
    DirectoryStore::open(folder, options).unwrap()
}

impl Exported {
    pub fn new(kernel_handles: bool) -> Self {
        let base = tempfile::tempdir().unwrap();
        let (export, outside) = (base.path().join("export"), base.path().join("outside"));
        std::fs::create_dir(&export).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let ids = (rustix::process::geteuid(), rustix::process::getegid());
        Exported {
            store: serve(&export, kernel_handles),
            me: Caller::with_ids(ADDRESS, ids.0.as_raw(), ids.1.as_raw()),
            base,
            kernel_handles,
            export,
            outside,
        }
    }

    pub fn base(&self) -> &Path {
        self.base.path()
    }

    /// Another server takes its place.
    pub fn restart(&mut self) {
        self.store = serve(&self.export, self.kernel_handles);
    }

    /// The handle of a path below the export.
    pub fn handle(&self, path: &str) -> Handle {
        let mut at = self.store.root();
        for name in path.split('/') {
            at = self.lookup(&at, name).unwrap();
        }
        at
    }

    pub fn lookup(&self, dir: &Handle, name: &str) -> Result<Handle, nfsstat3> {
        let found = self.store.lookup(&self.me, (dir, name.as_bytes()));
        found
            .map(|(found, _)| found.handle)
            .map_err(|(status, _)| status)
    }

    pub fn read(&self, file: &Handle) -> Result<Vec<u8>, nfsstat3> {
        let mut payload = Payload::new();
        let read = self.store.read(&self.me, file, 0, 4096, &mut payload);
        read.map(|_| payload.to_vec()).map_err(|(status, _)| status)
    }

    pub fn write(&self, file: &Handle, data: &[u8]) -> nfsstat3 {
        let how = stable_how::UNSTABLE;
        status(self.store.write(&self.me, file, 0, data, how))
    }

    pub fn link(&self, file: &Handle, dir: &Handle, name: &str) -> nfsstat3 {
        self.store.link(&self.me, file, (dir, name.as_bytes())).0
    }

    /// What every procedure that takes a handle says of this one, each with its name.
    pub fn all(&self, object: &Handle) -> Vec<(&'static str, nfsstat3)> {
        let (store, me, root) = (&self.store, &self.me, self.store.root());
        let (new, any) = (sattr3::UNCHANGED, createhow3::UNCHECKED(sattr3::UNCHANGED));
        let cut = sattr3 {
            size: Some(0),
            mode: Some(0o666),
            ..new
        };
        let mut payload = Payload::new();
        let from = ListFrom {
            cookie: 0,
            verifier: [0; 8],
            with_objects: true,
        };
        let name = b"name";
        vec![
            (
                "GETATTR",
                status(store.getattr(object).map_err(|s| (s, ()))),
            ),
            ("SETATTR", status(store.setattr(me, object, &cut, None))),
            ("LOOKUP", status(store.lookup(me, (object, b"secret")))),
            ("LOOKUP ..", status(store.lookup(me, (object, b"..")))),
            ("ACCESS", status(store.access(me, object, 0x3f))),
            (
                "READLINK",
                status(store.readlink(me, object, &mut Vec::new())),
            ),
            ("READ", status(store.read(me, object, 0, 100, &mut payload))),
            ("WRITE", self.write(object, b"overwritten")),
            ("CREATE", status(store.create(me, (object, name), &any))),
            ("MKDIR", status(store.mkdir(me, (object, name), &new))),
            (
                "SYMLINK",
                status(store.symlink(me, (object, name), &new, b"x")),
            ),
            ("REMOVE", status(store.remove(me, (object, b"secret")))),
            ("RMDIR", status(store.rmdir(me, (object, b"secret")))),
            (
                "RENAME from",
                store.rename(me, (object, b"secret"), (&root, name)).0,
            ),
            (
                "RENAME to",
                store.rename(me, (&root, b"own"), (object, name)).0,
            ),
            ("LINK", self.link(object, &root, "linked")),
            ("LINK into", self.link(&root, object, "linked")),
            (
                "READDIRPLUS",
                status(store.list(me, object, from, &mut Names(vec![]))),
            ),
            ("FSSTAT", status(store.fsstat(object).map_err(|s| (s, ())))),
            ("COMMIT", status(store.commit(me, object, 0, 0))),
        ]
    }

    /// No procedure reaches it, and none has put a name of it into the export.
    pub fn is_out_of_reach(&self, object: &Handle, what: &str) {
        for (procedure, status) in self.all(object) {
            assert_eq!(status, STALE, "{procedure} of {what}");
        }
        assert!(!self.export.join("linked").exists(), "{what}");
        assert!(!self.export.join("name").exists(), "{what}");
    }
}

pub fn status<T, S>(result: Result<T, (nfsstat3, S)>) -> nfsstat3 {
    result.err().map_or(OK, |(status, _)| status)
}

/// The names of a listing.
pub struct Names(pub Vec<Vec<u8>>);
impl DirectorySink for Names {
    fn begin(&mut self, _: post_op_attr, _: [u8; 8]) {}
    fn entry(&mut self, entry: &Entry<'_>) -> bool {
        self.0.push(entry.name.to_vec());
        true
    }
}

/// Runs a test's body with both ways of finding objects; under root also as an ordinary user, by
/// running the test of this name once more in a process of that user.
pub fn as_all(test: &str, body: impl Fn(Exported)) {
    for kernel_handles in [true, false] {
        body(Exported::new(kernel_handles));
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", test, "--include-ignored"])
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY);
    match output(&mut run) {
        Ok(run) => {
            let [said, told] = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text));
            let passed = run.status.success() && said.contains("1 passed");
            assert!(passed, "as user {NOBODY}: {said}{told}");
        }
        Err(error) => eprintln!("skipped: another user cannot run this test ({error})"),
    }
}
