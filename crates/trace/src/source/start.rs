//! The beginning of an input: compression is taken off and the format is found.

use std::io::{self, Read};
use std::sync::Arc;

use super::bounds::Bounds;
use super::compression::{Bytes, LongWindow, MAX_NESTING, decompress, zstd_window_bytes};
use super::magic::{DESCRIBE_BYTES, MAGIC_BYTES, Magic, describe, magic};
use super::pcap::{FILE_HEADER_BYTES, Pcap};
use super::pcapng::{PcapNg, SECTION_HEADER_BYTES};
use super::progress::Shared;
use super::raw::{Raw, Watch};
use super::sink::Sink;
use crate::error::TraceError;
use crate::packet::link::link_type_name;

/// Name of a layer.
const ZSTD: &str = "zstd";

/// Why a format refuses bytes.
#[derive(Debug)]
pub(super) enum Refused {
    /// What it found, in words.
    Format(String),
    /// A link type that is not read.
    LinkType(u32),
}

impl Refused {
    /// As the error of the file with this name.
    pub(super) fn of_file(self, name: &str) -> TraceError {
        let name = name.to_owned();
        match self {
            Refused::Format(found) => TraceError::NotACapture { name, found },
            Refused::LinkType(link_type) => TraceError::LinkType {
                name,
                link_type,
                known_as: link_type_name(link_type),
            },
        }
    }
}

/// A capture format in the middle of a file.
#[derive(Debug)]
pub(super) enum Format {
    Pcap(Pcap),
    PcapNg(Box<PcapNg>),
}

impl Format {
    /// Hands all whole packets from `at` on to the sink; gives the place of what is left.
    pub(super) fn walk(
        &mut self,
        bytes: &[u8],
        at: usize,
        end: bool,
        sink: &mut Sink<'_>,
    ) -> Result<usize, Refused> {
        match self {
            Format::Pcap(pcap) => Ok(pcap.walk(bytes, at, end, sink)),
            Format::PcapNg(pcapng) => pcapng.walk(bytes, at, end, sink),
        }
    }

    /// Whether the bytes at hand are being searched for a packet, not part of one.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Format::Pcap(pcap) => pcap.is_lost(),
            Format::PcapNg(pcapng) => pcapng.is_lost(),
        }
    }

    /// Bytes of a long block that are still to be passed over.
    pub(super) fn missing_bytes(&self) -> u64 {
        match self {
            Format::Pcap(_) => 0,
            Format::PcapNg(pcapng) => pcapng.missing_bytes(),
        }
    }

    /// Packets that the kernel dropped while it captured, as the file tells.
    pub(super) fn kernel_drops(&self) -> u64 {
        match self {
            Format::Pcap(_) => 0,
            Format::PcapNg(pcapng) => pcapng.kernel_drops(),
        }
    }
}

/// An input whose format is known.
pub(super) struct Started {
    pub name: String,
    /// Bytes without compression, behind `begin`.
    pub bytes: Bytes,
    /// The first bytes, read already.
    pub begin: Vec<u8>,
    pub format: Format,
    /// Whether reading may have to wait for a writer.
    pub live: bool,
    pub watch: Option<Watch>,
    /// Not compressed: `begin` is what the file begins with.
    pub plain: bool,
}

/// Starts on a file or stream.
pub(super) fn start(
    name: String,
    raw: Raw,
    bounds: Bounds,
    shared: &Arc<Shared>,
) -> Result<Started, TraceError> {
    let (live, watch) = (raw.is_live(), raw.watch());
    let started = start_bytes(name, Box::new(raw), bounds, shared)?;
    Ok(Started {
        live,
        watch,
        ..started
    })
}

