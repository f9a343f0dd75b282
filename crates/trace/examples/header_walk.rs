//! The floor that `benches/captures.py` measures by: maps a pcap file and looks at the headers of
//! every frame, no more. Little-endian pcap of Ethernet, IPv4 and TCP only; not a reader.
//!
//! `header_walk FILE` prints frames, bytes, and a sum of lengths, ports and sequence numbers, so
//! that nothing is optimised away.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;

/// A file mapped into memory for the life of the process.
fn map(path: &str) -> Result<&'static [u8], Error> {
    let file = File::open(path)?;
    let length = file.metadata()?.len() as usize;
    if length < FILE_HEADER_BYTES {
        return Err(Error::new(
            ErrorKind::InvalidData,
            "too short for a capture",
        ));
    }
    // SAFETY: a fresh mapping of an open file; the result is checked below, lives until the
    // process ends, and the file is not changed while the benchmark runs.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    // SAFETY: `at` is a mapping of `length` readable bytes.
    unsafe {
        libc::madvise(at, length, libc::MADV_SEQUENTIAL);
        Ok(std::slice::from_raw_parts(at.cast::<u8>(), length))
    }
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*word))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*word))
}

/// Ports, sequence number and payload length of a frame, added up.
fn headers(frame: &[u8]) -> Option<u64> {
    if be16(frame, 12)? != 0x0800 {
        return None;
    }
    let ip = frame.get(14..)?;
    let header_bytes = usize::from(ip.first()? & 15) * 4;
    let total = be16(ip, 2)?;
    if *ip.get(9)? != 6 {
        return None;
    }
    let tcp = ip.get(header_bytes..)?;
    let sequence = u32::from_be_bytes(*tcp.get(4..)?.first_chunk::<4>()?);
    let data_at = usize::from(tcp.get(12)? >> 4) * 4;
    let payload = usize::from(total).checked_sub(header_bytes + data_at)?;
    let ports = u64::from(be16(tcp, 0)?) + u64::from(be16(tcp, 2)?);
    Some(ports + u64::from(sequence) + payload as u64)
}

fn walk(capture: &[u8]) -> (u64, u64, u64) {
    let (mut frames, mut bytes, mut sum) = (0, 0, 0u64);
    let mut at = FILE_HEADER_BYTES;
    while let Some(captured) = le32(capture, at + 8) {
        let front = at + RECORD_HEADER_BYTES;
        let Some(frame) = capture.get(front..front + captured as usize) else {
            break;
        };
        frames += 1;
        bytes += u64::from(captured);
        sum = sum.wrapping_add(headers(frame).unwrap_or(0));
        at = front + captured as usize;
    }
    (frames, bytes, sum)
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: header_walk FILE");
        return ExitCode::from(2);
    };
    match map(&path) {
        Ok(capture) => {
            let (frames, bytes, sum) = walk(capture);
            println!("{frames} frames, {bytes} bytes, sum {sum}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}
