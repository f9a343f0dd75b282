//! Packets by port, until the first call is found: what to say of a capture without RPC.
//!
//! The lower port of the two counts, which is the service's nearly always; NFS's own counts
//! before it, since its clients call from ports below 1024.

use hashbrown::HashMap;
use serde_json::{Value, json};

use crate::block::{Block, Transport};

/// Ports told apart; further ones are not among those shown.
const MAX_PORTS: usize = 4096;
/// Ports shown: those with most packets.
const SHOWN: usize = 10;

/// Where NFS is, unless somebody moved it (RFC 7530 section 3.1).
const NFS: u16 = 2049;

/// Packets by transport and port.
#[derive(Debug, Default)]
pub(super) struct Ports {
    packets: HashMap<(Transport, u16), u64>,
}

impl Ports {
    /// Counts a block's segments.
    pub(super) fn block(&mut self, block: &Block) {
        for segment in &block.segments {
            let ends = [segment.source.port, segment.destination.port];
            let lower = ends[0].min(ends[1]);
            let port = if ends.contains(&NFS) { NFS } else { lower };
            let key = (segment.transport, port);
            if let Some(count) = self.packets.get_mut(&key) {
                *count += 1;
            } else if self.packets.len() < MAX_PORTS {
                self.packets.insert(key, 1);
            }
        }
    }

    /// Those with most packets first.
    pub(super) fn json(&self) -> Value {
        let mut all: Vec<_> = self.packets.iter().collect();
        all.sort_by_key(|(key, count)| (std::cmp::Reverse(**count), **key));
        let shown: Vec<Value> = all
            .iter()
            .take(SHOWN)
            .map(|((transport, port), count)| {
                json!({"transport": transport.name(), "port": port, "packets": count})
            })
            .collect();
        json!(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Endpoint, Segment};

    fn block(ports: impl Iterator<Item = (Transport, u16, u16)>) -> Block {
        let end = |port| Endpoint {
            port,
            ..Endpoint::default()
        };
        Block {
            segments: ports
                .map(|(transport, from, to)| Segment {
                    transport,
                    source: end(from),
                    destination: end(to),
                    ..Segment::default()
                })
                .collect(),
            ..Block::default()
        }
    }

    #[test]
    fn the_service_s_port_counts_both_ways() {
        let mut ports = Ports::default();
        let seen = [(50_000, 443), (443, 50_000), (60_001, 443)];
        ports.block(&block(
            seen.map(|(a, b)| (Transport::Tcp, a, b)).into_iter(),
        ));
        ports.block(&block(std::iter::once((Transport::Udp, 53, 53))));
        let nfs = [(705, 2049), (2049, 705)];
        ports.block(&block(nfs.map(|(a, b)| (Transport::Tcp, a, b)).into_iter()));
        let expected = json!([
            {"transport": "tcp", "port": 443, "packets": 3},
            {"transport": "tcp", "port": 2049, "packets": 2},
            {"transport": "udp", "port": 53, "packets": 1},
        ]);
        assert_eq!(ports.json(), expected);
    }

    #[test]
    fn a_port_scan_stays_bounded() {
        let mut ports = Ports::default();
        ports.block(&block(
            (0..=u16::MAX).map(|p| (Transport::Tcp, p, u16::MAX)),
        ));
        assert_eq!(ports.packets.len(), MAX_PORTS);
        assert_eq!(ports.json().as_array().map(Vec::len), Some(SHOWN));
    }
}
