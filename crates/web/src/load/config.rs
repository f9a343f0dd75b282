//! What a load is to be. JSON in, checked before it is begun.

use std::net::SocketAddr;

use generator::{Arrivals, Share, Times};
use measure::weights::Weights;
use serde::{Deserialize, Serialize};

use crate::error::WebError;
use crate::fileset::FileSet;
use crate::page::{Kind, MAX_POST_BYTES};

/// Most connections of one load.
pub const MAX_CONNECTIONS: u32 = 1 << 17;
/// Most processes that make one load together.
pub const MAX_PARTS: u32 = 1 << 10;
/// Most threads: the number of a thread is a byte of a POST's id.
pub const MAX_THREADS: u32 = 64;
/// Most processes whose POSTs one log can hold apart.
pub const MAX_PROCESS: u32 = (1 << 24) - 1;
/// Highest offered load.
const MAX_RATE_PER_S: f64 = 1e7;
/// Longest part of a run: a day.
const MAX_PART_S: f64 = 86_400.0;
/// Least and most bytes of a POST's body.
const POST_BYTES: std::ops::RangeInclusive<usize> = 60..=MAX_POST_BYTES;

/// A whole load; see the fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadConfig {
    /// IP address and port of the server.
    pub address: SocketAddr,
    /// What `Host` asks for, where it is not the address: a secret, so that no report repeats it.
    #[serde(default, skip_serializing)]
    pub host: Option<String>,
    /// What the server is asked for; it has to be there ([`crate::fileset::write`]).
    pub file_set: FileSet,
    /// How requests come.
    pub load: LoadMode,
    /// Shares of the kinds of requests; they sum to 1.
    #[serde(default)]
    pub mix: Mix,
    /// Share of requests that ask for the connection to be closed.
    #[serde(default = "close_share")]
    pub close_share: f64,
    /// Share of replies whose bytes are compared; replies to POSTs are compared always.
    #[serde(default = "verify_share")]
    pub verify_share: f64,
    /// Bytes of a POST's body.
    #[serde(default = "post_bytes")]
    pub post_bytes: usize,
    /// Time before the timed part, with the load on.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Length of the timed part.
    pub measure_s: f64,
    /// How long replies are waited for after the timed part.
    #[serde(default = "two_seconds")]
    pub drain_s: f64,
    /// How long a request may take before it counts as lost; the time of its bytes on a line comes
    /// on top.
    #[serde(default = "thirty_seconds")]
    pub timeout_s: f64,
    /// Threads of the generator; connections are divided among them.
    #[serde(default = "one")]
    pub threads: u32,
    /// Number of this generator process, for the ids of POSTs.
    #[serde(default)]
    pub process: u32,
    /// Which of several processes this is that make the load together.
    #[serde(default, skip_serializing_if = "is_whole")]
    pub part: Share,
    /// Of all that is drawn.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Width of the series' intervals.
    #[serde(default = "tenth")]
    pub series_interval_s: f64,
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoadMode {
    /// Connections with a line speed; each has one request under way always.
    LineSpeed {
        /// How many, all threads of all processes together.
        connections: u32,
        /// Speed of each line.
        #[serde(default = "line")]
        line_bits_per_s: u64,
        /// What a connection has to get over the timed part to conform.
        #[serde(default = "conforming")]
        conforming_bits_per_s: u64,
        /// `SO_RCVBUF`: small, so that the server feels the line (the kernel takes twice of it).
        #[serde(default = "receive_buffer")]
        receive_buffer_bytes: usize,
    },
    /// Requests that wait for nobody.
    Open {
        /// Offered load, all threads together.
        rate_per_s: f64,
        /// How they are spaced.
        #[serde(default)]
        arrivals: Arrivals,
        /// Most connections, all threads together.
        connections: u32,
        /// Requests that may wait for a connection, all threads together; further ones are skipped.
        #[serde(default = "backlog")]
        backlog: u32,
    },
    /// Connections whose next request follows the end of the last.
    Closed {
        /// How many, all threads together.
        connections: u32,
    },
}

/// Shares of requests, as given for SPECweb99.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Mix {
    #[serde(default)]
    pub static_get: f64,
    #[serde(default)]
    pub dynamic_get: f64,
    #[serde(default)]
    pub cgi_get: f64,
    #[serde(default)]
    pub ad_get: f64,
    #[serde(default)]
    pub post: f64,
}

impl Default for Mix {
    fn default() -> Self {
        Mix {
            static_get: 0.7,
            dynamic_get: 0.1245,
            cgi_get: 0.0015,
            ad_get: 0.126,
            post: 0.048,
        }
    }
}

impl Mix {
    /// In the order of [`Kind::ALL`].
    #[must_use]
    pub const fn shares(&self) -> [f64; 5] {
        [
            self.static_get,
            self.dynamic_get,
            self.cgi_get,
            self.ad_get,
            self.post,
        ]
    }

