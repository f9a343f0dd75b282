//! Paths that replies teach.

use super::*;

const ROOT: &[u8] = b"root";

/// Directory and name.
fn at(directory: &[u8], name: &[u8]) -> Xdr {
    Xdr::default().opaque(directory).opaque(name)
}

/// LOOKUP's results: handle, attributes, none of the directory.
fn found(handle: &[u8], file_type: u32) -> Xdr {
    Xdr::default()
        .word(0)
        .opaque(handle)
        .word(1)
        .raw(&fattr3(file_type).0)
        .word(0)
}

/// CREATE's results.
fn created(handle: &[u8]) -> Xdr {
    Xdr::default()
        .words(&[0, 1])
        .opaque(handle)
        .words(&[0, 0, 0])
}

fn mount(capture: &mut Capture) {
    let mnt = call(1, [100_005, 3, 1], Xdr::default().opaque(b"/export"));
    capture.pair(
        &mnt,
        &reply(1, Xdr::default().word(0).opaque(ROOT).words(&[1, 1])),
    );
}

/// One procedure of NFSv3 with a new transaction id.
fn done(capture: &mut Capture, procedure: u32, arguments: Xdr, results: Xdr) {
    let xid = capture.frame as u32 + 1000;
    capture.pair(
        &call(xid, [NFS, 3, procedure], arguments),
        &reply(xid, results),
    );
}

fn path(capture: &Capture, handle: &[u8]) -> Option<String> {
    let names = capture.calls.names();
    let ids = (0..names.files() as u32).map(crate::call::FileId);
    let mut found = ids.filter(|id| names.file(*id).unwrap().handle == handle);
    names.path(found.next().unwrap())
}

#[test]
fn lookup_create_and_mount_give_paths() {
    let mut capture = Capture::new();
    mount(&mut capture);
    done(&mut capture, 3, at(ROOT, b"base"), found(b"dir", 2));
    done(
        &mut capture,
        8,
        at(b"dir", b"1").words(&[1, 0, 0, 0, 0, 0, 0]),
        created(b"file"),
    );
    done(&mut capture, 3, at(b"unknown", b"x"), found(b"below", 1));
    done(
        &mut capture,
        1,
        Xdr::default().opaque(b"nameless"),
        Xdr::default().word(70),
    );
    assert_eq!(path(&capture, ROOT).as_deref(), Some("/export"));
    assert_eq!(path(&capture, b"file").as_deref(), Some("/export/base/1"));
    assert_eq!(path(&capture, b"below").as_deref(), Some(".../x"));
    assert_eq!(path(&capture, b"nameless"), None);
    let names = capture.calls.names();
    let directory = names.file(crate::call::FileId(1)).unwrap();
    assert_eq!(
        (directory.file_type, directory.handle.as_slice()),
        (2, &b"dir"[..])
    );
}

#[test]
fn renaming_and_removing_change_what_names_lead_to() {
    let mut capture = Capture::new();
    mount(&mut capture);
    let wcc = [0, 0, 0];
    done(&mut capture, 3, at(ROOT, b"a"), found(b"dir", 2));
    done(&mut capture, 3, at(b"dir", b"old"), found(b"file", 1));
    done(&mut capture, 3, at(ROOT, b"victim"), found(b"victim", 1));
    // The directory's renaming renames what is in it.
    let rename = Xdr::default()
        .opaque(ROOT)
        .opaque(b"a")
        .opaque(ROOT)
        .opaque(b"b");
    done(
        &mut capture,
        14,
        rename,
        Xdr::default().words(&[0, 0, 0, 0, 0]),
    );
    assert_eq!(path(&capture, b"file").as_deref(), Some("/export/b/old"));
    // A renaming onto another file takes its name.
    let rename = Xdr::default()
        .opaque(b"dir")
        .opaque(b"old")
        .opaque(ROOT)
        .opaque(b"victim");
    done(
        &mut capture,
        14,
        rename,
        Xdr::default().words(&[0, 0, 0, 0, 0]),
    );
    assert_eq!(path(&capture, b"file").as_deref(), Some("/export/victim"));
    // The removed file's path is its last one; a new file of that name is another.
    done(
        &mut capture,
        12,
        at(ROOT, b"victim"),
        Xdr::default().words(&wcc),
    );
    done(&mut capture, 3, at(ROOT, b"victim"), found(b"third", 1));
    assert_eq!(path(&capture, b"file").as_deref(), Some("/export/victim"));
    let names = capture.calls.names();
    let root = names.child(crate::call::FileId(0), b"victim").unwrap();
    assert_eq!(names.file(root).unwrap().handle, b"third");
    // A failed renaming changes nothing.
    let rename = Xdr::default()
        .opaque(ROOT)
        .opaque(b"victim")
        .opaque(ROOT)
        .opaque(b"no");
    done(
        &mut capture,
        14,
        rename,
        Xdr::default().words(&[13, 0, 0, 0, 0]),
    );
    assert_eq!(path(&capture, b"third").as_deref(), Some("/export/victim"));
    // LINK: the last name counts.
    let link = Xdr::default()
        .opaque(b"third")
        .opaque(b"dir")
        .opaque(b"linked");
    done(&mut capture, 15, link, Xdr::default().words(&[0, 0, 0, 0]));
    assert_eq!(
        path(&capture, b"third").as_deref(),
        Some("/export/b/linked")
    );
}

