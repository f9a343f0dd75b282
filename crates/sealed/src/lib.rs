//! Many sealed runs at once: which need a closer look, and what the catalogue says ([`lines`]).
//!
//! `checksums.json` of a run states size and CRC-32 of each of its files
//! (`nfslab.results.checksums`). A command that reads hundred thousands of runs looks at each: are
//! the files there with these sizes, and is the record, byte for byte, what was written? Here that
//! is asked of many runs at once. What is in any way unusual is doubtful, and no more is said: what
//! is wrong with it, if anything, is for the caller to find out.

pub mod lines;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, statat};
use rustix::io::{read, retry_on_intr};
use serde::Deserialize;

const CHECKSUMS: &str = "checksums.json";
const RECORD: &str = "run.json";
/// What stands there is in no figure.
const LOGS: &str = "logs/";
/// Of one file here; what is larger is doubtful. Records have kilobytes.
const FILE_BYTES_MAX: usize = 1 << 24;
const BEGUN_BYTES: usize = 1 << 14;

#[derive(Deserialize)]
struct Stated<'a> {
    #[serde(borrow)]
    files: BTreeMap<&'a str, Facts<'a>>,
}

#[derive(Deserialize)]
struct Facts<'a> {
    bytes: u64,
    crc32: &'a str,
}

/// Indices of the runs below `runs` (folders of these names) that need a closer look.
///
/// All others have the files that were written, with the sizes that they had, but for those in
/// `logs`; and their record is what was written.
///
/// # Errors
/// When the folder `runs` cannot be opened.
pub fn doubtful<N: AsRef<OsStr>>(runs: &Path, names: &[N]) -> io::Result<Vec<usize>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(runs, flags, Mode::empty())?;
    let mut looker = Looker {
        folder: folder.as_fd(),
        path: Vec::new(),
        text: vec![0; BEGUN_BYTES],
        record: vec![0; BEGUN_BYTES],
    };
    let is_doubtful = |(index, name): (usize, &N)| {
        (looker.is_whole(name.as_ref()) != Some(true)).then_some(index)
    };
    Ok(names.iter().enumerate().filter_map(is_doubtful).collect())
}

struct Looker<'a> {
    folder: BorrowedFd<'a>,
    path: Vec<u8>,
    text: Vec<u8>,
    record: Vec<u8>,
}

impl Looker<'_> {
    /// None where that cannot be told.
    fn is_whole(&mut self, run: &OsStr) -> Option<bool> {
        enter(&mut self.path, run);
        let folder = self.path.len();
        self.path.extend_from_slice(CHECKSUMS.as_bytes());
        let length = content(self.folder, &self.path, &mut self.text)?;
        // As Python reads it: what it would refuse must not pass here.
        let text = std::str::from_utf8(self.text.get(..length)?).ok()?;
        let stated: Stated<'_> = serde_json::from_str(text).ok()?;
        stated.files.get(RECORD)?;
        for (name, facts) in &stated.files {
            if name.starts_with(LOGS) {
                continue;
            }
            self.path.truncate(folder);
            self.path.extend_from_slice(name.as_bytes());
            if *name == RECORD {
                let length = content(self.folder, &self.path, &mut self.record)?;
                let crc = crc32fast::hash(self.record.get(..length)?);
                if length as u64 != facts.bytes || format!("{crc:08x}") != facts.crc32 {
                    return Some(false);
                }
            } else {
                let there = statat(self.folder, self.path.as_slice(), AtFlags::empty()).ok()?;
                if u64::try_from(there.st_size).ok()? != facts.bytes {
                    return Some(false);
                }
            }
        }
        Some(true)
    }
}

/// `path` is the run's folder, to be followed by a file's name.
fn enter(path: &mut Vec<u8>, run: &OsStr) {
    path.clear();
    path.extend_from_slice(run.as_bytes());
    path.push(b'/');
}

/// Read a file into `buffer`, which grows; how many bytes. None where it cannot be read, or is too
/// large.
fn content(folder: BorrowedFd<'_>, path: &[u8], buffer: &mut Vec<u8>) -> Option<usize> {
    // What is no file must not keep us waiting.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = retry_on_intr(|| openat(folder, path, flags, Mode::empty())).ok()?;
    let mut length = 0;
    loop {
        if length == buffer.len() {
            if length >= FILE_BYTES_MAX {
                return None;
            }
            buffer.resize(2 * length, 0);
        }
        let rest = buffer.get_mut(length..)?;
        let (asked, more) = (rest.len(), retry_on_intr(|| read(&file, &mut *rest)).ok()?);
        length += more;
        // Less than was asked for: a file ends there. What does not is no record that was sealed.
        if more < asked {
            return Some(length);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;

    fn run(root: &Path, name: &str, record: &str, stated: &str) {
        let folder = root.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("run.json"), record).unwrap();
        fs::write(folder.join("checksums.json"), stated).unwrap();
    }

    /// Its CRC-32 is the check value that catalogues of CRCs give: cbf43926.
    const NINE: &str = "123456789";

    fn said(bytes: u64, crc32: &str) -> String {
        let facts = format!(r#"{{"bytes":{bytes},"crc32":"{crc32}"}}"#);
        format!(r#"{{"algorithm":"CRC-32","files":{{"run.json":{facts}}}}}"#)
    }

    #[test]
    fn a_record_that_is_what_was_written_is_no_doubt() {
        let root = tempfile::tempdir().unwrap();
        run(root.path(), "good", NINE, &said(9, "cbf43926"));
        run(root.path(), "crc", NINE, &said(9, "cbf43927"));
        run(root.path(), "size", NINE, &said(8, "cbf43926"));
        run(root.path(), "cut", NINE, &said(9, "cbf43926")[..40]);
        run(root.path(), "bare", NINE, r#"{"files":{}}"#);
        let names = ["good", "crc", "size", "cut", "bare", "gone"];
        assert_eq!(doubtful(root.path(), &names).unwrap(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn records_of_any_length_are_read_whole() {
        let root = tempfile::tempdir().unwrap();
        for length in [
            BEGUN_BYTES - 1,
            BEGUN_BYTES,
            BEGUN_BYTES + 1,
            5 * BEGUN_BYTES,
        ] {
            let record = "x".repeat(length);
            let crc = format!("{:08x}", crc32fast::hash(record.as_bytes()));
            run(
                root.path(),
                &length.to_string(),
                &record,
                &said(length as u64, &crc),
            );
            assert!(
                doubtful(root.path(), &[length.to_string()])
                    .unwrap()
                    .is_empty()
            );
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(doubtful(Path::new("/nonexistent/runs"), &["a"]).is_err());
    }
}
