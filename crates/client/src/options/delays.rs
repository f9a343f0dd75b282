//! `call_delay`: time that this client waits before it sends a call, by operation.
//!
//! An experiment's lever: what one kind of call costs is changed by a known time, and nothing else.

use std::time::Duration;

use wire::programs::{NFS, procedure_name};

/// NFSv3 has 22 procedures (RFC 1813).
const PROCEDURES: usize = 22;
/// Longest delay: more is no lever, but a hang.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// Units with their nanoseconds, the longest name that fits first.
const UNITS: [(&str, u64); 4] = [
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    ("s", 1_000_000_000),
];

/// Nanoseconds before a call is sent, by number of the procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallDelays([u64; PROCEDURES]);

impl CallDelays {
    /// Reads `COMMIT:2ms+WRITE:500us`.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut delays = CallDelays::default();
        let mut seen = [false; PROCEDURES];
        for part in text.split('+') {
            let known = part.split_once(':').and_then(|(name, time)| {
                let number = procedures().position(|known| known.eq_ignore_ascii_case(name))?;
                Some((number, duration_ns(time)?))
            });
            let Some((number, delay_ns)) = known else {
                return Err(format!(
                    "'{part}' is no OPERATION:TIME of at most 10s, as in COMMIT:2ms+WRITE:500us"
                ));
            };
            if let (Some(delay), Some(seen)) = (delays.0.get_mut(number), seen.get_mut(number)) {
                if std::mem::replace(seen, true) {
                    return Err(format!("'{part}' names an operation for the second time"));
                }
                *delay = delay_ns;
            }
        }
        Ok(delays)
    }

    /// Whether no call waits.
    pub fn is_none(&self) -> bool {
        *self == CallDelays::default()
    }

    /// Nanoseconds before a call to this program, version and procedure.
    #[inline]
    pub fn of(&self, [program, _, procedure]: [u32; 3]) -> u64 {
        let known = usize::try_from(procedure).ok().filter(|_| program == NFS);
        known
            .and_then(|number| self.0.get(number))
            .copied()
            .unwrap_or(0)
    }

    /// As it is given, operations in their order: `WRITE:500us+COMMIT:2ms`.
    pub fn to_text(self) -> String {
        let named = procedures().zip(self.0).filter(|(_, ns)| *ns > 0);
        let words = named.map(|(name, ns)| {
            let exact = UNITS.iter().find(|(_, scale)| ns % scale == 0);
            let (unit, scale) = exact.copied().unwrap_or(("ns", 1));
            format!("{name}:{}{unit}", ns / scale)
        });
        words.collect::<Vec<_>>().join("+")
    }
}

fn procedures() -> impl Iterator<Item = &'static str> {
    (0..22).map(|number| procedure_name(NFS, 3, number).unwrap_or(""))
}

/// Of a whole number with its unit.
fn duration_ns(text: &str) -> Option<u64> {
    let (digits, scale) = UNITS
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    let ns = number.checked_mul(*scale)?;
    (u128::from(ns) <= MAX_DELAY.as_nanos()).then_some(ns)
}
