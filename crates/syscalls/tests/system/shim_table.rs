//! A program whose calls are known (`programs/known.c`), seen through the preload shim: it must give
//! the table below, which was counted by hand from the program's source.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::programs::folder_with;
use syscalls::record::{CountRecord, FileRecord, NO_FILE};
use syscalls::shim::ShimRecords;
use syscalls::tally::{Level, Options, Taken};

/// file call calls errors bytes first/sequential/rewrite/forward/backward. "data" is used twice.
const TABLE: &str = "
    - msync 1 0 0 0/0/0/0/0
    - open 1 1 0 0/0/0/0/0
    - rename 1 1 0 0/0/0/0/0
    - sync 1 0 0 0/0/0/0/0
    - unlink 1 1 0 0/0/0/0/0
    . fsync 1 0 0 0/0/0/0/0
    append close 2 0 0 0/0/0/0/0
    append open 1 0 0 0/0/0/0/0
    append write 3 0 33 1/2/0/0/0
    child fdatasync 1 0 0 0/0/0/0/0
    child open 1 0 0 0/0/0/0/0
    child write 1 0 30 1/0/0/0/0
    data close 3 0 0 0/0/0/0/0
    data fdatasync 1 0 0 0/0/0/0/0
    data fsync 2 0 0 0/0/0/0/0
    data lseek 2 0 0 0/0/0/0/0
    data open 1 0 0 0/0/0/0/0
    data pread64 2 0 107 0/1/0/0/1
    data preadv 2 0 256 0/1/1/0/0
    data pwrite64 4 0 9212 0/1/1/1/1
    data pwritev 1 0 128 0/0/0/0/1
    data read 2 0 16384 1/1/0/0/0
    data readv 1 0 128 0/0/0/1/0
    data rename 1 0 0 0/0/0/0/0
    data sync_file_range 1 0 0 0/0/0/0/0
    data unlink 1 0 0 0/0/0/0/0
    data write 6 0 32778 1/4/0/1/0
    data writev 1 0 128 0/0/0/1/0
    data' close 1 0 0 0/0/0/0/0
    data' open 1 0 0 0/0/0/0/0
    data' write 1 0 77 1/0/0/0/0
    durable close 1 0 0 0/0/0/0/0
    durable open 1 0 0 0/0/0/0/0
    durable pwrite64 1 0 200 0/1/0/0/0
    durable write 1 0 100 1/0/0/0/0
    from close 1 0 0 0/0/0/0/0
    from copy_file_range 1 0 40 0/1/0/0/0
    from mmap 1 0 0 0/0/0/0/0
    from open 1 0 0 0/0/0/0/0
    from pwrite64 1 0 4096 1/0/0/0/0
    from sendfile 5 1 540 1/2/1/0/0
    from splice 1 0 20 0/0/0/0/1
    shared close 1 0 0 0/0/0/0/0
    shared open 1 0 0 0/0/0/0/0
    shared write 3 0 60 1/2/0/0/0
    space close 2 0 0 0/0/0/0/0
    space fallocate 1 0 0 0/0/0/0/0
    space ftruncate 2 0 0 0/0/0/0/0
    space mmap 1 0 0 0/0/0/0/0
    space open 2 0 0 0/0/0/0/0
    space pread64 1 1 0 0/0/0/0/0
    space read 2 0 6000 1/1/0/0/0
    space sync 1 0 0 0/0/0/0/0
    space write 1 1 0 0/0/0/0/0
    started fsync 1 0 0 0/0/0/0/0
    started open 1 0 0 0/0/0/0/0
    started write 1 0 40 1/0/0/0/0
    synced close 1 0 0 0/0/0/0/0
    synced open 1 0 0 0/0/0/0/0
    synced sendfile_to 1 0 30 1/0/0/0/0
    thread close 1 0 0 0/0/0/0/0
    thread fsync 1 0 0 0/0/0/0/0
    thread open 1 0 0 0/0/0/0/0
    thread write 3 0 3000 1/2/0/0/0
    to close 1 0 0 0/0/0/0/0
    to copy_file_range_to 1 0 40 0/0/0/1/0
    to open 1 0 0 0/0/0/0/0
    to sendfile_to 1 0 10 1/0/0/0/0
    to splice_to 1 0 20 0/0/0/0/1
";

/// call synchronous file offset size: each call that makes bytes durable, in its order.
const SYNCS: &str = "
    fsync false data - -
    fdatasync false data - -
    sync_file_range false data 4096 8192
    pwritev true data 200 128
    fsync false data - -
    write true durable 0 100
    pwrite64 true durable 100 200
    sync false space - -
    fsync false . - -
    sendfile_to true synced 0 30
    msync false - - -
    fdatasync false child - -
    fsync false started - -
    fsync false thread - -
    sync false - - -
