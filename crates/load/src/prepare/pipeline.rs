//! Many small jobs at once over one connection: each is a chain of calls, [`DEPTH`] chains run.
//!
//! Memory is bounded by the depth: jobs come from an iterator, and what they found goes to a sink
//! at their end. Nothing waits without a limit: silence ends the whole.

use std::time::Duration;

use client::nfs3::{
    Commit, Create, FileHandle, GetAttr, Lookup, MkDir, SetAttr, SymLink, Write, decode,
};
use client::{CallError, Completion, Engine};
use measure::Clock;
use wire::nfs3 as v3;
use wire::nfs3::{Res, createhow3, diropargs3, filename3, ftype3, nfsstat3, sattr3, stable_how};

use super::watch::Watch;
use crate::content::Content;
use crate::error::LoadError;
use crate::layout::Name;
use generator::TICK_NS;

/// Chains at once: enough to keep a server busy over a network, few enough for its queues.
pub const DEPTH: usize = 64;

/// A call of a job.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    MakeDirectory(FileHandle, Name),
    Look(FileHandle, Name),
    /// Makes a file empty, whether it is there or not.
    Make(FileHandle, Name),
    Link(FileHandle, Name, Name),
    Write {
        handle: FileHandle,
        file: u64,
        offset: u64,
        count: u32,
        stable: stable_how,
    },
    Commit(FileHandle),
    Cut(FileHandle, u64),
    Attributes(FileHandle),
}

impl Ask {
    /// What was being done, for an error's text.
    pub fn doing(&self) -> String {
        match self {
            Ask::MakeDirectory(_, name) => format!("making the directory {name}"),
            Ask::Look(_, name) => format!("looking up {name}"),
            Ask::Make(_, name) => format!("creating {name}"),
            Ask::Link(_, name, _) => format!("making the link {name}"),
            Ask::Write { file, .. } => {
                format!("writing {}", Name::file(*file % super::MOUNT_STRIDE))
            }
            Ask::Commit(_) => "committing a file".to_owned(),
            Ask::Cut(_, size) => format!("cutting a file to {size} bytes"),
            Ask::Attributes(_) => "asking for attributes".to_owned(),
        }
    }
}

/// What came back.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// NFS3_OK and any other status that the file service gave.
    pub status: nfsstat3,
    pub handle: Option<FileHandle>,
    pub found: Option<(ftype3, u64)>,
    pub count: u32,
    pub verifier: [u8; 8],
}

/// What a job does next.
pub enum Next {
    Call(Ask),
    Done,
    /// The status is not one that the job can go on with.
    Refused,
    /// What is there is not what ought to be.
    Wrong(String),
}

/// A chain of calls.
pub trait Job {
    /// The first call.
    fn first(&self) -> Ask;
    /// The call after an answer.
    fn next(&mut self, asked: &Ask, answer: &Answer) -> Next;
}

struct Running<J> {
    job: J,
    asked: Ask,
}

/// A connection for jobs.
pub struct Pipeline<'p> {
    pub engine: &'p mut Engine,
    pub content: &'p Content,
    pub server: &'p str,
    pub silence_limit_s: f64,
}

