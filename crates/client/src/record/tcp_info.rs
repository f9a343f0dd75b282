//! `TCP_INFO` of a connection: what the kernel knows of the path.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// The fields of `struct tcp_info` (linux/tcp.h, since Linux 2.6) that an NFS client's user asks
/// for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// `tcpi_rtt`: smoothed round trip, microseconds.
    pub round_trip_us: u32,
    /// `tcpi_rttvar`, microseconds.
    pub round_trip_deviation_us: u32,
    /// `tcpi_snd_cwnd`, segments.
    pub congestion_window: u32,
    /// `tcpi_snd_mss`, bytes.
    pub segment_size_bytes: u32,
    /// `tcpi_unacked`, segments.
    pub unacknowledged: u32,
    /// `tcpi_total_retrans`, segments since the connection began.
    pub retransmitted: u32,
    /// `tcpi_rto`, microseconds.
    pub retransmission_timeout_us: u32,
}

/// Asks the kernel.
///
/// # Errors
/// What getsockopt(2) says; `EOPNOTSUPP` if the kernel's answer is too short.
pub fn tcp_info(socket: impl AsFd) -> Result<TcpInfo, Errno> {
    // SAFETY: tcp_info is plain integers, for which all zeroes is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::tcp_info>();
    let mut length = libc::socklen_t::try_from(size).map_err(|_| Errno::INVAL)?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed for the call; the pointers are to a live tcp_info and to
    // its size, which the kernel does not write beyond.
    let status = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    // An answer that ends before tcpi_total_retrans would read as zeroes.
    let needed = std::mem::offset_of!(libc::tcp_info, tcpi_total_retrans) + 4;
    if (length as usize) < needed {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(TcpInfo {
        round_trip_us: info.tcpi_rtt,
        round_trip_deviation_us: info.tcpi_rttvar,
        congestion_window: info.tcpi_snd_cwnd,
        segment_size_bytes: info.tcpi_snd_mss,
        unacknowledged: info.tcpi_unacked,
        retransmitted: info.tcpi_total_retrans,
        retransmission_timeout_us: info.tcpi_rto,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_fresh_loopback_connection_has_a_window_and_no_loss() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(&stream).unwrap();
        // Linux's initial window (RFC 6928): ten segments.
        assert_eq!((info.congestion_window, info.retransmitted), (10, 0));
        assert!(info.segment_size_bytes >= 536 && info.retransmission_timeout_us > 0);
        assert!(tcp_info(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
