//! Hands events and settled calls to the lenses that want them, and calls to the columns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use arrow_array::RecordBatch;
use serde_json::Value;

use super::Options;
use super::lens_threads::LensThreads;
use super::lenses::Lenses;
use crate::call::{Brief, Call};
use crate::calls::Output;
use crate::columns::Batches;
use crate::error::TraceError;
use crate::event::Event;
use crate::lens::operations::{Counted, Operations};
use crate::lens::{Extent, Interest, LENSES, Lens, Section};
use crate::names::Names;

/// How long a full channel is left alone before it is tried again: short against the time that
/// writing a batch takes.
const RETRY: Duration = Duration::from_millis(2);

/// Where batches of columns go.
pub(super) struct Columns {
    batches: Batches,
    sender: SyncSender<RecordBatch>,
    /// Made of the present block, which was not verified yet.
    ready: Vec<RecordBatch>,
}

/// Lenses and columns of one analysis.
pub(super) struct Dispatch {
    /// The lens that always runs, and that looks at every call.
    operations: Operations,
    /// The others that are asked for, but for those that other threads have.
    lenses: Lenses,
    threads: Option<LensThreads>,
    columns: Option<Columns>,
    /// Times of calls that count, nanoseconds since 1970; not known before the first frame.
    window_ns: Option<(i64, i64)>,
    /// What is wanted, but for columns.
    wanted: Interest,
    stop: Arc<AtomicBool>,
    /// Why columns cannot go on.
    failed: Option<TraceError>,
    settled: u64,
    /// Those of them that lie in the part that is asked for.
    counted: u64,
}

impl Dispatch {
    /// Makes the lenses that are asked for; errors of their options are told here.
    pub(super) fn new(options: &Options, stop: Arc<AtomicBool>) -> Result<Self, TraceError> {
        for name in &options.lenses {
            if !LENSES.iter().any(|(known, ..)| known == name) {
                return Err(TraceError::UnknownLens(name.clone()));
            }
        }
        let wanted = |name: &str| {
            options.lenses.is_empty() || options.lenses.iter().any(|asked| asked == name)
        };
        let lenses = Lenses::make(wanted, &options.lens)?;
        Ok(Dispatch {
            wanted: lenses.interest(),
            operations: Operations::default(),
            lenses,
            threads: None,
            columns: None,
            window_ns: None,
            stop,
            failed: None,
            settled: 0,
            counted: 0,
        })
    }

    /// Lenses that need no names get at most so many threads of their own.
    ///
    /// # Errors
    /// No thread can be begun.
    pub(super) fn begin_threads(&mut self, most: usize) -> Result<(), TraceError> {
        let shares = self.lenses.share_out(most);
        if !shares.is_empty() {
            self.threads = Some(LensThreads::begin(shares)?);
        }
        Ok(())
    }

    /// Batches of columns go there.
    pub(super) fn set_columns(&mut self, sender: SyncSender<RecordBatch>) {
        self.columns = Some(Columns {
            batches: Batches::default(),
            sender,
            ready: Vec::new(),
        });
    }

    /// What the table by operation counted since this was asked last.
    pub(super) fn take_counted(&mut self, names: &Names) -> Vec<Counted> {
        std::mem::take(&mut self.operations).counted(names)
    }

    /// What the other lenses counted since this was asked last; `None` if one cannot tell.
    pub(super) fn take_counted_by_lens(&mut self) -> Option<BTreeMap<String, Value>> {
        self.lenses.take_counted()
    }

    /// Whether any lens but that of the operations runs.
    pub(super) fn has_lenses(&self) -> bool {
        !self.lenses.is_empty() || self.threads.is_some()
    }

    /// Only calls first sent within this time count.
    pub(super) fn set_window(&mut self, window_ns: (i64, i64)) {
        self.window_ns = Some(window_ns);
    }

    /// Calls given out.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// Calls in the part that is asked for.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    /// Why the analysis cannot go on.
    pub(super) fn take_failure(&mut self) -> Option<TraceError> {
        let threads = self.threads.as_ref();
        self.failed
            .take()
            .or_else(|| threads.and_then(LensThreads::failure))
    }