impl Pipeline<'_> {
    /// Runs all jobs; `done` gets each at its end, in no order.
    pub fn run<J: Job>(
        &mut self,
        jobs: impl Iterator<Item = J>,
        watch: &mut Watch<'_>,
        mut done: impl FnMut(J),
    ) -> Result<(), LoadError> {
        let mut jobs = jobs;
        let mut running: Vec<Option<Running<J>>> = (0..DEPTH).map(|_| None).collect();
        let mut ended: Vec<(usize, Result<Answer, CallError>)> = Vec::with_capacity(DEPTH);
        let mut last_ns = self.engine.clock().now_ns();
        let silence_ns = (self.silence_limit_s * 1e9) as u64;
        loop {
            for (slot, place) in running.iter_mut().enumerate() {
                if place.is_none()
                    && let Some(job) = jobs.next()
                {
                    let asked = job.first();
                    self.submit(&asked, slot)?;
                    *place = Some(Running { job, asked });
                }
            }
            if running.iter().all(Option::is_none) {
                return Ok(());
            }
            let sink = &mut |end: Completion<'_>| {
                let slot = usize::try_from(end.token).unwrap_or(usize::MAX);
                if let Some(Some(run)) = running.get(slot) {
                    ended.push((slot, answer(&run.asked, end)));
                }
            };
            let polled = self.engine.poll(Some(Duration::from_nanos(TICK_NS)), sink);
            polled.map_err(|error| LoadError::System {
                what: "epoll",
                why: error.to_string(),
            })?;
            let now_ns = self.engine.clock().now_ns();
            if !ended.is_empty() {
                last_ns = now_ns;
            }
            for (slot, answer) in ended.drain(..) {
                let Some(run) = running.get_mut(slot).and_then(Option::take) else {
                    continue;
                };
                if let (Ask::Write { .. }, Ok(taken)) = (&run.asked, &answer) {
                    watch.written_bytes += u64::from(taken.count);
                }
                if let Some(job) = self.step(run, answer, (slot, &mut running))? {
                    watch.done();
                    done(job);
                }
            }
            watch.look(now_ns)?;
            if now_ns.saturating_sub(last_ns) > silence_ns {
                let waits = running.iter().flatten().next();
                return Err(LoadError::Silent {
                    server: self.server.to_owned(),
                    doing: waits.map_or_else(String::new, |run| run.asked.doing()),
                    seconds: self.silence_limit_s,
                });
            }
        }
    }

    /// Takes a job one call on; gives it back at its end.
    fn step<J: Job>(
        &mut self,
        mut run: Running<J>,
        answer: Result<Answer, CallError>,
        (slot, running): (usize, &mut [Option<Running<J>>]),
    ) -> Result<Option<J>, LoadError> {
        let failed = |asked: &Ask, source| LoadError::Call {
            server: self.server.to_owned(),
            doing: asked.doing(),
            source,
        };
        let answer = answer.map_err(|source| failed(&run.asked, source))?;
        match run.job.next(&run.asked, &answer) {
            Next::Done => Ok(Some(run.job)),
            Next::Refused => Err(failed(&run.asked, CallError::Nfs(answer.status))),
            Next::Wrong(why) => Err(LoadError::FileSet {
                server: self.server.to_owned(),
                why,
                fix: "Remove the directory on the server, or name another one in \
                      file_set.directory; it is made anew then."
                    .to_owned(),
            }),
            Next::Call(asked) => {
                self.submit(&asked, slot)?;
                run.asked = asked;
                if let Some(place) = running.get_mut(slot) {
                    *place = Some(run);
                }
                Ok(None)
            }
        }
    }

    fn submit(&mut self, asked: &Ask, slot: usize) -> Result<(), LoadError> {
        let token = slot as u64;
        let engine = &mut *self.engine;
        let taken = match asked {
            Ask::MakeDirectory(dir, name) => {
                let arguments = v3::MKDIR3args {
                    where_: place(dir, name),
                    attributes: sattr3 {
                        mode: Some(0o755),
                        ..sattr3::UNCHANGED
                    },
                };
                engine.submit_typed::<MkDir>(&arguments, token)
            }
            Ask::Look(dir, name) => {
                let what = place(dir, name);
                engine.submit_typed::<Lookup>(&v3::LOOKUP3args { what }, token)
            }
            Ask::Make(dir, name) => {
                let how = createhow3::UNCHECKED(sattr3 {
                    mode: Some(0o644),
                    size: Some(0),
                    ..sattr3::UNCHANGED
                });
                let where_ = place(dir, name);
                engine.submit_typed::<Create>(&v3::CREATE3args { where_, how }, token)
            }
            Ask::Link(dir, name, text) => {
                let symlink = v3::symlinkdata3 {
                    symlink_attributes: sattr3::UNCHANGED,
                    symlink_data: v3::nfspath3(text.as_bytes()),
                };
                let where_ = place(dir, name);
                engine.submit_typed::<SymLink>(&v3::SYMLINK3args { where_, symlink }, token)
            }
            Ask::Write { .. } | Ask::Commit(_) | Ask::Cut(..) | Ask::Attributes(_) => {
                submit_to_file(engine, self.content, asked, token)
            }
        };
        taken.map_err(|source| LoadError::Call {
            server: self.server.to_owned(),
            doing: asked.doing(),
            source,
        })
    }
}

