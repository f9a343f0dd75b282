//! Calls that are sent again, and calls that only look like it: the reply cache over real sockets.

use std::io::Write;
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::Arc;

use crate::calls::{NFS3, at, call, create, decoded, memory_service, root_handle};
use crate::process::no_forks;
use crate::sockets::{connect, marked, next_reply, start};
use server::model::ModelDescription;
use server::net::{RunningServer, ServerOptions};
use server::protocol::ExportOptions;
use wire::nfs3::{REMOVE3args, REMOVE3res, nfsstat3};

/// A server with a file `f`, and the call that removes it: run twice, it says so.
fn scene(options: ServerOptions) -> (RunningServer, Vec<u8>) {
    let service = Arc::new(memory_service(ExportOptions::default()));
    let root = root_handle(&service);
    create(&service, &root, b"f");
    let object = at(&root, b"f");
    let remove = call(77, NFS3, 12, &REMOVE3args { object });
    (start(service, options), remove)
}

fn ask(stream: &mut TcpStream, message: &[u8]) -> nfsstat3 {
    stream.write_all(&marked(message)).unwrap();
    answer(stream)
}

fn answer(stream: &mut TcpStream) -> nfsstat3 {
    decoded::<REMOVE3res>(&next_reply(stream)).status()
}

#[test]
fn sent_again_on_its_own_connection_it_runs_once() {
    let (server, remove) = scene(ServerOptions::default());
    let mut client = connect(&server);
    for _ in 0..3 {
        assert_eq!(ask(&mut client, &remove), nfsstat3::NFS3_OK);
    }
    assert_eq!(server.counts().duplicates_answered, 2);
    server.stop().unwrap();
}

#[test]
fn two_clients_of_one_address_that_send_the_same_both_have_it_run() {
    let options = ServerOptions {
        udp: true,
        ..ServerOptions::default()
    };
    let (server, remove) = scene(options);
    let (mut one, mut other) = (connect(&server), connect(&server));
    assert_eq!(ask(&mut one, &remove), nfsstat3::NFS3_OK);
    assert_eq!(ask(&mut other, &remove), nfsstat3::NFS3ERR_NOENT);
    // Each has its own reply when it asks again.
    assert_eq!(ask(&mut one, &remove), nfsstat3::NFS3_OK);
    assert_eq!(ask(&mut other, &remove), nfsstat3::NFS3ERR_NOENT);
    for _ in 0..2 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..2 {
            let mut datagram = [0; 2000];
            socket.send_to(&remove, server.addresses()[0]).unwrap();
            let (length, _) = socket.recv_from(&mut datagram).unwrap();
            let status = decoded::<REMOVE3res>(&datagram[..length]).status();
            assert_eq!(status, nfsstat3::NFS3ERR_NOENT);
        }
    }
    // One's own second, the other's second, and each datagram's second.
    assert_eq!(server.counts().duplicates_answered, 4);
    server.stop().unwrap();
}

#[test]
fn who_comes_back_from_another_port_gets_the_kept_reply() {
    let (server, remove) = scene(ServerOptions::default());
    let mut first = connect(&server);
    first.write_all(&marked(&remove)).unwrap();
    // The reply is there; its client goes without having read it.
    assert!(first.peek(&mut [0; 4]).unwrap() > 0);
    let port = first.local_addr().unwrap().port();
    let _first_goes = no_forks();
    drop(first);
    let mut second = connect(&server);
    assert_ne!(second.local_addr().unwrap().port(), port);
    assert_eq!(ask(&mut second, &remove), nfsstat3::NFS3_OK);
    assert_eq!(server.counts().duplicates_answered, 1);
    // It is the second's now, who is still there: a third one is another client.
    let mut third = connect(&server);
    assert_eq!(ask(&mut third, &remove), nfsstat3::NFS3ERR_NOENT);
    server.stop().unwrap();
}

#[test]
fn who_comes_back_while_its_call_runs_gets_its_reply() {
    let model = ModelDescription {
        service_ns: 300_000_000,
        ..ModelDescription::default()
    };
    let options = ServerOptions {
        model: Some(model),
        ..ServerOptions::default()
    };
    let (server, remove) = scene(options);
    let mut first = connect(&server);
    first.write_all(&marked(&remove)).unwrap();
    let _first_goes = no_forks();
    drop(first);
    let mut second = connect(&server);
    assert_eq!(ask(&mut second, &remove), nfsstat3::NFS3_OK);
    server.stop().unwrap();
}

#[test]
fn a_client_that_ended_with_its_reply_leaves_none_to_the_next() {
    let (server, remove) = scene(ServerOptions::default());
    let mut first = connect(&server);
    assert_eq!(ask(&mut first, &remove), nfsstat3::NFS3_OK);
    // An orderly end, so that the server has seen it: it closes, too.
    first.shutdown(Shutdown::Write).unwrap();
    assert_eq!(first.peek(&mut [0; 4]).unwrap(), 0);
    drop(first);
    let mut second = connect(&server);
    assert_eq!(ask(&mut second, &remove), nfsstat3::NFS3ERR_NOENT);
    server.stop().unwrap();
}
