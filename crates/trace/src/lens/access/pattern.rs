//! Sequential or random: each READ (or WRITE) of a file is put into a class by its offset.
//!
//! A file may be read at several places in turn, so up to [`STREAMS`] positions are remembered. In
//! the order of the rules:
//!
//! 1. **sequential**: begins where a stream ended; or fills a hole that a later part of the stream
//!    left while that part was still outstanding: requests of a read-ahead or write-back that
//!    overtook each other. When the hole is full, those that left it become sequential too.
//! 2. **repeated** (of WRITEs: rewritten): begins within the last request of a stream. Databases
//!    write the last page of their log again and again, then go on.
//! 3. **forward**: begins at most [`REACH`] times its length behind the end of the stream used last
//!    (or of one with a request still outstanding): skips a little.
//! 4. **backward**: ends at most that far in front of the last request of the stream used last.
//! 5. **random**: all others. It begins a stream, in the place of the one used longest ago.
//!
//! The first request of a file is in no class.

/// Positions remembered.
const STREAMS: usize = 3;
/// A skip of at most so many of the request's own length is no jump.
const REACH: u64 = 16;

/// Class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    First,
    Sequential,
    Repeated,
    Forward,
    Backward,
    Random,
}

/// Number of classes.
pub(super) const CLASSES: usize = 6;
/// Names of the classes in their order.
pub(super) const CLASS_NAMES: [&str; CLASSES] = [
    "first",
    "sequential",
    "repeated",
    "forward",
    "backward",
    "random",
];

/// A request: where, how long, and how long it was outstanding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub offset: u64,
    pub length: u64,
    pub sent_ns: i64,
    pub reply_ns: i64,
}

impl Request {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// What was left out in front of requests that may have overtaken it.
#[derive(Clone, Copy, Debug, Default)]
struct Hole {
    from: u64,
    to: u64,
    missing: u64,
    makers: u32,
    until_ns: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    last_start: u64,
    next: u64,
    reply_ns: i64,
    requests: u32,
    hole: Hole,
}

/// Requests of one direction of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    /// Used last first.
    streams: [Stream; STREAMS],
    used: u8,
    pub counts: [u32; CLASSES],
}

impl Pattern {
    /// Puts a request into its class. The class `Forward` may be changed later: the counts are
    /// right at the end.
    pub fn add(&mut self, request: &Request) {
        let class = self.class(request);
        self.counts[class as usize] += 1;
    }

    fn class(&mut self, request: &Request) -> Class {
        if self.used == 0 {
            self.begin(request);
            return Class::First;
        }
        let used = usize::from(self.used);
        for index in 0..used {
            if self.streams[index].next == request.offset {
                self.streams[index].goes_on(request);
                self.use_first(index);
                return Class::Sequential;
            }
        }
        for index in 0..used {
            if let Some(makers) = self.streams[index].fill(request) {
                self.counts[Class::Forward as usize] -= makers;
                self.counts[Class::Sequential as usize] += makers;
                self.use_first(index);
                return Class::Sequential;
            }
        }
        for index in 0..used {
            let stream = &self.streams[index];
            if (stream.last_start..stream.next).contains(&request.offset) {
                self.streams[index].repeats(request);
                self.use_first(index);
                return Class::Repeated;
            }
        }
        for index in 0..used {
            let outstanding = request.sent_ns <= self.streams[index].reply_ns;
            if (index == 0 || outstanding) && self.streams[index].is_ahead(request) {
                self.streams[index].skips(request);
                self.use_first(index);
                return Class::Forward;
            }
        }
        if self.streams[0].is_behind(request) {
            return self.streams[0].steps_back(request);
        }
        self.begin(request);
        Class::Random
    }

    fn begin(&mut self, request: &Request) {
        let place = usize::from(self.used).min(STREAMS - 1);
        self.used = self.used.saturating_add(1).min(STREAMS as u8);
        self.streams[place] = Stream {
            last_start: request.offset,
            next: request.end(),
            reply_ns: request.reply_ns,
            requests: 1,
            hole: Hole::default(),
        };
        self.use_first(place);
    }

