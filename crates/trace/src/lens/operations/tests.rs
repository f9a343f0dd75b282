//! Calls made by hand; what the table must say of them is worked out beside them.

use serde_json::{Value, json};

use super::*;

const MOUNT: u32 = 100_005;

fn call(version: u32, operation: u32, latency_ns: Option<i64>, outcome: Outcome) -> Brief {
    Brief {
        call_first_ns: 1_000_000_000,
        latency_ns,
        program: NFS,
        version,
        procedure: if version == 4 { COMPOUND } else { operation },
        operation,
        outcome,
        sends: 1,
        replies: u16::from(latency_ns.is_some()),
        ..Brief::default()
    }
}

fn table(calls: &[Brief], names: &Names) -> Vec<Value> {
    let mut lens = Operations::default();
    for call in calls {
        lens.brief(call, names);
    }
    match lens.finish(names, &Extent::default()).json {
        Value::Array(rows) => rows,
        other => panic!("not a list: {other}"),
    }
}

fn row<'a>(rows: &'a [Value], operation: &str) -> &'a Value {
    let mut found = rows.iter().filter(|row| row["operation"] == operation);
    let row = found.next().unwrap();
    assert!(found.next().is_none(), "two rows {operation}");
    row
}

/// Operations without arguments, so that a COMPOUND is its header and their numbers.
fn list(names: &mut Names, opcodes: &[u32]) -> OperationsId {
    let mut words = vec![0, 0, opcodes.len() as u32];
    words.extend_from_slice(opcodes);
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let compound = wire::summarise_call(NFS, 4, COMPOUND, &body, true).compound;
    let id = names.operations_id(&compound.unwrap().operations).unwrap();
    assert_eq!(names.operations(id), opcodes);
    id
}

const PUTROOTFH: u32 = 24;
const GETFH: u32 = 10;
const LOOKUPP: u32 = 16;
const SAVEFH: u32 = 32;

/// The contract's object, of a row that has none.
fn no_latencies() -> Value {
    json!({"min": null, "mean": null, "p50": null, "p90": null, "p99": null, "p999": null,
        "max": null})
}

#[test]
fn counts_of_every_kind() {
    let mut again = call(3, 6, Some(400), Outcome::Status(0));
    (again.sends, again.replies, again.bytes_read) = (3, 2, 8192);
    let rows = table(
        &[
            call(3, 6, Some(100), Outcome::Status(0)),
            again,
            call(3, 6, None, Outcome::Unanswered),
            call(3, 6, Some(200), Outcome::Status(2)),
            call(3, 6, Some(200), Outcome::Status(2)),
            call(3, 6, Some(200), Outcome::Status(70)),
            call(3, 6, Some(300), Outcome::Refused("AUTH_ERROR")),
            call(3, 6, Some(300), Outcome::Unreadable),
            call(3, 0, Some(50), Outcome::Accepted),
        ],
        &Names::default(),
    );
    let read = row(&rows, "READ");
    assert_eq!(read["program"], NFS);
    assert_eq!(read["program_name"], "NFS");
    assert_eq!(read["version"], 3);
    assert_eq!(read["calls"], 8);
    assert_eq!(read["answered"], 7);
    assert_eq!(read["unanswered"], 1);
    assert_eq!(read["retransmissions"], 2);
    assert_eq!(read["duplicate_replies"], 1);
    let errors = json!({"NFS3ERR_NOENT": 2, "NFS3ERR_STALE": 1, "AUTH_ERROR": 1});
    assert_eq!(read["errors"], errors);
    assert_eq!(read["rpc_refused"], 1);
    assert_eq!(read["unreadable"], 1);
    assert_eq!(read["bytes_read"], 8192);
    assert_eq!(read["bytes_written"], 0);
    // 100 400 200 200 200 300 300, sorted: 100 200 200 200 300 300 400; below 2048 ns the
    // histogram holds each value alone.
    let expected = json!({
        "min": 100, "mean": 243, "p50": 200, "p90": 400, "p99": 400, "p999": 400, "max": 400,
    });
    assert_eq!(read["latency_ns"], expected);
    assert_eq!(row(&rows, "NULL")["errors"], json!({}));
    assert_eq!(rows.len(), 2);
}

