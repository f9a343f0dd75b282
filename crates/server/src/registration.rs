//! Registration with this machine's portmapper, so that clients find the server without a port.
//!
//! rpcbind version 4 (RFC 1833 section 2) over its local socket, as Linux' own servers do it; where
//! there is none, portmap version 2 (section 3) over TCP on loopback, which knows IPv4 only. A
//! registration that a killed server left behind (nobody listens on its port) is replaced; one of
//! a server that lives is not. What was registered is withdrawn when [`Registration`] is dropped.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use wire::portmap::{
    IPPROTO_TCP, IPPROTO_UDP, PMAP_PORT, mapping, procedure, rpcb, rpcb_procedure, rpcb_string,
    rpcblist,
};
use wire::programs::{MOUNT, NFS, PORTMAP};
use wire::rpc::{OpaqueAuth, Reply, encode_call};
use wire::{Decode, Encode};

/// What is registered: (program, version).
const PROGRAMS: [(u32, u32); 4] = [(NFS, 3), (MOUNT, 1), (MOUNT, 2), (MOUNT, 3)];
/// How long the portmapper may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Largest answer taken, bytes.
const MAX_ANSWER_BYTES: u32 = 1 << 18;
/// Version 2 is portmap, version 4 rpcbind.
const PORTMAP_VERSION: u32 = 2;
const RPCBIND_VERSION: u32 = 4;

/// Where the portmapper is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Portmapper {
    /// rpcbind's local socket.
    pub socket: PathBuf,
    /// Where to ask without it.
    pub address: SocketAddr,
}

impl Default for Portmapper {
    fn default() -> Self {
        Portmapper {
            socket: PathBuf::from("/run/rpcbind.sock"),
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PMAP_PORT),
        }
    }
}

/// Why a server is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// Nobody answers.
    #[error("no portmapper answers ({socket}: {by_socket}; {address}: {by_address})")]
    NoPortmapper {
        /// rpcbind's socket.
        socket: String,
        /// What came of it.
        by_socket: io::Error,
        /// Its address.
        address: SocketAddr,
        /// What came of it.
        by_address: io::Error,
    },
    /// It does not want to.
    #[error("the portmapper refused program {program} version {version} ({netid}): {why}")]
    Refused {
        /// Program.
        program: u32,
        /// Version.
        version: u32,
        /// Network id.
        netid: &'static str,
        /// As far as it can be told.
        why: String,
    },
    /// portmap version 2 knows no IPv6.
    #[error("{0} can only be registered with an rpcbind that has its local socket")]
    NeedsRpcbind(SocketAddr),
    /// It answers nonsense, or stopped answering.
    #[error("asking the portmapper: {0}")]
    Broken(#[from] io::Error),
}

enum Way {
    Rpcbind(UnixStream),
    Portmap(TcpStream),
}

/// One program at one address.
#[derive(Clone, Copy, Debug)]
struct Entry {
    program: u32,
    version: u32,
    udp: bool,
    address: SocketAddr,
}

impl Entry {
    fn netid(&self) -> &'static str {
        match (self.udp, self.address.is_ipv6()) {
            (false, false) => "tcp",
            (true, false) => "udp",
            (false, true) => "tcp6",
            (true, true) => "udp6",
        }
    }

    /// RFC 5665 section 5.2.3.3: the address, and the port's two bytes in decimal.
    fn universal(&self) -> String {
        let [high, low] = self.address.port().to_be_bytes();
        format!("{}.{high}.{low}", self.address.ip())
    }

    fn mapping(&self) -> mapping {
        mapping {
            prog: self.program,
            vers: self.version,
            prot: if self.udp { IPPROTO_UDP } else { IPPROTO_TCP },
            port: self.address.port().into(),
        }
    }
}

/// A server that the portmapper knows, until this is dropped.
#[derive(Debug)]
pub struct Registration {
    portmapper: Portmapper,
    made: Vec<Entry>,
}

