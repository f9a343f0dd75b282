//! Servers that die and come back, files removed while open, a mount whose process is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::mounted::{
    EXPORT, Mounted, Server, ServerProcess, example, held_port, options_for, possible, source,
    spawn,
};
use mount::{Mount, Source, Unmount};

fn hidden(folder: &Path) -> usize {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name());
    names
        .filter(|n| n.to_string_lossy().starts_with(".nfs"))
        .count()
}

#[test]
fn a_file_that_is_open_outlives_its_removal() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let (mounted, other) = (server.mount(""), server.mount("noac"));
    let path = mounted.path.join("f");
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .unwrap();
    file.write_all_at(b"before", 0).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    file.write_all_at(b"after", 6).unwrap();
    file.sync_all().unwrap();
    // SAFETY: a call on an open descriptor without pointers: the pages go, the data have to come
    // from the server.
    unsafe {
        use std::os::fd::AsRawFd;
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
    }
    let mut found = [0; 11];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"beforeafter");
    assert_eq!(hidden(&other.path), 1);
    let busy = fs::remove_file(
        fs::read_dir(&mounted.path)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path(),
    );
    assert_eq!(busy.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    drop(file);
    until(|| hidden(&other.path) == 0);
}

#[test]
fn a_file_that_is_open_outlives_a_rename_over_it() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("");
    let (old, new) = (mounted.path.join("old"), mounted.path.join("new"));
    fs::write(&old, "old").unwrap();
    fs::write(&new, "new").unwrap();
    let file = File::open(&old).unwrap();
    let again = File::open(&old).unwrap();
    fs::rename(&new, &old).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "new");
    drop(again);
    let mut text = String::new();
    (&file).read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), hidden(&mounted.path)), ("old", 1));
    drop(file);
    let other = server.mount("noac");
    until(|| hidden(&other.path) == 0);
}

/// Waits for something that another thread or process does; the loop has no limit of its own, the
/// test's has.
fn until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

/// Tries again while there are errors.
fn at_last<T, E>(mut tried: impl FnMut() -> Result<T, E>) -> T {
    loop {
        if let Ok(done) = tried() {
            return done;
        }
    }
}

/// Writers go on while the server is killed and comes back: nothing that fsync or close confirmed
/// may be missing, and nothing may have failed.
#[test]
fn a_hard_mount_waits_for_a_server_that_is_killed_and_loses_nothing() {
    let Some(program) = example("serve").filter(|_| possible()) else {
        return;
    };
    for more in ["", ",writeback"] {
        let options = format!("hard,timeo=5,wsize=16k,rsize=16k,nconnect=2{more}");
        kill_again_and_again(&program, &options);
    }
}

fn kill_again_and_again(program: &Path, options: &str) {
    let store = tempfile::tempdir().unwrap();
    let mut server = ServerProcess::start(program, store.path());
    let mounted = Mounted::new(server.port, options);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for writer in 0..3_u8 {
            let (path, ended) = (mounted.path.join(format!("w{writer}")), &ended);
            writers.push(scope.spawn(move || write_and_check(&path, writer, ended)));
        }
        for _ in 0..5 {
            // Some load first: until then the server has nothing to lose.
            let before = mounted.mount.client().figures().unwrap().0.answered;
            until(|| mounted.mount.client().figures().unwrap().0.answered > before + 200);
            server.kill();
            server.start_again();
        }
        ended.store(true, Ordering::Relaxed);
        for writer in writers {
            let rounds = writer.join().unwrap();
            assert!(rounds > 0);
        }
    });
    for writer in 0..3_u8 {
        // In the server's own folder, behind all caches.
        let here = fs::read(mounted.path.join(format!("w{writer}"))).unwrap();
        let there = fs::read(store.path().join(format!("w{writer}"))).unwrap();
        assert!(here == there && !here.is_empty());
    }
    let (counters, _) = mounted.mount.client().figures().unwrap();
    assert!(counters.disconnects >= 5, "it was killed: {counters:?}");
}

/// Rounds of writes, an fsync and a comparison; returns how many.
fn write_and_check(path: &Path, writer: u8, ended: &AtomicBool) -> u64 {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .unwrap();
    let mut rounds = 0;
    while !ended.load(Ordering::Relaxed) {
        let value = writer ^ u64::to_le_bytes(rounds)[0];
        let offset = rounds % 8 * 100_000;
        file.write_all_at(&vec![value; 100_000], offset).unwrap();
        file.sync_data().unwrap();
        let mut found = vec![0; 100_000];
        file.read_exact_at(&mut found, offset).unwrap();
        assert!(found.iter().all(|byte| *byte == value), "round {rounds}");
        rounds += 1;
    }
    rounds
}

#[test]
fn a_soft_mount_gives_errors_while_the_server_is_gone() {
    let Some(program) = example("serve").filter(|_| possible()) else {
        return;
    };
    let store = tempfile::tempdir().unwrap();
    for (options, errno) in [("soft", libc::EIO), ("softerr", libc::ETIMEDOUT)] {
        let mut server = ServerProcess::start(&program, store.path());
        // It gives up after 0.2 s, also where the server has no processor for so long: what is to
        // succeed is tried again then.
        let options = format!("{options},timeo=1,retrans=1,noac");
        let mounted = at_last(|| Mounted::tried(server.port, &options));
        let path = mounted.path.join("f");
        at_last(|| fs::write(&path, "x"));
        let file = at_last(|| OpenOptions::new().write(true).open(&path));
        server.kill();
        let failed = |result: std::io::Result<()>| {
            let got = result.unwrap_err().raw_os_error();
            assert_eq!(got, Some(errno), "{options}");
        };
        failed(fs::metadata(&path).map(drop));
        failed(file.write_all_at(b"y", 0));
        failed(
            fs::read_dir(&mounted.path)
                .and_then(|mut d| d.next().unwrap())
                .map(drop),
        );
        server.start_again();
        at_last(|| fs::metadata(&path));
        at_last(|| file.write_all_at(b"z", 0));
        drop(file);
        assert_eq!(at_last(|| fs::read_to_string(&path)), "z");
    }
}

