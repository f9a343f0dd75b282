//! The server as a process of its own, killed with SIGKILL under load and started again on its
//! port: a client on a hard mount notices nothing but time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use client::File;
use client::nfs3::{Create, Export as Mounted, Lookup, Remove};
use wire::nfs3::{CREATE3args, LOOKUP3args, REMOVE3args, Res, createhow3, nfsstat3};

use super::pair::{NEW, Port, ask, at, create, mount, open};
use crate::process::{Process, program};
use crate::waits::Waits;

const KILLS: usize = 6;
const BLOCK: usize = 8192;

fn block(number: u64) -> Vec<u8> {
    (0..BLOCK as u64 / 8)
        .flat_map(|word| (number << 20 | word).to_be_bytes())
        .collect()
}

/// What a step did: how far it is.
#[derive(Default)]
struct Progress {
    written: AtomicU64,
    named: AtomicU64,
    ends: AtomicBool,
}

#[test]
fn a_hard_mount_survives_sigkill_of_the_server() {
    let Some(program) = program() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let held = Port::held();
    let port = held.address.port();
    let mut process = Process::start(&program, folder.path(), port).0;
    let mounted = mount(held.address, "timeo=20,nconnect=2");
    let handle = create(&mounted, b"f");
    let file = open(&mounted, handle);
    let progress = Progress::default();
    let (last, names) = std::thread::scope(|scope| {
        let writes = scope.spawn(|| write_on(&file, &progress));
        let names = scope.spawn(|| make_and_remove(&mounted, &progress));
        for _ in 0..KILLS {
            let from = [&progress.written, &progress.named].map(|at| at.load(Ordering::SeqCst));
            while (progress.written.load(Ordering::SeqCst) < from[0] + 20
                || progress.named.load(Ordering::SeqCst) < from[1] + 2)
                && !(writes.is_finished() || names.is_finished())
            {
                std::thread::yield_now();
            }
            drop(process);
            process = Process::start(&program, folder.path(), port).0;
        }
        progress.ends.store(true, Ordering::SeqCst);
        // The process lives until both have ended.
        let ended = (writes.join().unwrap(), names.join().unwrap());
        drop(process);
        ended
    });
    assert!(names <= 2 * KILLS, "more than each kill can explain");
    let kept = std::fs::read(folder.path().join("f")).unwrap();
    assert_eq!(kept.len(), last as usize * BLOCK);
    for (number, bytes) in kept.chunks(BLOCK).enumerate() {
        assert!(bytes == block(number as u64), "block {number} of {last}");
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "names are gone");
    let (counters, _) = mounted.client.figures().unwrap();
    assert!(
        counters.disconnects >= KILLS as u64 && counters.failed == 0,
        "{counters:?}"
    );
}

/// Blocks one after the other, an fsync now and then and at the end; how many.
fn write_on(file: &File, progress: &Progress) -> u64 {
    let mut number = 0;
    while !progress.ends.load(Ordering::SeqCst) {
        let bytes = block(number);
        file.write(number * BLOCK as u64, &bytes).unwrap();
        number += 1;
        if number % 16 == 0 {
            file.sync().unwrap();
        }
        progress.written.store(number, Ordering::SeqCst);
    }
    file.sync().unwrap();
    number
}

/// Calls that must not run twice: a name is made, seen, and removed. A killed server has forgotten
/// its reply cache, so that a second try may see the first one's work: that is counted.
fn make_and_remove(mounted: &Mounted, progress: &Progress) -> usize {
    let (client, root) = (&mounted.client, &mounted.root);
    let (mut rounds, mut twice) = (0_u64, 0);
    while !progress.ends.load(Ordering::SeqCst) {
        let name = format!("name{rounds}").into_bytes();
        let made = CREATE3args {
            where_: at(root, &name),
            how: createhow3::GUARDED(NEW),
        };
        let status = ask::<Create, _>(client, &made, |got| got.status());
        twice += usize::from(status == nfsstat3::NFS3ERR_EXIST);
        assert!([nfsstat3::NFS3_OK, nfsstat3::NFS3ERR_EXIST].contains(&status));
        let what = at(root, &name);
        ask::<Lookup, _>(client, &LOOKUP3args { what }, |got| {
            assert!(matches!(got, Res::Ok(_)), "{got:?}");
        });
        let object = at(root, &name);
        let status = ask::<Remove, _>(client, &REMOVE3args { object }, |got| got.status());
        twice += usize::from(status == nfsstat3::NFS3ERR_NOENT);
        assert!([nfsstat3::NFS3_OK, nfsstat3::NFS3ERR_NOENT].contains(&status));
        rounds += 1;
        progress.named.store(rounds, Ordering::SeqCst);
    }
    twice
}
