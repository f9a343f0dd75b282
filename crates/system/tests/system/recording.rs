//! Whole recordings from a made-up /proc whose numbers the test chooses.

// Scaffolding of tests may fail loudly.
use std::fs;
use std::path::Path;

use system::columns::MAX_CELLS;
use system::{Config, MISSING, Recording, Sampler, SamplerError};

struct Proc(tempfile::TempDir);

impl Proc {
    fn new() -> Self {
        let directory = Self(tempfile::tempdir().unwrap());
        fs::create_dir(directory.path().join("net")).unwrap();
        directory.write(
            "stat",
            "cpu  10 0 5 100 7 0 0 0 0 0\ncpu0 10 0 5 100 7\nctxt 42\n",
        );
        directory.write("meminfo", "MemTotal: 1000 kB\nMemFree: 500 kB\n");
        directory
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    fn config(&self) -> Config {
        Config {
            // Longer than any test: exactly the first and the last sample are taken.
            interval_ns: 3_600_000_000_000,
            cgroup: None,
            proc: self.path().to_path_buf(),
            max_cells: MAX_CELLS,
        }
    }

    /// A recording of two samples; `between` changes the files after the first.
    fn two_samples(&self, between: impl FnOnce(&Self)) -> Recording {
        let sampler = Sampler::start(self.config()).unwrap();
        between(self);
        sampler.stop().unwrap()
    }
}

fn values<'a>(recording: &'a Recording, name: &str) -> &'a [i64] {
    let column = recording.columns.iter().find(|column| column.name == name);
    let names: Vec<_> = recording
        .columns
        .iter()
        .map(|column| &column.name)
        .collect();
    &column
        .unwrap_or_else(|| panic!("{name} in {names:?}"))
        .values
}

fn has(recording: &Recording, prefix: &str) -> bool {
    recording
        .columns
        .iter()
        .any(|column| column.name.starts_with(prefix))
}

#[test]
fn values_are_scaled_to_bytes_and_nanoseconds() {
    let proc = Proc::new();
    let recording = proc.two_samples(|proc| {
        proc.write("stat", "cpu  12 0 5 100 7 0 0 0 0 0\nctxt 50\n");
        proc.write("meminfo", "MemTotal: 1000 kB\n");
    });
    assert_eq!(recording.samples, 2);
    // USER_HZ is 100 on every Linux: a tick is 10 ms.
    assert_eq!(
        values(&recording, "cpu.user_ns"),
        [100_000_000, 120_000_000]
    );
    assert_eq!(values(&recording, "cpu.context_switches_count"), [42, 50]);
    assert_eq!(
        values(&recording, "memory.total_bytes"),
        [1_024_000, 1_024_000]
    );
    // What is gone from the file is missing, not zero and not the last value.
    assert_eq!(values(&recording, "memory.free_bytes"), [512_000, MISSING]);
    let times = values(&recording, "t_ns");
    assert!(times[0] < times[1]);
    assert!(recording.start_monotonic_ns <= times[0].cast_unsigned());
    assert_eq!(
        (
            recording.late_ticks,
            recording.missed_ticks,
            recording.halvings
        ),
        (0, 0, 0)
    );
}

#[test]
fn files_that_are_not_there_are_listed_and_have_no_columns() {
    let recording = Proc::new().two_samples(|_| {});
    let absent: Vec<_> = recording
        .absent
        .iter()
        .map(|gone| gone.source.as_str())
        .collect();
    for name in [
        "vmstat",
        "pressure/cpu",
        "pressure/io",
        "diskstats",
        "net/dev",
    ] {
        assert!(
            absent.iter().any(|source| source.ends_with(name)),
            "{name} in {absent:?}"
        );
    }
    assert!(!has(&recording, "pressure."));
    assert!(!has(&recording, "vm."));
}

#[test]
fn idle_devices_have_no_columns_until_they_move() {
    let proc = Proc::new();
    let zero = " 0 0 0 0 0 0 0 0 0 0 0";
    proc.write(
        "diskstats",
        &format!("8 0 sda 1 0 8 1 0 0 0 0 0 1 1\n8 1 sdb{zero}\n8 2 sdc{zero}\n"),
    );
    let recording = proc.two_samples(|proc| {
        let text = format!("8 0 sda 2 0 16 1 0 0 0 0 0 1 1\n8 1 sdb 3 0 0 0 0 0 0 0 0 0 0\n8 2 sdc{zero}\n8 3 sdd 9{}\n", " 0".repeat(10));
        proc.write("diskstats", &text);
    });
    assert_eq!(
        values(&recording, "disk.sda.read_bytes"),
        [8 * 512, 16 * 512]
    );
    // sdb was known to have done nothing; sdd was not known at all.
    assert_eq!(values(&recording, "disk.sdb.read_count"), [0, 3]);
    assert_eq!(values(&recording, "disk.sdd.read_count"), [MISSING, 9]);
    assert!(!has(&recording, "disk.sdc."));
    assert_eq!(recording.idle, ["disk.sdc"]);
    // Eleven fields: nothing is said about discards.
    assert!(!has(&recording, "disk.sda.discard"));
}

