//! One file, MOUNT and a portmapper on one port, in a thread: enough of a server to mount, read,
//! write and commit, and to be restarted in between.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use wire::mount as mnt;
use wire::nfs3::{self as v3, Res, nfsstat3, procedure as nfs};
use wire::portmap::{mapping, rpcb, rpcb_string};
use wire::programs::{MOUNT, NFS, PORTMAP};
use wire::xdr::{Counted, Linked};
use wire::{Decode, Encode};

use super::{Arrived, Peer};

pub const ROOT: &[u8] = b"root";
pub const FILE: &[u8] = b"the-file";

/// What the server has and does.
#[derive(Debug, Default)]
pub struct State {
    /// On stable storage.
    pub stable: Vec<u8>,
    /// As read: stable storage and what was written UNSTABLE since.
    pub view: Vec<u8>,
    pub verifier: u64,
    /// Statuses to be answered to the next WRITEs instead of taking them.
    pub write_failures: VecDeque<nfsstat3>,
    pub commit_failures: VecDeque<nfsstat3>,
    /// JUKEBOX answers to the next GETATTRs.
    pub jukeboxes: u32,
    /// Most bytes taken by one WRITE, given by one READ.
    pub write_limit: Option<usize>,
    pub read_limit: Option<usize>,
    /// Restart (lose what is not stable) just before the n-th COMMIT from now.
    pub restart_before_commits: u32,
    /// Close the connection instead of answering, so many times.
    pub closes: u32,
    /// Answer no WRITE.
    pub holds_writes: bool,
    /// What was asked: procedure, offset, length.
    pub log: Vec<(u32, u64, usize)>,
}

impl State {
    fn restart(&mut self) {
        self.view = self.stable.clone();
        self.verifier += 1;
    }
}

pub struct MemoryServer {
    pub address: SocketAddr,
    pub state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryServer {
    pub fn start(address: &str) -> Self {
        let mut peer = Peer::tcp(address);
        let address = peer.address;
        let state = Arc::new(Mutex::new(State::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (inside, ends) = (Arc::clone(&state), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut held = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                peer.wait();
                let arrived = peer.pump();
                let mut state = inside.lock().unwrap();
                if !state.holds_writes {
                    let waiting = std::mem::take(&mut held);
                    waiting
                        .iter()
                        .for_each(|call| answer(&mut peer, &mut state, call));
                }
                for call in arrived {
                    if state.holds_writes && call.target == [NFS, 3, nfs::WRITE] {
                        held.push(call);
                    } else {
                        answer(&mut peer, &mut state, &call);
                    }
                }
            }
        });
        MemoryServer {
            address,
            state,
            stop,
            thread: Some(thread),
        }
    }

    /// The state, to look at or to change.
    pub fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    pub fn restart(&self) {
        self.with(State::restart);
    }

    /// Calls of a procedure so far.
    pub fn calls(&self, procedure: u32) -> Vec<(u64, usize)> {
        self.with(|state| {
            let of = state.log.iter().filter(|(asked, ..)| *asked == procedure);
            of.map(|(_, offset, length)| (*offset, *length)).collect()
        })
    }
}

impl Drop for MemoryServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

fn answer(peer: &mut Peer, state: &mut State, call: &Arrived) {
    if state.closes > 0 {
        state.closes -= 1;
        peer.close(call.connection);
        return;
    }
    let mut out = Vec::new();
    match call.target {
        [NFS, 3, procedure] => nfs_answer(state, procedure, &call.arguments, &mut out),
        [MOUNT, 3, procedure] => mount_answer(procedure, &call.arguments, &mut out),
        [PORTMAP, 2, 3] => {
            let asked = mapping::decode_whole(&call.arguments, "mapping").unwrap();
            let known = [NFS, MOUNT].contains(&asked.prog) && asked.prot == 6;
            let port = if known {
                u32::from(peer.address.port())
            } else {
                0
            };
            port.encode(&mut out).unwrap();
        }
        [PORTMAP, 4, 3] => {
            let asked = rpcb::decode_whole(&call.arguments, "rpcb").unwrap();
            assert_eq!(asked.r_netid.0, b"tcp6");
            let [high, low] = peer.address.port().to_be_bytes();
            let address = format!("::1.{high}.{low}");
            rpcb_string(address.as_bytes()).encode(&mut out).unwrap();
        }
        other => panic!("not asked for: {other:?}"),
    }
    peer.reply(call, &out);
}

fn mount_answer(procedure: u32, arguments: &[u8], out: &mut Vec<u8>) {
    match procedure {
        mnt::procedure::MNT => {
            let path = mnt::dirpath::decode_whole(arguments, "dirpath").unwrap();
            let result = match path.0 {
                b"/export" => mnt::mountres3::Ok(mnt::mountres3_ok {
                    fhandle: mnt::fhandle3(ROOT),
                    auth_flavors: Counted(vec![1]),
                }),
                b"/kerberos" => mnt::mountres3::Ok(mnt::mountres3_ok {
                    fhandle: mnt::fhandle3(ROOT),
                    auth_flavors: Counted(vec![390_003]),
                }),
                _ => mnt::mountres3::Fail(mnt::mountstat3::MNT3ERR_NOENT),
            };
            result.encode(out).unwrap();
        }
        mnt::procedure::DUMP => {
            let body = mnt::mountbody {
                ml_hostname: mnt::name(b"me"),
                ml_directory: mnt::dirpath(b"/export"),
            };
            Linked(vec![body]).encode(out).unwrap();
        }
        mnt::procedure::EXPORT => {
            let node = mnt::exportnode {
                ex_dir: mnt::dirpath(b"/export"),
                ex_groups: Linked(vec![mnt::name(b"everyone")]),
            };
            Linked(vec![node]).encode(out).unwrap();
        }
        _ => {}
    }
}

fn attributes(state: &State) -> v3::fattr3 {
    let time = v3::nfstime3 {
        seconds: 1,
        nseconds: 2,
    };
    v3::fattr3::plain_file(state.view.len() as u64, time)
}

const NO_WCC: v3::wcc_data = v3::wcc_data {
    before: None,
    after: None,
};

fn nfs_answer(state: &mut State, procedure: u32, arguments: &[u8], out: &mut Vec<u8>) {
    match procedure {
        nfs::NULL => {}
        nfs::GETATTR => {
            state.log.push((procedure, 0, 0));
            let result: v3::GETATTR3res = if state.jukeboxes > 0 {
                state.jukeboxes -= 1;
                Res::Fail(nfsstat3::NFS3ERR_JUKEBOX, ())
            } else {
                Res::Ok(v3::GETATTR3resok {
                    obj_attributes: attributes(state),
                })
            };
            result.encode(out).unwrap();
        }
        nfs::LOOKUP => {
            let asked = v3::LOOKUP3args::decode_whole(arguments, "LOOKUP").unwrap();
            let result: v3::LOOKUP3res<'_> = if asked.what.name.0 == b"file" {
                Res::Ok(v3::LOOKUP3resok {
                    object: v3::nfs_fh3(FILE),
                    obj_attributes: Some(attributes(state)),
                    dir_attributes: None,
                })
            } else {
                Res::Fail(nfsstat3::NFS3ERR_NOENT, None)
            };
            result.encode(out).unwrap();
        }
        nfs::READ => read(state, arguments).encode(out).unwrap(),
        nfs::WRITE => write(state, arguments).encode(out).unwrap(),
        nfs::COMMIT => commit(state, arguments).encode(out).unwrap(),
        nfs::FSINFO => {
            let result: v3::FSINFO3res = Res::Ok(v3::FSINFO3resok {
                obj_attributes: None,
                rtmax: 1 << 16,
                rtpref: 1 << 15,
                rtmult: 1,
                wtmax: 1 << 16,
                wtpref: 1 << 15,
                wtmult: 1,
                dtpref: 1 << 12,
                maxfilesize: u64::MAX,
                time_delta: v3::nfstime3 {
                    seconds: 0,
                    nseconds: 1,
                },
                properties: 0,
            });
            result.encode(out).unwrap();
        }
        other => panic!("procedure {other}"),
    }
}

