//! System calls per file, and every fsync timed, of a database or any other program.
//!
//! Two ways lead to the same records (module [`record`]): eBPF programs that watch a tree of
//! processes from outside, and a shim that a launched program preloads. The first counts in the
//! kernel; the other gives call after call, which [`tally`] counts by the same rules, so that
//! tables of both ways can lie side by side.
//!
//! ```text
//! eBPF ── syncs, events, names, files (ring) ──┐
//!      ── counts per file and call (maps) ─────┼──> columns (crates/python) ──> run folder
//! shim ── call after call ──> tally ───────────┘
//! ```
//!
//! What processes wait for by their own account is timed by eBPF ([`ebpf::Waits`]), or looked at
//! many times a second in their memory ([`samples`]). Calls of the kernel's NFS client and requests
//! of its server are told by tracepoints ([`sunrpc`]).
//!
//! All instants are CLOCK_MONOTONIC in nanoseconds.

pub mod ebpf;
pub mod error;
mod exported;
pub mod nfs_files;
pub mod record;
pub mod samples;
pub mod shim;
pub mod sunrpc;
pub mod tally;
mod tracefs;

pub use exported::image_of;