#[test]
fn directory_listings_name_their_entries() {
    let mut capture = Capture::new();
    mount(&mut capture);
    let entry = |name: &[u8], handle: &[u8]| {
        let xdr = Xdr::default().word(1).long(9).opaque(name).long(1).word(1);
        xdr.raw(&fattr3(1).0).word(1).opaque(handle)
    };
    let results = Xdr::default()
        .words(&[0, 0, 0, 0])
        .raw(&entry(b".", ROOT).0)
        .raw(&entry(b"one", b"1").0)
        .raw(&entry(b"two", b"2").0)
        .words(&[0, 1]);
    let arguments = Xdr::default().opaque(ROOT).words(&[0, 0, 0, 0, 4096, 4096]);
    done(&mut capture, 17, arguments, results);
    assert_eq!(path(&capture, b"1").as_deref(), Some("/export/one"));
    assert_eq!(path(&capture, b"2").as_deref(), Some("/export/two"));
    assert_eq!(path(&capture, ROOT).as_deref(), Some("/export"));
}

#[test]
fn a_cycle_of_directories_ends() {
    let mut capture = Capture::new();
    done(&mut capture, 3, at(b"a", b"b"), found(b"b", 2));
    done(&mut capture, 3, at(b"b", b"a"), found(b"a", 2));
    done(&mut capture, 3, at(b"c", b"c"), found(b"c", 2));
    assert!(path(&capture, b"a").unwrap().starts_with("..."));
    assert!(path(&capture, b"c").unwrap().starts_with(".../c/c"));
}

/// A COMPOUND and its reply: each operation as called and as answered.
fn compound(capture: &mut Capture, operations: &[(Xdr, Xdr)], status: u32) {
    let xid = capture.frame as u32 + 1000;
    let count = operations.len() as u32;
    let mut arguments = Xdr::default().opaque(b"").words(&[1, count]);
    let mut results = Xdr::default().word(status).opaque(b"").word(count);
    for (called, answered) in operations {
        arguments = arguments.raw(&called.0);
        results = results.raw(&answered.0);
    }
    capture.pair(&call(xid, COMPOUND, arguments), &reply(xid, results));
}

fn operation(opcode: u32, arguments: Xdr) -> (Xdr, Xdr) {
    let called = Xdr::default().word(opcode).raw(&arguments.0);
    (called, Xdr::default().words(&[opcode, 0]))
}

fn putfh(handle: &[u8]) -> (Xdr, Xdr) {
    operation(22, Xdr::default().opaque(handle))
}

fn lookup(name: &[u8]) -> (Xdr, Xdr) {
    operation(15, Xdr::default().opaque(name))
}

fn getfh(handle: &[u8]) -> (Xdr, Xdr) {
    (
        Xdr::default().word(10),
        Xdr::default().words(&[10, 0]).opaque(handle),
    )
}

fn open(name: &[u8]) -> (Xdr, Xdr) {
    // seqid, access, deny, client id, owner; no create; CLAIM_NULL.
    let arguments = Xdr::default()
        .words(&[0, 1, 0, 0, 0])
        .opaque(b"owner")
        .words(&[0, 0]);
    let called = Xdr::default().word(18).raw(&arguments.opaque(name).0);
    // stateid, cinfo, rflags, attrset, no delegation.
    let results = Xdr::default()
        .words(&[18, 0, 1, 0, 0, 0])
        .words(&[1, 0, 0, 0, 0, 0, 0, 0]);
    (called, results)
}

#[test]
fn compounds_are_walked_with_the_current_file_handle() {
    let mut capture = Capture::new();
    let none = Xdr::default;
    compound(&mut capture, &[operation(24, none()), getfh(ROOT)], 0);
    compound(
        &mut capture,
        &[putfh(ROOT), lookup(b"a"), lookup(b"b"), getfh(b"b")],
        0,
    );
    compound(&mut capture, &[putfh(b"b"), open(b"f"), getfh(b"f")], 0);
    assert_eq!(path(&capture, ROOT).as_deref(), Some("/"));
    assert_eq!(path(&capture, b"f").as_deref(), Some("/a/b/f"));
    // SAVEFH b, PUTFH root, RENAME b/f -> /g, with RESTOREFH and LOOKUP behind it.
    let rename = operation(29, Xdr::default().opaque(b"f").opaque(b"g"));
    let renamed = (rename.0, rename.1.raw(&[0; 40]));
    let operations = [
        putfh(b"b"),
        operation(32, none()),
        putfh(ROOT),
        renamed,
        operation(31, none()),
        lookup(b"h"),
        getfh(b"h"),
    ];
    compound(&mut capture, &operations, 0);
    assert_eq!(path(&capture, b"f").as_deref(), Some("/g"));
    assert_eq!(path(&capture, b"h").as_deref(), Some("/a/b/h"));
    let (seen, anomalies) = capture.end();
    assert_eq!(anomalies, []);
    // An OPEN is about the file that it opened.
    assert_eq!(crate::names::call_name(&seen.calls[2]), "OPEN");
    assert_eq!(seen.paths[2].as_deref(), Some("/g"));
    assert_eq!(seen.calls[2].operations_done, 3);
}

