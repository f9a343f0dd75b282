//! Names, types and order of the columns: a contract with users.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// Version of the columns' meaning, kept in Parquet files: it grows when one changes.
pub const SCHEMA_VERSION: u32 = 1;

/// The columns.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(make_schema()));
    Arc::clone(&SCHEMA)
}

fn make_schema() -> Schema {
    let text = || {
        let (keys, values) = (Box::new(DataType::Int32), Box::new(DataType::Utf8));
        DataType::Dictionary(keys, values)
    };
    let field = |name: &str, kind: DataType| Field::new(name, kind, false);
    let maybe = |name: &str, kind: DataType| Field::new(name, kind, true);
    Schema::new(vec![
        field("call_first_ns", DataType::Int64),
        field("call_last_ns", DataType::Int64),
        maybe("reply_first_ns", DataType::Int64),
        maybe("reply_last_ns", DataType::Int64),
        field("client", text()),
        field("server", text()),
        field("transport", text()),
        field("xid", DataType::UInt32),
        field("program", text()),
        field("version", DataType::UInt32),
        field("operation", text()),
        maybe("operations", text()),
        maybe("status", text()),
        field("sends", DataType::UInt16),
        field("replies", DataType::UInt16),
        maybe("user", DataType::UInt32),
        maybe("file_handle", text()),
        maybe("path", text()),
        maybe("offset", DataType::UInt64),
        maybe("count", DataType::UInt64),
        field("bytes", DataType::Int64),
        field("frame_call", DataType::Int64),
        maybe("frame_reply", DataType::Int64),
        field("connection", DataType::UInt32),
        field("client_port", DataType::UInt16),
        field("server_port", DataType::UInt16),
        maybe("minor_version", DataType::UInt32),
        maybe("slot", DataType::UInt32),
        maybe("stable", text()),
        maybe("committed", text()),
        maybe("last_send_ns", DataType::Int64),
        maybe("marks", text()),
        maybe("fsid", DataType::UInt64),
        maybe("file_id", DataType::UInt64),
    ])
}

/// Bits of a row's word: which of the nullable columns it has.
pub(super) mod has {
    pub const REPLY_FIRST: u32 = 1;
    pub const REPLY_LAST: u32 = 1 << 1;
    pub const OPERATIONS: u32 = 1 << 2;
    pub const STATUS: u32 = 1 << 3;
    pub const USER: u32 = 1 << 4;
    pub const FILE_HANDLE: u32 = 1 << 5;
    pub const PATH: u32 = 1 << 6;
    pub const OFFSET: u32 = 1 << 7;
    pub const COUNT: u32 = 1 << 8;
    pub const MINOR_VERSION: u32 = 1 << 9;
    pub const SLOT: u32 = 1 << 10;
    pub const STABLE: u32 = 1 << 11;
    pub const COMMITTED: u32 = 1 << 12;
    pub const LAST_SEND: u32 = 1 << 13;
    pub const MARKS: u32 = 1 << 14;
    pub const FILE_ID: u32 = 1 << 15;
}
