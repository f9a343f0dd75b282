//! The recorder while the server runs: on and off in the middle, instants, sizes, all ways of a call.

use crate::trees;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::calls::{NFS3, call, create, decoded, memory_service, root_handle};
use crate::sockets::{connect, getattr, marked, next_reply, start};
use measure::clock::{Clock, MonotonicClock};
use server::HandleKey;
use server::model::ModelDescription;
use server::net::{RunningServer, ServerOptions};
use server::protocol::{Export, ExportOptions, Outcome, Service};
use server::record::{CallRecord, Recorder};
use wire::nfs3::*;
use wire::rpc::Reply;

const MS: u64 = 1_000_000;
const ROOM: usize = 1 << 16;
const TURNS: u32 = 500;

fn recorded(
    service: Arc<Service>,
    model: Option<ModelDescription>,
) -> (RunningServer, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let options = ServerOptions {
        model,
        udp: true,
        recorder: Arc::clone(&recorder),
        ..ServerOptions::default()
    };
    (start(service, options), recorder)
}

/// Looks again and again until it is so.
fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        std::thread::yield_now();
    }
}

fn ask(stream: &mut TcpStream, message: &[u8]) -> Vec<u8> {
    stream.write_all(&marked(message)).unwrap();
    next_reply(stream)
}

/// So many records, and none more once the server has ended.
fn records(server: RunningServer, recorder: &Recorder) -> Vec<CallRecord> {
    let mut found = Vec::new();
    server.stop().unwrap();
    found.extend(recorder.take());
    for record in &found {
        assert!(record.received_ns > 0, "{record:?}");
        assert!(record.received_ns <= record.started_ns, "{record:?}");
        assert!(record.started_ns <= record.finished_ns, "{record:?}");
        assert!(record.finished_ns <= record.sent_ns, "{record:?}");
    }
    found
}

fn xids(records: &[CallRecord]) -> Vec<u32> {
    records.iter().map(|record| record.xid).collect()
}

#[test]
fn calls_that_were_read_before_or_answered_behind_are_left_out() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let delay_ns = 700 * MS;
    let model = ModelDescription {
        delay_ns,
        ..ModelDescription::default()
    };
    let (server, recorder) = recorded(service, Some(model));
    let mut stream = connect(&server);
    let mut send = |xid: u32| {
        let message = marked(&getattr(xid, &root));
        stream.write_all(&message).unwrap();
        until(|| server.counts().calls == u64::from(xid));
    };
    send(1);
    recorder.begin(ROOM);
    send(2);
    let mut first = Vec::new();
    until(|| {
        first.extend(recorder.take());
        !first.is_empty()
    });
    let begun_ns = MonotonicClock.now_ns();
    send(3);
    recorder.end();
    // No reply is early; where this thread was put aside for so long, it may have been sent before.
    let is_behind = MonotonicClock.now_ns() < begun_ns + delay_ns;
    let may_be_there = |xid: u32| xid == 3 && !is_behind;
    first.extend(recorder.take());
    send(4);
    recorder.begin(ROOM);
    send(5);
    for xid in 1..=5 {
        assert_eq!(Reply::parse(&next_reply(&mut stream)).unwrap().xid, xid);
    }
    until(|| {
        first.extend(recorder.take());
        xids(&first).contains(&5)
    });
    assert_eq!(records(server, &recorder), []);
    // 1 was read before, 3 answered behind the end, 4 read while it was off.
    first.retain(|record| !may_be_there(record.xid));
    assert_eq!(xids(&first), [2, 5]);
    assert_eq!(recorder.lost(), 0);
}

/// An epoll_wait(2) that waits for them would send none before a whole millisecond has gone.
#[test]
fn a_modelled_time_is_not_rounded_up_to_milliseconds() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let model = ModelDescription {
        service_ns: 300_000,
        ..ModelDescription::default()
    };
    let (server, recorder) = recorded(service, Some(model));
    let mut stream = connect(&server);
    recorder.begin(ROOM);
    for xid in 1..=TURNS {
        ask(&mut stream, &getattr(xid, &root));
    }
    let found = records(server, &recorder);
    let late = found.iter().map(|one| one.sent_ns - one.finished_ns);
    assert!(
        late.min().unwrap() < MS / 2,
        "each waits for a thread that sleeps for longer"
    );
}

