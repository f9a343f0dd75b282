//! Histogram against exact arithmetic on sorted values, and against other implementations' bytes.

// Scaffolding of tests may fail loudly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use measure::hdr_v2::{self, HistogramError};
use measure::{HIGHEST_NS, HistogramSummary, LatencyHistogram};
use proptest::prelude::*;

fn of(values: &[u64]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new().unwrap();
    values.iter().for_each(|&value| histogram.record(value));
    histogram
}

/// Nearest rank: the smallest value that at least a share `quantile` of all stay at or below.
fn exact_quantile(sorted: &[u64], quantile: f64) -> u64 {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

proptest! {
    #[test]
    fn quantiles_are_within_their_error_bound(
        mut values in proptest::collection::vec(1_u64..=HIGHEST_NS, 1..300),
        hundredths in 0_u32..=100,
    ) {
        let histogram = of(&values);
        values.sort_unstable();
        let quantile = f64::from(hundredths) / 100.0;
        let exact = exact_quantile(&values, quantile);
        let found = histogram.quantile_ns(quantile).unwrap().unwrap();
        prop_assert!(found >= exact && found <= exact + exact / 1000, "{found} for {exact}");
        prop_assert!(found <= values[values.len() - 1]);
    }

    #[test]
    fn extremes_and_moments_are_exact(
        values in proptest::collection::vec(1_u64..=HIGHEST_NS, 1..100),
    ) {
        let histogram = of(&values);
        let count = values.len() as f64;
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        let mean = sum as f64 / count;
        prop_assert_eq!(histogram.min_ns(), values.iter().min().copied());
        prop_assert_eq!(histogram.max_ns(), values.iter().max().copied());
        prop_assert_eq!(histogram.mean_ns(), Some(mean));
        let variance = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / count;
        let stdev = histogram.stdev_ns().unwrap();
        prop_assert!((stdev - variance.sqrt()).abs() <= 1e-9 * mean.max(1.0), "{stdev}");
    }

    #[test]
    fn adding_is_recording_both(
        left in proptest::collection::vec(0_u64..2 * HIGHEST_NS, 0..50),
        right in proptest::collection::vec(0_u64..2 * HIGHEST_NS, 0..50),
    ) {
        let mut sum = of(&left);
        sum.add(&of(&right)).unwrap();
        let both = of(&[left, right].concat());
        prop_assert_eq!(HistogramSummary::of(&sum).unwrap(), HistogramSummary::of(&both).unwrap());
    }

    #[test]
    fn random_bytes_give_an_error_or_a_histogram(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200), cookie in 0_usize..3,
    ) {
        // Most random bytes fail at the cookie; with one in place they get further.
        let cookies: [&[u8]; 3] = [b"", &[0x1c, 0x84, 0x93, 0x13], &[0x1c, 0x84, 0x93, 0x14]];
        bytes.splice(..0, cookies[cookie].iter().copied());
        let _ = LatencyHistogram::from_v2(&bytes);
    }

    #[test]
    fn damaged_plain_bytes_give_an_error_or_a_histogram(
        at in 0_usize..80, byte in any::<u8>(), length in 0_usize..80,
    ) {
        let mut bytes = plain(&[5, 5_000, 5_000_000]);
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = LatencyHistogram::from_v2(&bytes);
        bytes.truncate(length);
        let _ = LatencyHistogram::from_v2(&bytes);
    }
}

proptest! {
    // A histogram of any range can have six million slots: fewer cases.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_bring_back_every_bucket(
        values in proptest::collection::vec(1_u64..=HIGHEST_NS, 0..100), digits in 1_u8..=5,
    ) {
        let mut histogram = LatencyHistogram::with_digits(digits).unwrap();
        values.iter().for_each(|&value| histogram.record(value));
        let back = LatencyHistogram::from_v2(&histogram.to_v2().unwrap()).unwrap();
        prop_assert_eq!(back.buckets().collect::<Vec<_>>(), histogram.buckets().collect::<Vec<_>>());
        prop_assert_eq!((back.count(), back.digits()), (histogram.count(), digits));
        prop_assert!(!back.exact() && histogram.exact());
    }

    #[test]
    fn any_header_gives_an_error_or_a_histogram(
        digits in 0_u32..8, low in any::<u64>(), high in any::<u64>(), low_bits in 0_u32..64,
        high_bits in 0_u32..64, payload in proptest::collection::vec(any::<u8>(), 0..30),
    ) {
        let (low, high) = (low >> low_bits, high >> high_bits);
        let _ = LatencyHistogram::from_v2(&with_header(digits, low, high, &payload));
    }
}

