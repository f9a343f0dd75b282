//! What the calls mean: which file, where, how much.

use super::Figures;
use super::descriptors::{Description, Descriptors, remembered};
use super::line::Outcome;
use super::printed::{Kind, Printed, call_is_vector, size_of_parts};
use super::scan::{self, Shown};
use crate::record::{Call, NO_FILE};
use crate::tally::files::PATH_MAX;
use crate::tally::{Observed, Tally};

/// What is known, and what was seen.
#[derive(Debug)]
pub struct State {
    /// Records.
    pub tally: Tally,
    /// Processes.
    pub descriptors: Descriptors,
    /// What was read, and what is missing; what descriptors and tally count is added at the end.
    pub figures: Figures,
}

/// What a descriptor is.
pub(super) enum Subject {
    /// Not a file.
    Other,
    /// Nothing is known.
    Unknown,
    /// A file, with its description unless there was no room.
    File(u32, Option<u32>),
}

impl State {
    /// A call ended.
    pub fn ended(&mut self, printed: &Printed<'_>) {
        let kind = Kind::of(printed.name);
        let Outcome::Returned(result, behind) = printed.outcome else {
            let heeded = !matches!(kind, Kind::Passes | Kind::Submits);
            self.figures.interrupted += u64::from(heeded);
            return;
        };
        match kind {
            Kind::Passes => {}
            Kind::Recorded(Call::Open) => self.open(printed, result, behind),
            Kind::Recorded(call @ (Call::Unlink | Call::Rename)) => {
                self.change_name(printed, call, result);
            }
            Kind::Recorded(Call::Truncate) if printed.name.starts_with(b"truncate") => {
                self.truncate(printed, result);
            }
            Kind::Recorded(Call::Sync) if printed.name == b"sync" => {
                self.observe(printed, Call::Sync, NO_FILE, None, None, false, result);
            }
            Kind::Recorded(Call::Msync) => {
                if printed.flag(2, "flags", "MS_SYNC", 4) {
                    self.observe(printed, Call::Msync, NO_FILE, None, None, false, result);
                }
            }
            Kind::Recorded(call) => self.on_descriptor(printed, call, result),
            Kind::Copies(reads, writes) => self.copied(printed, reads, writes, result),
            Kind::Duplicates => self.duplicate(printed, result, behind),
            Kind::ClosesMany => {
                let first = printed
                    .number(0, "fd")
                    .and_then(|fd| i32::try_from(fd).ok());
                let last = printed.number(1, "max_fd").unwrap_or(-1);
                let keeps = printed.flag(2, "flags", "CLOSE_RANGE_CLOEXEC", 4);
                if let (Some(first), 0, false) = (first, result, keeps) {
                    let last = i32::try_from(last).ok().filter(|last| *last >= 0);
                    self.descriptors
                        .forget(printed.tid, first, last.unwrap_or(i32::MAX));
                }
            }
            Kind::Clones => self.cloned(printed, result),
            Kind::ChangesFolder => self.change_folder(printed, result),
            Kind::Moves => self.moved(printed),
            // Both return how many they took.
            Kind::Submits => self.figures.unseen_requests += u64::try_from(result).unwrap_or(0),
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn observe(
        &mut self,
        printed: &Printed<'_>,
        call: Call,
        file_id: u32,
        offset: Option<u64>,
        size: Option<u64>,
        synchronous: bool,
        result: i64,
    ) {
        self.figures.file_calls += 1;
        self.figures.without_duration += u64::from(printed.latency_ns.is_none());
        self.figures.without_pid += u64::from(printed.tid == 0);
        if offset.is_none() && result >= 0 && (call.reads() || call.writes()) {
            self.figures.without_place += 1;
        }
        self.tally.observe(&Observed {
            call,
            file_id,
            start_ns: printed.start_ns,
            latency_ns: printed.latency_ns,
            pid: self.descriptors.pid(printed.tid),
            tid: printed.tid,
            offset,
            size,
            synchronous,
            result,
        });
    }

    /// The file of a path that was printed behind a descriptor.
    pub(super) fn file_shown(&mut self, printed: &Printed<'_>, path: &[u8], deleted: bool) -> u32 {
        let plain;
        let path = if printed.named || !path.contains(&b'\\') {
            path
        } else {
            plain = scan::unescaped(path);
            plain.as_slice()
        };
        let path = &path[..path.len().min(PATH_MAX)];
        if deleted {
            self.tally.files.of_deleted(path, printed.start_ns)
        } else {
            self.tally.files.of_path(path, printed.start_ns)
        }
    }

    /// What the descriptor in this argument is.
    pub(super) fn subject(&mut self, printed: &Printed<'_>, fd: i32, shown: Shown<'_>) -> Subject {
        let tid = printed.tid;
        let (path, deleted) = match shown {
            Shown::Other => {
                self.descriptors.forget(tid, fd, fd);
                return Subject::Other;
            }
            Shown::Nothing => {
                let found = self.descriptors.find(tid, fd, false);
                let description = found.and_then(|number| self.descriptors.get(number));
                return match description {
                    Some(description) => Subject::File(description.file_id, found),
                    None => Subject::Unknown,
                };
            }
            Shown::Path(path, deleted) => (path, deleted),
        };
        let changes = self.tally.files.changes();
        let found = self.descriptors.find(tid, fd, true);
        if printed.named {
            let opened = found.and_then(|number| self.descriptors.get(number));
            if let Some(known) = opened.filter(|known| known.followed && known.file_id != NO_FILE) {
                return Subject::File(known.file_id, found);
            }
            self.figures.late_paths += 1;
        }
        if let Some(description) = found.and_then(|number| self.descriptors.get(number))
            && (description.shown.1, description.shown.2) == (deleted, changes)
            && *description.shown.0 == *path
        {
            return Subject::File(description.file_id, found);
        }
        let file_id = self.file_shown(printed, path, deleted);
        let shown = (remembered(path), deleted, changes);
        if let Some(description) = found.and_then(|number| self.descriptors.get_mut(number))
            && description.file_id == file_id
        {
            description.shown = shown;
            return Subject::File(file_id, found);
        }
        let mut description = Description::unknown(file_id);
        description.shown = shown;
        Subject::File(file_id, self.descriptors.define(tid, fd, description))
    }

    pub(super) fn subject_at(
        &mut self,
        printed: &Printed<'_>,
        place: usize,
        name: &str,
    ) -> (i32, Subject) {
        let text = match printed.argument(place, name) {
            Some(text) => text,
            None if printed.named => b"0".as_slice(),
            None => return (-1, Subject::Unknown),
        };
        match scan::descriptor(text) {
            Some((fd, shown)) if fd >= 0 => (fd, self.subject(printed, fd, shown)),
            _ => (-1, Subject::Other),
        }
    }

    fn on_descriptor(&mut self, printed: &Printed<'_>, call: Call, result: i64) {
        let place = if call == Call::Mmap { 4 } else { 0 };
        if call == Call::Mmap && printed.named && printed.argument(4, "fd").is_none() {
            return;
        }
        let (fd, subject) = self.subject_at(printed, place, "fd");
        let (file_id, number) = match subject {
            Subject::Other => return,
            Subject::File(file_id, number) => (file_id, number),
            Subject::Unknown if result == -i64::from(libc::EBADF) => return,
            // Sockets and pipes cannot do these.
            Subject::Unknown if call.syncs() || matches!(call, Call::Pread | Call::Pwrite) => {
                (NO_FILE, None)
            }
            Subject::Unknown => {
                self.figures.unknown_descriptors += 1;
                return;
            }
        };
        let description = number.and_then(|number| self.descriptors.get(number));
        if description.is_some_and(|known| known.folder) && !call.syncs() {
            if call == Call::Close {
                self.descriptors.forget(printed.tid, fd, fd);
            }
            return;
        }
        match call {
            Call::Read | Call::Write | Call::Readv | Call::Writev => {
                self.transfer(printed, call, file_id, number, result);
            }
            Call::Pread | Call::Pwrite | Call::Preadv | Call::Pwritev => {
                match printed.number(3, if call_is_vector(call) { "pos_l" } else { "pos" }) {
                    Some(-1) => self.transfer(printed, call, file_id, number, result),
                    offset => {
                        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
                        self.access(printed, call, file_id, number, offset, result);
                    }
                }
            }
            Call::SyncFileRange => {
                let offset = printed.unsigned(1, "offset");
                let size = printed.unsigned(2, "nbytes");
                self.observe(printed, call, file_id, offset, size, false, result);
            }
            Call::Lseek => {
                self.observe(printed, call, file_id, None, None, false, result);
                if let (Some(number), Ok(to)) = (number, u64::try_from(result)) {
                    let sure = !printed.overlapped;
                    self.descriptors.set_position(number, sure.then_some(to));
                }
            }
            Call::Mmap => {
                let result = if (-4095..0).contains(&result) {
                    result
                } else {
                    0
                };
                self.observe(printed, call, file_id, None, None, false, result);
            }
            _ => self.observe(printed, call, file_id, None, None, false, result),
        }
        if call == Call::Close {
            self.descriptors.forget(printed.tid, fd, fd);
        }
    }

    /// Both sides of a copy, those of them that are files.
    fn copied(&mut self, printed: &Printed<'_>, reads: Call, writes: Call, result: i64) {
        let (from, to) = if reads == Call::Sendfile {
            ((1, "in_fd", 2, "offset"), (0, "out_fd", usize::MAX, ""))
        } else {
            ((0, "fd_in", 1, "off_in"), (2, "fd_out", 3, "off_out"))
        };
        for (call, (fd, fd_name, at, at_name)) in [(reads, from), (writes, to)] {
            let (file_id, number) = match self.subject_at(printed, fd, fd_name).1 {
                Subject::Other => continue,
                Subject::File(file_id, number) => (file_id, number),
                Subject::Unknown => {
                    self.figures.unknown_descriptors += 1;
                    continue;
                }
            };
            match printed.argument(at, at_name) {
                None | Some(b"NULL") => self.transfer(printed, call, file_id, number, result),
                Some(place) => {
                    // "[0] => [100]": before and after; perf trace has the pointer.
                    let offset = place.strip_prefix(b"[").and_then(scan::number);
                    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
                    self.access(printed, call, file_id, number, offset, result);
                }
            }
        }
    }

    /// A read or write where the description stands.
    fn transfer(
        &mut self,
        printed: &Printed<'_>,
        call: Call,
        file_id: u32,
        number: Option<u32>,
        result: i64,
    ) {
        let Some(number) = number else {
            return self.access(printed, call, file_id, None, None, result);
        };
        let position = self.descriptors.position(number);
        let appends = self
            .descriptors
            .get(number)
            .is_some_and(|known| known.append);
        let offset = position.filter(|_| !(printed.overlapped || (appends && call.writes())));
        self.access(printed, call, file_id, Some(number), offset, result);
        let Ok(moved) = u64::try_from(result) else {
            return;
        };
        let next = position.filter(|_| !(appends && call.writes()));
        let next = next.and_then(|position| position.checked_add(moved));
        self.descriptors.set_position(number, next);
    }

    fn access(
        &mut self,
        printed: &Printed<'_>,
        call: Call,
        file_id: u32,
        number: Option<u32>,
        offset: Option<u64>,
        result: i64,
    ) {
        let size = match Kind::of(printed.name) {
            Kind::Copies(Call::Sendfile, _) => printed.unsigned(3, "count"),
            Kind::Copies(..) => printed.unsigned(4, "len"),
            _ if call_is_vector(call) => size_of_parts(printed),
            _ => printed.unsigned(2, "count"),
        };
        let description = number.and_then(|number| self.descriptors.get(number));
        let opened = description.and_then(|known| known.synchronous);
        if call.writes() && opened.is_none() {
            self.figures.unknown_flags += 1;
        }
        // preadv2 and pwritev2 have the flags behind the offset.
        let asked = call == Call::Pwritev
            && (printed.flag(4, "flags", "RWF_DSYNC", 2)
                || printed.flag(4, "flags", "RWF_SYNC", 4));
        let synchronous = call.writes() && (asked || opened == Some(true));
        self.observe(printed, call, file_id, offset, size, synchronous, result);
    }
}
