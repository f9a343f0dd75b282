//! Any bytes as replies of a web server: no panic, pieces change nothing, no byte counts twice, and
//! what is kept for the next piece is bounded.
#![no_main]

use bounded::fuzz_target;
use web::reply::{Head, MAX_HEAD_BYTES, Reply, ReplyError, Step};

/// What was read of one reply: its head, its body, whether it ended, and bytes used.
#[derive(Debug, PartialEq)]
struct Read {
    head: Option<Head>,
    body: Vec<u8>,
    ended: bool,
    used: usize,
    error: Option<ReplyError>,
}

fn read(bytes: &[u8], piece: usize) -> Read {
    let mut reply = Reply::default();
    let (mut used, mut there) = (0, 0);
    let mut read = Read { head: None, body: Vec::new(), ended: false, used: 0, error: None };
    loop {
        match reply.step(&bytes[used..there]) {
            Err(error) => {
                read.error = Some(error);
                return read;
            }
            Ok((step, found)) => {
                assert!(step <= there - used);
                used += step;
                match found {
                    Step::Head(head) => read.head = Some(head),
                    Step::Data(count) => {
                        assert!(count <= step);
                        read.body.extend_from_slice(&bytes[used - count..used]);
                    }
                    Step::End => {
                        read.ended = true;
                        read.used = used;
                        return read;
                    }
                    Step::More => {
                        assert!(there - used <= MAX_HEAD_BYTES, "{} bytes kept", there - used);
                        if there == bytes.len() {
                            read.ended = reply.ends_with_connection();
                            return read;
                        }
                        there = (there + piece).min(bytes.len());
                    }
                }
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let (&size, bytes) = match data.split_first() {
        Some(split) => split,
        None => return,
    };
    let whole = read(bytes, bytes.len().max(1));
    let pieces = read(bytes, usize::from(size).max(1));
    assert!(whole.body.len() <= bytes.len());
    match (&whole.error, &pieces.error) {
        // In pieces, nonsense may be seen before the bound is, or the other way round.
        (Some(_), Some(_)) => {}
        _ => assert_eq!(whole, pieces),
    }
    if let Some(length) = whole.head.and_then(|head| head.length)
        && whole.ended
        && !matches!(whole.head.map(|head| head.status), Some(204 | 304))
    {
        assert_eq!(whole.body.len() as u64, length);
    }
});
