//! Random operations on one file through the mount, as fsx does them: every byte that is read is
//! compared with a shadow in memory, under several mount options.
//!
//! `NFSLAB_RANDOM_OPERATIONS=1000000 cargo test -p nfslab-mount --test system random_operations` does a
//! million of them for each set of options; `NFSLAB_RANDOM_SEED=2` makes others.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::mounted::{Server, possible, spawn};
use fastrand::Rng;

const DEFAULT_OPERATIONS: u64 = 2_000;
/// Longest file; small enough that operations meet often.
const MAX_BYTES: u64 = 256 << 10;
const MAX_OPERATION_BYTES: u64 = 64 << 10;
/// What [`the_program`] is told: the file to use, and where to leave what has to be in it.
const FILE: &str = "NFSLAB_RANDOM_FILE";
const SHADOW: &str = "NFSLAB_RANDOM_SHADOW";

struct Checker {
    path: PathBuf,
    file: File,
    /// A second descriptor, as programs have them.
    other: File,
    shadow: Vec<u8>,
    random: Rng,
    number: u64,
    log: Vec<String>,
}

impl Checker {
    fn new(path: PathBuf, seed: u64) -> Self {
        let file = open(&path, 0);
        let other = open(&path, 0);
        Checker {
            path,
            file,
            other,
            shadow: Vec::new(),
            random: Rng::with_seed(seed),
            number: 0,
            log: Vec::new(),
        }
    }

    fn note(&mut self, what: String) {
        if self.log.len() > 60 {
            self.log.remove(0);
        }
        self.log.push(format!("{}: {what}", self.number));
    }

    fn check(&self, what: &str, offset: usize, found: &[u8]) {
        let expected = self.shadow.get(offset..).unwrap_or_default();
        let expected = &expected[..expected.len().min(found.len())];
        if found == expected {
            return;
        }
        let differs = found.iter().zip(expected).position(|(a, b)| a != b);
        panic!(
            "{what} at {offset}: {} bytes found, {} expected, first difference at {:?}; last:\n{}",
            found.len(),
            expected.len(),
            differs.map(|place| place + offset),
            self.log.join("\n")
        );
    }

    fn write(&mut self) {
        let offset = self.random.u64(..MAX_BYTES - 1);
        let limit = (MAX_BYTES - offset).min(MAX_OPERATION_BYTES);
        let limit = [limit, limit.min(100), limit.min(8192)][self.random.u64(..3) as usize];
        let length = 1 + self.random.u64(..limit) as usize;
        let bytes: Vec<u8> = (0..length)
            .map(|index| (self.number as usize ^ (index * 7)).to_le_bytes()[0])
            .collect();
        self.note(format!("write {offset} +{length}"));
        let which = self.random.u64(..4) == 0;
        let file = if which { &self.other } else { &self.file };
        file.write_all_at(&bytes, offset).unwrap();
        self.shadow_write(offset as usize, &bytes);
    }