/// Owned, as it is built from the state.
struct ReadAnswer(Vec<u8>, bool, v3::fattr3);

impl Encode for ReadAnswer {
    fn encode(&self, out: &mut Vec<u8>) -> wire::Result<()> {
        let result: v3::READ3res<'_> = Res::Ok(v3::READ3resok {
            file_attributes: Some(self.2),
            count: u32::try_from(self.0.len()).unwrap(),
            eof: self.1,
            data: v3::payload3(&self.0),
        });
        result.encode(out)
    }
}

fn read(state: &mut State, arguments: &[u8]) -> ReadAnswer {
    let asked = v3::READ3args::decode_whole(arguments, "READ").unwrap();
    let length = (asked.count as usize).min(state.read_limit.unwrap_or(usize::MAX));
    state
        .log
        .push((nfs::READ, asked.offset, asked.count as usize));
    let start = usize::try_from(asked.offset).unwrap().min(state.view.len());
    let end = (start + length).min(state.view.len());
    let eof = end == state.view.len();
    ReadAnswer(state.view[start..end].to_vec(), eof, attributes(state))
}

fn write(state: &mut State, arguments: &[u8]) -> v3::WRITE3res {
    let asked = v3::WRITE3args::decode_whole(arguments, "WRITE").unwrap();
    assert_eq!(asked.file.0, FILE);
    state
        .log
        .push((nfs::WRITE, asked.offset, asked.data.0.len()));
    if let Some(status) = state.write_failures.pop_front() {
        return Res::Fail(status, NO_WCC);
    }
    let taken = asked
        .data
        .0
        .len()
        .min(state.write_limit.unwrap_or(usize::MAX));
    let start = usize::try_from(asked.offset).unwrap();
    let put = |bytes: &mut Vec<u8>| {
        bytes.resize(bytes.len().max(start + taken), 0);
        bytes[start..start + taken].copy_from_slice(&asked.data.0[..taken]);
    };
    put(&mut state.view);
    if asked.stable != v3::stable_how::UNSTABLE {
        put(&mut state.stable);
    }
    Res::Ok(v3::WRITE3resok {
        file_wcc: v3::wcc_data {
            before: None,
            after: Some(attributes(state)),
        },
        count: u32::try_from(taken).unwrap(),
        committed: asked.stable,
        verf: state.verifier.to_be_bytes(),
    })
}

fn commit(state: &mut State, arguments: &[u8]) -> v3::COMMIT3res {
    let asked = v3::COMMIT3args::decode_whole(arguments, "COMMIT").unwrap();
    assert_eq!((asked.offset, asked.count), (0, 0));
    state.log.push((nfs::COMMIT, 0, 0));
    if let Some(status) = state.commit_failures.pop_front() {
        return Res::Fail(status, NO_WCC);
    }
    if state.restart_before_commits > 0 {
        state.restart_before_commits -= 1;
        state.restart();
    }
    state.stable = state.view.clone();
    Res::Ok(v3::COMMIT3resok {
        file_wcc: v3::wcc_data {
            before: None,
            after: Some(attributes(state)),
        },
        verf: state.verifier.to_be_bytes(),
    })
}
