//! CPU of the folder store per call: what finding an object and proving that it lies in the export
//! cost.
//!
//! `cargo bench -p nfslab-server --bench folder [TURNS]`: the store alone, without sockets, in one
//! thread; the object one and four folders deep; CLOCK_THREAD_CPUTIME_ID over all turns, the median
//! of [`ROUNDS`] rounds. Needs no root, but says which handles it used. A debug build says so.

use std::net::SocketAddr;

use server::store::directory::{DirectoryOptions, DirectoryStore};
use server::store::{Payload, Store};
use server::{Caller, Handle};
use wire::nfs3::{nfsstat3, stable_how};

const ROUNDS: usize = 9;
const TURNS: u64 = 20_000;
const BLOCK: usize = 4096;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn failed((status, _): (nfsstat3, impl Sized)) -> String {
    format!("the store says {status:?}")
}

fn median_ns(turns: u64, mut call: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let before = measure::clock::thread_cpu_ns();
        for _ in 0..turns {
            call()?;
        }
        rounds.push((measure::clock::thread_cpu_ns() - before) as f64 / turns as f64);
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 2])
}

fn main() -> Outcome<()> {
    if cfg!(debug_assertions) {
        println!("debug build: these figures mean nothing");
    }
    let given = std::env::args().find_map(|argument| argument.parse().ok());
    let turns: u64 = given.unwrap_or(TURNS).max(100);
    let peer: SocketAddr = "127.0.0.1:1".parse()?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let caller = Caller::with_ids(peer, uid.as_raw(), gid.as_raw());
    let folder = tempfile::tempdir()?;
    println!("handles  depth  getattr_ns  lookup_ns  access_ns  read_4k_ns  write_4k_ns");
    for kernel_handles in [true, false] {
        for depth in [1, 4] {
            let mut path = folder.path().to_owned();
            let names: Vec<String> = (1..depth).map(|level| format!("d{level}")).collect();
            path.extend(&names);
            std::fs::create_dir_all(&path)?;
            std::fs::write(path.join("file"), [7; BLOCK])?;
            let options = DirectoryOptions {
                stable_names: false,
                kernel_handles,
                instance: 1,
            };
            let store = DirectoryStore::open(folder.path(), options)?;
            let settings = store.description().settings;
            let kernel = settings.contains(&("kernel_handles", "true".to_owned()));
            let find = |dir: &Handle, name: &str| -> Outcome<Handle> {
                let found = store.lookup(&caller, (dir, name.as_bytes()));
                Ok(found.map_err(failed)?.0.handle)
            };
            let mut dir = store.root();
            for name in &names {
                dir = find(&dir, name)?;
            }
            let file = find(&dir, "file")?;
            let mut payload = Payload::new();
            let data = [8; BLOCK];
            let getattr = median_ns(turns, || {
                store
                    .getattr(&file)
                    .map_err(|status| failed((status, ())))?;
                Ok(())
            })?;
            let lookup = median_ns(turns, || find(&dir, "file").map(drop))?;
            let access = median_ns(turns, || {
                store.access(&caller, &file, 0x3f).map_err(failed)?;
                Ok(())
            })?;
            let read = median_ns(turns, || {
                let wanted = BLOCK as u32;
                let read = store.read(&caller, &file, 0, wanted, &mut payload);
                read.map_err(failed)?;
                payload.clear();
                Ok(())
            })?;
            let write = median_ns(turns, || {
                let written = store.write(&caller, &file, 0, &data, stable_how::UNSTABLE);
                written.map_err(failed)?;
                Ok(())
            })?;
            println!(
                "{:<7} {depth:>6} {getattr:>11.0} {lookup:>10.0} {access:>10.0} {read:>11.0} \
                 {write:>12.0}",
                if kernel { "kernel" } else { "names" }
            );
        }
    }
    Ok(())
}
