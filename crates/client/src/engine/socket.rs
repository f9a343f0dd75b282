//! Sockets: opened without waiting, and the eventfd that wakes a reactor from another thread.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::options::Transport;

/// Reserved ports, as Linux takes them (`xprt_min_resvport`, `xprt_max_resvport`).
const RESERVED_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;
/// Kernel buffers asked for a datagram socket: all replies of a full window have to fit. The
/// kernel lowers it to `rmem_max`.
const DATAGRAM_BUFFER_BYTES: usize = 4 << 20;

/// A socket on its way to `address`: over TCP the connection may not stand yet.
pub(super) fn open(
    transport: Transport,
    address: SocketAddr,
    reserved_port: Option<bool>,
) -> Result<OwnedFd, Errno> {
    if reserved_port.unwrap_or_else(is_root) {
        // From anywhere on: whose port was another connection's just now is told apart badly.
        let mut start = [0; 2];
        let _ = getrandom(&mut start[..], GetRandomFlags::NONBLOCK);
        let count = RESERVED_PORTS.count();
        let start = usize::from(u16::from_ne_bytes(start)) % count;
        // Those that wait out an earlier connection's time only when there are no others.
        for (tried, port) in RESERVED_PORTS
            .cycle()
            .skip(start)
            .take(2 * count)
            .enumerate()
        {
            match opened(transport, address, Some((port, tried >= count))) {
                Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
                // Not allowed here, after all: not every server asks for it.
                Err(Errno::ACCESS) if reserved_port.is_none() => break,
                done => return done,
            }
        }
        if reserved_port.is_some() {
            return Err(Errno::ADDRINUSE);
        }
    }
    opened(transport, address, None)
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn opened(
    transport: Transport,
    address: SocketAddr,
    port: Option<(u16, bool)>,
) -> Result<OwnedFd, Errno> {
    let (family, any): (_, IpAddr) = match address {
        SocketAddr::V4(_) => (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()),
        SocketAddr::V6(_) => (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let kind = match transport {
        Transport::Tcp => SocketType::STREAM,
        Transport::Udp => SocketType::DGRAM,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, None)?;
    match transport {
        Transport::Tcp => sockopt::set_tcp_nodelay(&socket, true)?,
        Transport::Udp => {
            // Smaller buffers work too, only lose more.
            let _ = sockopt::set_socket_recv_buffer_size(&socket, DATAGRAM_BUFFER_BYTES);
            let _ = sockopt::set_socket_send_buffer_size(&socket, DATAGRAM_BUFFER_BYTES);
        }
    }
    if let Some((port, reused)) = port {
        if reused && transport == Transport::Tcp {
            // Of one that has a living connection to the same server connect(2) says so.
            sockopt::set_socket_reuseaddr(&socket, true)?;
        }
        bind(&socket, &SocketAddr::new(any, port))?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Wakes a reactor that waits in `poll`; may be used from any thread, and outlives the reactor.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn new() -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(|fd| Waker(Arc::new(fd)))
    }

    /// Makes the present or the next `poll` return.
    pub fn wake(&self) {
        // The only failure is EAGAIN of a counter near 2^64: then it is readable anyway.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn reset(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.0, &mut count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn root_speaks_from_a_reserved_port_while_there_is_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let port_of = |asked| {
            let socket = open(Transport::Tcp, address, asked)?;
            let port = rustix::net::getsockname(&socket)
                .map(|name| SocketAddr::try_from(name).unwrap().port());
            // The other end closes first and waits: reserved ports are free again at once.
            listener.accept().unwrap();
            Ok::<_, Errno>((socket, port?))
        };
        let (_first, port) = port_of(None).unwrap();
        assert_eq!(port < 1024, is_root());
        let (_second, port) = port_of(Some(false)).unwrap();
        assert!(port >= 1024);
        let many: Vec<_> = (0..400).map(|_| port_of(None).unwrap()).collect();
        assert!(
            many.iter().any(|(_, port)| *port >= 1024),
            "there are fewer"
        );
        assert!(
            port_of(Some(true)).is_err(),
            "asked for, it is that or none"
        );
    }
}
