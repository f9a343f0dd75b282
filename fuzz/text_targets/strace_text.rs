//! Any bytes as text of strace or perf trace: no panic, bounded memory, pieces change nothing, and
//! what is counted adds up.
#![no_main]

use std::collections::HashSet;

use bounded::fuzz_target;
use syscalls::record::NO_FILE;
use syscalls::strace::StraceReader;
use syscalls::tally::{Level, Options, Taken};

fn read(pieces: &[&[u8]]) -> (Result<(), String>, StraceReader, Taken) {
    let options = Options {
        lseek: true,
        ..Options::new(Level::Events)
    };
    let mut reader = StraceReader::new(options);
    let mut ended = Ok(());
    for piece in pieces {
        if let Err(error) = reader.feed(piece) {
            ended = Err(error.to_string());
            break;
        }
    }
    let ended = ended.and_then(|()| reader.end().map_err(|error| error.to_string()));
    let taken = reader.take();
    (ended, reader, taken)
}

fn check(reader: &StraceReader, taken: &Taken) {
    let counts = reader.tally().counts();
    let of_reads = counts
        .iter()
        .filter(|row| row.call.reads() || row.call.writes());
    assert_eq!(
        of_reads.map(|row| row.calls).sum::<u64>(),
        taken.events.len() as u64
    );
    let syncs: u64 = counts
        .iter()
        .filter(|row| row.call.syncs())
        .map(|row| row.calls)
        .sum();
    assert!(syncs <= taken.syncs.len() as u64);
    for row in counts {
        assert!(row.errors <= row.calls);
        assert!(row.latencies.iter().sum::<u64>() <= row.calls);
        assert!(row.places.iter().sum::<u64>() <= row.calls - row.errors);
    }
    let named: HashSet<u32> = taken.files.iter().map(|file| file.file_id).collect();
    for row in &taken.events {
        assert!(row.file_id == NO_FILE || named.contains(&row.file_id));
    }
}

fuzz_target!(|data: &[u8]| {
    let (ended, reader, taken) = read(&[data]);
    check(&reader, &taken);
    if !data.contains(&0) {
        let (front, back) = data.split_at(data.len() / 3);
        let (again, pieces, rows) = read(&[front, back]);
        assert_eq!(ended, again);
        assert_eq!(reader.figures(), pieces.figures());
        assert_eq!(reader.tally().counts(), pieces.tally().counts());
        assert_eq!(taken, rows);
    }
});
