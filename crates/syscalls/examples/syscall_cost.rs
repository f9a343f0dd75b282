//! What watching adds to a call, in nanoseconds: tight loops of cheap calls, untraced against each
//! level, of the process that is watched and of another one; windows with and without in turn.
//!
//! `syscall_cost [ROUNDS]` prints a table of medians (quartiles) of the differences. The files lie
//! in /dev/shm when that is there, so that the calls themselves are cheap. Needs root and eBPF.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};

use syscalls::ebpf::{Level, Options, Watch};

/// Calls in a window, and windows for each watch: a window takes some ms.
const CALLS: u32 = 20_000;
const WINDOWS: usize = 7;

type Work = (&'static str, fn(&Files));

struct Files {
    plain: File,
    durable: File,
}

/// Makes the calls that Rust's library hides; what they return does not matter here.
const WORK: [Work; 7] = [
    ("getppid", |_| {
        let _ = rustix::process::getppid();
    }),
    ("fdatasync", |files| {
        let _ = rustix::fs::fdatasync(&files.plain);
    }),
    ("pwrite64 512 B", |files| {
        let _ = rustix::io::pwrite(&files.plain, &[0; 512], 0);
    }),
    ("pwrite64 O_DSYNC", |files| {
        let _ = rustix::io::pwrite(&files.durable, &[0; 512], 0);
    }),
    ("pread64 512 B", |files| {
        let _ = rustix::io::pread(&files.plain, &mut [0; 512], 0);
    }),
    ("lseek", |files| {
        let _ = rustix::fs::seek(&files.plain, rustix::fs::SeekFrom::Start(0));
    }),
    ("open, close", |files| {
        let path = format!("/proc/self/fd/{}", files.plain.as_raw_fd());
        drop(File::open(path));
    }),
];

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let folder = if std::path::Path::new("/dev/shm").exists() {
        "/dev/shm"
    } else {
        "/tmp"
    };
    let path = format!("{folder}/nfslab-syscall-cost-{}", std::process::id());
    let files = open(&path)?;
    std::fs::remove_file(&path)?;
    let mut other = Command::new("sleep")
        .arg("1000000")
        .stdout(Stdio::null())
        .spawn()?;
    let measured = measure(&files, other.id(), rounds);
    end(&mut other)?;
    show(&measured?);
    Ok(())
}

fn open(path: &str) -> std::io::Result<Files> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .mode(0o600)
        .truncate(false);
    let plain = options.open(path)?;
    let durable = options.custom_flags(libc::O_DSYNC).open(path)?;
    plain.set_len(4096)?;
    Ok(Files { plain, durable })
}

fn end(other: &mut Child) -> std::io::Result<()> {
    other.kill()?;
    other.wait()?;
    Ok(())
}

/// Level, lseek, is this process watched?
type Way = (Level, bool, bool);

/// By way and work: nanoseconds per call beyond untraced, of each round.
type Measured = Vec<(Way, Vec<Vec<f64>>)>;

fn measure(files: &Files, other: u32, rounds: usize) -> Result<Measured, Box<dyn Error>> {
    let mut measured: Measured = Vec::new();
    for own in [true, false] {
        for (level, lseek) in [
            (Level::Sync, false),
            (Level::Counts, false),
            (Level::Counts, true),
            (Level::Events, false),
        ] {
            measured.push(((level, lseek, own), vec![Vec::new(); WORK.len()]));
        }
    }
    for _ in 0..rounds {
        for ((level, lseek, own), differences) in &mut measured {
            let untraced = windows(files);
            let root = if *own { std::process::id() } else { other };
            let mut options = Options::new(vec![root], *level);
            options.lseek = *lseek;
            let watch = Watch::start(&options)?;
            let traced = windows(files);
            watch.stop();
            let again = windows(files);
            for (work, all) in differences.iter_mut().enumerate() {
                all.push(traced[work] - (untraced[work] + again[work]) / 2.0);
            }
        }
    }
    Ok(measured)
}

/// By work: nanoseconds per call, the median of the windows.
fn windows(files: &Files) -> Vec<f64> {
    let of_work = |work: &Work| {
        let mut all: Vec<f64> = (0..WINDOWS).map(|_| window(files, work.1)).collect();
        quartiles(&mut all)[1]
    };
    WORK.iter().map(of_work).collect()
}

fn window(files: &Files, work: fn(&Files)) -> f64 {
    let begun = cpu_ns();
    for _ in 0..CALLS {
        work(files);
    }
    (cpu_ns() - begun) / f64::from(CALLS)
}

/// Processor time of this thread: others on the machine are not in it.
fn cpu_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn quartiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn show(measured: &Measured) {
    print!("{:34}", "ns per call beyond untraced");
    for (name, _) in WORK {
        print!("{name:>20}");
    }
    println!();
    for ((level, lseek, own), differences) in measured {
        let who = if *own { "watched" } else { "another process" };
        let seeks = if *lseek { " + lseek" } else { "" };
        print!("{:34}", format!("{level:?}{seeks}, {who}").to_lowercase());
        for all in differences {
            let [low, middle, high] = quartiles(&mut all.clone());
            print!("{:>20}", format!("{middle:.0} ({low:.0} {high:.0})"));
        }
        println!();
    }
}
