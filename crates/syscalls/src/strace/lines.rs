//! Line after line: whose it is, when it was, and what is to be done with it.

use super::line::{self, Body, Front, Outcome, When};
use super::pending::Pending;
use super::printed::{Kind, Printed};
use super::{Clock, LINE_MAX, StraceReader, perf, scan};

/// What is kept of the first line that was not understood.
const SHOWN_MAX: usize = 200;

impl StraceReader {
    pub(super) fn whole_line(&mut self, text: &[u8]) {
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.trim_ascii().is_empty() && !self.too_long {
            return;
        }
        self.state.figures.lines += 1;
        if self.first_line.is_none() {
            self.first_line = Some(shown(text));
        }
        let known = !self.too_long && text.len() <= LINE_MAX && self.one_line(text);
        if known {
            self.understood += 1;
        } else {
            self.state.figures.not_understood += 1;
            self.summary |= text.trim_ascii().starts_with(b"% time")
                || text.trim_ascii().starts_with(b"Summary of events");
            if self.first_not_understood.is_none() {
                self.first_not_understood = Some(shown(text));
            }
        }
    }

    fn one_line(&mut self, text: &[u8]) -> bool {
        if self.perf || self.understood == 0 {
            if let Some(line) = perf::line(text) {
                self.perf = true;
                self.clock = Clock::Relative;
                return self.perf_line(&line);
            }
            if self.perf {
                return false;
            }
        }
        if let Some(tid) = self.cut.take()
            && let Some(known) = self.goes_on(tid, text)
        {
            return known;
        }
        let front = line::front(text);
        self.strace_line(&front)
    }

    /// The rest of a line that a remark had cut, if this is it.
    fn goes_on(&mut self, tid: u32, text: &[u8]) -> Option<bool> {
        if line::unfinished(text).is_some_and(|front| front.is_empty()) {
            return Some(true);
        }
        let front = line::front(text);
        let new = front.tid.is_some()
            || front.when != When::Unsaid
            || !matches!(line::body(front.body), Body::Other);
        if new {
            return None;
        }
        let pending = self.take_pending(tid)?;
        Some(self.resume(tid, pending, text, None))
    }

    fn strace_line(&mut self, front: &Front<'_>) -> bool {
        let body = line::body(front.body);
        if body == Body::Other {
            return false;
        }
        let start_ns = self.instant(front.when);
        let tid = self.thread(front.tid, &body);
        match body {
            Body::Call(name, rest) => self.call(tid, name, rest, start_ns),
            Body::Resumed(name, rest) => {
                let other = |pending: &Pending| *pending.name != *name;
                if self.pending.get(&tid).is_none_or(other) {
                    self.abandon(tid);
                    self.state.figures.without_start += 1;
                    return true;
                }
                let Some(pending) = self.take_pending(tid) else {
                    return true;
                };
                match line::unfinished(rest) {
                    Some(rest) => {
                        self.wait(tid, pending, rest);
                        true
                    }
                    None => self.resume(tid, pending, rest, None),
                }
            }
            Body::Exit => {
                self.abandon(tid);
                self.state.descriptors.ended(tid);
                true
            }
            Body::Attached(pid) => {
                self.arrives(pid);
                true
            }
            Body::Remark => true,
            Body::Other => false,
        }
    }

    /// The instant of a line, ns; 0 when none is printed.
    fn instant(&mut self, when: When) -> u64 {
        const HALF_DAY_NS: u64 = 12 * 3600 * 1_000_000_000;
        let (clock, ns) = match when {
            When::Unsaid => {
                self.state.figures.without_time += 1;
                return if self.clock == Clock::None {
                    0
                } else {
                    self.now_ns
                };
            }
            When::Epoch(ns) => (Clock::Epoch, ns),
            When::Since(ns) => (Clock::Relative, self.now_ns.saturating_add(ns)),
            When::OfDay(ns) => {
                let ns_then = ns.saturating_add(self.day_ns);
                if self.clock == Clock::OfDay && ns_then.saturating_add(HALF_DAY_NS) < self.now_ns {
                    self.day_ns = self.day_ns.saturating_add(2 * HALF_DAY_NS);
                }
                (Clock::OfDay, ns.saturating_add(self.day_ns))
            }
        };
        self.clock = clock;
        self.now_ns = ns;
        ns
    }

