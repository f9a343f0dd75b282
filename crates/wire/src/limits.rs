//! Bounds on whatever the wire can claim, each with its source.
//!
//! Where an RFC leaves a length open (`string<>`), the bound is at or above what the widespread
//! implementations accept, so that a legal message is never refused and a hostile one is refused
//! before anything is done with its claim.

/// Body of a credential or verifier, bytes (RFC 5531 section 8.2: `opaque body<400>`).
pub const MAX_AUTH_BYTES: u32 = 400;
/// `machinename<255>` of AUTH_SYS (RFC 5531 appendix A).
pub const MAX_MACHINE_NAME_BYTES: u32 = 255;
/// `gids<16>` of AUTH_SYS (RFC 5531 appendix A).
pub const MAX_AUTH_SYS_GIDS: u32 = 16;

/// Fixed file handle of NFSv2 and MOUNT v1/v2 (RFC 1094 section 2.3.3: `FHSIZE`).
pub const NFS2_FHSIZE: usize = 32;
/// `NFS3_FHSIZE` (RFC 1813 section 2.4).
pub const NFS3_FHSIZE: u32 = 64;
/// `NFS4_FHSIZE` (RFC 7530 section 2.1).
pub const NFS4_FHSIZE: u32 = 128;
/// `NFS4_OPAQUE_LIMIT` (RFC 7530 section 2.1).
pub const NFS4_OPAQUE_LIMIT: u32 = 1024;

/// Longest file name decoded, bytes. The RFCs leave it open; Linux refuses more than 255
/// (`NFS3_MAXNAMLEN`) after decoding, so this is above it: a server can answer NAMETOOLONG.
pub const MAX_NAME_BYTES: u32 = 4096;
/// Longest symbolic link or path, bytes (Linux `PATH_MAX`; NFSv2 and MOUNT: 1024).
pub const MAX_PATH_BYTES: u32 = 4096;
/// `MNTPATHLEN` of MOUNT (RFC 1813 section 5.1.2).
pub const MAX_MOUNT_PATH_BYTES: u32 = 1024;
/// `MNTNAMLEN` of MOUNT (RFC 1813 section 5.1.2).
pub const MAX_MOUNT_NAME_BYTES: u32 = 255;

/// Largest READ or WRITE payload believed, bytes. Linux: 1 MiB, newer kernels 4 MiB
/// (`RPCSVC_MAXPAYLOAD`); other servers stay below. Four times the largest known.
pub const MAX_DATA_BYTES: u32 = 16 << 20;
/// Room for all that surrounds a payload in one RPC message, bytes (headers with GSS, a COMPOUND's
/// other operations). Linux adds one page; this is generous.
pub const MAX_HEADER_BYTES: u32 = 64 << 10;
/// Largest RPC record believed, bytes.
pub const MAX_RECORD_BYTES: u32 = MAX_DATA_BYTES + MAX_HEADER_BYTES;
/// Fragments of one record. Clients in the wild send one; some libraries a few dozen.
pub const MAX_FRAGMENTS_PER_RECORD: u32 = 4096;

/// Operations of one COMPOUND that a summary lists. Linux servers took 16, then 50 at most
/// (`NFSD_MAX_OPS_PER_COMPOUND`), Linux clients send fewer than 20. Further operations are counted
/// and decoded, but the list says that it was cut.
pub const MAX_LISTED_OPERATIONS: usize = 64;
/// Operations of one COMPOUND that are decoded at all; a larger claim is an error.
pub const MAX_OPERATIONS: u32 = 4096;
/// Words of an NFSv4 bitmap. Defined attributes end at bit 86 (three words); RFC 7862's
/// `IO_ADVISE` and notification bitmaps are smaller.
pub const MAX_BITMAP_WORDS: u32 = 32;
/// Largest opaque value inside an NFSv4 operation other than READ/WRITE data, bytes (attribute
/// lists with ACLs, layouts, extended attributes: Linux `XATTR_SIZE_MAX` is 64 KiB).
pub const MAX_OPAQUE_BYTES: u32 = 1 << 20;
/// Elements of any counted array inside one message. Each element takes at least four bytes that
/// have to be there, so this bounds work, not memory.
pub const MAX_ARRAY_ELEMENTS: u32 = 1 << 16;
/// `MAXNETOBJ_SZ` of NLM (X/Open XNFS; Linux `NLM_MAXCOOKIELEN` is 32, file handles fit as well).
pub const MAX_NETOBJ_BYTES: u32 = 1024;
/// `LM_MAXSTRLEN` and `SM_MAXSTRLEN` of NLM and NSM (X/Open XNFS).
pub const MAX_LOCK_NAME_BYTES: u32 = 1024;
/// Strings of rpcbind (`string<>` in RFC 1833): network ids, universal addresses, owners.
pub const MAX_RPCBIND_STRING_BYTES: u32 = 1024;
