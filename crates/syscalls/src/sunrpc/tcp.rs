//! TCP of connections whose sockets are another's, as `ss -ti` has it: the kernel's client has no
//! descriptor that getsockopt(2) could be asked by, so a socket is found by its ends.
//!
//! One dump of sock_diag(7) a question, narrowed by the kernel to the peer's port. It needs no
//! right, and tells the sockets of this process's network namespace. The kernel walks its whole
//! table of connections for it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
pub use netlink_packet_sock_diag::inet::nlas::TcpInfo;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// The most that the kernel answers at once (netlink_recvmsg).
const PART_BYTES: usize = 32 << 10;

/// An established connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Of this end.
    pub local_port: u16,
    /// `struct tcp_info`, of Linux 5.4 at least.
    pub info: TcpInfo,
}

/// All from here to a peer.
///
/// # Errors
/// What netlink says (`ENOENT`: the kernel has no tcp_diag); `InvalidData` if its answer has
/// another form.
pub fn connections_to(address: IpAddr, port: u16) -> io::Result<Vec<Connection>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    rustix::net::send(&socket, &request(address, port), SendFlags::empty())?;
    let mut room = vec![0; PART_BYTES];
    let mut found = Vec::new();
    loop {
        // The kernel makes the next part while one is taken: there is never one to wait for.
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let (_, bytes) = rustix::net::recv(&socket, &mut room, flags)?;
        let part = room.get(..bytes).ok_or_else(|| invalid("it is cut"))?;
        if take(part, address, port, &mut found)? {
            return Ok(found);
        }
    }
}

fn request(address: IpAddr, port: u16) -> Vec<u8> {
    let (family, address) = match address {
        IpAddr::V4(_) => (AF_INET, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        IpAddr::V6(_) => (AF_INET6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    };
    let wanted = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::ESTABLISHED,
        // Of a dump the kernel looks at the ports only.
        socket_id: SocketId {
            destination_port: port,
            source_address: address,
            destination_address: address,
            ..SocketId::new_v4()
        },
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let message = SockDiagMessage::InetRequest(wanted);
    let mut packet = NetlinkMessage::new(header, message.into());
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    bytes
}

/// A part of the answer; true: it was the last one.
fn take(
    mut part: &[u8],
    address: IpAddr,
    port: u16,
    found: &mut Vec<Connection>,
) -> io::Result<bool> {
    while !part.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(part).map_err(invalid)?;
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                found.extend(connection(*response, address, port));
            }
            // A dump that could not begin ends, too, with what went wrong.
            NetlinkPayload::Done(done) if done.code < 0 => return Err(refused(done.code)),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(refused(error.raw_code())),
            _ => {}
        }
        // Each begins at a multiple of four (NLMSG_ALIGN).
        let length = (message.header.length as usize).next_multiple_of(4);
        part = part.get(length..).unwrap_or_default();
    }
    Ok(false)
}

/// None: it leads elsewhere, or it has just ended.
fn connection(response: InetResponse, address: IpAddr, port: u16) -> Option<Connection> {
    let ends = response.header.socket_id;
    let there = (ends.destination_address, ends.destination_port) == (address, port);
    let info = response.nlas.into_iter().find_map(|one| match one {
        Nla::TcpInfo(info) => Some(info),
        _ => None,
    });
    info.filter(|_| there).map(|info| Connection {
        local_port: ends.source_port,
        info,
    })
}

fn refused(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code.saturating_neg())
}