impl Registration {
    /// Registers NFS version 3 and MOUNT versions 1 to 3 at these addresses, TCP and perhaps UDP.
    pub fn make(
        portmapper: Portmapper,
        addresses: &[SocketAddr],
        udp: bool,
    ) -> Result<Self, RegistrationError> {
        let mut way = reach(&portmapper)?;
        let mut registration = Registration {
            portmapper,
            made: Vec::new(),
        };
        for &address in addresses {
            if matches!(way, Way::Portmap(_)) && address.is_ipv6() {
                return Err(RegistrationError::NeedsRpcbind(address));
            }
            for (program, version) in PROGRAMS {
                for udp in [false, true].into_iter().take(1 + usize::from(udp)) {
                    let entry = Entry {
                        program,
                        version,
                        udp,
                        address,
                    };
                    register(&mut way, &entry)?;
                    registration.made.push(entry);
                }
            }
        }
        Ok(registration)
    }

    /// (program, version, network id, universal address) of all that was registered.
    #[must_use]
    pub fn entries(&self) -> Vec<(u32, u32, &'static str, String)> {
        let of = |e: &Entry| (e.program, e.version, e.netid(), e.universal());
        self.made.iter().map(of).collect()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A portmapper that has gone has forgotten us as well.
        if let Ok(mut way) = reach(&self.portmapper) {
            for entry in &self.made {
                let _ = ask(&mut way, entry, Question::Unset);
            }
        }
    }
}

fn reach(portmapper: &Portmapper) -> Result<Way, RegistrationError> {
    let by_socket = match UnixStream::connect(&portmapper.socket) {
        Ok(stream) => {
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
            stream.set_write_timeout(Some(ANSWER_LIMIT))?;
            return Ok(Way::Rpcbind(stream));
        }
        Err(error) => error,
    };
    match TcpStream::connect_timeout(&portmapper.address, ANSWER_LIMIT) {
        Ok(stream) => {
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
            stream.set_write_timeout(Some(ANSWER_LIMIT))?;
            Ok(Way::Portmap(stream))
        }
        Err(by_address) => Err(RegistrationError::NoPortmapper {
            socket: portmapper.socket.display().to_string(),
            by_socket,
            address: portmapper.address,
            by_address,
        }),
    }
}

