//! Registration with a real rpcbind, and with a portmap that knows version 2 only.
//!
//! The machine may have an rpcbind, and other servers registered there: none of them is ever
//! asked. The test that needs one runs once more as a process in network, mount and process
//! namespaces of its own, where /run is empty, and starts rpcbind there.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::process::output;
use server::registration::{Portmapper, Registration, RegistrationError};
use wire::portmap::mapping;
use wire::rpc::{Call, OpaqueAuth, ReplyStatus, encode_reply};
use wire::{Decode, Encode};

/// A port where nobody listens, nor ever will while the socket is there.
fn closed() -> (OwnedFd, SocketAddr) {
    let kind = rustix::net::SocketType::STREAM;
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, kind, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&socket, &any).unwrap();
    let bound = rustix::net::getsockname(&socket).unwrap();
    let address = SocketAddr::try_from(bound).unwrap();
    (socket, address)
}

/// Set in the namespaces.
const INSIDE: &str = "NFSLAB_TEST_ALONE";
/// What is there besides this program: an empty /run and a loopback.
const ALONE: &str = "mount -t tmpfs tmpfs /run && ip link set lo up";

/// A command in namespaces of its own; all that it starts ends with it.
fn alone(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-n", "-m", "-p", "-f", "--kill-child", "sh", "-c"]);
    command.arg(format!("{ALONE} && {script}"));
    command
}

/// Runs a test of this file in namespaces. False: this is the process there, to do the work.
/// True: it is done, or cannot be, with the reason printed.
fn done_elsewhere(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let tried = output(&mut alone("command -v rpcbind rpcinfo"));
    let reason = match tried {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(reason) = reason {
        let what = "no rpcbind in namespaces of its own (needs root, unshare, ip, rpcbind)";
        eprintln!("skipped: {what}: {}", reason.trim());
        return true;
    }
    let mut again = alone("exec \"$0\" --exact \"$1\" --nocapture");
    again.arg(std::env::current_exe().unwrap());
    again.arg(format!("registration::{test}")).env(INSIDE, "1");
    let done = output(&mut again).unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}{errors}");
    assert!(said.contains("1 passed"), "{said}{errors}");
    true
}

struct Rpcbind(Child);

impl Rpcbind {
    fn start() -> Self {
        let child = Command::new("rpcbind")
            .arg("-f")
            .stdin(Stdio::null())
            .spawn();
        let mut rpcbind = Rpcbind(child.unwrap());
        while UnixStream::connect(Portmapper::default().socket).is_err() {
            assert!(rpcbind.0.try_wait().unwrap().is_none(), "rpcbind has ended");
            std::thread::yield_now();
        }
        rpcbind
    }
}

