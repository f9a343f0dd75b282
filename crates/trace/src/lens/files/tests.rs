//! Files, their classes and bounds, on calls made by hand.

use serde_json::{Value, json};

use super::*;
use crate::block::Host;
use crate::lens::tests::hand_made::read;

fn server() -> Host {
    Host::from_v4([10, 0, 0, 1])
}

/// A directory `/export` and the file handles in it.
struct Export {
    names: Names,
    root: FileId,
}

impl Export {
    fn new() -> Self {
        let mut names = Names::default();
        let root = names.file_id(server(), b"root").unwrap();
        names.set_root(root, Some(b"/export"));
        Export { names, root }
    }

    /// A file without a path yet.
    fn handle(&mut self, handle: &[u8]) -> FileId {
        self.names.file_id(server(), handle).unwrap()
    }

    fn directory(&mut self, name: &str) -> FileId {
        let id = self.handle(name.as_bytes());
        self.names.set_name(self.root, name.as_bytes(), id);
        id
    }
}

fn call(file: Option<FileId>, latency_ns: i64) -> Call {
    Call {
        file,
        ..read(1000, Some(1000 + latency_ns))
    }
}

fn lens(classes: &[(&str, &str)]) -> Files {
    let owned = |text: &(&str, &str)| (text.0.to_owned(), text.1.to_owned());
    let given: Vec<(String, String)> = classes.iter().map(owned).collect();
    Files::new(Classes::new(&given).unwrap())
}

fn finished(mut lens: Files, names: &Names) -> Value {
    lens.finish(names, &Extent::default()).json
}

#[test]
fn figures_of_a_file() {
    let mut export = Export::new();
    let wal = export.directory("pg_wal");
    let segment = export.handle(&[0x01, 0xab]);
    let mut lens = lens(&[("WAL", "**/pg_wal/*"), ("all", "**")]);
    lens.call_named(&call(Some(segment), 1000), &export.names);
    // Its name is learned after its first call.
    export.names.set_name(wal, b"0001", segment);
    let mut write = call(Some(segment), 9000);
    (write.procedure, write.operation) = (7, 7);
    (write.bytes_read, write.bytes_written) = (0, 512);
    (write.sends, write.replies) = (3, 2);
    write.outcome = crate::Outcome::Status(28);
    lens.call_named(&write, &export.names);
    let mut unanswered = read(5000, None);
    unanswered.file = Some(segment);
    lens.call_named(&unanswered, &export.names);
    lens.call_named(&call(None, 10), &export.names);
    let found = finished(lens, &export.names);

    assert_eq!(found["files"], 1);
    let file = &found["list"][0];
    assert_eq!(file["path"], "/export/pg_wal/0001");
    assert_eq!(file["file_handle"], "01ab");
    assert_eq!(file["server"], "10.0.0.1");
    assert_eq!(file["class"], "WAL");
    let groups = json!({"READ": 2, "WRITE": 1, "COMMIT": 0, "attributes": 0, "other": 0});
    assert_eq!(file["calls_by_kind"], groups);
    let figures = [
        "calls",
        "answered",
        "unanswered",
        "errors",
        "retransmissions",
    ];
    assert_eq!(
        figures.map(|name| file[name].as_i64()),
        [3, 2, 1, 1, 2].map(Some)
    );
    assert_eq!(file["duplicate_replies"], 1);
    assert_eq!([&file["bytes_read"], &file["bytes_written"]], [4096, 512]);
    assert_eq!(file["total_latency_ns"], 10_000);
    let start = crate::lens::tests::hand_made::START_NS;
    assert_eq!(
        [&file["first_ns"], &file["last_ns"]],
        [start + 1000, start + 5000]
    );
    let latency = &file["latency_ns"];
    assert_eq!(
        ["min", "mean", "max"].map(|of| &latency[of]),
        [1000, 5000, 9000]
    );
    let near = |value: &Value, truth: f64| {
        let error = (value.as_f64().unwrap() / truth - 1.0).abs();
        error <= found["quantile_relative_error"].as_f64().unwrap()
    };
    assert!(
        near(&latency["p50"], 1000.0) && near(&latency["p99"], 9000.0),
        "{latency}"
    );
    assert!(near(&file["latency_ns_by_kind"]["WRITE"]["p50"], 9000.0));
    assert_eq!(found["without_file"]["calls"], 1);
    assert_eq!(found["rest"]["calls"], 0);
    let class = &found["classes"][0];
    assert_eq!(
        [&class["class"], &class["files"], &class["calls"]],
        [&json!("WAL"), &json!(1), &json!(3)]
    );
    assert_eq!(class["latency_ns"], *latency);
    for row in [file, class] {
        assert_eq!(row["errors_by_status"], json!({"NFS3ERR_NOSPC": 1}));
        // Eight parts a power of two.
        assert_eq!(row["histogram"], json!([[960, 1024, 1], [8192, 9216, 1]]));
    }
    assert_eq!(found["rest"]["errors_by_status"], json!({}));
}

