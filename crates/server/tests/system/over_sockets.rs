//! The server over real sockets of the loopback: streams in any pieces, duplicates, back-pressure.

use crate::calls;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use crate::calls::{NFS3, call, create, decoded, memory_service, root_handle};
use crate::process::no_forks;
use crate::sockets::{connect, getattr, marked, next_reply, start};
use server::model::ModelDescription;
use server::net::{RunningServer, ServerError, ServerOptions};
use server::protocol::ExportOptions;
use server::record::Recorder;
use wire::nfs3::*;
use wire::rpc::Reply;

#[test]
fn many_calls_in_pieces_of_any_size() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let server = start(service, ServerOptions::default());
    let stream_bytes: Vec<u8> = (0..300)
        .flat_map(|xid| marked(&getattr(xid, &root)))
        .collect();
    for piece in [1, 7, 143, 4096, stream_bytes.len()] {
        let mut stream = connect(&server);
        stream.set_nodelay(true).unwrap();
        for part in stream_bytes.chunks(piece) {
            stream.write_all(part).unwrap();
        }
        for xid in 0..300 {
            let reply = next_reply(&mut stream);
            assert_eq!(Reply::parse(&reply).unwrap().xid, xid);
            assert_eq!(decoded::<GETATTR3res>(&reply).status(), nfsstat3::NFS3_OK);
        }
    }
    assert_eq!(server.counts().calls, 1500);
    server.stop().unwrap();
}

#[test]
fn data_comes_back_whole_under_back_pressure() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let file = create(&service, &root_handle(&service), b"big");
    let server = start(service, ServerOptions::default());
    let mut stream = connect(&server);
    let block: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8).collect();
    let args = WRITE3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 1 << 20,
        stable: stable_how::UNSTABLE,
        data: payload3(&block),
    };
    stream.write_all(&marked(&call(1, NFS3, 7, &args))).unwrap();
    assert_eq!(
        decoded::<WRITE3res>(&next_reply(&mut stream)).status(),
        nfsstat3::NFS3_OK
    );
    // 100 MiB of replies are asked for before the first is taken: far more than may wait.
    let args = READ3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 1 << 20,
    };
    let asks: Vec<u8> = (0..100)
        .flat_map(|xid| marked(&call(xid, NFS3, 6, &args)))
        .collect();
    stream.write_all(&asks).unwrap();
    for xid in 0..100 {
        let reply = next_reply(&mut stream);
        assert_eq!(Reply::parse(&reply).unwrap().xid, xid);
        let Res::Ok(read) = decoded::<READ3res<'_>>(&reply) else {
            panic!()
        };
        assert!(read.data.0 == block);
    }
    assert!(server.counts().back_pressure > 0);
    server.stop().unwrap();
}

#[test]
fn hostile_streams_end_and_others_go_on() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let server = start(service, ServerOptions::default());
    let mut good = connect(&server);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0x7f, 0xff, 0xff, 0xff],
    ] {
        let mut bad = connect(&server);
        bad.write_all(bytes).unwrap();
        assert_eq!(
            bad.read(&mut [0; 10]).unwrap_or(0),
            0,
            "closed by the server"
        );
    }
    // A record that never ends holds only what was sent.
    let mut half = connect(&server);
    half.write_all(&[0x80, 0x10, 0, 0, 1, 2, 3]).unwrap();
    good.write_all(&marked(&getattr(5, &root))).unwrap();
    assert_eq!(Reply::parse(&next_reply(&mut good)).unwrap().xid, 5);
    assert_eq!(server.counts().broken_connections, 3);
    server.stop().unwrap();
}

#[test]
fn a_model_delays_and_loses_nothing_over_tcp() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let recorder = Arc::new(Recorder::default());
    recorder.begin(1000);
    let model = ModelDescription {
        threads: Some(2),
        service_ns: 200_000,
        loss: 1.0,
        ..ModelDescription::default()
    };
    let options = ServerOptions {
        model: Some(model),
        recorder: Arc::clone(&recorder),
        ..ServerOptions::default()
    };
    let server = start(service, options);
    let mut stream = connect(&server);
    let asks: Vec<u8> = (0..20)
        .flat_map(|xid| marked(&getattr(xid, &root)))
        .collect();
    stream.write_all(&asks).unwrap();
    let xids: HashSet<u32> = (0..20)
        .map(|_| Reply::parse(&next_reply(&mut stream)).unwrap().xid)
        .collect();
    assert_eq!(xids.len(), 20);
    server.stop().unwrap();
    let records = recorder.take();
    assert_eq!(records.len(), 20);
    for record in &records {
        assert!(record.received_ns <= record.started_ns);
        assert!(record.started_ns <= record.finished_ns && record.finished_ns <= record.sent_ns);
        assert_eq!((record.program, record.procedure), (100_003, 1));
    }
    // Two workers, 200 us each, twenty calls: the last leaves 2 ms after the first came, no less.
    let first = records
        .iter()
        .map(|record| record.received_ns)
        .min()
        .unwrap();
    let last = records.iter().map(|record| record.sent_ns).max().unwrap();
    assert!(last - first >= 2_000_000);
}