fn submit_to_file(
    engine: &mut Engine,
    content: &Content,
    asked: &Ask,
    token: u64,
) -> Result<(), CallError> {
    match asked {
        Ask::Write {
            handle,
            file,
            offset,
            count,
            stable,
        } => {
            let arguments = v3::WRITE3args {
                file: handle.as_fh(),
                offset: *offset,
                count: *count,
                stable: *stable,
                data: v3::payload3(content.bytes(*file, *offset, *count)),
            };
            let payload = content.payload(*file, *offset, *count);
            engine.submit_write(None, arguments, payload, token)
        }
        Ask::Commit(handle) => {
            let arguments = v3::COMMIT3args {
                file: handle.as_fh(),
                offset: 0,
                count: 0,
            };
            engine.submit_typed::<Commit>(&arguments, token)
        }
        Ask::Cut(handle, size) => {
            let arguments = v3::SETATTR3args {
                object: handle.as_fh(),
                new_attributes: sattr3 {
                    size: Some(*size),
                    ..sattr3::UNCHANGED
                },
                guard: None,
            };
            engine.submit_typed::<SetAttr>(&arguments, token)
        }
        Ask::Attributes(handle) => {
            let object = handle.as_fh();
            engine.submit_typed::<GetAttr>(&v3::GETATTR3args { object }, token)
        }
        _ => Err(CallError::Protocol("a call about a name")),
    }
}

fn place<'a>(dir: &'a FileHandle, name: &'a Name) -> diropargs3<'a> {
    diropargs3 {
        dir: dir.as_fh(),
        name: filename3(name.as_bytes()),
    }
}

fn known(attributes: Option<v3::fattr3>) -> Option<(ftype3, u64)> {
    attributes.map(|attributes| (attributes.type_, attributes.size))
}

fn answer(asked: &Ask, end: Completion<'_>) -> Result<Answer, CallError> {
    let nothing = |status| Answer {
        status,
        handle: None,
        found: None,
        count: 0,
        verifier: [0; 8],
    };
    let ok = nothing(nfsstat3::NFS3_OK);
    let made = |result: v3::CREATE3res<'_>| {
        Ok(match result {
            Res::Ok(made) => Answer {
                handle: made.obj.map(FileHandle::try_from).transpose()?,
                found: known(made.obj_attributes),
                ..ok
            },
            Res::Fail(status, _) => nothing(status),
        })
    };
    match asked {
        Ask::MakeDirectory(..) => decode::<MkDir>(end.result).and_then(made),
        Ask::Make(..) => decode::<Create>(end.result).and_then(made),
        Ask::Link(..) => decode::<SymLink>(end.result).and_then(made),
        Ask::Look(..) => Ok(match decode::<Lookup>(end.result)? {
            Res::Ok(found) => Answer {
                handle: Some(found.object.try_into()?),
                found: known(found.obj_attributes),
                ..ok
            },
            Res::Fail(status, _) => nothing(status),
        }),
        Ask::Write { .. } => Ok(match decode::<Write>(end.result)? {
            Res::Ok(written) => Answer {
                count: written.count,
                verifier: written.verf,
                ..ok
            },
            Res::Fail(status, _) => nothing(status),
        }),
        Ask::Commit(_) => Ok(match decode::<Commit>(end.result)? {
            Res::Ok(safe) => Answer {
                verifier: safe.verf,
                ..ok
            },
            Res::Fail(status, _) => nothing(status),
        }),
        Ask::Cut(..) => Ok(nothing(decode::<SetAttr>(end.result)?.status())),
        Ask::Attributes(_) => Ok(match decode::<GetAttr>(end.result)? {
            Res::Ok(found) => Answer {
                found: known(Some(found.obj_attributes)),
                ..ok
            },
            Res::Fail(status, ()) => nothing(status),
        }),
    }
}