#[test]
fn classes_by_first_match_by_tail_and_without_path() {
    let classes = Classes::new(&[
        ("WAL".to_owned(), "**/pg_wal/**".to_owned()),
        ("table".to_owned(), "**/base/[0-9]*/[0-9]*".to_owned()),
        ("WAL".to_owned(), "**/*.partial".to_owned()),
        ("top".to_owned(), "/export/*".to_owned()),
    ])
    .unwrap();
    let class = |path: Option<&str>| classes.name(classes.of(path)).to_owned();
    assert_eq!(class(Some("/export/pg_wal/0001")), "WAL");
    assert_eq!(class(Some(".../pg_wal/0001")), "WAL");
    assert_eq!(class(Some("/a/base/5/2619")), "table");
    assert_eq!(class(Some("/a/base/5/2619.partial")), "table");
    assert_eq!(class(Some("/x/1.partial")), "WAL");
    assert_eq!(class(Some("/export/file")), "top");
    assert_eq!(class(Some("/export/folder/file")), "other");
    assert_eq!(class(None), "path not known");
    let wrong = Classes::new(&[("bad".to_owned(), "a[".to_owned())]);
    assert!(wrong.unwrap_err().to_string().contains("bad"));
}

#[test]
fn patterns_with_lists_alternatives_escapes_and_an_exclamation_mark() {
    // What glob(7) and gitignore(5) say of each.
    for (pattern, matching, other) in [
        ("**/{base,global}/[0-9]*", "/d/global/12", "/d/globa/12"),
        ("/{a,bc}d", "/bcd", "/bd"),
        ("{a}[b]c", "abc", "abd"),
        ("**/[!a]b[cd]e", "/x/zbde", "/x/abde"),
        ("**/x[]-]y", "/x]y", "/x[y"),
        ("**/a\\*b", "/x/a*b", "/x/acb"),
        ("a?c", "abc", "a/c"),
        ("*.log", "a.log", "d/a.log"),
        ("!x", "!x", "y"),
    ] {
        let classes = Classes::new(&[("it".to_owned(), pattern.to_owned())]).unwrap();
        assert_eq!(classes.matching(matching), Some(0), "{pattern} {matching}");
        assert_eq!(classes.matching(other), None, "{pattern} {other}");
    }
}

#[test]
fn the_busiest_files_are_shown_and_the_rest_added_up() {
    let mut export = Export::new();
    let mut lens = lens(&[]);
    let files = 500u32;
    for number in 0..files {
        let id = export.handle(format!("file {number}").as_bytes());
        for _ in 0..=number {
            lens.call_named(
                &call(Some(id), 1000 + i64::from(files - number)),
                &export.names,
            );
        }
        if number == 3 {
            lens.call_named(&call(Some(id), 1_000_000_000), &export.names);
            let mut write = call(Some(id), 5);
            write.bytes_written = 1 << 30;
            lens.call_named(&write, &export.names);
        }
    }
    let found = finished(lens, &export.names);
    assert_eq!(found["files"], files);
    let list = found["list"].as_array().unwrap();
    assert!(list.len() <= 3 * TOP_FILES);
    let shown = |heading: &str, place: usize| {
        let index = found[heading][place].as_u64().unwrap() as usize;
        list[index]["file_handle"].as_str().unwrap().to_owned()
    };
    let hex = |number: u32| crate::columns::hexadecimal(format!("file {number}").as_bytes());
    assert_eq!(shown("by_calls", 0), hex(499));
    assert_eq!(shown("by_calls", 1), hex(498));
    assert_eq!(shown("by_time", 0), hex(3));
    assert_eq!(shown("by_bytes", 0), hex(3));
    let calls = |value: &Value| value["calls"].as_u64().unwrap();
    let total = u64::from(files) * (u64::from(files) + 1) / 2 + 2;
    assert_eq!(
        list.iter().map(calls).sum::<u64>() + calls(&found["rest"]),
        total
    );
    assert_eq!(
        found["rest"]["files"].as_u64().unwrap() + list.len() as u64,
        u64::from(files)
    );
    assert_eq!(found["classes"][0]["class"], "path not known");
    assert_eq!(calls(&found["classes"][0]), total);
}