    fn use_first(&mut self, index: usize) {
        self.streams[..=index].rotate_right(1);
    }

    /// Class of the whole file by its requests: which one has the shares of [`SHARE`].
    pub fn verdict(&self) -> &'static str {
        let all: u32 = self.counts[1..].iter().sum();
        let share = |classes: &[Class]| {
            let sum: u32 = classes
                .iter()
                .map(|&class| self.counts[class as usize])
                .sum();
            f64::from(sum) / f64::from(all)
        };
        if all == 0 {
            "single"
        } else if share(&[Class::Sequential]) >= SHARE {
            "sequential"
        } else if share(&[Class::Sequential, Class::Repeated]) >= SHARE {
            "repeated"
        } else if share(&[Class::Sequential, Class::Forward]) >= SHARE {
            "forward"
        } else if share(&[Class::Backward]) >= SHARE {
            "backward"
        } else if share(&[Class::Random]) >= RANDOM_SHARE {
            "random"
        } else {
            "mixed"
        }
    }
}

/// A file is of a class if so many of its requests are.
pub(super) const SHARE: f64 = 0.8;
/// A file is random from this share on: some jumps are short by chance.
pub(super) const RANDOM_SHARE: f64 = 0.5;

impl Stream {
    fn goes_on(&mut self, request: &Request) {
        self.last_start = request.offset;
        self.next = request.end();
        self.reply_ns = self.reply_ns.max(request.reply_ns);
        self.requests = self.requests.saturating_add(1);
    }

    fn repeats(&mut self, request: &Request) {
        self.next = self.next.max(request.end());
        self.reply_ns = self.reply_ns.max(request.reply_ns);
    }

    fn is_ahead(&self, request: &Request) -> bool {
        let reach = request.length.saturating_mul(REACH);
        request.offset > self.next && request.offset - self.next <= reach
    }

    fn skips(&mut self, request: &Request) {
        let open = self.hole.missing > 0 && request.sent_ns <= self.hole.until_ns;
        if !open {
            self.hole = Hole {
                from: self.next,
                ..Hole::default()
            };
        }
        self.hole.to = request.offset;
        self.hole.missing += request.offset - self.next;
        self.hole.makers += 1;
        self.hole.until_ns = self.hole.until_ns.max(request.reply_ns);
        self.goes_on(request);
    }

    /// Fills the hole; gives how many requests became sequential by that, `None` if it is not in
    /// the hole.
    fn fill(&mut self, request: &Request) -> Option<u32> {
        let hole = &mut self.hole;
        let inside = request.offset >= hole.from && request.end() <= hole.to;
        if hole.missing == 0 || !inside || request.sent_ns > hole.until_ns {
            return None;
        }
        hole.missing = hole.missing.saturating_sub(request.length);
        Some(if hole.missing == 0 {
            std::mem::take(&mut hole.makers)
        } else {
            0
        })
    }

    fn is_behind(&self, request: &Request) -> bool {
        let reach = request.length.saturating_mul(REACH);
        request.end() <= self.last_start && self.last_start - request.end() <= reach
    }