#[test]
fn ipv6_and_addresses_that_are_open_to_all() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let open: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let refused = RunningServer::start(
        Arc::clone(&service),
        ServerOptions {
            listen: vec![open],
            ..ServerOptions::default()
        },
    );
    assert!(matches!(refused, Err(ServerError::OpenToAll(_))));
    let listen = vec!["[::1]:0".parse().unwrap()];
    let options = ServerOptions {
        listen,
        udp: true,
        ..ServerOptions::default()
    };
    match RunningServer::start(service, options) {
        Ok(server) => {
            let mut stream = connect(&server);
            stream.write_all(&marked(&getattr(5, &root))).unwrap();
            assert_eq!(Reply::parse(&next_reply(&mut stream)).unwrap().xid, 5);
        }
        Err(error) => eprintln!("skipped: no IPv6 here ({error})"),
    }
}

#[test]
fn the_port_is_free_after_a_stop() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let server = start(Arc::clone(&service), ServerOptions::default());
    let address = server.addresses()[0];
    let _held = connect(&server);
    let _listener_goes = no_forks();
    server.stop().unwrap();
    let again = start(
        service,
        ServerOptions {
            listen: vec![address],
            ..ServerOptions::default()
        },
    );
    assert_eq!(again.addresses()[0], address);
}

#[test]
fn a_half_closed_connection_still_gets_its_replies() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let model = ModelDescription {
        delay_ns: 3_000_000,
        ..ModelDescription::default()
    };
    let server = start(
        service,
        ServerOptions {
            model: Some(model),
            ..ServerOptions::default()
        },
    );
    let mut stream = connect(&server);
    let asks: Vec<u8> = (0..50)
        .flat_map(|xid| marked(&getattr(xid, &root)))
        .collect();
    stream.write_all(&asks).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 50 * (4 + 24 + 4 + 84));
}

#[test]
fn a_read_that_no_datagram_holds_is_an_error_not_silence() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let file = create(&service, &root_handle(&service), b"big");
    let data = vec![1; 100_000];
    let args = WRITE3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 100_000,
        stable: stable_how::UNSTABLE,
        data: payload3(&data),
    };
    calls::ask(&service, &call(1, NFS3, 7, &args)).unwrap();
    let server = start(
        service,
        ServerOptions {
            udp: true,
            ..ServerOptions::default()
        },
    );
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut datagram = vec![0; 70_000];
    for (count, status) in [
        (65_536, wire::rpc::ReplyStatus::SystemError),
        (32_768, wire::rpc::ReplyStatus::Success),
    ] {
        let args = READ3args {
            file: nfs_fh3(&file),
            offset: 0,
            count,
        };
        socket
            .send_to(&call(9, NFS3, 6, &args), server.addresses()[0])
            .unwrap();
        let (length, _) = socket.recv_from(&mut datagram).unwrap();
        assert_eq!(
            Reply::parse(&datagram[..length]).unwrap().status,
            Some(status)
        );
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 60,
        failure_persistence: None,
        ..Default::default()
    })]
    /// Whatever stands between them, each call is answered at most once, and nothing else is.
    #[test]
    fn mutated_streams_answer_each_call_at_most_once(
        changes in proptest::collection::vec(
            (0usize..40, 0usize..200, proptest::prelude::any::<u8>()), 0..12),
        pieces in 1usize..500,
    ) {
        let service = Arc::new(memory_service(ExportOptions::default()));
        let root = root_handle(&service);
        let server = start(service, ServerOptions::default());
        let mut stream = connect(&server);
        let mut records: Vec<Vec<u8>> =
            (0..40).map(|xid| marked(&getattr(0x4040_4000 + xid, &root))).collect();
        for (record, place, change) in changes {
            // The xid stays (bytes 4 to 7): it is what answers are counted by.
            let length = records[record].len();
            let place = place % length;
            if !(4..8).contains(&place) {
                records[record][place] ^= change;
            }
        }
        for piece in records.concat().chunks(pieces) {
            // The server may have closed a stream that it cannot follow.
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let mut seen = HashSet::new();
        let mut rest = &all[..];
        while rest.len() >= 8 {
            let mark = u32::from_be_bytes(rest[..4].try_into().unwrap()) & 0x7fff_ffff;
            let Some(reply) = rest.get(4..4 + mark as usize) else { break };
            let xid = u32::from_be_bytes(reply[..4].try_into().unwrap());
            proptest::prop_assert!(seen.insert(xid), "answered twice: {:x}", xid);
            rest = &rest[4 + mark as usize..];
        }
        proptest::prop_assert!(seen.len() <= 40);
        server.stop().unwrap();
    }
}
