//! A server killed with SIGKILL and started again on the same folder: what was committed is there,
//! handles go on, the verifier tells that unstable data may be gone.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::calls::{MOUNT3, NFS3, at, call, decoded};
use crate::process::{Process, program};
use wire::mount::{dirpath, mountres3};
use wire::nfs3::*;

struct Server {
    _process: Process,
    stream: TcpStream,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Self {
        let (process, port) = Process::start(program, folder, 0);
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        Server {
            _process: process,
            stream,
        }
    }

    fn ask(&mut self, message: &[u8]) -> Vec<u8> {
        let mark = 0x8000_0000 | message.len() as u32;
        self.stream.write_all(&mark.to_be_bytes()).unwrap();
        self.stream.write_all(message).unwrap();
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).unwrap();
        let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        self.stream.read_exact(&mut reply).unwrap();
        reply
    }

    fn write(&mut self, file: &[u8], block: u64, stable: stable_how) -> [u8; 8] {
        let data = vec![block as u8 + 1; 4096];
        let args = WRITE3args {
            file: nfs_fh3(file),
            offset: block * 4096,
            count: 4096,
            stable,
            data: payload3(&data),
        };
        let reply = self.ask(&call(100 + block as u32, NFS3, 7, &args));
        match decoded::<WRITE3res>(&reply) {
            Res::Ok(done) => {
                assert!(done.committed >= stable);
                done.verf
            }
            Res::Fail(status, _) => panic!("{status:?}"),
        }
    }

    fn commit(&mut self, file: &[u8]) -> [u8; 8] {
        let args = COMMIT3args {
            file: nfs_fh3(file),
            offset: 0,
            count: 0,
        };
        match decoded::<COMMIT3res>(&self.ask(&call(500, NFS3, 21, &args))) {
            Res::Ok(done) => done.verf,
            Res::Fail(status, _) => panic!("{status:?}"),
        }
    }
}

#[test]
fn nothing_committed_is_lost() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: its calls are root's, who may write to a folder of another's");
        return;
    }
    let Some(program) = program() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&program, folder.path());
    let reply = server.ask(&call(1, MOUNT3, 1, &dirpath(b"/export")));
    let mountres3::Ok(mounted) = decoded::<mountres3<'_>>(&reply) else {
        panic!()
    };
    let root = mounted.fhandle.0.to_vec();
    let exclusive = CREATE3args {
        where_: at(&root, b"f"),
        how: createhow3::EXCLUSIVE(*b"verifier"),
    };
    let create = |server: &mut Server, xid| {
        let reply = server.ask(&call(xid, NFS3, 8, &exclusive));
        let Res::Ok(made) = decoded::<CREATE3res<'_>>(&reply) else {
            panic!()
        };
        made.obj.unwrap().0.to_vec()
    };
    let file = create(&mut server, 2);
    drop(server);
    // The reply was lost with the server: the same CREATE again finds its own file.
    let mut server = Server::start(&program, folder.path());
    assert_eq!(create(&mut server, 2), file);
    let mut verifiers = Vec::new();
    for round in 0..5 {
        let verifier = server.write(&file, round * 3, stable_how::FILE_SYNC);
        assert_eq!(
            server.write(&file, round * 3 + 1, stable_how::UNSTABLE),
            verifier
        );
        assert_eq!(server.commit(&file), verifier);
        assert_eq!(
            server.write(&file, round * 3 + 2, stable_how::DATA_SYNC),
            verifier
        );
        verifiers.push(verifier);
        drop(server);
        let kept = std::fs::read(folder.path().join("f")).unwrap();
        for (block, bytes) in kept.chunks(4096).enumerate() {
            assert!(bytes.iter().all(|byte| *byte == block as u8 + 1));
        }
        assert_eq!(kept.len() as u64, (round * 3 + 3) * 4096);
        server = Server::start(&program, folder.path());
    }
    drop(server);
    verifiers.sort_unstable();
    verifiers.dedup();
    assert_eq!(verifiers.len(), 5, "each instance has its own verifier");
}
