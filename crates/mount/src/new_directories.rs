//! Directories that this mount has made: for a while all of their names are known.
//!
//! MKDIR makes an empty directory. What this mount did not name in it since is not there, unless a
//! reply tells that somebody else changed it, or the time is over for which a directory's entries
//! are believed (`acdirmin`). So the LOOKUP that the kernel wants before each creation, and of a
//! rename's target, need not be sent.
//!
//! Decisions: names are added when a call is sent that may make them, and never taken out: a name
//! too many costs a LOOKUP, one too few would hide a file. Names that servers may have on their own
//! (`.snapshot`), or may take for another one's (other Unicode forms), are always asked for; a
//! server that folds case (PATHCONF) is always asked.

use hashbrown::HashSet;

/// Names kept of one directory; with more of them the server is asked again.
const MAX_NAMES: usize = 1 << 14;

/// What is in a directory that this mount has made.
#[derive(Debug)]
pub(crate) struct NewDirectory {
    names: HashSet<Box<[u8]>>,
    /// [`client::attributes::AttributeCache::data_version`] of the empty directory.
    version: u64,
    until_ns: u64,
}

impl NewDirectory {
    pub fn new(version: u64, until_ns: u64) -> Self {
        NewDirectory {
            names: HashSet::new(),
            version,
            until_ns,
        }
    }

    /// A name that may be there from now on; false if there are too many, or one that is not just
    /// its bytes: then this is worth nothing any more.
    pub fn add(&mut self, name: &[u8]) -> bool {
        if !name.is_ascii() || self.names.len() >= MAX_NAMES {
            return false;
        }
        self.names.insert(name.into());
        true
    }

    /// For how long there is certainly nothing of this name, if there is nothing.
    pub fn lacks_for_ns(&self, name: &[u8], version: Option<u64>, now_ns: u64) -> Option<u64> {
        let certain = name.is_ascii() && !name.starts_with(b".") && version == Some(self.version);
        let left_ns = self.until_ns.saturating_sub(now_ns);
        (certain && left_ns > 0 && !self.names.contains(name)).then_some(left_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_missing_until_it_may_be_there() {
        let mut new = NewDirectory::new(7, 100);
        assert_eq!(new.lacks_for_ns(b"a", Some(7), 40), Some(60));
        assert_eq!(
            new.lacks_for_ns(b"a", Some(7), 100),
            None,
            "its time is over"
        );
        assert_eq!(new.lacks_for_ns(b"a", Some(8), 40), None, "somebody else");
        assert_eq!(new.lacks_for_ns(b"a", None, 40), None);
        assert!(new.add(b"a"));
        assert_eq!(new.lacks_for_ns(b"a", Some(7), 40), None);
        assert_eq!(new.lacks_for_ns(b"b", Some(7), 40), Some(60));
    }

    #[test]
    fn what_a_server_may_know_better_is_asked_for() {
        let mut new = NewDirectory::new(7, 100);
        assert_eq!(new.lacks_for_ns(b".snapshot", Some(7), 0), None);
        let accented = "\u{e9}".as_bytes();
        assert_eq!(new.lacks_for_ns(accented, Some(7), 0), None);
        assert!(!new.add(accented), "it may be known by other bytes, too");
    }

    #[test]
    fn it_is_bounded() {
        let mut new = NewDirectory::new(7, 100);
        assert!((0..MAX_NAMES).all(|number| new.add(number.to_string().as_bytes())));
        assert!(!new.add(b"one more"));
    }
}
