//! Which files a set consists of: names, sizes, links, and which of them are worked on.
//!
//! All of it is a function of the seed and a file's number, so that nothing has to be remembered,
//! and the set of a larger load begins with the set of a smaller one: extending it is enough.
//!
//! ```text
//! <directory>/                 one for each mount (of several: <directory>-<n>)
//!   d0000000/ f00000000 ...    files_per_directory files, and links to some of them
//!             l00000000 -> f00000000
//!   x0000000/ t00000000 ...    scratch: what CREATE and REMOVE work on, half of it present
//!   file-set.json              parameters, written last
//! ```
//!
//! Which share is worked on is drawn per file by a hash; file 0 always is, so that it is never
//! empty. Scratch names are counted by the files worked on, not by threads.

use crate::error::LoadError;
use crate::plan::{MAX_FILES, Plan};
use measure::weights::Weights;

/// Name of the marker that is written last.
pub const MARKER: &str = "file-set.json";
/// Least number of scratch names.
const SCRATCH_MIN: u64 = 256;
/// So many of the first files have links, whatever their share: a small set has some, too, and of
/// these some are worked on.
const LINKED_FRONT: u64 = 64;

/// How large a set is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutPlan {
    /// So many files.
    Files(u64),
    /// As many files as have so many bytes together.
    Bytes(u64),
}

/// The set of one mount.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files worked on.
    pub accessed_files: u64,
    /// Their bytes.
    pub accessed_bytes: u64,
    /// Scratch names.
    pub scratch: u64,
    /// Files in a directory.
    pub files_per_directory: u64,
    seed: u64,
    sizes: Weights<u64>,
    symlinks_share: f64,
    accessed_share: f64,
}

/// What the words drawn for a file are for.
const SIZE: u64 = 1;
const ACCESSED: u64 = 2;
const OWNER: u64 = 3;
const DIRECTORY: u64 = 4;

