//! Which port a program has: portmap version 2 over IPv4, rpcbind version 4 over IPv6 (RFC 1833).

use std::net::{IpAddr, SocketAddr};

use measure::MonotonicClock;
use wire::portmap::{IPPROTO_TCP, IPPROTO_UDP, PMAP_PORT, mapping, rpcb, rpcb_string};

use super::{GetAddr, GetPort, call_once};
use crate::engine::Engine;
use crate::error::{CallError, ConnectError};
use crate::options::{MountOptions, Recovery, Transport};

/// A question to the portmapper.
#[derive(Clone, Copy, Debug)]
pub struct PortQuery {
    /// RPC program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Transport that it is wanted for.
    pub transport: Transport,
    /// Port of the portmapper itself; 111 but in tests.
    pub portmap_port: u16,
}

impl PortQuery {
    /// A question to the portmapper's usual port.
    pub fn new(program: u32, version: u32, transport: Transport) -> Self {
        PortQuery {
            program,
            version,
            transport,
            portmap_port: PMAP_PORT,
        }
    }
}

/// Options of calls that only set things up: one connection, an end after `retrans` tries whatever
/// the mount itself does.
pub(super) fn setup_options(options: &MountOptions, transport: Transport) -> MountOptions {
    let mut setup = options.clone();
    setup.transport = transport;
    setup.connections = 1;
    setup.recovery = Recovery::SoftErr;
    // mount(8) asks for 10 seconds at most before it tells the user.
    setup.timeout = std::time::Duration::from_secs(5);
    setup.retrans = 1;
    setup
}

/// Asks the portmapper at `host` for a program's port.
///
/// # Errors
/// No portmapper, or [`CallError::NotRegistered`].
pub fn find_port(
    host: IpAddr,
    query: PortQuery,
    options: &MountOptions,
) -> Result<u16, ConnectError> {
    let setup = setup_options(options, options.mount_transport);
    let address = SocketAddr::new(host, query.portmap_port);
    let mut engine = Engine::connect(address, &setup, MonotonicClock)?;
    let port = match host {
        IpAddr::V4(_) => ask_portmap(&mut engine, query),
        IpAddr::V6(_) => ask_rpcbind(&mut engine, query),
    };
    port.map_err(|source| ConnectError::Call {
        what: format!("asking the portmapper at {address}"),
        source,
    })
}

fn ask_portmap(engine: &mut Engine, query: PortQuery) -> Result<u16, CallError> {
    let prot = match query.transport {
        Transport::Tcp => IPPROTO_TCP,
        Transport::Udp => IPPROTO_UDP,
    };
    let (prog, vers) = (query.program, query.version);
    let asked = mapping {
        prog,
        vers,
        prot,
        port: 0,
    };
    call_once::<GetPort, _, _>(engine, &asked, |port| match u16::try_from(port) {
        Ok(0) => Err(unknown(query)),
        Ok(port) => Ok(port),
        Err(_) => Err(CallError::Protocol("the portmapper's port is above 65535")),
    })
}

fn ask_rpcbind(engine: &mut Engine, query: PortQuery) -> Result<u16, CallError> {
    let netid: &[u8] = match query.transport {
        Transport::Tcp => b"tcp6",
        Transport::Udp => b"udp6",
    };
    let asked = rpcb {
        r_prog: query.program,
        r_vers: query.version,
        r_netid: rpcb_string(netid),
        r_addr: rpcb_string(b""),
        r_owner: rpcb_string(b""),
    };
    call_once::<GetAddr, _, _>(engine, &asked, |address| {
        if address.0.is_empty() {
            return Err(unknown(query));
        }
        port_of_universal(address.0).ok_or(CallError::Protocol(
            "rpcbind's address has no port at its end",
        ))
    })
}

fn unknown(query: PortQuery) -> CallError {
    CallError::NotRegistered {
        program: query.program,
        version: query.version,
    }
}

/// The port at the end of a universal address (RFC 5665 section 5.2.3: `h1.h2.h3.h4.p1.p2`, or an
/// IPv6 address and `.p1.p2`).
fn port_of_universal(address: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(address).ok()?;
    let (front, low) = text.rsplit_once('.')?;
    let (_, high) = front.rsplit_once('.')?;
    let (high, low): (u8, u8) = (high.parse().ok()?, low.parse().ok()?);
    let port = u16::from_be_bytes([high, low]);
    (port != 0).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn universal_addresses_end_with_their_port() {
        assert_eq!(port_of_universal(b"::.8.1"), Some(2049));
        assert_eq!(port_of_universal(b"192.0.2.7.0.111"), Some(111));
        for bad in [
            &b""[..],
            b"8.1",
            b"::.8",
            b"::.0.0",
            b"::.256.1",
            b"::.8.x",
            b"\xff.8.1",
        ] {
            assert_eq!(port_of_universal(bad), None, "{bad:?}");
        }
    }
}