#[test]
fn while_it_is_off_nothing_is_kept() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let (server, recorder) = recorded(service, None);
    let mut stream = connect(&server);
    for xid in 1..=50 {
        match xid {
            11 | 31 => recorder.begin(ROOM),
            21 | 41 => {
                recorder.end();
                assert_eq!(xids(&recorder.take()), (xid - 10..xid).collect::<Vec<_>>());
            }
            _ => {}
        }
        ask(&mut stream, &getattr(xid, &root));
    }
    assert_eq!(records(server, &recorder), []);
}

#[test]
fn whoever_has_a_reply_finds_its_record() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let (server, recorder) = recorded(service, None);
    std::thread::scope(|scope| {
        // Somebody else keeps the processors busy: the server is put aside where it may be.
        let ended = Arc::new(AtomicBool::new(false));
        for _ in 0..2 {
            let ended = Arc::clone(&ended);
            scope.spawn(move || while !ended.load(Ordering::Relaxed) {});
        }
        let mut stream = connect(&server);
        let mut missed = Vec::new();
        for xid in 1..=TURNS {
            recorder.begin(ROOM);
            ask(&mut stream, &getattr(xid, &root));
            recorder.end();
            if xids(&recorder.take()) != [xid] {
                missed.push(xid);
            }
        }
        ended.store(true, Ordering::Relaxed);
        assert_eq!(missed, []);
    });
    server.stop().unwrap();
}

#[test]
fn a_call_in_pieces_across_the_switch_has_the_instant_of_its_last_byte() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let (server, recorder) = recorded(service, None);
    let mut stream = connect(&server);
    stream.set_nodelay(true).unwrap();
    let whole = marked(&getattr(2, &root));
    let (head, rest) = whole.split_at(20);
    // The first call's reply says that all before it was read.
    let both = [marked(&getattr(1, &root)), head.to_vec()].concat();
    stream.write_all(&both).unwrap();
    next_reply(&mut stream);
    recorder.begin(ROOM);
    let before_ns = MonotonicClock.now_ns();
    stream.write_all(rest).unwrap();
    next_reply(&mut stream);
    let found = records(server, &recorder);
    assert_eq!(xids(&found), [2]);
    assert!(found[0].received_ns >= before_ns);
}

#[test]
fn sizes_status_and_client_are_the_calls_own_over_tcp_and_udp() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let file = create(&service, &root_handle(&service), b"f");
    let (server, recorder) = recorded(service, None);
    recorder.begin(ROOM);
    let mut stream = connect(&server);
    let data = [7; 3000];
    let write = WRITE3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 3000,
        stable: stable_how::UNSTABLE,
        data: payload3(&data),
    };
    let read = READ3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 5000,
    };
    let messages = [
        call(1, NFS3, 7, &write),
        call(2, NFS3, 6, &read),
        getattr(3, b"no handle"),
    ];
    let mut wanted = Vec::new();
    for message in &messages {
        let reply = ask(&mut stream, message);
        wanted.push((stream.local_addr().unwrap(), message.len(), reply.len()));
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&messages[1], server.addresses()[0]).unwrap();
    let reply_bytes = socket.recv(&mut vec![0; 1 << 16]).unwrap();
    wanted.push((socket.local_addr().unwrap(), messages[1].len(), reply_bytes));
    let found = records(server, &recorder);
    let seen: Vec<_> = found
        .iter()
        .map(|r| (r.client, r.call_bytes as usize, r.reply_bytes as usize))
        .collect();
    assert_eq!(seen, wanted);
    let outcomes: Vec<_> = found.iter().map(|record| record.outcome).collect();
    let bad = Outcome::Done(nfsstat3::NFS3ERR_BADHANDLE.code);
    assert_eq!(
        outcomes,
        [Outcome::Done(0), Outcome::Done(0), bad, Outcome::Done(0)]
    );
}

