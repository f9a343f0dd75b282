//! Writing: what goes to the server in which WRITE, and what becomes of its answers.

use std::sync::Arc;

use measure::{Clock, MonotonicClock};
use wire::nfs3::{
    Res, WRITE3args, WRITE3res, WRITE3resok, nfsstat3, payload3, stable_how, wcc_data,
};

use super::dirty::Attributes;
use super::pieces::Piece;
use super::{File, Inner, MAX_IN_FLIGHT_BYTES, MAX_UNCOMMITTED_BYTES};
use crate::error::CallError;

impl File {
    /// Takes bytes to be written some time, without waiting: gathered with their neighbours to
    /// WRITEs of `wsize`, sent when that is full or when somebody asks for it. True if so much is
    /// kept that the caller should wait ([`File::settle_then`]) before it writes more.
    ///
    /// With `sync` nothing is gathered; the caller waits with [`File::sync_then`].
    ///
    /// # Errors
    /// NFS3ERR_FBIG behind the largest offset, or an error of an earlier write that was not
    /// reported yet.
    pub fn write_behind(&self, offset: u64, bytes: &[u8], most: u64) -> Result<bool, CallError> {
        check_end(offset, bytes.len())?;
        let inner = &self.inner;
        let mut dirty = inner.dirty.lock();
        if let Some(error) = dirty.error() {
            return Err(error);
        }
        let pieces_before = dirty.next_number();
        dirty.gather(offset, bytes, inner.write_size_bytes as usize);
        if inner.sync {
            dirty.end_gathering();
        }
        let kept = dirty.in_flight_bytes() + dirty.kept_bytes() + dirty.gathered_bytes();
        let expected = dirty.habit.wrote().filter(|_| dirty.only_gathered());
        let synced = expected.and_then(|how| {
            dirty.end_gathering();
            Some((dirty.next_to_send(MAX_IN_FLIGHT_BYTES)?, how))
        });
        let sends = dirty.next_number() != pieces_before;
        let most = most.min(MAX_UNCOMMITTED_BYTES);
        let commits = kept > most / 2 && !dirty.committing_soon;
        dirty.committing_soon |= commits;
        drop(dirty);
        if let Some((piece, how)) = synced {
            Inner::send(inner, piece.offset, piece, how);
        } else if sends {
            Inner::pump(inner);
        }
        if commits {
            let again = Arc::clone(inner);
            self.settle_then(move |_| again.dirty.lock().committing_soon = false);
        }
        Ok(kept > most)
    }

    /// Sends what was gathered.
    pub fn push(&self) {
        if self.inner.dirty.lock().end_gathering() {
            Inner::pump(&self.inner);
        }
    }

    /// Sends what was gathered before the last call of this, and not written to since.
    ///
    /// Younger bytes stay: an fsync that is about to come would find them sent as UNSTABLE, and
    /// need a COMMIT besides.
    pub fn push_old(&self) {
        if self.inner.dirty.lock().end_old_gathering() {
            Inner::pump(&self.inner);
        }
    }
}

impl Inner {
    /// Sends what has to be sent and may be sent now.
    pub(super) fn pump(inner: &Arc<Inner>) {
        let stable = if inner.sync {
            stable_how::FILE_SYNC
        } else {
            stable_how::UNSTABLE
        };
        loop {
            let next = inner.dirty.lock().next_to_send(MAX_IN_FLIGHT_BYTES);
            match next {
                Some(piece) => Inner::send(inner, piece.offset, piece, stable),
                None => return,
            }
        }
    }

    /// Sends (what is left of) the piece that is in flight under `key`.
    pub(super) fn send(inner: &Arc<Inner>, key: u64, piece: Piece, stable: stable_how) {
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
                } else {
                    Inner::advance(&again);
                }
            });
    }

    pub(super) fn learn_wcc(&self, sent_ns: u64, wcc: Option<&wcc_data>) {
        if let Some(wcc) = wcc {
            self.learn(sent_ns, |cache, asked| {
                cache.update_wcc(&self.handle, wcc, asked);
            });
        }
    }

    /// Takes the answer to a WRITE; returns what of it the server did not take.
    fn take(&self, key: u64, piece: Piece, result: Result<WRITE3res, CallError>) -> Option<Piece> {
        let mut dirty = self.dirty.lock();
        match result.and_then(|answer| taken(&piece, answer)) {
            Ok(Taken::Later) => {
                dirty.end(key);
                dirty.keep_for_later(piece);
                None
            }
            Ok(Taken::Bytes { count, answer }) => {
                let Piece { offset, number, .. } = piece;
                let front = piece.data.slice(0, count);
                let left = piece.data.slice(count, piece.data.len() - count);
                let rest = (!left.is_empty()).then(|| Piece {
                    offset: offset + count as u64,
                    data: left,
                    number,
                });
                if rest.is_none() {
                    dirty.end(key);
                }
                if answer.committed == stable_how::DATA_SYNC {
                    dirty.attributes = Attributes::Behind;
                }
                if answer.committed == stable_how::UNSTABLE {
                    let front = Piece {
                        offset,
                        data: front,
                        number,
                    };
                    dirty.keep_taken(front, answer.verf);
                }
                rest
            }
            Err(error) => {
                dirty.end(key);
                dirty.fail(error);
                None
            }
        }
    }
}

/// No file goes beyond the largest offset (`off_t`); offsets of its pieces can be added to then.
fn check_end(offset: u64, length: usize) -> Result<(), CallError> {
    let end = offset.checked_add(length as u64);
    if end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(CallError::Nfs(nfsstat3::NFS3ERR_FBIG));
    }
    Ok(())
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
