//! More connections than there may be, or than there are descriptors for: whoever is silent goes,
//! whoever works stays, and new ones get in.

use crate::process;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::calls::{NFS3, call, memory_service};
use server::model::ModelDescription;
use server::net::{MAX_CONNECTIONS, RunningServer, ServerOptions};
use server::protocol::ExportOptions;

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

fn send_null(stream: &mut TcpStream, xid: u32) -> std::io::Result<()> {
    let message = call(xid, NFS3, 0, &());
    let mark = 0x8000_0000 | message.len() as u32;
    stream.write_all(&[&mark.to_be_bytes(), &message[..]].concat())
}

/// Whether a call is answered: false if the server has closed the connection.
fn is_answered(stream: &mut TcpStream, xid: u32) -> bool {
    let mut reply = [0; 28];
    let asked = send_null(stream, xid).and_then(|()| stream.read_exact(&mut reply));
    match asked {
        Ok(()) => reply[4..8] == xid.to_be_bytes(),
        Err(_) => false,
    }
}

fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        std::thread::yield_now();
    }
}

fn start(model: Option<ModelDescription>) -> Option<(RunningServer, SocketAddr)> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    // Both ends of each connection are in this process, and those of the other tests of this file,
    // which run at the same time: three, two and one for each place.
    let wanted = 6 * MAX_CONNECTIONS as u64 + 1000;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = limit
            .maximum
            .map_or(Some(wanted), |most| Some(most.min(wanted)));
        if limit.current < Some(wanted) || setrlimit(Resource::Nofile, limit).is_err() {
            eprintln!("skipped: {wanted} descriptors are needed (ulimit -n)");
            return None;
        }
    }
    let options = ServerOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        model,
        ..ServerOptions::default()
    };
    let service = Arc::new(memory_service(ExportOptions::default()));
    let server = RunningServer::start(service, options).unwrap();
    let address = server.addresses()[0];
    Some((server, address))
}

#[test]
fn the_most_silent_connection_makes_room_for_a_new_one() {
    let Some((server, address)) = start(None) else {
        return;
    };
    let mut streams: Vec<TcpStream> = Vec::new();
    for number in 0..MAX_CONNECTIONS {
        let mut stream = connect(address);
        assert!(is_answered(&mut stream, 1));
        if number == 1 {
            // Half of a record, and silence: not a call in work.
            stream.write_all(&[0x80, 0, 0, 40, 1, 2, 3]).unwrap();
        }
        streams.push(stream);
    }
    // The first is heard again; the second is the most silent now.
    assert!(is_answered(&mut streams[0], 2));
    let mut newcomer = connect(address);
    assert!(is_answered(&mut newcomer, 3));
    assert!(!is_answered(&mut streams[1], 4));
    assert!(is_answered(&mut streams[0], 5));
    assert!(is_answered(&mut streams[2], 6));
    let counts = server.counts();
    assert_eq!(counts.surplus_connections, 1);
    assert_eq!(counts.connections, MAX_CONNECTIONS as u64 + 1);
    server.stop().unwrap();
}

#[test]
fn a_peer_that_comes_and_goes_has_no_more_calls_in_work_than_one_that_stays() {
    let model = ModelDescription {
        service_ns: 3_600_000_000_000,
        ..ModelDescription::default()
    };
    let Some((server, address)) = start(Some(model)) else {
        return;
    };
    for number in 0..MAX_CONNECTIONS as u64 {
        let mut stream = connect(address);
        send_null(&mut stream, 1).unwrap();
        until(|| server.counts().calls == number + 1);
        // Closed hard, so that the server sees that nobody waits for the reply.
        let now = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&stream, now).unwrap();
    }
    let mut surplus = connect(address);
    let closed = surplus.read(&mut [0]);
    assert!(!closed.is_ok_and(|bytes| bytes > 0));
    assert_eq!(server.counts().surplus_connections, 1);
    server.stop().unwrap();
}

#[test]
fn silent_ones_go_before_an_idle_one_that_has_called() {
    let Some((server, address)) = start(None) else {
        return;
    };
    let mut idle = connect(address);
    assert!(is_answered(&mut idle, 1));
    // Twice as many as there are places; every other one sends half a record, again and again.
    let mut silent: Vec<TcpStream> = Vec::new();
    for number in 0..2 * MAX_CONNECTIONS {
        let mut stream = connect(address);
        if number % 2 == 0 {
            stream.write_all(&[0x80, 0, 0, 40]).unwrap();
        }
        if silent.len() > MAX_CONNECTIONS / 2 {
            let _ = silent[number - MAX_CONNECTIONS / 2].write_all(&[0]);
        }
        silent.push(stream);
    }
    let mut newcomer = connect(address);
    assert!(is_answered(&mut newcomer, 2));
    assert!(is_answered(&mut idle, 3));
    let surplus = server.counts().surplus_connections;
    assert_eq!(surplus, MAX_CONNECTIONS as u64 + 2);
    // The oldest went.
    let gone = surplus as usize;
    assert!(!is_answered(&mut silent[gone - 1], 4));
    silent[gone].set_nonblocking(true).unwrap();
    let open = silent[gone].read(&mut [0]).unwrap_err();
    assert_eq!(open.kind(), ErrorKind::WouldBlock);
    server.stop().unwrap();
}

#[test]
fn without_descriptors_newcomers_get_in_and_those_that_work_stay() {
    let Some(program) = process::program() else {
        return;
    };
    let (_process, port) = process::Process::run(
        Command::new("sh")
            .args(["-c", "ulimit -n 40; exec \"$0\" memory"])
            .arg(program),
    );
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut working = connect(address);
    assert!(is_answered(&mut working, 1));
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(connect(address));
        let mut newcomer = connect(address);
        assert!(is_answered(&mut newcomer, 2));
        assert!(is_answered(&mut working, 3));
    }
}
