//! Files that are mapped: the same findings as of bytes that are read, an error when one is cut
//! short, and no signal taken from whoever it is meant for.

// Also outside the test functions themselves.
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use flate2::read::GzDecoder;
use trace::TraceError;
use trace::analysis::{Analysis, Options, Pass, analyse_bytes};
use trace::block::Block;
use trace::source::{Input, Reader};

use crate::rows::captures;

/// Tells a process that was started by a test what to do.
const PART: &str = "NFSLAB_TEST_SIGBUS";
const PAGE_BYTES: usize = 4096;

fn uncompressed(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = File::open(captures().join(name)).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn findings_are_those_of_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(captures()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".pcap.gz") {
            continue;
        }
        let bytes = uncompressed(&name);
        let path = folder.path().join(&name);
        fs::write(&path, &bytes).unwrap();
        let options = Options::default();
        let of_file = Analysis::start(vec![Input::File(path)], options.clone());
        let mut of_file = of_file.unwrap().finish().unwrap();
        let of_stream = analyse_bytes(std::io::Cursor::new(bytes), &options).unwrap();
        of_file.summary["inputs"] = of_stream.summary["inputs"].clone();
        assert_eq!(of_file.summary, of_stream.summary, "{name}");
        for (mine, theirs) in of_file.sections.iter().zip(&of_stream.sections) {
            assert_eq!(
                (&mine.0, &mine.1.json),
                (&theirs.0, &theirs.1.json),
                "{name}"
            );
        }
        seen += 1;
    }
    assert!(seen >= 6, "captures are missing");
}

#[test]
fn a_block_of_a_file_that_was_cut_short_is_refused_after_it_was_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcap");
    fs::write(&path, uncompressed(&large())).unwrap();
    let mut reader = Reader::open(vec![Input::File(path.clone())]).unwrap();
    let mut pass = Pass::new(&Options::default(), Default::default()).unwrap();
    let mut block = Block::default();
    assert!(reader.read(&mut block).unwrap());
    pass.block(&block).unwrap();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(24)
        .unwrap();
    let told = pass.block(&block).unwrap_err();
    assert!(matches!(told, TraceError::Io { .. }));
    assert!(told.to_string().contains("cut short"), "{told}");
}

/// The largest of the shared captures.
fn large() -> String {
    let files = fs::read_dir(captures())
        .unwrap()
        .map(|entry| entry.unwrap());
    let files = files.filter(|it| it.file_name().to_string_lossy().ends_with(".pcap.gz"));
    let largest = files.max_by_key(|it| it.metadata().unwrap().len()).unwrap();
    largest.file_name().into_string().unwrap()
}

/// Runs the ignored test below in a process of its own.
fn in_a_process(part: &str) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--ignored",
        "--exact",
        "mapped_files::signals",
        "--nocapture",
    ]);
    command.env(PART, part).output().unwrap().status
}

#[test]
fn a_foreign_sigbus_reaches_the_handler_that_was_there_before() {
    assert_eq!(in_a_process("handler").code(), Some(42));
    assert_eq!(in_a_process("handler with information").code(), Some(43));
    assert_eq!(in_a_process("handler, sent").code(), Some(42));
    // A handler that came later is asked first: files are read then.
    assert_eq!(in_a_process("handler behind ours").code(), Some(44));
}

#[test]
fn a_foreign_sigbus_ends_a_process_without_a_handler() {
    assert_eq!(in_a_process("none").signal(), Some(libc::SIGBUS));
    assert_eq!(in_a_process("none, sent").signal(), Some(libc::SIGBUS));
    assert_eq!(in_a_process("ignored").signal(), Some(libc::SIGBUS));
    assert_eq!(in_a_process("ignored, sent").code(), Some(0));
}

extern "C" fn plain(_: libc::c_int) {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(42) };
}

extern "C" fn informed(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's siginfo_t, handed on; ends the process at once.
    unsafe {
        libc::_exit(if (*info).si_code == libc::BUS_ADRERR {
            43
        } else {
            1
        })
    };
}

extern "C" fn later(_: libc::c_int) {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(44) };
}

fn install(handler: usize, flags: libc::c_int) {
    // SAFETY: a zeroed action is valid; the handler fits the flags.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()),
            0
        );
    }
}

/// Looks at a page that a file of our own does not have.
fn fault(folder: &Path) {
    let path = folder.join("foreign");
    fs::write(&path, vec![1; PAGE_BYTES]).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    // SAFETY: a new mapping; that looking at it ends in a signal is what is tested.
    unsafe {
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        let null = std::ptr::null_mut();
        let at = libc::mmap(null, PAGE_BYTES, read, shared, file.as_raw_fd(), 0);
        assert_ne!(at, libc::MAP_FAILED);
        file.set_len(0).unwrap();
        at.cast::<u8>().read_volatile();
    }
}

/// Runs in a process of its own, which the signal ends.
#[test]
#[ignore = "part of the tests above"]
fn signals() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let (of_handler, of_informed): (extern "C" fn(_), extern "C" fn(_, _, _)) = (plain, informed);
    match part.split(',').next().unwrap() {
        "handler" => install(of_handler as usize, 0),
        "handler with information" => install(of_informed as usize, libc::SA_SIGINFO),
        "none" => install(libc::SIG_DFL, 0),
        "ignored" => install(libc::SIG_IGN, 0),
        _ => {}
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcap");
    let cut_short = || {
        fs::write(&path, uncompressed(&large())).unwrap();
        let mut reader = Reader::open(vec![Input::File(path.clone())]).unwrap();
        let mut block = Block::default();
        assert!(reader.read(&mut block).unwrap());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(24).unwrap();
        let last = *block.segments.last().unwrap();
        let payload = block.payload(&last).to_vec();
        (
            block.verify().is_err(),
            payload.iter().all(|byte| *byte == 0),
        )
    };
    // Ours is taken here, and goes no further.
    assert_eq!(cut_short(), (true, true));
    if part == "handler behind ours" {
        let handler: extern "C" fn(_) = later;
        install(handler as usize, 0);
        assert_eq!(cut_short(), (false, false));
    }
    if part.ends_with("sent") {
        // SAFETY: a plain call.
        unsafe { libc::raise(libc::SIGBUS) };
    } else {
        fault(folder.path());
    }
}
