//! What one client sees of another's changes (nfs(5): close-to-open), and what an option changes in
//! the calls that go to the server.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::mounted::{Server, no_forks, possible};
use server::protocol::ExportOptions;
use server::store::directory::{DirectoryOptions, DirectoryStore};
use wire::nfs3::procedure;

const GETATTR: usize = procedure::GETATTR as usize;
const ACCESS: usize = procedure::ACCESS as usize;
const READ: usize = procedure::READ as usize;
const WRITE: usize = procedure::WRITE as usize;
const COMMIT: usize = procedure::COMMIT as usize;
/// A folder: what is asked for as UNSTABLE is.
fn of_folder(folder: &Path) -> Server {
    let options = DirectoryOptions {
        stable_names: false,
        kernel_handles: true,
        instance: 1,
    };
    let store = DirectoryStore::open(folder, options).unwrap();
    Server::of(Arc::new(store), ExportOptions::default())
}

#[test]
fn an_open_sees_what_another_client_has_closed() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let (one, two) = (server.mount(""), server.mount(""));
    for round in 0..20 {
        let text = format!("round {round} {}", "x".repeat(round * 300));
        fs::write(one.path.join("f"), &text).unwrap();
        assert_eq!(fs::read_to_string(two.path.join("f")).unwrap(), text);
        // The same length: only the times tell.
        let other = text.replace("round", "ROUND");
        fs::write(two.path.join("f"), &other).unwrap();
        assert_eq!(fs::read_to_string(one.path.join("f")).unwrap(), other);
    }
}

/// A database asks for a table's end each time it extends it.
#[test]
fn the_end_of_a_file_is_known_without_sending_what_was_written() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let mounted = server.mount("");
    let path = mounted.path.join("f");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"so that it has attributes").unwrap();
    file.sync_all().unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    let sent = mounted.calls(WRITE);
    for page in 0..50_u64 {
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), (page * 8192).max(25));
        file.write_all_at(&[1; 8192], page * 8192).unwrap();
    }
    // All of it is less than wsize.
    assert!(mounted.calls(WRITE) <= sent + mounted.pushes());
    // stat(2) tells of what was written, hence it is sent (as Linux does in nfs_getattr).
    let found = fs::metadata(&path).unwrap();
    assert!(mounted.calls(WRITE) > sent);
    assert!(found.modified().unwrap() > before && found.len() == 50 * 8192);
    let seen = server.mount("");
    let there = fs::metadata(seen.path.join("f")).unwrap();
    assert_eq!(there.modified().unwrap(), found.modified().unwrap());
}

/// A database asks for a table's size with each statement.
#[test]
fn a_size_that_is_asked_for_again_and_again_is_kept_by_the_kernel() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    // A store that has to be told to commit: its data stay in the client's hands for long.
    let folder = tempfile::tempdir().unwrap();
    let server = of_folder(folder.path());
    let mounted = server.mount("acregmin=60");
    let mut file = File::create(mounted.path.join("f")).unwrap();
    file.write_all(&[1; 8192]).unwrap();
    file.sync_all().unwrap();
    let (sent, committed) = (mounted.calls(WRITE), mounted.calls(COMMIT));
    file.write_all_at(&[2; 8192], 8192).unwrap();
    while mounted.calls(WRITE) == sent {
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 16384);
    }
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 16384);
    let asked = mounted.mount.attributes_asked();
    for _ in 0..100 {
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 16384);
    }
    assert_eq!(mounted.mount.attributes_asked(), asked);
    assert_eq!(mounted.calls(COMMIT), committed, "nobody asked for that");
}

/// The name and the attributes are still believed: the open alone tells.
#[test]
fn an_open_sees_where_a_file_ends_now() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let one = server.mount("acregmin=60,acregmax=60,acdirmin=60,acdirmax=60");
    let two = server.mount("");
    fs::write(two.path.join("f"), "short").unwrap();
    assert_eq!(fs::read(one.path.join("f")).unwrap(), b"short");
    for length in [9, 3, 100_000, 0, 5000] {
        // In place, so that nothing of the directory changes.
        let file = OpenOptions::new()
            .write(true)
            .open(two.path.join("f"))
            .unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(&vec![b'x'; length], 0).unwrap();
        drop(file);
        let (stats, file) = (one.calls(GETATTR), File::open(one.path.join("f")).unwrap());
        assert_eq!(file.metadata().unwrap().len(), length as u64);
        assert_eq!(
            one.calls(GETATTR),
            stats,
            "the open brought the attributes along"
        );
        assert_eq!(fs::read(one.path.join("f")).unwrap(), vec![b'x'; length]);
    }
}

