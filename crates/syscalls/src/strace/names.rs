//! Calls that open, name and duplicate files, and make processes.

use super::calls::{State, Subject};
use super::descriptors::{Description, remembered};
use super::printed::{Printed, duplicates, prefixed};
use super::scan::{self, Shown};
use crate::record::{Call, NO_FILE, NameRecord};
use crate::tally::files::PATH_MAX;

impl State {
    pub(super) fn open(&mut self, printed: &Printed<'_>, result: i64, behind: &[u8]) {
        let creates = printed.name == b"creat";
        let at = usize::from(printed.name.starts_with(b"openat"));
        let flags = at + 1;
        let Ok(_) = u64::try_from(result) else {
            self.observe(printed, Call::Open, NO_FILE, None, None, false, result);
            return;
        };
        let Some((fd, shown)) = scan::descriptor(behind) else {
            return;
        };
        let (file_id, shown) = match shown {
            Shown::Other => {
                self.descriptors.forget(printed.tid, fd, fd);
                return;
            }
            Shown::Path(path, deleted) => {
                let file_id = self.file_shown(printed, path, deleted);
                (
                    file_id,
                    (remembered(path), deleted, self.tally.files.changes()),
                )
            }
            Shown::Nothing => match self.resolved(printed, at, "filename") {
                Some(path) if scan::is_device(&path) => {
                    self.descriptors.forget(printed.tid, fd, fd);
                    return;
                }
                Some(path) => {
                    let file_id = self.tally.files.of_path(&path, printed.start_ns);
                    (file_id, (Box::default(), false, 0))
                }
                None => {
                    self.figures.without_path += 1;
                    (NO_FILE, (Box::default(), false, 0))
                }
            },
        };
        let flag = |symbol, bits| !creates && printed.flag(flags, "flags", symbol, bits);
        let synchronous =
            flag("O_DSYNC", i64::from(libc::O_DSYNC)) || flag("O_SYNC", i64::from(libc::O_SYNC));
        let folder = flag("O_DIRECTORY", i64::from(libc::O_DIRECTORY))
            && !flag("O_TMPFILE", i64::from(libc::O_TMPFILE));
        let description = Description {
            shown,
            position: Some(0),
            append: flag("O_APPEND", i64::from(libc::O_APPEND)),
            synchronous: Some(synchronous),
            folder,
            followed: true,
            ..Description::unknown(file_id)
        };
        self.descriptors.define(printed.tid, fd, description);
        if !folder {
            self.observe(printed, Call::Open, file_id, None, None, false, result);
        }
    }

    /// A path that was given, absolute if that can be told. `place` is that of the path; before
    /// it may stand the descriptor of a folder.
    fn resolved(&self, printed: &Printed<'_>, place: usize, name: &str) -> Option<Vec<u8>> {
        let path = printed.path(place, name)?;
        if path.first() == Some(&b'/') {
            return Some(path);
        }
        let folder = match place.checked_sub(1) {
            Some(before) if printed.name.windows(2).any(|part| part == b"at") => {
                match scan::descriptor(printed.argument(before, "dfd")?)? {
                    (_, Shown::Path(folder, false)) => Some(scan::unescaped(folder)),
                    (-100, _) => self.descriptors.cwd(printed.tid).map(<[u8]>::to_vec),
                    // Relative to a folder that is not known: this is no name.
                    _ => return None,
                }
            }
            _ => self.descriptors.cwd(printed.tid).map(<[u8]>::to_vec),
        };
        let bare = path.strip_prefix(b"./").unwrap_or(&path);
        let Some(mut whole) = folder else {
            return Some(bare.to_vec());
        };
        if whole.last() != Some(&b'/') {
            whole.push(b'/');
        }
        whole.extend_from_slice(bare);
        // Folder after folder makes a path of any length: none that Linux takes is longer.
        (whole.len() < PATH_MAX).then_some(whole)
    }

