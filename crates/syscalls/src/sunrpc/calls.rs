//! From tracepoints to calls: what the client's and the server's events say together.
//!
//! A call of the client is one event, when it ends: its three times count back from there. Behind
//! it the same thread tells which bytes of which file it was about, if it was about any
//! (net/sunrpc/sched.c, rpc_exit_task: calls are counted, then the reply is seen to). A request of
//! the server is six events of one thread, which has one request at a time.

use std::collections::HashMap;

const NS_PER_US: u64 = 1000;
/// What a call was about is told at most so long after its end.
pub const PAIR_NS: u64 = 1_000_000;
/// Calls that are about bytes of a file, by the kernel's names.
const ON_DATA: [&str; 4] = ["READ", "READ_PLUS", "WRITE", "COMMIT"];

/// What a tracepoint said; times in microseconds, as the kernel has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// `rpc_stats_latency`: a call of the client has ended.
    Ended(Ended),
    /// `nfs_readpage_done` and the like: what the call was about that this thread has just ended.
    OnData(OnData),
    /// `xprt_retransmit`: it was sent once more.
    SentAgain {
        /// Task.
        task: (u32, u32),
    },
    /// `svc_xprt_dequeue`: a thread of the server takes a connection on which something arrived.
    Taken {
        /// Since it was put into the queue.
        waited_us: u64,
    },
    /// `svc_xdr_recvfrom`: it has read a request.
    Read {
        /// Transaction id.
        xid: u32,
        /// Of the request, without the record mark.
        bytes: u32,
    },
    /// `svc_process`: the thread begins with a request.
    Begun {
        /// Transaction id.
        xid: u32,
        /// Version of the program.
        version: u32,
        /// Procedure.
        procedure: u32,
        /// Of which program, by the kernel's name.
        program: String,
    },
    /// `svc_xdr_sendto`: the reply is about to be sent.
    Written {
        /// Transaction id.
        xid: u32,
        /// Of the reply, without the record mark.
        bytes: u32,
    },
    /// `svc_stats_latency`: the reply is ready.
    Done {
        /// Transaction id.
        xid: u32,
        /// Since the request had been read.
        took_us: u64,
    },
    /// `svc_send`: the reply was given to the socket.
    Answered {
        /// Transaction id.
        xid: u32,
    },
}

/// An ended call, as `rpc_stats_latency` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Client and task in the kernel.
    pub task: (u32, u32),
    /// Transaction id.
    pub xid: u32,
    /// Version of the program.
    pub version: u32,
    /// By the kernel's name.
    pub program: String,
    /// By the kernel's name.
    pub operation: String,
    /// From its begin until it was sent last.
    pub queued_us: u64,
    /// From being sent last until the reply; 0: there was none.
    pub round_trip_us: u64,
    /// From its begin until its end.
    pub whole_us: u64,
}

/// Which bytes a READ, WRITE or COMMIT was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnData {
    /// The server's number of the file.
    pub file_id: u64,
    /// First byte.
    pub offset: u64,
    /// How many were asked for; 0 of a COMMIT.
    pub count: u32,
    /// Without an error.
    pub is_ok: bool,
}

/// What was said, when, and by which thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Thread.
    pub tid: u32,
    /// What.
    pub what: What,
}

/// A call of the kernel's client. Instants: CLOCK_MONOTONIC, all but `completed_ns` to 1 us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCall {
    /// What the kernel calls a client: a mount and its connections.
    pub client: u32,
    /// Transaction id.
    pub xid: u32,
    /// Version of the program.
    pub version: u32,
    /// By the kernel's name.
    pub program: String,
    /// By the kernel's name.
    pub operation: String,
    /// Begun.
    pub enqueued_ns: u64,
    /// Sent, the last time.
    pub sent_ns: u64,
    /// Reply there; None: there was none.
    pub replied_ns: Option<u64>,
    /// Ended.
    pub completed_ns: u64,
    /// How often it was sent.
    pub sends: u32,
    /// What it was about; None: about no data, or it was not told.
    pub data: Option<OnData>,
}

/// A request of the kernel's server. Instants: CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedCall {
    /// Transaction id.
    pub xid: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure.
    pub procedure: u32,
    /// By the kernel's name.
    pub program: String,
    /// Of the request, without the record mark.
    pub call_bytes: u32,
    /// Of the reply, without the record mark.
    pub reply_bytes: u32,
    /// Its connection waits for a thread since then.
    pub received_ns: u64,
    /// A thread has read it.
    pub started_ns: u64,
    /// The reply is ready.
    pub finished_ns: u64,
    /// The reply is with the socket.
    pub sent_ns: u64,
}

