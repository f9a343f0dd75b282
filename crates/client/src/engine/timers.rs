//! When a call is sent again and when it is given up, as Linux's sunrpc does it.
//!
//! * Timeouts of one call: `xprt_adjust_timeout` and `xprt_calc_majortimeo` (net/sunrpc/xprt.c):
//!   TCP adds `timeo` at each retry, UDP doubles. The *major* timeout is what `retrans` retries
//!   come to; after it a `soft` call fails and a `hard` one starts again.
//! * First timeout over UDP: [`RoundTrips`], the Van Jacobson estimator of net/sunrpc/timer.c with
//!   its five classes of procedures; a retried call does not count (Karn).
//! * Calls outstanding over UDP: [`Congestion`], `xprt_adjust_cwnd`.
//!
//! All of it is integer arithmetic on nanoseconds (Linux: jiffies), with Linux's constants.

use std::time::Duration;

use crate::options::{MAX_TCP_TIMEOUT, MAX_UDP_TIMEOUT, MountOptions, Transport};

/// `RPC_RTO_MAX`.
const RTO_MAX_NS: u64 = 60_000_000_000;
/// `RPC_RTO_INIT`.
const RTO_INIT_NS: u64 = 200_000_000;
/// `RPC_RTO_MIN`.
const RTO_MIN_NS: u64 = 100_000_000;
/// `RPC_CWNDSCALE`.
const CWND_SCALE: u64 = 256;
/// Most doublings of a class's first timeout (`rpc_set_timeo` keeps at most 8).
const MAX_DOUBLINGS: u32 = 8;

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// `struct rpc_timeout`: what `timeo`, `retrans` and the transport come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutPolicy {
    initial_ns: u64,
    increment_ns: u64,
    max_ns: u64,
    retries: u32,
    exponential: bool,
}

impl TimeoutPolicy {
    /// Linux's `nfs_init_timeout_values`.
    pub fn new(options: &MountOptions) -> Self {
        let initial_ns = ns(options.timeout);
        match options.transport {
            Transport::Tcp => {
                let most = initial_ns.saturating_mul(u64::from(options.retrans) + 1);
                TimeoutPolicy {
                    initial_ns,
                    increment_ns: initial_ns,
                    max_ns: most.min(ns(MAX_TCP_TIMEOUT)).max(initial_ns),
                    retries: options.retrans,
                    exponential: false,
                }
            }
            Transport::Udp => TimeoutPolicy {
                initial_ns,
                increment_ns: 0,
                max_ns: ns(MAX_UDP_TIMEOUT),
                retries: options.retrans,
                exponential: true,
            },
        }
    }

    /// `timeo` in nanoseconds.
    pub fn initial_ns(&self) -> u64 {
        self.initial_ns
    }

    /// From a call's first send to its major timeout (`xprt_calc_majortimeo`).
    #[inline]
    pub fn major_ns(&self) -> u64 {
        let major = if self.exponential {
            let factor = 1_u64.checked_shl(self.retries).unwrap_or(u64::MAX);
            self.initial_ns.saturating_mul(factor)
        } else {
            let retries = u64::from(self.retries);
            self.initial_ns
                .saturating_add(self.increment_ns.saturating_mul(retries))
        };
        major.min(self.max_ns).max(self.initial_ns)
    }

    /// The timeout after this one (`xprt_adjust_timeout`, minor case).
    fn next_ns(&self, timeout_ns: u64) -> u64 {
        let next = if self.exponential {
            timeout_ns.saturating_mul(2)
        } else {
            timeout_ns.saturating_add(self.increment_ns)
        };
        next.min(self.max_ns)
    }
}

/// What a timer that went off means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Send again.
    Minor,
    /// `retrans` retries are over: a soft call fails; a hard one starts again.
    Major,
}

/// The timer of one outstanding call.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallTimer {
    timeout_ns: u64,
    major_at_ns: u64,
    due_at_ns: u64,
}

impl CallTimer {
    /// Starts with the first timeout; the major timeout counts from now.
    #[inline]
    pub fn start(policy: &TimeoutPolicy, first_ns: u64, now_ns: u64) -> Self {
        let mut timer = CallTimer {
            timeout_ns: first_ns.min(policy.max_ns).max(1),
            major_at_ns: now_ns.saturating_add(policy.major_ns()),
            due_at_ns: 0,
        };
        timer.arm(now_ns);
        timer
    }