    pub(super) fn change_name(&mut self, printed: &Printed<'_>, call: Call, result: i64) {
        let at = printed.name.windows(2).any(|part| part == b"at");
        let renames = call == Call::Rename;
        let (first, second) = if at { (1, 3) } else { (0, 1) };
        let path = self.resolved(printed, first, if renames { "oldname" } else { "pathname" });
        let new_path = if renames {
            self.resolved(printed, second, "newname")
        } else {
            None
        };
        let (Some(path), true) = (path, new_path.is_some() || !renames) else {
            self.figures.without_path += 1;
            self.observe(printed, call, NO_FILE, None, None, false, result);
            return;
        };
        self.figures.file_calls += 1;
        self.figures.without_duration += u64::from(printed.latency_ns.is_none());
        self.figures.without_pid += u64::from(printed.tid == 0);
        let row = NameRecord {
            start_ns: printed.start_ns,
            latency_ns: printed.latency_ns.unwrap_or(0),
            pid: self.descriptors.pid(printed.tid),
            call,
            path,
            new_path,
            result,
        };
        let exchange = printed.flag(4, "flags", "RENAME_EXCHANGE", 2);
        self.tally
            .rename(row, printed.tid, printed.latency_ns, exchange);
    }

    pub(super) fn truncate(&mut self, printed: &Printed<'_>, result: i64) {
        let path = self.resolved(printed, 0, "path");
        let file_id = match path {
            Some(path) if result >= 0 => self.tally.files.of_path(&path, printed.start_ns),
            Some(_) => NO_FILE,
            None => {
                self.figures.without_path += 1;
                NO_FILE
            }
        };
        self.observe(printed, Call::Truncate, file_id, None, None, false, result);
    }

    pub(super) fn duplicate(&mut self, printed: &Printed<'_>, result: i64, behind: &[u8]) {
        let fcntl = printed.name.starts_with(b"fcntl");
        if result < 0 || (fcntl && !duplicates(printed.argument(1, "cmd"))) {
            return;
        }
        let name = match printed.name {
            b"dup" => "fildes",
            b"dup2" | b"dup3" => "oldfd",
            _ => "fd",
        };
        let (from, subject) = self.subject_at(printed, 0, name);
        let (Ok(to), true) = (i32::try_from(result), from >= 0) else {
            return;
        };
        match subject {
            Subject::File(..) => self.descriptors.duplicate(printed.tid, from, to),
            _ => self.descriptors.forget(printed.tid, to, to),
        }
        if let Some((_, shown @ Shown::Path(..))) = scan::descriptor(behind) {
            self.subject(printed, to, shown);
        }
    }

    pub(super) fn cloned(&mut self, printed: &Printed<'_>, result: i64) {
        let Some(child) = u32::try_from(result).ok().filter(|child| *child > 0) else {
            return;
        };
        let forks = matches!(printed.name, b"fork" | b"vfork");
        let flags = printed.arguments.iter().find(|text| {
            let text = text.strip_prefix(b"{").unwrap_or(text);
            text.starts_with(b"flags=") || text.starts_with(b"clone_flags:")
        });
        let says = |symbol: &str| {
            let words = |text: &[u8]| {
                text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
                    .any(|word| word == symbol.as_bytes() || prefixed(word, symbol))
            };
            flags.is_some_and(words)
        };
        if !forks && flags.is_none() {
            // Of clone3 perf trace says nothing: a family of its own.
            self.descriptors.meet(child);
            return;
        }
        let (files, thread) = (says("CLONE_FILES"), says("CLONE_THREAD"));
        self.descriptors.cloned(printed.tid, child, files, thread);
    }

    pub(super) fn change_folder(&mut self, printed: &Printed<'_>, result: i64) {
        if result != 0 {
            return;
        }
        let folder = if printed.name == b"chdir" {
            self.resolved(printed, 0, "filename")
        } else {
            let shown = printed.argument(0, "fd").and_then(scan::descriptor);
            match shown {
                Some((_, Shown::Path(path, false))) => Some(scan::unescaped(path)),
                _ => None,
            }
        };
        let folder = folder.filter(|path| path.starts_with(b"/") && path.len() < PATH_MAX);
        self.descriptors
            .set_cwd(printed.tid, folder.map(Vec::into_boxed_slice));
    }

    /// sendfile, splice, copy_file_range: every descriptor among the arguments may have moved.
    pub(super) fn moved(&mut self, printed: &Printed<'_>) {
        let all: Vec<_> = printed.arguments.iter().collect();
        for text in all {
            let text = text.split(|byte| *byte == b':').next_back().unwrap_or(text);
            if let Some((fd, _)) = scan::descriptor(text)
                && let Some(number) = self.descriptors.find(printed.tid, fd, true)
            {
                self.descriptors.set_position(number, None);
            }
        }
    }
}
