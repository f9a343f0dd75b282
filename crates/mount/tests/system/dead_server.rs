//! A server that takes calls and does not answer, under a hard mount: who is killed ends, and
//! nothing is lost by that; who is not waits on.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::mounted::between::Between;
use crate::mounted::{Mounted, Server, possible, spawn};
use mount::Unmount;

const OPTIONS: &str = "hard,actimeo=0";

struct World {
    mounted: Mounted,
    between: Between,
    server: Server,
}

impl World {
    fn new() -> Self {
        let server = Server::memory();
        let between = Between::new(server.port, Box::new(|_| None));
        let mounted = Mounted::new(between.port, OPTIONS);
        World {
            mounted,
            between,
            server,
        }
    }

    /// Calls that the client was given.
    fn asked(&self) -> u64 {
        self.mounted.mount.client().figures().unwrap().0.enqueued
    }

    /// The server speaks again, and the mount with it: it was not ended by force because something
    /// hung.
    fn speaks_again(&self) {
        self.between.speak();
        assert!(fs::metadata(self.mounted.path.join("f")).is_ok());
    }

    /// Starts something, and waits until it waits for the server.
    fn waits(&self, start: impl FnOnce() -> Child) -> Child {
        let before = self.asked();
        let child = start();
        until(|| self.asked() > before);
        child
    }
}

/// Waits for something that another thread or process does.
fn until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

fn shell(script: &str, path: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(path);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    spawn(command)
}

fn kill(child: &Child, signal: libc::c_int) {
    // SAFETY: a call without pointers; the process has not been waited for, so it is ours.
    let sent = unsafe { libc::kill(child.id().cast_signed(), signal) };
    assert_eq!(sent, 0);
}

fn killed(mut child: Child) {
    kill(&child, libc::SIGKILL);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn who_is_killed_ends_at_once_and_the_mount_stays() {
    if !possible() {
        return;
    }
    let world = World::new();
    let path = world.mounted.path.join("f");
    fs::write(&path, "text").unwrap();
    world.between.fall_silent();
    // In LOOKUP or GETATTR, in a listing, in making a name, in a read of an open file.
    for script in [
        "exec cat \"$1\"",
        "exec ls -l \"${1%/*}\"",
        "exec mkdir \"$1-new\"",
    ] {
        killed(world.waits(|| shell(script, &path)));
    }
    world.between.speak();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "text",
        "the mount lives"
    );
    let mut open = shell("exec 3<\"$1\"; echo; read -r go; exec cat <&3", &path);
    BufReader::new(open.stdout.as_mut().unwrap())
        .read_line(&mut String::new())
        .unwrap();
    world.between.fall_silent();
    let reads = world.waits(|| {
        open.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        open
    });
    killed(reads);
    world.speaks_again();
    // An open that nobody heard of is closed.
    until(|| world.mounted.mount.known().1 == 0);
}

/// A hard mount gives up for a signal that ends the program, not for one that it handles: read(2)
/// of a file gives no EINTR.
#[test]
fn a_signal_that_is_handled_ends_nothing() {
    if !possible() {
        return;
    }
    let world = World::new();
    let path = world.mounted.path.join("f");
    fs::write(&path, "text\n").unwrap();
    let mut handles = shell(
        "trap 'echo caught' USR1; echo; read -r go; read -r line <\"$1\"; echo \"$line\"",
        &path,
    );
    let mut said = BufReader::new(handles.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    world.between.fall_silent();
    let mut handles = world.waits(|| {
        handles.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        handles
    });
    kill(&handles, libc::SIGUSR1);
    // Its end shows that the mount has looked at who was sent what since then.
    killed(world.waits(|| shell("exec cat \"$1\"", &path)));
    assert!(handles.try_wait().unwrap().is_none(), "it waits on");
    world.speaks_again();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "caught\ntext\n");
    assert!(handles.wait().unwrap().success());
}

/// SIGTERM that a program does not handle ends it as SIGKILL does.
#[test]
fn a_signal_that_ends_the_program_does() {
    if !possible() {
        return;
    }
    let world = World::new();
    let path = world.mounted.path.join("f");
    fs::write(&path, "text").unwrap();
    world.between.fall_silent();
    let mut reader = world.waits(|| shell("exec cat \"$1\"", &path));
    kill(&reader, libc::SIGTERM);
    assert_eq!(reader.wait().unwrap().signal(), Some(libc::SIGTERM));
    world.speaks_again();
}

/// What a program wrote before it was killed in close(2) is on its way all the same.
#[test]
fn data_of_a_writer_that_is_killed_are_not_lost() {
    if !possible() {
        return;
    }
    let world = World::new();
    let path = world.mounted.path.join("f");
    fs::write(&path, "").unwrap();
    let script = "exec 3<>\"$1\"; echo; read -r go; printf kept >&3; exec 3>&-; echo closed";
    let mut writer = shell(script, &path);
    let mut said = BufReader::new(writer.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    world.between.fall_silent();
    let writer = world.waits(|| {
        writer.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        writer
    });
    killed(writer);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "close(2) did not return");
    world.speaks_again();
    let other = Mounted::new(world.server.port, "noac");
    until(|| fs::read_to_string(other.path.join("f")).unwrap() == "kept");
}

#[test]
fn all_that_wait_in_a_mount_that_is_ended_by_force_get_eio() {
    if !possible() {
        return;
    }
    let world = World::new();
    let path = world.mounted.path.join("f");
    fs::write(&path, "text").unwrap();
    let mut past_pages = fs::OpenOptions::new();
    past_pages.read(true).custom_flags(libc::O_DIRECT);
    let file = past_pages.open(&path).unwrap();
    world.between.fall_silent();
    std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        let before = world.asked();
        let (stat, name) = (path.clone(), world.mounted.path.join("none"));
        waiting.push(scope.spawn(move || fs::metadata(stat).map(drop)));
        until(|| world.asked() > before);
        waiting.push(scope.spawn(move || fs::create_dir(name)));
        let file = &file;
        waiting.push(scope.spawn(move || (&*file).read(&mut [0; 4]).map(drop)));
        until(|| world.asked() > before + 2);
        assert!(waiting.iter().all(|thread| !thread.is_finished()));
        world.mounted.mount.unmount(Unmount::Force).unwrap();
        for thread in waiting {
            let error = thread.join().unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
        }
    });
    assert!(world.mounted.mount.wait(None));
}
