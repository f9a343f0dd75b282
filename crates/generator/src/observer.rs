//! Who watches a load, may stop it, and says when it begins.

use measure::Clock;

/// Shortest time between two looks of an observer.
pub const TICK_NS: u64 = 100_000_000;
/// Between the threads' start and the load's: all of them wait for the same instant.
const START_NS: u64 = 20_000_000;

/// An observer stopped what it was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

/// Why a load is not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// Its observer stopped it.
    #[error("cancelled")]
    Cancelled,
    /// The instant at which it was to begin with others is past.
    #[error("it was to be {late_us} us ago")]
    NotReady {
        /// By how much.
        late_us: u64,
    },
}

impl NotBegun {
    /// What happened, where the observer did not stop it.
    pub const NOT_READY: &'static str = "this process was not ready for the common start";
}

/// Watches work that tells its progress as `P`.
pub trait Observer<P> {
    /// Told how far it is, several times a second; false stops it.
    fn tick(&mut self, progress: &P) -> bool;

    /// Asked once everything stands ready: when the load is to begin, ns of the monotonic clock
    /// (`None`: soon). So several processes begin together.
    ///
    /// # Errors
    /// [`Cancelled`]: the load is not begun.
    fn begin(&mut self) -> Result<Option<u64>, Cancelled> {
        Ok(None)
    }
}

/// An observer that never stops anything.
impl<P> Observer<P> for () {
    fn tick(&mut self, _: &P) -> bool {
        true
    }
}

/// The instant at which a load begins: as asked, else soon.
///
/// # Errors
/// [`NotBegun`].
pub fn start_ns<P>(observer: &mut dyn Observer<P>, clock: &impl Clock) -> Result<u64, NotBegun> {
    let asked_ns = observer.begin().map_err(|Cancelled| NotBegun::Cancelled)?;
    let now_ns = clock.now_ns();
    match asked_ns {
        None => Ok(now_ns + START_NS),
        Some(start_ns) if start_ns > now_ns => Ok(start_ns),
        Some(start_ns) => Err(NotBegun::NotReady {
            late_us: (now_ns - start_ns) / 1000,
        }),
    }
}
