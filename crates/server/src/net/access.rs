//! Who may connect: which addresses, and of them whose sockets.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use measure::peer::{Carrier, Peers};
use serde::{Deserialize, Serialize};

/// Most entries of an allow list.
pub const MAX_ALLOWED: usize = 1024;

/// An address, or a network with its prefix length (`10.1.0.0/16`, `fd00::/8`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedClient {
    network: IpAddr,
    prefix_bits: u8,
}

/// A text that is no address and no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address and no network (10.1.2.3, 10.1.0.0/16, fd00::/8)")]
pub struct NoNetwork(String);

fn bits(address: IpAddr) -> (u128, u8) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

impl FromStr for AllowedClient {
    type Err = NoNetwork;
    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let wrong = || NoNetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().map_err(|_| wrong())?;
        let (_, width) = bits(network);
        let prefix_bits = prefix.map_or(Ok(width), |text| text.parse().map_err(|_| wrong()))?;
        if prefix_bits > width {
            return Err(wrong());
        }
        Ok(AllowedClient {
            network,
            prefix_bits,
        })
    }
}

impl AllowedClient {
    /// True if the address is in the network. IPv4 addresses inside IPv6 count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, width) = bits(self.network);
        let (other, other_width) = bits(address);
        let shift = 128 - u32::from(self.prefix_bits);
        width == other_width && (own ^ other).checked_shr(shift).unwrap_or(0) == 0
    }
}

/// True if the address is one of this machine's loopback, or in the list.
#[must_use]
pub fn is_allowed(allowed: &[AllowedClient], address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || allowed.iter().any(|client| client.contains(address))
}

/// Ports that only root may bind, on a machine that keeps to that.
const RESERVED_PORTS: std::ops::Range<u16> = 1..1024;

/// Whose sockets may connect, from an address that may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Secure {
    /// Root's and the server's user's on this machine; elsewhere those with a reserved port, which
    /// are root's there (exports(5): secure).
    #[default]
    All,
    /// Of this machine the same; elsewhere any.
    Local,
    /// Any (exports(5): insecure).
    None,
}

/// Decides who may connect.
#[derive(Debug)]
pub(super) struct Access {
    allowed: Vec<AllowedClient>,
    secure: Secure,
    peers: Peers,
    own_uid: u32,
}

impl Access {
    pub fn new(allowed: Vec<AllowedClient>, secure: Secure) -> Self {
        Access {
            allowed,
            secure,
            peers: Peers::default(),
            own_uid: rustix::process::geteuid().as_raw(),
        }
    }

    /// True if what comes from `peer` to `own` is read.
    pub fn admits(&self, carrier: Carrier, peer: SocketAddr, own: Option<SocketAddr>) -> bool {
        if !is_allowed(&self.allowed, peer.ip()) {
            return false;
        }
        if self.secure == Secure::None {
            return true;
        }
        match own.and_then(|own| self.peers.uid(carrier, peer, own)) {
            Some(uid) => uid == 0 || uid == self.own_uid,
            None if peer.ip().to_canonical().is_loopback() => false,
            None => self.secure == Secure::Local || RESERVED_PORTS.contains(&peer.port()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_speak_from_reserved_ports() {
        let own = Some("192.0.2.1:2049".parse().unwrap());
        let admitted = |peer: &str, secure| {
            let access = Access::new(vec!["192.0.2.0/24".parse().unwrap()], secure);
            access.admits(Carrier::Tcp, peer.parse().unwrap(), own)
        };
        for (peer, wanted) in [
            ("192.0.2.7:1023", [true, true, true]),
            ("192.0.2.7:1024", [false, true, true]),
            ("192.0.3.7:1023", [false, false, false]),
            ("127.0.0.1:1023", [false, false, true]), // nobody's: it is closed
        ] {
            let got =
                [Secure::All, Secure::Local, Secure::None].map(|secure| admitted(peer, secure));
            assert_eq!(got, wanted, "{peer}");
        }
    }

    #[test]
    fn networks_contain_what_they_say() {
        let allowed: Vec<AllowedClient> = ["10.1.0.0/16", "fd00::/8", "192.0.2.7"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        for (address, wanted) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("10.1.255.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.0.0", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("fd12::1", true),
            ("fe80::1", false),
        ] {
            assert_eq!(
                is_allowed(&allowed, address.parse().unwrap()),
                wanted,
                "{address}"
            );
        }
        let all: AllowedClient = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("8.8.8.8".parse().unwrap()));
        assert!(!all.contains("fd00::1".parse().unwrap()));
        for wrong in ["", "10.0.0.0/33", "::/129", "host", "10.0.0.0/x"] {
            assert!(wrong.parse::<AllowedClient>().is_err());
        }
    }
}