";

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The name of each file in the folder: its first one, with a mark if another one had it before.
fn names(files: &[FileRecord], folder: &Path) -> BTreeMap<u32, String> {
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for file in files {
        let path = String::from_utf8_lossy(&file.path).into_owned();
        let within = Path::new(&path).strip_prefix(folder).ok();
        let name = match within.map(|rest| rest.to_str().unwrap()) {
            Some("") => ".",
            Some(rest) => rest,
            None => continue,
        };
        if names.contains_key(&file.file_id) {
            continue;
        }
        let taken = names.values().any(|known| known == name);
        names.insert(
            file.file_id,
            format!("{name}{}", if taken { "'" } else { "" }),
        );
    }
    names.insert(NO_FILE, "-".to_owned());
    names
}

fn table(counts: &[CountRecord], names: &BTreeMap<u32, String>) -> Vec<String> {
    let row = |row: &CountRecord| {
        let places = row.places.map(|count| count.to_string()).join("/");
        let name = names.get(&row.file_id)?;
        let (calls, errors, bytes) = (row.calls, row.errors, row.bytes);
        Some(format!(
            "{name} {} {calls} {errors} {bytes} {places}",
            row.call.name()
        ))
    };
    let mut rows: Vec<_> = counts.iter().filter_map(row).collect();
    rows.sort();
    rows
}

fn syncs(taken: &Taken, names: &BTreeMap<u32, String>) -> Vec<String> {
    let shown = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let mut rows = taken.syncs.clone();
    rows.sort_by_key(|row| row.start_ns);
    let row = |row: &syscalls::record::SyncRecord| {
        let name = names.get(&row.file_id)?;
        let (call, offset, size) = (row.call.name(), shown(row.offset), shown(row.size));
        Some(format!("{call} {} {name} {offset} {size}", row.synchronous))
    };
    rows.iter().filter_map(row).collect()
}

fn options() -> Options {
    Options {
        lseek: true,
        ..Options::new(Level::Events)
    }
}

#[test]
fn the_shim_gives_the_table() {
    let Some((_folder, root)) = folder_with("known") else {
        return;
    };
    let program = root.join("known");
    let data = root.join("data");
    std::fs::create_dir(&data).unwrap();
    let shim = ShimRecords::new(&root, options()).unwrap();
    let done = Command::new(&program)
        .arg(&data)
        .envs(shim.environment())
        .status();
    assert_eq!(
        done.unwrap().code(),
        Some(0),
        "results and errno are as without the shim"
    );
    let taken = shim.take();
    let names = names(&taken.files, &data);
    assert_eq!(table(&shim.counts(), &names), lines(TABLE));
    assert_eq!(syncs(&taken, &names), lines(SYNCS));
    let figures = shim.figures();
    // The program, and itself started anew; two children, of which one is that.
    assert_eq!((figures.processes, figures.forks), (2, 2), "{figures:?}");
    let lost = figures.lost;
    assert_eq!(
        (lost.syncs, lost.events, lost.names, lost.uncounted),
        (0, 0, 0, 0)
    );
    assert_eq!(
        (figures.torn, figures.not_understood),
        (0, 0),
        "{figures:?}"
    );
    // The thread's calls are of the first process.
    let pid = taken.syncs[0].pid;
    let thread = taken.syncs.iter().find(|row| row.tid != row.pid).unwrap();
    assert_eq!(thread.pid, pid);
    assert!(
        taken
            .syncs
            .iter()
            .all(|row| row.latency_ns > 0 && row.result >= 0)
    );
}

#[test]
fn levels_leave_out_what_is_not_asked_for() {
    let Some((_folder, root)) = folder_with("known") else {
        return;
    };
    let program = root.join("known");
    for level in [Level::Sync, Level::Counts] {
        let data = root.join(format!("{level:?}"));
        std::fs::create_dir(&data).unwrap();
        let shim = ShimRecords::new(&data, Options::new(level)).unwrap();
        let done = Command::new(&program)
            .arg(&data)
            .envs(shim.environment())
            .status();
        assert!(done.unwrap().success());
        let taken = shim.take();
        let names = names(&taken.files, &data);
        assert_eq!(syncs(&taken, &names), lines(SYNCS), "{level:?}");
        assert!(taken.events.is_empty());
        assert_eq!(taken.names.is_empty(), level == Level::Sync);
        let calls: u64 = shim.counts().iter().map(|row| row.calls).sum();
        if level == Level::Sync {
            assert_eq!(calls, 15, "the calls of the list, no more");
        }
        assert!(
            shim.counts()
                .iter()
                .all(|row| row.call != syscalls::record::Call::Lseek)
        );
    }
}
