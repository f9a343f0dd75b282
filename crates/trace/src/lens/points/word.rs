//! What is kept of a call: 16 bits, the latency in steps of a logarithm and four flags.
//!
//! Twelve bits over eight decades: [`LATENCY_CODES`] steps of 0.451 %, from 1 µs to 100 s. What
//! lies outside has codes of its own and is counted, so that nothing is moved to an edge unseen.

use crate::call::{Call, Outcome};

/// Smallest latency with a step of its own, nanoseconds.
pub(super) const LOW_NS: i64 = 1_000;
/// Latencies from here on share the code [`ABOVE`].
pub(super) const HIGH_NS: i64 = 100_000_000_000;
/// Steps between the two.
pub(super) const LATENCY_CODES: u16 = 4093;
/// Code of all latencies below [`LOW_NS`], negative ones of disordered captures included.
pub(super) const BELOW: u16 = 0;
/// Code of all latencies from [`HIGH_NS`] on.
pub(super) const ABOVE: u16 = LATENCY_CODES + 1;
/// Code of a call without a reply.
pub(super) const UNANSWERED: u16 = LATENCY_CODES + 2;
/// The bits of a word that hold the code.
pub(super) const CODE_MASK: u16 = 0x0fff;

/// Sent more than once.
pub(super) const AGAIN: u16 = 1 << 12;
/// Answered with an error of the protocol, or refused.
pub(super) const ERROR: u16 = 1 << 13;
/// Answered more than once.
pub(super) const DUPLICATE: u16 = 1 << 14;
/// The reply lies before the call in time.
pub(super) const NEGATIVE: u16 = 1 << 15;

const LOG2_LOW: f32 = 9.965_784; // log2(1000)
const CODES_PER_OCTAVE: f32 = LATENCY_CODES as f32 / (8.0 * std::f32::consts::LOG2_10);

/// Code of a latency. Single precision is enough: it is off by a thousandth of a step.
#[inline]
pub(super) fn code_of(latency_ns: i64) -> u16 {
    if latency_ns < LOW_NS {
        return BELOW;
    }
    if latency_ns >= HIGH_NS {
        return ABOVE;
    }
    let step = ((latency_ns as f32).log2() - LOG2_LOW) * CODES_PER_OCTAVE;
    1 + (step.max(0.0) as u16).min(LATENCY_CODES - 1)
}

/// Code and flags of a call.
#[inline]
pub(super) fn word_of(call: &Call, latency_ns: Option<i64>) -> u16 {
    let (code, mut flags) = match latency_ns {
        None => (UNANSWERED, 0),
        Some(latency_ns) if latency_ns < 0 => (BELOW, NEGATIVE),
        Some(latency_ns) => (code_of(latency_ns), 0),
    };
    if call.sends > 1 {
        flags |= AGAIN;
    }
    if call.replies > 1 {
        flags |= DUPLICATE;
    }
    match call.outcome {
        Outcome::Status(status) if status != 0 => flags |= ERROR,
        Outcome::Refused(_) => flags |= ERROR,
        _ => {}
    }
    code | flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Stamp;

    /// Lower edge of a code's step, nanoseconds, by exact-enough arithmetic.
    fn low_edge_ns(code: u16) -> f64 {
        1e3 * 10f64.powf(f64::from(code - 1) * 8.0 / f64::from(LATENCY_CODES))
    }

    #[test]
    fn every_latency_lies_within_its_step() {
        let mut latency_ns = LOW_NS;
        while latency_ns < HIGH_NS {
            let code = code_of(latency_ns);
            let slack = 1.0 + 1e-5;
            assert!(
                low_edge_ns(code) <= latency_ns as f64 * slack,
                "{latency_ns}"
            );
            assert!(
                latency_ns as f64 <= low_edge_ns(code + 1) * slack,
                "{latency_ns}"
            );
            latency_ns += 1 + latency_ns / 700;
        }
    }

    #[test]
    fn a_step_is_less_than_half_a_per_cent_and_the_bounds_have_codes_of_their_own() {
        assert!(low_edge_ns(2) / low_edge_ns(1) < 1.0046);
        assert_eq!(code_of(LOW_NS - 1), BELOW);
        assert_eq!(code_of(LOW_NS), 1);
        assert_eq!(code_of(HIGH_NS - 100_000), LATENCY_CODES);
        assert_eq!(code_of(HIGH_NS), ABOVE);
        assert_eq!(code_of(i64::MAX), ABOVE);
        assert_eq!(code_of(i64::MIN), BELOW);
        assert_eq!(UNANSWERED, CODE_MASK);
    }

    #[test]
    fn flags_say_what_is_odd() {
        let at = |time_ns| Stamp { time_ns, frame: 1 };
        let call = Call {
            call_first: at(5_000),
            sends: 1,
            ..Call::default()
        };
        let word_of = |call: &Call| word_of(call, call.latency_ns());
        assert_eq!(word_of(&call), UNANSWERED);
        let late = Call {
            reply_first: Some(at(1_005_000)),
            replies: 1,
            ..call
        };
        assert_eq!(word_of(&late), code_of(1_000_000));
        let early = Call {
            reply_first: Some(at(4_000)),
            replies: 1,
            ..call
        };
        assert_eq!(word_of(&early), BELOW | NEGATIVE);
        let failed = Call {
            outcome: Outcome::Status(2),
            sends: 3,
            replies: 2,
            ..late
        };
        assert_eq!(
            word_of(&failed),
            code_of(1_000_000) | ERROR | AGAIN | DUPLICATE
        );
    }
}
