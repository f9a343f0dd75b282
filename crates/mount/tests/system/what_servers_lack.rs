//! Procedures that a server does not have, and limits that it states.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use crate::mounted::between::{Answers, Between, Said};
use crate::mounted::{Mounted, Server, possible};
use wire::Encode;
use wire::nfs3::procedure::{LOOKUP, PATHCONF, READDIR, READDIRPLUS};
use wire::nfs3::{PATHCONF3res, PATHCONF3resok, READDIR3res, READDIRPLUS3res, Res, nfsstat3};
use wire::programs::NFS;
use wire::rpc::ReplyStatus;

fn encoded(results: &impl Encode) -> Said {
    let mut bytes = Vec::new();
    results.encode(&mut bytes).unwrap();
    Said::Results(bytes)
}

/// READDIRPLUS, after the first so many, is not supported.
fn without_readdirplus(mut first: u32, how: fn() -> Said) -> Answers {
    Box::new(move |asked| {
        if asked != [NFS, READDIRPLUS] {
            return None;
        }
        let left = first.checked_sub(1);
        first = left.unwrap_or(0);
        left.is_none().then(how)
    })
}

fn not_supported() -> Said {
    let refused: READDIRPLUS3res<'_> = Res::Fail(nfsstat3::NFS3ERR_NOTSUPP, None);
    encoded(&refused)
}

fn unavailable() -> Said {
    Said::Status(ReplyStatus::ProcedureUnavailable)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn calls(mounted: &Mounted, procedure: u32) -> u64 {
    mounted.calls(procedure as usize)
}

#[test]
fn readdirplus_that_a_server_does_not_have_is_asked_for_once() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    for how in [not_supported, unavailable] {
        let between = Between::new(server.port, without_readdirplus(0, how));
        let mounted = Mounted::new(between.port, "");
        let folder = mounted.path.join("folder");
        let _ = fs::create_dir(&folder);
        for name in ["a", "b"] {
            File::create(mounted.path.join(name)).unwrap();
        }
        assert_eq!(names(&mounted.path), ["a", "b", "folder"]);
        assert!(names(&folder).is_empty());
        assert_eq!(names(&mounted.path), ["a", "b", "folder"]);
        let kind = |entry: fs::DirEntry| (entry.file_name(), entry.file_type().unwrap().is_dir());
        let kinds: BTreeSet<_> = fs::read_dir(&mounted.path)
            .unwrap()
            .map(|entry| kind(entry.unwrap()))
            .collect();
        let expected = [("a", false), ("b", false), ("folder", true)];
        assert_eq!(kinds, expected.map(|(name, is)| (name.into(), is)).into());
        assert_eq!(calls(&mounted, READDIRPLUS), 1);
        assert!(calls(&mounted, READDIR) >= 2);
    }
}

#[test]
fn a_listing_that_was_begun_goes_on_by_readdir() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let between = Between::new(server.port, without_readdirplus(1, not_supported));
    let mounted = Mounted::new(between.port, "");
    let made: Vec<String> = (0..2_000)
        .map(|number| format!("file-{number:08}"))
        .collect();
    for name in &made {
        File::create(mounted.path.join(name)).unwrap();
    }
    assert_eq!(names(&mounted.path), made, "each of them, and each once");
    assert_eq!(calls(&mounted, READDIRPLUS), 2, "one answered, one refused");
    assert!(calls(&mounted, READDIR) >= 1);
}

#[test]
fn nordirplus_never_asks_for_it() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("nordirplus");
    File::create(mounted.path.join("a")).unwrap();
    assert_eq!(names(&mounted.path), ["a"]);
    assert_eq!(calls(&mounted, READDIRPLUS), 0);
    assert!(calls(&mounted, READDIR) >= 1);
}

/// A server that has neither (READDIR is not optional): the error is told, and nothing loops.
#[test]
fn a_server_that_lists_nothing_is_an_error() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let answers: Answers = Box::new(|asked| match asked {
        [NFS, READDIRPLUS] => Some(not_supported()),
        [NFS, READDIR] => {
            let refused: READDIR3res<'_> = Res::Fail(nfsstat3::NFS3ERR_NOTSUPP, None);
            Some(encoded(&refused))
        }
        _ => None,
    });
    let between = Between::new(server.port, answers);
    let mounted = Mounted::new(between.port, "");
    let listed = fs::read_dir(&mounted.path).and_then(|mut entries| entries.next().unwrap());
    assert!(listed.is_err());
    assert_eq!(
        (calls(&mounted, READDIRPLUS), calls(&mounted, READDIR)),
        (1, 1)
    );
}

fn pathconf(name_max: u32) -> Said {
    let limits: PATHCONF3res = Res::Ok(PATHCONF3resok {
        obj_attributes: None,
        linkmax: 1,
        name_max,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    });
    encoded(&limits)
}

/// Linux takes what PATHCONF says, 255 at most and where it says nothing.
#[test]
fn the_longest_name_is_the_servers() {
    if !possible() {
        return;
    }
    let refused = || {
        let refused: PATHCONF3res = Res::Fail(nfsstat3::NFS3ERR_NOTSUPP, None);
        encoded(&refused)
    };
    let server = Server::memory();
    type Says = Box<dyn Fn() -> Said + Send>;
    let cases: [(Says, usize); 5] = [
        (Box::new(|| pathconf(64)), 64),
        (Box::new(|| pathconf(0)), 255),
        (Box::new(|| pathconf(1 << 20)), 255),
        (Box::new(refused), 255),
        (Box::new(unavailable), 255),
    ];
    for (says, most) in cases {
        let answers: Answers = Box::new(move |asked| (asked == [NFS, PATHCONF]).then(&says));
        let between = Between::new(server.port, answers);
        let mounted = Mounted::new(between.port, "");
        let found = rustix::fs::statvfs(&mounted.path).unwrap();
        assert_eq!(found.f_namemax, most as u64);
        let longest = mounted.path.join("x".repeat(most));
        File::create(&longest).unwrap();
        let lookups = calls(&mounted, LOOKUP);
        let longer = File::create(mounted.path.join("x".repeat(most + 1))).unwrap_err();
        assert_eq!(longer.raw_os_error(), Some(libc::ENAMETOOLONG), "{most}");
        assert_eq!(calls(&mounted, LOOKUP), lookups, "nobody was asked");
    }
}