#[test]
fn pages_are_kept_over_a_close_while_nobody_else_writes() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let mounted = server.mount("");
    let path = mounted.path.join("f");
    let data = vec![7; 3 << 20];
    fs::write(&path, &data).unwrap();
    assert!(fs::read(&path).unwrap() == data);
    let before = mounted.bytes_in(READ);
    for _ in 0..3 {
        assert!(fs::read(&path).unwrap() == data);
        let file = OpenOptions::new().append(true).open(&path).unwrap();
        drop(file);
    }
    // Pages dropped at each open would be 9 MiB. A kernel that reclaims idle memory (DAMON) takes
    // single pages at any time.
    let again = mounted.bytes_in(READ) - before;
    assert!(again < 3 << 20, "the page cache has it, but {again} bytes");
    let before = mounted.calls(READ);
    let other = server.mount("");
    fs::write(other.path.join("f"), vec![8; 3 << 20]).unwrap();
    assert_eq!(fs::read(&path).unwrap()[..2], [8, 8]);
    assert!(mounted.calls(READ) > before);
}

/// WRITEs side by side: what each reply says of the file before it is not what the last one said.
#[test]
fn own_writes_side_by_side_are_not_taken_for_anothers() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::unordered();
    let mounted = server.mount("wsize=64k");
    let path = mounted.path.join("f");
    let mut file = File::create(&path).unwrap();
    for page in 0..1024_u64 {
        file.write_all_at(&[2; 16 << 10], page << 14).unwrap();
        // Looked at while WRITEs are on their way.
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), (page + 1) << 14);
    }
    drop(file);
    let sent = mounted.calls(WRITE);
    assert!(sent >= 256, "{sent}");
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 2));
    // Dropped pages would come back by the megabyte; single ones the kernel reclaims at any time.
    let again = mounted.bytes_in(READ);
    assert!(again < 64 << 12, "the page cache has it, but {again} bytes");
    // Somebody else's writes are seen, also while the file is open for writing here.
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    let other = server.mount("");
    fs::write(other.path.join("f"), vec![3; 16 << 20]).unwrap();
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 3));
    drop(file);
}

#[test]
fn with_noac_an_open_file_is_seen_to_change() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let (one, two) = (server.mount("noac"), server.mount("noac"));
    fs::write(one.path.join("f"), "0000").unwrap();
    let reader = File::open(two.path.join("f")).unwrap();
    let writer = OpenOptions::new()
        .write(true)
        .open(one.path.join("f"))
        .unwrap();
    for round in 0..50 {
        let text = format!("{round:04}{}", "y".repeat(round));
        writer.write_all_at(text.as_bytes(), 0).unwrap();
        let mut found = vec![0; 100];
        let length = reader.read_at(&mut found, 0).unwrap();
        assert_eq!(String::from_utf8_lossy(&found[..length]), text);
        let size = fs::metadata(two.path.join("f")).unwrap().len();
        assert_eq!(size, text.len() as u64);
    }
}

#[test]
fn attributes_are_believed_for_their_time_and_not_at_all_with_noac() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    for (options, asks) in [
        ("acregmin=60,acregmax=60,acdirmin=60", false),
        ("noac", true),
    ] {
        let mounted = server.mount(options);
        let path = mounted.path.join("f");
        fs::write(&path, "x").unwrap();
        fs::metadata(&path).unwrap();
        let before = mounted.calls(GETATTR) + mounted.calls(procedure::LOOKUP as usize);
        for _ in 0..10 {
            fs::metadata(&path).unwrap();
        }
        let after = mounted.calls(GETATTR) + mounted.calls(procedure::LOOKUP as usize);
        assert_eq!(after - before >= 10, asks, "{options}: {before} to {after}");
        assert_eq!(after == before, !asks, "{options}: {before} to {after}");
    }
}

