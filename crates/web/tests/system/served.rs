//! The generator on the embedded server, and the server alone under plain sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Instant;

use web::fileset::{Content, FileId};
use web::load::{LoadConfig, Report, check_post_log, run};
use web::server::{ServerConfig, WebServer};

use crate::file_set::config;

pub fn load(address: SocketAddr, load: &str, more: &str) -> LoadConfig {
    let text = format!(
        r#"{{"address": "{address}", "file_set": {{"seed": 7, "directories": 2}},
             "load": {load}, "warm_up_s": 0.1, "measure_s": 0.6, "timeout_s": 60{more}}}"#
    );
    LoadConfig::from_json(&text).unwrap()
}

pub fn serve(root: &Path, more: &str) -> WebServer {
    let root = root.display();
    let text = format!(r#"{{"listen": "127.0.0.1:0", "root": "{root}"{more}}}"#);
    let config: ServerConfig = serde_json::from_str(&text).unwrap();
    WebServer::start(&config).unwrap()
}

pub fn with_files() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    web::fileset::write(&config(root.path(), 2), &mut ()).unwrap();
    root
}

/// One request on a connection of its own: status, head, body.
fn ask(address: SocketAddr, request: &str) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, all[end..].to_vec())
}

fn get(address: SocketAddr, path: &str) -> (u16, String, Vec<u8>) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    ask(address, &request)
}

fn without_faults(report: &Report) {
    assert_eq!(report.errors, std::collections::BTreeMap::new());
    assert_eq!(report.requests.failed_outside, 0);
    assert_eq!(report.requests.unfinished, 0);
    assert!(report.requests.done > 20, "{:?}", report.requests);
}

/// Of a load with all kinds of requests, all of whose bytes were compared.
fn adds_up(report: &Report) {
    let done: u64 = report.kinds.iter().map(|kind| kind.figures.done).sum();
    assert_eq!(done, report.requests.done);
    assert!(
        report.kinds.iter().all(|kind| kind.figures.done > 0),
        "all kinds"
    );
    let posts = report.kinds[4].figures.done;
    let classes: u64 = report.classes.iter().map(|class| class.figures.done).sum();
    assert_eq!(classes + posts, done);
    let files: u64 = report
        .classes
        .iter()
        .flat_map(|class| class.done_files)
        .sum();
    assert_eq!(files, classes);
    assert_eq!(report.directories.done.iter().sum::<u64>(), classes);
    assert_eq!(report.requests.verified_replies, done);
    assert_eq!(report.requests.verified_bytes, report.all.bytes);
    assert_eq!(report.all.last_byte.count, done);
    assert!(report.requests.received_bytes > report.all.bytes / 2);
    // Latencies as histograms have them, and as Little's law has them.
    assert_eq!(report.little.residual_ns, 0);
    let responses_ns = report.all.last_byte.mean_ns.unwrap_or(0.0) * done as f64;
    let others_ns = report.little.responses_ns as f64 - responses_ns;
    assert!(others_ns.abs() <= responses_ns * 1e-9 + 1.0, "{others_ns}");
    assert!(report.touched.files > 0 && report.touched.files <= 72);
}

#[test]
fn every_mode_is_answered_right_and_accounted_for() {
    let root = with_files();
    let post_log = root.path().join("posts.log");
    let server = serve(
        root.path(),
        &format!(r#", "post_log": "{}""#, post_log.display()),
    );
    let modes = [
        r#"{"mode": "closed", "connections": 5}"#,
        r#"{"mode": "open", "rate_per_s": 400, "connections": 20}"#,
        r#"{"mode": "open", "rate_per_s": 300, "arrivals": "uniform", "connections": 20}"#,
        r#"{"mode": "line_speed", "connections": 30, "line_bits_per_s": 40000000,
            "conforming_bits_per_s": 1}"#,
    ];
    let (mut writers, mut acknowledged) = (Vec::new(), 0);
    for (process, mode) in modes.into_iter().enumerate() {
        let more = format!(
            r#", "threads": 2, "process": {process}, "verify_share": 1.0, "drain_s": 60,
               "mix": {{"static_get": 0.3, "dynamic_get": 0.2, "cgi_get": 0.1, "ad_get": 0.2,
                        "post": 0.2}}"#
        );
        let report = run(load(server.address(), mode, &more), &mut ()).unwrap();
        without_faults(&report);
        adds_up(&report);
        if report.requests.offered_per_s.is_some() {
            assert_eq!(report.requests.skipped, 0);
            assert_eq!(report.requests.drawn, report.requests.planned);
            // And one that was due before the window, and taken in it.
            assert!(report.late.count >= report.requests.planned);
        }
        let line = mode.contains("line_speed");
        assert_eq!(
            report.connections.rates_bits_per_s.len(),
            if line { 30 } else { 0 }
        );
        assert_eq!(report.connections.conforming.is_some(), line);
        for writer in &report.posts {
            assert!(writer.unacknowledged.is_empty());
            acknowledged += writer.drawn;
        }
        writers.extend(report.posts);
    }
    let counts = server.stop();
    assert_eq!(
        (counts.post, counts.posts_written),
        (acknowledged, acknowledged)
    );
    let found = check_post_log(&post_log, &writers).unwrap();
    assert_eq!(
        (found.lines, found.acknowledged),
        (acknowledged, acknowledged)
    );
    assert_eq!(
        (found.lost, found.twice, found.malformed, found.foreign),
        (0, 0, 0, 0)
    );
    assert!(!server.is_running());
}

