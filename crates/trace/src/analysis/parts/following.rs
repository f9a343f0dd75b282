//! Plays the journals of a capture's files, in their order, to lenses that follow it as a whole.
//!
//! Some threads have some of the lenses each. All play all journals; a journal is removed when the
//! last of them has played it.

#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use arrow_array::RecordBatch;
use measure::clock::thread_cpu_ns;

use super::super::dispatch::Dispatch;
use super::super::{Findings, Options};
use super::numbering::Numbering;
use super::part::Joint;
use super::{Apart, Part};
use crate::error::TraceError;
use crate::journal::file::{ChunkError, Chunks};
use crate::journal::{PlayError, Player, Shift};
use crate::lens::{Extent, LENSES, LensOptions, Section};
use crate::names::Beyond;
use crate::stream::Facts;

/// What was found by lenses that were told by journals.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub(super) sections: Vec<(String, Section)>,
    /// Files named, and what of them did not fit.
    pub(super) files: u64,
    pub(super) beyond: Beyond,
    pub(super) cpu_ns: u64,
}

/// What rows of the calls take, as lenses tell it.
const ROWS_COST: u32 = 600;

/// Why following ends.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The files have to be read in a row.
    #[error(transparent)]
    Apart(#[from] Apart),
    /// A journal cannot be read, or a thread failed.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl From<PlayError> for FollowError {
    fn from(error: PlayError) -> Self {
        FollowError::Apart(match error {
            PlayError::Damaged(_) => Apart::Wrong,
            PlayError::Full => Apart::Full,
            PlayError::ReachedBack => Apart::ReachedBack,
        })
    }
}

/// A journal that goes once nobody needs it any more.
#[derive(Debug)]
struct Spool {
    path: PathBuf,
    told: Arc<Told>,
}

impl Spool {
    fn new(path: PathBuf, told: &Arc<Told>) -> Arc<Self> {
        told.waiting.fetch_add(1, Relaxed);
        let told = Arc::clone(told);
        Arc::new(Spool { path, told })
    }

    /// The file, if it is a regular one of this length: whoever wrote it may be on another machine.
    fn open(&self, length: u64) -> Result<Arc<File>, FollowError> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&self.path);
        let file = opened.map_err(|error| TraceError::of_file(&self.path, error))?;
        let found = file
            .metadata()
            .map_err(|error| TraceError::of_file(&self.path, error))?;
        match found.is_file() && found.len() == length {
            true => Ok(Arc::new(file)),
            false => Err(Apart::Wrong.into()),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // It is one file of a folder that goes as a whole, at the latest.
        let _ = std::fs::remove_file(&self.path);
        self.told.waiting.fetch_sub(1, Relaxed);
    }
}

/// What a thread is to play.
#[derive(Clone)]
struct Job {
    spool: Arc<Spool>,
    file: Arc<File>,
    from: u64,
    end: u64,
    frames: u64,
    calls: u64,
    numbering: Option<Arc<Numbering>>,
    facts: Arc<Vec<(u32, Facts)>>,
}

enum Order {
    Play(Job),
    Finish(Extent),
}

struct Follower {
    orders: Sender<Order>,
    thread: JoinHandle<Result<Followed, FollowError>>,
}

/// What the threads tell.
#[derive(Debug, Default)]
struct Told {
    stop: Arc<AtomicBool>,
    /// Journals that are there.
    waiting: AtomicUsize,
    failed: Mutex<Option<FollowError>>,
}

impl Told {
    fn fail(&self, error: FollowError) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
        self.stop.store(true, Relaxed);
    }
}

/// Frames in front of each file that was followed so far.
#[derive(Clone, Debug, Default)]
pub struct Begun(Arc<Mutex<Vec<u64>>>);

impl Begun {
    /// In the order of the files.
    pub fn so_far(&self) -> Vec<u64> {
        let begun = self.0.lock();
        begun.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, before: u64, begun: impl Iterator<Item = u64>) {
        let begun = begun.map(|frames| before.wrapping_add(frames));
        let so_far = self.0.lock();
        so_far.unwrap_or_else(PoisonError::into_inner).extend(begun);
    }
}

/// Lenses that follow.
pub struct Following {
    /// All parts so far, without their tables.
    whole: Option<Part>,
    frames: u64,
    calls: u64,
    begun: Begun,
    followers: Vec<Follower>,
    told: Arc<Told>,
}

impl std::fmt::Debug for Following {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Following({} threads)", self.followers.len())
    }
}

