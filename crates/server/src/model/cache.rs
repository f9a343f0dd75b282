//! The model's memory: pages of files that a READ finds without the disk, the least recently used
//! one makes room.
//!
//! What is read or written stays until newer pages need its place, as in a kernel's page cache; so
//! the share of hits follows from the memory's size and from how much of the data is really
//! touched, and need not be guessed. Attributes of a file or directory are one page more.
//!
//! Limits: what is removed or cut off stays until it is oldest; dirty pages take no room of their
//! own (`dirty_limit_bytes` bounds them apart); one lookup finds a file's attributes, however deep
//! its folder lies.

use std::num::NonZeroUsize;

use lru::LruCache;

/// The unit in which memory is given out, bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Most pages that a model keeps (64 GiB of data; each costs some 100 bytes here).
pub const MAX_PAGES: u64 = 1 << 24;
/// Stands for an object's attributes: no offset reaches it.
const ATTRIBUTES: u64 = u64::MAX;

/// Pages that are in memory.
#[derive(Debug)]
pub struct Cache(LruCache<(u64, u64), ()>);

impl Cache {
    /// Empty; `None` if not one page fits.
    pub fn new(size_bytes: u64) -> Option<Self> {
        let pages = usize::try_from((size_bytes / PAGE_BYTES).min(MAX_PAGES)).ok()?;
        // Grows as it fills: most models never do.
        let mut pages_of = LruCache::unbounded();
        pages_of.resize(NonZeroUsize::new(pages)?);
        Some(Cache(pages_of))
    }

    /// A range is read: offset of what has to come from the disk, and how many bytes, in whole
    /// pages; `None` if all is there. It is in memory afterwards, as the latest.
    pub fn read(&mut self, object: u64, offset: u64, bytes: u64) -> Option<(u64, u64)> {
        let mut missing = pages(offset, bytes).filter(|page| !self.touch((object, *page)));
        let first = missing.next()?;
        Some((
            first * PAGE_BYTES,
            (1 + missing.count() as u64) * PAGE_BYTES,
        ))
    }

    /// A range is written: it is in memory.
    pub fn write(&mut self, object: u64, offset: u64, bytes: u64) {
        pages(offset, bytes).for_each(|page| {
            self.touch((object, page));
        });
    }

    /// An object's attributes are looked at: whether they were in memory. They are afterwards.
    pub fn attributes(&mut self, object: u64) -> bool {
        self.touch((object, ATTRIBUTES))
    }

    fn touch(&mut self, page: (u64, u64)) -> bool {
        self.0.put(page, ()).is_some()
    }
}

/// Pages that a range reaches into. A range of a call is at most a megabyte.
fn pages(offset: u64, bytes: u64) -> impl Iterator<Item = u64> {
    let end = offset.saturating_add(bytes).div_ceil(PAGE_BYTES);
    offset / PAGE_BYTES..if bytes == 0 { 0 } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_page_makes_room() {
        let mut cache = Cache::new(3 * PAGE_BYTES).unwrap();
        assert_eq!(cache.read(1, 0, 8192), Some((0, 8192)));
        assert_eq!(cache.read(1, 100, 1), None);
        assert!(!cache.attributes(1));
        // Three pages are there; a fourth drops the oldest, which is the second of the file.
        cache.write(2, 4096, 1);
        assert_eq!(cache.read(1, 0, 4096), None);
        assert_eq!(cache.read(1, 100, 8000), Some((4096, 4096)));
        assert!(!cache.attributes(1));
    }

    #[test]
    fn ranges_touch_the_pages_they_reach_into() {
        let mut cache = Cache::new(1 << 20).unwrap();
        assert_eq!(cache.read(1, 4095, 2), Some((0, 8192)));
        assert_eq!(cache.read(1, 0, 0), None);
        assert!(Cache::new(PAGE_BYTES - 1).is_none());
    }

    #[test]
    fn hits_of_a_uniform_load_are_the_share_that_fits() {
        // Independent reference: pages drawn uniformly of N, memory of M: M / N of them hit.
        let mut random = fastrand::Rng::with_seed(3);
        let mut cache = Cache::new(250 * PAGE_BYTES).unwrap();
        let mut hits = 0;
        for turn in 0..60_000 {
            let missing = cache.read(1, random.u64(0..1000) * PAGE_BYTES, PAGE_BYTES);
            hits += u32::from(turn >= 10_000 && missing.is_none());
        }
        assert!((f64::from(hits) / 50_000.0 - 0.25).abs() < 0.01, "{hits}");
    }
}