impl Drop for Rpcbind {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `rpcinfo` says of NFS and MOUNT: program, version, netid, address.
fn known() -> Vec<(u32, u32, String, String)> {
    let said = Command::new("rpcinfo").output();
    let text = String::from_utf8(said.unwrap().stdout).unwrap();
    let mut rows: Vec<_> = text.lines().skip(1).filter_map(row).collect();
    rows.retain(|row| row.0 != 100_000);
    rows.sort();
    rows
}

fn row(line: &str) -> Option<(u32, u32, String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (netid, address) = (words.get(2)?, words.get(3)?);
    let number = |index: usize| words.get(index)?.parse().ok();
    Some((
        number(0)?,
        number(1)?,
        (*netid).to_owned(),
        (*address).to_owned(),
    ))
}

#[test]
fn rpcbind_knows_the_server_until_it_ends() {
    if done_elsewhere("rpcbind_knows_the_server_until_it_ends") {
        return;
    }
    let _rpcbind = Rpcbind::start();
    let portmapper = Portmapper::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let v4 = listener.local_addr().unwrap();
    let v6: SocketAddr = "[::1]:2051".parse().unwrap();
    let made = Registration::make(portmapper.clone(), &[v4, v6], true).unwrap();
    let registered = known();
    let mut wanted: Vec<_> = made.entries();
    wanted.sort();
    assert_eq!(wanted.len(), 2 * 2 * 4);
    let wanted: Vec<_> = wanted
        .into_iter()
        .map(|(p, v, netid, at)| (p, v, netid.to_owned(), at))
        .collect();
    assert_eq!(registered, wanted);
    let [high, low] = v4.port().to_be_bytes();
    let address = format!("127.0.0.1.{high}.{low}");
    assert!(registered.contains(&(100_003, 3, "udp".to_owned(), address)));
    // While it answers, nobody else gets its place; the attempt takes nothing away.
    let other = "127.0.0.1:2052".parse().unwrap();
    let refused = Registration::make(portmapper.clone(), &[other], false).unwrap_err();
    assert!(refused.to_string().contains("another server"), "{refused}");
    assert_eq!(known(), registered);
    // A server that was killed leaves its entries behind: they are replaced.
    std::mem::forget(made);
    drop(listener);
    let made = Registration::make(portmapper, &[other], false).unwrap();
    let tcp: Vec<_> = known().into_iter().filter(|row| row.2 == "tcp").collect();
    assert_eq!(tcp.len(), 4);
    assert!(tcp.iter().all(|row| row.3 == "127.0.0.1.8.4"), "{tcp:?}");
    drop(made);
    assert!(known().iter().all(|row| row.2 != "tcp"));
}

type Mappings = Arc<Mutex<BTreeMap<(u32, u32, u32), u32>>>;

/// portmap version 2 over TCP (RFC 1833 section 3), for one connection after the other.
fn portmap() -> (SocketAddr, Mappings) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mappings = Mappings::default();
    let inside = Arc::clone(&mappings);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut mark = [0; 4];
            while stream.read_exact(&mut mark).is_ok() {
                let mut call = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
                stream.read_exact(&mut call).unwrap();
                let call = Call::parse(&call).unwrap();
                assert_eq!((call.program, call.version), (100_000, 2));
                let asked = mapping::decode_whole(call.body.unwrap(), "mapping").unwrap();
                let key = (asked.prog, asked.vers, asked.prot);
                let mut known = inside.lock().unwrap();
                let answer = match call.procedure {
                    1 => u32::from(*known.entry(key).or_insert(asked.port) == asked.port),
                    2 => u32::from(known.remove(&key).is_some()),
                    3 => known.get(&key).copied().unwrap_or(0),
                    other => panic!("procedure {other}"),
                };
                let mut reply = vec![0; 4];
                encode_reply(
                    &mut reply,
                    call.xid,
                    &OpaqueAuth::NONE,
                    ReplyStatus::Success,
                )
                .unwrap();
                answer.encode(&mut reply).unwrap();
                let mark = 0x8000_0000 | (reply.len() as u32 - 4);
                reply[..4].copy_from_slice(&mark.to_be_bytes());
                stream.write_all(&reply).unwrap();
            }
        }
    });
    (address, mappings)
}

#[test]
fn portmap_is_enough_for_ipv4() {
    let (address, mappings) = portmap();
    let portmapper = Portmapper {
        socket: PathBuf::from("/nonexistent/rpcbind.sock"),
        address,
    };
    let made = Registration::make(
        portmapper.clone(),
        &["127.0.0.1:2049".parse().unwrap()],
        true,
    )
    .unwrap();
    let programs = [(100_003, 3), (100_005, 1), (100_005, 2), (100_005, 3)];
    let wanted: BTreeMap<_, _> = programs
        .iter()
        .flat_map(|(program, version)| [6, 17].map(|prot| ((*program, *version, prot), 2049)))
        .collect();
    assert_eq!(*mappings.lock().unwrap(), wanted);
    drop(made);
    assert!(mappings.lock().unwrap().is_empty());
    let v6 = ["[::1]:2049".parse().unwrap()];
    let error = Registration::make(portmapper, &v6, false).unwrap_err();
    assert!(
        matches!(error, RegistrationError::NeedsRpcbind(_)),
        "{error}"
    );
}

#[test]
fn no_portmapper_is_said_with_both_places() {
    let (_socket, address) = closed();
    let portmapper = Portmapper {
        socket: PathBuf::from("/nonexistent/rpcbind.sock"),
        address,
    };
    let port = portmapper.address.port().to_string();
    let error =
        Registration::make(portmapper, &["127.0.0.1:1".parse().unwrap()], false).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("/nonexistent/rpcbind.sock") && text.contains(&port),
        "{text}"
    );
}