#[test]
fn opens_ask_the_server_and_with_nocto_they_do_not() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    for (options, asks) in [("", 10), ("nocto,acregmin=60", 0)] {
        let mounted = server.mount(options);
        let path = mounted.path.join("f");
        fs::write(&path, "x").unwrap();
        fs::read(&path).unwrap();
        let before = mounted.calls(ACCESS);
        for _ in 0..10 {
            drop(File::open(&path).unwrap());
        }
        assert_eq!(mounted.calls(ACCESS) - before, asks, "{options}");
    }
}

#[test]
fn small_writes_become_writes_of_wsize_and_are_stable_after_close() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    for (options, writes) in [("wsize=64k", 16), ("wsize=1m", 1), ("wsize=8k", 128)] {
        let mounted = server.mount(options);
        let mut file = File::create(mounted.path.join("f")).unwrap();
        for _ in 0..1024 {
            file.write_all(&[1; 1024]).unwrap();
        }
        drop(file);
        // One more for each that was sent before it was full.
        let most = writes + mounted.pushes();
        let sent = mounted.calls(WRITE);
        assert!((writes..=most).contains(&sent), "{options}: {sent} {most}");
        assert!(mounted.calls(COMMIT) <= 1, "{options}");
    }
}

#[test]
fn a_single_small_write_needs_no_commit() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let mounted = server.mount("");
    let file = File::create(mounted.path.join("f")).unwrap();
    for round in 1..=5 {
        file.write_all_at(b"log record", round * 10).unwrap();
        file.sync_data().unwrap();
        assert_eq!(mounted.calls(WRITE), round);
        assert!(mounted.calls(COMMIT) <= mounted.pushes());
    }
}

#[test]
fn young_data_wait_for_their_sync_however_often_the_file_is_open() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let folder = tempfile::tempdir().unwrap();
    let server = of_folder(folder.path());
    let mounted = server.mount("");
    let path = mounted.path.join("f");
    let file = File::create(&path).unwrap();
    let _more = [(); 3].map(|()| OpenOptions::new().write(true).open(&path).unwrap());
    for round in 0..20 {
        file.write_all_at(b"log record", round * 10).unwrap();
        mounted.mount.send_old_data();
        file.sync_data().unwrap();
    }
    // The mount may have looked in between by itself.
    assert!(mounted.calls(COMMIT) <= 1 + mounted.pushes());
    let before = mounted.calls(COMMIT);
    // No log any more: the second write is not synced first.
    file.write_all_at(b"log record", 0).unwrap();
    file.write_all_at(b"log record", 10).unwrap();
    mounted.mount.send_old_data();
    mounted.mount.send_old_data();
    file.sync_data().unwrap();
    assert!(mounted.calls(COMMIT) > before, "old data were sent before");
}

/// What fdatasync leaves of a file's attributes is no matter of close, be it of a child's copy.
#[test]
fn attributes_are_committed_by_fsync_and_not_by_close() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let folder = tempfile::tempdir().unwrap();
    let server = of_folder(folder.path());
    let mounted = server.mount("");
    let file = File::create(mounted.path.join("f")).unwrap();
    file.write_all_at(b"log record", 0).unwrap();
    file.sync_data().unwrap();
    drop(file.try_clone().unwrap());
    assert_eq!((mounted.calls(WRITE), mounted.calls(COMMIT)), (1, 0));
    file.sync_all().unwrap();
    assert_eq!((mounted.calls(WRITE), mounted.calls(COMMIT)), (1, 1));
    file.sync_all().unwrap();
    assert_eq!(mounted.calls(COMMIT), 1);
}

#[test]
fn sync_and_o_sync_and_o_direct_are_stable_when_they_return() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let synced = server.mount("sync");
    let file = File::create(synced.path.join("f")).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    assert_eq!((synced.calls(WRITE), synced.calls(COMMIT)), (1, 0));
    for flags in [libc::O_SYNC, libc::O_DSYNC, libc::O_DIRECT] {
        let mounted = server.mount("");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = options
            .custom_flags(flags)
            .open(mounted.path.join("g"))
            .unwrap();
        let bytes = vec![3_u8; 8192];
        let block = bytes.as_ptr().align_offset(4096);
        file.write_all_at(&bytes[block..block + 4096], 0).unwrap();
        let second = server.mount("");
        let found = fs::read(second.path.join("g")).unwrap();
        assert_eq!(
            found.len(),
            4096,
            "{flags:#o}: the server has it before the close"
        );
        drop(file);
    }
}

