//! How fast text of strace is read: `cargo run --profile quick --example strace_speed -- FILE
//! [ROUNDS]`. Prints what was read, and MB/s of the thread's CPU time.

use std::io::{self, Write};

use syscalls::strace::StraceReader;
use syscalls::tally::{Level, Options};

const CHUNK_BYTES: usize = 1 << 20;

fn cpu_ns() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place for the answer.
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
    }
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
    let rounds = arguments.next().and_then(|text| text.parse().ok());
    let text = std::fs::read(path)?;
    let mut out = io::stdout();
    for _ in 0..rounds.unwrap_or(1) {
        let since_ns = cpu_ns();
        let mut reader = StraceReader::new(Options::new(Level::Events));
        for chunk in text.chunks(CHUNK_BYTES) {
            reader.feed(chunk).map_err(io::Error::other)?;
            reader.take();
        }
        reader.end().map_err(io::Error::other)?;
        let seconds = (cpu_ns() - since_ns) as f64 / 1e9;
        let figures = reader.figures();
        writeln!(out, "{figures:?} {:?}", reader.first_not_understood())?;
        let rate = text.len() as f64 / 1e6 / seconds;
        let lines = figures.lines as f64 / seconds;
        writeln!(out, "{rate:.0} MB/s, {lines:.0} lines/s")?;
    }
    Ok(())
}