#[test]
fn a_line_lets_no_more_through_than_its_speed() {
    let root = with_files();
    let server = serve(root.path(), "");
    let mode = r#"{"mode": "line_speed", "connections": 20, "line_bits_per_s": 2000000,
                   "conforming_bits_per_s": 2000000, "receive_buffer_bytes": 4096}"#;
    let only_files = r#", "mix": {"static_get": 1.0}, "close_share": 0.0, "drain_s": 0.0"#;
    let report = run(load(server.address(), mode, only_files), &mut ()).unwrap();
    // A read of an eighth of a second may lie on each edge of the timed part: 0.6 s + 0.125 s.
    let most = 2_000_000.0 * (0.6 + 0.125 + 0.01) / 0.6;
    for rate in &report.connections.rates_bits_per_s {
        assert!((*rate as f64) < most, "{rate}");
    }
    let sum: u64 = report.connections.rates_bits_per_s.iter().sum();
    // Truncated once for each connection; exact otherwise.
    let bits = report.requests.received_bytes as f64 * 8.0 / 0.6;
    assert!((bits - sum as f64).abs() <= 21.0, "{bits} {sum}");
    // The kernel holds the rest back: what the server has sent is not far ahead of the lines.
    let sent = server.stop().body_bytes;
    let got: u64 = report.series.received_bytes.iter().sum();
    assert!(sent < got + 20 * (4 << 20), "{sent} {got}");
}

#[test]
fn a_server_with_a_bandwidth_limit_sends_no_more_than_it() {
    let root = with_files();
    let server = serve(root.path(), r#", "bandwidth_bytes_per_s": 500000"#);
    // Lines that could take ten times the limit: each gets a tenth, and none conforms.
    let mode = r#"{"mode": "line_speed", "connections": 20, "line_bits_per_s": 2000000,
                   "conforming_bits_per_s": 1600000}"#;
    let only_files = r#", "mix": {"static_get": 1.0}, "close_share": 0.0, "drain_s": 0.0"#;
    let begun = Instant::now();
    let report = run(load(server.address(), mode, only_files), &mut ()).unwrap();
    assert_eq!(report.connections.conforming, Some(0));
    // All of its time at 500,000 bytes a second (what was not taken then comes later), and what 20
    // connections may be ahead and have in their sockets.
    let limited = begun.elapsed().as_secs_f64() * 500_000.0;
    let most = limited as u64 + 20 * (4096 + 32_768);
    let got = report.requests.received_bytes;
    assert!(got > 20_000 && got < most, "{got}");
}

