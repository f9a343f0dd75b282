//! NFS version 3 (RFC 1813): every argument and result, in the RFC's spelling, both ways.
//!
//! Types borrow file handles, names and data from the message (or, for encoding, from the caller).
//! WRITE arguments end with their payload: `encode_head` appends all that comes before it, so that
//! header and payload can be sent with one gathering write and no copy.
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
    crate::numbers::procedures! {
        NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE
        RMDIR RENAME LINK READDIR READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT
    }
}
