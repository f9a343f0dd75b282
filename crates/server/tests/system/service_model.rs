//! The service model against schedules worked out by hand: exact instants, invented time.

use server::model::{
    Action, DiskDescription, Engine, ModelDescription, ModelError, QueueOrder, Shape, Spread, Stall,
};

const GETATTR: u32 = 1;
const READ: u32 = 6;
const WRITE: u32 = 7;
const COMMIT: u32 = 21;
const US: u64 = 1000;

/// Runs calls (arrival, shape) and returns (start, finish) of each. With `step` the engine is asked
/// only at multiples of it: the instants must not depend on that.
fn run(description: &ModelDescription, calls: &[(u64, Shape)], step: u64) -> Vec<(u64, u64)> {
    description.check().unwrap();
    let mut engine = Engine::new(description.clone(), 0);
    let mut times = vec![(0, 0); calls.len()];
    let mut todo = calls.iter().enumerate().peekable();
    let mut now = 0;
    let mut done = 0;
    while done < calls.len() {
        while let Some((id, (at, shape))) = todo.peek().copied() {
            if *at > now {
                break;
            }
            todo.next();
            engine.arrive(id as u64, *shape, *at);
        }
        while let Some((at, action)) = engine.act(now) {
            assert!(at <= now);
            match action {
                Action::Start(id) => times[id as usize].0 = at,
                Action::Finish(id, stages) => {
                    times[id as usize].1 = at;
                    assert_eq!(stages.started_ns, times[id as usize].0);
                    assert!(stages.started_ns <= stages.served_ns && stages.served_ns <= at);
                    done += 1;
                }
            }
        }
        let next = engine
            .next_ns()
            .into_iter()
            .chain(todo.peek().map(|(_, (at, _))| *at))
            .min();
        now = next.unwrap_or(now).next_multiple_of(step).max(now);
    }
    assert_eq!(engine.next_ns(), None);
    times
}

fn shape(procedure: u32, offset: u64, data_bytes: u64) -> Shape {
    let stable = true;
    Shape {
        procedure,
        object: 1,
        offset,
        data_bytes,
        stable,
        ..Shape::default()
    }
}

fn finishes(times: &[(u64, u64)]) -> Vec<u64> {
    times.iter().map(|(_, finish)| *finish).collect()
}

fn service(threads: u32, each_ns: u64) -> ModelDescription {
    ModelDescription {
        threads: Some(threads),
        service_ns: each_ns,
        ..ModelDescription::default()
    }
}

#[test]
fn what_is_in_the_servers_memory_costs_no_disk() {
    // 8 ms to position, 1 byte a microsecond, two pages of memory.
    let disk = DiskDescription {
        positioning_ns: 8_000 * US,
        rate_bytes_per_s: 1_000_000,
        cache_bytes: Some(2 * 4096),
        ..DiskDescription::default()
    };
    let description = ModelDescription {
        disk: Some(disk),
        ..ModelDescription::default()
    };
    let at = |number: u64| number * 100_000 * US;
    let miss = (8_000 + 4096) * US;
    let calls = [
        (at(0), shape(READ, 0, 4096)),
        (at(1), shape(READ, 100, 10)),
        // Goes on where the disk stopped: no positioning.
        (at(2), shape(READ, 4096, 4096)),
        // One page of two is there.
        (at(3), shape(READ, 4096, 8192)),
        // The first page made room for the third.
        (at(4), shape(READ, 0, 1)),
        (at(5), shape(GETATTR, 0, 0)),
        (at(6), shape(GETATTR, 0, 0)),
    ];
    let times = run(&description, &calls, 1);
    let took: Vec<u64> = times
        .iter()
        .zip(&calls)
        .map(|(t, (at, _))| t.1 - at)
        .collect();
    assert_eq!(took, [miss, 0, 4096 * US, 4096 * US, miss, miss, 0]);
}