    /// To draw kinds from.
    pub(crate) fn weights(&self) -> Result<Weights<Kind>, WebError> {
        let wrong = |why: String| {
            let fix = "Give shares of 0 to 1 that sum to 1.";
            WebError::config("mix", format!("{:?}", self.shares()), why, fix)
        };
        let sum: f64 = self.shares().iter().sum();
        if (sum - 1.0).abs() > 1e-9 {
            return Err(wrong(format!("the shares sum to {sum}")));
        }
        Weights::new(Kind::ALL.into_iter().zip(self.shares()))
            .map_err(|error| wrong(error.to_string()))
    }
}

const fn close_share() -> f64 {
    0.3
}
/// Less than 1 % of the generator's CPU: all of them cost 22 % (docs/benchmarks.md).
const fn verify_share() -> f64 {
    0.03
}
const fn post_bytes() -> usize {
    200
}
const fn two_seconds() -> f64 {
    2.0
}
const fn thirty_seconds() -> f64 {
    30.0
}
const fn tenth() -> f64 {
    0.1
}
const fn one() -> u32 {
    1
}
const fn seed() -> u64 {
    1
}
const fn line() -> u64 {
    400_000
}
const fn conforming() -> u64 {
    320_000
}
const fn receive_buffer() -> usize {
    16 << 10
}
fn is_whole(part: &Share) -> bool {
    *part == Share::default()
}
const fn backlog() -> u32 {
    10_000
}

impl LoadMode {
    /// Most connections, all threads together.
    #[must_use]
    pub const fn connections(&self) -> u32 {
        match self {
            LoadMode::LineSpeed { connections, .. }
            | LoadMode::Open { connections, .. }
            | LoadMode::Closed { connections } => *connections,
        }
    }
}

impl LoadConfig {
    /// Reads JSON.
    ///
    /// # Errors
    /// [`WebError::Json`] with the place.
    pub fn from_json(text: &str) -> Result<Self, WebError> {
        serde_json::from_str(text).map_err(|error| WebError::Json(error.to_string()))
    }

    /// When the load is measured and ends; replies are waited for until then.
    pub(crate) fn times(&self, start_ns: u64) -> Times {
        Times::new(start_ns, self.warm_up_s, self.measure_s, self.drain_s)
    }

    /// A thread of this process among those of all processes.
    pub(crate) const fn share(&self, thread: u32) -> Share {
        self.part.thread(thread, self.threads)
    }

    /// Connections of this process.
    pub(crate) fn connections_here(&self) -> u32 {
        let of_thread = |thread| self.share(thread).part(self.load.connections());
        (0..self.threads).map(of_thread).sum()
    }

    /// Refuses what cannot be done.
    ///
    /// # Errors
    /// [`WebError::Config`] for the first field that is wrong.
    pub fn check(&self) -> Result<(), WebError> {
        self.file_set.check()?;
        self.mix.weights()?;
        for (field, share) in [
            ("close_share", self.close_share),
            ("verify_share", self.verify_share),
        ] {
            within(field, share, 0.0, 1.0)?;
        }
        within("warm_up_s", self.warm_up_s, 0.0, MAX_PART_S)?;
        within("measure_s", self.measure_s, 0.001, MAX_PART_S)?;
        within("drain_s", self.drain_s, 0.0, MAX_PART_S)?;
        within("timeout_s", self.timeout_s, 0.01, MAX_PART_S)?;
        within(
            "series_interval_s",
            self.series_interval_s,
            0.001,
            MAX_PART_S,
        )?;
        let (least, most) = (*POST_BYTES.start(), *POST_BYTES.end());
        within(
            "post_bytes",
            self.post_bytes as f64,
            least as f64,
            most as f64,
        )?;
        within(
            "process",
            f64::from(self.process),
            0.0,
            f64::from(MAX_PROCESS),
        )?;
        let Share { index, of } = self.part;
        within("part.of", f64::from(of), 1.0, f64::from(MAX_PARTS))?;
        within("part.index", f64::from(index), 0.0, f64::from(of - 1))?;
        let connections = self.load.connections();
        let bounds = (f64::from(of), f64::from(MAX_CONNECTIONS));
        within(
            "load.connections",
            f64::from(connections),
            bounds.0,
            bounds.1,
        )?;
        let threads = MAX_THREADS.min(connections / of);
        within("threads", f64::from(self.threads), 1.0, f64::from(threads))?;
        match self.load {
            LoadMode::Closed { .. } => Ok(()),
            LoadMode::Open { rate_per_s, .. } => {
                within("load.rate_per_s", rate_per_s, 1e-6, MAX_RATE_PER_S)
            }
            LoadMode::LineSpeed {
                line_bits_per_s,
                conforming_bits_per_s,
                receive_buffer_bytes,
                ..
            } => {
                let line = line_bits_per_s as f64;
                within("load.line_bits_per_s", line, 1000.0, 1e11)?;
                let conforming = conforming_bits_per_s as f64;
                within("load.conforming_bits_per_s", conforming, 1.0, line)?;
                let buffer = receive_buffer_bytes as f64;
                within("load.receive_buffer_bytes", buffer, 2048.0, 1e8)
            }
        }
    }
}

fn within(field: &'static str, value: f64, least: f64, most: f64) -> Result<(), WebError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let why = format!("{least} to {most} is possible");
    Err(WebError::config(
        field,
        value,
        why,
        "Give a value within these bounds.",
    ))
}
