//! The fuzz target of replies, a short run on stable Rust (see `fuzz/smoke.rs`), and replies that
//! are right, in any pieces. Seeds: replies as nginx 1.22 and the embedded server send them, and
//! those of RFC 9112.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

extern crate self as bounded;

#[macro_use]
#[allow(dead_code)]
#[path = "../../../fuzz/smoke.rs"]
mod smoke;

use proptest::prelude::*;
use web::reply::{Reply, Step};

targets! {
    http_reply = "../../../fuzz/web_targets/http_reply.rs", 20_000;
}

const LIMITS: smoke::Limits = smoke::Limits {
    input_bytes: 40_000,
    held_bytes: 1 << 20,
};

/// Kept in a file of their own: `fuzz/run` reads them, too.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let text = include_str!("data/replies.txt");
    let replies: Vec<&str> = text.split("\n----\n").collect();
    assert!(replies.len() > 8);
    let of = |(number, reply): (usize, &&str)| {
        let reply = reply.replace('\n', "\r\n");
        let bytes = [&[number as u8 * 7 + 1], reply.as_bytes()].concat();
        (format!("reply {number}"), bytes)
    };
    replies.iter().enumerate().map(of).collect()
}

smoke_tests!("fuzz/web_targets");

/// The body of a reply that comes in pieces of these sizes, and what is left behind it.
fn body_of(bytes: &[u8], sizes: &[usize]) -> (Vec<u8>, usize) {
    let mut reply = Reply::default();
    let (mut body, mut used, mut there) = (Vec::new(), 0, 0);
    let mut sizes = sizes.iter().cycle();
    loop {
        let (step, found) = reply.step(&bytes[used..there]).unwrap();
        used += step;
        match found {
            Step::More => {
                assert!(there < bytes.len(), "it ends before the bytes do");
                there = (there + sizes.next().unwrap()).min(bytes.len());
            }
            Step::Data(count) => body.extend_from_slice(&bytes[used - count..used]),
            Step::Head(head) => assert_eq!(head.status, 200),
            Step::End => return (body, there - used),
        }
    }
}

proptest! {
    #[test]
    fn right_replies_are_read_right_in_any_pieces(
        body in proptest::collection::vec(any::<u8>(), 0..2000),
        cuts in proptest::collection::vec(1_usize..300, 1..10),
        sizes in proptest::collection::vec(1_usize..500, 1..8),
    ) {
        let by_length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let by_length = [by_length.as_bytes(), &body].concat();
        prop_assert_eq!(body_of(&by_length, &sizes), (body.clone(), 0));
        let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let (mut rest, mut cuts) = (&body[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (chunk, behind) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            chunked.extend_from_slice(chunk);
            chunked.extend_from_slice(b"\r\n");
            rest = behind;
        }
        chunked.extend_from_slice(b"0\r\nTrailer: yes\r\n\r\n");
        prop_assert_eq!(body_of(&chunked, &sizes), (body, 0));
    }
}
