//! The threaded client and mounting, against a server in a thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::peer::Peer;
use crate::peer::memory::{FILE, MemoryServer, ROOT};
use client::nfs3::{Export, GetAttr, Lookup, MountService, Null, PortQuery, find_port};
use client::options::Transport;
use client::{CallError, Client, Engine, MountOptions, SharedBytes};
use measure::MonotonicClock;
use wire::nfs3::{
    GETATTR3args, LOOKUP3args, Res, WRITE3args, diropargs3, filename3, nfs_fh3, payload3,
    stable_how,
};

fn start(server: &MemoryServer, text: &str) -> Arc<Client> {
    let options = MountOptions::parse(text).unwrap();
    let engine = Engine::connect(server.address, &options, MonotonicClock).unwrap();
    Client::start_with(engine, Duration::ZERO).unwrap()
}

const GETATTR: GETATTR3args<'static> = GETATTR3args {
    object: nfs_fh3(FILE),
};

#[test]
fn many_threads_share_one_client() {
    let server = MemoryServer::start("127.0.0.1:0");
    let client = start(&server, "max_requests=4,nconnect=2");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let answer = client.call::<GetAttr>(None, &GETATTR).unwrap();
                    assert!(matches!(answer.decode().unwrap(), Res::Ok(_)));
                }
            });
        }
    });
    let (counters, operations) = client.figures().unwrap();
    assert_eq!((counters.answered, counters.outstanding), (800, 0));
    assert!(counters.outstanding_max <= 4);
    assert_eq!(operations.all()[1].calls, 800);
}

#[test]
fn continuations_get_borrowed_results_and_may_call_on() {
    let server = MemoryServer::start("127.0.0.1:0");
    let client = start(&server, "");
    let (sender, receiver) = mpsc::channel();
    let lookup = LOOKUP3args {
        what: diropargs3 {
            dir: nfs_fh3(ROOT),
            name: filename3(b"file"),
        },
    };
    let again = Arc::clone(&client);
    client.call_then::<Lookup>(None, &lookup, move |found| {
        let Ok(Res::Ok(found)) = found else {
            panic!("{found:?}");
        };
        let refused = again.call::<Null>(None, &()).unwrap_err();
        assert_eq!(refused, CallError::WouldDeadlock);
        let next = GETATTR3args {
            object: found.object,
        };
        again.call_then::<GetAttr>(None, &next, move |attributes| {
            sender.send(attributes.map(|a| a.status().code)).unwrap();
        });
    });
    assert_eq!(receiver.recv().unwrap(), Ok(0));
}

#[test]
fn later_is_waited_out_and_lost_connections_are_not_noticed() {
    let server = MemoryServer::start("127.0.0.1:0");
    let client = start(&server, "");
    server.with(|state| state.jukeboxes = 3);
    let answer = client.call::<GetAttr>(None, &GETATTR).unwrap();
    assert!(matches!(answer.decode().unwrap(), Res::Ok(_)));
    assert_eq!(server.calls(1).len(), 4);
    server.with(|state| state.closes = 1);
    client.call::<GetAttr>(None, &GETATTR).unwrap();
    let (counters, _) = client.figures().unwrap();
    assert_eq!((counters.disconnects, counters.retransmissions), (1, 1));
}

#[test]
fn shutdown_ends_what_waits_and_what_comes_later() {
    let silent = Peer::tcp("127.0.0.1:0");
    let options = MountOptions::parse("").unwrap();
    let engine = Engine::connect(silent.address, &options, MonotonicClock).unwrap();
    let client = Client::start(engine).unwrap();
    let ended = Arc::new(AtomicU64::new(0));
    for _ in 0..300 {
        let ended = Arc::clone(&ended);
        client.call_then::<Null>(None, &(), move |result| {
            assert_eq!(result, Err(CallError::Closed));
            ended.fetch_add(1, Ordering::SeqCst);
        });
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.call::<Null>(None, &()).map(drop));
        client.shutdown();
        assert_eq!(waiting.join().unwrap(), Err(CallError::Closed));
    });
    assert_eq!(ended.load(Ordering::SeqCst), 300);
    assert_eq!(client.figures().map(drop), Err(CallError::Closed));
    client.shutdown(); // again is fine
}

