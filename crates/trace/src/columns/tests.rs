//! Rows of calls made by hand, read back cell by cell through Arrow's own accessors.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use wire::programs::NFS;
use wire::summary::{Attributes, Stability};

use super::*;
use crate::block::{Endpoint, Host, Transport};
use crate::call::{Outcome, Stamp, marks};

fn at(time_ns: i64, frame: u64) -> Stamp {
    Stamp { time_ns, frame }
}

fn endpoint(last: u8, port: u16) -> Endpoint {
    Endpoint {
        host: Host::from_v4([10, 0, 0, last]),
        port,
    }
}

fn read() -> Call {
    Call {
        call_first: at(1_000, 1),
        call_last: at(1_001, 2),
        last_send: at(1_000, 1),
        reply_first: Some(at(2_000, 3)),
        reply_last: Some(at(2_002, 4)),
        client: endpoint(2, 700),
        server: endpoint(1, 2049),
        connection: 5,
        xid: 0xdead_beef,
        program: NFS,
        version: 3,
        procedure: 6,
        operation: 6,
        outcome: Outcome::Status(0),
        sends: 1,
        replies: 1,
        user: Some(26),
        offset: Some(u64::MAX),
        count: Some(8192),
        bytes_read: 8192,
        ..Call::default()
    }
}

fn batch_of(calls: &[Call], names: &Names) -> RecordBatch {
    let mut batches = Batches::default();
    for call in calls {
        assert!(batches.push(call, names).unwrap().is_none());
    }
    batches.finish().unwrap().unwrap()
}

/// A cell as text, `-` for null.
fn cell(batch: &RecordBatch, column: &str, row: usize) -> String {
    let array = batch.column_by_name(column).unwrap();
    if array.is_null(row) {
        return "-".to_owned();
    }
    if let Some(texts) = array.as_dictionary_opt::<Int32Type>() {
        let key = texts.keys().value(row) as usize;
        return texts.values().as_string::<i32>().value(key).to_owned();
    }
    if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
        return numbers.value(row).to_string();
    }
    if let Some(numbers) = array.as_primitive_opt::<UInt64Type>() {
        return numbers.value(row).to_string();
    }
    if let Some(numbers) = array.as_primitive_opt::<UInt16Type>() {
        return numbers.value(row).to_string();
    }
    array.as_primitive::<UInt32Type>().value(row).to_string()
}

fn row(batch: &RecordBatch, row: usize) -> Vec<String> {
    let fields = batch.schema();
    let names = fields.fields().iter().map(|field| field.name().clone());
    names.map(|name| cell(batch, &name, row)).collect()
}

#[test]
fn the_contract_s_columns_come_first_and_in_order() {
    let contract = "call_first_ns, call_last_ns, reply_first_ns, reply_last_ns, client, server, \
                    transport, xid, program, version, operation, operations, status, sends, \
                    replies, user, file_handle, path, offset, count, bytes, frame_call, \
                    frame_reply";
    let fields = schema();
    let names: Vec<&str> = fields
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    let contract: Vec<&str> = contract.split(", ").collect();
    assert_eq!(names[..contract.len()], contract);
}

#[test]
fn cells_are_the_call_s_fields() {
    let mut names = Names::default();
    let server = endpoint(1, 0).host;
    let root = names.file_id(server, &[0xff, 0x01]).unwrap();
    let file = names.file_id(server, &[0xff, 0x02]).unwrap();
    names.set_root(root, Some(b"/export"));
    names.set_name(root, b"a", file);
    let attributes = Attributes {
        fsid: Some(7),
        file_id: Some(1 << 63 | 5),
        ..Attributes::default()
    };
    names.set_attributes(file, &attributes);
    let mut write = Call {
        operation: 7,
        procedure: 7,
        file: Some(file),
        stable: Some(Stability::Unstable),
        committed: Some(Stability::FileSync),
        transport: Transport::Udp,
        bytes_read: 0,
        bytes_written: 512,
        sends: 3,
        last_send: at(1_500, 9),
        outcome: Outcome::Status(28),
        marks: marks::TRUNCATED | marks::XID_REUSED,
        ..read()
    };
    let unanswered = Call {
        outcome: Outcome::Unanswered,
        reply_first: None,
        reply_last: None,
        replies: 0,
        user: None,
        offset: None,
        count: None,
        ..read()
    };
    let batch = batch_of(&[read(), write, unanswered], &names);
    let first = "1000 1001 2000 2002 10.0.0.2 10.0.0.1 tcp 3735928559 NFS 3 READ - NFS3_OK 1 1 26 \
                 - - 18446744073709551615 8192 8192 1 3 5 700 2049 - - - - - - - -";
    assert_eq!(row(&batch, 0).join(" "), first);
    let second = "1000 1001 2000 2002 10.0.0.2 10.0.0.1 udp 3735928559 NFS 3 WRITE - \
                  NFS3ERR_NOSPC 3 1 26 ff02 /export/a 18446744073709551615 8192 512 1 3 5 700 \
                  2049 - - UNSTABLE FILE_SYNC 1500 truncated xid_reused 7 9223372036854775813";
    assert_eq!(row(&batch, 1).join(" "), second);
    let third = "1000 1001 - - 10.0.0.2 10.0.0.1 tcp 3735928559 NFS 3 READ - - 1 0 - - - - - \
                 8192 1 - 5 700 2049 - - - - - - - -";
    assert_eq!(row(&batch, 2).join(" "), third);

    write.outcome = Outcome::Refused("AUTH_ERROR");
    let null = Call {
        procedure: 0,
        operation: 0,
        outcome: Outcome::Accepted,
        ..read()
    };
    let cut = Call {
        outcome: Outcome::Unreadable,
        ..read()
    };
    let batch = batch_of(&[write, null, cut], &names);
    let statuses = [0, 1, 2].map(|row| cell(&batch, "status", row));
    assert_eq!(statuses, ["AUTH_ERROR", "SUCCESS", "-"]);
}