#[test]
fn a_wrapped_32_bit_time_goes_on_and_a_reset_does_not() {
    let proc = Proc::new();
    let line = |ms: u64| format!("8 0 sda 1 0 8 {ms} 0 0 0 0 0 1 1\n");
    proc.write("diskstats", &line(4_294_967_290));
    let recording = proc.two_samples(|proc| proc.write("diskstats", &line(4)));
    let times = values(&recording, "disk.sda.read_time_ns");
    assert_eq!(times[1] - times[0], 10 * 1_000_000);

    proc.write("diskstats", &line(1000));
    let recording = proc.two_samples(|proc| proc.write("diskstats", &line(4)));
    assert_eq!(
        values(&recording, "disk.sda.read_time_ns"),
        [1_000_000_000, 4_000_000]
    );
}

#[test]
fn a_value_that_does_not_fit_is_missing_and_counted() {
    let proc = Proc::new();
    proc.write(
        "meminfo",
        "MemTotal: 18446744073709551615 kB\nMemFree: 1 kB\n",
    );
    let recording = proc.two_samples(|_| {});
    assert_eq!(recording.troubles.unreadable_values, 2);
    assert_eq!(values(&recording, "memory.total_bytes"), [MISSING, MISSING]);
}

#[test]
fn a_control_group_of_either_version_is_followed() {
    let proc = Proc::new();
    let group = tempfile::tempdir().unwrap();
    fs::write(group.path().join("memory.current"), "4096\n").unwrap();
    fs::write(group.path().join("cpu.stat"), "usage_usec 5\nuser_usec 3\n").unwrap();
    let config = Config {
        cgroup: Some(group.path().to_path_buf()),
        ..proc.config()
    };
    let recording = Sampler::start(config.clone()).unwrap().stop().unwrap();
    assert_eq!(values(&recording, "cgroup.memory_bytes"), [4096, 4096]);
    assert_eq!(values(&recording, "cgroup.cpu_ns"), [5000, 5000]);
    let group_path = group.path().display().to_string();
    assert!(
        recording
            .absent
            .iter()
            .all(|gone| !gone.source.starts_with(&group_path))
    );

    fs::remove_file(group.path().join("memory.current")).unwrap();
    fs::remove_file(group.path().join("cpu.stat")).unwrap();
    let recording = Sampler::start(config).unwrap().stop().unwrap();
    assert!(
        recording
            .absent
            .iter()
            .any(|gone| gone.source == group_path)
    );
}

#[test]
fn nothing_to_read_and_wrong_intervals_are_errors() {
    let empty = tempfile::tempdir().unwrap();
    let mut config = Config {
        proc: empty.path().to_path_buf(),
        ..Config::new(100_000_000, None)
    };
    assert!(matches!(
        Sampler::start(config.clone()),
        Err(SamplerError::NothingToRead(_))
    ));
    config.interval_ns = 999_999;
    assert!(matches!(
        Sampler::start(config),
        Err(SamplerError::Interval { .. })
    ));
}

#[test]
fn ticks_keep_to_the_grid_and_a_small_store_halves_the_rate() {
    let proc = Proc::new();
    // Ten columns or so: a store of 300 cells is full after some 30 samples of 1 ms.
    let config = Config {
        interval_ns: 1_000_000,
        max_cells: 300,
        ..proc.config()
    };
    let sampled = |ms: u128| {
        let sampler = Sampler::start(config.clone()).unwrap();
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < ms {
            std::thread::yield_now();
        }
        sampler.stop().unwrap()
    };
    // Where the sampler has no processor it takes fewer: then it gets more time.
    let mut recording = sampled(300);
    for ms in [1_200, 4_800, 19_200] {
        if recording.halvings == 0 {
            recording = sampled(ms);
        }
    }
    assert!(recording.halvings >= 1);
    assert_eq!(
        recording.effective_interval_ns,
        1_000_000 << recording.halvings
    );
    let cells: usize = recording
        .columns
        .iter()
        .map(|column| column.values.len())
        .sum();
    assert!(cells <= 300 + recording.columns.len(), "{cells}"); // and the last sample
    let taken = recording.cost.samples_read;
    assert!(taken as usize > recording.samples, "{taken}");
    // Every sample but the last was due on the grid of the start instant and never early.
    let times = values(&recording, "t_ns");
    for &time in &times[1..times.len() - 1] {
        assert!(time.cast_unsigned() > recording.start_monotonic_ns);
    }
}