#[test]
fn a_compound_that_stopped_teaches_only_what_was_done() {
    let mut capture = Capture::new();
    compound(
        &mut capture,
        &[operation(24, Xdr::default()), getfh(ROOT)],
        0,
    );
    // LOOKUP fails; the GETFH behind it was not done.
    let failed = (lookup(b"no").0, Xdr::default().words(&[15, 2]));
    let xid = 77;
    let arguments = Xdr::default().opaque(b"").words(&[1, 3]);
    let arguments = arguments.raw(&putfh(ROOT).0.0).raw(&failed.0.0).word(10);
    let results = Xdr::default().word(2).opaque(b"").words(&[2, 22, 0, 15, 2]);
    capture.pair(&call(xid, COMPOUND, arguments), &reply(xid, results));
    let names = capture.calls.names();
    // The root only: no record for a name that is not there.
    assert_eq!(names.files(), 1);
    let (seen, _) = capture.end();
    assert_eq!(seen.calls[1].operations_done, 2);
    assert_eq!(seen.calls[1].outcome, crate::call::Outcome::Status(2));
}

fn numbers(capture: &Capture, handle: &[u8]) -> Option<(u64, u64)> {
    let names = capture.calls.names();
    let mut ids = (0..names.files() as u32).map(crate::call::FileId);
    let id = ids.find(|id| names.file(*id).unwrap().handle == handle);
    names.numbers(id.unwrap())
}

/// `fattr3` of a file with this number.
fn numbered(file_id: u64) -> Xdr {
    let mut made = fattr3(1);
    made.0[52..60].copy_from_slice(&file_id.to_be_bytes());
    made
}

#[test]
fn attributes_tell_which_file_a_handle_is() {
    for quick in [true, false] {
        let mut capture = Capture::new();
        if !quick {
            capture.calls.leave_quick_way();
        }
        let get = |handle: &[u8]| Xdr::default().opaque(handle);
        let got = |file_id| Xdr::default().word(0).raw(&numbered(file_id).0);
        // The attributes of a LOOKUP are those of what it found, not of its directory.
        let of_found = Xdr::default().word(0).opaque(b"file").word(1);
        let of_found = of_found.raw(&numbered(1 << 63 | 5).0).word(0);
        done(&mut capture, 3, at(ROOT, b"a"), of_found);
        assert_eq!(numbers(&capture, b"file"), Some((1, 1 << 63 | 5)));
        assert_eq!(numbers(&capture, ROOT), None);
        done(&mut capture, 1, get(b"file"), got(1 << 63 | 5));
        assert_eq!(numbers(&capture, b"file"), Some((1, 1 << 63 | 5)));
        // A reply that says otherwise: nothing is believed any more.
        done(&mut capture, 1, get(b"other"), got(8));
        assert_eq!(numbers(&capture, b"other"), Some((1, 8)));
        done(&mut capture, 1, get(b"other"), got(9));
        done(&mut capture, 1, get(b"other"), got(8));
        assert_eq!(numbers(&capture, b"other"), None);
    }
}

#[test]
fn attributes_in_compounds_are_those_of_the_current_file() {
    let mut capture = Capture::new();
    let none = Xdr::default;
    let getattr = |file_id: u64| {
        // type, fsid, fileid.
        let mask = [1, 1 << 1 | 1 << 8 | 1 << 20];
        let values = Xdr::default().word(1).long(3).long(4).long(file_id);
        let called = Xdr::default().word(9).words(&mask);
        let answered = Xdr::default().words(&[9, 0]).words(&mask).opaque(&values.0);
        (called, answered)
    };
    let fsid = 3 ^ 4u64.rotate_left(32);
    // As older clients open: the directory's attributes come last.
    let operations = [
        putfh(b"dir"),
        operation(32, none()),
        open(b"f"),
        getfh(b"f"),
        getattr(5),
        operation(31, none()),
        getattr(6),
    ];
    compound(&mut capture, &operations, 0);
    assert_eq!(numbers(&capture, b"f"), Some((fsid, 5)));
    assert_eq!(numbers(&capture, b"dir"), Some((fsid, 6)));
    compound(&mut capture, &[putfh(b"g"), getattr(7)], 0);
    assert_eq!(numbers(&capture, b"g"), Some((fsid, 7)));
    // Two handles and nothing that teaches names: whose attributes these are is not told.
    let operations = [putfh(b"h"), operation(32, none()), putfh(b"i"), getattr(8)];
    compound(&mut capture, &operations, 0);
    assert_eq!(numbers(&capture, b"h"), None);
    assert_eq!(numbers(&capture, b"i"), None);
}
