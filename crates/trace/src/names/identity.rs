//! Which file a handle is: the server's own numbers, as attributes in replies tell them.
//!
//! A handle is opaque; a client's inode number is the file's number on the server. What joins a
//! client's system calls to calls on the wire is this number, so it is believed only as long as
//! all replies agree.

use wire::nfs3::quick::QuickAttributes;
use wire::summary::Attributes;

use super::Names;
use crate::call::FileId;

/// Which file of its server a handle is, by the attributes in replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// No reply told both numbers.
    #[default]
    Unknown,
    /// Every reply said so.
    Known {
        /// File system (NFSv4: both numbers mixed, [`wire::summary::Attributes::fsid`]).
        fsid: u64,
        /// File number within it: what stat(2) of a client shows as the inode.
        file_id: u64,
    },
    /// Replies disagree, so none is believed.
    Contradicted,
}

impl Identity {
    /// The same or something else was seen.
    #[inline]
    fn seen(&mut self, fsid: u64, file_id: u64) {
        let now = Identity::Known { fsid, file_id };
        if *self == Identity::Unknown {
            *self = now;
        } else if *self != now {
            *self = Identity::Contradicted;
        }
    }
}

impl Names {
    /// Type and numbers of a file, from attributes that are certainly its own.
    #[inline]
    pub fn set_attributes(&mut self, id: FileId, attributes: &Attributes) {
        let Some(file) = self.files.get_mut(id.0 as usize) else {
            return;
        };
        if let Some(kind) = attributes.file_type {
            file.file_type = kind;
        }
        if let (Some(fsid), Some(file_id)) = (attributes.fsid, attributes.file_id) {
            file.identity.seen(fsid, file_id);
        }
    }

    /// The same of attributes that the fast path read.
    #[inline]
    pub fn set_quick_attributes(&mut self, id: FileId, attributes: &QuickAttributes) {
        if let Some(file) = self.files.get_mut(id.0 as usize) {
            file.file_type = attributes.file_type;
            file.identity.seen(attributes.fsid, attributes.file_id);
        }
    }

    /// File system and file number, where they are known for certain.
    #[inline]
    pub fn numbers(&self, id: FileId) -> Option<(u64, u64)> {
        match self.file(id)?.identity {
            Identity::Known { fsid, file_id } => Some((fsid, file_id)),
            Identity::Unknown | Identity::Contradicted => None,
        }
    }
}