#[test]
fn reads_are_as_long_as_rsize_says() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let writer = server.mount("");
    fs::write(writer.path.join("f"), vec![5; 8 << 20]).unwrap();
    for (options, most) in [("rsize=1m", 12), ("rsize=64k", 140)] {
        let mounted = server.mount(options);
        let mut all = Vec::new();
        File::open(mounted.path.join("f"))
            .unwrap()
            .read_to_end(&mut all)
            .unwrap();
        assert_eq!(all.len(), 8 << 20);
        let reads = mounted.calls(READ);
        assert!(reads <= most, "{options}: {reads} READs of 8 MiB");
    }
}

#[test]
fn a_size_that_was_written_is_seen_before_the_server_knows_it() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    let server = Server::memory();
    let mounted = server.mount("actimeo=0");
    let path = mounted.path.join("f");
    let mut file = File::create(&path).unwrap();
    for round in 1..=200_u64 {
        file.write_all(&[1; 333]).unwrap();
        // Looked up by another name, the attributes come from LOOKUP.
        let link = mounted.path.join(format!("l{round}"));
        fs::hard_link(&path, &link).unwrap();
        assert_eq!(fs::metadata(&link).unwrap().len(), round * 333);
        let listed = fs::read_dir(&mounted.path).unwrap();
        assert!(listed.count() > 0);
        assert_eq!(fs::metadata(&path).unwrap().len(), round * 333);
        assert_eq!(fs::read(&path).unwrap().len() as u64, round * 333);
    }
}

#[test]
fn two_users_of_a_file_see_each_others_bytes() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    for options in ["", "writeback"] {
        two_users_write(options);
    }
}

fn two_users_write(options: &str) {
    let server = Server::memory();
    let mounted = server.mount(options);
    let path = mounted.path.join("f");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let mine = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    // Another user's open file; its data path is another one.
    let theirs = as_user(4711, || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap()
    });
    for round in 0..100_u64 {
        mine.write_all_at(&[b'm'; 100], round * 150).unwrap();
        theirs.write_all_at(&[b't'; 100], round * 150 + 50).unwrap();
        let mut found = [0; 150];
        mine.read_exact_at(&mut found, round * 150).unwrap();
        assert_eq!(
            (&found[..50], &found[50..]),
            (&[b'm'; 50][..], &[b't'; 100][..])
        );
    }
    let made = as_user(4711, || {
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
    });
    assert_eq!(
        made.unwrap_err().raw_os_error(),
        Some(libc::EPERM),
        "it is not theirs"
    );
    // The server lets the owner alone set times: that is no error of the other's data.
    theirs.sync_all().unwrap();
    drop((mine, theirs));
    assert_eq!(fs::read(&path).unwrap().len(), 99 * 150 + 150);
}

/// Runs something with another file system user, in this thread.
fn as_user<T: Send>(user: u32, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            // SAFETY: setfsuid(2) and setfsgid(2) change the calling thread only.
            unsafe {
                libc::setfsgid(user);
                libc::setfsuid(user);
            }
            run()
        });
        inside.join().unwrap()
    })
}

#[test]
fn files_belong_to_whoever_makes_them() {
    if !possible() {
        return;
    }
    let _counts_are_ours = no_forks();
    use std::os::unix::fs::MetadataExt;
    let server = Server::memory();
    let mounted = server.mount("");
    let folder = mounted.path.join("open");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    as_user(4711, || fs::write(folder.join("theirs"), "x")).unwrap();
    let found = fs::metadata(folder.join("theirs")).unwrap();
    assert_eq!((found.uid(), found.gid()), (4711, 4711));
    fs::write(folder.join("mine"), "x").unwrap();
    fs::set_permissions(
        folder.join("mine"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let refused = as_user(4711, || fs::read(folder.join("mine")));
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EACCES));
}
