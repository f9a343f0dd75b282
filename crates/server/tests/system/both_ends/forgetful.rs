//! A store that loses, when it crashes, exactly what was written UNSTABLE and not committed.
//!
//! It stands before a memory store: the old bytes under each UNSTABLE write are kept until a
//! COMMIT; [`Forgetful::crash`] puts them back, and changes the write verifier.

use std::sync::{Mutex, MutexGuard};

use server::store::memory::MemoryStore;
use server::store::{
    Changed, DirectorySink, Found, ListFrom, Listed, Payload, Place, ReadDone, Seen, Special,
    Store, StoreDescription, WriteDone,
};
use server::{Caller, Handle};
use wire::nfs3::{
    FSSTAT3resok, LINK3wcc, RENAME3wcc, createhow3, fattr3, nfsstat3, nfstime3, sattr3, stable_how,
    writeverf3,
};

/// The bytes that a write replaced, and the size before it.
struct Undo {
    file: Handle,
    offset: u64,
    bytes: Vec<u8>,
    size: u64,
}

pub struct Forgetful {
    inner: MemoryStore,
    undo: Mutex<Vec<Undo>>,
    instance: Mutex<u64>,
}

impl Forgetful {
    pub fn new() -> Self {
        Forgetful {
            inner: MemoryStore::new(1 << 28, 1, &Self::admin()),
            undo: Mutex::default(),
            instance: Mutex::new(1),
        }
    }

    fn admin() -> Caller {
        Caller::with_ids(crate::trees::ADDRESS, 0, 0)
    }

    fn verifier(&self) -> writeverf3 {
        self.instance.lock().unwrap().to_be_bytes()
    }

    /// Loses what was not committed; returns how many bytes.
    pub fn crash(&self) -> usize {
        self.lose(self.undo.lock().unwrap())
    }

    /// Crashes only while something is not committed; 0: nothing was, nothing happened.
    pub fn crash_if_it_loses(&self) -> usize {
        let undo = self.undo.lock().unwrap();
        if undo.is_empty() { 0 } else { self.lose(undo) }
    }

    fn lose(&self, mut undo: MutexGuard<'_, Vec<Undo>>) -> usize {
        *self.instance.lock().unwrap() += 1;
        let mut lost = 0;
        for old in undo.drain(..).rev() {
            lost += old.bytes.len();
            let admin = Self::admin();
            let stable = stable_how::FILE_SYNC;
            self.inner
                .write(&admin, &old.file, old.offset, &old.bytes, stable)
                .unwrap();
            let size = sattr3 {
                size: Some(old.size),
                ..sattr3::UNCHANGED
            };
            self.inner.setattr(&admin, &old.file, &size, None).unwrap();
        }
        lost
    }

    /// What stands in a file now, lost bytes included.
    pub fn content(&self, name: &[u8]) -> Vec<u8> {
        let admin = Self::admin();
        let found = self
            .inner
            .lookup(&admin, (&self.inner.root(), name))
            .unwrap()
            .0;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < found.attributes.size {
            let mut payload = Payload::new();
            let at = bytes.len() as u64;
            self.inner
                .read(&admin, &found.handle, at, 1 << 20, &mut payload)
                .unwrap();
            bytes.extend(payload.to_vec());
        }
        bytes
    }
}

/// Methods that the memory store answers.
macro_rules! answered_behind {
    ($($name:ident($($given:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($given: $type),*) -> $result {
            self.inner.$name($($given),*)
        })*
    };
}

#[rustfmt::skip]
impl Store for Forgetful {
    answered_behind! {
        description() -> StoreDescription;
        root() -> Handle;
        getattr(o: &Handle) -> Result<fattr3, nfsstat3>;
        setattr(c: &Caller, o: &Handle, new: &sattr3, guard: Option<nfstime3>) -> Changed<()>;
        lookup(c: &Caller, at: Place<'_>) -> Seen<Found>;
        access(c: &Caller, o: &Handle, asked: u32) -> Seen<u32>;
        readlink(c: &Caller, link: &Handle, text: &mut Vec<u8>) -> Seen<()>;
        read(c: &Caller, o: &Handle, at: u64, count: u32, to: &mut Payload) -> Seen<ReadDone>;
        create(c: &Caller, at: Place<'_>, how: &createhow3) -> Changed<Found>;
        mkdir(c: &Caller, at: Place<'_>, new: &sattr3) -> Changed<Found>;
        symlink(c: &Caller, at: Place<'_>, new: &sattr3, text: &[u8]) -> Changed<Found>;
        mknod(c: &Caller, at: Place<'_>, new: &sattr3, kind: Special) -> Changed<Found>;
        remove(c: &Caller, at: Place<'_>) -> Changed<()>;
        rmdir(c: &Caller, at: Place<'_>) -> Changed<()>;
        rename(c: &Caller, from: Place<'_>, to: Place<'_>) -> (nfsstat3, RENAME3wcc);
        link(c: &Caller, file: &Handle, at: Place<'_>) -> (nfsstat3, LINK3wcc);
        list(c: &Caller, dir: &Handle, from: ListFrom, to: &mut dyn DirectorySink) -> Listed;
        fsstat(o: &Handle) -> Result<FSSTAT3resok, nfsstat3>;
    }

    fn write(
        &self,
        caller: &Caller,
        file: &Handle,
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Changed<WriteDone> {
        let mut undo = self.undo.lock().unwrap();
        if stable == stable_how::UNSTABLE {
            let size = self.inner.getattr(file).unwrap().size;
            let mut old = Payload::new();
            let count = data.len() as u32;
            self.inner
                .read(caller, file, offset, count, &mut old)
                .unwrap();
            undo.push(Undo {
                file: *file,
                offset,
                bytes: old.to_vec(),
                size,
            });
        }
        let (mut done, wcc) = self.inner.write(caller, file, offset, data, stable)?;
        done.committed = stable;
        done.verifier = self.verifier();
        Ok((done, wcc))
    }

    fn commit(
        &self,
        caller: &Caller,
        file: &Handle,
        offset: u64,
        count: u32,
    ) -> Changed<writeverf3> {
        // Whole files only, as our client asks: `count` 0 is "to the end".
        assert_eq!((offset, count), (0, 0));
        self.undo.lock().unwrap().retain(|undo| undo.file != *file);
        let (_, wcc) = self.inner.commit(caller, file, offset, count)?;
        Ok((self.verifier(), wcc))
    }
}