impl Following {
    /// These lenses, and the rows of the calls if somebody takes them, shared out among at most so
    /// many threads.
    ///
    /// # Errors
    /// A lens is not known or does not like its options; no thread can be begun.
    pub fn begin(
        lenses: &[String],
        options: &LensOptions,
        threads: usize,
        rows: Option<SyncSender<RecordBatch>>,
    ) -> Result<Self, TraceError> {
        let told = Arc::new(Told::default());
        let mut rows = rows;
        let followers = shares(lenses, threads, rows.is_some()).into_iter();
        let followers = followers.map(|share| {
            let rows = rows.take_if(|_| share.rows);
            Follower::begin(share.lenses, options, rows, &told)
        });
        Ok(Following {
            whole: None,
            frames: 0,
            calls: 0,
            begun: Begun::default(),
            followers: followers.collect::<Result<_, _>>()?,
            told,
        })
    }

    /// The next part, with its journal, which is removed in any case.
    ///
    /// # Errors
    /// It does not go on where the last one ended; the journal is not as long as the part says; or
    /// following failed before.
    pub fn follow(&mut self, part: &Part, journal: PathBuf) -> Result<(), FollowError> {
        let spool = Spool::new(journal, &self.told);
        self.check()?;
        let end = part.journal_bytes();
        let file = spool.open(end)?;
        let mut part = part.clone().without_tables();
        let begun = std::mem::take(&mut part.begun);
        let next = part.next_begins();
        let mut job = Job {
            spool,
            file,
            from: 0,
            end,
            frames: 0,
            calls: 0,
            numbering: None,
            facts: Arc::default(),
        };
        let first = self.whole.is_none();
        let whole = match self.whole.take() {
            None => part,
            Some(whole) => {
                let (both, joint) = whole.meet(part)?;
                let Joint {
                    numbering,
                    journal_from,
                    before,
                    calls,
                    facts,
                } = joint;
                self.frames = self.frames.wrapping_add(before);
                self.calls = self.calls.wrapping_add(calls);
                job = Job {
                    from: journal_from,
                    frames: self.frames,
                    calls: self.calls,
                    numbering: Some(Arc::new(numbering)),
                    facts: Arc::new(facts),
                    ..job
                };
                both
            }
        };
        self.whole = Some(whole);
        // In front of the first row of it. Some calls of the next file are in this journal.
        let known = usize::from(!first);
        let begun = begun.into_iter().skip(known).chain(next);
        self.begun.add(self.frames, begun);
        for follower in &self.followers {
            // One that is gone has said why.
            let _ = follower.orders.send(Order::Play(job.clone()));
        }
        self.check()
    }

    /// Journals that wait to be played, or are being played by a thread.
    ///
    /// # Errors
    /// Following failed.
    pub fn waiting(&self) -> Result<usize, FollowError> {
        self.check()?;
        // One that panicked has said nothing.
        if self.followers.iter().any(|it| it.thread.is_finished()) {
            self.check()?;
            return Err(TraceError::Thread("lenses that follow ended".to_owned()).into());
        }
        Ok(self.told.waiting.load(Relaxed))
    }

    /// Frames in front of each file that was followed, now and later.
    pub fn begun(&self) -> Begun {
        self.begun.clone()
    }

    fn check(&self) -> Result<(), FollowError> {
        let failed = self.told.failed.lock();
        let mut failed = failed.unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    /// What ends it soon, whatever waits, once it is true.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.told.stop)
    }

    /// What was found in a capture of which `whole` is the part, and all journals were given:
    /// [`Part::findings`].
    ///
    /// # Errors
    /// Following failed, or it is not the whole capture.
    pub fn findings(
        mut self,
        whole: Part,
        moved: u64,
        inputs: &[String],
    ) -> Result<Findings, FollowError> {
        let followers = std::mem::take(&mut self.followers);
        whole.findings_with(moved, inputs, |extent| {
            for follower in &followers {
                let _ = follower.orders.send(Order::Finish(*extent));
            }
            let mut all = Followed::default();
            let ended: Vec<_> = followers.into_iter().map(|it| it.thread.join()).collect();
            self.check()?;
            for found in ended {
                let found = found.map_err(|_| TraceError::Thread("it panicked".to_owned()))?;
                let found = found?;
                if found.files >= all.files {
                    (all.files, all.beyond) = (found.files, found.beyond);
                }
                all.cpu_ns = all.cpu_ns.saturating_add(found.cpu_ns);
                all.sections.extend(found.sections);
            }
            Ok(all)
        })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.told.stop.store(true, Relaxed);
        for follower in std::mem::take(&mut self.followers) {
            drop(follower.orders);
            let _ = follower.thread.join();
        }
    }
}

