#![no_main]
//! The whole chain, from bytes to lenses and columns: a capture file, or a short script of RPC
//! messages in segments. Nothing panics, every call becomes one row, and the per-operation table
//! counts as many. What is made of the calls at the end (our own figures, no foreign bytes) takes
//! nine tenths of the time: only one input in `WHOLE_EVERY` goes so far.
use std::io::Cursor;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bounded::fuzz_target;
use trace::analysis::{Findings, Options, Pass};
use trace::block::{ACK, Block, Endpoint, FIN, Host, NO_SCALE, SYN, Segment, Transport};
use trace::lens::LENSES;
use trace::source::{Bounds, Reader, Totals};

/// Small sizes: an execution should not spend its time on clearing blocks.
const BOUNDS: Bounds = Bounds {
    block_bytes: 16 << 10,
    frame_bytes: 8 << 10,
    fragment_bytes: 1 << 16,
    window_bytes: 0,
    zstd_window_bytes: 8 << 20,
};
/// One input of so many, told by a sum of its bytes, is taken to the end: tables, JSON and columns.
/// (Not by its length: most have the greatest one.)
const WHOLE_EVERY: u64 = 64;
/// Programs and versions that are spoken.
const PLACES: [[u32; 2]; 12] = [
    [100_003, 3],
    [100_003, 4],
    [100_003, 4],
    [100_003, 2],
    [0x4000_0000, 1],
    [100_005, 3],
    [100_021, 4],
    [100_024, 1],
    [100_227, 3],
    [100_000, 2],
    [100_000, 4],
    [100_003, 3],
];

/// Takes bytes from the front; zeros behind the end.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A call or reply with few transaction ids, so that they meet; its body is of the script.
    fn message(&mut self, to_server: bool) -> Vec<u8> {
        let (what, xid) = (self.byte(), self.byte() % 8);
        let [program, version] = PLACES[usize::from(what & 15) % PLACES.len()];
        let mut message = Vec::with_capacity(512);
        let mut add = |words: &[u32]| {
            for word in words {
                message.extend_from_slice(&word.to_be_bytes());
            }
        };
        add(&[u32::from(xid)]);
        if to_server != (what & 0x80 != 0) {
            add(&[0, 2, program, version, u32::from(self.byte() % 24)]);
            match what >> 4 & 7 {
                // RPCSEC_GSS: integrity, privacy, context control.
                5 => add(&[6, 20, 1, 0, u32::from(xid), 2, 0, 6, 0]),
                6 => add(&[6, 20, 1, 0, u32::from(xid), 3, 0, 6, 0]),
                7 => add(&[6, 20, 1, 1, 0, 1, 0, 0, 0]),
                _ => add(&[1, 20, 1, 0, 1000, 100, 0, 0, 0]),
            }
        } else {
            add(&[1, 0, 0, 0, u32::from(what >> 4 & 7 == 7)]);
        }
        let mut body = usize::from(self.byte());
        // XDR is mostly small words: each byte of the script is one, or stands for itself.
        while body > 0 && !self.0.is_empty() {
            match self.byte() {
                255 => message.extend_from_slice(self.take(4)),
                254 => message.resize(message.len() + 16 * usize::from(self.byte()), 0x61),
                byte => message.extend_from_slice(&[0, 0, 0, byte]),
            }
            body -= 1;
        }
        message
    }
}

/// Source and destination: side 0 is the client.
fn endpoints(flow: usize, side: usize) -> (Endpoint, Endpoint) {
    let endpoint = |last: u8, port: u16| Endpoint {
        host: Host::from_v4([10, 0, 0, last]),
        port,
    };
    let (client, server) = (endpoint(2, 700 + flow as u16), endpoint(1, 2049));
    match side {
        0 => (client, server),
        _ => (server, client),
    }
}

