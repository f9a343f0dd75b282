//! Data of a READ on its way out: shared pages, constant zeros or a buffer, never copied here.
//!
//! A page that is on its way out is shared with the file; a WRITE to it meanwhile copies the page
//! first, so that a reply keeps the bytes it had when it was made.

use std::sync::Arc;

/// Bytes of a page of the memory store.
pub const PAGE_BYTES: usize = 4096;
/// A page of the memory store.
pub type Page = [u8; PAGE_BYTES];
/// What holes read as.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Keeping account of a [`Chunk`], bytes.
pub const CHUNK_BYTES: usize = 64;

/// A run of bytes that lives elsewhere.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Zeros (holes, the null store).
    Zeros(usize),
    /// Part of a page: start and length.
    Page(Arc<Page>, usize, usize),
    /// A buffer of its own.
    Buffer(Vec<u8>),
}

impl Chunk {
    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that it keeps from being used otherwise, bytes: of a page all of it, for the file may
    /// have another one there by now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let bytes = match self {
            Chunk::Zeros(_) => 0,
            Chunk::Page(..) => PAGE_BYTES,
            Chunk::Buffer(bytes) => bytes.capacity(),
        };
        bytes + CHUNK_BYTES
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Chunk::Zeros(length) => ZEROS.get(..*length).unwrap_or(&ZEROS),
            Chunk::Page(page, start, length) => {
                page.get(*start..start + length).unwrap_or_default()
            }
            Chunk::Buffer(bytes) => bytes,
        }
    }
}

/// The data of one READ, in order.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    chunks: Vec<Chunk>,
    bytes: usize,
}

impl Payload {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Payload {
            chunks: Vec::new(),
            bytes: 0,
        }
    }

    /// Forgets all, keeping the room.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }

    /// Total bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Adds a run.
    #[inline]
    pub fn push(&mut self, chunk: Chunk) {
        self.bytes += chunk.len();
        self.chunks.push(chunk);
    }

    /// Adds zeros.
    pub fn push_zeros(&mut self, mut length: usize) {
        while length > 0 {
            let here = length.min(ZEROS.len());
            self.push(Chunk::Zeros(here));
            length -= here;
        }
    }

    /// Adds the zeros that fill the data up to a multiple of four (RFC 4506 section 3).
    pub fn push_padding(&mut self) {
        self.push_zeros(wire::xdr::padding(self.bytes));
    }

    /// The runs.
    #[must_use]
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Hands the runs over one by one; nothing is left.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Chunk> {
        self.bytes = 0;
        self.chunks.drain(..)
    }

    /// A copy in one piece, for tests and datagrams.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes);
        for chunk in &self.chunks {
            all.extend_from_slice(chunk.as_bytes());
        }
        all
    }
}