#[test]
fn more_files_and_latencies_than_there_is_room_for() {
    let names = Names::default();
    let mut lens = lens(&[]);
    // Ten powers of two for each file: the pool is full before the last file comes.
    let mut truth = Vec::new();
    for number in (0..MAX_FILES as u32 + 1000).step_by(2) {
        for power in 0..10 {
            let latency_ns = 1 << (power + 10);
            truth.push(latency_ns);
            lens.call_named(&call(Some(FileId(number)), latency_ns), &names);
        }
    }
    let found = finished(lens, &names);
    assert_eq!(found["files"], MAX_FILES / 2);
    assert_eq!(found["without_file"]["calls"], 5000);
    // Files that came late have no quantiles, since some latencies are not held...
    assert_eq!(found["without_file"]["latency_ns"]["p50"], Value::Null);
    assert_eq!(found["without_file"]["latency_ns"]["max"], 1 << 19);
    assert_eq!(found["without_file"]["histogram"], Value::Null);
    // ... but their class has: it took what found no room.
    let class = &found["classes"][0];
    assert_eq!(class["latencies"], 10 * MAX_FILES / 2);
    let median = class["latency_ns"]["p50"].as_f64().unwrap();
    assert!(
        (median / f64::from(1 << 14) - 1.0).abs() <= 1.0 / 16.0,
        "{median}"
    );
}

/// The classes that come with nfslab, read line by line (their form is simple; Python reads TOML).
fn shipped() -> Classes {
    let text = include_str!("../../../../../python/nfslab/shipped/file_classes.toml");
    let mut given = Vec::new();
    let mut name = String::new();
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let quoted: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        match line.strip_prefix("name = ") {
            Some(_) => name = quoted[0].to_owned(),
            None => given.extend(quoted.iter().map(|one| (name.clone(), (*one).to_owned()))),
        }
    }
    Classes::new(&given).unwrap()
}

/// Paths as the databases' manuals name them, and the class of each.
const NAMED: &[(&str, &str)] = &[
    (
        "/export/pg/pg_wal/000000010000000000000002",
        "PostgreSQL WAL",
    ),
    (
        ".../pg_wal/archive_status/000000010000000000000002.done",
        "PostgreSQL WAL",
    ),
    (".../00000001000000A90000001F", "PostgreSQL WAL"),
    (".../00000002.history", "other"),
    (
        "/export/pg/base/16384/2619",
        "PostgreSQL tables and indexes",
    ),
    (
        "/export/pg/base/16384/2619.1",
        "PostgreSQL tables and indexes",
    ),
    (
        "/ts/PG_17_202406281/16384/16390",
        "PostgreSQL tables and indexes",
    ),
    (
        ".../base/16384/2619_fsm",
        "PostgreSQL free space and visibility maps",
    ),
    (
        ".../base/16384/2619_vm",
        "PostgreSQL free space and visibility maps",
    ),
    (".../base/16384/t3_16390", "PostgreSQL temporary"),
    (".../base/pgsql_tmp/pgsql_tmp4711.0", "PostgreSQL temporary"),
    ("/export/pg/global/pg_control", "PostgreSQL global"),
    ("/export/pg/global/1262", "PostgreSQL global"),
    ("/export/pg/pg_xact/0000", "PostgreSQL transaction status"),
    ("/export/pg/postmaster.pid", "PostgreSQL other"),
    ("/var/lib/mysql/ib_logfile0", "InnoDB redo log"),
    ("/var/lib/mysql/#innodb_redo/#ib_redo7", "InnoDB redo log"),
    ("/var/lib/mysql/#ib_16384_0.dblwr", "InnoDB doublewrite"),
    ("/var/lib/mysql/shop/orders.ibd", "InnoDB data"),
    ("/var/lib/mysql/ibdata1", "InnoDB system tablespace"),
    ("/var/lib/mysql/ibtmp1", "MariaDB temporary"),
    ("/var/lib/mysql/undo_001", "InnoDB undo"),
    (
        "/var/lib/mysql/mysql-bin.000017",
        "MariaDB binary and relay logs",
    ),
    (
        "/var/lib/mysql/host-relay-bin.000002",
        "MariaDB binary and relay logs",
    ),
    ("/var/lib/mysql/mysql/user.MAD", "Aria and MyISAM tables"),
    ("/srv/app.db", "SQLite database"),
    ("/srv/app.db-wal", "SQLite WAL"),
    ("/srv/app.db-shm", "SQLite shared memory"),
    ("/srv/app.db-journal", "SQLite rollback journal"),
    (
        "/home/a/Maildir/cur/1732188243.M20046P2137.host,S=4542:2,S",
        "mail",
    ),
    ("/home/a/Maildir/dovecot.index.log", "mail index"),
    (
        "/srv/www/.nfs000000000000a1b200000001",
        "removed while open",
    ),
    ("/srv/www/index.html", "web content"),
    ("/var/log/messages.log.1", "logs"),
    ("/export", "other"),
    ("/export/tmp/2024.txt", "other"),
];

#[test]
fn shipped_classes_of_files_as_databases_name_them() {
    let classes = shipped();
    assert!(classes.len() > 20);
    for (path, class) in NAMED.iter().copied() {
        assert_eq!(classes.name(classes.of(Some(path))), class, "{path}");
    }
}
