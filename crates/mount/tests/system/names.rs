//! Calls for names that need not be made, and what must be seen all the same.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use crate::mounted::{Mounted, Server, memory_store, possible};
use server::protocol::ExportOptions;
use wire::nfs3::procedure;

const LOOKUP: usize = procedure::LOOKUP as usize;
const CREATE: usize = procedure::CREATE as usize;
const SETATTR: usize = procedure::SETATTR as usize;

#[test]
fn what_is_made_in_a_new_folder_is_not_looked_up_first() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    // Names are believed for longer than this takes on any machine.
    let mounted = server.mount("acregmin=60,acdirmin=60");
    let folder = mounted.path.join("d");
    fs::create_dir(&folder).unwrap();
    let before = mounted.calls(LOOKUP);
    for number in 0..10 {
        fs::write(folder.join(format!("f{number}")), "text").unwrap();
        fs::rename(
            folder.join(format!("f{number}")),
            folder.join(format!("g{number}")),
        )
        .unwrap();
        fs::create_dir(folder.join(format!("d{number}"))).unwrap();
        assert!(!folder.join(format!("none{number}")).exists());
    }
    assert_eq!(mounted.calls(LOOKUP), before);
    // What was there before may be found after the kernel has forgotten it.
    let seen = server.mount("");
    assert_eq!(fs::read_dir(seen.path.join("d")).unwrap().count(), 20);
    let asked = seen.calls(LOOKUP);
    assert!(!seen.path.join("d/none").exists());
    assert_eq!(seen.calls(LOOKUP), asked + 1, "it did not make this folder");
}

#[test]
fn what_others_make_in_a_new_folder_is_seen_once_a_reply_tells_of_it() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let (one, two) = (server.mount(""), server.mount(""));
    fs::create_dir(one.path.join("d")).unwrap();
    fs::write(two.path.join("d/theirs"), "text").unwrap();
    // The reply to the next change tells that the folder was another one before it.
    fs::write(one.path.join("d/ours"), "text").unwrap();
    assert_eq!(
        fs::read_to_string(one.path.join("d/theirs")).unwrap(),
        "text"
    );
    // O_EXCL is the server's to decide, whatever is believed here.
    fs::create_dir(one.path.join("e")).unwrap();
    fs::write(two.path.join("e/lock"), "text").unwrap();
    let taken = File::create_new(one.path.join("e/lock"));
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    // Names of servers' own are asked for.
    fs::create_dir(one.path.join("h")).unwrap();
    fs::write(two.path.join("h/.hidden"), "text").unwrap();
    assert!(one.path.join("h/.hidden").exists());
}

#[test]
fn with_noac_and_after_acdirmin_a_new_folder_is_asked_for() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let other = server.mount("");
    for options in ["noac", "acdirmin=0,acdirmax=0"] {
        let mounted = server.mount(options);
        fs::create_dir(mounted.path.join(options)).unwrap();
        assert!(!mounted.path.join(options).join("f").exists());
        fs::write(other.path.join(options).join("f"), "text").unwrap();
        assert!(mounted.path.join(options).join("f").exists());
    }
}

#[test]
fn a_file_made_by_o_excl_is_one_call_and_has_its_mode_and_times() {
    if !possible() {
        return;
    }
    let server = Server::memory();
    let mounted = server.mount("");
    let (created, set) = (mounted.calls(CREATE), mounted.calls(SETATTR));
    let path = mounted.path.join("f");
    let begun = std::time::SystemTime::now();
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(&path)
        .unwrap();
    assert_eq!(mounted.calls(CREATE), created + 1);
    assert_eq!(mounted.calls(SETATTR), set);
    let facts = file.metadata().unwrap();
    assert_eq!(facts.mode() & 0o7777, 0o640);
    let second = Duration::from_secs(1); // ticks of clocks
    for time in [facts.accessed().unwrap(), facts.modified().unwrap()] {
        assert!(time + second >= begun && time <= std::time::SystemTime::now() + second);
    }
    let again = File::create_new(&path);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

/// Passes connections on; once armed, the next reply is lost with its connection, and what comes
/// later goes to the other server.
struct Lossy {
    port: u16,
    armed: Arc<AtomicBool>,
}

impl Lossy {
    fn between(first: u16, then: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (armed, target) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU16::new(first)),
        );
        let lossy = Lossy {
            port,
            armed: Arc::clone(&armed),
        };
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(("127.0.0.1", target.load(Ordering::SeqCst)))
                else {
                    return;
                };
                let (armed, target) = (Arc::clone(&armed), Arc::clone(&target));
                let lose = move || {
                    let loses = armed.swap(false, Ordering::SeqCst);
                    if loses {
                        target.store(then, Ordering::SeqCst);
                    }
                    loses
                };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass_on(from, to, || false));
                thread::spawn(move || pass_on(server, client, lose));
            }
        });
        lossy
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, lose: impl Fn() -> bool) {
    let mut buffer = [0; 1 << 16];
    while let Ok(taken @ 1..) = from.read(&mut buffer) {
        if lose() || to.write_all(&buffer[..taken]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// The server has made the file, its reply is lost, and it has no memory of calls after a restart.
#[test]
fn o_excl_is_told_of_its_own_file_though_the_reply_was_lost() {
    if !possible() {
        return;
    }
    let store = memory_store(1 << 20);
    let options = ExportOptions::default;
    let first = Server::of(Arc::clone(&store), options());
    let restarted = Server::of(store, options());
    let lossy = Lossy::between(first.port, restarted.port);
    let mounted = Mounted::new(lossy.port, "");
    fs::create_dir(mounted.path.join("d")).unwrap();
    // This mount made the folder, and sends its CREATE without looking for the name.
    lossy.armed.store(true, Ordering::SeqCst);
    let mut file = File::create_new(mounted.path.join("d/f")).unwrap();
    file.write_all(b"text").unwrap();
    drop(file);
    assert_eq!(mounted.calls(CREATE), 1);
    let (counters, _) = mounted.mount.client().figures().unwrap();
    assert!(counters.retransmissions > 0, "the call was sent again");
    assert_eq!(fs::read(mounted.path.join("d/f")).unwrap(), b"text");
}

/// The same, but the file was there before: nobody is told that he made it.
#[test]
fn o_excl_is_refused_where_the_reply_that_was_lost_refused_it() {
    if !possible() {
        return;
    }
    let store = memory_store(1 << 20);
    let options = ExportOptions::default;
    let first = Server::of(Arc::clone(&store), options());
    let restarted = Server::of(store, options());
    let lossy = Lossy::between(first.port, restarted.port);
    let mounted = Mounted::new(lossy.port, "");
    fs::create_dir(mounted.path.join("d")).unwrap();
    let other = first.mount("");
    File::create_new(other.path.join("d/f")).unwrap();
    // This mount made the folder, believes that it is empty, and sends its CREATE at once.
    lossy.armed.store(true, Ordering::SeqCst);
    let taken = File::create_new(mounted.path.join("d/f"));
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
}