    #[inline]
    fn arm(&mut self, now_ns: u64) {
        // xprt_request_timeout: never beyond the major timeout.
        let due = now_ns.saturating_add(self.timeout_ns);
        self.due_at_ns = due.min(self.major_at_ns).max(now_ns.saturating_add(1));
    }

    /// When it goes off.
    pub fn due_at_ns(&self) -> u64 {
        self.due_at_ns
    }

    /// It went off: what that means. It is armed again in either case.
    pub fn expire(&mut self, policy: &TimeoutPolicy, now_ns: u64) -> Expiry {
        if now_ns < self.major_at_ns {
            self.timeout_ns = policy.next_ns(self.timeout_ns);
            self.arm(now_ns);
            return Expiry::Minor;
        }
        self.timeout_ns = policy.initial_ns;
        self.major_at_ns = now_ns.saturating_add(policy.major_ns());
        self.arm(now_ns);
        Expiry::Major
    }
}

/// Classes of `nfs3_procedures` (`p_timer`, fs/nfs/nfs3xdr.c): index into the estimators; `None`
/// for procedures that always start with `timeo`.
pub fn timer_class(target: [u32; 3]) -> Option<usize> {
    use wire::nfs3::procedure as nfs;
    let [program, _, procedure] = target;
    if program != wire::programs::NFS {
        return None;
    }
    match procedure {
        nfs::GETATTR | nfs::ACCESS => Some(0),
        nfs::LOOKUP => Some(1),
        nfs::READ | nfs::READLINK | nfs::READDIR | nfs::READDIRPLUS => Some(2),
        nfs::WRITE => Some(3),
        nfs::COMMIT => Some(4),
        _ => None,
    }
}

/// `struct rpc_rtt`: round trips of the classes of procedures, over UDP.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrips {
    initial_ns: u64,
    smoothed8_ns: [u64; CLASSES],
    deviation_ns: [u64; CLASSES],
    doublings: [u32; CLASSES],
}

/// Classes of [`timer_class`].
const CLASSES: usize = 5;

impl RoundTrips {
    /// `rpc_init_rtt`.
    pub fn new(policy: &TimeoutPolicy) -> Self {
        let initial_ns = policy.initial_ns;
        let smoothed = initial_ns.saturating_sub(RTO_INIT_NS).saturating_mul(8);
        RoundTrips {
            initial_ns,
            smoothed8_ns: [smoothed; CLASSES],
            deviation_ns: [RTO_INIT_NS; CLASSES],
            doublings: [0; CLASSES],
        }
    }

    /// A call of the class that was sent `sends` times was answered (`xprt_update_rtt`): round
    /// trips of calls sent once count, the others make the class's next timeouts longer.
    pub fn answered(&mut self, class: usize, sends: u32, round_trip_ns: u64) {
        if sends == 1 {
            self.update(class, round_trip_ns);
        }
        if let Some(doublings) = self.doublings.get_mut(class) {
            let retries = sends.saturating_sub(1);
            *doublings = if retries < *doublings {
                *doublings - 1
            } else {
                retries.min(MAX_DOUBLINGS)
            };
        }
    }

    /// `rpc_update_rtt`.
    fn update(&mut self, class: usize, round_trip_ns: u64) {
        let (Some(smoothed), Some(deviation)) = (
            self.smoothed8_ns.get_mut(class),
            self.deviation_ns.get_mut(class),
        ) else {
            return;
        };
        let measured = round_trip_ns.clamp(1, RTO_MAX_NS);
        let error = measured.abs_diff(*smoothed / 8);
        if measured >= *smoothed / 8 {
            *smoothed += error;
        } else {
            *smoothed -= error;
        }
        *deviation = (*deviation - *deviation / 4 + error).max(RTO_MIN_NS);
    }

    /// `rpc_calc_rto`, doubled as often as the class was retried lately.
    pub fn first_timeout_ns(&self, class: Option<usize>) -> u64 {
        let of = |class: usize| {
            let smoothed = self.smoothed8_ns.get(class)?;
            let deviation = self.deviation_ns.get(class)?;
            let doublings = self.doublings.get(class)?;
            let timeout = (smoothed.div_ceil(8) + deviation).min(RTO_MAX_NS);
            Some((timeout << doublings).min(RTO_MAX_NS))
        };
        class.and_then(of).unwrap_or(self.initial_ns)
    }
}

/// The congestion window of UDP, in 256ths of a call.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    window: u64,
    limit: u64,
}

