//! Writing: WRITEs, COMMIT, and sending again what a restarted server may have lost.

use std::sync::{Arc, PoisonError};

use measure::{Clock, MonotonicClock};
use wire::nfs3::{
    COMMIT3args, Res, WRITE3args, WRITE3res, WRITE3resok, nfsstat3, payload3, stable_how, wcc_data,
};

use super::dirty::Piece;
use super::{File, Inner, MAX_IN_FLIGHT_BYTES, MAX_UNCOMMITTED_BYTES};
use crate::engine::SharedBytes;
use crate::error::CallError;
use crate::nfs3::Commit;

/// COMMITs in a row that find another verifier (the server restarts faster than it takes data)
/// before [`File::sync`] gives up with an error.
pub const MAX_COMMIT_ROUNDS: usize = 64;

impl File {
    /// Writes bytes. With `sync` it returns when they are on stable storage, else when they are on
    /// their way.
    ///
    /// # Errors
    /// An error of this write (with `sync`), or one of an earlier write that was not reported yet.
    pub fn write(&self, offset: u64, data: &SharedBytes) -> Result<(), CallError> {
        if self.inner.client.in_reactor() {
            return Err(CallError::WouldDeadlock); // it may have to wait
        }
        let step = self.inner.write_size_bytes as usize;
        let stable = if self.inner.sync {
            stable_how::FILE_SYNC
        } else {
            stable_how::UNSTABLE
        };
        let mut done = 0;
        while done < data.len() {
            let part = data.slice(done, step);
            done += part.len();
            let at = offset.saturating_add((done - part.len()) as u64);
            self.write_part(
                Piece {
                    offset: at,
                    data: part,
                },
                stable,
            )?;
        }
        if self.inner.sync {
            return self.sync();
        }
        Ok(())
    }

    fn write_part(&self, piece: Piece, stable: stable_how) -> Result<(), CallError> {
        let inner = &self.inner;
        let length = piece.data.len() as u64;
        let mut dirty = inner.lock();
        loop {
            if let Some(error) = dirty.error() {
                return Err(error);
            }
            let crowded = dirty.in_flight_bytes() + length > MAX_IN_FLIGHT_BYTES;
            if dirty.is_in_flight(piece.offset, piece.end()) || (crowded && dirty.any_in_flight()) {
                dirty = inner.wait(dirty);
            } else if dirty.kept_bytes() + length > MAX_UNCOMMITTED_BYTES && dirty.kept_bytes() > 0
            {
                drop(dirty);
                inner.settle(false)?;
                dirty = inner.lock();
            } else {
                break;
            }
        }
        dirty.supersede(piece.offset, piece.end());
        dirty.begin(piece.clone());
        drop(dirty);
        Inner::send(inner, piece.offset, piece, stable);
        Ok(())
    }

    /// fsync(2): all that was written before is on the server's stable storage.
    ///
    /// # Errors
    /// The first error since the last `sync`; it is reported once. Data that met an error are gone.
    pub fn sync(&self) -> Result<(), CallError> {
        self.inner.settle(true)
    }

    /// close(2): as [`File::sync`] (close-to-open consistency, nfs(5)).
    ///
    /// # Errors
    /// As [`File::sync`].
    pub fn close(self) -> Result<(), CallError> {
        self.sync()
    }
}

impl Inner {
    /// Sends (what is left of) the piece that is in flight under `key`.
    fn send(inner: &Arc<Inner>, key: u64, piece: Piece, stable: stable_how) {
        let arguments = WRITE3args {
            file: inner.handle.as_fh(),
            offset: piece.offset,
            count: u32::try_from(piece.data.len()).unwrap_or(u32::MAX),
            stable,
            data: payload3(piece.data.as_slice()),
        };
        let again = Arc::clone(inner);
        let sent_ns = MonotonicClock.now_ns();
        let payload = piece.data.clone();
        let kept = piece.clone();
        inner
            .client
            .write_then(inner.caller.as_ref(), arguments, payload, move |result| {
                again.learn_wcc(sent_ns, result.as_ref().ok().map(wcc_of_write));
                if let Some(rest) = again.take(key, kept, result) {
                    Inner::send(&again, key, rest, stable);
                }
            });
    }

    fn learn_wcc(&self, sent_ns: u64, wcc: Option<&wcc_data>) {
        if let Some(wcc) = wcc {
            self.learn(sent_ns, |cache, asked| {
                cache.update_wcc(&self.handle, wcc, asked);
            });
        }
    }