#[test]
fn on_a_folder_calls_go_the_same_ways_with_and_without_it() {
    let tree = trees::Tree::directory(false);
    let export = Export::new("/export", Arc::from(tree.store), ExportOptions::default());
    let service = Arc::new(Service::new(vec![export], HandleKey::new(&[3; 16])));
    let root = root_handle(&service);
    let (server, recorder) = recorded(service, None);
    let mut stream = connect(&server);
    // One alone (the loop answers it), then many at once (workers do).
    let many: Vec<u8> = (2..=200)
        .flat_map(|xid| marked(&getattr(xid, &root)))
        .collect();
    for on in [false, true] {
        if on {
            recorder.begin(ROOM);
        }
        ask(&mut stream, &getattr(1, &root));
        stream.write_all(&many).unwrap();
        for _ in 2..=200 {
            let reply = next_reply(&mut stream);
            assert_eq!(decoded::<GETATTR3res>(&reply).status(), nfsstat3::NFS3_OK);
        }
    }
    assert_eq!(server.counts().replies, 400);
    let mut found = xids(&records(server, &recorder));
    found.sort_unstable();
    assert_eq!(found, (1..=200).collect::<Vec<_>>());
}

#[test]
fn bytes_that_wait_under_back_pressure_were_received_when_they_were_read() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let file = create(&service, &root_handle(&service), b"big");
    let (server, recorder) = recorded(service, None);
    let mut stream = connect(&server);
    let data = vec![7; 1 << 20];
    let write = WRITE3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 1 << 20,
        stable: stable_how::UNSTABLE,
        data: payload3(&data),
    };
    ask(&mut stream, &call(1, NFS3, 7, &write));
    recorder.begin(ROOM);
    let read = READ3args {
        file: nfs_fh3(&file),
        offset: 0,
        count: 1 << 20,
    };
    let asks: Vec<u8> = (0..60)
        .flat_map(|xid| marked(&call(xid, NFS3, 6, &read)))
        .collect();
    stream.write_all(&asks).unwrap();
    until(|| server.counts().back_pressure > 0);
    let taken_ns = MonotonicClock.now_ns();
    for _ in 0..60 {
        next_reply(&mut stream);
    }
    let found = records(server, &recorder);
    assert_eq!(xids(&found), (0..60).collect::<Vec<_>>());
    assert!(found.iter().all(|record| record.received_ns < taken_ns));
    let last = found.last().unwrap();
    assert!(last.started_ns > taken_ns, "it waited for its turn");
}

#[test]
fn a_models_times_lie_where_they_were_planted() {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    let model = ModelDescription {
        threads: Some(1),
        service_ns: 3 * MS,
        delay_ns: 20 * MS,
        bandwidth_bytes_per_s: Some(10_000),
        ..ModelDescription::default()
    };
    let (server, recorder) = recorded(service, Some(model));
    recorder.begin(ROOM);
    let mut stream = connect(&server);
    let message = getattr(1, &root);
    // Two at once: the second waits for the wire, and not for the worker.
    let begun_ns = MonotonicClock.now_ns();
    stream
        .write_all(&[marked(&message), marked(&message)].concat())
        .unwrap();
    next_reply(&mut stream);
    next_reply(&mut stream);
    let found = records(server, &recorder);
    let way_in_ns = (message.len() as u64 * 1_000_000_000).div_ceil(10_000);
    assert!(found[0].received_ns - begun_ns >= way_in_ns);
    assert_eq!(found[1].received_ns - found[0].received_ns, way_in_ns);
    for record in &found {
        assert_eq!(record.started_ns, record.received_ns, "the worker is free");
        assert!(record.finished_ns - record.started_ns >= 3 * MS);
        // 256 bytes (as long as a reply is reckoned) at 10,000 a second, and the delay.
        assert!(record.sent_ns - record.started_ns >= 3 * MS + 25_600_000 + 20 * MS);
    }
}
