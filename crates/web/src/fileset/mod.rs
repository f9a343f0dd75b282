//! The file set: which files there are, how large, how popular, and what stands in them.
//!
//! As SPECweb99 is commonly given: directories of 36 files, four classes of nine. Seen in the text
//! of its predecessor (SPECweb96, "The Workload for the SPECweb96 Benchmark"): the classes' shares,
//! nine sizes a class in steps of 0.1, 1, 10 and 100 KB, and a table of sizes 102, 204, ... 922;
//! 1,024, 2,048, ... 9,216; and so on. Its class 0 is rounded neither always down nor always to the
//! nearest (204.8 is 204, 921.6 is 922): here it is always down. Seen in a paper that uses
//! SPECweb99: 36 files and 5 MB a directory, Zipf with exponent 1 over directories (Ruan and Pai,
//! USENIX 2006). Not seen in SPECweb99's own text: the popularity of the nine files, the number of
//! directories by load, and which directory has which rank: here directory 0 is the most popular.
//! The nine popularities as given sum to 0.999; they are used as weights.
//!
//! Limits: five digits of directories ([`MAX_DIRECTORIES`]).

mod content;
mod store;

pub use content::Content;
use measure::weights::{WeightError, Weights};
use serde::{Deserialize, Serialize};
pub(crate) use store::errno;
pub use store::{Checked, MARKER, Sampled, StoreConfig, Written, check, write};

use crate::error::WebError;

/// Classes of files.
pub const CLASSES: usize = 4;
/// Files of one class in a directory.
pub const FILES: usize = 9;
/// Files of a directory.
pub const FILES_PER_DIRECTORY: u32 = (CLASSES * FILES) as u32;
/// Most directories: 328 GB of files, the load of 100,000 connections.
pub const MAX_DIRECTORIES: u32 = 1 << 16;
/// Largest file.
pub const MAX_FILE_BYTES: u64 = 921_600;
/// Shares of requests by class.
pub const CLASS_SHARES: [f64; CLASSES] = [0.35, 0.50, 0.14, 0.01];
/// Weights of a class's nine files.
pub const FILE_WEIGHTS: [f64; FILES] = [
    0.039, 0.059, 0.088, 0.177, 0.353, 0.118, 0.071, 0.050, 0.044,
];
/// Folder of the file set in the document root.
pub const FOLDER: &str = "file_set";

/// Which file set: another seed is other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// Of the content.
    #[serde(default = "one")]
    pub seed: u64,
    /// How many directories.
    pub directories: u32,
}

const fn one() -> u64 {
    1
}

/// One file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// From 0.
    pub directory: u32,
    /// 0 to 3.
    pub class: u8,
    /// 1 to 9.
    pub file: u8,
}

impl FileId {
    /// Number over the whole set, directory by directory.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u64 {
        let in_directory = self.class as u64 * FILES as u64 + self.file as u64 - 1;
        self.directory as u64 * FILES_PER_DIRECTORY as u64 + in_directory
    }

    /// The file of a number.
    #[must_use]
    pub const fn of(index: u64) -> Self {
        let in_directory = (index % FILES_PER_DIRECTORY as u64) as u8;
        FileId {
            directory: (index / FILES_PER_DIRECTORY as u64) as u32,
            class: in_directory / FILES as u8,
            file: in_directory % FILES as u8 + 1,
        }
    }

    /// Its size in bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u64 {
        size_bytes(self.class, self.file)
    }

    /// Its path in the document root, [`PATH_BYTES`] long, without a `/` in front.
    #[inline]
    #[must_use]
    pub fn path(self) -> [u8; PATH_BYTES] {
        let mut path = *b"file_set/dir00000/class0_0";
        let mut rest = self.directory;
        for digit in path[12..17].iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        path[23] += self.class;
        path[25] += self.file;
        path
    }

    /// The file that such a path names.
    #[must_use]
    pub fn from_path(path: &[u8]) -> Option<Self> {
        let directory = path
            .get(12..17)?
            .iter()
            .try_fold(0_u32, |sum, digit| match digit {
                b'0'..=b'9' => Some(sum * 10 + u32::from(digit - b'0')),
                _ => None,
            })?;
        let id = FileId {
            directory,
            class: path.get(23)?.checked_sub(b'0')?,
            file: path.get(25)?.checked_sub(b'0')?,
        };
        let right = usize::from(id.class) < CLASSES && (1..=FILES as u8).contains(&id.file);
        (right && id.path() == path).then_some(id)
    }
}

