//! Settling: until what was written is answered, or on stable storage.
//!
//! Whoever wants that leaves a waiter; each answer moves things on ([`Inner::advance`]), in the
//! thread that brought it: what may be sent is sent, what is answered is committed, one COMMIT at a
//! time, and the waiters whose goal is reached are told. Nothing here blocks. Only where a server
//! answers NFS3ERR_JUKEBOX, a thread waits for as long as that asks for.

use std::sync::Arc;

use measure::{Clock, MonotonicClock};
use wire::nfs3::{COMMIT3args, COMMIT3res, Res, nfsstat3, stable_how};

use super::dirty::{Attributes, Dirty};
use super::{File, Inner, MAX_IN_FLIGHT_BYTES};
use crate::error::CallError;
use crate::nfs3::Commit;

/// COMMITs in a row that find another verifier (the server restarts faster than it takes data)
/// before [`File::sync_then`] gives up with an error.
pub const MAX_COMMIT_ROUNDS: usize = 64;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The server has answered the WRITEs.
    Answered,
    /// All of it is on stable storage, with what it needs to be read again.
    Data,
    /// As `Data`, and so are the file's attributes.
    Stable,
    /// As `Data`, but an error is left for others to find.
    StableUnreported,
}

/// Run when a goal is reached, or cannot be.
pub(super) type Done = Box<dyn FnOnce(Result<(), CallError>) + Send>;

pub(super) struct Waiter {
    pub goal: Goal,
    /// Pieces numbered from here on are none of its business.
    pub before: u64,
    pub done: Done,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Waiter({:?} before {})", self.goal, self.before)
    }
}

impl File {
    /// fsync(2), and close(2) (close-to-open consistency, nfs(5)): until all that was written
    /// before is on the server's stable storage. `done` is run once, in the reactor's thread or in
    /// this one, with the first error since the last time: data that met an error are gone.
    pub fn sync_then(&self, done: impl FnOnce(Result<(), CallError>) + Send + 'static) {
        Inner::when(&self.inner, Goal::Stable, Box::new(done));
    }

    /// fdatasync(2): as [`File::sync_then`], but the file's times may be stored later.
    pub fn sync_data_then(&self, done: impl FnOnce(Result<(), CallError>) + Send + 'static) {
        Inner::when(&self.inner, Goal::Data, Box::new(done));
    }

    /// Until all that was written before is on stable storage; an error is left for
    /// [`File::sync_then`] to report.
    pub fn settle_then(&self, done: impl FnOnce(Result<(), CallError>) + Send + 'static) {
        Inner::when(&self.inner, Goal::StableUnreported, Box::new(done));
    }

    /// Until all WRITEs of what was written before are answered; an error is left for
    /// [`File::sync_then`] to report.
    pub fn answered_then(&self, done: impl FnOnce(Result<(), CallError>) + Send + 'static) {
        Inner::when(&self.inner, Goal::Answered, Box::new(done));
    }

    /// Whether all that was written is on stable storage, and no error is to be reported.
    pub fn is_settled(&self) -> bool {
        let dirty = self.inner.dirty.lock();
        dirty.is_clean() && dirty.error().is_none()
    }

    /// Whether the file's attributes are on stable storage, too, as fsync(2) promises.
    pub fn has_stable_attributes(&self) -> bool {
        self.inner.dirty.lock().attributes == Attributes::Stable
    }

    /// Whether something that was written is not on stable storage.
    pub fn is_dirty(&self) -> bool {
        !self.inner.dirty.lock().is_clean()
    }

    /// Whether the server has answered all that was written.
    pub fn is_answered(&self) -> bool {
        let dirty = self.inner.dirty.lock();
        dirty.gathered_bytes() == 0 && !dirty.any_unanswered(dirty.next_number())
    }
}

/// What [`Inner::advance`] has to do next.
enum Step {
    Wait,
    Commit,
    WaitOutJukebox,
}

impl Inner {
    fn when(inner: &Arc<Inner>, goal: Goal, done: Done) {
        let mut dirty = inner.dirty.lock();
        let alone = goal != Goal::Answered && dirty.only_gathered();
        dirty.end_gathering();
        let before = dirty.next_number();
        dirty.waiters.push(Waiter { goal, before, done });
        let how = match goal {
            Goal::Data | Goal::Stable => dirty.habit.synced(goal == Goal::Data),
            _ => stable_how::FILE_SYNC,
        };
        let only = if alone {
            dirty.next_to_send(MAX_IN_FLIGHT_BYTES)
        } else {
            None
        };
        drop(dirty);
        match only {
            Some(piece) => Inner::send(inner, piece.offset, piece, how),
            None => Inner::advance(inner),
        }
    }