    fn shadow_write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.shadow.len() < end {
            self.shadow.resize(end, 0);
        }
        self.shadow[offset..end].copy_from_slice(bytes);
    }

    fn read(&mut self) {
        let offset = self.random.u64(..MAX_BYTES);
        let length = 1 + self.random.u64(..MAX_OPERATION_BYTES);
        self.note(format!("read {offset} +{length}"));
        let mut bytes = vec![0; length as usize];
        let mut got = 0;
        while got < bytes.len() {
            let part = self.file.read_at(&mut bytes[got..], offset + got as u64);
            match part.unwrap() {
                0 => break,
                more => got += more,
            }
        }
        let there = self.shadow.len().saturating_sub(offset as usize);
        assert_eq!(got, there.min(bytes.len()), "read {offset}: {:?}", self.log);
        self.check("read", offset as usize, &bytes[..got]);
    }

    fn truncate(&mut self) {
        let size = self.random.u64(..MAX_BYTES);
        self.note(format!("truncate {size}"));
        self.file.set_len(size).unwrap();
        self.shadow.resize(size as usize, 0);
        let seen = self.file.metadata().unwrap().len();
        assert_eq!(seen, size, "size after truncate: {:?}", self.log);
    }

    /// Close and open: the pages may be dropped, the data may not.
    fn reopen(&mut self) {
        let direct = self.random.u64(..8) == 0;
        self.note(format!("reopen direct={direct}"));
        self.file = open(&self.path, if direct { libc::O_DIRECT } else { 0 });
        if direct {
            let mut bytes = vec![0; 8192];
            let block = bytes.as_mut_ptr().align_offset(4096);
            let got = self
                .file
                .read_at(&mut bytes[block..block + 4096], 0)
                .unwrap();
            self.check("direct read", 0, &bytes[block..block + got]);
            self.file = open(&self.path, 0);
        }
        self.other = open(&self.path, 0);
    }

    fn drop_pages(&mut self) {
        self.note("drop pages".to_owned());
        self.file.sync_all().unwrap();
        // SAFETY: a call on an open descriptor without pointers.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }

    /// Reads and writes through a shared mapping.
    fn map(&mut self) {
        let length = self.shadow.len();
        if length == 0 {
            return;
        }
        let offset = self.random.u64(..length as u64) as usize;
        let end = (offset + 1 + self.random.u64(..9000) as usize).min(length);
        let writes = self.random.u64(..2) == 0;
        self.note(format!("map {offset}..{end} writes={writes}"));
        // SAFETY: a mapping of the whole file, which nobody truncates meanwhile, used within its
        // length and unmapped before the slice goes.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let fd = self.file.as_raw_fd();
            let none = std::ptr::null_mut();
            let place = libc::mmap(none, length, protection, libc::MAP_SHARED, fd, 0);
            assert_ne!(
                place,
                libc::MAP_FAILED,
                "{}",
                std::io::Error::last_os_error()
            );
            let bytes = std::slice::from_raw_parts_mut(place.cast::<u8>(), length);
            let found = bytes[offset..end].to_vec();
            if writes {
                let value = self.number.to_le_bytes()[0];
                bytes[offset..end].fill(value);
                assert_eq!(libc::msync(place, length, libc::MS_SYNC), 0);
            }
            assert_eq!(libc::munmap(place, length), 0);
            self.check("mapped read", offset, &found);
            if writes {
                let new = vec![self.number.to_le_bytes()[0]; end - offset];
                self.shadow_write(offset, &new);
            }
        }
    }

    fn step(&mut self) {
        self.number += 1;
        match self.random.u64(..100) {
            0..=39 => self.write(),
            40..=74 => self.read(),
            75..=81 => self.truncate(),
            82..=85 => self.map(),
            86..=89 => {
                self.note("fsync".to_owned());
                self.file.sync_data().unwrap();
            }
            90..=93 => self.reopen(),
            94..=95 => self.drop_pages(),
            _ => {
                self.note("stat".to_owned());
                let size = fs::metadata(&self.path).unwrap().len();
                assert_eq!(size, self.shadow.len() as u64, "size: {:?}", self.log);
            }
        }
    }
}

fn open(path: &PathBuf, flags: i32) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags).open(path).unwrap()
}

fn from_environment(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().expect(name))
}

/// Does the operations, then compares what a second mount of the same server finds.
fn run(options: &str) {
    if !possible() {
        return;
    }
    let operations = from_environment("NFSLAB_RANDOM_OPERATIONS", DEFAULT_OPERATIONS);
    let seed = from_environment("NFSLAB_RANDOM_SEED", 39);
    eprintln!("{options}: {operations} operations, NFSLAB_RANDOM_SEED={seed}");
    let server = Server::memory();
    let mounted = server.mount(options);
    let shadow = mounted.path.with_extension("shadow");
    let program = spawn(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "random_operations::the_program", "--nocapture"])
            .env(FILE, mounted.path.join("file"))
            .env(SHADOW, &shadow)
            .env("NFSLAB_RANDOM_OPERATIONS", operations.to_string())
            .env("NFSLAB_RANDOM_SEED", seed.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let program = program.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&program.stderr);
    assert!(program.status.success(), "{said}");
    let second = server.mount("");
    let found = fs::read(second.path.join("file")).unwrap();
    let expected = fs::read(&shadow).unwrap();
    fs::remove_file(&shadow).unwrap();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "another client finds other data");
}

/// The process that uses the mount, as [`run`] starts it. Not the one that serves it: that would
/// wait, in an unmapping, for pages that it has to take itself, with its memory map locked.
#[test]
fn the_program() {
    let (Some(file), Some(shadow)) = (std::env::var_os(FILE), std::env::var_os(SHADOW)) else {
        return; // by hand, there is nothing to do
    };
    let operations = from_environment("NFSLAB_RANDOM_OPERATIONS", 0);
    let seed = from_environment("NFSLAB_RANDOM_SEED", 0);
    let mut checker = Checker::new(file.into(), seed);
    for _ in 0..operations {
        checker.step();
    }
    fs::write(shadow, checker.shadow).unwrap();
}

#[test]
fn with_defaults() {
    run("");
}

#[test]
fn with_noac() {
    run("noac");
}

#[test]
fn with_sync() {
    run("sync,wsize=8k");
}

#[test]
fn with_small_parts() {
    run("rsize=1k,wsize=1k");
}

#[test]
fn with_several_connections() {
    run("nconnect=4,rsize=4k,wsize=4k");
}

#[test]
fn with_times_of_zero() {
    run("actimeo=0,wsize=16k,rsize=32k,nconnect=2");
}

#[test]
fn with_pages_kept_by_the_kernel() {
    run("writeback");
}

#[test]
fn with_pages_kept_by_the_kernel_and_small_parts() {
    run("writeback,rsize=1k,wsize=1k,nconnect=2");
}

#[test]
fn over_udp() {
    run("udp,rsize=8k,wsize=8k");
}