    /// Takes the answer to a WRITE; returns what of it the server did not take.
    fn take(&self, key: u64, piece: Piece, result: Result<WRITE3res, CallError>) -> Option<Piece> {
        let mut dirty = self.lock();
        let rest = match result.and_then(|answer| taken(&piece, answer)) {
            Ok(Taken::Later) => {
                dirty.end(key);
                dirty.keep_for_later(piece);
                None
            }
            Ok(Taken::Bytes { count, answer }) => {
                let front = piece.data.slice(0, count);
                let left = piece.data.slice(count, piece.data.len() - count);
                let offset = piece.offset;
                let rest = (!left.is_empty()).then(|| Piece {
                    offset: offset + count as u64,
                    data: left,
                });
                if rest.is_none() {
                    dirty.end(key);
                }
                if answer.committed == stable_how::UNSTABLE {
                    let front = Piece {
                        offset,
                        data: front,
                    };
                    dirty.keep_uncommitted(front, answer.verf);
                }
                rest
            }
            Err(error) => {
                dirty.end(key);
                dirty.fail(error);
                None
            }
        };
        drop(dirty);
        self.changed.notify_all();
        rest
    }

    /// Waits until nothing is in flight, then commits until nothing is uncommitted.
    ///
    /// `reports`: an error is taken (fsync, close); else it goes on sticking.
    fn settle(self: &Arc<Self>, reports: bool) -> Result<(), CallError> {
        if self.client.in_reactor() {
            return Err(CallError::WouldDeadlock);
        }
        let _one = self
            .committing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut rounds = 0;
        while rounds < MAX_COMMIT_ROUNDS {
            self.send_again()?;
            let mut dirty = self.lock();
            while dirty.any_in_flight() {
                dirty = self.wait(dirty);
            }
            let error = if reports {
                dirty.take_error()
            } else {
                dirty.error()
            };
            if let Some(error) = error {
                return Err(error);
            }
            if dirty.any_unsent() {
                continue; // "later": as patient as a hard mount
            }
            if !dirty.cover() {
                return Ok(());
            }
            drop(dirty);
            match self.commit() {
                Ok(verifier) => {
                    let lost = self.lock().committed(verifier);
                    rounds += usize::from(lost > 0);
                }
                Err(error) => {
                    let mut dirty = self.lock();
                    dirty.give_up_covered();
                    if !reports {
                        dirty.fail(error);
                    }
                    return Err(error);
                }
            }
        }
        let error = CallError::Protocol("the server's write verifier changes with every COMMIT");
        let mut dirty = self.lock();
        if !reports {
            dirty.fail(error);
        }
        Err(error)
    }

    /// Sends all that has to be sent again, after a wait if the server asked for one.
    fn send_again(self: &Arc<Self>) -> Result<(), CallError> {
        if self.lock().take_later() {
            self.client.wait_out_jukebox()?;
        }
        loop {
            let mut dirty = self.lock();
            while dirty.in_flight_bytes() >= MAX_IN_FLIGHT_BYTES {
                dirty = self.wait(dirty);
            }
            let Some(piece) = dirty.take_unsent() else {
                return Ok(());
            };
            dirty.begin(piece.clone());
            drop(dirty);
            Inner::send(self, piece.offset, piece, stable_how::UNSTABLE);
        }
    }

    fn commit(&self) -> Result<wire::nfs3::writeverf3, CallError> {
        let arguments = COMMIT3args {
            file: self.handle.as_fh(),
            offset: 0,
            count: 0, // RFC 1813 3.3.21: to the file's end
        };
        let sent_ns = MonotonicClock.now_ns();
        let answer = self
            .client
            .call::<Commit>(self.caller.as_ref(), &arguments)?;
        match answer.decode()? {
            Res::Ok(committed) => {
                self.learn_wcc(sent_ns, Some(&committed.file_wcc));
                Ok(committed.verf)
            }
            Res::Fail(status, wcc) => {
                self.learn_wcc(sent_ns, Some(&wcc));
                Err(CallError::Nfs(status))
            }
        }
    }
}

enum Taken {
    Bytes { count: usize, answer: WRITE3resok },
    Later,
}

fn wcc_of_write(answer: &WRITE3res) -> &wcc_data {
    match answer {
        Res::Ok(taken) => &taken.file_wcc,
        Res::Fail(_, wcc) => wcc,
    }
}

/// What a server says that it took of a piece.
fn taken(piece: &Piece, answer: WRITE3res) -> Result<Taken, CallError> {
    match answer {
        Res::Ok(answer) => {
            let count = answer.count as usize;
            if count == 0 || count > piece.data.len() {
                return Err(CallError::Protocol(
                    "WRITE: no byte taken, or more than there were",
                ));
            }
            Ok(Taken::Bytes { count, answer })
        }
        Res::Fail(nfsstat3::NFS3ERR_JUKEBOX, _) => Ok(Taken::Later),
        Res::Fail(status, _) => Err(CallError::Nfs(status)),
    }
}
