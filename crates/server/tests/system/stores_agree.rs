//! The memory store against a real file system: the same random calls, the same answers.
//!
//! The directory store hands each call to the kernel; what the kernel says is the truth for the
//! memory store. Compared: status, type, size, link count, data, names.

use crate::trees::Tree;
use proptest::prelude::*;
use server::Handle;
use server::store::{DirectorySink, Entry, ListFrom, Payload};
use wire::nfs3::{createhow3, fattr3, ftype3, nfsstat3, sattr3, stable_how};

const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];

#[derive(Clone, Debug)]
enum Step {
    Create(usize, usize, u8),
    Mkdir(usize, usize),
    Symlink(usize, usize),
    Remove(usize, usize),
    Rmdir(usize, usize),
    Rename(usize, usize, usize, usize),
    Link(usize, usize, usize),
    Write(usize, u64, usize),
    Resize(usize, u64),
    Read(usize, u64),
    Lookup(usize, usize),
    List(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (o, n) = (0usize..64, 0usize..NAMES.len());
    prop_oneof![
        (o.clone(), n.clone(), 0u8..3).prop_map(|(d, n, how)| Step::Create(d, n, how)),
        (o.clone(), n.clone()).prop_map(|(d, n)| Step::Mkdir(d, n)),
        (o.clone(), n.clone()).prop_map(|(d, n)| Step::Symlink(d, n)),
        (o.clone(), n.clone()).prop_map(|(d, n)| Step::Remove(d, n)),
        (o.clone(), n.clone()).prop_map(|(d, n)| Step::Rmdir(d, n)),
        (o.clone(), n.clone(), o.clone(), n.clone())
            .prop_map(|(d, n, e, m)| Step::Rename(d, n, e, m)),
        (o.clone(), o.clone(), n.clone()).prop_map(|(f, d, n)| Step::Link(f, d, n)),
        (o.clone(), 0u64..20_000, 1usize..9000).prop_map(|(f, at, l)| Step::Write(f, at, l)),
        (o.clone(), 0u64..20_000).prop_map(|(f, size)| Step::Resize(f, size)),
        (o.clone(), 0u64..20_000).prop_map(|(f, at)| Step::Read(f, at)),
        (o.clone(), n).prop_map(|(d, n)| Step::Lookup(d, n)),
        o.prop_map(Step::List),
    ]
}

/// What of an answer has to be the same everywhere.
#[derive(Debug, PartialEq)]
struct Answer {
    status: nfsstat3,
    seen: Option<(ftype3, u64, u32)>,
    data: Vec<u8>,
}

fn essence(attributes: fattr3) -> (ftype3, u64, u32) {
    // The size of a directory is its file system's own affair, and so are its links on btrfs.
    match attributes.type_ {
        ftype3::NF3DIR => (attributes.type_, 0, 0),
        type_ => (type_, attributes.size, attributes.nlink),
    }
}

struct Names(Vec<Vec<u8>>);
impl DirectorySink for Names {
    fn begin(&mut self, _: Option<fattr3>, _: [u8; 8]) {}
    fn entry(&mut self, entry: &Entry<'_>) -> bool {
        self.0.push(entry.name.to_vec());
        true
    }
}

/// Runs a step; `handles` are all objects ever made, the root first.
fn run(tree: &Tree, handles: &mut Vec<Handle>, number: u64, step: &Step) -> Answer {
    let (store, user) = (&tree.store, &tree.root_user);
    let at = |index: usize| handles[index % handles.len()];
    let new = sattr3::UNCHANGED;
    let mut data = Vec::new();
    let mut made = None;
    let result: Result<Option<fattr3>, nfsstat3> = match step {
        Step::Create(d, n, how) => {
            let how = match how {
                0 => createhow3::UNCHECKED(sattr3 {
                    size: Some(0),
                    ..new
                }),
                1 => createhow3::GUARDED(new),
                _ => createhow3::EXCLUSIVE(number.to_be_bytes()),
            };
            let created = store.create(user, (&at(*d), NAMES[*n]), &how);
            created.map_err(|e| e.0).map(|(found, _)| {
                made = Some(found.handle);
                Some(found.attributes)
            })
        }
        Step::Mkdir(d, n) => {
            let created = store.mkdir(user, (&at(*d), NAMES[*n]), &new);
            created.map_err(|e| e.0).map(|(found, _)| {
                made = Some(found.handle);
                Some(found.attributes)
            })
        }
        Step::Symlink(d, n) => {
            let created = store.symlink(user, (&at(*d), NAMES[*n]), &new, b"somewhere");
            created.map_err(|e| e.0).map(|(found, _)| {
                made = Some(found.handle);
                Some(found.attributes)
            })
        }
        Step::Remove(d, n) => {
            let gone = store.remove(user, (&at(*d), NAMES[*n]));
            gone.map(|_| None).map_err(|e| e.0)
        }
        Step::Rmdir(d, n) => {
            let gone = store.rmdir(user, (&at(*d), NAMES[*n]));
            gone.map(|_| None).map_err(|e| e.0)
        }
        Step::Rename(d, n, e, m) => {
            match store
                .rename(user, (&at(*d), NAMES[*n]), (&at(*e), NAMES[*m]))
                .0
            {
                nfsstat3::NFS3_OK => Ok(None),
                status => Err(status),
            }
        }
        Step::Link(f, d, n) => {
            let (status, wcc) = store.link(user, &at(*f), (&at(*d), NAMES[*n]));
            if status == nfsstat3::NFS3_OK {
                Ok(wcc.file_attributes)
            } else {
                Err(status)
            }
        }
        Step::Write(f, offset, length) => {
            let bytes = vec![*length as u8; *length];
            let written = store.write(user, &at(*f), *offset, &bytes, stable_how::UNSTABLE);
            written.map(|(_, wcc)| wcc.after).map_err(|e| e.0)
        }
        Step::Resize(f, size) => {
            let new = sattr3 {
                size: Some(*size),
                ..new
            };
            let set = store.setattr(user, &at(*f), &new, None);
            set.map(|(_, wcc)| wcc.after).map_err(|e| e.0)
        }
        Step::Read(f, offset) => {
            let mut payload = Payload::new();
            let read = store.read(user, &at(*f), *offset, 5000, &mut payload);
            data = payload.to_vec();
            read.map_err(|e| e.0).map(|(done, seen)| {
                data.push(u8::from(done.eof));
                seen
            })
        }
        Step::Lookup(d, n) => {
            let found = store.lookup(user, (&at(*d), NAMES[*n]));
            found
                .map(|(found, _)| Some(found.attributes))
                .map_err(|e| e.0)
        }
        Step::List(d) => {
            let mut names = Names(Vec::new());
            let from = ListFrom {
                cookie: 0,
                verifier: [0; 8],
                with_objects: true,
            };
            let listed = store.list(user, &at(*d), from, &mut names);
            names.0.sort();
            data = names.0.join(&b'/');
            listed.map(|_| None).map_err(|e| e.0)
        }
    };
    if let Some(handle) = made
        && !handles.contains(&handle)
    {
        handles.push(handle);
    }
    Answer {
        status: result.err().unwrap_or(nfsstat3::NFS3_OK),
        seen: result.ok().flatten().map(essence),
        data,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]
    #[test]
    fn memory_answers_as_the_kernel_does(steps in proptest::collection::vec(step(), 1..150)) {
        let trees = [Tree::memory(1 << 30), Tree::unsettled(true), Tree::unsettled(false)];
        let mut handles: Vec<Vec<Handle>> =
            trees.iter().map(|tree| vec![tree.store.root()]).collect();
        for (number, step) in (1u64..).zip(&steps) {
            let answers: Vec<Answer> = trees
                .iter()
                .zip(&mut handles)
                .map(|(tree, handles)| run(tree, handles, number, step))
                .collect();
            prop_assert_eq!(&answers[0], &answers[1], "memory, directory: {:?}", step);
            prop_assert_eq!(&answers[1], &answers[2], "by handle, by name: {:?}", step);
        }
    }
}
