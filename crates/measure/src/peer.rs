//! Whose socket is at the other end, where that end is on this machine.
//!
//! One question of sock_diag(7) about one pair of addresses; it needs no right, and sees the
//! sockets of the asking process's network namespace. Where the kernel has no sock_diag,
//! `/proc/net` is read.
//!
//! Limits: a socket that its program has closed has no owner (the kernel would say root), nor has
//! one that waits out its time: neither is told.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
}

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` (linux/netlink.h).
const REQUEST: u16 = 1;
const HEADER_BYTES: usize = 16;
/// nlmsghdr and inet_diag_req_v2 (linux/inet_diag.h).
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// Where in an answer (nlmsghdr, inet_diag_msg) they are.
const UID_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = UID_AT + 4;
/// `TCP_ESTABLISHED` (net/tcp_states.h), as `/proc/net` has it.
const ESTABLISHED: &str = "01";
/// Lines of `/proc/net/tcp` that are read.
const LINES_MOST: usize = 100_000;

/// Asks the kernel for owners of sockets.
#[derive(Debug)]
pub struct Peers {
    kernel: Option<OwnedFd>,
    /// It has answered for this carrier: what it then does not find is not there.
    knows: [Cell<bool>; 2],
}

impl Default for Peers {
    fn default() -> Self {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let (flags, protocol) = (SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG));
        let kernel = rustix::net::socket_with(family, kind, flags, protocol).ok();
        let knows = Default::default();
        Peers { kernel, knows }
    }
}

impl Peers {
    /// One that only reads `/proc/net`, as where there is no sock_diag.
    #[must_use]
    pub fn without_sock_diag() -> Self {
        Peers {
            kernel: None,
            knows: Default::default(),
        }
    }

    /// The user id of the socket at `peer` that speaks to `own`; `None`: it is on another machine,
    /// in another network namespace, or closed.
    #[must_use]
    pub fn uid(&self, carrier: Carrier, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
        let (peer, mut own) = (canonical(peer), canonical(own));
        if own.ip().is_unspecified() {
            // Bound to all: to speak to itself a machine takes one address for both ends.
            own.set_ip(peer.ip());
        }
        match self.asked(carrier, peer, own) {
            // The kernel tells the inode after the user: one that has it had its owner.
            Some((uid, inode)) => (inode != 0).then_some(uid),
            None if self.knows[carrier as usize].get() => None,
            None => read(carrier, peer, own).ok().flatten(),
        }
    }

    /// User and inode; `None`: there is no such socket, or the kernel does not answer.
    fn asked(&self, carrier: Carrier, peer: SocketAddr, own: SocketAddr) -> Option<(u32, u32)> {
        let socket = self.kernel.as_ref()?;
        let mut room = [0; 4096];
        rustix::net::send(socket, &request(carrier, peer, own), SendFlags::empty()).ok()?;
        let (bytes, _) = rustix::net::recv(socket, &mut room, RecvFlags::DONTWAIT).ok()?;
        let answer = room.get(..bytes)?;
        let word = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
        // An error says ENOENT of a socket and of a missing tcp_diag alike.
        if u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?) != BY_FAMILY {
            return None;
        }
        self.knows[carrier as usize].set(true);
        Some((word(UID_AT)?, word(INODE_AT)?))
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn request(carrier: Carrier, peer: SocketAddr, own: SocketAddr) -> [u8; REQUEST_BYTES] {
    // For datagrams the kernel takes them in the other order (udp_dump_one).
    let (protocol, source, destination) = match carrier {
        Carrier::Tcp => (6, peer, own),
        Carrier::Udp => (17, own, peer),
    };
    let family = if peer.is_ipv4() { 2 } else { 10 };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, protocol, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(source.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    for end in [source, destination] {
        let mut address = [0; 16];
        match end.ip() {
            IpAddr::V4(four) => address[..4].copy_from_slice(&four.octets()),
            IpAddr::V6(six) => address = six.octets(),
        }
        bytes.extend(address);
    }
    bytes.extend([0; 4]); // any interface
    bytes.extend([u8::MAX; 8]); // no cookie
    let mut request = [0; REQUEST_BYTES];
    for (to, from) in request.iter_mut().zip(bytes) {
        *to = from;
    }
    request
}

/// The same of `/proc/net` (proc_pid_net(5)).
fn read(carrier: Carrier, peer: SocketAddr, own: SocketAddr) -> std::io::Result<Option<u32>> {
    let name = match carrier {
        Carrier::Tcp => "tcp",
        Carrier::Udp => "udp",
    };
    let (names, peers): (&[&str], _) = match peer.ip() {
        IpAddr::V4(four) => (
            &["", "6"],
            [hex(peer), hex((four.to_ipv6_mapped(), peer.port()).into())],
        ),
        IpAddr::V6(_) => (&["6"], [hex(peer), String::new()]),
    };
    let owns = match own.ip() {
        IpAddr::V4(four) => [hex(own), hex((four.to_ipv6_mapped(), own.port()).into())],
        IpAddr::V6(_) => [hex(own), String::new()],
    };
    for version in names {
        let file = match File::open(format!("/proc/thread-self/net/{name}{version}")) {
            Ok(file) => file,
            Err(_) => continue,
        };
        for line in BufReader::new(file).lines().take(LINES_MOST) {
            let line = line?;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, local, remote, state, _, _, _, uid, _, inode, ..] = words[..] else {
                continue;
            };
            let (Ok(uid), Ok(inode)) = (uid.parse(), inode.parse::<u32>()) else {
                continue;
            };
            let connected = owns.iter().any(|own| own == remote);
            let found = peers.iter().any(|peer| peer == local);
            let datagrams = carrier == Carrier::Udp;
            if found && (connected || datagrams) {
                let open = (datagrams || state == ESTABLISHED) && inode != 0;
                return Ok(open.then_some(uid));
            }
        }
    }
    Ok(None)
}

/// As `/proc/net` writes it: words of the address in the machine's order.
fn hex(address: SocketAddr) -> String {
    let words: Vec<u8> = match address.ip() {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    let mut text: String = words
        .chunks(4)
        .filter_map(|word| Some(format!("{:08X}", u32::from_ne_bytes(word.try_into().ok()?))))
        .collect();
    text.push_str(&format!(":{:04X}", address.port()));
    text
}
