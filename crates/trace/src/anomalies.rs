//! Kinds of oddities and their counts, stated once for each stage.
//!
//! Nothing that cannot be read is dropped silently: each case has a kind, which
//! `python/nfslab/captures/anomalies.py` explains. Counting is one addition to a fixed array, cheap
//! enough for every packet.

/// Makes `Anomaly`, the kinds with their names in reports and JSON, and `Anomalies`, their counts.
macro_rules! anomalies {
    ($($(#[doc = $text:literal])+ $kind:ident = $name:literal,)+) => {
        /// Kinds of oddities that this stage counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Anomaly {
            $($(#[doc = $text])+ $kind,)+
        }

        impl Anomaly {
            /// All kinds, in the order of the enumeration.
            pub const ALL: &'static [Anomaly] = &[$(Anomaly::$kind,)+];

            /// The name that reports and JSON use.
            pub fn name(self) -> &'static str {
                match self {
                    $(Anomaly::$kind => $name,)+
                }
            }
        }

        /// A count for each kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Anomalies([u64; Anomaly::ALL.len()]);

        impl Default for Anomalies {
            fn default() -> Self {
                Anomalies([0; Anomaly::ALL.len()])
            }
        }

        impl Anomalies {
            /// One more of this kind.
            #[inline(always)]
            pub fn count(&mut self, kind: Anomaly) {
                self.0[kind as usize] += 1;
            }

            /// How many of this kind.
            pub fn of(&self, kind: Anomaly) -> u64 {
                self.0[kind as usize]
            }

            /// Name and count of the kinds that occurred.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                Anomaly::ALL
                    .iter()
                    .map(|&kind| (kind.name(), self.of(kind)))
                    .filter(|&(_, count)| count > 0)
            }
        }
    };
}

pub(crate) use anomalies;
