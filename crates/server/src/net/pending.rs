//! Calls in work outside the loop's own hands: on workers, in the model, or both.

use std::net::SocketAddr;

use wire::nfs3::{READ3args, READDIR3args, READDIRPLUS3args, WRITE3args, procedure, stable_how};
use wire::rpc::Call;
use wire::{Decode, Reader, programs};

use super::pool::Finished;
use crate::model::{Shape, Stages};
use crate::record::Reading;
use crate::reply_cache::Ticket;
use crate::store::payload::{CHUNK_BYTES, PAGE_BYTES};
use crate::store::{LINK_BYTES_MAX, READ_BYTES_MAX};

/// Where a reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A connection: its place, and its serial number (places are used again).
    Connection(usize, u64),
    /// A UDP socket.
    Datagram(usize),
}

/// A call in work.
#[derive(Debug)]
pub struct Pending {
    /// Where its reply goes.
    pub origin: Origin,
    /// Who sent it.
    pub peer: SocketAddr,
    /// Its message, until it is handed to a worker.
    pub message: Vec<u8>,
    /// Its place in the reply cache.
    pub ticket: Option<Ticket>,
    /// xid, program, procedure for the record.
    pub numbers: [u32; 3],
    /// When its bytes were read, if it is to be recorded.
    pub reading: Option<Reading>,
    /// Size of its message, bytes.
    pub message_bytes: usize,
    /// What is held for it, bytes: its message and the most that its reply may be.
    pub cost_bytes: usize,
    /// The reply's part of that.
    pub reply_most: usize,
    /// The reply, once there.
    pub finished: Option<Finished>,
    /// True once the model lets the reply go (always without a model).
    pub released: bool,
    /// What the model made of it, once it lets the reply go.
    pub stages: Option<Stages>,
}

/// What any call costs in memory: keeping account of it, and a reply without data.
pub const CALL_BYTES: usize = 1024;
/// The lists of MOUNT: 1024 mounts of the longest path from the longest address.
const MOUNT_LIST_BYTES: usize = 5 * (READ_BYTES_MAX as usize / 4);

/// The most memory that the reply to a call holds until it is sent, bytes.
pub fn reply_bytes_most(call: &Call<'_>) -> usize {
    use wire::mount::procedure as mount;
    let mut reader = Reader::new(call.body.unwrap_or_default());
    let data = match (call.program, call.procedure) {
        (programs::NFS, procedure::READ) => {
            let count = READ3args::decode(&mut reader, "READ3args").map_or(0, |args| args.count);
            // Two pages are touched in part, and there is padding.
            let pages = count.min(READ_BYTES_MAX) as usize / PAGE_BYTES + 3;
            pages * (PAGE_BYTES + CHUNK_BYTES)
        }
        (programs::NFS, procedure::READLINK) => LINK_BYTES_MAX,
        (programs::NFS, procedure::READDIR) => READDIR3args::decode(&mut reader, "READDIR3args")
            .map_or(0, |args| args.count.min(READ_BYTES_MAX) as usize),
        (programs::NFS, procedure::READDIRPLUS) => {
            READDIRPLUS3args::decode(&mut reader, "READDIRPLUS3args")
                .map_or(0, |args| args.maxcount.min(READ_BYTES_MAX) as usize)
        }
        (programs::MOUNT, mount::DUMP | mount::EXPORT..) => MOUNT_LIST_BYTES,
        _ => 0,
    };
    data + CALL_BYTES
}

/// Room for a reply besides READ data and directory pages, bytes.
const SMALL_REPLY_BYTES: u64 = 256;

/// What the model and the limits have to know of a call. Arguments that do not decode give a
/// small call: the procedure will refuse them.
pub fn shape_of(call: &Call<'_>, message_bytes: usize) -> Shape {
    let mut shape = Shape {
        request_bytes: message_bytes as u64,
        reply_bytes: SMALL_REPLY_BYTES,
        ..Shape::default()
    };
    if call.program != programs::NFS {
        return shape;
    }
    shape.procedure = call.procedure;
    let body = call.body.unwrap_or_default();
    let mut reader = Reader::new(body);
    match call.procedure {
        procedure::READ => {
            if let Ok(args) = READ3args::decode(&mut reader, "READ3args") {
                shape.object = object_of(args.file.0);
                shape.offset = args.offset;
                shape.data_bytes = u64::from(args.count.min(READ_BYTES_MAX));
                shape.reply_bytes += shape.data_bytes;
            }
        }
        procedure::WRITE => {
            if let Ok(args) = WRITE3args::decode(&mut reader, "WRITE3args") {
                shape.object = object_of(args.file.0);
                shape.offset = args.offset;
                shape.data_bytes = args.data.0.len() as u64;
                shape.stable = args.stable != stable_how::UNSTABLE;
            }
        }
        _ => {
            if let Ok(handle) = wire::nfs3::nfs_fh3::decode(&mut reader, "handle") {
                shape.object = object_of(handle.0);
            }
            if matches!(call.procedure, procedure::READDIR | procedure::READDIRPLUS) {
                shape.reply_bytes += u64::from(READ_BYTES_MAX / 16);
            }
        }
    }
    shape
}

/// A number that tells files apart: of a sealed handle the object's own.
fn object_of(handle: &[u8]) -> u64 {
    let bytes = handle.get(8..16).and_then(|bytes| bytes.try_into().ok());
    u64::from_be_bytes(bytes.unwrap_or_default())
}