    fn steps_back(&mut self, request: &Request) -> Class {
        // The first two of a stream may have overtaken each other as well.
        let swapped = self.requests == 1
            && request.end() == self.last_start
            && request.sent_ns <= self.reply_ns;
        self.requests = self.requests.saturating_add(1);
        if swapped {
            return Class::Sequential;
        }
        self.last_start = request.offset;
        self.next = request.end();
        self.reply_ns = self.reply_ns.max(request.reply_ns);
        self.hole = Hole::default();
        Class::Backward
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 8192;

    /// Blocks requested one after the other, each answered before the next is sent.
    fn serial(blocks: &[u64]) -> Pattern {
        let mut pattern = Pattern::default();
        for (index, block) in blocks.iter().enumerate() {
            let sent_ns = index as i64 * 1000;
            pattern.add(&Request {
                offset: block * BLOCK,
                length: BLOCK,
                sent_ns,
                reply_ns: sent_ns + 500,
            });
        }
        pattern
    }

    /// The same, but `depth` of them outstanding at once.
    fn parallel(blocks: &[u64], depth: i64) -> Pattern {
        let mut pattern = Pattern::default();
        for (index, block) in blocks.iter().enumerate() {
            let sent_ns = index as i64 * 1000;
            let reply_ns = sent_ns + depth * 1000 - 500;
            pattern.add(&Request {
                offset: block * BLOCK,
                length: BLOCK,
                sent_ns,
                reply_ns,
            });
        }
        pattern
    }

    #[test]
    fn read_ahead_that_overtakes_itself_is_sequential() {
        let swapped = [0, 1, 3, 2, 4, 7, 6, 5, 8, 10, 12, 9, 11, 13];
        let pattern = parallel(&swapped, 8);
        assert_eq!(pattern.counts, [1, 13, 0, 0, 0, 0]);
        assert_eq!(pattern.verdict(), "sequential");
        // Near miss: the same order one at a time is no sequence.
        let pattern = serial(&swapped);
        assert!(
            pattern.counts[Class::Sequential as usize] < 8,
            "{:?}",
            pattern.counts
        );
        assert_ne!(pattern.verdict(), "sequential");
        // Swapped at the very beginning.
        assert_eq!(parallel(&[1, 0, 2, 3], 4).counts, [1, 3, 0, 0, 0, 0]);
    }

    #[test]
    fn gaps_that_stay_are_forward() {
        let strided: Vec<u64> = (0..100).map(|step| step * 3).collect();
        assert_eq!(serial(&strided).counts, [1, 0, 0, 99, 0, 0]);
        assert_eq!(parallel(&strided, 8).counts, [1, 0, 0, 99, 0, 0]);
        assert_eq!(serial(&strided).verdict(), "forward");
    }

    #[test]
    fn backward_repeated_and_random() {
        let backward: Vec<u64> = (0..100).rev().collect();
        assert_eq!(serial(&backward).counts, [1, 0, 0, 0, 99, 0]);
        assert_eq!(serial(&backward).verdict(), "backward");
        // A log page written twice, then the next one.
        let log: Vec<u64> = (0..200).map(|step| step / 2).collect();
        assert_eq!(serial(&log).counts, [1, 99, 100, 0, 0, 0]);
        assert_eq!(serial(&log).verdict(), "repeated");
        // A permutation of a large file: multiples of a prime's generator.
        let random: Vec<u64> = (0..1000)
            .scan(1_u64, |at, _| {
                *at = *at * 48_271 % 2_147_483_647;
                Some(*at % 1_000_003)
            })
            .collect();
        let pattern = serial(&random);
        assert!(
            pattern.counts[Class::Random as usize] > 990,
            "{:?}",
            pattern.counts
        );
        assert_eq!(pattern.verdict(), "random");
    }

    #[test]
    fn three_readers_of_one_file_are_sequential_and_four_are_not() {
        let readers = |count: u64| -> Vec<u64> {
            (0..300 * count)
                .map(|step| step % count * 100_000 + step / count)
                .collect()
        };
        assert_eq!(serial(&readers(3)).counts, [1, 897, 0, 0, 0, 2]);
        assert_eq!(serial(&readers(4)).verdict(), "random");
    }

    #[test]
    fn wild_offsets_do_not_overflow() {
        let mut pattern = Pattern::default();
        for offset in [u64::MAX, 0, u64::MAX - 1, 1, u64::MAX / 2] {
            for length in [u64::MAX, 0, 1] {
                pattern.add(&Request {
                    offset,
                    length,
                    sent_ns: 0,
                    reply_ns: i64::MAX,
                });
            }
        }
        assert_eq!(pattern.counts.iter().sum::<u32>(), 15);
    }
}
