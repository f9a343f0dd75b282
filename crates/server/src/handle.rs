//! File handles: what they name, and how they are sealed so that no client can make one.
//!
//! On the wire: magic (4 bytes), export (4), object (8), generation (8), up to 32 bytes that the
//! store adds (a kernel file handle), checksum (8, SipHash-2-4 with the server's key, over all
//! before it). A handle with a wrong length, magic or checksum was not made here:
//! NFS3ERR_BADHANDLE. One that was, but whose object is gone, is the store's to refuse:
//! NFS3ERR_STALE.
//!
//! Decisions: the key is random ([`crate::key_file`] keeps it over restarts), so that clients can
//! name no object but those they were shown. No store relies on it for what lies in the export:
//! whoever has the key meets the store's own checks like anyone else.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use wire::nfs3::nfsstat3;

/// Bytes that a store may add to a handle.
pub const MAX_EXTRA_BYTES: usize = 32;
/// Largest sealed handle, bytes: `NFS3_FHSIZE` (RFC 1813 section 2.4).
pub const MAX_HANDLE_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"nfL3";
const FIXED_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 8;
/// Size of a key (SipHash's).
pub const KEY_BYTES: usize = 16;

/// What a handle names inside a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Number of the object (an inode number).
    pub object: u64,
    /// Tells objects apart that had the same number one after the other.
    pub generation: u64,
    extra: [u8; MAX_EXTRA_BYTES],
    extra_bytes: u8,
}

impl Handle {
    /// A handle of number and generation alone.
    #[must_use]
    pub const fn new(object: u64, generation: u64) -> Self {
        Handle {
            object,
            generation,
            extra: [0; MAX_EXTRA_BYTES],
            extra_bytes: 0,
        }
    }

    /// The same with the store's own bytes; `None` above [`MAX_EXTRA_BYTES`].
    #[must_use]
    pub fn with_extra(object: u64, generation: u64, bytes: &[u8]) -> Option<Self> {
        let mut handle = Self::new(object, generation);
        handle.extra.get_mut(..bytes.len())?.copy_from_slice(bytes);
        handle.extra_bytes = u8::try_from(bytes.len()).ok()?;
        Some(handle)
    }

    /// The store's own bytes.
    #[must_use]
    pub fn extra(&self) -> &[u8] {
        self.extra
            .get(..usize::from(self.extra_bytes))
            .unwrap_or_default()
    }
}

/// A handle as it goes over the wire.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    bytes: [u8; MAX_HANDLE_BYTES],
    length: usize,
}

impl Sealed {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Seals handles and opens sealed ones.
#[derive(Clone, Copy)]
pub struct HandleKey {
    hasher: SipHasher24,
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("HandleKey")
    }
}

impl HandleKey {
    /// This key.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        HandleKey {
            hasher: SipHasher24::new_with_key(key),
        }
    }

    /// A random key: handles are good as long as this process.
    pub fn random() -> std::io::Result<Self> {
        Ok(Self::new(&Self::random_bytes()?))
    }

    /// What a random key is made of (getrandom(2)).
    pub(crate) fn random_bytes() -> std::io::Result<[u8; KEY_BYTES]> {
        let mut key = [0; KEY_BYTES];
        // So few bytes come whole, or not at all.
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        Ok(key)
    }

    fn checksum(&self, bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
        let mut hasher = self.hasher;
        hasher.write(bytes);
        hasher.finish().to_be_bytes()
    }

    /// Makes the bytes that clients see.
    #[must_use]
    pub fn seal(&self, export: u32, handle: &Handle) -> Sealed {
        let mut bytes = [0; MAX_HANDLE_BYTES];
        let mut length = 0;
        let mut put = |part: &[u8]| {
            if let Some(room) = bytes.get_mut(length..length + part.len()) {
                room.copy_from_slice(part);
                length += part.len();
            }
        };
        put(&MAGIC);
        put(&export.to_be_bytes());
        put(&handle.object.to_be_bytes());
        put(&handle.generation.to_be_bytes());
        put(handle.extra());
        let checksum = self.checksum(bytes.get(..length).unwrap_or_default());
        if let Some(room) = bytes.get_mut(length..length + CHECKSUM_BYTES) {
            room.copy_from_slice(&checksum);
            length += CHECKSUM_BYTES;
        }
        Sealed { bytes, length }
    }

    /// Export and handle of sealed bytes; NFS3ERR_BADHANDLE if they were not sealed with this key.
    pub fn open(&self, sealed: &[u8]) -> Result<(u32, Handle), nfsstat3> {
        const BAD: nfsstat3 = nfsstat3::NFS3ERR_BADHANDLE;
        let (body, checksum) = sealed.split_last_chunk::<CHECKSUM_BYTES>().ok_or(BAD)?;
        let (fixed, extra) = body.split_first_chunk::<FIXED_BYTES>().ok_or(BAD)?;
        if !fixed.starts_with(&MAGIC) || self.checksum(body) != *checksum {
            return Err(BAD);
        }
        let mut export = [0; 4];
        let mut object = [0; 8];
        let mut generation = [0; 8];
        export.copy_from_slice(&fixed[4..8]);
        object.copy_from_slice(&fixed[8..16]);
        generation.copy_from_slice(&fixed[16..24]);
        let object = u64::from_be_bytes(object);
        let generation = u64::from_be_bytes(generation);
        let handle = Handle::with_extra(object, generation, extra).ok_or(BAD)?;
        Ok((u32::from_be_bytes(export), handle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BAD: Result<(u32, Handle), nfsstat3> = Err(nfsstat3::NFS3ERR_BADHANDLE);

    #[test]
    fn another_key_refuses() {
        let sealed = HandleKey::new(&[1; 16]).seal(3, &Handle::new(4, 5));
        assert_eq!(sealed.as_bytes().len(), 32);
        assert_eq!(HandleKey::new(&[2; 16]).open(sealed.as_bytes()), BAD);
    }

    proptest! {
        #[test]
        fn opens_what_it_sealed_and_nothing_else(
            export: u32, object: u64, generation: u64,
            extra in proptest::collection::vec(any::<u8>(), 0..=MAX_EXTRA_BYTES),
            at in 0usize..64, flip in 1u8..=255,
        ) {
            let key = HandleKey::new(b"0123456789abcdef");
            let handle = Handle::with_extra(object, generation, &extra).unwrap();
            let sealed = key.seal(export, &handle);
            prop_assert_eq!(key.open(sealed.as_bytes()), Ok((export, handle)));
            let mut forged = sealed.as_bytes().to_vec();
            let place = at % forged.len();
            forged[place] ^= flip;
            prop_assert_eq!(key.open(&forged), BAD);
            forged[place] ^= flip;
            forged.pop();
            prop_assert_eq!(key.open(&forged), BAD);
        }
    }
}
