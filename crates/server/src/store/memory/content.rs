//! Data of a file: sparse, in pages that READ replies may share.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::store::payload::{Chunk, PAGE_BYTES, Page, Payload};

const PAGE: u64 = PAGE_BYTES as u64;

/// A file's pages; what has no page is a hole and reads as zeros.
#[derive(Debug, Default)]
pub struct Content {
    pages: HashMap<u64, Arc<Page>>,
}

/// The pieces of `offset..offset + length` by page: page number, start in it, length.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset.saturating_add(length as u64);
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = (at % PAGE) as usize;
        let here = (end - at).min(PAGE - at % PAGE) as usize;
        let piece = (at / PAGE, start, here);
        at += here as u64;
        Some(piece)
    })
}

impl Content {
    /// Bytes that the pages take.
    pub fn used_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Pages that a write of this range would add.
    pub fn missing_pages(&self, offset: u64, length: usize) -> u64 {
        pieces(offset, length)
            .filter(|(page, _, _)| !self.pages.contains_key(page))
            .count() as u64
    }

    /// Writes data. A page that a reply still holds is copied first.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (number, start, length) in pieces(offset, data.len()) {
            let (piece, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = behind;
            if let Ok(whole) = <&Page>::try_from(piece) {
                match self.pages.get_mut(&number).and_then(Arc::get_mut) {
                    Some(page) => page.copy_from_slice(whole),
                    None => {
                        self.pages.insert(number, Arc::new(*whole));
                    }
                }
                continue;
            }
            let page = self
                .pages
                .entry(number)
                .or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            if let Some(room) = Arc::make_mut(page).get_mut(start..start + length) {
                room.copy_from_slice(piece);
            }
        }
    }

    /// Adds the range to a payload without copying.
    pub fn read(&self, offset: u64, length: usize, payload: &mut Payload) {
        for (number, start, length) in pieces(offset, length) {
            match self.pages.get(&number) {
                Some(page) => payload.push(Chunk::Page(Arc::clone(page), start, length)),
                None => payload.push_zeros(length),
            }
        }
    }

    /// Cuts the file to `size`: pages behind it go, the rest of the last one becomes zeros (a
    /// file that grows again must not show old bytes).
    pub fn cut(&mut self, size: u64) {
        let kept = size.div_ceil(PAGE);
        self.pages.retain(|number, _| *number < kept);
        let within = (size % PAGE) as usize;
        if within == 0 {
            return;
        }
        if let Some(page) = self.pages.get_mut(&(size / PAGE))
            && let Some(tail) = Arc::make_mut(page).get_mut(within..)
        {
            tail.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(content: &Content, offset: u64, length: usize) -> Vec<u8> {
        let mut payload = Payload::new();
        content.read(offset, length, &mut payload);
        payload.to_vec()
    }

    #[test]
    fn a_reply_keeps_the_bytes_it_was_made_of() {
        let mut content = Content::default();
        content.write(0, &[1; 8192]);
        let mut payload = Payload::new();
        content.read(0, 8192, &mut payload);
        content.write(4000, &[2; 200]);
        content.write(4096, &[3; 4096]);
        assert_eq!(payload.to_vec(), vec![1; 8192]);
        assert_eq!(read(&content, 4096, 4096), vec![3; 4096]);
    }

    proptest! {
        /// Against a plain vector of bytes.
        #[test]
        fn behaves_as_one_long_vector(steps in proptest::collection::vec(
            (0usize..3, 0usize..40_000, 0usize..9_000, any::<u8>()), 1..40)
        ) {
            let mut content = Content::default();
            let mut truth: Vec<u8> = Vec::new();
            for (what, offset, length, byte) in steps {
                match what {
                    0 => {
                        content.write(offset as u64, &vec![byte; length]);
                        if length > 0 && truth.len() < offset + length {
                            truth.resize(offset + length, 0);
                        }
                        if length > 0 {
                            truth[offset..offset + length].fill(byte);
                        }
                    }
                    1 => {
                        content.cut(offset as u64);
                        truth.truncate(offset);
                    }
                    _ => {
                        let mut wanted = truth.clone();
                        wanted.resize(60_000, 0);
                        prop_assert_eq!(
                            read(&content, offset as u64, length),
                            &wanted[offset..offset + length]
                        );
                    }
                }
            }
            prop_assert!(content.used_bytes() <= (truth.len() as u64).next_multiple_of(PAGE));
        }
    }
}
