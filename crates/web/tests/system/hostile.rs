//! Servers that answer what they ought not to: counted by kind, and nothing hangs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net;
use web::load::{LoadConfig, Report, run};
use web::{Observer, Progress};

use crate::served::load;

/// A server that hands each request of each connection to `answer`, which returns false to close.
fn scripted(answer: impl Fn(&mut TcpStream) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    // Its threads end with the test's process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while matches!(stream.read(&mut request), Ok(1..)) && answer(&mut stream) {}
            });
        }
    });
    address
}

/// A port where nobody listens, nor ever will while the socket is there.
fn closed() -> (OwnedFd, SocketAddr) {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = net::getsockname(&socket).unwrap().try_into().unwrap();
    (socket, address)
}

/// POSTs, whose reply has 40 bytes always, until some have failed: all of it is timed.
fn posts(address: SocketAddr) -> LoadConfig {
    let more = r#", "mix": {"post": 1.0}, "close_share": 0.0, "drain_s": 0.1"#;
    let config = load(address, r#"{"mode": "closed", "connections": 3}"#, more);
    LoadConfig {
        warm_up_s: 0.0,
        measure_s: 120.0,
        ..config
    }
}

struct UntilSomeFailed;

impl Observer<Progress> for UntilSomeFailed {
    fn tick(&mut self, progress: &Progress) -> bool {
        !matches!(progress, Progress::Load { failed: 3.., .. })
    }
}

/// The only kind of error of a load on such a server.
fn errors_of(answer: impl Fn(&mut TcpStream) -> bool + Send + Sync + 'static) -> (String, Report) {
    let report = run(posts(scripted(answer)), &mut UntilSomeFailed).unwrap();
    assert_eq!(report.requests.done, 0, "{:?}", report.errors);
    assert_eq!(report.errors.len(), 1, "{:?}", report.errors);
    let (kind, count) = report.errors.iter().next().unwrap();
    assert_eq!(report.requests.failed, *count);
    assert_eq!(report.kinds[4].failed, *count);
    let told: Vec<&str> = report.reasons.iter().map(|reason| reason.kind).collect();
    assert!(told.contains(&"nothing_done"), "{told:?}");
    ((*kind).to_owned(), report)
}

fn says(text: &'static [u8]) -> impl Fn(&mut TcpStream) -> bool + Send + Sync + 'static {
    move |stream| stream.write_all(text).is_ok()
}

#[test]
fn every_wrong_answer_is_counted_as_what_it_is() {
    let cases: [(&[u8], &str); 9] = [
        (
            b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
            "bad_status",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 39\r\n\r\n",
            "wrong_length",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n",
            "wrong_length",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n\
              posted 0000002a-0000000001 000000000000\n",
            "wrong_bytes",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nposted",
            "malformed",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "wrong_length",
        ),
        (b"220 smtp ready\r\n", "malformed"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\n",
            "malformed",
        ),
        (
            b"HTTP/1.1 302 Elsewhere\r\nLocation: /\r\n\r\n",
            "bad_status",
        ),
    ];
    for (text, kind) in cases {
        let (found, report) = errors_of(says(text));
        assert_eq!(found, kind, "{}", String::from_utf8_lossy(text));
        if kind == "bad_status" {
            let code = if text[9] == b'5' { 500 } else { 302 };
            assert_eq!(
                report.statuses.keys().copied().collect::<Vec<u16>>(),
                [code]
            );
        }
    }
}

#[test]
fn early_ends_and_resets() {
    assert_eq!(errors_of(|_| false).0, "closed_early");
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nposted";
    let cut = |stream: &mut TcpStream| {
        stream.write_all(half).unwrap();
        false
    };
    assert_eq!(errors_of(cut).0, "closed_early");
}

#[test]
fn what_has_no_end_is_ended() {
    let without_end = |front: &'static [u8], piece: &'static [u8]| {
        move |stream: &mut TcpStream| {
            let _ = stream.write_all(front);
            while stream.write_all(piece).is_ok() {}
            false
        }
    };
    let head = b"HTTP/1.1 200 OK\r\n";
    assert_eq!(
        errors_of(without_end(head, b"X: yyyyyyyyyyyyyyyyy\r\n")).0,
        "head_too_long"
    );
    assert_eq!(
        errors_of(without_end(head, b"Xyyyyyyyyyyyyyyyyyyyy")).0,
        "head_too_long"
    );
    let interim = b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n";
    assert_eq!(errors_of(without_end(b"", interim)).0, "head_too_long");
    let to_the_end =
        b"HTTP/1.1 200 OK\r\n\r\n0123456789012345678901234567890123456789012345678901234567";
    assert_eq!(
        errors_of(without_end(to_the_end, b"xxxxxxxx")).0,
        "wrong_length"
    );
    let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(errors_of(without_end(chunks, b"1;x=")).0, "head_too_long");
}

#[test]
fn silence_is_a_timeout_and_a_closed_port_is_refused() {
    let silent = scripted(|_| true);
    let config = LoadConfig {
        timeout_s: 0.05,
        ..posts(silent)
    };
    let report = run(config, &mut UntilSomeFailed).unwrap();
    assert_eq!(
        report.errors.keys().copied().collect::<Vec<_>>(),
        ["timeout"]
    );
    let (_socket, free) = closed();
    let report = run(posts(free), &mut UntilSomeFailed).unwrap();
    assert_eq!(
        report.errors.keys().copied().collect::<Vec<_>>(),
        ["connect_refused"]
    );
    // Pauses grow: three connections did not ask without rest.
    assert!(report.requests.failed < 300, "{}", report.requests.failed);
    let writers: u64 = report.posts.iter().map(|writer| writer.drawn).sum();
    let open: usize = report
        .posts
        .iter()
        .map(|writer| writer.unacknowledged.len())
        .sum();
    assert_eq!(open as u64, writers, "nothing was acknowledged");
}

#[test]
fn a_reply_that_drips_is_a_timeout_and_counts_behind_the_timed_part() {
    let drip = |stream: &mut TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        while stream.write_all(b"y").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        false
    };
    let config = LoadConfig {
        measure_s: 0.1,
        timeout_s: 0.2,
        drain_s: 5.0,
        ..posts(scripted(drip))
    };
    let report = run(config, &mut ()).unwrap();
    assert_eq!(report.little.residual_ns, 0);
    let requests = report.requests;
    assert_eq!((requests.failed, requests.unfinished), (3, 0));
}

#[test]
fn an_open_load_on_a_port_that_is_closed_fails_each_request_once() {
    let (_socket, free) = closed();
    let mode = r#"{"mode": "open", "rate_per_s": 500, "connections": 4}"#;
    let config = LoadConfig {
        warm_up_s: 0.0,
        ..load(free, mode, "")
    };
    let report = run(config, &mut ()).unwrap();
    assert_eq!(report.little.residual_ns, 0);
    let requests = report.requests;
    assert_eq!(requests.drawn, requests.planned - requests.skipped);
    assert_eq!((requests.done, requests.unfinished), (0, 0));
    // Late ones fail behind the timed part, and count.
    assert_eq!(requests.failed, requests.drawn, "{requests:?}");
    assert!(requests.failed > 100, "{requests:?}");
}

#[test]
fn an_open_load_on_a_silent_server_counts_what_it_could_not_send() {
    let silent = scripted(|_| true);
    let mode = r#"{"mode": "open", "rate_per_s": 1000, "connections": 4, "backlog": 10}"#;
    let report = run(load(silent, mode, r#", "drain_s": 0.1"#), &mut ()).unwrap();
    assert_eq!(report.little.residual_ns, 0);
    assert!(
        report.outstanding_mean > 10.0,
        "{}",
        report.outstanding_mean
    );
    let requests = report.requests;
    assert_eq!((requests.done, requests.failed), (0, 0));
    assert_eq!((requests.left, requests.unfinished), (14, 14));
    assert!(requests.skipped > 100 && requests.oldest_left_ns > 500_000_000);
}

#[test]
fn chunked_replies_of_another_kind_of_server_are_read() {
    let chunked = scripted(|stream| {
        let reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n28\r\n0123456789\
                      012345678901234567890123456789\r\n0\r\n\r\n";
        stream.write_all(reply).is_ok()
    });
    // Its bytes are wrong, but it is a whole reply of the right length.
    let report = run(posts(chunked), &mut UntilSomeFailed).unwrap();
    assert_eq!(
        report.errors.keys().copied().collect::<Vec<_>>(),
        ["wrong_bytes"]
    );
}
