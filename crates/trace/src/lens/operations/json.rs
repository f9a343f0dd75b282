//! Rows in the contract's spelling.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wire::programs::program_name;

use super::{COMPOUND, OTHER, Protocol, Row};
use crate::names::{failure_name, operation_name};

/// One row: the fields of the contract first, then further ones.
pub(super) fn row_json(protocol: &Protocol, row: &Row) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    let counts = &row.counts;
    let number = |number: u32| {
        if number == OTHER {
            Value::Null
        } else {
            json!(number)
        }
    };
    put("program", number(protocol.program));
    put("program_name", json!(program_name(protocol.program)));
    put("version", number(protocol.version));
    put("operation", json!(operation_text(protocol, row.operation)));
    put("calls", json!(counts.calls));
    put("answered", json!(counts.answered));
    put(
        "unanswered",
        json!(counts.calls - counts.answered - counts.not_executed),
    );
    put("retransmissions", json!(counts.retransmissions));
    put("duplicate_replies", json!(counts.duplicate_replies));
    put("errors", errors_json(protocol, row));
    put("bytes_read", json!(counts.bytes_read));
    put("bytes_written", json!(counts.bytes_written));
    put("latency_ns", row.latencies.json());
    put("latencies", json!(row.latencies.count()));
    put("negative_latencies", json!(row.latencies.negative()));
    put(
        "quantile_relative_error",
        json!(row.latencies.relative_error()),
    );
    put("histogram", row.latencies.histogram_json());
    put("rpc_refused", json!(counts.refused));
    put("unreadable", json!(counts.unreadable));
    if protocol.compounds && row.operation > COMPOUND {
        put("not_executed", json!(counts.not_executed));
    }
    if protocol.compounds && row.operation == COMPOUND {
        put("minor_versions", minor_versions_json(protocol));
        put("without_operations", json!(protocol.unlisted));
    }
    Value::Object(object)
}

fn operation_text(protocol: &Protocol, operation: u32) -> String {
    if operation == OTHER {
        return "OTHER".to_owned();
    }
    operation_name(protocol.program, protocol.version, operation)
}

fn errors_json(protocol: &Protocol, row: &Row) -> Value {
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for (outcome, count) in &row.errors {
        if let Some(name) = failure_name(protocol.program, protocol.version, *outcome) {
            *errors.entry(name.into_owned()).or_default() += count;
        }
    }
    if row.other_errors > 0 {
        *errors.entry("OTHER".to_owned()).or_default() += row.other_errors;
    }
    json!(errors)
}

fn minor_versions_json(protocol: &Protocol) -> Value {
    let seen = protocol.minor_versions.iter().enumerate();
    let named = seen.filter(|(_, count)| **count > 0).map(|(minor, count)| {
        let name = if minor < 3 {
            minor.to_string()
        } else {
            "OTHER".to_owned()
        };
        (name, json!(count))
    });
    Value::Object(named.collect())
}