#[test]
fn disks_side_by_side_work_at_once_each_on_its_stripes() {
    let disk = DiskDescription {
        disks: 4,
        positioning_ns: 10 * US,
        rate_bytes_per_s: 1_000_000_000,
        ..DiskDescription::default()
    };
    // Stripes of one file go round all disks, whichever it begins on.
    let first = disk.disk_of((7, 0));
    let places: Vec<usize> = (0..8).map(|n| disk.disk_of((7, n << 16))).collect();
    let round: Vec<usize> = (0..8).map(|n| (first + n) % 4).collect();
    assert_eq!(places, round);
    assert_eq!(disk.disk_of((7, 65_535)), first);
    // Files are spread evenly: 4,000 of them, by chi-square with 3 degrees of freedom.
    let mut files = [0_i64; 4];
    (0..4000).for_each(|object| files[disk.disk_of((object, 0))] += 1);
    let chi: i64 = files.iter().map(|n| (n - 1000).pow(2)).sum();
    assert!(chi < 16_270, "{files:?}"); // 0.1 %
    // Five jobs at once, the fifth on the disk of the first: it waits for that one only.
    let description = ModelDescription {
        disk: Some(disk),
        ..ModelDescription::default()
    };
    let calls: Vec<(u64, Shape)> = (0..5).map(|n| (0, shape(READ, n << 16, 1000))).collect();
    let times = finishes(&run(&description, &calls, 1));
    assert_eq!(times, [11 * US, 11 * US, 11 * US, 11 * US, 22 * US]);
    let none = DiskDescription { disks: 0, ..disk };
    let description = ModelDescription {
        disk: Some(none),
        ..ModelDescription::default()
    };
    assert_eq!(description.check(), Err(ModelError::Disks));
}

#[test]
fn a_share_of_hits_and_a_memory_exclude_each_other() {
    let disk = DiskDescription {
        read_hit_ratio: 0.5,
        cache_bytes: Some(1 << 20),
        ..DiskDescription::default()
    };
    let description = ModelDescription {
        disk: Some(disk),
        ..ModelDescription::default()
    };
    assert_eq!(description.check(), Err(ModelError::TwoMemories));
}

#[test]
fn one_worker_is_a_d_d_1_queue() {
    // Service 10, arrivals every 4: call n starts when n before it are done.
    let calls: Vec<_> = (0..50).map(|n| (n * 4, shape(1, 0, 0))).collect();
    let times = run(&service(1, 10), &calls, 1);
    for (n, (start, finish)) in times.iter().enumerate() {
        assert_eq!((*start, *finish), (n as u64 * 10, n as u64 * 10 + 10));
    }
}

#[test]
fn n_workers_share_the_queue() {
    // Twelve calls at once, three workers, 10 each: four rounds.
    let calls = vec![(0, shape(1, 0, 0)); 12];
    let times = run(&service(3, 10), &calls, 1);
    for (n, (start, finish)) in times.iter().enumerate() {
        let round = n as u64 / 3;
        assert_eq!((*start, *finish), (round * 10, round * 10 + 10));
    }
    let free = ModelDescription {
        threads: None,
        ..service(1, 10)
    };
    assert!(run(&free, &calls, 1).iter().all(|times| *times == (0, 10)));
}

/// Lindley's recursion (waiting time of a single server queue) for exponential arrivals.
#[test]
fn m_d_1_follows_lindley_and_pollaczek_khinchine() {
    let mut random = server::model::Random::new(3);
    let (mut at, mut calls) = (0, Vec::new());
    for _ in 0..20_000 {
        at += random.exponential_ns(2000);
        calls.push((at, shape(1, 0, 0)));
    }
    let times = run(&service(1, 1000), &calls, 1);
    let (mut free, mut total_wait) = (0, 0);
    for ((at, _), (start, finish)) in calls.iter().zip(&times) {
        let wanted = free.max(*at);
        assert_eq!((*start, *finish), (wanted, wanted + 1000));
        free = *finish;
        total_wait += start - at;
    }
    // Mean wait of M/D/1 at load 0.5: 0.5 / (2 (1 - 0.5)) services = 500.
    let mean = total_wait as f64 / calls.len() as f64;
    assert!((mean - 500.0).abs() < 40.0, "{mean}");
}

#[test]
fn instants_do_not_depend_on_when_the_engine_is_asked() {
    let disk = DiskDescription {
        positioning_ns: 700,
        commit_ns: 90,
        ..DiskDescription::default()
    };
    let description = ModelDescription {
        disk: Some(disk),
        jitter_ns: 50,
        spread: Spread::Exponential,
        stalls: vec![Stall {
            at_ns: 1500,
            for_ns: 300,
        }],
        ..service(2, 333)
    };
    let calls: Vec<_> = (0..100)
        .map(|n| {
            (
                n * 100,
                shape(if n % 3 == 0 { WRITE } else { READ }, n * 512, 512),
            )
        })
        .collect();
    assert_eq!(
        run(&description, &calls, 1),
        run(&description, &calls, 1000)
    );
}

