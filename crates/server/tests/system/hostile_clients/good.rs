//! A client as it should be, and one that works all the time and checks every answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wire::Encode;
use wire::mount::{dirpath, mountres3};
use wire::nfs3::*;
use wire::rpc::Reply;

use super::target::At;
use crate::calls::{MOUNT3, NFS3, at, call, decoded};

/// A call with its record mark.
pub fn record(message: &[u8]) -> Vec<u8> {
    let mark = 0x8000_0000 | message.len() as u32;
    [&mark.to_be_bytes(), message].concat()
}

pub struct Client {
    pub stream: TcpStream,
    xid: u32,
    pub calls: u64,
    pub longest: Duration,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Client {
            stream,
            // Two clients of one address with the same ids would be one that calls twice.
            xid: fastrand::u32(..),
            calls: 0,
            longest: Duration::ZERO,
        }
    }

    pub fn next_reply(&mut self) -> std::io::Result<Vec<u8>> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        assert!(mark & 0x8000_0000 != 0 && mark & 0x7fff_ffff < 1 << 21);
        let mut reply = vec![0; (mark & 0x7fff_ffff) as usize];
        self.stream.read_exact(&mut reply)?;
        Ok(reply)
    }

    pub fn send(&mut self, program: [u32; 2], number: u32, args: &impl Encode) -> u32 {
        self.xid = self.xid.wrapping_add(1);
        let message = call(self.xid, program, number, args);
        self.stream.write_all(&record(&message)).unwrap();
        self.xid
    }

    pub fn ask(&mut self, program: [u32; 2], number: u32, args: &impl Encode) -> Vec<u8> {
        let begun = Instant::now();
        let xid = self.send(program, number, args);
        let reply = self.next_reply().unwrap();
        self.longest = self.longest.max(begun.elapsed());
        self.calls += 1;
        assert_eq!(Reply::parse(&reply).unwrap().xid, xid);
        reply
    }

    /// Sends a NULL; its id is above those of mutated calls.
    pub fn mark(&mut self) -> u32 {
        self.xid |= 0x8000_0000;
        self.send(NFS3, 0, &())
    }

    pub fn null(&mut self) {
        self.ask(NFS3, 0, &());
    }

    pub fn mount(&mut self) -> Vec<u8> {
        match decoded::<mountres3<'_>>(&self.ask(MOUNT3, 1, &dirpath(b"/export"))) {
            mountres3::Ok(ok) => ok.fhandle.0.to_vec(),
            mountres3::Fail(status) => panic!("{status:?}"),
        }
    }

    pub fn create(&mut self, dir: &[u8], name: &[u8]) -> Vec<u8> {
        let how = createhow3::UNCHECKED(sattr3::UNCHANGED);
        let where_ = at(dir, name);
        let reply = self.ask(NFS3, 8, &CREATE3args { where_, how });
        match decoded::<CREATE3res<'_>>(&reply) {
            Res::Ok(ok) => ok.obj.unwrap().0.to_vec(),
            Res::Fail(status, _) => panic!("{status:?}"),
        }
    }

    pub fn remove(&mut self, dir: &[u8], name: &[u8]) {
        let object = at(dir, name);
        let reply = self.ask(NFS3, 12, &REMOVE3args { object });
        assert_eq!(decoded::<REMOVE3res>(&reply).status(), nfsstat3::NFS3_OK);
    }

    pub fn write(&mut self, file: &[u8], offset: u64, data: &[u8]) {
        let args = WRITE3args {
            file: nfs_fh3(file),
            offset,
            count: data.len() as u32,
            stable: stable_how::UNSTABLE,
            data: payload3(data),
        };
        let reply = self.ask(NFS3, 7, &args);
        let Res::Ok(done) = decoded::<WRITE3res>(&reply) else {
            panic!("WRITE")
        };
        assert_eq!(done.count as usize, data.len());
    }

    fn read(&mut self, file: &[u8], offset: u64, wanted: &[u8]) {
        let args = READ3args {
            file: nfs_fh3(file),
            offset,
            count: wanted.len() as u32,
        };
        let reply = self.ask(NFS3, 6, &args);
        let Res::Ok(done) = decoded::<READ3res<'_>>(&reply) else {
            panic!("READ")
        };
        assert!(done.data.0 == wanted, "the good client's own bytes");
    }
}

/// What the good client did: its calls, and the longest that a small one and one of 256 KiB took.
pub struct Worked {
    pub calls: u64,
    pub small: Duration,
    pub large: Duration,
}

pub struct GoodClient {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Worked>,
}

impl GoodClient {
    pub fn begin(at: &At) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopping, at) = (Arc::clone(&stop), at.clone());
        let ready = Arc::new(std::sync::Barrier::new(2));
        let inside = Arc::clone(&ready);
        let thread = std::thread::spawn(move || work(&at, &stopping, &inside));
        ready.wait();
        GoodClient { stop, thread }
    }

    pub fn end(self) -> Worked {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

/// Small and large calls, each answer checked.
fn work(at_: &At, stop: &AtomicBool, ready: &std::sync::Barrier) -> Worked {
    let mut client = Client::connect(at_.address);
    let name = format!("good{}", client.xid);
    let file = client.create(&at_.root, name.as_bytes());
    client.longest = Duration::ZERO;
    ready.wait();
    let (mut turn, mut large) = (0u64, Duration::ZERO);
    while !stop.load(Ordering::Acquire) {
        turn += 1;
        let size = match turn % 64 {
            0 => 256 << 10,
            _ => 1024,
        };
        let data = vec![turn as u8; size];
        let offset = turn % 7 * 5000;
        let small = client.longest;
        if size > 1024 {
            client.longest = Duration::ZERO;
        }
        client.write(&file, offset, &data);
        client.read(&file, offset, &data);
        if size > 1024 {
            large = large.max(client.longest);
            client.longest = small;
        }
        let what = at(&at_.root, name.as_bytes());
        let reply = client.ask(NFS3, 3, &LOOKUP3args { what });
        let Res::Ok(found) = decoded::<LOOKUP3res<'_>>(&reply) else {
            panic!("LOOKUP")
        };
        assert_eq!(found.object.0, file);
    }
    client.remove(&at_.root, name.as_bytes());
    Worked {
        calls: client.calls,
        small: client.longest,
        large,
    }
}
