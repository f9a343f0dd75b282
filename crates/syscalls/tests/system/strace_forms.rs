//! Forms of strace's and perf trace's text that are hard to provoke, written by hand after the
//! documentation of strace 6.1 (strace(1), sections "DESCRIPTION" and "OPTIONS") and what it was
//! seen to write; what the records must be was worked out by hand.

use syscalls::record::{AccessRecord, Call, NO_FILE};
use syscalls::strace::{Clock, LINE_MAX, NotATrace, PENDING_BYTES_MAX, StraceReader};
use syscalls::tally::{Level, Options, Taken};

fn read(text: &str) -> (StraceReader, Taken) {
    let mut reader = StraceReader::new(Options::new(Level::Events));
    reader.feed(text.as_bytes()).unwrap();
    reader.end().unwrap();
    let taken = reader.take();
    (reader, taken)
}

fn offsets(taken: &Taken) -> Vec<Option<u64>> {
    taken.events.iter().map(|row| row.offset).collect()
}

fn path_of(taken: &Taken, file_id: u32) -> String {
    let named = taken.files.iter().find(|file| file.file_id == file_id);
    named.map_or("?".to_owned(), |file| {
        String::from_utf8_lossy(&file.path).into_owned()
    })
}

#[test]
fn a_line_with_everything() {
    let (reader, taken) = read(
        "12    1700000000.000001 pwrite64(7</a/we\\74ird\\76 \\\"n\\\"\\n\\303\\251>(deleted), \"x)\\\", 1) = 9\"..., 8192, 16384) = 4096 <0.000123>\n",
    );
    let row = AccessRecord {
        start_ns: 1_700_000_000_000_001_000,
        latency_ns: 123_000,
        pid: 12,
        tid: 12,
        call: Call::Pwrite,
        file_id: 0,
        offset: Some(16384),
        size: 8192,
        result: 4096,
    };
    assert_eq!(taken.events, [row]);
    assert_eq!(path_of(&taken, 0), "/a/we<ird> \"n\"\né");
    assert_eq!(reader.clock(), Clock::Epoch);
    assert_eq!(reader.figures().unknown_flags, 1, "its open was not seen");
}