    /// Does what can be done now for those who wait.
    pub(super) fn advance(inner: &Arc<Inner>) {
        Inner::pump(inner);
        let mut dirty = inner.dirty.lock();
        let ended = dirty.take_ended();
        let step = dirty.step();
        match step {
            Step::Commit => dirty.committing = true,
            Step::WaitOutJukebox => dirty.waits_out_jukebox = true,
            Step::Wait => {}
        }
        drop(dirty);
        for (done, result) in ended {
            done(result);
        }
        match step {
            Step::Commit => Inner::commit(inner),
            Step::WaitOutJukebox => Inner::wait_out_jukebox(inner),
            Step::Wait => {}
        }
    }

    fn commit(inner: &Arc<Inner>) {
        let arguments = COMMIT3args {
            file: inner.handle.as_fh(),
            offset: 0,
            count: 0, // RFC 1813 3.3.21: to the file's end
        };
        let sent_ns = MonotonicClock.now_ns();
        let again = Arc::clone(inner);
        let caller = inner.caller.as_ref();
        inner
            .client
            .call_then::<Commit>(caller, &arguments, move |result| {
                if let Ok(answer) = &result {
                    again.learn_wcc(sent_ns, Some(wcc_of_commit(answer)));
                }
                again.take_commit(result);
                Inner::advance(&again);
            });
    }

    fn take_commit(&self, result: Result<COMMIT3res, CallError>) {
        let mut dirty = self.dirty.lock();
        dirty.committing = false;
        let error = match result {
            Ok(Res::Ok(committed)) => {
                if dirty.committed(committed.verf) == 0 {
                    dirty.commit_rounds = 0;
                    if dirty.attributes == Attributes::Covered {
                        dirty.attributes = Attributes::Stable;
                    }
                    return;
                }
                dirty.commit_rounds += 1;
                if dirty.commit_rounds < MAX_COMMIT_ROUNDS {
                    return;
                }
                dirty.commit_rounds = 0;
                CallError::Protocol("the server's write verifier changes with every COMMIT")
            }
            Ok(Res::Fail(nfsstat3::NFS3ERR_JUKEBOX, _)) => {
                dirty.be_later();
                return;
            }
            Ok(Res::Fail(status, _)) => {
                dirty.give_up_covered();
                CallError::Nfs(status)
            }
            Err(error) => {
                dirty.give_up_covered();
                error
            }
        };
        dirty.fail(error);
    }

    /// A thread that waits as long as the server asked for, then goes on.
    fn wait_out_jukebox(inner: &Arc<Inner>) {
        let again = Arc::clone(inner);
        let waits = move || {
            let waited = again.client.wait_out_jukebox();
            let mut dirty = again.dirty.lock();
            dirty.waits_out_jukebox = false;
            dirty.now();
            if let Err(error) = waited {
                dirty.fail(error);
            }
            drop(dirty);
            Inner::advance(&again);
        };
        let name = "nfs-jukebox".to_owned();
        if std::thread::Builder::new().name(name).spawn(waits).is_err() {
            let mut dirty = inner.dirty.lock();
            dirty.waits_out_jukebox = false;
            dirty.fail(CallError::Full);
            drop(dirty);
            Inner::advance(inner);
        }
    }
}

fn wcc_of_commit(answer: &COMMIT3res) -> &wire::nfs3::wcc_data {
    match answer {
        Res::Ok(committed) => &committed.file_wcc,
        Res::Fail(_, wcc) => wcc,
    }
}

impl Dirty {
    /// Takes the waiters whose waiting is over, with what to tell them.
    fn take_ended(&mut self) -> Vec<(Done, Result<(), CallError>)> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        if let Some(error) = self.error() {
            if self.any_in_flight() || self.committing {
                return Vec::new();
            }
            let waiters = std::mem::take(&mut self.waiters);
            let reports = |waiter: &Waiter| matches!(waiter.goal, Goal::Data | Goal::Stable);
            if waiters.iter().any(reports) {
                self.take_error();
            }
            let all = waiters.into_iter();
            return all.map(|waiter| (waiter.done, Err(error))).collect();
        }
        let waiters = std::mem::take(&mut self.waiters);
        let reached = |waiter: &Waiter| {
            !self.any_unanswered(waiter.before)
                && (waiter.goal == Goal::Answered || !self.any_uncommitted(waiter.before))
                && (waiter.goal != Goal::Stable || self.attributes == Attributes::Stable)
        };
        let (ended, waiting) = waiters.into_iter().partition(reached);
        self.waiters = waiting;
        let ended: Vec<Waiter> = ended;
        let all = ended.into_iter();
        all.map(|waiter| (waiter.done, Ok(()))).collect()
    }

    /// What those who still wait need.
    fn step(&mut self) -> Step {
        if self.waiters.is_empty() || self.error().is_some() {
            return Step::Wait;
        }
        if self.is_later() {
            return if self.waits_out_jukebox || self.any_in_flight() {
                Step::Wait
            } else {
                Step::WaitOutJukebox
            };
        }
        let commit = self
            .waiters
            .iter()
            .any(|waiter| waiter.goal != Goal::Answered && !self.any_unanswered(waiter.before));
        if commit && !self.committing && self.cover() {
            return Step::Commit;
        }
        Step::Wait
    }
}