/// Length of a file's path in the document root.
pub const PATH_BYTES: usize = 26;

/// Bytes of a file: `file` tenths of a KB times ten to the power of `class`, rounded down.
#[inline]
#[must_use]
pub const fn size_bytes(class: u8, file: u8) -> u64 {
    1024 * file as u64 * 10_u64.pow(class as u32) / 10
}

/// Bytes of one directory.
#[must_use]
pub fn directory_bytes() -> u64 {
    (0..u64::from(FILES_PER_DIRECTORY))
        .map(|index| FileId::of(index).bytes())
        .sum()
}

/// Directories for a load: 25 + (400,000 / 122,000 x connections) / 5, rounded down.
#[must_use]
pub fn directories_for(connections: u64) -> u64 {
    25 + connections.saturating_mul(400_000) / (122_000 * 5)
}

/// Directories with the weights of Zipf's law of exponent 1.
///
/// # Errors
/// [`WeightError`] for 0 or too many directories.
pub fn zipf(directories: u32) -> Result<Weights<u32>, WeightError> {
    Weights::new((0..directories).map(|rank| (rank, 1.0 / (f64::from(rank) + 1.0))))
}

impl FileSet {
    /// Refuses what cannot be made.
    ///
    /// # Errors
    /// [`WebError::Config`].
    pub fn check(&self) -> Result<(), WebError> {
        if (1..=MAX_DIRECTORIES).contains(&self.directories) {
            return Ok(());
        }
        Err(WebError::config(
            "file_set.directories",
            self.directories,
            format!("1 to {MAX_DIRECTORIES} directories are possible"),
            "Take directories_for(connections).",
        ))
    }

    /// Files of the set.
    #[must_use]
    pub fn files(&self) -> u64 {
        u64::from(self.directories) * u64::from(FILES_PER_DIRECTORY)
    }

    /// Bytes of the set.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.directories) * directory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_published_table() {
        // Table 2 of "The Workload for the SPECweb96 Benchmark"; 922 there, 921 here (see above).
        let row = |file| [0, 1, 2, 3].map(|class| size_bytes(class, file));
        assert_eq!(row(1), [102, 1024, 10_240, 102_400]);
        assert_eq!(row(2), [204, 2048, 20_480, 204_800]);
        assert_eq!(row(9), [921, 9216, 92_160, MAX_FILE_BYTES]);
        // 45 steps of 102.4 bytes and three powers of ten more: "roughly 5 MB" (Ruan and Pai).
        assert_eq!(directory_bytes(), 4604 + 45 * (1024 + 10_240 + 102_400));
    }

    #[test]
    fn directories_grow_with_the_load() {
        // 400,000 / 122,000 = 3.2787; by hand.
        assert_eq!(directories_for(0), 25);
        assert_eq!(directories_for(1), 25);
        assert_eq!(directories_for(1000), 25 + 655);
        assert_eq!(directories_for(61), 25 + 40);
    }

    #[test]
    fn a_path_names_one_file_and_nothing_else() {
        for index in [0, 1, 35, 36, 99_999 * 36 + 35] {
            let id = FileId::of(index);
            assert_eq!(id.index(), index);
            assert_eq!(FileId::from_path(&id.path()), Some(id));
        }
        let path = |text: &str| FileId::from_path(text.as_bytes());
        let known = FileId {
            directory: 12,
            class: 1,
            file: 5,
        };
        assert_eq!(path("file_set/dir00012/class1_5"), Some(known));
        for wrong in [
            "file_set/dir00012/class4_5",
            "file_set/dir00012/class1_0",
            "file_set/dir0001x/class1_5",
            "file_set/dir00012/class1_5x",
            "file_set/../12345/class1_5",
            "file_set/dir+0012/class1_5",
            "",
        ] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn zipf_is_harmonic() {
        let shares: Vec<f64> = zipf(3).unwrap().shares().map(|(_, share)| share).collect();
        for (share, exact) in shares.iter().zip([6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]) {
            assert!((share - exact).abs() < 1e-15);
        }
    }
}