    /// All calls were seen: last batch; gives sections, and the CPU time of other threads in
    /// nanoseconds.
    pub(super) fn finish(
        mut self,
        names: &Names,
        extent: &Extent,
    ) -> Result<(Vec<(String, Section)>, u64), TraceError> {
        self.hand_over();
        if let Some(mut columns) = self.columns.take()
            && let Some(batch) = columns.batches.finish()?
        {
            send(&columns.sender, batch, &self.stop)?;
        }
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        let first = LENSES.first().map(|(name, ..)| *name).unwrap_or_default();
        let mut sections = vec![(first.to_owned(), self.operations.finish(names, extent))];
        let mut cpu_ns = 0;
        if let Some(threads) = self.threads.take() {
            let (shares, took_ns) = threads.finish()?;
            self.lenses.take_back(shares);
            cpu_ns = took_ns;
        }
        sections.extend(self.lenses.finish(names, extent));
        Ok((sections, cpu_ns))
    }

    #[inline(always)]
    fn counts(&self, time_ns: i64) -> bool {
        self.window_ns
            .is_none_or(|(from_ns, to_ns)| time_ns >= from_ns && time_ns < to_ns)
    }

    fn row(&mut self, call: &Call, names: &Names) {
        let Some(columns) = &mut self.columns else {
            return;
        };
        match columns.batches.push(call, names) {
            Ok(None) => {}
            Ok(Some(batch)) => columns.ready.push(batch),
            Err(error) => {
                self.failed = Some(error);
                self.columns = None;
            }
        }
    }

    /// All blocks so far were good: batches may go.
    pub(super) fn hand_over(&mut self) {
        let Some(columns) = &mut self.columns else {
            return;
        };
        let mut ready = columns.ready.drain(..);
        let sent = ready.try_for_each(|batch| send(&columns.sender, batch, &self.stop));
        drop(ready);
        if let Err(error) = sent {
            self.failed = Some(error);
            self.columns = None;
        }
    }
}

impl Output for Dispatch {
    fn wants_messages(&self) -> bool {
        self.wanted.messages
    }

    fn wants_transport(&self) -> bool {
        self.wanted.transport
    }

    fn wants_calls(&self) -> bool {
        self.wanted.calls || self.columns.is_some()
    }

    fn wants_files(&self) -> bool {
        self.wanted.files || self.columns.is_some()
    }

    fn event(&mut self, event: &Event<'_>, _names: &Names) {
        let time_ns = match event {
            Event::Sent { call, .. } | Event::Replied { call, .. } => call.call_first.time_ns,
            Event::Transport(event) => event.time_ns,
        };
        if !self.counts(time_ns) {
            return;
        }
        self.lenses.event(event);
        if let Some(threads) = &mut self.threads {
            threads.event(event);
        }
    }

    #[inline(always)]
    fn brief(&mut self, brief: &Brief, names: &Names) {
        self.settled += 1;
        if self.counts(brief.call_first_ns) {
            self.counted += 1;
            self.operations.brief(brief, names);
        }
    }

    fn call(&mut self, call: &Call, names: &Names) {
        if !self.counts(call.call_first.time_ns) {
            return;
        }
        self.lenses.call(call, Some(names));
        if let Some(threads) = &mut self.threads {
            threads.call(call);
        }
        if self.columns.is_some() {
            self.row(call, names);
        }
    }
}

/// Hands a batch over; waits while the channel is full, unless the analysis is to stop.
fn send(
    sender: &SyncSender<RecordBatch>,
    batch: RecordBatch,
    stop: &AtomicBool,
) -> Result<(), TraceError> {
    let mut batch = batch;
    loop {
        match sender.try_send(batch) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(_)) => return Err(TraceError::Interrupted),
            Err(TrySendError::Full(back)) => batch = back,
        }
        if stop.load(Relaxed) {
            return Err(TraceError::Interrupted);
        }
        std::thread::sleep(RETRY);
    }
}
