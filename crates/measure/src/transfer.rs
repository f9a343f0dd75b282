//! A histogram from one process to another, with nothing lost.
//!
//! HdrHistogram's own bytes hold buckets only. Processes that measure one thing together add up
//! what each of them has, and extremes, sums and values out of range have to be added as exactly as
//! within one process: so they go beside the buckets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{HistogramError, LatencyHistogram};

/// What a [`LatencyHistogram`] consists of.
#[derive(Serialize, Deserialize)]
pub(crate) struct Parts {
    pub below: u64,
    pub above: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub sum_ns: u128,
    pub sum_squares: u128,
    pub exact: bool,
    /// Buckets: HdrHistogram V2, compressed, in base64.
    pub v2_base64: String,
}

impl Serialize for LatencyHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.to_v2().map_err(S::Error::custom)?;
        self.parts(STANDARD.encode(bytes)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = Parts::deserialize(deserializer)?;
        let bytes = STANDARD
            .decode(&parts.v2_base64)
            .map_err(D::Error::custom)?;
        let buckets = LatencyHistogram::from_v2(&bytes).map_err(D::Error::custom)?;
        buckets
            .with_parts(&parts)
            .map_err(|error: HistogramError| D::Error::custom(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two histograms of any values, added here and added after a way through JSON.
    #[test]
    fn what_went_through_json_adds_up_as_if_it_had_stayed() {
        let mut random = crate::Random::new(5, &[]);
        for _ in 0..20 {
            let mut made = || {
                let mut histogram = LatencyHistogram::new().unwrap();
                for _ in 0..random.below(3000) {
                    // Over twelve orders of magnitude, and some out of range on both sides.
                    let bits = random.below(45);
                    histogram.record(random.below(1 << bits));
                }
                histogram
            };
            let (one, other) = (made(), made());
            let sent = |histogram: &LatencyHistogram| -> LatencyHistogram {
                let text = serde_json::to_string(histogram).unwrap();
                serde_json::from_str(&text).unwrap()
            };
            let mut stayed = one.clone();
            stayed.add(&other).unwrap();
            let mut went = sent(&one);
            went.add(&sent(&other)).unwrap();
            assert!(went.exact());
            assert!(went.buckets().eq(stayed.buckets()));
            assert_eq!(
                (went.below(), went.above()),
                (stayed.below(), stayed.above())
            );
            assert_eq!(
                (went.min_ns(), went.max_ns()),
                (stayed.min_ns(), stayed.max_ns())
            );
            assert_eq!(
                (went.mean_ns(), went.stdev_ns()),
                (stayed.mean_ns(), stayed.stdev_ns())
            );
            assert_eq!(went.quantile_ns(0.99), stayed.quantile_ns(0.99));
        }
    }

    #[test]
    fn figures_that_belong_to_no_buckets_are_refused() {
        let mut histogram = LatencyHistogram::new().unwrap();
        histogram.record(5000);
        let text = serde_json::to_string(&histogram).unwrap();
        for (was, is) in [
            ("\"min_ns\":5000", "\"min_ns\":900"),
            ("\"max_ns\":5000", "\"max_ns\":7000"),
            ("\"sum_ns\":5000", "\"sum_ns\":90000"),
            ("\"sum_squares\":25000000", "\"sum_squares\":24999999"),
            ("\"sum_squares\":25000000", "\"sum_squares\":9000000000"),
        ] {
            assert!(text.contains(was));
            let changed = text.replace(was, is);
            assert!(
                serde_json::from_str::<LatencyHistogram>(&changed).is_err(),
                "{is}"
            );
        }
        let empty = serde_json::to_string(&LatencyHistogram::new().unwrap()).unwrap();
        assert!(serde_json::from_str::<LatencyHistogram>(&empty).is_ok());
        let changed = empty.replace("\"sum_ns\":0", "\"sum_ns\":1");
        assert!(serde_json::from_str::<LatencyHistogram>(&changed).is_err());
    }
}
