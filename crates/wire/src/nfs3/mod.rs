//! NFS version 3 (RFC 1813): every argument and result, in the RFC's spelling, both ways.
//!
//! Types borrow file handles, names and data from the message (or, for encoding, from the caller).
//! WRITE arguments and READ results end with their payload: `encode_head` appends all that comes
//! before it, so that header and payload can be sent with one gathering write and no copy.
//!
//! Capture analysis does not use these types; it has [`crate::summarise_call`] and
//! [`crate::summarise_reply`], which touch only what they report.

pub mod arguments;
pub mod directory;
pub mod quick;
pub mod results;
pub(crate) mod summary;
pub mod types;

pub use arguments::*;
pub use directory::*;
pub use results::*;
pub use types::*;

/// Procedure numbers (RFC 1813 section 3.3).
pub mod procedure {
    /// Do nothing.
    pub const NULL: u32 = 0;
    /// Get file attributes.
    pub const GETATTR: u32 = 1;
    /// Set file attributes.
    pub const SETATTR: u32 = 2;
    /// Look up a name.
    pub const LOOKUP: u32 = 3;
    /// Check access.
    pub const ACCESS: u32 = 4;
    /// Read a symbolic link.
    pub const READLINK: u32 = 5;
    /// Read from a file.
    pub const READ: u32 = 6;
    /// Write to a file.
    pub const WRITE: u32 = 7;
    /// Create a file.
    pub const CREATE: u32 = 8;
    /// Create a directory.
    pub const MKDIR: u32 = 9;
    /// Create a symbolic link.
    pub const SYMLINK: u32 = 10;
    /// Create a special device.
    pub const MKNOD: u32 = 11;
    /// Remove a file.
    pub const REMOVE: u32 = 12;
    /// Remove a directory.
    pub const RMDIR: u32 = 13;
    /// Rename a file or directory.
    pub const RENAME: u32 = 14;
    /// Link to an object.
    pub const LINK: u32 = 15;
    /// Read from a directory.
    pub const READDIR: u32 = 16;
    /// Extended read from a directory.
    pub const READDIRPLUS: u32 = 17;
    /// Dynamic file system information.
    pub const FSSTAT: u32 = 18;
    /// Static file system information.
    pub const FSINFO: u32 = 19;
    /// POSIX information.
    pub const PATHCONF: u32 = 20;
    /// Commit cached data.
    pub const COMMIT: u32 = 21;
}