#[test]
fn quantiles_stay_within_the_stated_error() {
    // Three decades, from a generator with a known sequence (MMIX, Knuth).
    let mut state = 1u64;
    let mut latencies: Vec<i64> = (0..20_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            let exponent = (state >> 40) as f64 / f64::from(1u32 << 24) * 3.0 + 4.0;
            10f64.powf(exponent) as i64
        })
        .collect();
    let calls: Vec<Brief> = latencies
        .iter()
        .map(|latency_ns| call(3, 6, Some(*latency_ns), Outcome::Status(0)))
        .collect();
    let rows = table(&calls, &Names::default());
    latencies.sort_unstable();
    let of = &rows[0]["latency_ns"];
    for (name, thousandths) in [("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999)] {
        let truth = latencies[20_000 * thousandths / 1000 - 1] as f64;
        let found = of[name].as_f64().unwrap();
        let error = (found - truth) / truth;
        assert!(
            (0.0..=0.001).contains(&error),
            "{name}: {found} for {truth}"
        );
    }
    assert_eq!(rows[0]["quantile_relative_error"], 0.001);
    assert_eq!(of["min"], latencies[0]);
    assert_eq!(of["max"], latencies[19_999]);
    let mean = latencies.iter().sum::<i64>() as f64 / 20_000.0;
    assert_eq!(of["mean"].as_f64().unwrap(), mean.round());
    let histogram = rows[0]["histogram"].as_array().unwrap();
    assert!(histogram.len() <= 11 * 16, "{}", histogram.len());
    for part in histogram {
        let (from, below) = (part[0].as_i64().unwrap(), part[1].as_i64().unwrap());
        let inside = latencies.iter().filter(|ns| (from..below).contains(*ns));
        assert_eq!(part[2], inside.count(), "{from}..{below}");
        assert!((below - from) * 16 <= from, "{from}..{below} is too wide");
    }
}

#[test]
fn zero_is_a_latency_and_negative_ones_are_kept_apart() {
    let latencies = [-500, 0, 0, 10, 20, 4_000_000_000_000];
    let calls: Vec<Brief> = latencies
        .iter()
        .map(|latency_ns| call(3, 6, Some(*latency_ns), Outcome::Status(0)))
        .collect();
    let rows = table(&calls, &Names::default());
    let of = &rows[0]["latency_ns"];
    assert_eq!(rows[0]["negative_latencies"], 1);
    assert_eq!(rows[0]["latencies"], 6);
    assert_eq!(of["min"], -500);
    assert_eq!(of["max"], 4_000_000_000_000_i64);
    assert_eq!(of["mean"], 666_666_666_588_i64); // 3 999 999 999 530 / 6 = 666 666 666 588.3
    assert_eq!(of["p50"], 10); // third of 0 0 10 20 4e12
    assert_eq!(of["p90"], 4_000_000_000_000_i64); // fifth: above the histogram
    let parts = json!([
        [0, 1, 2],
        [10, 11, 1],
        [20, 21, 1],
        [3_600_000_000_001_u64, 4_000_000_000_001_u64, 1],
    ]);
    assert_eq!(rows[0]["histogram"], parts);

    let only = table(
        &[call(3, 6, Some(-7), Outcome::Status(0))],
        &Names::default(),
    );
    assert_eq!(only[0]["latency_ns"]["mean"], -7);
    assert_eq!(only[0]["latency_ns"]["p50"], Value::Null);
    let none = table(&[call(3, 6, None, Outcome::Unanswered)], &Names::default());
    assert_eq!(none[0]["latency_ns"], no_latencies());
}

