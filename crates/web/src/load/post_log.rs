//! The record of POSTs against what was acknowledged: none lost, none twice.
//!
//! A line of the log is `NUMBER ID BYTES`: the server's number, the request's id, and the length of
//! its body. Lines that cannot be read are counted.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Serialize;

use super::report::WriterReport;
use crate::error::WebError;
use crate::page::RequestId;

/// Most POSTs of all writers together: a byte is kept for each.
pub(crate) const MAX_POSTS: u64 = 1 << 30;

/// What a log holds of the POSTs of some writers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PostLog {
    /// Lines of the log.
    pub lines: u64,
    /// Of these, no line of the server's (a torn write).
    pub malformed: u64,
    /// Lines of other writers, or of numbers that were never drawn.
    pub foreign: u64,
    /// Acknowledged POSTs of the writers.
    pub acknowledged: u64,
    /// Acknowledged, and not in the log.
    pub lost: u64,
    /// Lines beyond the first one of an id.
    pub twice: u64,
    /// In the log, and never acknowledged: the reply was lost, or not waited for.
    pub unacknowledged: u64,
}

/// Reads a log and compares it with what generators report.
///
/// # Errors
/// [`WebError::File`] if it cannot be read; [`WebError::Parts`] for a writer that is there twice,
/// and for more POSTs than are told apart.
pub fn check_post_log(path: &Path, writers: &[WriterReport]) -> Result<PostLog, WebError> {
    let failed =
        |error: std::io::Error| WebError::file(path, "reading")(crate::fileset::errno(&error));
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut seen: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut room = MAX_POSTS;
    for WriterReport { writer, drawn, .. } in writers {
        let left = room.checked_sub(*drawn);
        room = left.ok_or_else(|| WebError::Parts(format!("more than {MAX_POSTS} POSTs")))?;
        if seen.insert(*writer, vec![0; *drawn as usize]).is_some() {
            return Err(WebError::Parts(format!("writer {writer} is there twice")));
        }
    }
    let mut found = PostLog::default();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(failed)?;
        found.lines += 1;
        let Some(id) = id_of(&line) else {
            found.malformed += 1;
            continue;
        };
        let number = usize::try_from(id.number).unwrap_or(usize::MAX);
        match seen.get_mut(&id.writer).and_then(|all| all.get_mut(number)) {
            None => found.foreign += 1,
            Some(count) => {
                found.twice += u64::from(*count > 0);
                *count = count.saturating_add(1);
            }
        }
    }
    for writer in writers {
        let counts = seen
            .get(&writer.writer)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut open = vec![false; counts.len()];
        for number in &writer.unacknowledged {
            if let Some(open) = open.get_mut(*number as usize) {
                *open = true;
            }
        }
        for (count, open) in counts.iter().zip(open) {
            found.acknowledged += u64::from(!open);
            found.lost += u64::from(!open && *count == 0);
            found.unacknowledged += u64::from(open && *count > 0);
        }
    }
    Ok(found)
}

fn id_of(line: &[u8]) -> Option<RequestId> {
    let mut words = line.split(|byte| *byte == b' ');
    let digits = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let (number, id, bytes) = (words.next()?, words.next()?, words.next()?);
    (digits(number) && digits(bytes) && words.next().is_none()).then_some(())?;
    RequestId::parse(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_doubled_torn_and_foreign_lines_are_told_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "1 00000100-0000000000 60\n2 00000100-0000000001 60\n3 00000100-0000000001 60\n\
                    4 00000100-0000000003 60\n5 000001\n6 00000200-0000000000 60\n\
                    7 00000100-0000000009 60\n";
        std::fs::write(file.path(), text).unwrap();
        let writer = WriterReport {
            writer: 0x100,
            drawn: 6,
            unacknowledged: vec![3, 5],
        };
        let found = check_post_log(file.path(), &[writer]).unwrap();
        let expected = PostLog {
            lines: 7,
            malformed: 1,
            foreign: 2,
            acknowledged: 4,
            lost: 2, // 2 and 4
            twice: 1,
            unacknowledged: 1, // 3; 5 is not there
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn writers_that_cannot_be_told_apart_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = |writer, drawn| WriterReport {
            writer,
            drawn,
            unacknowledged: Vec::new(),
        };
        assert!(check_post_log(file.path(), &[writer(1, 1), writer(2, 1)]).is_ok());
        for wrong in [
            [writer(1, 1), writer(1, 1)],
            [writer(1, 1), writer(2, u64::MAX)],
            [writer(1, MAX_POSTS), writer(2, 1)],
        ] {
            assert!(check_post_log(file.path(), &wrong).is_err());
        }
    }
}