/// Segments of two TCP connections and one pair of UDP endpoints.
fn script(data: &[u8], pass: &mut Pass) -> bool {
    let mut script = Script(data);
    let mut next = [[1000u32; 2]; 3];
    let (mut frame, mut time_ns) = (0, 1_700_000_000_000_000_000);
    while !script.0.is_empty() {
        let (what, style) = (script.byte(), script.byte());
        let (flow, side) = (usize::from(what % 3), usize::from(what >> 2 & 1));
        let mut payload = script.message(side == 0);
        if flow < 2 {
            let mark = 0x8000_0000 | payload.len() as u32;
            payload.splice(..0, mark.to_be_bytes());
        }
        frame += 1;
        time_ns += match style >> 6 {
            0 => 1000,
            1 => 50_000_000,
            2 => 130_000_000_000,
            _ => -2_000_000,
        };
        let sequence = next[flow][side].wrapping_add(if style & 7 == 7 { 100 } else { 0 });
        if style & 0x18 != 0x18 {
            // Otherwise the next one is sent in this one's place.
            next[flow][side] = sequence.wrapping_add(payload.len() as u32);
        }
        let cut = if style & 0x20 != 0 {
            payload.len().min(usize::from(what))
        } else {
            payload.len()
        };
        let (source, destination) = endpoints(flow, side);
        let segment = Segment {
            time_ns,
            first_ns: time_ns,
            frame,
            source,
            destination,
            transport: [Transport::Tcp, Transport::Tcp, Transport::Udp][flow],
            flags: match style & 7 {
                5 => SYN,
                6 => ACK | FIN,
                _ => ACK,
            },
            window_scale: NO_SCALE,
            ip_id: 0,
            window: u16::from(what) << 8,
            sequence,
            acknowledgement: next[flow][1 - side],
            payload_at: 0,
            captured_bytes: cut as u32,
            payload_bytes: payload.len() as u32,
            sack: None,
        };
        let block = Block {
            bytes: payload,
            segments: vec![segment],
            frames: 1,
            wire_bytes: 100,
            times_ns: Some((time_ns, time_ns)),
            part_begin_ns: None,
            mapped: None,
        };
        if pass.block(&block).is_err() {
            return false;
        }
    }
    true
}

/// The capture's blocks; `None` if it is none, or cannot be read to its end.
fn capture(data: &[u8], pass: &mut Pass) -> Option<Totals> {
    let mut reader = Reader::of_bytes("fuzz", Cursor::new(data.to_vec()), BOUNDS).ok()?;
    let mut block = Block::default();
    while reader.read(&mut block).ok()? {
        pass.block(&block).ok()?;
    }
    Some(reader.totals())
}

/// Which lenses run, by the input's last byte: mostly `operations` alone, since what the others write
/// at the end takes more time than all that they read.
fn lenses(data: &[u8]) -> Vec<String> {
    match usize::from(data.last().copied().unwrap_or(0)) % (2 * LENSES.len() + 2) {
        0 | 1 => Vec::new(),
        number => {
            let (name, ..) = LENSES.get(number - 2).unwrap_or(&LENSES[0]);
            vec![(*name).to_owned()]
        }
    }
}

/// Whether an input is taken to the end.
fn is_whole(data: &[u8]) -> bool {
    let (words, rest) = data.as_chunks::<8>();
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let sum = words.fold(data.len() as u64, mix);
    let sum = rest
        .iter()
        .fold(sum, |sum, byte| mix(sum, u64::from(*byte)));
    // By its highest bits: all of the input are in them.
    (sum >> 32) * WHOLE_EVERY >> 32 == 0
}

/// Calls that the table by operation counts: RPC calls stand under COMPOUND or their procedure;
/// and whether the table tells them all from operations inside COMPOUNDs.
fn counted(findings: &Findings) -> (u64, bool) {
    let (_, section) = &findings.sections[0];
    let rows = section.json.as_array().expect("a list of operations");
    let calls = |row: &serde_json::Value| row["calls"].as_u64().expect("a count");
    // Operations inside COMPOUNDs may have been left out when the server stopped before them.
    let inner = |row: &serde_json::Value| row.get("not_executed").is_some();
    let sum = rows.iter().filter(|row| !inner(row)).map(calls).sum();
    let mixed = |row: &serde_json::Value| inner(row) && row["operation"] == "OTHER";
    (sum, !rows.iter().any(mixed))
}

fuzz_target!(|data: &[u8]| {
    let options = Options {
        columns: true,
        lenses: lenses(data),
        ..Options::default()
    };
    let mut pass = Pass::new(&options, Arc::default()).expect("options are well");
    let (sender, batches) = sync_channel(8);
    pass.set_columns(sender);
    let totals = match data.split_first() {
        Some((0, rest)) => script(rest, &mut pass).then(Totals::default),
        _ => capture(data, &mut pass),
    };
    let Some(totals) = totals else { return };
    if !is_whole(data) {
        return;
    }
    let findings = pass.finish(&totals, &[]).expect("columns are taken");
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let calls = findings.summary["calls"].as_u64().expect("a count");
    assert_eq!(rows as u64, calls);
    let (sum, told_apart) = counted(&findings);
    assert!(sum == calls || (sum < calls && !told_apart));
});
