//! Which files the kernel's NFS client reads, writes and commits: its calls by file, by the
//! tracepoints that it passes when such a call has its reply (any version of NFS).
//!
//! ```text
//! tracepoint ──> ring of each processor (perf_event_open(2)) ── take() ──> calls by file
//! ```
//!
//! As `sunrpc` does, which has the rings: nothing is written to tracefs, all ends with this
//! process. A file is a device and a number; its name is not told. What a ring has no room for is
//! in none.
//!
//! Source: fs/nfs/nfstrace.h (nfs_readpage_done, nfs_writeback_done, nfs_commit_done).

use measure::{ByFile, DataCall, FileCounts};
use perf_event::Sampler;

use crate::error::WatchError;
use crate::sunrpc::format::{Field, Format};
use crate::sunrpc::{SAMPLE, processors, raw, refused, ring};
use crate::tracefs::Tracefs;

/// Group of the tracepoints, as tracefs has it.
const CATEGORY: &str = "nfs";
const POINTS: [(&str, DataCall); 3] = [
    ("nfs_readpage_done", DataCall::Read),
    ("nfs_writeback_done", DataCall::Write),
    ("nfs_commit_done", DataCall::Commit),
];
/// The kernel's `dev_t`: bits of the minor number.
const MINOR_BITS: u32 = 20;

/// A file of the kernel's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct File {
    /// Major and minor number of the mount's device.
    pub device: (u32, u32),
    /// The server's number of it: its inode number.
    pub file_id: u64,
}

/// Counts from `start` on, until it is dropped.
pub struct NfsFiles {
    rings: Vec<(Decoder, Sampler)>,
    by_file: ByFile<File>,
}

impl NfsFiles {
    /// Opens the tracepoints. The kernel has them once its NFS client is there.
    pub fn start() -> Result<Self, WatchError> {
        let failed = |why| WatchError::Tracefs { why };
        let tracefs = Tracefs::open("/".as_ref()).map_err(failed)?;
        let mut rings = Vec::new();
        for (name, call) in POINTS {
            let unusable = |why: &str| failed(format!("{CATEGORY}/{name}: {why}"));
            let text = tracefs.format(CATEGORY, name);
            let text = text.map_err(|error| unusable(&error.to_string()))?;
            let format = Format::parse(&text).ok_or_else(|| unusable("it has no number"))?;
            let decoder = Decoder::new(call, &format);
            let decoder = decoder.ok_or_else(|| unusable("it has other fields"))?;
            for processor in processors() {
                rings.push((decoder, ring(format.number, processor).map_err(refused)?));
            }
        }
        let by_file = ByFile::default();
        Ok(NfsFiles { rings, by_file })
    }

    /// The calls that ended since the last time.
    pub fn take(&mut self) -> Vec<(File, FileCounts)> {
        for (decoder, ring) in &mut self.rings {
            while let Some(record) = ring.next_record() {
                if record.ty() != SAMPLE {
                    continue;
                }
                let sample = record.to_contiguous();
                if let Some((file, bytes)) = raw(&sample).and_then(|raw| decoder.decode(raw)) {
                    self.by_file.add(file, decoder.call, bytes);
                }
            }
        }
        self.by_file.take()
    }
}

/// Where a tracepoint's fields lie on this kernel.
#[derive(Clone, Copy, Debug)]
struct Decoder {
    call: DataCall,
    device: Field,
    file_id: Field,
    /// None: a COMMIT.
    bytes: Option<Field>,
}

impl Decoder {
    fn new(call: DataCall, format: &Format) -> Option<Self> {
        let bytes = match call {
            DataCall::Commit => None,
            DataCall::Read | DataCall::Write => Some(format.field("res_count")?),
        };
        Some(Decoder {
            call,
            device: format.field("dev")?,
            file_id: format.field("fileid")?,
            bytes,
        })
    }

    fn decode(&self, record: &[u8]) -> Option<(File, u64)> {
        let device = u32::try_from(self.device.number(record)?).ok()?;
        let file = File {
            device: (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1)),
            file_id: self.file_id.number(record)?,
        };
        let bytes = self.bytes.map_or(Some(0), |field| field.number(record))?;
        Some((file, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "ID: 1\nfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        field:u32 fhandle;\toffset:12;\tsize:4;\tsigned:0;\n\
        field:u64 fileid;\toffset:16;\tsize:8;\tsigned:0;\n\
        field:u32 res_count;\toffset:24;\tsize:4;\tsigned:0;\n";

    #[test]
    fn a_record_is_a_file_and_bytes() {
        let format = Format::parse(FORMAT).unwrap();
        let decoder = Decoder::new(DataCall::Read, &format).unwrap();
        let mut record = vec![0; 8];
        record.extend(((3_u32 << 20) | 58).to_ne_bytes());
        record.extend(7_u32.to_ne_bytes());
        record.extend((1_u64 << 40).to_ne_bytes());
        record.extend(8192_u32.to_ne_bytes());
        let file = File {
            device: (3, 58),
            file_id: 1 << 40,
        };
        assert_eq!(decoder.decode(&record), Some((file, 8192)));
        for length in 0..record.len() {
            assert_eq!(decoder.decode(&record[..length]), None);
        }
    }

    #[test]
    fn a_format_without_a_field_is_refused() {
        let format = Format::parse(&FORMAT.replace("fileid", "inode")).unwrap();
        assert!(Decoder::new(DataCall::Commit, &format).is_none());
    }
}
