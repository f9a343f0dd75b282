//! The fuzz targets of both ends, a short run on stable Rust (see `fuzz/smoke.rs`). It finds what
//! breaks at once; `fuzz/run` searches for the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

extern crate self as bounded;

#[macro_use]
#[path = "../../../fuzz/smoke.rs"]
mod smoke;

// Changed inputs of each: those over sockets are slow.
targets! {
    client_replies = "../../../fuzz/nfs_targets/client_replies.rs", 1500;
    server_calls = "../../../fuzz/nfs_targets/server_calls.rs", 10_000;
}

const LIMITS: smoke::Limits = smoke::Limits {
    input_bytes: 4096,
    held_bytes: 32 << 20,
};

/// Messages of the codec's tests, as they are and as pieces of a script.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for (number, (origin, message)) in smoke::messages().into_iter().enumerate() {
        let mut add = |what: &str, bytes| found.push((format!("{origin} {what}"), bytes));
        let piece = &message[..message.len().min(255)];
        for kind in [0, 1, 0xe0] {
            add("as a piece", [&[kind, piece.len() as u8], piece].concat());
        }
        // The arguments behind the header, for a call with a handle of the server's own.
        let behind = &piece[piece.len().min(100)..];
        let name = [0, 0, 0, 1, b'x', 0, 0, 0];
        let made = [&[8, 36][..], &name, &[0; 28], &[9, 32], &name, &[0; 24]].concat();
        let procedure = (number % 22) | ((number & 1) << 5);
        let asked = [procedure as u8, behind.len() as u8];
        add("as arguments", [&made[..], &asked, behind].concat());
        add("whole", message);
    }
    assert!(found.len() > 50, "the codec's messages are seeds");
    found
}

smoke_tests!("fuzz/nfs_targets");