fn register(way: &mut Way, entry: &Entry) -> Result<(), RegistrationError> {
    if ask(way, entry, Question::Set)? == Answer::Yes {
        return Ok(());
    }
    let refused = |why: &str| RegistrationError::Refused {
        program: entry.program,
        version: entry.version,
        netid: entry.netid(),
        why: why.to_owned(),
    };
    let port = match ask(way, entry, Question::Port)? {
        Answer::Port(port) if port != 0 => port,
        _ => return Err(refused("it takes registrations from root only")),
    };
    let there = SocketAddr::new(entry.address.ip(), port);
    if TcpStream::connect_timeout(&there, ANSWER_LIMIT).is_ok() {
        return Err(refused(&format!(
            "another server is registered there, and answers on port {port}"
        )));
    }
    ask(way, entry, Question::Unset)?;
    match ask(way, entry, Question::Set)? {
        Answer::Yes => Ok(()),
        _ => Err(refused(&format!(
            "a server that has gone (port {port}) is registered there by another user"
        ))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Set,
    Unset,
    Port,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Port(u16),
}

fn ask(way: &mut Way, entry: &Entry, question: Question) -> io::Result<Answer> {
    let bytes = match way {
        Way::Rpcbind(stream) => {
            let number = match question {
                Question::Set => rpcb_procedure::SET,
                Question::Unset => rpcb_procedure::UNSET,
                // GETADDR answers with an address that the caller can reach, and may find none.
                Question::Port => {
                    let all = exchange(
                        stream,
                        [PORTMAP, RPCBIND_VERSION, rpcb_procedure::DUMP],
                        &(),
                    )?;
                    return Ok(Answer::Port(registered_port(&all, entry)?));
                }
            };
            let address = entry.universal();
            let argument = rpcb {
                r_prog: entry.program,
                r_vers: entry.version,
                r_netid: rpcb_string(entry.netid().as_bytes()),
                r_addr: rpcb_string(address.as_bytes()),
                r_owner: rpcb_string(b""),
            };
            exchange(stream, [PORTMAP, RPCBIND_VERSION, number], &argument)?
        }
        Way::Portmap(stream) => {
            let number = match question {
                Question::Set => procedure::SET,
                Question::Unset => procedure::UNSET,
                Question::Port => procedure::GETPORT,
            };
            exchange(stream, [PORTMAP, PORTMAP_VERSION, number], &entry.mapping())?
        }
    };
    let answer = u32::decode_whole(&bytes, "answer").map_err(nonsense)?;
    Ok(match (question, answer) {
        (Question::Port, port) => Answer::Port(u16::try_from(port).unwrap_or(0)),
        (_, 0) => Answer::No,
        _ => Answer::Yes,
    })
}

/// Where rpcbind says that an entry's program is; 0 if it does not know it.
fn registered_port(dump: &[u8], entry: &Entry) -> io::Result<u16> {
    let all = rpcblist::decode_whole(dump, "list").map_err(nonsense)?;
    let same = |known: &&rpcb<'_>| {
        (known.r_prog, known.r_vers) == (entry.program, entry.version)
            && known.r_netid.0 == entry.netid().as_bytes()
    };
    let known = all.0.iter().find(same);
    Ok(known.map_or(0, |known| port_of_universal(known.r_addr.0)))
}

/// The port of a universal address; 0 for one that is none.
fn port_of_universal(address: &[u8]) -> u16 {
    let mut parts = address.rsplit(|byte| *byte == b'.');
    let mut byte = || {
        let part = parts
            .next()
            .and_then(|text| std::str::from_utf8(text).ok())?;
        part.parse::<u8>().ok()
    };
    match (byte(), byte()) {
        (Some(low), Some(high)) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

fn nonsense(error: wire::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// One call over a stream, and its results.
fn exchange(
    stream: &mut (impl Read + Write),
    target: [u32; 3],
    argument: &impl Encode,
) -> io::Result<Vec<u8>> {
    let xid = std::process::id();
    let mut call = Vec::new();
    let place = wire::record::begin_record(&mut call);
    encode_call(&mut call, xid, target, &OpaqueAuth::NONE, &OpaqueAuth::NONE)
        .and_then(|()| argument.encode(&mut call))
        .and_then(|()| wire::record::finish_record(&mut call, place, 0))
        .map_err(nonsense)?;
    stream.write_all(&call)?;
    let mut reply = Vec::new();
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        let length = mark & 0x7fff_ffff;
        if length > MAX_ANSWER_BYTES - u32::try_from(reply.len()).unwrap_or(MAX_ANSWER_BYTES) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let start = reply.len();
        reply.resize(start + length as usize, 0);
        stream.read_exact(reply.get_mut(start..).unwrap_or_default())?;
        if mark != length {
            break;
        }
        if length == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let parsed = Reply::parse(&reply).map_err(nonsense)?;
    match parsed.body {
        Some(body) if parsed.xid == xid => Ok(body.to_vec()),
        _ => {
            let status = parsed
                .status
                .map_or("another reply", |status| status.name());
            Err(io::Error::other(format!("it answered {status}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn universal_addresses_are_those_of_rfc_5665() {
        let entry = Entry {
            program: NFS,
            version: 3,
            udp: true,
            address: "[::1]:2049".parse().unwrap(),
        };
        assert_eq!(
            (entry.netid(), entry.universal().as_str()),
            ("udp6", "::1.8.1")
        );
        assert_eq!(port_of_universal(b"127.0.0.1.8.1"), 2049);
        assert_eq!(port_of_universal(b"::1.0.111"), 111);
        for none in [&b""[..], b"127", b"a.b", b"1.256"] {
            assert_eq!(port_of_universal(none), 0);
        }
    }
}
