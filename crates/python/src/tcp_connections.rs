//! `tcp_connections`: `syscalls::sunrpc::tcp` as columns, named as those of our own client.

use std::net::IpAddr;

use client::record::TcpInfo;
use pyo3::prelude::*;
use syscalls::sunrpc::tcp::{Connection, connections_to};

use crate::columns::{Builder, Columns};
use crate::errors::core_error;
use crate::rpc_records::tcp_columns;

/// Established connections from here to a peer.
#[pyfunction]
pub fn tcp_connections(py: Python<'_>, address: &str, port: u16) -> PyResult<Columns> {
    let peer: IpAddr = address.parse().map_err(|_| {
        let what = format!("{address:?} is no IP address");
        core_error(py, "config", what, "", "Write it as numbers.")
    })?;
    let found = py.detach(|| connections_to(peer, port)).map_err(|error| {
        let what = "Linux does not tell of TCP connections (sock_diag)";
        let fix = "As root: modprobe tcp_diag. The kernel needs CONFIG_INET_DIAG.";
        core_error(py, "sock_diag", what, error.to_string(), fix)
    })?;
    let infos: Vec<TcpInfo> = found.iter().map(figures).collect();
    let ports = found.iter().map(|one| u32::from(one.local_port));
    tcp_columns(Builder::default().u32("local_port", ports), &infos).finish(py)
}

fn figures(connection: &Connection) -> TcpInfo {
    let info = &connection.info;
    TcpInfo {
        round_trip_us: info.rtt,
        round_trip_deviation_us: info.rttvar,
        congestion_window: info.snd_cwnd,
        segment_size_bytes: info.snd_mss,
        unacknowledged: info.unacked,
        retransmitted: info.total_retrans,
        retransmission_timeout_us: info.rto,
    }
}