#[test]
fn the_disk_serves_one_after_the_other_and_knows_sequences() {
    let disk = DiskDescription {
        positioning_ns: 5000 * US,
        rate_bytes_per_s: 1_000_000,
        ..DiskDescription::default()
    };
    let description = ModelDescription {
        disk: Some(disk),
        ..service(8, 0)
    };
    // 1000 bytes are 1 ms. The second goes on where the first ended; the third does not.
    let calls = [
        (0, shape(READ, 0, 1000)),
        (0, shape(READ, 1000, 1000)),
        (0, shape(READ, 9000, 1000)),
    ];
    let wanted = [6000 * US, 7000 * US, 13_000 * US];
    assert_eq!(finishes(&run(&description, &calls, 1)), wanted);
    // One worker: the disk is never asked for more than one thing, the same sum.
    let one = ModelDescription {
        threads: Some(1),
        ..description
    };
    let times = run(&one, &calls, 1);
    assert_eq!(finishes(&times), wanted);
    assert_eq!(times[2].0, 7000 * US);
}

#[test]
fn the_elevator_takes_what_lies_ahead_first() {
    let disk = DiskDescription {
        rate_bytes_per_s: 1_000_000,
        order: QueueOrder::Elevator,
        ..DiskDescription::default()
    };
    let description = ModelDescription {
        disk: Some(disk),
        ..service(8, 0)
    };
    // The first is taken at once and leaves the arm at 51: then 70, 90, 10, 30.
    let offsets = [50, 10, 90, 30, 70];
    let calls: Vec<_> = offsets
        .iter()
        .map(|offset| (0, shape(READ, *offset, 1)))
        .collect();
    let order = finishes(&run(&description, &calls, 1));
    assert_eq!(order, [US, 4 * US, 3 * US, 5 * US, 2 * US]);
    let fifo = DiskDescription {
        order: QueueOrder::Fifo,
        ..disk
    };
    let description = ModelDescription {
        disk: Some(fifo),
        ..description
    };
    assert_eq!(
        finishes(&run(&description, &calls, 1)),
        [US, 2 * US, 3 * US, 4 * US, 5 * US]
    );
}

#[test]
fn unstable_writes_cost_when_they_are_committed() {
    let disk = DiskDescription {
        rate_bytes_per_s: 1_000_000,
        commit_ns: 200 * US,
        ..DiskDescription::default()
    };
    let description = ModelDescription {
        disk: Some(disk),
        ..service(8, 10 * US)
    };
    let unstable = |offset| Shape {
        stable: false,
        ..shape(WRITE, offset, 1000)
    };
    let calls = [
        (0, unstable(0)),
        (0, unstable(1000)),
        (100 * US, shape(COMMIT, 0, 0)),
        (5000 * US, shape(COMMIT, 0, 0)),
        (6000 * US, shape(WRITE, 0, 500)),
    ];
    let wanted = [10, 10, 100 + 10 + 2000 + 200, 5010, 6000 + 10 + 500 + 200].map(|us| us * US);
    assert_eq!(finishes(&run(&description, &calls, 1)), wanted);
    // Beyond the dirty limit a WRITE waits for its own bytes.
    let disk = DiskDescription {
        dirty_limit_bytes: Some(1500),
        ..disk
    };
    let description = ModelDescription {
        disk: Some(disk),
        ..description
    };
    assert_eq!(
        finishes(&run(&description, &calls[..2], 1)),
        [10 * US, 1010 * US]
    );
}

#[test]
fn nvram_is_stable_at_once_until_it_is_full() {
    let disk = DiskDescription {
        positioning_ns: 10_000 * US,
        rate_bytes_per_s: 1_000_000,
        ..DiskDescription::default()
    };
    let nvram = ModelDescription {
        disk: Some(disk),
        nvram_bytes: Some(3000),
        ..service(8, 0)
    };
    let calls = vec![(0, shape(WRITE, 0, 1000)); 5];
    assert_eq!(
        finishes(&run(&nvram, &calls, 1)),
        [0, 0, 0, 1000 * US, 2000 * US]
    );
    let without = ModelDescription {
        nvram_bytes: None,
        ..nvram
    };
    assert_eq!(
        finishes(&run(&without, &calls[..2], 1)),
        [11_000 * US, 22_000 * US]
    );
}