/// Uniform word of (seed, use, number): the finaliser of SplitMix64 over their sum.
const fn hash(seed: u64, purpose: u64, number: u64) -> u64 {
    let mut word = seed
        .wrapping_add(purpose.wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn chosen(word: u64, share: f64) -> bool {
    ((word >> 11) as f64) * 2.0_f64.powi(-53) < share
}

impl Layout {
    pub(crate) fn new(
        plan: &Plan,
        sizes: Weights<u64>,
        wanted: LayoutPlan,
    ) -> Result<Self, LoadError> {
        let set = &plan.file_set;
        let per_directory = set.files_per_directory;
        if !(1..=1_000_000).contains(&per_directory) {
            let why = "1 to 1,000,000 are possible";
            let field = "file_set.files_per_directory";
            return Err(LoadError::plan(field, per_directory, why, "SFS has 30."));
        }
        let mut layout = Layout {
            files: 0,
            bytes: 0,
            accessed_files: 0,
            accessed_bytes: 0,
            scratch: 0,
            files_per_directory: per_directory,
            seed: plan.seed,
            sizes,
            symlinks_share: set.symlinks_share,
            accessed_share: set.accessed_share,
        };
        let done = |layout: &Layout| match wanted {
            LayoutPlan::Files(files) => layout.files >= files.max(1),
            LayoutPlan::Bytes(bytes) => layout.bytes >= bytes,
        };
        while !done(&layout) {
            if layout.files == MAX_FILES {
                let why = format!("more than {MAX_FILES} files on one mount");
                let fix = "Lower the load, take larger files, or more mounts.";
                return Err(LoadError::plan("file_set", &set.directory, why, fix));
            }
            let size = layout.size_bytes(layout.files);
            if layout.is_accessed(layout.files) {
                layout.accessed_files += 1;
                layout.accessed_bytes += size;
            }
            layout.bytes = layout.bytes.saturating_add(size);
            layout.files += 1;
        }
        layout.scratch = layout.accessed_files.max(SCRATCH_MIN);
        Ok(layout)
    }

    /// Size of a file when it is made.
    pub fn size_bytes(&self, file: u64) -> u64 {
        self.sizes.pick(hash(self.seed, SIZE, file)).unwrap_or(0)
    }

    /// Values and shares of the files' sizes.
    pub fn size_shares(&self) -> Vec<(u64, f64)> {
        self.sizes.shares().collect()
    }

    /// Whether a file is worked on.
    pub fn is_accessed(&self, file: u64) -> bool {
        file == 0 || chosen(hash(self.seed, ACCESSED, file), self.accessed_share)
    }

    /// Whether a directory is listed.
    pub fn is_listed(&self, directory: u64) -> bool {
        directory == 0 || chosen(hash(self.seed, DIRECTORY, directory), self.accessed_share)
    }

    /// Which of `owners` threads a file or scratch name belongs to.
    pub fn owner(&self, number: u64, owners: u32) -> u32 {
        let word = u128::from(hash(self.seed, OWNER, number));
        ((word * u128::from(owners)) >> 64) as u32
    }

    /// Whether there is a link to a file: to the first ones, and at even distances.
    pub fn has_link(&self, file: u64) -> bool {
        let until = |count: u64| (count as f64 * self.symlinks_share).floor();
        let front = self.symlinks_share > 0.0 && file < LINKED_FRONT;
        front || until(file + 1) > until(file)
    }

    /// The directory of a file, or of a scratch name.
    pub const fn directory_of(&self, number: u64) -> u64 {
        number / self.files_per_directory
    }

    /// Number of directories with files.
    pub const fn directories(&self) -> u64 {
        self.files.div_ceil(self.files_per_directory)
    }

    /// Number of scratch directories.
    pub const fn scratch_directories(&self) -> u64 {
        self.scratch.div_ceil(self.files_per_directory)
    }

    /// Files of a directory.
    pub fn files_in(&self, directory: u64) -> std::ops::Range<u64> {
        let start = directory * self.files_per_directory;
        start..(start + self.files_per_directory).min(self.files)
    }
}

/// A name of the set: a letter and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    length: u8,
}

const NAME_BYTES: usize = 21; // a letter and the longest 64-bit number

impl Name {
    fn new(letter: u8, width: usize, number: u64) -> Self {
        let mut digits = [b'0'; NAME_BYTES - 1];
        let (mut left, mut count) = (number, 0);
        for place in digits.iter_mut().rev() {
            *place = b'0' + (left % 10) as u8;
            left /= 10;
            count += 1;
            if left == 0 && count >= width {
                break;
            }
        }
        let mut bytes = [0; NAME_BYTES];
        let kept = digits.get(digits.len() - count..).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip([letter].iter().chain(kept)) {
            *to = *from;
        }
        Name {
            bytes,
            length: 1 + count as u8,
        }
    }

    /// A file.
    pub fn file(number: u64) -> Self {
        Name::new(b'f', 8, number)
    }
    /// The link to a file.
    pub fn link(number: u64) -> Self {
        Name::new(b'l', 8, number)
    }
    /// A scratch file.
    pub fn scratch(number: u64) -> Self {
        Name::new(b't', 8, number)
    }
    /// A name that is never there.
    pub fn missing(number: u64) -> Self {
        Name::new(b'm', 8, number)
    }
    /// A directory of files.
    pub fn directory(number: u64) -> Self {
        Name::new(b'd', 7, number)
    }
    /// A directory of scratch files.
    pub fn scratch_directory(number: u64) -> Self {
        Name::new(b'x', 7, number)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }

    /// Letter and number of a name of this kind; `None` for any other.
    pub fn parse(bytes: &[u8]) -> Option<(u8, u64)> {
        let (letter, digits) = bytes.split_first()?;
        let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let width = if matches!(letter, b'd' | b'x') { 7 } else { 8 };
        let again = Name::new(*letter, width, number);
        (again.as_bytes() == bytes).then_some((*letter, number))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}
