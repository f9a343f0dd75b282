//! The server stopped and started again under load, losing each time what was not committed: in
//! the end every byte that an fsync has promised is there, and those after it too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use client::File;

use super::forgetful::Forgetful;
use super::pair::{Port, create, mount, open, service};
use crate::process::no_forks;
use crate::waits::Waits;

const BLOCK: usize = 16 << 10;
const RESTARTS: u64 = 12;
/// The file goes round in this many blocks, so that old bytes are there to come back.
const BLOCKS: u64 = 64;

/// A block that no other write has.
fn block(number: u64) -> Vec<u8> {
    (0..BLOCK / 8)
        .flat_map(|word| (number << 16 | word as u64).to_be_bytes())
        .collect()
}

/// Writes round and round, synced now and then and in the end; the last block's number.
fn write_until(ends: &AtomicBool, written: &AtomicU64, file: &File) -> u64 {
    let mut number = 0;
    while !ends.load(Ordering::SeqCst) {
        number += 1;
        let at = number % BLOCKS * BLOCK as u64;
        file.write(at, &block(number)).unwrap();
        if number % 40 == 0 {
            file.sync().unwrap();
        }
        written.store(number, Ordering::SeqCst);
    }
    file.sync().unwrap();
    number
}

#[test]
fn no_byte_is_lost_over_restarts_that_lose_what_was_not_committed() {
    for text in [
        "proto=tcp,wsize=16k,timeo=20",
        "proto=tcp,nconnect=3,wsize=4k,timeo=20",
    ] {
        let store = Arc::new(Forgetful::new());
        let service = service(Arc::clone(&store) as _);
        let port = Port::held();
        let mut server = port.start(&service);
        let mounted = mount(port.address, text);
        let handle = create(&mounted, b"f");
        let reader = mounted.client.record_every_call(1 << 20).unwrap();
        let file = open(&mounted, handle);
        let (ends, written) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut lost = 0;
        let (last, _server) = std::thread::scope(|scope| {
            let load = scope.spawn(|| write_until(&ends, &written, &file));
            for _ in 0..RESTARTS {
                // Some work between two restarts, or the load has to get through first.
                let from = written.load(Ordering::SeqCst);
                while written.load(Ordering::SeqCst) < from + 50 && !load.is_finished() {
                    std::thread::yield_now();
                }
                // At a moment when there is something to lose, seen by the verifier alone; then
                // with the connection, at any moment.
                let mut now = 0;
                while now == 0 && !load.is_finished() {
                    std::thread::yield_now();
                    now = store.crash_if_it_loses();
                }
                lost += now;
                let _listener_goes = no_forks();
                server.stop().unwrap();
                lost += store.crash();
                server = port.start(&service);
            }
            ends.store(true, Ordering::SeqCst);
            (load.join().unwrap(), server)
        });
        assert!(
            lost > 0,
            "the crashes lost something: otherwise nothing was tested"
        );
        let content = store.content(b"f");
        for place in 0..BLOCKS {
            // The newest block at this place.
            let newest = last - (last - place) % BLOCKS;
            let at = place as usize * BLOCK;
            assert!(
                content[at..at + BLOCK] == block(newest),
                "{text}: block {newest} at {place}"
            );
        }
        let read = file.read(0, content.len()).unwrap();
        assert!(read.bytes == content);
        let (counters, _) = mounted.client.figures().unwrap();
        assert!(
            counters.disconnects >= RESTARTS && counters.failed == 0,
            "{counters:?}"
        );
        let mut records = Vec::new();
        mounted.client.shutdown();
        assert_eq!(reader.drain(&mut records), 0);
        let sent_again = records.iter().filter(|record| record.sends > 1).count();
        eprintln!("{text}: {last} blocks, {lost} bytes lost and got again, {sent_again} resends");
    }
}