#[test]
fn bandwidth_delays_each_way_and_delay_is_added() {
    let description = ModelDescription {
        bandwidth_bytes_per_s: Some(1_000_000),
        delay_ns: 7 * US,
        ..service(8, 0)
    };
    let sized = Shape {
        request_bytes: 100,
        reply_bytes: 1000,
        ..shape(READ, 0, 900)
    };
    let times = run(&description, &[(0, sized), (0, sized)], 1);
    assert_eq!(times, [(100 * US, 1107 * US), (200 * US, 2107 * US)]);
}

#[test]
fn stalls_stop_work_but_not_the_clock() {
    let description = ModelDescription {
        stalls: vec![
            Stall {
                at_ns: 15,
                for_ns: 100,
            },
            Stall {
                at_ns: 120,
                for_ns: 10,
            },
        ],
        ..service(1, 10)
    };
    let calls = [
        (0, shape(1, 0, 0)),
        (10, shape(1, 0, 0)),
        (20, shape(1, 0, 0)),
    ];
    // The second has half its service before the first stall, half between the stalls.
    assert_eq!(finishes(&run(&description, &calls, 1)), [10, 120, 140]);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let description = |seed| ModelDescription {
        seed,
        spread: Spread::Exponential,
        jitter_ns: 1000,
        ..service(2, 100)
    };
    let calls: Vec<_> = (0..100).map(|n| (n * 20, shape(1, 0, 0))).collect();
    assert_eq!(
        run(&description(1), &calls, 1),
        run(&description(1), &calls, 1)
    );
    assert_ne!(
        run(&description(1), &calls, 1),
        run(&description(2), &calls, 1)
    );
    let draws = |loss| {
        let mut engine = Engine::new(
            ModelDescription {
                loss,
                ..description(5)
            },
            0,
        );
        (0..1000).filter(|_| engine.loses()).count()
    };
    assert_eq!((draws(0.0), draws(1.0)), (0, 1000));
    assert!((150..250).contains(&draws(0.2)));
}

#[test]
fn descriptions_that_cannot_work_are_refused() {
    let usual = ModelDescription::default;
    let check = |description: ModelDescription| description.check().unwrap_err();
    let zero = check(ModelDescription {
        threads: Some(0),
        ..usual()
    });
    assert_eq!(zero, ModelError::Zero("threads"));
    let odd = check(ModelDescription {
        loss: 1.5,
        ..usual()
    });
    assert_eq!(odd, ModelError::Probability("loss"));
    let odd = check(ModelDescription {
        duplicate: f64::NAN,
        ..usual()
    });
    assert_eq!(odd, ModelError::Probability("duplicate"));
    let alone = check(ModelDescription {
        nvram_bytes: Some(1),
        ..usual()
    });
    assert_eq!(alone, ModelError::NvramWithoutDisk);
}

#[test]
fn stages_say_where_each_planted_time_lies() {
    let description = ModelDescription {
        bandwidth_bytes_per_s: Some(1_000_000),
        delay_ns: 5000 * US,
        disk: Some(DiskDescription {
            rate_bytes_per_s: 1_000_000,
            ..DiskDescription::default()
        }),
        ..service(1, 300 * US)
    };
    let mut engine = Engine::new(description, 0);
    for id in [0, 1] {
        let request = Shape {
            request_bytes: 100,
            reply_bytes: 50,
            ..shape(READ, id * 1000, 1000)
        };
        engine.arrive(id, request, 0);
    }
    let mut found = Vec::new();
    while let Some((at, action)) = engine.act(u64::MAX) {
        if let Action::Finish(_, stages) = action {
            found.push((stages.way_in_ns, stages.started_ns, stages.served_ns, at));
        }
    }
    // In: 100 us each, one behind the other. The one worker keeps a call through 300 us of service
    // and 1 ms of disk. Out: 50 us, and the delay.
    let wanted = [
        [100, 100, 1400, 1400 + 50 + 5000],
        [200, 1400, 2700, 2700 + 50 + 5000],
    ];
    let wanted =
        wanted.map(|[way, start, served, at]| (way * US, start * US, served * US, at * US));
    assert_eq!(found, wanted);
}