/// Starts on any bytes.
pub(super) fn start_bytes(
    name: String,
    bytes: Bytes,
    bounds: Bounds,
    shared: &Arc<Shared>,
) -> Result<Started, TraceError> {
    let mut opening = Opening {
        name,
        bytes,
        begin: Vec::new(),
        layers: Vec::new(),
        ended: false,
        zstd_window_bytes: bounds.zstd_window_bytes,
        shared,
    };
    opening.have(MAGIC_BYTES)?;
    for _ in 0..=MAX_NESTING {
        let kind = magic(&opening.begin);
        if !matches!(kind, Magic::Gzip | Magic::Zstd) || opening.layers.len() == MAX_NESTING {
            break;
        }
        opening = opening.take_off(kind)?;
        opening.have(MAGIC_BYTES)?;
    }
    let refused = |refused: Refused, name: &str| refused.of_file(name);
    let format = match magic(&opening.begin) {
        Magic::Pcap => {
            opening.have_header(FILE_HEADER_BYTES, "pcap")?;
            let pcap = Pcap::new(&opening.begin, bounds.frame_bytes);
            Format::Pcap(pcap.map_err(|it| refused(it, &opening.name))?)
        }
        Magic::PcapNg => {
            opening.have_header(SECTION_HEADER_BYTES, "pcapng")?;
            let pcapng = PcapNg::new(&opening.begin, bounds.frame_bytes);
            Format::PcapNg(Box::new(pcapng.map_err(|it| refused(it, &opening.name))?))
        }
        _ => return Err(opening.not_a_capture()),
    };
    Ok(Started {
        plain: opening.layers.is_empty(),
        name: opening.name,
        bytes: opening.bytes,
        begin: opening.begin,
        format,
        live: false,
        watch: None,
    })
}

struct Opening<'a> {
    name: String,
    bytes: Bytes,
    begin: Vec<u8>,
    /// Compressions that were taken off.
    layers: Vec<&'static str>,
    ended: bool,
    /// Largest one of the outermost zstd layer.
    zstd_window_bytes: usize,
    shared: &'a Arc<Shared>,
}

impl Opening<'_> {
    /// Reads until so many bytes are there or the input ends.
    fn have(&mut self, count: usize) -> Result<(), TraceError> {
        while self.begin.len() < count && !self.ended {
            let known = self.begin.len();
            self.begin.resize(count, 0);
            let read = self.bytes.read(&mut self.begin[known..]);
            self.begin.truncate(known + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.shared.stopped() {
                        return Err(TraceError::Interrupted);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn have_header(&mut self, count: usize, format: &str) -> Result<(), TraceError> {
        self.have(count)?;
        match self.begin.len() {
            length if length < count => Err(TraceError::NotACapture {
                name: self.name.clone(),
                found: self.within(format!("a {format} header cut after {length} bytes")),
            }),
            _ => Ok(()),
        }
    }

    fn failed(&self, error: io::Error) -> TraceError {
        if let Some(refused) = LongWindow::of(&error, &self.name) {
            return refused;
        }
        let name = self.name.clone();
        if error.raw_os_error().is_some() || self.layers.is_empty() {
            return TraceError::Io {
                name,
                source: error,
            };
        }
        TraceError::Compression {
            name,
            bytes: self.begin.len() as u64,
            why: error.to_string(),
        }
    }

    fn take_off(mut self, kind: Magic) -> Result<Self, TraceError> {
        let around = self.layers.iter().filter(|layer| **layer == ZSTD).count();
        let window_bytes = zstd_window_bytes(self.zstd_window_bytes, around);
        self.layers.push(match kind {
            Magic::Gzip => "gzip",
            _ => ZSTD,
        });
        let begin = std::mem::take(&mut self.begin);
        let stored = Box::new(io::Cursor::new(begin).chain(self.bytes));
        match decompress(kind, stored, window_bytes) {
            Ok(bytes) => Ok(Opening {
                bytes,
                ended: false,
                ..self
            }),
            Err(source) => Err(TraceError::Io {
                name: self.name,
                source,
            }),
        }
    }

    /// Puts the compressions around what was found.
    fn within(&self, found: String) -> String {
        match self.layers.is_empty() {
            true => found,
            false => format!("{found}, in {} compression", self.layers.join(" in ")),
        }
    }

    fn not_a_capture(mut self) -> TraceError {
        if let Err(error) = self.have(DESCRIBE_BYTES) {
            return error;
        }
        if self.begin.is_empty() {
            return TraceError::Empty(self.name);
        }
        let found = match magic(&self.begin) {
            Magic::Gzip | Magic::Zstd => "compressed data again and again".to_owned(),
            _ => describe(&self.begin),
        };
        TraceError::NotACapture {
            found: self.within(found),
            name: self.name,
        }
    }
}