impl Follower {
    fn begin(
        lenses: Vec<String>,
        options: &LensOptions,
        rows: Option<SyncSender<RecordBatch>>,
        told: &Arc<Told>,
    ) -> Result<Self, TraceError> {
        let first = LENSES.first().map(|(name, ..)| (*name).to_owned());
        let options = Options {
            lenses: first.into_iter().chain(lenses).collect(),
            lens: options.clone(),
            ..Options::default()
        };
        let told = Arc::clone(told);
        let mut dispatch = Dispatch::new(&options, Arc::clone(&told.stop))?;
        if let Some(rows) = rows {
            dispatch.set_columns(rows);
        }
        let (orders, received) = channel();
        let thread = Builder::new()
            .name("lenses".to_owned())
            .spawn(move || {
                measure::thread::leave_signals_to_others();
                follow(dispatch, &received, &told)
            })
            .map_err(|error| TraceError::Thread(error.to_string()))?;
        Ok(Follower { orders, thread })
    }
}

/// A thread's work.
fn follow(
    mut dispatch: Dispatch,
    orders: &Receiver<Order>,
    told: &Told,
) -> Result<Followed, FollowError> {
    let mut player = Player::default();
    for order in orders {
        match order {
            Order::Play(job) => {
                if let Err(error) = play(&mut player, &mut dispatch, &job, told) {
                    told.fail(error);
                    break;
                }
                drop(job);
            }
            Order::Finish(extent) => {
                let sections = dispatch.finish(player.names(), &extent)?;
                return Ok(Followed {
                    sections: sections.into_iter().skip(1).collect(),
                    files: player.names().files() as u64,
                    beyond: player.names().beyond(),
                    cpu_ns: thread_cpu_ns(),
                });
            }
        }
    }
    Err(TraceError::Interrupted.into())
}

fn play(
    player: &mut Player,
    dispatch: &mut Dispatch,
    job: &Job,
    told: &Told,
) -> Result<(), FollowError> {
    let path = &job.spool.path;
    let of_chunk = |error: ChunkError| match error {
        ChunkError::Damaged(_) => FollowError::Apart(Apart::Wrong),
        ChunkError::Io(source) => TraceError::of_file(path, source).into(),
    };
    for (connection, facts) in job.facts.iter() {
        player.know(*connection, facts);
    }
    let numbering = job.numbering.clone();
    player.next_reader(Shift {
        frames: job.frames,
        calls: job.calls,
        connection: Box::new(move |it| numbering.as_ref().map_or(it, |known| known.of(it))),
    });
    let mut chunks = Chunks::of(Arc::clone(&job.file), job.from, job.end);
    while let Some((records, anew)) = chunks.next_chunk().map_err(of_chunk)? {
        if told.stop.load(Relaxed) {
            return Err(TraceError::Interrupted.into());
        }
        if anew {
            player.begin_anew();
        }
        player.play(records, dispatch)?;
        dispatch.hand_over();
        if let Some(failure) = dispatch.take_failure() {
            return Err(failure.into());
        }
    }
    Ok(())
}

/// What a thread makes.
#[derive(Debug, Default)]
struct Share {
    lenses: Vec<String>,
    rows: bool,
    cost: u32,
}

/// What each of at most so many threads makes, so that the one with most has little.
fn shares(lenses: &[String], threads: usize, rows: bool) -> Vec<Share> {
    let cost = |name: &str| {
        let known = LENSES.iter().find(|(lens, ..)| *lens == name);
        known.map_or(0, |(.., cost)| *cost)
    };
    let mut due: Vec<(u32, Option<&String>)> = lenses
        .iter()
        .map(|name| (cost(name), Some(name)))
        .chain(rows.then_some((ROWS_COST, None)))
        .collect();
    due.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    let count = threads.clamp(1, due.len().max(1));
    let mut shares: Vec<Share> = std::iter::repeat_with(Share::default).take(count).collect();
    for (cost, name) in due {
        if let Some(least) = shares.iter_mut().min_by_key(|share| share.cost) {
            least.cost += cost;
            least.rows |= name.is_none();
            least.lenses.extend(name.cloned());
        }
    }
    shares
}
