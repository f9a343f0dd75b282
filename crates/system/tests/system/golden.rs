//! Parsers against texts of /proc from several kernels, with the numbers read off by hand.
//!
//! The texts follow Documentation/admin-guide/iostats.rst (14, 18 and 20 fields),
//! Documentation/filesystems/proc.rst and Documentation/accounting/psi.rst; the lines of 6.18 were
//! taken from a virtual machine and cut.

// Scaffolding of tests may fail loudly.
use proptest::prelude::*;
use system::catalog::{CPU, DISK, MEMINFO, NET, PRESSURE, STAT, VMSTAT};
use system::parse;

const STAT_6_18: &[u8] = b"cpu  102255 1 14026 482422 4052 2 561 445 3 4
cpu0 35096 0 5439 260287 491 0 229 245 0 0
cpu1 67158 0 8586 222134 3561 0 331 199 0 0
intr 1381079 0 0 0 0 25 0 0 1
ctxt 2270326
btime 1795246865
processes 23641
procs_running 3
procs_blocked 5
softirq 829399 0 85325 8 33882 328392 0 234 194583 0 186975
";

/// 2.6.32 has neither guest_nice nor, on one CPU, anything else behind guest.
const STAT_2_6_32: &[u8] = b"cpu  10 20 30 40 50 60 70 80 90
cpu0 10 20 30 40 50 60 70 80 90
intr 7
ctxt 8
";

#[test]
fn stat_by_position_and_key() {
    let mut row = vec![None; CPU.len() + STAT.len() + 1];
    assert_eq!(parse::stat(STAT_6_18, &mut row), 0);
    let expected = [
        102_255, 1, 14_026, 482_422, 4_052, 2, 561, 445, 3, 4, // the first line
        1_381_079, 2_270_326, 23_641, 3, 5,
        829_399, // intr ctxt processes running blocked softirq
        2,       // CPUs
    ];
    assert_eq!(row, expected.map(Some));
}

#[test]
fn stat_of_an_old_kernel_leaves_unknown_fields_alone() {
    let mut row = vec![None; CPU.len() + STAT.len() + 1];
    assert_eq!(parse::stat(STAT_2_6_32, &mut row), 0);
    assert_eq!(row[8..13], [Some(90), None, Some(7), Some(8), None]);
    assert_eq!(row[16], Some(1));
}

fn disk(bytes: &[u8]) -> Vec<(String, usize, Vec<Option<u64>>)> {
    parse::disk_lines(bytes)
        .map(|(name, fields)| {
            let mut row = vec![None; DISK.len()];
            let (count, unreadable) = parse::positional(fields, &mut row);
            assert_eq!(unreadable, 0);
            (String::from_utf8(name.to_vec()).unwrap(), count, row)
        })
        .collect()
}

#[test]
fn diskstats_with_14_fields() {
    // The example of iostats.rst.
    let text = b"   3    0   hda 446216 784926 9550688 4382310 424847 312726 5922052 19310380 0 \
                 3376340 23705160\n   3    1   hda1 35486 38030 38030 38030\n";
    let lines = disk(text);
    let hda = [
        446_216, 784_926, 9_550_688, 4_382_310, 424_847, 312_726, 5_922_052, 19_310_380,
    ];
    assert_eq!(lines[0].0, "hda");
    assert_eq!(lines[0].1, 11);
    assert_eq!(lines[0].2[..8], hda.map(Some));
    assert_eq!(
        lines[0].2[8..],
        [Some(0), Some(3_376_340), Some(23_705_160)]
            .into_iter()
            .chain([None; 6])
            .collect::<Vec<_>>()[..]
    );
    // Four fields: a partition before 2.6.25, to be left out for having too few.
    assert_eq!((lines[1].0.as_str(), lines[1].1), ("hda1", 4));
}

#[test]
fn diskstats_with_18_and_20_fields() {
    let text = b" 253       0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n \
                 259       1 nvme0n1p1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n";
    let lines = disk(text);
    assert_eq!((lines[0].0.as_str(), lines[0].1), ("vda", 15));
    assert_eq!(lines[0].2[14..], [Some(15), None, None]);
    assert_eq!((lines[1].0.as_str(), lines[1].1), ("nvme0n1p1", 17));
    assert_eq!(lines[1].2, (1..=17).map(Some).collect::<Vec<_>>());
}

#[test]
fn diskstats_of_a_later_kernel_with_more_fields() {
    let text = b"8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19\n";
    assert_eq!(disk(text)[0].2[16], Some(17));
}

