//! The attribute cache: how long attributes are believed, as nfs(5) and Linux's fs/nfs/inode.c
//! have it.
//!
//! An object's attributes are believed for `acregmin` (`acdirmin`) after they changed. Each time
//! they are found unchanged after that time was over, it doubles, up to `acregmax` (`acdirmax`).
//! Weak cache consistency data (RFC 1813 section 2.6) tell own changes from those of others: if
//! the attributes *before* an operation are the cached ones, the ones after it are taken without
//! giving up cached data (`nfs_wcc_update_inode`); if a server states none before, the change is
//! taken for our own, as Linux does (`nfs_post_op_update_inode_force_wcc`).
//!
//! The cache has no clock and makes no calls: instants are given to it. It is bounded; the oldest
//! entries go first.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use wire::nfs3::{fattr3, ftype3, wcc_attr, wcc_data};

use crate::nfs3::FileHandle;
use crate::options::{AttributeTimes, MountOptions};

/// Objects kept unless said otherwise: some 20 MB.
pub const DEFAULT_LIMIT: usize = 1 << 16;

/// When a call was sent and answered: what its attributes are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Instant of sending: attributes are at least as new.
    pub sent_ns: u64,
    /// Instant of the reply.
    pub now_ns: u64,
}

/// What new attributes say about what was cached before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Somebody else changed the contents: cached data (or entries) are void.
    pub data: bool,
    /// Something else changed (mode, owner, links).
    pub metadata: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    attributes: fattr3,
    sent_ns: u64,
    validated_ns: u64,
    timeout_ns: u64,
    timeout_since_ns: u64,
    expired: bool,
    version: u64,
}

