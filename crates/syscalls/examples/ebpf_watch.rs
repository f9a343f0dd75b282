//! Watches processes by eBPF and prints what they do until standard input ends:
//! `ebpf_watch LEVEL PID...`. For people at work on the programs in the kernel.

use std::error::Error;
use std::io::Read;

use syscalls::ebpf::{Level, Options, Watch};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let level = arguments.next().as_deref().and_then(Level::named);
    let level = level.ok_or("usage: ebpf_watch sync|counts|events PID...")?;
    let roots: Result<Vec<u32>, _> = arguments.map(|pid| pid.parse()).collect();
    let mut options = Options::new(roots?, level);
    options.lseek = std::env::var_os("LSEEK").is_some();
    options.blocks = std::env::var_os("BLOCKS").is_some();
    let watch = Watch::start(&options)
        .map_err(|error| format!("{error}: {} ({})", error.why(), error.kind()))?;
    eprintln!("attached: {:?}", watch.figures());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let taken = watch.take();
    for row in &taken.files {
        println!("{row:?} {}", String::from_utf8_lossy(&row.path));
    }
    for row in &taken.syncs {
        println!("{row:?}");
    }
    for row in taken.events.iter().take(100) {
        println!("{row:?}");
    }
    for row in &taken.names {
        println!("{row:?} {}", String::from_utf8_lossy(&row.path));
    }
    for row in taken.blocks.iter().take(100) {
        println!("{row:?}");
    }
    for row in watch.counts() {
        let (file, call, calls, bytes) = (row.file_id, row.call, row.calls, row.bytes);
        let (errors, places) = (row.errors, row.places);
        println!("file {file} {call:?}: {calls} calls, {errors} errors, {bytes} B, {places:?}");
    }
    println!("{:?}", watch.figures());
    watch.stop();
    Ok(())
}
