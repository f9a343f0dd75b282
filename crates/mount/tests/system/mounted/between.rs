//! Between client and server over TCP: hands on what they say to each other, answers calls in the
//! server's place, or falls silent as a server does that was stopped.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use wire::rpc::{OpaqueAuth, ReplyStatus, encode_reply};

/// What is said in the server's place.
pub enum Said {
    /// SUCCESS, with these results.
    Results(Vec<u8>),
    Status(ReplyStatus),
}

/// Looks at program and procedure of a call; `None` leaves it to the server.
pub type Answers = Box<dyn FnMut([u32; 2]) -> Option<Said> + Send>;

struct Inside {
    server: SocketAddr,
    silent: AtomicBool,
    /// Calls that came while it was silent, to be handed on afterwards.
    held: Mutex<Vec<(Arc<Pair>, Vec<u8>)>>,
    answers: Mutex<Answers>,
    over: AtomicBool,
}

struct Pair {
    client: Mutex<TcpStream>,
    server: Mutex<TcpStream>,
}

pub struct Between {
    pub port: u16,
    inside: Arc<Inside>,
    thread: Option<JoinHandle<()>>,
}

impl Between {
    pub fn new(server_port: u16, answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let inside = Arc::new(Inside {
            server: SocketAddr::from(([127, 0, 0, 1], server_port)),
            silent: AtomicBool::new(false),
            held: Mutex::default(),
            answers: Mutex::new(answers),
            over: AtomicBool::new(false),
        });
        let here = Arc::clone(&inside);
        let thread = std::thread::spawn(move || here.accept(&listener));
        Between {
            port,
            inside,
            thread: Some(thread),
        }
    }

    /// Takes calls and answers none.
    pub fn fall_silent(&self) {
        self.inside.silent.store(true, Ordering::SeqCst);
    }

    /// Speaks again: also of what it was asked meanwhile.
    pub fn speak(&self) {
        let mut held = self.inside.held.lock().unwrap();
        self.inside.silent.store(false, Ordering::SeqCst);
        for (pair, record) in held.drain(..) {
            pair.server.lock().unwrap().write_all(&record).unwrap();
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.inside.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Inside {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        loop {
            let (client, _) = listener.accept().unwrap();
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let server = TcpStream::connect(self.server).unwrap();
            let (calls, replies) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let pair = Arc::new(Pair {
                client: Mutex::new(client),
                server: Mutex::new(server),
            });
            let (inside, there) = (Arc::clone(&self), Arc::clone(&pair));
            std::thread::spawn(move || inside.take_calls(calls, &there));
            std::thread::spawn(move || {
                take_replies(replies, &pair);
            });
        }
    }

    fn take_calls(&self, mut calls: TcpStream, pair: &Arc<Pair>) {
        while let Some(record) = read_record(&mut calls) {
            let word = |at: usize| u32::from_be_bytes(record[at..at + 4].try_into().unwrap());
            // Behind the record mark: xid, CALL, 2, program, version, procedure.
            let said = (self.answers.lock().unwrap())([word(16), word(24)]);
            if let Some(said) = said {
                let reply = reply(word(4), &said);
                pair.client.lock().unwrap().write_all(&reply).unwrap();
                continue;
            }
            let mut held = self.held.lock().unwrap();
            if self.silent.load(Ordering::SeqCst) {
                held.push((Arc::clone(pair), record));
                continue;
            }
            drop(held);
            if pair.server.lock().unwrap().write_all(&record).is_err() {
                break;
            }
        }
        let _ = pair.server.lock().unwrap().shutdown(Shutdown::Both);
    }
}

fn take_replies(mut replies: TcpStream, pair: &Pair) {
    while let Some(record) = read_record(&mut replies) {
        if pair.client.lock().unwrap().write_all(&record).is_err() {
            break;
        }
    }
    let _ = pair.client.lock().unwrap().shutdown(Shutdown::Both);
}

/// A record of one fragment with its mark (RFC 5531 section 11); `None` at the end.
fn read_record(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    from.read_exact(&mut mark).ok()?;
    let length = u32::from_be_bytes(mark);
    assert!(length & 0x8000_0000 != 0, "one fragment");
    let mut record = mark.to_vec();
    record.resize(4 + (length & 0x7fff_ffff) as usize, 0);
    from.read_exact(&mut record[4..]).ok()?;
    Some(record)
}

fn reply(xid: u32, said: &Said) -> Vec<u8> {
    let (status, results) = match said {
        Said::Results(results) => (ReplyStatus::Success, results.as_slice()),
        Said::Status(status) => (*status, [].as_slice()),
    };
    let mut body = Vec::new();
    encode_reply(&mut body, xid, &OpaqueAuth::NONE, status).unwrap();
    body.extend_from_slice(results);
    let mark = u32::try_from(body.len()).unwrap() | 0x8000_0000;
    [mark.to_be_bytes().as_slice(), &body].concat()
}
