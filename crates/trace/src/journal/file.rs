//! A journal's file: chunks of whole records, each with its length, whether a checkpoint is in
//! front of it, and its checksum: a file on a network may have holes that nobody was told of.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Take, Write};
use std::path::Path;

use flate2::Crc;

use super::Damaged;

/// Length, whether a checkpoint is in front, and checksum.
const HEAD_BYTES: usize = 12;
/// Longest chunk that is read: what a block of the longest frames gives, and much more.
const MAX_CHUNK_BYTES: u32 = 256 << 20;
/// Bytes read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Being written.
#[derive(Debug)]
pub struct JournalFile {
    file: BufWriter<File>,
    bytes: u64,
    /// The next chunk is behind a checkpoint.
    anew: bool,
}

impl JournalFile {
    /// A new one; what was there is gone.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(JournalFile {
            file: BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?),
            bytes: 0,
            anew: true,
        })
    }

    /// Adds records, whole ones.
    ///
    /// # Errors
    /// They cannot be written, or are too many for one chunk.
    pub fn add(&mut self, records: &[u8]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(records.len()).ok();
        let length = length.filter(|length| *length <= MAX_CHUNK_BYTES);
        let length = length.ok_or_else(|| io::Error::other("too many records at once"))?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&u32::from(self.anew).to_le_bytes())?;
        self.file.write_all(&checksum(records).to_le_bytes())?;
        self.file.write_all(records)?;
        self.anew = false;
        self.bytes += (HEAD_BYTES + records.len()) as u64;
        Ok(())
    }

    /// A checkpoint: what comes is understood without what came.
    pub fn begin_anew(&mut self) {
        self.anew = true;
    }

    /// Its length so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All is in the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn checksum(records: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(records);
    crc.sum()
}

/// Being read.
#[derive(Debug)]
pub struct Chunks {
    file: BufReader<Take<File>>,
    chunk: Vec<u8>,
}

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

impl Chunks {
    /// Those from this byte on, where one begins, up to the `end`.
    ///
    /// # Errors
    /// The file cannot be read there.
    pub fn of(mut file: File, from: u64, end: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(from))?;
        let some = file.take(end.saturating_sub(from));
        Ok(Chunks {
            file: BufReader::with_capacity(BUFFER_BYTES, some),
            chunk: Vec::new(),
        })
    }

    /// The next one, and whether a checkpoint is in front of it.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn next_chunk(&mut self) -> Result<Option<(&[u8], bool)>, ChunkError> {
        let mut head = [0; HEAD_BYTES];
        let mut read = 0;
        while read < HEAD_BYTES {
            match self.file.read(&mut head[read..])? {
                0 if read == 0 => return Ok(None),
                0 => return Err(Damaged.into()),
                more => read += more,
            }
        }
        let word = |at: usize| {
            let bytes = head.get(at..at + 4).and_then(|it| it.try_into().ok());
            bytes.map(u32::from_le_bytes).unwrap_or_default()
        };
        let (length, anew, sum) = (word(0), word(4), word(8));
        if length == 0 || length > MAX_CHUNK_BYTES || anew > 1 {
            return Err(Damaged.into());
        }
        self.chunk.clear();
        // What is claimed is not believed: room is made for what comes.
        let length = u64::from(length);
        let read = (&mut self.file).take(length).read_to_end(&mut self.chunk)?;
        match read as u64 == length && checksum(&self.chunk) == sum {
            true => Ok(Some((&self.chunk, anew == 1))),
            false => Err(Damaged.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_and_cut_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut file = JournalFile::create(&path).unwrap();
        file.add(b"one").unwrap();
        file.add(b"").unwrap();
        file.begin_anew();
        let second = file.bytes();
        file.add(&[7; 70_000]).unwrap();
        file.add(b"three").unwrap();
        let length = file.bytes();
        file.finish().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
        let open = |from: u64| {
            let file = File::open(&path).unwrap();
            let length = file.metadata().unwrap().len();
            Chunks::of(file, from, length).unwrap()
        };
        let all = |from: u64| {
            let mut chunks = open(from);
            let mut found = Vec::new();
            while let Some((chunk, anew)) = chunks.next_chunk().unwrap() {
                found.push((chunk.to_vec(), anew));
            }
            found
        };
        let behind = vec![(vec![7; 70_000], true), (b"three".to_vec(), false)];
        assert_eq!(all(second), behind);
        assert_eq!(all(0)[0], (b"one".to_vec(), true));
        assert_eq!(all(0)[1..], behind);
        let whole = std::fs::read(&path).unwrap();
        for cut in [1, 11, 12, 14] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(open(0).next_chunk().is_err(), "{cut}");
        }
        // A hole, and no journal at all.
        let mut holed = whole.clone();
        holed[12 + 1] = 0;
        for bytes in [&holed[..], &[0xff; 100], &[0; 100]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(open(0).next_chunk().is_err());
        }
    }
}