    /// Whose line it is. Without a number it is the only living thread's, or that of whom the last
    /// such line was (a child is known from its clone on, numbers are printed once strace has seen
    /// it), at first of one whose number is not known (0).
    fn thread(&mut self, said: Option<u32>, body: &Body<'_>) -> u32 {
        let quiet = matches!(body, Body::Exit | Body::Attached(_));
        let Some(tid) = said else {
            if let Some(tid) = self.state.descriptors.only() {
                self.speaker = tid;
            }
            if !quiet {
                self.state.descriptors.meet(self.speaker);
            }
            return self.speaker;
        };
        if quiet || self.state.descriptors.knows(tid) {
            return tid;
        }
        // The first process has had no number until now; new ones are announced, or a clone is
        // under way.
        let resumes = match body {
            Body::Resumed(name, _) => self
                .pending
                .get(&0)
                .is_some_and(|call| *call.name == **name),
            _ => false,
        };
        if self.state.descriptors.knows(0) && (resumes || self.clones().next().is_none()) {
            self.state.descriptors.renumber(0, tid);
            self.speaker = tid;
            if let Some(pending) = self.pending.remove(&0) {
                self.pending.insert(tid, pending);
            }
        } else {
            self.arrives(tid);
        }
        tid
    }

    /// Threads whose clone is under way.
    fn clones(&self) -> impl Iterator<Item = u32> {
        let cloning = |call: &Pending| Kind::of(&call.name) == Kind::Clones;
        let all = self.pending.iter().filter(move |(_, call)| cloning(call));
        all.map(|(parent, _)| *parent)
    }

    /// A thread that was not seen so far: the child of a clone that is under way if there is one
    /// such only.
    fn arrives(&mut self, tid: u32) {
        if self.state.descriptors.knows(tid) {
            return;
        }
        let mut clones = self.clones();
        let (first, second) = (clones.next(), clones.next());
        drop(clones);
        if let (Some(parent), None) = (first, second)
            && let Some(pending) = self.pending.get(&parent)
        {
            let printed = Printed {
                name: &pending.name,
                arguments: scan::arguments(&pending.text).0,
                named: self.perf,
                outcome: Outcome::Returned(i64::from(tid), b""),
                start_ns: pending.start_ns,
                latency_ns: None,
                tid: parent,
                overlapped: false,
            };
            self.state.ended(&printed);
        }
        self.state.descriptors.meet(tid);
    }

    fn call(&mut self, tid: u32, name: &[u8], rest: &[u8], start_ns: u64) -> bool {
        if let Some(text) = line::unfinished(rest) {
            self.begin(tid, name, text, start_ns);
            return true;
        }
        if let Some((text, pid)) = line::interrupted_by(rest) {
            self.begin(tid, name, text, start_ns);
            self.cut = Some(tid);
            self.arrives(pid);
            return true;
        }
        let pending = Pending {
            start_ns,
            ..Pending::default()
        };
        self.whole(tid, name, rest, &pending, None)
    }

    fn perf_line(&mut self, line: &perf::Line<'_>) -> bool {
        let body = Body::Call(b"", b"");
        let tid = self.thread(line.tid, &body);
        let start_ns = line.start_ns.unwrap_or(self.now_ns);
        self.now_ns = self.now_ns.max(start_ns);
        match line.body {
            perf::Body::Call(name, rest) => {
                if line.start_ns.is_none() {
                    self.state.figures.without_start += 1;
                    return true;
                }
                let pending = Pending {
                    start_ns,
                    ..Pending::default()
                };
                self.whole(tid, name, rest, &pending, line.latency_ns)
            }
            perf::Body::Unfinished(name, text) => {
                let text = text.strip_suffix(b")").unwrap_or(text);
                self.begin(tid, name, text, start_ns);
                true
            }
            perf::Body::Continued(name, rest) => match self.take_pending(tid) {
                Some(pending) if *pending.name == *name => {
                    let rest = [b")".as_slice(), rest].concat();
                    self.resume(tid, pending, &rest, line.latency_ns)
                }
                _ => {
                    self.state.figures.without_start += 1;
                    true
                }
            },
        }
    }
}

/// The front of a line, for a message.
fn shown(text: &[u8]) -> String {
    let front = &text[..text.len().min(SHOWN_MAX)];
    String::from_utf8_lossy(front).into_owned()
}