/// A hard mount of a dead server holds its users until it is ended by force.
#[test]
fn a_mount_of_a_dead_server_can_be_removed() {
    let Some(program) = example("serve").filter(|_| possible()) else {
        return;
    };
    let store = tempfile::tempdir().unwrap();
    let mut server = ServerProcess::start(&program, store.path());
    let mounted = Mounted::new(server.port, "hard,noac,timeo=5");
    fs::write(mounted.path.join("f"), "x").unwrap();
    server.kill();
    let sent = mounted.mount.client().figures().unwrap().0.enqueued;
    std::thread::scope(|scope| {
        let path = mounted.path.join("f");
        let waits = scope.spawn(move || fs::read(path));
        until(|| mounted.mount.client().figures().unwrap().0.enqueued > sent);
        assert!(!waits.is_finished());
        mounted.mount.unmount(Unmount::Force).unwrap();
        let error = waits.join().unwrap().unwrap_err().raw_os_error();
        assert_eq!(error, Some(libc::EIO));
    });
    assert!(mounted.mount.wait(None));
    assert!(
        fs::read_dir(&mounted.path).unwrap().next().is_none(),
        "the folder below is back"
    );
}

#[test]
fn a_busy_mount_is_not_unmounted_and_nothing_else_is() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("");
    let file = File::create(mounted.path.join("f")).unwrap();
    assert!(mounted.mount.unmount(Unmount::Normal).is_err());
    assert!(!mounted.mount.wait(Some(Duration::ZERO)));
    // Another mount lies on top: it is not ours to unmount.
    let above = Mount::new(&source(), &mounted.path, &options_for(server.port, "")).unwrap();
    drop(file);
    at_last(|| above.unmount(Unmount::Normal));
    above.wait(None);
    drop(above);
    assert!(
        mounted.path.join("f").exists(),
        "the one below is still there"
    );
    // A child of another test has all files of this process open until it executes its program.
    at_last(|| mounted.mount.unmount(Unmount::Normal));
    mounted.mount.unmount(Unmount::Normal).unwrap();
}

#[test]
fn a_mount_whose_process_is_killed_leaves_nothing_that_hangs() {
    let (Some(program), true) = (example("mount"), possible()) else {
        return;
    };
    let server = Server::memory();
    let folder = tempfile::tempdir().unwrap();
    let mut process = spawn(
        Command::new(program)
            .arg(format!("127.0.0.1:{EXPORT}"))
            .arg(folder.path())
            .arg(options_for(server.port, "hard"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("vers=3,"), "{line}");
    let mut file = File::create(folder.path().join("f")).unwrap();
    file.write_all(b"closed is safe").unwrap();
    drop(file);
    process.kill().unwrap();
    process.wait().unwrap();
    let dead = fs::metadata(folder.path().join("f")).unwrap_err();
    assert_eq!(dead.raw_os_error(), Some(libc::ENOTCONN));
    let options = options_for(server.port, "");
    let again = Mount::new(&source(), folder.path(), &options)
        .unwrap_err()
        .to_string();
    assert!(again.contains("whose process is gone"), "{again}");
    mount::unmount(folder.path(), Unmount::Lazy).unwrap();
    let mounted = Mount::new(&source(), folder.path(), &options).unwrap();
    assert_eq!(
        fs::read(folder.path().join("f")).unwrap(),
        b"closed is safe"
    );
    at_last(|| mounted.unmount(Unmount::Normal));
    mounted.wait(None);
}

#[test]
fn what_cannot_be_mounted_is_said_in_one_line() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let folder = tempfile::tempdir().unwrap();
    let try_with = |source: &str, options: &str| {
        let source = Source::parse(source)?;
        Mount::new(&source, folder.path(), options).map(drop)
    };
    let said = |source: &str, options: &str| {
        let error = try_with(source, options).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let ports = options_for(server.port, "");
    assert!(
        said("127.0.0.1:/none", &ports).contains("MNT3ERR_"),
        "no such export"
    );
    assert!(said("nowhere", &ports).contains("HOST:/EXPORT"));
    // No name has such a part (RFC 1035 section 2.3.4): no name server is asked.
    let nowhere = format!("{}:/export", "a".repeat(64));
    assert!(said(&nowhere, &ports).contains("no address"));
    assert!(said("127.0.0.1:/export", "rsise=8k").contains("rsize"));
    assert!(said("127.0.0.1:/export", "vers=4").contains("version 3"));
    // A port where nobody listens, and one where no NFS server does.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
    });
    let wrong = said(
        "127.0.0.1:/export",
        &options_for(port, "soft,timeo=1,retrans=1"),
    );
    answering.join().unwrap();
    assert!(wrong.contains("mounting /export"), "{wrong}");
    // The other one's port may still be open: a process that is being forked has a copy of it.
    let (_holder, closed) = held_port();
    let refused = said("127.0.0.1:/export", &options_for(closed, "timeo=1"));
    assert!(refused.contains("refused"), "{refused}");
}
