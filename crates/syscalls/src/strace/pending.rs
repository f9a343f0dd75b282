//! Calls under way: a line says that one was entered, a later one of the same thread how it ended.

use super::printed::{Kind, Printed};
use super::{PENDING_BYTES_MAX, PENDING_MAX, StraceReader, line, scan};

/// A call that has not returned.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) name: Box<[u8]>,
    /// Arguments so far; empty for calls that nobody asks for.
    pub(super) text: Vec<u8>,
    pub(super) start_ns: u64,
    /// The description, how often it had moved, and whether a call on it was under way.
    pub(super) mark: Option<(u32, u64, bool)>,
}

impl Pending {
    fn bytes(&self) -> usize {
        self.name.len() + self.text.len()
    }
}

impl StraceReader {
    /// A call was entered.
    pub(super) fn begin(&mut self, tid: u32, name: &[u8], text: &[u8], start_ns: u64) {
        self.abandon(tid);
        let kind = Kind::of(name);
        let mut pending = Pending {
            name: name.into(),
            start_ns,
            ..Pending::default()
        };
        if kind.positions() {
            pending.mark = self.mark(tid, text);
        }
        self.wait(tid, pending, if kind == Kind::Passes { b"" } else { text });
    }

    /// Keeps a call that has not returned.
    pub(super) fn wait(&mut self, tid: u32, mut pending: Pending, text: &[u8]) {
        let bytes = self.pending_bytes + pending.bytes() + text.len();
        if self.pending.len() >= PENDING_MAX || bytes > PENDING_BYTES_MAX {
            self.state.figures.beyond += 1;
            return;
        }
        // A blank keeps apart what "<unfinished ...>" stood between.
        pending.text.extend_from_slice(text);
        if !pending.text.is_empty() && Kind::of(&pending.name) != Kind::Passes {
            pending.text.push(b' ');
        }
        self.pending_bytes += pending.bytes();
        self.pending.insert(tid, pending);
    }

    /// The call that this thread was in will not be heard of again.
    pub(super) fn abandon(&mut self, tid: u32) {
        let Some(pending) = self.take_pending(tid) else {
            return;
        };
        self.state.figures.unfinished += 1;
        let number = pending.mark.map(|(number, ..)| number);
        let description = number.and_then(|number| self.state.descriptors.get_mut(number));
        if let Some(description) = description {
            // Whether it moved the position is not known.
            description.under_way = description.under_way.saturating_sub(1);
            description.moves += 1;
            description.position = None;
        }
    }

    pub(super) fn take_pending(&mut self, tid: u32) -> Option<Pending> {
        let pending = self.pending.remove(&tid)?;
        self.pending_bytes = self.pending_bytes.saturating_sub(pending.bytes());
        Some(pending)
    }

    fn mark(&mut self, tid: u32, text: &[u8]) -> Option<(u32, u64, bool)> {
        let (arguments, _) = scan::arguments(text);
        let first = if self.perf {
            arguments.named("fd")
        } else {
            arguments.at(0)
        };
        let (fd, shown) = scan::descriptor(first?)?;
        let named = shown != scan::Shown::Nothing;
        let number = self.state.descriptors.find(tid, fd, named)?;
        let description = self.state.descriptors.get_mut(number)?;
        let busy = description.under_way > 0;
        description.under_way += 1;
        Some((number, description.moves, busy))
    }

    /// A call that had been entered has returned.
    pub(super) fn resume(
        &mut self,
        tid: u32,
        mut pending: Pending,
        rest: &[u8],
        latency_ns: Option<u64>,
    ) -> bool {
        let mut text = std::mem::take(&mut pending.text);
        text.extend_from_slice(rest);
        self.whole(tid, &pending.name.clone(), &text, &pending, latency_ns)
    }

    /// A call with all its text.
    pub(super) fn whole(
        &mut self,
        tid: u32,
        name: &[u8],
        text: &[u8],
        pending: &Pending,
        latency_ns: Option<u64>,
    ) -> bool {
        if Kind::of(name) == Kind::Passes {
            let known = text.contains(&b'=') || text.ends_with(b")");
            self.state.figures.calls += u64::from(known);
            return known;
        }
        let (arguments, behind) = scan::arguments(text);
        let Some((outcome, duration)) = behind.and_then(line::outcome) else {
            return false;
        };
        self.state.figures.calls += 1;
        let mut printed = Printed {
            name,
            arguments,
            named: self.perf,
            outcome,
            start_ns: pending.start_ns,
            latency_ns: latency_ns.or(duration),
            tid,
            overlapped: false,
        };
        if Kind::of(name).positions() {
            printed.overlapped = self.overlapped(&printed, pending.mark);
        }
        self.state.ended(&printed);
        true
    }

    /// Did another call on the same description overlap with this one?
    fn overlapped(&mut self, printed: &Printed<'_>, mark: Option<(u32, u64, bool)>) -> bool {
        let descriptors = &mut self.state.descriptors;
        if let Some((number, moves, busy)) = mark {
            return descriptors.get_mut(number).is_none_or(|description| {
                description.under_way = description.under_way.saturating_sub(1);
                busy || description.under_way > 0 || description.moves != moves
            });
        }
        let first = printed.first_descriptor();
        let number = first.and_then(|fd| descriptors.find(printed.tid, fd, true));
        let description = number.and_then(|number| descriptors.get(number));
        description.is_some_and(|description| description.under_way > 0)
    }
}
