//! A capture's rows, taken from the Arrow batches as a user would.

#![allow(clippy::unwrap_used, dead_code, missing_docs)]

use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use serde_json::Value;
use trace::analysis::{Analysis, Options};
use trace::lens::Section;
use trace::source::Input;

/// Folder of the shared captures.
pub fn captures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures")
}

/// What tests look at of a row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub call_first_ns: i64,
    pub reply_first_ns: Option<i64>,
    pub client_port: u16,
    pub transport: String,
    pub xid: u32,
    pub program: String,
    pub operation: String,
    pub operations: Option<String>,
    pub status: Option<String>,
    pub sends: u64,
    pub replies: u64,
    pub path: Option<String>,
    pub offset: Option<u64>,
    pub count: Option<u64>,
    pub frame_call: u64,
    pub frame_reply: Option<u64>,
}

/// What came of a capture.
#[derive(Debug)]
pub struct Found {
    pub rows: Vec<Row>,
    pub summary: Value,
    pub sections: Vec<(String, Section)>,
}

impl Found {
    /// Kinds of anomalies whose names contain one of these.
    pub fn odd(&self, parts: &[&str]) -> Vec<String> {
        let kinds = self.summary["anomalies"].as_array().unwrap().iter();
        let kinds = kinds.map(|anomaly| anomaly["kind"].as_str().unwrap().to_owned());
        kinds
            .filter(|kind| parts.iter().any(|part| kind.contains(part)))
            .collect()
    }

    pub fn section(&self, name: &str) -> &Value {
        &self
            .sections
            .iter()
            .find(|(known, _)| known == name)
            .unwrap()
            .1
            .json
    }
}

/// Text of a column, dictionary or not, or of a number.
fn text(batch: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let array = batch.column_by_name(column).unwrap();
    if array.is_null(row) {
        return None;
    }
    if let Some(keyed) = array.as_dictionary_opt::<Int32Type>() {
        let key = keyed.keys().value(row) as usize;
        let values = keyed.values();
        return match values.as_string_opt::<i32>() {
            Some(texts) => Some(texts.value(key).to_owned()),
            None => Some(format!("{:?}", values.as_binary::<i32>().value(key))),
        };
    }
    if let Some(texts) = array.as_string_opt::<i32>() {
        return Some(texts.value(row).to_owned());
    }
    number(batch, column, row).map(|number| number.to_string())
}

fn number(batch: &RecordBatch, column: &str, row: usize) -> Option<i128> {
    use arrow_array::types::{UInt8Type, UInt16Type};
    let array = batch.column_by_name(column).unwrap();
    if array.is_null(row) {
        return None;
    }
    if let Some(column) = array.as_primitive_opt::<Int64Type>() {
        return Some(column.value(row).into());
    }
    if let Some(column) = array.as_primitive_opt::<UInt64Type>() {
        return Some(column.value(row).into());
    }
    if let Some(column) = array.as_primitive_opt::<UInt16Type>() {
        return Some(column.value(row).into());
    }
    if let Some(column) = array.as_primitive_opt::<UInt8Type>() {
        return Some(column.value(row).into());
    }
    Some(array.as_primitive::<UInt32Type>().value(row).into())
}

fn row(batch: &RecordBatch, at: usize) -> Row {
    let text = |column| text(batch, column, at);
    let number = |column| number(batch, column, at);
    let unsigned = |column| number(column).map(|number| number as u64);
    Row {
        call_first_ns: number("call_first_ns").unwrap() as i64,
        reply_first_ns: number("reply_first_ns").map(|number| number as i64),
        client_port: unsigned("client_port").unwrap() as u16,
        transport: text("transport").unwrap(),
        xid: unsigned("xid").unwrap() as u32,
        program: text("program").unwrap(),
        operation: text("operation").unwrap(),
        operations: text("operations"),
        status: text("status"),
        sends: unsigned("sends").unwrap(),
        replies: unsigned("replies").unwrap(),
        path: text("path"),
        offset: unsigned("offset"),
        count: unsigned("count"),
        frame_call: unsigned("frame_call").unwrap(),
        frame_reply: unsigned("frame_reply"),
    }
}

/// Analyses a capture of the shared folder, with all lenses and columns.
pub fn analysed(name: &str) -> Found {
    let path = captures().join(format!("{name}.pcap.gz"));
    let options = Options {
        columns: true,
        ..Options::default()
    };
    let mut analysis = Analysis::start(vec![Input::File(path)], options).unwrap();
    let mut rows = Vec::new();
    for batch in analysis.batches().unwrap() {
        rows.extend((0..batch.num_rows()).map(|at| row(&batch, at)));
    }
    let findings = analysis.finish().unwrap();
    Found {
        rows,
        summary: findings.summary,
        sections: findings.sections,
    }
}