fn invalid(why: impl ToString) -> io::Error {
    let text = format!("an answer of another form: {}", why.to_string());
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use proptest::prelude::*;

    use super::*;

    /// By getsockopt(2), which needs the socket.
    fn own_info(socket: &TcpStream) -> libc::tcp_info {
        // SAFETY: plain integers, for which all zeroes is a value.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap();
        // SAFETY: the pointers are to a live tcp_info and to its size.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        assert_eq!(status, 0);
        info
    }

    #[test]
    fn it_is_what_getsockopt_tells_of_the_same_socket() {
        for here in ["127.0.0.1", "::1"] {
            let Ok(listener) = TcpListener::bind((here, 0)) else {
                println!("skipped: no {here} here");
                continue;
            };
            let there = listener.local_addr().unwrap();
            let streams = [(); 3].map(|()| TcpStream::connect(there).unwrap());
            let found = match connections_to(there.ip(), there.port()) {
                Ok(found) => found,
                Err(error) => {
                    println!("skipped: sock_diag is not granted here: {error}");
                    continue;
                }
            };
            // The accepted ends lead elsewhere.
            assert_eq!(found.len(), streams.len());
            for stream in &streams {
                let port = stream.local_addr().unwrap().port();
                let one = found.iter().find(|one| one.local_port == port).unwrap();
                let (seen, own) = (&one.info, own_info(stream));
                assert_eq!(
                    [
                        seen.rtt,
                        seen.rttvar,
                        seen.snd_cwnd,
                        seen.snd_mss,
                        seen.unacked
                    ],
                    [
                        own.tcpi_rtt,
                        own.tcpi_rttvar,
                        own.tcpi_snd_cwnd,
                        own.tcpi_snd_mss,
                        own.tcpi_unacked
                    ]
                );
                assert_eq!(
                    (seen.total_retrans, seen.rto),
                    (own.tcpi_total_retrans, own.tcpi_rto)
                );
                assert!(seen.snd_cwnd > 0 && seen.snd_mss >= 536);
            }
        }
    }

    #[test]
    fn a_refusal_is_an_error_with_its_number() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        // NLMSG_ERROR and NLMSG_DONE (linux/netlink.h), -ENOENT.
        for kind in [2_u32, 3] {
            let words = [20, kind, 0, 0, (-libc::ENOENT).cast_unsigned()];
            let part: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
            let error = take(&part, address, 1, &mut Vec::new()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        }
    }

    /// An answer of one connection, as the library writes it.
    fn answer(address: IpAddr, port: u16) -> Vec<u8> {
        let ends = SocketId {
            source_port: 700,
            destination_port: port,
            destination_address: address,
            ..SocketId::new_v4()
        };
        let info = TcpInfo::parse(&[7; 256]).unwrap();
        let response = InetResponse {
            header: netlink_packet_sock_diag::inet::InetResponseHeader {
                family: AF_INET,
                state: 1,
                timer: None,
                socket_id: ends,
                recv_queue: 0,
                send_queue: 0,
                uid: 0,
                inode: 0,
            },
            nlas: std::iter::once(Nla::TcpInfo(info)).collect(),
        };
        let message = SockDiagMessage::InetResponse(Box::new(response));
        let mut packet = NetlinkMessage::new(NetlinkHeader::default(), message.into());
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        bytes
    }

    #[test]
    fn a_cut_answer_is_an_error_and_another_peers_is_no_row() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let whole = answer(address, 2049);
        let mut found = Vec::new();
        assert!(!take(&whole, address, 2049, &mut found).unwrap());
        assert_eq!((found.len(), found[0].local_port), (1, 700));
        assert_eq!(found[0].info.snd_mss, 0x0707_0707);
        for bytes in 1..whole.len() {
            assert!(take(&whole[..bytes], address, 2049, &mut found).is_err());
        }
        let elsewhere = IpAddr::V4(Ipv4Addr::BROADCAST);
        assert!(!take(&whole, elsewhere, 2049, &mut found).unwrap());
        assert!(!take(&whole, address, 111, &mut found).unwrap());
        assert_eq!(found.len(), 1);
    }

    proptest! {
        #[test]
        fn no_answer_breaks_it(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = take(&bytes, IpAddr::V4(Ipv4Addr::LOCALHOST), 2049, &mut Vec::new());
        }

        #[test]
        fn no_changed_answer_breaks_it(
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8),
        ) {
            let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let mut bytes = [answer(address, 2049), answer(address, 2049)].concat();
            for (place, value) in changes {
                let length = bytes.len();
                bytes[place % length] = value;
            }
            let _ = take(&bytes, address, 2049, &mut Vec::new());
        }
    }
}