#[test]
fn compounds_have_their_operations() {
    let mut names = Names::default();
    let body: Vec<u8> = [0u32, 2, 3, 24, 16, 10]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect();
    let list = wire::summarise_call(NFS, 4, 1, &body, true)
        .compound
        .unwrap();
    let call = Call {
        version: 4,
        procedure: 1,
        operation: 16,
        minor_version: 2,
        operations: names.operations_id(&list.operations),
        slot: Some(3),
        ..read()
    };
    let batch = batch_of(&[call, read()], &names);
    let cells = |row| {
        ["operation", "operations", "minor_version", "slot"].map(|name| cell(&batch, name, row))
    };
    assert_eq!(cells(0), ["LOOKUPP", "PUTROOTFH LOOKUPP GETFH", "2", "3"]);
    assert_eq!(cells(1), ["READ", "-", "-", "-"]);
}

#[test]
fn batches_have_their_own_dictionaries_and_all_rows() {
    let mut names = Names::default();
    let mut batches = Batches::default();
    let total = 2 * BATCH_ROWS + 100;
    let mut made = Vec::new();
    for number in 0..total as u32 {
        let handle = number / 4;
        let file = names.file_id(Host::default(), &handle.to_be_bytes());
        let call = Call {
            xid: number,
            file,
            ..read()
        };
        made.extend(batches.push(&call, &names).unwrap());
    }
    made.extend(batches.finish().unwrap());
    assert!(batches.finish().unwrap().is_none());
    let rows: Vec<usize> = made.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [BATCH_ROWS, BATCH_ROWS, 100]);
    let mut number = 0u32;
    for batch in &made {
        let handles = batch.column_by_name("file_handle").unwrap();
        let values = handles.as_dictionary::<Int32Type>().values();
        assert_eq!(values.len(), batch.num_rows() / 4);
        for row in (0..batch.num_rows()).step_by(97) {
            let expected = number + row as u32;
            assert_eq!(cell(batch, "xid", row), expected.to_string());
            let handle = expected / 4;
            // 100 000 handles are remembered; all of these are.
            assert_eq!(cell(batch, "file_handle", row), format!("{handle:08x}"));
        }
        number += batch.num_rows() as u32;
    }
}

#[test]
fn equal_texts_have_one_key_and_a_late_path_is_shown() {
    let mut names = Names::default();
    let root = names.file_id(Host::default(), b"r").unwrap();
    names.set_root(root, Some(b"/e"));
    let old = names.file_id(Host::default(), b"old").unwrap();
    let new = names.file_id(Host::default(), b"new").unwrap();
    let of = |file| Call {
        file: Some(file),
        ..read()
    };
    let mut batches = Batches::default();
    batches.push(&of(old), &names).unwrap();
    names.set_name(root, b"x", old);
    batches.push(&of(old), &names).unwrap();
    names.set_name(root, b"x", new); // another file under the same name
    batches.push(&of(new), &names).unwrap();
    let batch = batches.finish().unwrap().unwrap();
    let paths = [0, 1, 2].map(|row| cell(&batch, "path", row));
    assert_eq!(paths, ["-", "/e/x", "/e/x"]);
    let paths = batch.column_by_name("path").unwrap();
    assert_eq!(paths.as_dictionary::<Int32Type>().values().len(), 1);
}

#[test]
fn without_calls_there_is_one_empty_batch() {
    let mut batches = Batches::default();
    let batch = batches.finish().unwrap().unwrap();
    assert_eq!(batch.num_rows(), 0);
    assert_eq!(batch.schema(), schema());
    assert!(batches.finish().unwrap().is_none());
}