/// Events on their way to calls.
#[derive(Debug, Default)]
pub struct Calls {
    sent_again: HashMap<(u32, u32), u32>,
    threads: HashMap<u32, Thread>,
    /// The last call on data that each thread ended, until it tells what it was about.
    untold: HashMap<u32, ClientCall>,
    client: Vec<ClientCall>,
    /// Those that were answered.
    pub served: Vec<ServedCall>,
}

/// What one thread of the server is at.
#[derive(Debug, Default)]
struct Thread {
    received_ns: Option<u64>,
    /// Transaction id and bytes of what it has read.
    read: Option<(u32, u32)>,
    call: Option<ServedCall>,
}

impl Calls {
    /// The next event of all threads.
    pub fn take(&mut self, event: Event) {
        let Event { at_ns, tid, what } = event;
        match what {
            What::Ended(ended) => self.ended(at_ns, tid, ended),
            What::OnData(data) => {
                if let Some(mut call) = self.untold.remove(&tid) {
                    call.data = Some(data);
                    self.client.push(call);
                }
            }
            What::SentAgain { task } => *self.sent_again.entry(task).or_default() += 1,
            What::Taken { waited_us } => {
                let thread = self.threads.entry(tid).or_default();
                thread.received_ns = Some(at_ns.saturating_sub(waited_us * NS_PER_US));
                thread.read = None;
                thread.call = None;
            }
            What::Read { xid, bytes } => {
                self.threads.entry(tid).or_default().read = Some((xid, bytes));
            }
            What::Written { xid, bytes } => {
                if let Some(call) = self.at(tid, xid) {
                    call.reply_bytes = bytes;
                }
            }
            What::Begun {
                xid,
                version,
                procedure,
                program,
            } => {
                // Without its begin nothing is known of how long it waited: no row.
                if let Some(thread) = self.threads.get_mut(&tid) {
                    let read = thread.read.take().filter(|read| read.0 == xid);
                    let known = thread.received_ns.take().zip(read);
                    thread.call = known.map(|(received_ns, (_, call_bytes))| ServedCall {
                        xid,
                        version,
                        procedure,
                        program,
                        call_bytes,
                        received_ns,
                        ..ServedCall::default()
                    });
                }
            }
            What::Done { xid, took_us } => {
                if let Some(call) = self.at(tid, xid) {
                    call.finished_ns = at_ns;
                    // The wait is told in whole microseconds, too.
                    let started_ns = at_ns.saturating_sub(took_us * NS_PER_US);
                    call.started_ns = started_ns.max(call.received_ns);
                }
            }
            What::Answered { xid } => {
                let whole = |call: &mut ServedCall| call.finished_ns != 0 && call.reply_bytes != 0;
                let done = self.at(tid, xid).is_some_and(whole);
                let thread = self.threads.get_mut(&tid).filter(|_| done);
                if let Some(mut call) = thread.and_then(|thread| thread.call.take()) {
                    call.sent_ns = at_ns;
                    self.served.push(call);
                }
            }
        }
    }

    fn at(&mut self, tid: u32, xid: u32) -> Option<&mut ServedCall> {
        let call = self.threads.get_mut(&tid)?.call.as_mut();
        call.filter(|call| call.xid == xid)
    }

    /// Takes the client's calls that ended until then, in order; events were taken until
    /// [`PAIR_NS`] after it.
    pub fn ended_until(&mut self, until_ns: u64) -> Vec<ClientCall> {
        let ended = |call: &mut ClientCall| call.completed_ns <= until_ns;
        let untold = self.untold.extract_if(|_, call| ended(call));
        self.client.extend(untold.map(|(_, call)| call));
        let mut found: Vec<_> = self.client.extract_if(.., ended).collect();
        found.sort_by_key(|call| call.completed_ns);
        found
    }

