//! Captures of the Linux kernel's client and server, against what tshark makes of them.
//!
//! tshark is asked for each RPC message's frame, transaction id, procedure and, for replies, the
//! time since the call. It dissects what lies whole in the (cut) packets, so its calls are a part
//! of what is to be found. Skipped where tshark is not installed.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;

use crate::rows::{Row, analysed, captures};

/// A reply as tshark sees it, with its call.
struct Seen {
    frame_call: u64,
    frame_reply: u64,
    xid: u32,
    latency_ns: i64,
    procedure: u32,
    opcodes: Vec<u32>,
}

fn tshark(name: &str) -> Option<Vec<Seen>> {
    let path = captures().join(format!("{name}.pcap.gz"));
    let fields = [
        "frame.number",
        "rpc.repframe",
        "rpc.xid",
        "rpc.time",
        "rpc.procedure",
    ];
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(path)
        .args(["-Y", "rpc.msgtyp == 1", "-T", "fields"]);
    for field in fields.iter().chain(&["nfs.opcode"]) {
        command.args(["-e", field]);
    }
    let Ok(output) = command.output() else {
        eprintln!("skipped: tshark is not installed");
        return None;
    };
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().filter_map(seen).collect())
}

/// Several messages in one frame cannot be told apart in this output: such lines are left out.
fn seen(line: &str) -> Option<Seen> {
    let fields: Vec<&str> = line.split('\t').collect();
    if fields[..5]
        .iter()
        .any(|field| field.is_empty() || field.contains(','))
    {
        return None;
    }
    let (whole, nano) = fields[3].split_once('.').unwrap();
    Some(Seen {
        frame_reply: fields[0].parse().unwrap(),
        frame_call: fields[1].parse().unwrap(),
        xid: u32::from_str_radix(fields[2].trim_start_matches("0x"), 16).unwrap(),
        latency_ns: whole.parse::<i64>().unwrap() * 1_000_000_000 + nano.parse::<i64>().unwrap(),
        procedure: fields[4].parse().unwrap(),
        opcodes: fields[5]
            .split(',')
            .filter_map(|opcode| opcode.parse().ok())
            .collect(),
    })
}

/// Every reply that tshark matched is found, with the same latency where the call lies in one
/// frame (tshark takes the last frame of longer ones).
fn check(name: &str, mut same: impl FnMut(&Seen, &Row)) -> Option<Vec<Row>> {
    let truth = tshark(name)?;
    let found = analysed(name);
    let rows: HashMap<u32, &Row> = found.rows.iter().map(|row| (row.xid, row)).collect();
    assert_eq!(
        rows.len(),
        found.rows.len(),
        "a transaction id occurs twice"
    );
    let mut exact = 0;
    for seen in &truth {
        let row = rows.get(&seen.xid).expect("a transaction that tshark saw");
        same(seen, row);
        if row.frame_call == seen.frame_call && row.frame_reply == Some(seen.frame_reply) {
            assert_eq!(
                row.reply_first_ns.unwrap() - row.call_first_ns,
                seen.latency_ns
            );
            exact += 1;
        }
    }
    // One or two more are found than by tshark, at the capture's ends.
    assert!(truth.len() > 300 && rows.len() - truth.len() <= 2 && exact == truth.len());
    assert_eq!(
        found.odd(&["malformed", "xid_reused", "beyond", "reply_without"]),
        [""; 0]
    );
    Some(found.rows)
}

/// The mount was there before the capture began, so directories have no names.
fn paths(rows: &[Row]) -> BTreeSet<&str> {
    rows.iter().filter_map(|row| row.path.as_deref()).collect()
}

#[test]
fn linux_v3() {
    let rows = check("linux61_pgbench_v3", |seen, row| {
        let name = trace::names::operation_name(wire::programs::NFS, 3, seen.procedure);
        assert_eq!(row.operation, name);
    });
    let Some(rows) = rows else { return };
    // All names that LOOKUPs found; 16398.1, 16398_fsm and 16398_init were not there.
    assert_eq!(paths(&rows), BTreeSet::from([".../16406", ".../16406_fsm"]));
}

#[test]
fn linux_v42() {
    let rows = check("linux61_pgbench_v42", |seen, row| {
        let names: Vec<String> = seen
            .opcodes
            .iter()
            .map(|opcode| trace::names::operation_name(wire::programs::NFS, 4, *opcode))
            .collect();
        // tshark lists those of the reply: fewer, if the server stopped early.
        assert!(
            row.operations
                .as_deref()
                .unwrap()
                .starts_with(&names.join(" ")),
            "{names:?}"
        );
    });
    let Some(rows) = rows else { return };
    let opened = [".../16406", ".../16406_fsm", ".../2671", ".../2676"];
    assert_eq!(paths(&rows), BTreeSet::from(opened));
}
