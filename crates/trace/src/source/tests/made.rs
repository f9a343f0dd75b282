//! Captures made by hand, byte for byte from the formats' documents.

/// A pcap file header: magic in this byte order, version 2.4.
pub fn pcap_header(magic: u32, link_type: u32, big_endian: bool) -> Vec<u8> {
    let mut out = Vec::new();
    words(&mut out, &[magic], big_endian);
    halves(&mut out, &[2, 4], big_endian);
    words(&mut out, &[0, 0, 262_144, link_type], big_endian);
    out
}

/// Appends a packet to a pcap file; `wire` is its length before the capture cut it.
pub fn pcap_packet(out: &mut Vec<u8>, time: [u32; 2], wire: u32, bytes: &[u8], big_endian: bool) {
    words(
        out,
        &[time[0], time[1], bytes.len() as u32, wire],
        big_endian,
    );
    out.extend_from_slice(bytes);
}

/// Appends words of 32 bits.
pub fn words(out: &mut Vec<u8>, words: &[u32], big_endian: bool) {
    for word in words {
        out.extend_from_slice(&match big_endian {
            true => word.to_be_bytes(),
            false => word.to_le_bytes(),
        });
    }
}

/// Appends words of 16 bits.
pub fn halves(out: &mut Vec<u8>, words: &[u16], big_endian: bool) {
    for word in words {
        out.extend_from_slice(&match big_endian {
            true => word.to_be_bytes(),
            false => word.to_le_bytes(),
        });
    }
}

/// A pcapng block of this type around a body.
pub fn block(kind: u32, body: &[u8], big_endian: bool) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = padded as u32 + 12;
    let mut out = Vec::new();
    words(&mut out, &[kind, total], big_endian);
    out.extend_from_slice(body);
    out.resize(8 + padded, 0);
    words(&mut out, &[total], big_endian);
    out
}

/// A pcapng option.
pub fn option(code: u16, value: &[u8], big_endian: bool) -> Vec<u8> {
    let mut out = Vec::new();
    halves(&mut out, &[code, value.len() as u16], big_endian);
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// Section header block.
pub fn section(big_endian: bool) -> Vec<u8> {
    let mut body = Vec::new();
    words(&mut body, &[0x1a2b_3c4d], big_endian);
    halves(&mut body, &[1, 0], big_endian);
    words(&mut body, &[u32::MAX, u32::MAX], big_endian);
    block(0x0a0d_0d0a, &body, big_endian)
}

/// Interface description block.
pub fn interface(link_type: u16, snap_bytes: u32, options: &[u8], big_endian: bool) -> Vec<u8> {
    let mut body = Vec::new();
    halves(&mut body, &[link_type, 0], big_endian);
    words(&mut body, &[snap_bytes], big_endian);
    body.extend_from_slice(options);
    block(1, &body, big_endian)
}

/// Enhanced packet block.
pub fn enhanced(interface: u32, time: u64, bytes: &[u8], options: &[u8], big: bool) -> Vec<u8> {
    let length = bytes.len() as u32;
    let mut body = Vec::new();
    let times = [(time >> 32) as u32, time as u32];
    words(
        &mut body,
        &[interface, times[0], times[1], length, length],
        big,
    );
    body.extend_from_slice(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend_from_slice(options);
    block(6, &body, big)
}

/// An Ethernet frame with IPv4 and UDP (RFC 791, RFC 768), from 10.0.0.1:900 to 10.0.0.2:2049.
pub fn udp_frame(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let udp = 8 + payload.len() as u16;
    out.extend_from_slice(&[0x45, 0]);
    halves(&mut out, &[20 + udp, 0x1234, 0], true);
    out.extend_from_slice(&[64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    halves(&mut out, &[900, 2049, udp, 0], true);
    out.extend_from_slice(payload);
    out
}