    fn ended(&mut self, at_ns: u64, tid: u32, ended: Ended) {
        let again = self.sent_again.remove(&ended.task).unwrap_or_default();
        let enqueued_ns = at_ns.saturating_sub(ended.whole_us * NS_PER_US);
        let sent_ns = (enqueued_ns + ended.queued_us * NS_PER_US).min(at_ns);
        let replied_ns = (sent_ns + ended.round_trip_us * NS_PER_US).min(at_ns);
        let on_data = ON_DATA.contains(&ended.operation.as_str());
        let call = ClientCall {
            client: ended.task.0,
            xid: ended.xid,
            version: ended.version,
            program: ended.program,
            operation: ended.operation,
            enqueued_ns,
            sent_ns,
            replied_ns: (ended.round_trip_us > 0).then_some(replied_ns),
            completed_ns: at_ns,
            sends: again.saturating_add(1),
            data: None,
        };
        let whole = match on_data {
            true => self.untold.insert(tid, call),
            false => Some(call),
        };
        self.client.extend(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XID: u32 = 7;

    fn ended(round_trip_us: u64) -> What {
        What::Ended(Ended {
            task: (1, 2),
            xid: XID,
            version: 3,
            program: "nfs".to_owned(),
            operation: "WRITE".to_owned(),
            queued_us: 30,
            round_trip_us,
            whole_us: 1000,
        })
    }

    fn all(events: &[(u64, u32, What)]) -> Calls {
        let mut calls = Calls::default();
        for (at_ns, tid, what) in events.iter().cloned() {
            calls.take(Event { at_ns, tid, what });
        }
        calls
    }

    #[test]
    fn a_calls_times_count_back_from_its_end() {
        let again = What::SentAgain { task: (1, 2) };
        let found =
            all(&[(9_000_000, 5, again), (10_000_000, 5, ended(950))]).ended_until(u64::MAX);
        assert_eq!(found.len(), 1);
        let call = &found[0];
        assert_eq!((call.enqueued_ns, call.sent_ns), (9_000_000, 9_030_000));
        assert_eq!(
            (call.replied_ns, call.completed_ns),
            (Some(9_980_000), 10_000_000)
        );
        assert_eq!(call.sends, 2);
        // The next task of that number has been sent once again.
        let found = all(&[(10_000_000, 5, ended(0))]).ended_until(u64::MAX);
        assert_eq!((found[0].sends, found[0].replied_ns), (1, None));
    }

    #[test]
    fn a_call_is_about_what_its_thread_tells_next() {
        let about = |file_id| OnData {
            file_id,
            offset: 8192,
            count: 4096,
            is_ok: true,
        };
        let events = [
            (1_000_000, 5, ended(9)),
            (1_000_001, 6, ended(9)),
            (1_000_002, 6, What::OnData(about(60))),
            (1_000_003, 5, What::OnData(about(50))),
            (1_000_004, 5, What::OnData(about(51))), // of a call that was not seen
            (1_000_005, 5, ended(9)),
            (1_000_006, 5, ended(9)),
        ];
        let mut calls = all(&events);
        let found = calls.ended_until(1_000_005);
        let file = |call: &ClientCall| call.data.map(|data| data.file_id);
        let files: Vec<_> = found.iter().map(file).collect();
        assert_eq!(files, [Some(50), Some(60), None]);
        assert_eq!(
            calls.ended_until(1_000_005),
            [],
            "the last one may still be told"
        );
        assert_eq!(calls.ended_until(1_000_006).len(), 1);
    }

    fn request(tid: u32, xid: u32, at_us: u64) -> Vec<(u64, u32, What)> {
        let begun = What::Begun {
            xid,
            version: 3,
            procedure: 7,
            program: "nfsd".to_owned(),
        };
        let after = |us: u64| (at_us + us) * NS_PER_US;
        vec![
            (after(20), tid, What::Taken { waited_us: 20 }),
            (after(22), tid, What::Read { xid, bytes: 160 }),
            (after(25), tid, begun),
            (after(124), tid, What::Written { xid, bytes: 136 }),
            (after(125), tid, What::Done { xid, took_us: 103 }),
            (after(140), tid, What::Answered { xid }),
        ]
    }

    #[test]
    fn requests_of_threads_side_by_side_are_told_apart() {
        let mut events = [request(1, 70, 1000), request(2, 71, 1003)].concat();
        events.sort_by_key(|event| event.0);
        let found = all(&events).served;
        let instants = |call: &ServedCall| {
            [
                call.received_ns,
                call.started_ns,
                call.finished_ns,
                call.sent_ns,
            ]
            .map(|ns| ns / NS_PER_US)
        };
        assert_eq!(
            found.iter().map(|call| call.xid).collect::<Vec<_>>(),
            [70, 71]
        );
        assert_eq!(instants(&found[0]), [1000, 1022, 1125, 1140]);
        assert_eq!(instants(&found[1]), [1003, 1025, 1128, 1143]);
        assert_eq!((found[1].call_bytes, found[1].reply_bytes), (160, 136));
    }

    #[test]
    fn a_request_that_is_not_seen_whole_is_no_row() {
        let whole = request(1, 70, 1000);
        for missing in 0..whole.len() {
            let mut events = whole.clone();
            events.remove(missing);
            assert_eq!(all(&events).served, []);
        }
        // Dropped (no reply), then the next one of that thread.
        let events = [whole[..4].to_vec(), request(1, 71, 2000)].concat();
        let found = all(&events).served;
        assert_eq!(found.iter().map(|call| call.xid).collect::<Vec<_>>(), [71]);
    }
}