/// Attributes by file handle.
#[derive(Debug)]
pub struct AttributeCache {
    times: AttributeTimes,
    limit: usize,
    entries: HashMap<FileHandle, Entry>,
    /// Handles in the order of their arrival; may hold some that were forgotten.
    order: VecDeque<FileHandle>,
    last_version: u64,
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl AttributeCache {
    /// An empty cache of at most `limit` objects (at least one).
    pub fn new(options: &MountOptions, limit: usize) -> Self {
        AttributeCache {
            times: options.attribute_times,
            limit: limit.max(1),
            entries: HashMap::new(),
            order: VecDeque::new(),
            last_version: 0,
        }
    }

    /// Another number for an object each time somebody else changed its contents, as far as replies
    /// have told; `None` if it is not kept. Whoever keeps data remembers the number with them.
    pub fn data_version(&self, handle: &FileHandle) -> Option<u64> {
        self.entries.get(handle).map(|entry| entry.version)
    }

    fn bounds(&self, type_: ftype3) -> (u64, u64) {
        let times = &self.times;
        match type_ {
            ftype3::NF3DIR => (ns(times.directory_min), ns(times.directory_max)),
            _ => (ns(times.file_min), ns(times.file_max)),
        }
    }

    /// The attributes, if they are to be believed now; else the server has to be asked.
    pub fn get(&self, handle: &FileHandle, now_ns: u64) -> Option<&fattr3> {
        let entry = self.entries.get(handle)?;
        let age_ns = now_ns.saturating_sub(entry.validated_ns);
        (!entry.expired && age_ns < entry.timeout_ns).then_some(&entry.attributes)
    }

    /// When the call was sent that the attributes came with.
    pub fn sent_ns(&self, handle: &FileHandle) -> Option<u64> {
        self.entries.get(handle).map(|entry| entry.sent_ns)
    }

    /// The attributes as they were last seen, however long ago.
    pub fn last_seen(&self, handle: &FileHandle) -> Option<&fattr3> {
        self.entries.get(handle).map(|entry| &entry.attributes)
    }

    /// How long the attributes are believed from now on; zero if they are not.
    pub fn remaining(&self, handle: &FileHandle, now_ns: u64) -> Duration {
        let left = self.entries.get(handle).filter(|e| !e.expired).map(|e| {
            e.timeout_ns
                .saturating_sub(now_ns.saturating_sub(e.validated_ns))
        });
        Duration::from_nanos(left.unwrap_or(0))
    }

    /// Takes attributes that a reply carried.
    ///
    /// A reply to a call that was sent before the last attributes came, with an older ctime, is
    /// ignored: replies overtake each other, on several connections also calls. With the same ctime
    /// (servers' clocks tick coarsely) it counts only if the file has grown.
    pub fn update(&mut self, handle: &FileHandle, new: &fattr3, asked: Asked) -> Change {
        let (min_ns, max_ns) = self.bounds(new.type_);
        let Some(entry) = self.entries.get_mut(handle) else {
            self.insert(handle, new, asked, min_ns);
            return Change::default();
        };
        if entry.knows_better(new, asked) {
            return Change::default();
        }
        let old = &entry.attributes;
        let change = Change {
            data: old.mtime != new.mtime || old.size != new.size || old.fileid != new.fileid,
            metadata: old.ctime != new.ctime || old.mode != new.mode || old.nlink != new.nlink,
        };
        if change == Change::default() {
            let age_ns = asked.now_ns.saturating_sub(entry.timeout_since_ns);
            if age_ns >= entry.timeout_ns {
                entry.timeout_ns = entry.timeout_ns.saturating_mul(2).clamp(min_ns, max_ns);
                entry.timeout_since_ns = asked.now_ns;
            }
        } else {
            entry.timeout_ns = min_ns;
            entry.timeout_since_ns = asked.now_ns;
        }
        entry.validate(new, asked);
        if change.data {
            self.last_version += 1;
            entry.version = self.last_version;
        }
        change
    }

    /// Takes what a changing operation of ours carried.
    pub fn update_wcc(&mut self, handle: &FileHandle, wcc: &wcc_data, asked: Asked) -> Change {
        let Some(after) = &wcc.after else {
            self.expire(handle);
            return Change::default();
        };
        match (self.entries.get_mut(handle), &wcc.before) {
            (Some(entry), Some(before)) if entry.is(before) => entry.validate(after, asked),
            (Some(entry), None) if !entry.knows_better(after, asked) => {
                entry.validate(after, asked);
            }
            (Some(_), None) => {}
            _ => return self.update(handle, after, asked),
        }
        Change::default()
    }

    fn insert(&mut self, handle: &FileHandle, new: &fattr3, asked: Asked, timeout_ns: u64) {
        while self.entries.len() >= self.limit || self.order.len() >= 2 * self.limit {
            match self.order.pop_front() {
                Some(oldest) => self.entries.remove(&oldest),
                None => break,
            };
        }
        self.last_version += 1;
        let entry = Entry {
            version: self.last_version,
            attributes: *new,
            sent_ns: asked.sent_ns,
            validated_ns: asked.now_ns,
            timeout_ns,
            timeout_since_ns: asked.now_ns,
            expired: false,
        };
        self.entries.insert(*handle, entry);
        self.order.push_back(*handle);
    }

    /// The attributes are no longer believed; they still tell changes apart.
    pub fn expire(&mut self, handle: &FileHandle) {
        if let Some(entry) = self.entries.get_mut(handle) {
            entry.expired = true;
        }
    }

    /// The object is gone (removed, or stale).
    pub fn forget(&mut self, handle: &FileHandle) {
        self.entries.remove(handle);
    }

    /// Objects kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    /// Whether these are the attributes before an operation: then those after it follow them.
    fn is(&self, before: &wcc_attr) -> bool {
        let old = &self.attributes;
        (old.size, old.mtime, old.ctime) == (before.size, before.mtime, before.ctime)
    }

    /// Whether a reply tells of a time before the one that is known.
    fn knows_better(&self, new: &fattr3, asked: Asked) -> bool {
        let old = &self.attributes;
        let older = new.ctime < old.ctime || (new.ctime == old.ctime && new.size <= old.size);
        asked.sent_ns < self.validated_ns && older
    }

    fn validate(&mut self, new: &fattr3, asked: Asked) {
        self.attributes = *new;
        self.sent_ns = self.sent_ns.max(asked.sent_ns);
        self.validated_ns = self.validated_ns.max(asked.now_ns);
        self.expired = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::nfs3::nfstime3;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Asked {
        Asked {
            sent_ns: seconds * SECOND,
            now_ns: seconds * SECOND,
        }
    }

    fn file(size: u64, changed_s: u32) -> fattr3 {
        let time = nfstime3 {
            seconds: changed_s,
            nseconds: 0,
        };
        fattr3::plain_file(size, time)
    }

    fn cache(options: &str) -> (AttributeCache, FileHandle) {
        let options = MountOptions::parse(options).unwrap();
        (
            AttributeCache::new(&options, 100),
            FileHandle::new(b"file").unwrap(),
        )
    }

    /// For how many seconds attributes are believed from `now` on.
    fn believed(cache: &AttributeCache, handle: &FileHandle, now_s: u64) -> u64 {
        let until = (0..1000).find(|s| cache.get(handle, (now_s + s) * SECOND).is_none());
        let until = until.unwrap_or(1000);
        assert_eq!(cache.remaining(handle, now_s * SECOND).as_secs(), until);
        until
    }

    #[test]
    fn the_time_doubles_from_min_to_max_while_nothing_changes() {
        let (mut cache, handle) = cache("");
        cache.update(&handle, &file(1, 1), at(0));
        let mut now = 0;
        let mut seen = Vec::new();
        for _ in 0..7 {
            let believed = believed(&cache, &handle, now);
            seen.push(believed);
            now += believed;
            assert_eq!(
                cache.update(&handle, &file(1, 1), at(now)),
                Change::default()
            );
        }
        assert_eq!(seen, [3, 6, 12, 24, 48, 60, 60], "nfs(5): 3 to 60 seconds");
        let change = cache.update(&handle, &file(2, 2), at(now + 1));
        assert_eq!(
            change,
            Change {
                data: true,
                metadata: true
            }
        );
        assert_eq!(believed(&cache, &handle, now + 1), 3);
    }

    #[test]
    fn asking_early_prolongs_but_does_not_double() {
        let (mut cache, handle) = cache("");
        cache.update(&handle, &file(1, 1), at(0));
        cache.update(&handle, &file(1, 1), at(2));
        assert_eq!(believed(&cache, &handle, 2), 3);
    }

    #[test]
    fn directories_have_their_own_times_and_noac_has_none() {
        let mut directory = file(1, 1);
        directory.type_ = ftype3::NF3DIR;
        let (mut one, handle) = cache("");
        one.update(&handle, &directory, at(0));
        assert_eq!(believed(&one, &handle, 0), 30);
        let (mut off, handle) = cache("noac");
        off.update(&handle, &file(1, 1), at(0));
        assert_eq!(believed(&off, &handle, 0), 0);
        off.update(&handle, &file(1, 1), at(1));
        assert_eq!(believed(&off, &handle, 1), 0, "zero doubled is zero");
        assert!(
            off.update(&handle, &file(2, 2), at(2)).data,
            "changes are still told"
        );
    }

    fn wcc(before: Option<&fattr3>, after: Option<fattr3>) -> wcc_data {
        let before = before.map(|a| wcc_attr {
            size: a.size,
            mtime: a.mtime,
            ctime: a.ctime,
        });
        wcc_data { before, after }
    }

    #[test]
    fn own_changes_keep_data_and_those_of_others_do_not() {
        let (mut cache, handle) = cache("");
        cache.update(&handle, &file(1, 1), at(0));
        let version = cache.data_version(&handle);
        let own = wcc(Some(&file(1, 1)), Some(file(9, 2)));
        assert_eq!(cache.update_wcc(&handle, &own, at(1)), Change::default());
        assert_eq!(cache.get(&handle, SECOND).map(|a| a.size), Some(9));
        assert_eq!(cache.data_version(&handle), version);
        let foreign = wcc(Some(&file(5, 3)), Some(file(10, 4)));
        assert!(cache.update_wcc(&handle, &foreign, at(2)).data);
        assert_ne!(cache.data_version(&handle), version);
        let unsaid = wcc(None, Some(file(11, 5)));
        assert_eq!(cache.update_wcc(&handle, &unsaid, at(3)), Change::default());
        assert_eq!(cache.get(&handle, 3 * SECOND).map(|a| a.size), Some(11));
        cache.update_wcc(&handle, &wcc(None, None), at(3));
        assert!(
            cache.get(&handle, 3 * SECOND).is_none(),
            "nothing known: ask"
        );
    }

    #[test]
    fn a_reply_that_was_overtaken_is_ignored() {
        let (mut cache, handle) = cache("");
        cache.update(&handle, &file(9, 5), at(10));
        let late = Asked {
            sent_ns: 9 * SECOND,
            now_ns: 11 * SECOND,
        };
        assert_eq!(cache.update(&handle, &file(1, 1), late), Change::default());
        assert_eq!(cache.last_seen(&handle).map(|a| a.size), Some(9));
    }

    /// Two WRITEs over two connections: the server did the short one first, its reply comes last.
    #[test]
    fn a_call_that_was_overtaken_is_ignored_though_it_was_sent_last() {
        let (mut cache, handle) = cache("");
        cache.update(&handle, &file(1, 1), at(0));
        let sent = |sent_ns, now_ns| Asked { sent_ns, now_ns };
        let long = wcc(Some(&file(5, 2)), Some(file(9, 3)));
        let short = wcc(Some(&file(1, 1)), Some(file(5, 2)));
        cache.update_wcc(&handle, &long, sent(10, 20));
        cache.update_wcc(&handle, &short, sent(11, 21));
        assert_eq!(cache.last_seen(&handle).map(|a| a.size), Some(9));
        // Within one tick of the server's clock the larger one is the later one.
        let same_tick = wcc(Some(&file(7, 3)), Some(file(12, 3)));
        cache.update_wcc(&handle, &same_tick, sent(12, 22));
        cache.update_wcc(&handle, &wcc(None, Some(file(11, 3))), sent(13, 23));
        assert_eq!(cache.last_seen(&handle).map(|a| a.size), Some(12));
        // What was asked after the last reply is the truth, whatever its clock says.
        cache.update(&handle, &file(2, 1), sent(23, 24));
        assert_eq!(cache.last_seen(&handle).map(|a| a.size), Some(2));
    }

    #[test]
    fn it_is_bounded() {
        let options = MountOptions::default();
        let mut cache = AttributeCache::new(&options, 4);
        for number in 0_u32..50 {
            let handle = FileHandle::new(&number.to_be_bytes()).unwrap();
            cache.update(&handle, &file(1, 1), at(0));
            if number % 3 == 0 {
                cache.forget(&handle);
            }
            assert!(cache.len() <= 4 && cache.order.len() <= 8);
        }
        assert!(!cache.is_empty());
    }
}
