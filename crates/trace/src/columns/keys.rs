//! Keys of a row's texts: memos and tables in front of the dictionaries of the batch.

use std::borrow::Cow;

use wire::programs::{is_callback, program_name};
use wire::summary::Stability;

use super::texts::{Dictionary, Memo};
use crate::block::{Host, Transport};
use crate::call::{Call, FileId, OperationsId, Outcome, marks};
use crate::limits::{MAX_FILES, MAX_OPERATION_LISTS};
use crate::names::{Names, operation_text, status_name};

/// The key of no text.
const NONE: i32 = -1;

/// A file's keys in the batch whose number is `batch`.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileKeys {
    batch: u64,
    pub(super) handle: i32,
    pub(super) path: i32,
}

/// Dictionaries of one batch.
#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    pub(super) client: Dictionary,
    pub(super) server: Dictionary,
    pub(super) transport: Dictionary,
    pub(super) program: Dictionary,
    pub(super) operation: Dictionary,
    pub(super) operations: Dictionary,
    pub(super) status: Dictionary,
    pub(super) file_handle: Dictionary,
    pub(super) path: Dictionary,
    pub(super) stable: Dictionary,
    pub(super) committed: Dictionary,
    pub(super) marks: Dictionary,
}

/// Finds keys; knows the current batch.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) dictionaries: Dictionaries,
    clients: Memo<Host, i32>,
    servers: Memo<Host, i32>,
    operation: Memo<(u32, u32, u32), (i32, i32)>,
    status: Memo<(u32, u32, Outcome), i32>,
    transports: [i32; 2],
    stabilities: [[i32; 3]; 2],
    marks: Memo<u16, i32>,
    lists: Vec<i32>,
    files: Vec<FileKeys>,
    /// Number of the batch, from 1.
    pub(super) number: u64,
    /// A handle or path on its way.
    text: String,
}

impl Default for Keys {
    fn default() -> Self {
        Keys {
            dictionaries: Dictionaries::default(),
            clients: Memo::new(),
            servers: Memo::new(),
            operation: Memo::new(),
            status: Memo::new(),
            transports: [NONE; 2],
            stabilities: [[NONE; 3]; 2],
            marks: Memo::new(),
            lists: Vec::new(),
            files: Vec::new(),
            number: 1,
            text: String::new(),
        }
    }
}

impl Keys {
    /// The dictionaries were taken: keys begin anew. (Files tell by the batch's number.)
    pub(super) fn next_batch(&mut self) {
        self.number += 1;
        self.clients.clear();
        self.servers.clear();
        self.operation.clear();
        self.status.clear();
        self.transports = [NONE; 2];
        self.stabilities = [[NONE; 3]; 2];
        self.marks.clear();
        self.lists.fill(NONE);
    }

    #[inline(always)]
    pub(super) fn host(&mut self, host: Host, client: bool) -> i32 {
        let (memo, dictionary) = if client {
            (&mut self.clients, &mut self.dictionaries.client)
        } else {
            (&mut self.servers, &mut self.dictionaries.server)
        };
        let bits = host.low_bits() as u32;
        memo.get(bits, host).unwrap_or_else(|| {
            let key = dictionary.key(&host.to_string());
            memo.put(bits, host, key);
            key
        })
    }

    #[inline(always)]
    pub(super) fn transport(&mut self, transport: Transport) -> i32 {
        let key = &mut self.transports[usize::from(transport == Transport::Udp)];
        if *key < 0 {
            *key = self.dictionaries.transport.key(transport.name());
        }
        *key
    }

    #[inline(always)]
    pub(super) fn operation(&mut self, call: &Call) -> (i32, i32) {
        let key = (call.program, call.version, call.operation);
        let bits = call.operation ^ call.program;
        self.operation.get(bits, key).unwrap_or_else(|| {
            let program = program_name(call.program)
                .map_or_else(|| Cow::Owned(call.program.to_string()), Cow::Borrowed);
            let operation = operation_text(call.program, call.version, call.operation);
            let keys = (
                self.dictionaries.program.key(&program),
                self.dictionaries.operation.key(&operation),
            );
            self.operation.put(bits, key, keys);
            keys
        })
    }

    /// Names of a COMPOUND's operations with spaces between them.
    #[inline(always)]
    pub(super) fn operations(&mut self, call: &Call, names: &Names) -> i32 {
        let Some(id) = call.operations else {
            return NONE;
        };
        // The same opcodes mean other operations from server to client.
        let back = is_callback(call.program);
        let place = id.0 as usize * 2 + usize::from(back);
        match self.lists.get(place) {
            Some(key) if *key >= 0 => *key,
            _ => self.new_operations(id, place, call, names),
        }
    }

    #[cold]
    fn new_operations(
        &mut self,
        id: OperationsId,
        place: usize,
        call: &Call,
        names: &Names,
    ) -> i32 {
        let listed = names.operations(id).iter();
        let texts: Vec<_> = listed
            .map(|operation| operation_text(call.program, call.version, *operation))
            .collect();
        let key = self.dictionaries.operations.key(&texts.join(" "));
        if place < 2 * MAX_OPERATION_LISTS {
            if place >= self.lists.len() {
                self.lists.resize(place + 1, NONE);
            }
            self.lists[place] = key;
        }
        key
    }