impl Congestion {
    /// Starts with one call (`RPC_INITCWND`); at most `max_requests`.
    pub fn new(max_requests: u32) -> Self {
        Congestion {
            window: CWND_SCALE,
            limit: u64::from(max_requests) * CWND_SCALE,
        }
    }

    /// Calls that may be outstanding.
    pub fn calls(&self) -> u32 {
        u32::try_from(self.window.div_ceil(CWND_SCALE)).unwrap_or(u32::MAX)
    }

    /// A reply came while `outstanding` calls were out: the window grows if it was in use.
    pub fn answered(&mut self, outstanding: u32) {
        if self.window <= u64::from(outstanding) * CWND_SCALE {
            let grown = (CWND_SCALE * CWND_SCALE + self.window / 2) / self.window;
            self.window = (self.window + grown).min(self.limit);
        }
    }

    /// A call timed out: half of it, at least one call.
    pub fn timed_out(&mut self) {
        self.window = (self.window / 2).max(CWND_SCALE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Instants of all sends until the major timeout, in milliseconds.
    fn sends(text: &str) -> (Vec<u64>, u64) {
        let options = MountOptions::parse(text).unwrap();
        let policy = TimeoutPolicy::new(&options);
        let mut timer = CallTimer::start(&policy, policy.initial_ns(), 0);
        let mut sends = vec![0];
        loop {
            let now = timer.due_at_ns();
            match timer.expire(&policy, now) {
                Expiry::Minor => sends.push(now / 1_000_000),
                Expiry::Major => return (sends, now / 1_000_000),
            }
        }
    }

    #[test]
    fn tcp_adds_and_udp_doubles_until_the_major_timeout() {
        // nfs(5): linear over TCP, doubling over UDP; major = timeo * (retrans + 1), or
        // timeo * 2^retrans (xprt_calc_majortimeo).
        assert_eq!(sends("tcp"), (vec![0, 60_000], 180_000));
        assert_eq!(sends("timeo=10,retrans=5"), (vec![0, 1000, 3000], 6000));
        assert_eq!(sends("udp"), (vec![0, 1100, 3300, 7700], 8800));
        assert_eq!(sends("udp,timeo=600,retrans=9"), (vec![0], 60_000));
        assert_eq!(sends("timeo=6000"), (vec![0], 600_000));
        assert_eq!(sends("timeo=7,retrans=0"), (vec![0], 700));
    }

    #[test]
    fn the_estimator_converges_as_van_jacobsons() {
        let policy = TimeoutPolicy::new(&MountOptions::parse("udp").unwrap());
        let mut trips = RoundTrips::new(&policy);
        // Before any measurement timeo rules: (1.1 - 0.2) + 0.2 s.
        assert_eq!(trips.first_timeout_ns(Some(0)), 11 * SECOND / 10);
        for _ in 0..200 {
            trips.answered(0, 1, 40_000_000);
        }
        // A steady 40 ms: its deviation ends at the least of 100 ms (the smoothed value is within
        // one step of integer rounding).
        let timeout = trips.first_timeout_ns(Some(0));
        assert!(timeout.abs_diff(140_000_000) < 1_000, "{timeout}");
        assert_eq!(trips.first_timeout_ns(Some(1)), 11 * SECOND / 10);
        assert_eq!(trips.first_timeout_ns(None), 11 * SECOND / 10);
        // A call sent three times says nothing of round trips (Karn); it doubles twice.
        trips.answered(0, 3, 1);
        assert_eq!(trips.first_timeout_ns(Some(0)), timeout * 4);
        trips.answered(0, 1, 40_000_000);
        let next = trips.first_timeout_ns(Some(0));
        assert!(next.abs_diff(timeout * 2) < 1_000, "{next}");
        trips.answered(0, 1, u64::MAX);
        assert!(trips.first_timeout_ns(Some(0)) <= RTO_MAX_NS);
        trips.answered(9, 1, 1);
    }

    #[test]
    fn the_window_opens_by_one_a_round_trip_and_halves() {
        let mut window = Congestion::new(4);
        let mut seen = vec![window.calls()];
        for _ in 0..20 {
            window.answered(window.calls());
            seen.push(window.calls());
        }
        assert_eq!(seen.first(), Some(&1));
        assert_eq!(seen.last(), Some(&4));
        assert!(seen.is_sorted());
        window.timed_out();
        assert_eq!(window.calls(), 2);
        window.answered(1); // not in use: stays
        assert_eq!(window.calls(), 2);
        window.timed_out();
        window.timed_out();
        assert_eq!(window.calls(), 1);
    }
}