#[test]
fn the_last_handle_may_be_dropped_in_a_continuation() {
    let server = MemoryServer::start("127.0.0.1:0");
    let client = start(&server, "");
    let (sender, receiver) = mpsc::channel();
    let last = Arc::clone(&client);
    let (go, wait) = mpsc::channel::<()>();
    client.call_then::<Null>(None, &(), move |_| {
        wait.recv().unwrap();
        drop(last);
        sender.send(()).unwrap();
    });
    drop(client);
    go.send(()).unwrap();
    receiver.recv().unwrap();
}

#[test]
fn the_last_handle_may_be_dropped_while_the_reactor_ends() {
    let server = MemoryServer::start("127.0.0.1:0");
    server.with(|state| state.holds_writes = true);
    let client = start(&server, "");
    let (ended, end) = mpsc::channel();
    let last = Arc::clone(&client);
    let write = WRITE3args {
        file: nfs_fh3(FILE),
        offset: 0,
        count: 4,
        stable: stable_how::UNSTABLE,
        data: payload3(b"data"),
    };
    // Not answered: it ends with the reactor.
    client.write_then(None, write, SharedBytes::new(*b"data"), move |result| {
        drop(last);
        ended.send(result.map(drop)).unwrap();
    });
    let other = Arc::clone(&client);
    let (go, wait) = mpsc::channel::<()>();
    client.call_then::<Null>(None, &(), move |_| {
        wait.recv().unwrap();
        other.shutdown();
    });
    drop(client);
    go.send(()).unwrap();
    assert_eq!(end.recv().unwrap(), Err(CallError::Closed));
}

#[test]
fn an_export_is_mounted_with_its_sizes() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = MemoryServer::start(address);
        let port = server.address.port();
        let text = format!("port={port},mountport={port},wsize=1m");
        let options = MountOptions::parse(&text).unwrap();
        let host = server.address.ip();
        let export = Export::mount(host, "/export", options.clone()).unwrap();
        assert_eq!(export.root.as_fh().0, ROOT);
        let sizes = (
            export.options.read_size_bytes,
            export.options.write_size_bytes,
        );
        assert_eq!(sizes, (1 << 15, 1 << 16), "preferred, and the most");
        assert_eq!(export.options.adjustments().len(), 1);
        let error = Export::mount(host, "/nothing", options.clone()).unwrap_err();
        assert_eq!(error.errno(), rustix::io::Errno::NOENT);
        assert!(error.to_string().contains("/nothing"), "{error}");
        let error = Export::mount(host, "/kerberos", options.clone()).unwrap_err();
        assert!(error.to_string().contains("AUTH_SYS"), "{error}");
        let mut service = MountService::connect(host, &options).unwrap();
        let exports = service.exports().unwrap();
        assert_eq!(
            exports,
            [("/export".to_owned(), vec!["everyone".to_owned()])]
        );
        assert_eq!(
            service.mounts().unwrap(),
            [("me".to_owned(), "/export".to_owned())]
        );
        service.umnt("/export").unwrap();
    }
}

#[test]
fn the_portmapper_is_asked_for_ports() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = MemoryServer::start(address);
        let options = MountOptions::default();
        let mut query = PortQuery::new(wire::programs::NFS, 3, Transport::Tcp);
        query.portmap_port = server.address.port();
        let port = find_port(server.address.ip(), query, &options).unwrap();
        assert_eq!(port, server.address.port());
        if server.address.is_ipv4() {
            query.program = 400_000;
            let error = find_port(server.address.ip(), query, &options).unwrap_err();
            assert!(error.to_string().contains("400000"), "{error}");
        }
    }
}