    #[inline(always)]
    pub(super) fn status(&mut self, call: &Call) -> i32 {
        if matches!(call.outcome, Outcome::Unanswered | Outcome::Unreadable) {
            return NONE;
        }
        let code = match call.outcome {
            Outcome::Status(code) => code,
            _ => 1,
        };
        let key = (call.program, call.version, call.outcome);
        let bits = code ^ call.version << 3 ^ call.program;
        self.status.get(bits, key).unwrap_or_else(|| {
            let text = match call.outcome {
                Outcome::Status(code) => status_name(call.program, call.version, code),
                Outcome::Refused(name) => Cow::Borrowed(name),
                _ => Cow::Borrowed("SUCCESS"), // of RPC; the protocol has no status here
            };
            let value = self.dictionaries.status.key(&text);
            self.status.put(bits, key, value);
            value
        })
    }

    #[inline(always)]
    pub(super) fn file(&mut self, file: Option<FileId>, names: &Names) -> FileKeys {
        let Some(id) = file else {
            return FileKeys {
                batch: 0,
                handle: NONE,
                path: NONE,
            };
        };
        match self.files.get(id.0 as usize) {
            Some(keys) if keys.batch == self.number && keys.path >= 0 => *keys,
            _ => self.new_file(id, names),
        }
    }

    #[cold]
    fn new_file(&mut self, id: FileId, names: &Names) -> FileKeys {
        let place = id.0 as usize;
        let mut keys = FileKeys {
            batch: self.number,
            handle: NONE,
            path: NONE,
        };
        match self.files.get(place) {
            Some(known) if known.batch == self.number => keys.handle = known.handle,
            _ => {
                if let Some(file) = names.file(id).filter(|file| !file.handle.is_empty()) {
                    self.text.clear();
                    write_hexadecimal(&file.handle, &mut self.text);
                    keys.handle = self.dictionaries.file_handle.key(&self.text);
                }
            }
        }
        self.text.clear();
        if names.write_path(id, &mut self.text) {
            keys.path = self.dictionaries.path.key(&self.text);
        }
        if place < MAX_FILES {
            if place >= self.files.len() {
                let unused = FileKeys { batch: 0, ..keys };
                self.files.resize(place + 1, unused);
            }
            self.files[place] = keys;
        }
        keys
    }

    #[inline(always)]
    pub(super) fn stability(&mut self, stability: Option<Stability>, column: usize) -> i32 {
        let Some(stability) = stability else {
            return NONE;
        };
        let key = &mut self.stabilities[column][stability as usize];
        if *key < 0 {
            let text = match stability {
                Stability::Unstable => "UNSTABLE",
                Stability::DataSync => "DATA_SYNC",
                Stability::FileSync => "FILE_SYNC",
            };
            *key = match column {
                0 => self.dictionaries.stable.key(text),
                _ => self.dictionaries.committed.key(text),
            };
        }
        *key
    }

    #[inline(always)]
    pub(super) fn marks(&mut self, bits: u16) -> i32 {
        if bits == 0 {
            return NONE;
        }
        let slot = u32::from(bits) ^ u32::from(bits >> 6);
        self.marks.get(slot, bits).unwrap_or_else(|| {
            let key = self.dictionaries.marks.key(&marks_text(bits));
            self.marks.put(slot, bits, key);
            key
        })
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    write_hexadecimal(bytes, &mut text);
    text
}

fn write_hexadecimal(bytes: &[u8], out: &mut String) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    const PAIRS: [[u8; 2]; 256] = {
        let (mut pairs, mut byte) = ([[0; 2]; 256], 0);
        while byte < pairs.len() {
            pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
            byte += 1;
        }
        pairs
    };
    /// Nearly all file handles have no more.
    const PIECE: usize = 32;
    for piece in bytes.chunks(PIECE) {
        let mut digits = [[0; 2]; PIECE];
        for (pair, byte) in digits.iter_mut().zip(piece) {
            *pair = PAIRS[usize::from(*byte)];
        }
        let digits = digits.as_flattened().get(..2 * piece.len());
        out.push_str(str::from_utf8(digits.unwrap_or_default()).unwrap_or_default());
    }
}

/// The marks' names with spaces between them.
fn marks_text(bits: u16) -> String {
    const NAMES: [(u16, &str); 10] = [
        (marks::TRUNCATED, "truncated"),
        (marks::MALFORMED, "malformed"),
        (marks::RESYNCHRONISED, "resynchronised"),
        (marks::PRIVATE, "private"),
        (marks::CONTROL, "control"),
        (marks::CALLBACK, "callback"),
        (marks::TLS_PROBE, "tls_probe"),
        (marks::XID_REUSED, "xid_reused"),
        (marks::EVICTED, "evicted"),
        (marks::RECONNECTED, "reconnected"),
    ];
    let set = NAMES.iter().filter(|(bit, _)| bits & bit != 0);
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    names.join(" ")
}