#[test]
fn compounds_and_the_operations_inside() {
    let mut names = Names::default();
    let up = list(&mut names, &[PUTROOTFH, LOOKUPP, GETFH]);
    let handle = list(&mut names, &[PUTROOTFH, SAVEFH, GETFH, GETFH]);
    let compound = |id, operation, latency_ns, outcome, done| Brief {
        operations: Some(id),
        operations_done: done,
        ..call(4, operation, latency_ns, outcome)
    };
    let mut again = compound(handle, GETFH, Some(300), Outcome::Status(0), 4);
    (again.sends, again.minor_version) = (2, 2);
    let rows = table(
        &[
            compound(up, LOOKUPP, Some(100), Outcome::Status(0), 3),
            compound(up, LOOKUPP, Some(200), Outcome::Status(2), 2),
            compound(up, LOOKUPP, None, Outcome::Unanswered, 0),
            compound(up, LOOKUPP, Some(400), Outcome::Refused("AUTH_ERROR"), 0),
            compound(up, LOOKUPP, Some(500), Outcome::Unreadable, 0),
            again,
            call(4, COMPOUND, Some(600), Outcome::Status(10_021)),
        ],
        &names,
    );
    let counts = |operation: &str| {
        let row = row(&rows, operation);
        [
            "calls",
            "answered",
            "unanswered",
            "not_executed",
            "unreadable",
            "retransmissions",
        ]
        .map(|name| row[name].as_i64())
    };
    let all = row(&rows, "COMPOUND");
    assert_eq!(
        counts("COMPOUND"),
        [Some(7), Some(6), Some(1), None, Some(1), Some(1)]
    );
    let errors = json!({"NFS4ERR_NOENT": 1, "AUTH_ERROR": 1, "NFS4ERR_MINOR_VERS_MISMATCH": 1});
    assert_eq!(all["errors"], errors);
    assert_eq!(all["minor_versions"], json!({"0": 6, "2": 1}));
    assert_eq!(all["without_operations"], 1);
    assert_eq!(all["latency_ns"]["min"], 100);
    assert_eq!(all["latency_ns"]["max"], 600);
    assert_eq!(all["latency_ns"]["mean"], 350);
    assert_eq!(all["latencies"], 6);

    // Refused: nothing was done. NFS4ERR_NOENT came of the second operation, so not of GETFH.
    assert_eq!(counts("LOOKUPP"), [5, 3, 1, 1, 1, 0].map(Some));
    assert_eq!(counts("PUTROOTFH"), [6, 4, 1, 1, 1, 1].map(Some));
    assert_eq!(counts("GETFH"), [7, 4, 1, 2, 1, 2].map(Some)); // twice in the second list
    assert_eq!(row(&rows, "LOOKUPP")["errors"], json!({"NFS4ERR_NOENT": 1}));
    assert_eq!(row(&rows, "PUTROOTFH")["errors"], json!({}));
    assert_eq!(row(&rows, "LOOKUPP")["latency_ns"]["mean"], 300);
    assert_eq!(row(&rows, "GETFH")["latencies"], 1);
    assert_eq!(row(&rows, "PUTROOTFH")["latency_ns"], no_latencies());
    assert_eq!(row(&rows, "SAVEFH")["calls"], 1);
}

