//! What is wrong with some bytes, where, and in which field.
//!
//! One error type serves the whole crate, so that a capture reader and a server report a bad
//! message in the same words. It is small and `Copy`; it is built on cold paths only. `field` is
//! the innermost field in RFC spelling (`fattr3.size`), `within` the outermost one that was being
//! decoded (`READ3resok.file_attributes`), `operation` the index inside a COMPOUND.

use std::fmt;

/// Why a field could not be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The bytes end before the field does: a cut capture, or a malformed message.
    Short {
        /// Bytes that the field needs at this place.
        needed: u32,
        /// Bytes that are left.
        left: u32,
    },
    /// A length or a count is larger than the protocol (or a named bound of [`crate::limits`])
    /// allows.
    TooLong {
        /// The length that was stated.
        length: u32,
        /// The bound.
        limit: u32,
    },
    /// A value that the field's enumeration or union does not have.
    BadValue {
        /// The value that was found.
        value: u32,
    },
    /// Bytes follow the end of the message.
    Trailing {
        /// How many.
        bytes: u32,
    },
}

/// A decoding (or encoding) error: kind, byte offset and the field's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Byte offset inside the slice that was handed to the decoder.
    pub offset: u32,
    /// Innermost field, `type.field` in RFC spelling.
    pub field: &'static str,
    /// Outermost field that was being decoded; empty if it is `field` itself.
    pub within: &'static str,
    /// Index of the operation inside a COMPOUND.
    pub operation: Option<u16>,
}

/// Result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Builds an error for `field` at `offset`.
    #[cold]
    #[inline(never)]
    pub fn new(kind: ErrorKind, offset: usize, field: &'static str) -> Self {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        Error {
            kind,
            offset,
            field,
            within: "",
            operation: None,
        }
    }

    /// Names the container that was being decoded; the outermost one stays.
    #[cold]
    #[must_use]
    pub fn within(mut self, container: &'static str) -> Self {
        if container != self.field {
            self.within = container;
        }
        self
    }

    /// States the operation of a COMPOUND that was being decoded.
    #[cold]
    #[must_use]
    pub fn in_operation(mut self, index: usize) -> Self {
        self.operation = u16::try_from(index).ok();
        self
    }

    /// True if the bytes ended too early: all that a cut capture can cause.
    pub fn is_short(&self) -> bool {
        matches!(self.kind, ErrorKind::Short { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.operation {
            write!(out, "operation {index}: ")?;
        }
        if !self.within.is_empty() {
            write!(out, "{}: ", self.within)?;
        }
        write!(out, "{} at byte {}: ", self.field, self.offset)?;
        match self.kind {
            ErrorKind::Short { needed, left } => {
                write!(out, "{needed} bytes needed, {left} left")
            }
            ErrorKind::TooLong { length, limit } => {
                write!(out, "length {length} is above the limit of {limit}")
            }
            ErrorKind::BadValue { value } => write!(out, "{value} is not a value of this field"),
            ErrorKind::Trailing { bytes } => write!(out, "{bytes} bytes follow the message"),
        }
    }
}

impl std::error::Error for Error {}
