//! The tally against a count made the plain way: all calls kept, and looked through at the end.

use syscalls::record::{CALLS, Call, NameRecord, Place, bucket, octave};
use syscalls::tally::files::Inode;
use syscalls::tally::{Level, Observed, Options, PATH_BYTES_MAX, Tally};

fn random_call(random: &mut fastrand::Rng, files: u32) -> Observed {
    let call = CALLS[random.usize(..CALLS.len())];
    let size = 1 << random.u32(..14);
    let failed = random.u8(..10) == 0;
    Observed {
        call,
        file_id: random.u32(..files),
        start_ns: random.u64(..1 << 40),
        latency_ns: 1 << random.u32(..42),
        pid: 1,
        tid: 2,
        offset: (random.u8(..8) > 0).then(|| random.u64(..8) * 4096),
        size: Some(size),
        synchronous: call.writes() && random.bool(),
        result: if failed {
            -5
        } else {
            random.u64(..=size) as i64
        },
    }
}

fn inode(number: u32) -> Inode {
    Inode {
        device: (8, 1),
        inode: number.into(),
        generation: 0,
    }
}

/// Where the call at `at` lies, by looking back for the one before it.
fn place(calls: &[Observed], at: usize) -> Option<usize> {
    let placed = |seen: &Observed| seen.offset.is_some() && seen.result >= 0;
    let kind = |call: Call| (call.reads(), call.writes());
    let seen = &calls[at];
    if !placed(seen) || kind(seen.call) == (false, false) {
        return None;
    }
    let before = calls[..at].iter().rev().find(|other| {
        placed(other) && other.file_id == seen.file_id && kind(other.call) == kind(seen.call)
    });
    let Some(before) = before else {
        return Some(Place::First as usize);
    };
    let (from, to) = (
        before.offset.unwrap(),
        before.offset.unwrap() + before.result as u64,
    );
    Some(match seen.offset.unwrap() {
        offset if offset == to => 1,
        offset if (from..to).contains(&offset) => 2,
        offset if offset > to => 3,
        _ => 4,
    })
}

#[test]
fn counts_are_those_of_a_plain_count() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let files = 1 + random.u32(..5);
        let calls: Vec<_> = (0..2000).map(|_| random_call(&mut random, files)).collect();
        let mut tally = Tally::new(Options::new(Level::Events));
        for number in 0..files {
            assert_eq!(tally.files.of_inode(inode(number)), number);
        }
        calls.iter().for_each(|seen| tally.observe(seen));
        let mut rows = 0;
        for row in tally.counts() {
            rows += row.calls;
            assert_ne!(row.call, Call::Lseek, "was not asked for");
            let of = |seen: &&Observed| (seen.file_id, seen.call) == (row.file_id, row.call);
            let mine: Vec<_> = calls.iter().filter(of).collect();
            let sum =
                |value: &dyn Fn(&Observed) -> u64| mine.iter().map(|seen| value(seen)).sum::<u64>();
            assert_eq!(row.calls, mine.len() as u64);
            assert_eq!(row.errors, sum(&|seen| (seen.result < 0).into()));
            assert_eq!(row.latency_sum_ns, sum(&|seen| seen.latency_ns));
            let longest = mine.iter().map(|seen| seen.latency_ns).max();
            assert_eq!(row.latency_max_ns, longest.unwrap_or(0));
            for (number, count) in row.latencies.iter().enumerate() {
                assert_eq!(
                    *count,
                    sum(&|seen| (bucket(seen.latency_ns) == number).into())
                );
            }
            let transfers = row.call.reads() || row.call.writes();
            let moved = sum(&|seen| seen.result.max(0) as u64);
            assert_eq!(row.bytes, if transfers { moved } else { 0 });
            for (number, count) in row.sizes.iter().enumerate() {
                let fits = |seen: &Observed| u64::from(seen.size.map(octave) == Some(number));
                assert_eq!(*count, if transfers { sum(&fits) } else { 0 });
            }
            let mut places = [0; 5];
            for (at, seen) in calls.iter().enumerate().filter(|(_, seen)| of(seen)) {
                if let Some(place) = place(&calls, at) {
                    places[place] += 1;
                }
                assert_eq!(seen.call, row.call);
            }
            assert_eq!(row.places, places, "seed {seed}: {:?}", row.call);
        }
        let counted = calls.iter().filter(|seen| seen.call != Call::Lseek).count();
        assert_eq!(rows, counted as u64);
        let taken = tally.take();
        let transfers = calls
            .iter()
            .filter(|seen| seen.call.reads() || seen.call.writes());
        assert_eq!(taken.events.len(), transfers.count());
        let syncs = calls
            .iter()
            .filter(|seen| seen.call.syncs() || seen.synchronous);
        assert_eq!(taken.syncs.len(), syncs.count());
        assert!(tally.take().syncs.is_empty(), "taken once");
    }
}

#[test]
fn files_beyond_the_limit_are_counted() {
    let options = Options {
        files_max: 2,
        ..Options::new(Level::Counts)
    };
    let mut tally = Tally::new(options);
    let ids = [5, 6, 7, 5, 7].map(|number| tally.files.of_inode(inode(number)));
    assert_eq!(ids, [0, 1, u32::MAX, 0, u32::MAX]);
    assert_eq!(tally.lost().uncounted, 2);
}

#[test]
fn paths_that_nobody_takes_are_bounded_and_counted() {
    let mut tally = Tally::new(Options::new(Level::Counts));
    let row = NameRecord {
        start_ns: 1,
        latency_ns: 1,
        pid: 1,
        call: Call::Unlink,
        path: vec![b'a'; 1 << 20],
        new_path: None,
        result: -2,
    };
    let fit = (PATH_BYTES_MAX >> 20) as u64;
    for _ in 0..fit + 3 {
        tally.rename(row.clone(), 1, false);
    }
    assert_eq!(tally.lost().names, 3);
    assert_eq!(tally.take().names.len() as u64, fit);
    tally.rename(row, 1, false);
    assert_eq!(
        (tally.take().names.len(), tally.lost().names),
        (1, 3),
        "there is room again"
    );
}