#[test]
fn a_procedure_that_nfsv4_lacks_is_no_operation() {
    use wire::nfs4::opcode::GETATTR;
    let mut names = Names::default();
    let mut compound = call(4, GETATTR, Some(1000), Outcome::Status(0));
    compound.operations = Some(list(&mut names, &[GETATTR]));
    let alien = Brief {
        procedure: GETATTR,
        ..call(4, GETATTR, Some(9_000_000), Outcome::Status(0))
    };
    let rows = table(&[compound, alien], &names);
    assert_eq!(row(&rows, "GETATTR")["calls"], 1);
    assert_eq!(row(&rows, "COMPOUND")["calls"], 1);
    assert_eq!(row(&rows, "COMPOUND")["latency_ns"]["max"], 1000);
    assert_eq!(row(&rows, "OTHER")["calls"], 1);
    // There is no operation 0 either: it is not the procedure NULL.
    let mut odd = call(4, 0, Some(1000), Outcome::Status(0));
    odd.operations = Some(list(&mut names, &[0]));
    let rows = table(&[odd], &names);
    assert_eq!(rows.len(), 2);
    assert_eq!(row(&rows, "COMPOUND")["calls"], 1);
    assert_eq!(row(&rows, "COMPOUND")["latencies"], 1);
    assert_eq!(row(&rows, "OTHER")["calls"], 1);
}

#[test]
fn payload_belongs_to_the_operation_that_moves_it() {
    let mut both = call(4, READ, Some(100), Outcome::Status(0));
    (both.bytes_read, both.bytes_written) = (100, 7);
    let rows = table(&[both], &Names::default());
    assert_eq!(row(&rows, "COMPOUND")["bytes_read"], 100);
    assert_eq!(row(&rows, "COMPOUND")["bytes_written"], 7);
    assert_eq!(row(&rows, "READ")["bytes_read"], 100);
    assert_eq!(row(&rows, "READ")["bytes_written"], 0);
    assert_eq!(row(&rows, "WRITE")["bytes_written"], 7);
    assert_eq!(row(&rows, "WRITE")["bytes_read"], 0);
}

#[test]
fn what_does_not_fit_is_counted_together() {
    let calls = 2_000_000 / 50;
    let strange: Vec<Brief> = (0..calls)
        .map(|number| Brief {
            program: 200_000 + number / 400,
            version: number % 2,
            procedure: number % 400,
            operation: number % 400,
            ..call(3, 0, Some(1000), Outcome::Status(number))
        })
        .collect();
    let rows = table(&strange, &Names::default());
    assert!(rows.len() <= MAX_ROWS + MAX_PROTOCOLS + 1, "{}", rows.len());
    let total: u64 = rows.iter().map(|row| row["calls"].as_u64().unwrap()).sum();
    assert_eq!(total, u64::from(calls));
    let mut errors = 0;
    for row in &rows {
        let of = row["errors"].as_object().unwrap();
        assert!(of.len() <= MAX_ERRORS + 1);
        errors += of.values().filter_map(Value::as_u64).sum::<u64>();
    }
    assert_eq!(errors, u64::from(calls) - 1); // one of them has status 0
    assert!(
        rows.iter()
            .any(|row| row["program"].is_null() && row["operation"] == "OTHER")
    );
}

#[test]
fn programs_and_versions_have_rows_of_their_own() {
    let mut mount = call(3, 1, Some(10), Outcome::Status(13));
    mount.program = MOUNT;
    let mut null = call(4, 0, Some(10), Outcome::Accepted);
    null.procedure = 0;
    let reply = Outcome::Status(0);
    let rows = table(
        &[
            mount,
            call(2, 1, Some(10), Outcome::Status(99)),
            call(3, 1, Some(10), Outcome::Status(0)),
            call(4, COMPOUND, Some(10), reply),
            null,
        ],
        &Names::default(),
    );
    let keys: Vec<_> = rows
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].to_string();
            [
                text("program"),
                text("version"),
                text("operation"),
                text("errors"),
            ]
            .join(" ")
        })
        .collect();
    assert_eq!(
        keys,
        [
            r#"100003 2 "GETATTR" {"NFSERR_WFLUSH":1}"#,
            r#"100003 3 "GETATTR" {}"#,
            r#"100003 4 "NULL" {}"#,
            r#"100003 4 "COMPOUND" {}"#,
            r#"100005 3 "MNT" {"MNT3ERR_ACCES":1}"#,
        ]
    );
}