/// The uncompressed form of a histogram of `values`.
fn plain(values: &[u64]) -> Vec<u8> {
    use std::io::Read as _;
    let bytes = of(values).to_v2().unwrap();
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(&bytes[8..])
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

fn with_header(digits: u32, low: u64, high: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x1c84_9313_u32.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(digits.to_be_bytes());
    bytes.extend(low.to_be_bytes());
    bytes.extend(high.to_be_bytes());
    bytes.extend(1_f64.to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn out_of_range_values_are_counted_and_change_nothing_else() {
    let mut histogram = of(&[10, 20]);
    histogram.record(0);
    histogram.record_signed(-5);
    histogram.record(HIGHEST_NS + 1);
    histogram.record(u64::MAX);
    assert_eq!(
        (histogram.below(), histogram.above(), histogram.count()),
        (2, 2, 2)
    );
    assert_eq!(
        (histogram.min_ns(), histogram.max_ns()),
        (Some(10), Some(20))
    );
    assert_eq!(histogram.mean_ns(), Some(15.0));
    assert_eq!(histogram.stdev_ns(), Some(5.0));
    histogram.record(HIGHEST_NS);
    assert_eq!(
        (histogram.above(), histogram.max_ns()),
        (2, Some(HIGHEST_NS))
    );
    assert_eq!(histogram.quantile_ns(1.0).unwrap(), Some(HIGHEST_NS));
}

#[test]
fn an_empty_histogram_knows_nothing() {
    let empty = of(&[]);
    assert_eq!(
        (empty.min_ns(), empty.max_ns(), empty.mean_ns()),
        (None, None, None)
    );
    assert_eq!(empty.quantile_ns(0.5).unwrap(), None);
    assert_eq!(empty.buckets().count(), 0);
    for wrong in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(
            empty.quantile_ns(wrong),
            Err(HistogramError::Quantile { .. })
        ));
    }
}

#[test]
fn buckets_hold_their_values() {
    // Below 2048 ns every value has a bucket of its own; 4096 and 4097 share one.
    let buckets: Vec<_> = of(&[1, 1, 2047, 4096, 4097]).buckets().collect();
    assert_eq!(buckets, [(1, 1, 2), (2047, 2047, 1), (4096, 4099, 2)]);
}

#[test]
fn digits_are_one_to_five_and_the_same_for_adding() {
    assert_eq!(
        LatencyHistogram::with_digits(0).map(|_| ()),
        Err(HistogramError::Digits { digits: 0 })
    );
    assert!(LatencyHistogram::with_digits(6).is_err());
    let mut three = of(&[1]);
    let two = LatencyHistogram::with_digits(2).unwrap();
    assert_eq!(three.add(&two), Err(HistogramError::Digits { digits: 2 }));
}

#[test]
fn bytes_of_other_implementations_are_read() {
    // HdrHistogram (Java, de84b0a) and HdrHistogram_c (8885476), byte for byte the same: range 1
    // to 2048, 3 digits, 2048 recorded once (test vector of hdrhistogram-go, MIT). Values from
    // 2048 on lie in buckets of two.
    let both = "HISTFAAAACB4nJNpmSzMwMDAzAABMJoRQnEw2H+AsP7LMwEARZgDpQ==";
    let histogram = LatencyHistogram::from_v2(&STANDARD.decode(both).unwrap()).unwrap();
    assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(2048, 2049, 1)]);
    assert_eq!(histogram.digits(), 3);

    // HdrHistogram (Java) 2.1.10, first line of its tagged-Log.logV2.hlog (CC0), whose column
    // Interval_Max says 2.769 ms.
    let java = "HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lM\
                axhvMekILGZkKmcCAEf2CsI=";
    let histogram = LatencyHistogram::from_v2(&STANDARD.decode(java).unwrap()).unwrap();
    assert_eq!((histogram.max_ns().unwrap() + 500) / 1_000, 2_769);
}

#[test]
fn hostile_bytes_are_refused_by_name() {
    let too_large = |bytes: &[u8]| hdr_v2::decode(bytes).unwrap_err();
    // A zlib bomb: 64 MiB of zeroes in 64 KiB.
    let mut bomb = Vec::new();
    let mut encoder = flate2::write::ZlibEncoder::new(&mut bomb, flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, &vec![0; 64 << 20]).unwrap();
    encoder.finish().unwrap();
    let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(bomb.len()).unwrap().to_be_bytes());
    bytes.extend(&bomb);
    assert!(matches!(too_large(&bytes), HistogramError::TooLarge { .. }));
    // A payload length of 4 GiB with nothing behind it.
    let mut bytes = with_header(3, 1, 1_000_000, &[]);
    bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(too_large(&bytes), HistogramError::Short { .. }));
    // A run of 2^63 empty slots: its negation does not fit.
    let run = [0xff; 9];
    let bytes = with_header(3, 1, 1_000_000, &run);
    assert!(matches!(
        too_large(&bytes),
        HistogramError::Payload { offset: 0, .. }
    ));
    // Two counts of 2^62 each.
    let count = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];
    let bytes = with_header(3, 1, 1_000_000, &[count, count].concat());
    assert!(matches!(
        too_large(&bytes),
        HistogramError::Payload { offset: 9, .. }
    ));
    let bytes = with_header(9, 1, 1_000_000, &[]);
    assert_eq!(too_large(&bytes), HistogramError::Digits { digits: 9 });
    assert!(matches!(
        too_large(b"no histogram"),
        HistogramError::Cookie { .. }
    ));
    assert!(matches!(too_large(b""), HistogramError::Short { .. }));
}