#[test]
fn errors_restarts_signals_and_exits() {
    let (reader, taken) = read(
        "\
1 1.5 openat(AT_FDCWD</d>, \"x\", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000010>
1 1.6 --- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---
1 1.7 read(3</d/f>, 0x7f, 10)         = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.5>
1 1.8 fsync(3</d/f>)                  = -1 EIO (Input/output error) <0.000007>
1 1.8 fsync(3</d/f>)                  = -1 ENOSUCHTHING (?) <0.000007>
1 1.9 write(3</d/f>, \"a\", 1 <unfinished ...>
1 2.0 +++ killed by SIGKILL +++
2 2.1 <... write resumed>)            = 1 <0.000001>
2 2.2 exit_group(0)                   = ?
2 2.3 read(4</d/g>,  <unfinished ...>
",
    );
    let figures = reader.figures();
    assert_eq!((figures.lines, figures.not_understood), (10, 0));
    assert_eq!(
        (
            figures.unfinished,
            figures.without_start,
            figures.interrupted
        ),
        (2, 1, 1)
    );
    let results: Vec<i64> = taken.syncs.iter().map(|row| row.result).collect();
    assert_eq!(results, [-i64::from(libc::EIO), -4095]);
    let open = reader
        .tally()
        .counts()
        .iter()
        .find(|row| row.call == Call::Open)
        .unwrap();
    assert_eq!((open.file_id, open.calls, open.errors), (NO_FILE, 1, 1));
    assert!(
        taken.events.is_empty(),
        "nothing that did not return is counted"
    );
}

#[test]
fn unfinished_calls_keep_their_beginning_and_their_thread() {
    let (_, taken) = read(
        "\
[pid  5] 10.000000 read(3</f>,  <unfinished ...>
[pid  6] 10.000001 pread64(4</g>, \"\", 8, 0) = 0 <0.000001>
[pid  5] 10.000500 <... read resumed>\"ab\\\", \", 4096) = 2 <0.000480>
",
    );
    assert_eq!(taken.events.len(), 2);
    let row = taken.events[1];
    assert_eq!((row.start_ns, row.latency_ns), (10_000_000_000, 480_000));
    assert_eq!((row.tid, row.size, row.result), (5, 4096, 2));
    assert!(row.start_ns < taken.events[0].start_ns);
}

#[test]
fn positions_are_followed_and_never_guessed() {
    let open = "1 openat(AT_FDCWD, \"/f\", O_RDWR) = 3\n";
    let (_, taken) = read(&format!(
        "\
{open}1 read(3, \"\", 10) = 10
1 read(3, \"\", 10) = -1 EINTR (Interrupted system call)
1 write(3, \"\", 5) = 5
1 lseek(3, -5, SEEK_END) = 95
1 dup(3) = 4
1 read(4, \"\", 10) = 5
1 fcntl(4, F_DUPFD_CLOEXEC, 10) = 10
1 sendfile(1, 10, NULL, 4096) = 100
1 read(3, \"\", 10) = 5
1 _llseek(10, 7, [7], SEEK_SET) = 0
1 read(3, \"\", 10) = 5
1 lseek(10, 0, SEEK_SET) = 0
1 close(3) = 0
1 read(10, \"\", 10) = 5
1 close_range(4, 4294967295, 0) = 0
1 read(10, \"\", 10) = 5
"
    ));
    assert_eq!(
        offsets(&taken),
        [
            Some(0),
            Some(10),
            Some(10),
            Some(95),
            Some(100),
            Some(200),
            None,
            Some(0)
        ]
    );
    let (reader, taken) = read(
        "\
1 open(\"/f\", O_WRONLY|O_APPEND) = 3
1 write(3, \"\", 10) = 10
1 lseek(3, 0, SEEK_CUR) = 10
1 write(3, \"\", 10) = 10
1 read(9, \"\", 10) = 10
",
    );
    assert_eq!(
        offsets(&taken),
        [None, None],
        "the end of a file is not known"
    );
    assert_eq!(reader.figures().unknown_descriptors, 1);
    assert_eq!(reader.figures().without_place, 2);
}

#[test]
fn calls_that_overlap_on_one_description_have_no_place() {
    let (_, taken) = read(
        "\
1 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, exit_signal=0}, 88) = 2
1 openat(AT_FDCWD, \"/f\", O_RDONLY) = 3
1 openat(AT_FDCWD, \"/f\", O_RDONLY) = 4
1 read(3,  <unfinished ...>
2 read(3,  <unfinished ...>
2 read(4, \"\", 7) = 7
2 <... read resumed>\"\", 10) = 10
1 <... read resumed>\"\", 10) = 10
2 read(3, \"\", 10) = 10
",
    );
    assert_eq!(taken.events.len(), 4);
    assert!(taken.events.iter().all(|row| row.file_id == 0));
    assert_eq!(
        offsets(&taken)[1..3],
        [None, None],
        "which came first is not known"
    );
    // Another description of the file has its own place; both reads together moved 20 bytes.
    assert_eq!(
        (offsets(&taken)[0], offsets(&taken)[3]),
        (Some(0), Some(20))
    );
    assert_eq!(taken.events[1].pid, 1, "a thread of the first process");
}

#[test]
fn children_share_positions_and_strangers_make_them_doubtful() {
    let (_, taken) = read(
        "\
1 openat(AT_FDCWD, \"/f\", O_RDWR) = 3</f>
1 write(3</f>, \"\", 10) = 10
1 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>
2 write(3</f>, \"\", 10) = 10
1 <... clone resumed>, child_tidptr=0x7f) = 2
1 write(3</f>, \"\", 10) = 10
2 close(3</f>) = 0
1 write(3</f>, \"\", 10) = 10
9 write(3</f>, \"\", 10) = 10
1 write(3</f>, \"\", 10) = 10
1 lseek(3</f>, 7, SEEK_SET) = 7
1 write(3</f>, \"\", 10) = 10
9 lseek(3</f>, 0, SEEK_SET) = 0
1 write(3</f>, \"\", 10) = 10
9 write(3</f>, \"\", 10) = 10
",
    );
    let known = [
        Some(0),
        Some(10),
        Some(20),
        Some(30),
        None,
        None,
        Some(7),
        None,
        None,
    ];
    assert_eq!(offsets(&taken), known, "thread 9 may be one of process 1");
}

#[test]
fn without_paths_a_stranger_makes_descriptors_unknown() {
    let (reader, taken) = read(
        "\
1 openat(AT_FDCWD, \"/f\", O_RDWR) = 3
1 fsync(3) = 0
9 openat(AT_FDCWD, \"/g\", O_RDWR) = 3
1 fsync(3) = 0
9 fsync(3) = 0
1 write(3, \"\", 10) = 10
",
    );
    let files: Vec<u32> = taken.syncs.iter().map(|row| row.file_id).collect();
    assert_eq!(files[1], NO_FILE, "it may be /f or /g");
    assert_eq!(path_of(&taken, files[0]), "/f");
    assert_eq!(path_of(&taken, files[2]), "/g");
    assert_eq!(reader.figures().unknown_descriptors, 1);
}

#[test]
fn a_file_keeps_its_number_through_renames_and_a_new_one_gets_another() {
    let (_, taken) = read(
        "\
1 chdir(\"/data\") = 0
1 openat(AT_FDCWD, \"tmp\", O_RDWR|O_CREAT, 0600) = 3
1 fsync(3) = 0
1 rename(\"tmp\", \"pg_wal/1\") = 0
1 openat(AT_FDCWD, \"./pg_wal/1\", O_RDWR) = 4
1 fsync(4) = 0
1 openat(AT_FDCWD, \"tmp\", O_RDWR|O_CREAT, 0600) = 5
1 fsync(5) = 0
1 renameat2(AT_FDCWD, \"/data/tmp\", AT_FDCWD, \"/data/pg_wal/1\", RENAME_EXCHANGE) = 0
1 openat(AT_FDCWD, \"/data/tmp\", O_RDWR) = 6
1 fsync(6) = 0
1 unlink(\"/data/tmp\") = 0
1 openat(AT_FDCWD, \"/data/tmp\", O_RDWR|O_CREAT) = 7
1 fsync(7) = 0
1 fsync(3</data/tmp>(deleted)) = 0
",
    );
    let files: Vec<u32> = taken.syncs.iter().map(|row| row.file_id).collect();
    assert_eq!(files, [0, 0, 1, 0, 2, 0]);
    let names: Vec<String> = taken
        .files
        .iter()
        .map(|file| format!("{} {}", file.file_id, String::from_utf8_lossy(&file.path)))
        .collect();
    let expected = [
        "0 /data/tmp",
        "0 /data/pg_wal/1",
        "1 /data/tmp",
        "1 /data/pg_wal/1",
        "0 /data/tmp",
        "2 /data/tmp",
    ];
    assert_eq!(names, expected);
    assert_eq!(taken.names[0].path, b"/data/tmp");
    assert_eq!(
        taken.names[0].new_path.as_deref(),
        Some(b"/data/pg_wal/1".as_slice())
    );
}

#[test]
fn vectors_flags_and_synchronous_writes() {
    let (_, taken) = read(
        "\
1 openat(AT_FDCWD, \"/s\", O_WRONLY|O_DSYNC) = 3
1 openat(AT_FDCWD, \"/t\", O_WRONLY|O_DIRECT) = 4
1 writev(3, [{iov_base=\", iov_len=9\", iov_len=11}, {iov_base=\"b\"..., iov_len=100}], 2) = 50
1 pwritev2(4, [{iov_base=\"a\", iov_len=1}, ...], 20, 4096, RWF_SYNC) = 7
1 pwritev(4, [{iov_base=\"a\", iov_len=1}], 1, 0) = 1
1 preadv2(4, [{iov_base=\"a\", iov_len=8}], 1, -1, RWF_NOWAIT) = 8
1 sync_file_range(4, 8192, 4096, SYNC_FILE_RANGE_WRITE) = 0
",
    );
    let sizes: Vec<u64> = taken.events.iter().map(|row| row.size).collect();
    assert_eq!(
        sizes,
        [111, 7, 1, 8],
        "parts that were not printed: what was written"
    );
    assert_eq!(offsets(&taken), [Some(0), Some(4096), Some(0), Some(0)]);
    let syncs: Vec<_> = taken
        .syncs
        .iter()
        .map(|row| (row.call, row.synchronous, row.size))
        .collect();
    assert_eq!(
        syncs,
        [
            (Call::Writev, true, Some(111)),
            (Call::Pwritev, true, None),
            (Call::SyncFileRange, false, Some(4096)),
        ]
    );
}

#[test]
fn what_is_no_file_is_left_out() {
    let (reader, taken) = read(
        "\
1 read(3<socket:[17]>, \"\", 10) = 10
1 read(4<TCP:[127.0.0.1:5432->127.0.0.1:40000]>, \"a>b\", 10) = 3
1 write(5<pipe:[9]>, \"\", 10) = 10
1 write(6</dev/null<char 1:3>>, \"\", 10) = 10
1 write(1</dev/pts/0>, \"\", 10) = 10
1 read(7<anon_inode:[eventpoll]>, \"\", 10) = 8
1 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS|21<<MAP_HUGE_SHIFT, -1, 0) = 0x7f00
1 fsync(8</dev/sda<block 8:0>>) = 0
1 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 9</f>, 0) = 0x7f00
1 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 9</f>, 0) = -1 ENODEV (No such device)
",
    );
    assert!(taken.events.is_empty());
    assert_eq!(path_of(&taken, taken.syncs[0].file_id), "/dev/sda");
    let rows: Vec<_> = reader
        .tally()
        .counts()
        .iter()
        .map(|row| (row.call, row.calls, row.errors))
        .collect();
    assert_eq!(rows, [(Call::Fsync, 1, 0), (Call::Mmap, 2, 1)]);
    assert_eq!(reader.figures().not_understood, 0);
}

#[test]
fn clocks_are_told_apart() {
    let times = |text: &str| -> (Clock, Vec<u64>) {
        let (reader, taken) = read(text);
        (
            reader.clock(),
            taken.syncs.iter().map(|row| row.start_ns).collect(),
        )
    };
    const HOUR_NS: u64 = 3_600_000_000_000;
    assert_eq!(
        times("23:59:59.5 fsync(3</f>) = 0\n00:00:00.25 fsync(3</f>) = 0\n"),
        (
            Clock::OfDay,
            vec![24 * HOUR_NS - 500_000_000, 24 * HOUR_NS + 250_000_000]
        ),
    );
    assert_eq!(
        times(
            "     0.000000 fsync(3</f>) = 0\n     0.000250 fsync(3</f>) = 0\n     1.5 fsync(3</f>) = 0\n"
        ),
        (Clock::Relative, vec![0, 250_000, 1_500_250_000]),
    );
    assert_eq!(
        times("1700000000.123456789 fsync(3</f>) = 0\n"),
        (Clock::Epoch, vec![1_700_000_000_123_456_789]),
    );
    assert_eq!(
        times(
            "[pid 7] 10:00:00.000001 (+     0.000000) [  74] [00007f9f69c1cad7] fsync(3</f>) = 0\n"
        ),
        (Clock::OfDay, vec![10 * HOUR_NS + 1000]),
    );
    assert_eq!(times("fsync(3</f>) = 0\n"), (Clock::None, vec![0]));
}

#[test]
fn lines_of_perf_trace() {
    let (reader, taken) = read("\
         ? (         ): postgres: wal/40 ... [continued]: epoll_wait()) = 1
     0.100 ( 0.002 ms): postgres: (a b/40 openat(dfd: CWD, filename: \"/d/f\", flags: RDWR|DSYNC) = 5
     0.200 ( 0.010 ms): postgres/40 pwrite64(fd: 5</late>, buf: 0x7f, count: 8192)      = 8192
     0.300 (         ): postgres/40 fdatasync(fd: 9</d/wal>)                            ...
     0.350 ( 0.001 ms): other/41 lseek(fd: 3, whence: CUR)                               = 0
     0.300 (12.345 ms): postgres/40  ... [continued]: fdatasync())                       = 0
     0.400 ( 0.001 ms): postgres/40 fsync(fd: 9</d/wal>)  = -1 EIO (Input/output error)
");
    let event = taken.events[0];
    assert_eq!((event.start_ns, event.latency_ns), (200_000, 10_000));
    assert_eq!(
        (event.offset, event.size, event.tid),
        (Some(0), 8192, 40),
        "0 is left out"
    );
    assert_eq!(
        path_of(&taken, event.file_id),
        "/d/f",
        "its open is believed, not a late look"
    );
    let syncs: Vec<_> = taken
        .syncs
        .iter()
        .map(|row| (row.call, row.start_ns, row.latency_ns, row.result))
        .collect();
    assert_eq!(
        syncs,
        [
            (Call::Pwrite, 200_000, 10_000, 8192),
            (Call::Fdatasync, 300_000, 12_345_000, 0),
            (Call::Fsync, 400_000, 1_000, -i64::from(libc::EIO)),
        ]
    );
    assert_eq!(path_of(&taken, taken.syncs[1].file_id), "/d/wal");
    let figures = reader.figures();
    assert_eq!(
        (
            figures.late_paths,
            figures.not_understood,
            figures.without_start
        ),
        (2, 0, 1)
    );
    assert_eq!(reader.clock(), Clock::Relative);
}

/// As strace 6.1 prints them; a submission returns how many requests were taken.
#[test]
fn requests_that_are_no_calls_are_counted() {
    let (reader, taken) = read(
        "\
7 1.1 io_uring_setup(8, {flags=0, sq_thread_cpu=0, sq_thread_idle=0, sq_entries=8}) = 3<anon_inode:[io_uring]> <0.000053>
7 1.2 io_uring_enter(3<anon_inode:[io_uring]>, 5, 0, 0, NULL, 8) = 5 <0.000082>
8 1.3 io_uring_enter(3<anon_inode:[io_uring]>, 0, 1, IORING_ENTER_GETEVENTS, NULL, 8 <unfinished ...>
7 1.4 io_uring_enter(3<anon_inode:[io_uring]>, 1, 0, 0, NULL, 8) = -1 EAGAIN (Resource temporarily unavailable) <0.000002>
7 1.5 io_submit(0x7fcbf6a04000, 2, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=4</d/f>, aio_buf=\"x)\\\" = 7\"..., aio_nbytes=512, aio_offset=0}, {aio_data=0, aio_lio_opcode=IOCB_CMD_FSYNC, aio_fildes=4</d/f>}]) = 2 <0.000035>
8 1.6 <... io_uring_enter resumed>) = 0 <0.300000>
8 1.7 io_uring_enter(3<anon_inode:[io_uring]>, 0, 1, IORING_ENTER_GETEVENTS, NULL, 8) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.1>
7 1.8 pwrite64(4</d/f>, \"\", 512, 0) = 512 <0.000001>
",
    );
    let figures = reader.figures();
    assert_eq!(figures.unseen_requests, 7);
    assert_eq!(
        (figures.calls, figures.file_calls, figures.not_understood),
        (7, 1, 0)
    );
    assert_eq!((figures.interrupted, figures.unfinished), (0, 0));
    assert_eq!((taken.events.len(), taken.syncs.len()), (1, 0));
}

#[test]
fn what_is_not_a_trace_is_refused() {
    let end = |text: &[u8]| {
        let mut reader = StraceReader::new(Options::new(Level::Sync));
        reader.feed(text).and_then(|()| reader.end()).unwrap_err()
    };
    assert_eq!(end(b""), NotATrace::Empty);
    assert_eq!(end(b"\n\n"), NotATrace::Empty);
    assert_eq!(end(b"\x1f\x8b\x08\x00"), NotATrace::Binary(3));
    assert_eq!(
        end(b"<!DOCTYPE html>\n<html>(a) = 0</html>\n"),
        NotATrace::NoLine("<!DOCTYPE html>".to_owned())
    );
    assert_eq!(
        end(b"% time     seconds  usecs/call\n 1 2 3\n"),
        NotATrace::Summary
    );
    let mut reader = StraceReader::new(Options::new(Level::Sync));
    let fed = reader.feed("no line of a trace\n".repeat(60_000).as_bytes());
    assert!(
        matches!(fed, Err(NotATrace::NoLine(_))),
        "it need not be read to its end"
    );
}

#[test]
fn what_is_not_understood_is_counted_and_the_first_is_kept() {
    let long = "x".repeat(LINE_MAX + 1);
    let text = format!(
        "hello\n1 fsync(3</f>) = 0\nread(3, \"hi\n) = 3\n1 fsync(3</f>\n{long}\n1 fsync(3</f>) = 0"
    );
    let mut reader = StraceReader::new(Options::new(Level::Sync));
    for piece in text.as_bytes().chunks(1000) {
        reader.feed(piece).unwrap();
    }
    reader.end().unwrap();
    assert_eq!(reader.figures().not_understood, 5);
    assert_eq!(reader.first_not_understood(), Some("hello"));
    assert_eq!(
        reader.take().syncs.len(),
        2,
        "a last line without its end counts"
    );
}

#[test]
fn folder_after_folder_makes_no_path_that_is_longer_than_any() {
    let folder = "f".repeat(4000);
    let mut text = "1 1.5 chdir(\"/a\") = 0 <0.000010>\n".to_owned();
    for _ in 0..100 {
        text += &format!("1 1.6 chdir(\"{folder}\") = 0 <0.000010>\n");
        text += "1 1.7 rename(\"x\", \"y\") = 0 <0.000010>\n";
    }
    let (reader, taken) = read(&text);
    assert_eq!(reader.figures().not_understood, 0);
    // "/a/fff...", then a folder that is not known: names as they were given.
    assert_eq!(taken.names.len(), 100);
    let lengths: Vec<usize> = taken.names.iter().map(|row| row.path_bytes()).collect();
    assert_eq!(lengths[0], 2 * (4003 + 2));
    assert!(
        lengths[1..].iter().all(|bytes| *bytes <= 2 * (4000 + 2)),
        "{lengths:?}"
    );
}

#[test]
fn names_of_calls_that_have_not_returned_are_bounded_too() {
    let mut reader = StraceReader::new(Options::new(Level::Events));
    let name = "n".repeat(LINE_MAX - 100);
    for tid in 1..=40 {
        let line = format!("{tid} 1.5 {name}( <unfinished ...>\n");
        reader.feed(line.as_bytes()).unwrap();
    }
    reader.end().unwrap();
    let figures = reader.figures();
    let held = PENDING_BYTES_MAX / name.len();
    assert_eq!(
        (figures.unfinished, figures.beyond),
        (held as u64, 40 - held as u64)
    );
}