#[test]
fn files_pages_and_their_heads_are_as_documented() {
    let root = with_files();
    let server = serve(root.path(), "");
    let address = server.address();
    let id = FileId {
        directory: 1,
        class: 3,
        file: 2,
    };
    let mut bytes = vec![0; 204_800];
    Content::new(7).fill(id.index(), 0, &mut bytes);
    let path = "/file_set/dir00001/class3_2";
    let (status, head, body) = get(address, path);
    assert_eq!(status, 200);
    assert!(
        head.to_lowercase().contains("content-length: 204800\r\n"),
        "{head}"
    );
    assert_eq!(body, bytes);
    assert_eq!(std::fs::read(root.path().join(&path[1..])).unwrap(), bytes);
    let request = format!("HEAD {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let (status, head, body) = ask(address, &request);
    assert_eq!((status, body.len()), (200, 0));
    assert!(
        head.to_lowercase().contains("content-length: 204800\r\n"),
        "{head}"
    );
    // As a proxy asks.
    let (status, _, body) = ask(address, &format!("GET {path} HTTP/1.0\r\n\r\n"));
    assert_eq!((status, body.len()), (200, 204_800));
    let query = "path=file_set/dir00001/class3_2&id=0000002a-0000000001";
    for page in ["standard", "cgi"] {
        let (status, _, body) = get(address, &format!("/dynamic/{page}?{query}"));
        assert_eq!(status, 200);
        assert!(body.windows(bytes.len()).any(|window| window == bytes));
    }
    let with_cookie = format!(
        "GET /dynamic/ad?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Cookie: a=b; nfslab=user=00000009&last_ad=358\r\n\r\n"
    );
    let (status, head, body) = ask(address, &with_cookie);
    assert_eq!(status, 200);
    // User 9 goes in steps of 7: 358 + 7 - 360 = 5.
    assert!(
        head.contains("nfslab=user=00000009&last_ad=005\r\n"),
        "{head}"
    );
    assert!(String::from_utf8_lossy(&body).contains("<p>ad 005</p>"));
    let counts = server.stop();
    assert_eq!(
        (
            counts.static_get,
            counts.dynamic_get,
            counts.cgi_get,
            counts.ad_get
        ),
        (3, 1, 1, 1)
    );
}

#[test]
fn whoever_may_not_connect_gets_nothing() {
    let root = with_files();
    for (allowed, answers) in [("127.0.0.1", true), ("127.0.0.2", false)] {
        let server = serve(root.path(), &format!(r#", "allow": ["{allowed}"]"#));
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let _ = stream.write_all(b"GET /file_set/dir00000/class0_1 HTTP/1.0\r\n\r\n");
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        assert_eq!(reply.starts_with(b"HTTP/1"), answers, "{allowed}");
        assert_eq!(server.stop().static_get, u64::from(answers));
    }
}

#[test]
fn nothing_outside_of_the_root_is_served() {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    std::fs::create_dir_all(root.join("folder")).unwrap();
    std::fs::write(outside.path().join("secret"), b"secret").unwrap();
    std::fs::write(root.join("inside"), b"inside").unwrap();
    std::os::unix::fs::symlink("../secret", root.join("relative")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), root.join("absolute")).unwrap();
    std::os::unix::fs::symlink("..", root.join("up")).unwrap();
    std::os::unix::fs::symlink("inside", root.join("within")).unwrap();
    let server = serve(&root, "");
    let address = server.address();
    for path in [
        "/../secret",
        "/folder/../../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "//../secret",
        "/relative",
        "/absolute",
        "/up/secret",
        "/proc/self/root/etc/passwd",
        "/folder",
        "/",
        "/nothing",
        "/dynamic/none",
    ] {
        let (status, _, body) = get(address, path);
        assert_eq!(status, 404, "{path}");
        assert!(!body.windows(6).any(|six| six == b"secret"), "{path}");
    }
    assert_eq!(get(address, "/inside").2, b"inside");
    assert_eq!(get(address, "/within").2, b"inside");
    for query in [
        "",
        "?path=../secret&id=0000002a-0000000001",
        "?path=/etc/passwd",
    ] {
        assert_eq!(
            get(address, &format!("/dynamic/standard{query}")).0,
            400,
            "{query}"
        );
    }
    let delete = "DELETE /inside HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(address, delete).0, 405);
    assert_eq!(get(address, "/post").0, 404, "no log was asked for");
    assert_eq!(server.stop().static_get, 2);
}

#[test]
fn posts_and_requests_are_logged_in_whole_lines() {
    let root = with_files();
    let (posts, access) = (root.path().join("posts"), root.path().join("access"));
    let more = format!(
        r#", "post_log": "{}", "access_log": "{}", "sync_posts": true"#,
        posts.display(),
        access.display()
    );
    let server = serve(root.path(), &more);
    let address = server.address();
    let post = |body: &str| {
        let length = body.len();
        let head = format!("POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n");
        ask(
            address,
            &format!("{head}Connection: close\r\nUser-Agent: a\"b\r\n\r\n{body}"),
        )
    };
    let asked = "path=file_set/dir00001/class3_2&id=0000002a-0000000001&fill=xx";
    let (status, _, body) = post(asked);
    assert_eq!(
        (status, &body[..]),
        (200, &b"posted 0000002a-0000000001 000000000000\n"[..])
    );
    assert_eq!(post("nonsense").0, 400);
    assert_eq!(post(&"x".repeat(100_000)).0, 413);
    get(address, "/nothing");
    server.stop();
    let text = std::fs::read_to_string(posts).unwrap();
    assert_eq!(text, format!("0 0000002a-0000000001 {}\n", asked.len()));
    let text = std::fs::read_to_string(access).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with("127.0.0.1 - - ["));
    assert!(
        lines[0].ends_with(r#"] "POST /post HTTP/1.1" 200 40 "-" "a\x22b""#),
        "{}",
        lines[0]
    );
    assert!(
        lines[3].ends_with(r#" "GET /nothing HTTP/1.1" 404 9 "-" "-""#),
        "{}",
        lines[3]
    );
}

#[test]
fn a_port_that_is_taken_and_a_root_that_is_none_are_told() {
    let root = tempfile::tempdir().unwrap();
    let server = serve(root.path(), "");
    let start = |listen: SocketAddr, path: &Path| {
        let (path, listen) = (path.display(), listen);
        let text = format!(r#"{{"listen": "{listen}", "root": "{path}"}}"#);
        WebServer::start(&serde_json::from_str(&text).unwrap()).unwrap_err()
    };
    assert_eq!(start(server.address(), root.path()).kind(), "in_use");
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    assert_eq!(start(free, &root.path().join("nowhere")).kind(), "missing");
}
