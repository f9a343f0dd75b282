//! What the preload shim costs a call: `cargo run --profile quick --example shim_cost [ROUNDS]`.
//!
//! Starts itself without and with the shim by turns; each prints the CPU time of a call in a tight
//! loop on a file in memory, user and system. The table has medians over all rounds, ns a call.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use syscalls::shim::ShimRecords;
use syscalls::tally::{Level, Options};

const CALLS: u32 = 100_000;
const LOOPS: [&str; 5] = [
    "pread",
    "read",
    "fdatasync",
    "write /dev/null",
    "open and close",
];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("loop") => measure(&arguments.next().unwrap_or_default()),
        rounds => compare(rounds.and_then(|text| text.parse().ok()).unwrap_or(7)),
    }
}

fn cpu_ns() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a valid place for the answer, all of whose bytes may be zero.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn measure(path: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.write_all(&[1; 8192])?;
    let mut null = File::create("/dev/null")?;
    let mut byte = [0];
    let timed = |call: &mut dyn FnMut(u32) -> io::Result<()>| -> io::Result<()> {
        let before = cpu_ns();
        for number in 0..CALLS {
            call(number)?;
        }
        writeln!(io::stdout(), "{}", (cpu_ns() - before) / f64::from(CALLS))
    };
    timed(&mut |_| file.read_exact_at(&mut byte, 0))?;
    let mut reader = file.try_clone()?;
    timed(&mut |number| {
        if number % 8000 == 0 {
            reader.rewind()?;
        }
        reader.read(&mut byte).map(drop)
    })?;
    timed(&mut |_| file.sync_data())?;
    timed(&mut |_| null.write(&[1]).map(drop))?;
    timed(&mut |_| File::open(path).map(drop))?;
    std::fs::remove_file(path)
}

fn compare(rounds: u32) -> io::Result<()> {
    let base = Path::new("/dev/shm").join(format!("nfslab-shim-cost-{}", std::process::id()));
    let ways = [
        None,
        Some(Level::Sync),
        Some(Level::Counts),
        Some(Level::Events),
    ];
    let mut figures: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); LOOPS.len()]; ways.len()];
    for _ in 0..rounds {
        for (way, level) in ways.iter().enumerate() {
            std::fs::create_dir(&base)?;
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("loop").arg(base.join("data"));
            let shim = level.map(|level| ShimRecords::new(&base, Options::new(level)));
            let shim = shim.transpose().map_err(io::Error::other)?;
            if let Some(shim) = &shim {
                command.envs(shim.environment());
            }
            let text = command.output()?.stdout;
            drop(shim);
            std::fs::remove_dir_all(&base)?;
            let lines = String::from_utf8_lossy(&text).into_owned();
            for (values, line) in figures[way].iter_mut().zip(lines.lines()) {
                values.extend(line.parse::<f64>());
            }
        }
    }
    let mut out = io::stdout();
    writeln!(out, "| | {} |", LOOPS.join(" | "))?;
    for (level, columns) in ways.iter().zip(&mut figures) {
        let medians = columns.iter_mut().map(|values| {
            values.sort_by(f64::total_cmp);
            values
                .get(values.len() / 2)
                .map_or("?".to_owned(), |value| format!("{value:.0}"))
        });
        let name = level.map_or("without".to_owned(), |level| format!("{level:?}"));
        writeln!(
            out,
            "| {name} | {} |",
            medians.collect::<Vec<_>>().join(" | ")
        )?;
    }
    Ok(())
}
