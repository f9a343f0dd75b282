//! Whose socket is at the other end: of real ones, by both ways of asking.

use std::net::{TcpListener, TcpStream, UdpSocket};

use measure::peer::{Carrier, Peers};

#[test]
fn a_connection_has_its_owner_until_it_is_closed() {
    let mine = Some(rustix::process::geteuid().as_raw());
    for host in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(host) else {
            continue; // no IPv6 here
        };
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let own = accepted.local_addr().unwrap();
        let both = [Peers::default(), Peers::without_sock_diag()];
        for peers in &both {
            assert_eq!(peers.uid(Carrier::Tcp, peer, own), mine, "{host}");
        }
        drop(client);
        for peers in &both {
            assert_eq!(peers.uid(Carrier::Tcp, peer, own), None, "{host}");
        }
    }
}

#[test]
fn a_sender_of_datagrams_has_its_owner_until_it_is_closed() {
    let mine = Some(rustix::process::geteuid().as_raw());
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let own = server.local_addr().unwrap();
    for connected in [false, true] {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        if connected {
            client.connect(own).unwrap();
        }
        let peer = client.local_addr().unwrap();
        let both = [Peers::default(), Peers::without_sock_diag()];
        for peers in &both {
            assert_eq!(peers.uid(Carrier::Udp, peer, own), mine);
        }
        drop(client);
        for peers in &both {
            assert_eq!(peers.uid(Carrier::Udp, peer, own), None);
        }
    }
}