#[test]
fn net_dev_with_and_without_a_space_behind_the_colon() {
    let text = b"Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo:  505992    5203    0    0    0     0          0         0   505992    5203    0    0    0     0       0          0
  eth0:1215 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
";
    let lines: Vec<_> = parse::net_lines(text)
        .map(|(name, fields)| {
            let mut row = vec![None; NET.len()];
            let (count, unreadable) = parse::positional(fields, &mut row);
            (
                String::from_utf8(name.to_vec()).unwrap(),
                count,
                unreadable,
                row,
            )
        })
        .collect();
    // The two header lines have no colon.
    let names: Vec<_> = lines.iter().map(|line| line.0.as_str()).collect();
    assert_eq!(names, ["lo", "eth0", "eth0:1"]);
    assert_eq!(
        (lines[0].3[0], lines[0].3[8]),
        (Some(505_992), Some(505_992))
    );
    assert_eq!((lines[1].1, lines[1].2), (16, 0));
    assert_eq!((lines[1].3[0], lines[1].3[15]), (Some(1_215), Some(16)));
}

#[test]
fn meminfo_vmstat_and_pressure() {
    let mut row = vec![None; MEMINFO.len()];
    let text = b"MemTotal:       24684096 kB\nMemFree:        22821884 kB\nActive(anon):  1564 kB
Dirty:              6704 kB\nHugePages_Total:       0\n";
    assert_eq!(parse::keyed(text, &MEMINFO, &mut row), 0);
    assert_eq!(
        (row[0], row[1], row[2]),
        (Some(24_684_096), Some(22_821_884), None)
    );
    assert_eq!(row.iter().flatten().count(), 3);

    let mut row = vec![None; VMSTAT.len()];
    // Keys in another order than ours are found as well; longer keys are no match.
    let text = b"pgmajfault 9773\npgfault 19062572\npgfaultx 1\npgpgin 11197618\n";
    assert_eq!(parse::keyed(text, &VMSTAT, &mut row), 0);
    let at = |key| VMSTAT.iter().position(|field| field.key == key).unwrap();
    assert_eq!(row[at("pgmajfault")], Some(9_773));
    assert_eq!(row[at("pgfault")], Some(19_062_572));
    assert_eq!(row[at("pgpgin")], Some(11_197_618));
    assert_eq!(row.iter().flatten().count(), 3);

    let mut row = vec![None; PRESSURE.len()];
    let text = b"some avg10=1.56 avg60=3.60 avg300=2.00 total=37283969
full avg10=0.03 avg60=1.25 avg300=1.07 total=31766134
";
    assert_eq!(parse::pressure(text, &PRESSURE, &mut row), 0);
    assert_eq!(row, [Some(37_283_969), Some(31_766_134)]);
    let mut row = vec![None; PRESSURE.len()];
    // Before 5.13 the CPU has no "full".
    parse::pressure(
        b"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
        &PRESSURE,
        &mut row,
    );
    assert_eq!(row, [Some(5), None]);
}

#[test]
fn numbers_are_decimal_and_fit() {
    assert_eq!(parse::number(b"18446744073709551615"), Some(u64::MAX));
    for wrong in [
        &b"18446744073709551616"[..],
        b"",
        b"-1",
        b"+1",
        b"0x1",
        b"1.5",
        b" 1",
    ] {
        assert_eq!(parse::number(wrong), None, "{wrong:?}");
    }
}

#[test]
fn what_is_no_number_is_counted_and_not_zero() {
    let mut row = vec![None; MEMINFO.len()];
    let text = b"MemTotal: many kB\nMemFree: 99999999999999999999999 kB\nMemAvailable: 5 kB\n";
    assert_eq!(parse::keyed(text, &MEMINFO, &mut row), 2);
    assert_eq!((row[0], row[1], row[2]), (None, None, Some(5)));
}

/// Every parser on the same bytes.
fn parse_all(bytes: &[u8]) {
    let mut row = vec![None; 64];
    parse::stat(bytes, &mut row);
    parse::keyed(bytes, &VMSTAT, &mut row);
    parse::pressure(bytes, &PRESSURE, &mut row);
    parse::single(bytes, &mut row);
    for (_, fields) in parse::disk_lines(bytes).chain(parse::net_lines(bytes)) {
        parse::positional(fields, &mut row);
    }
    // Rows too short for their file are no reason to panic either.
    parse::stat(bytes, &mut row[..3]);
    parse::keyed(bytes, &VMSTAT, &mut []);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        parse_all(&bytes);
    }

    #[test]
    fn damaged_texts_never_panic(
        at in 0..STAT_6_18.len(), byte in any::<u8>(), length in 0..STAT_6_18.len(),
    ) {
        let mut bytes = STAT_6_18.to_vec();
        bytes[at] = byte;
        parse_all(&bytes);
        parse_all(&bytes[..length]);
    }

    #[test]
    fn written_numbers_are_read_back(values in proptest::collection::vec(any::<u64>(), 17)) {
        let line = values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        let text = format!("   8  16 sdb {line}\n");
        let (_, fields) = parse::disk_lines(text.as_bytes()).next().unwrap();
        let mut row = vec![None; 17];
        prop_assert_eq!(parse::positional(fields, &mut row), (17, 0));
        prop_assert_eq!(row, values.into_iter().map(Some).collect::<Vec<_>>());
    }
}
