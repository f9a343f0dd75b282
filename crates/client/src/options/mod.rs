//! Mount options with the names, meaning and defaults of nfs(5).
//!
//! Purpose: one text, `vers=3,proto=tcp,rsize=64k,...`, says how a client behaves; what it came to
//! is read back into results with [`MountOptions::effective`].
//!
//! Flow: [`MountOptions::parse`] splits the text, [`crate::options`]'s table tells the names, each
//! value is checked by itself, then all together. Sizes that nfs(5) says are replaced or rounded
//! are so, and [`MountOptions::adjustments`] says which. After the server's FSINFO is known,
//! [`MountOptions::negotiate`] settles the sizes as Linux does.
//!
//! Decisions: an unknown name is an error that tells the nearest known one. Two options that say
//! opposite things are an error instead of "the last one wins": an experiment has to mean what it
//! says. An option given twice with the same meaning is fine.
//!
//! Limits: version 3 only; no locking (`nolock` is accepted, `lock` is not); `sec=sys` only.
//! `max_requests` is ours (Linux has module parameters for it: `udp_slot_table_entries` and
//! `tcp_max_slot_table_entries`), and counts calls over all connections. `writeback` is libfuse's.
//! `call_delay` is ours: it plants latency.

mod delays;
mod parsing;

use std::time::Duration;

use crate::engine::is_root;

pub use delays::CallDelays;
pub use parsing::{KNOWN, OptionError};

/// Smallest `rsize` and `wsize` (nfs(5)); lower ones are replaced by [`REPLACEMENT_SIZE_BYTES`].
pub const MIN_SIZE_BYTES: u32 = 1 << 10;
/// Largest `rsize` and `wsize` (nfs(5)); larger ones are replaced by it.
pub const MAX_SIZE_BYTES: u32 = 1 << 20;
/// What a size below [`MIN_SIZE_BYTES`] is replaced by (nfs(5); Linux `NFS_DEF_FILE_IO_SIZE`).
pub const REPLACEMENT_SIZE_BYTES: u32 = 4 << 10;
/// Largest size over UDP: a datagram's 64 KiB less headers (Linux `xs_setup_udp`:
/// `(1 << 16) - (MAX_HEADER << 3)`).
pub const MAX_UDP_SIZE_BYTES: u32 = (1 << 16) - (128 << 3);
/// Most connections (Linux `NFS_MAX_CONNECTIONS`).
pub const MAX_CONNECTIONS: u32 = 16;
/// Most calls outstanding (Linux `RPC_MAX_SLOT_TABLE_LIMIT`, 1 << 16).
pub const MAX_REQUESTS_LIMIT: u32 = 1 << 16;
/// Outstanding calls over UDP unless said otherwise (Linux `RPC_DEF_SLOT_TABLE`).
pub const DEFAULT_UDP_REQUESTS: u32 = 16;
/// Outstanding calls over TCP unless said otherwise.
pub const DEFAULT_TCP_REQUESTS: u32 = 128;
/// Longest `timeo`, and longest timeout over TCP (nfs(5): 600 seconds).
pub const MAX_TCP_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest timeout over UDP (nfs(5): 60 seconds).
pub const MAX_UDP_TIMEOUT: Duration = Duration::from_secs(60);
/// Most retries (our bound; the kernel takes any 32-bit number).
pub const MAX_RETRANS: u32 = 1000;
/// Longest attribute cache timeout, seconds (our bound: one day).
pub const MAX_CACHE_S: u64 = 86_400;

/// Transport of RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Stream with record marks.
    Tcp,
    /// One message, one datagram.
    Udp,
}

/// IP version that a netid asks for (`tcp6`); plain `tcp` leaves it to the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Whatever the server's address is.
    Any,
    /// IPv6 only.
    V6,
}

/// What happens when the server does not answer (nfs(5) `soft`, `softerr`, `hard`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Calls are tried until they are answered.
    Hard,
    /// A call fails with EIO when its major timeout is over.
    Soft,
    /// A call fails with ETIMEDOUT when its major timeout is over.
    SoftErr,
}

/// How long attributes are believed (nfs(5) "Attribute caching").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeTimes {
    /// `acregmin`.
    pub file_min: Duration,
    /// `acregmax`.
    pub file_max: Duration,
    /// `acdirmin`.
    pub directory_min: Duration,
    /// `acdirmax`.
    pub directory_max: Duration,
}

impl AttributeTimes {
    /// Attributes are not kept at all (`noac`, `actimeo=0`).
    pub const OFF: AttributeTimes = AttributeTimes {
        file_min: Duration::ZERO,
        file_max: Duration::ZERO,
        directory_min: Duration::ZERO,
        directory_max: Duration::ZERO,
    };
}

impl Default for AttributeTimes {
    fn default() -> Self {
        AttributeTimes {
            file_min: Duration::from_secs(3),
            file_max: Duration::from_secs(60),
            directory_min: Duration::from_secs(30),
            directory_max: Duration::from_secs(60),
        }
    }
}

/// Options of a mount, checked and with defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// `proto`, `tcp`, `udp`.
    pub transport: Transport,
    /// IP version asked for by `proto`.
    pub family: Family,
    /// `rsize`: largest READ. Settled by [`MountOptions::negotiate`].
    pub read_size_bytes: u32,
    /// `wsize`: largest WRITE. Settled by [`MountOptions::negotiate`].
    pub write_size_bytes: u32,
    /// Whether `rsize` was given.
    pub read_size_given: bool,
    /// Whether `wsize` was given.
    pub write_size_given: bool,
    /// `ac`, `noac`: whether attributes are cached.
    pub attribute_cache: bool,
    /// `acregmin` and its like.
    pub attribute_times: AttributeTimes,
    /// `cto`, `nocto`: close-to-open consistency.
    pub close_to_open: bool,
    /// `rdirplus`, `nordirplus`: READDIRPLUS may be used.
    pub readdirplus: bool,
    /// `nconnect`: TCP connections.
    pub connections: u32,
    /// `sync`: every WRITE is stable when it returns.
    pub sync: bool,
    /// `writeback`: a mount leaves written pages to the kernel's cache until they are synced.
    pub writeback: bool,
    /// `hard`, `soft`, `softerr`.
    pub recovery: Recovery,
    /// `timeo`: time before the first retry.
    pub timeout: Duration,
    /// `retrans`: retries before the major timeout.
    pub retrans: u32,
    /// `port` of NFS; 0 asks the portmapper.
    pub port: u16,
    /// `mountport` of MOUNT; 0 asks the portmapper.
    pub mount_port: u16,
    /// `mountproto`: transport of MOUNT and portmapper.
    pub mount_transport: Transport,
    /// `resvport`: a source port below 1024; `None`: root's, while one is free, as nfs(5) has it.
    pub reserved_port: Option<bool>,
    /// `max_requests`: most calls outstanding, over all connections.
    pub max_requests: u32,
    /// `call_delay`: planted before calls, by operation.
    pub call_delays: CallDelays,
    adjustments: Vec<String>,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            transport: Transport::Tcp,
            family: Family::Any,
            read_size_bytes: MAX_SIZE_BYTES,
            write_size_bytes: MAX_SIZE_BYTES,
            read_size_given: false,
            write_size_given: false,
            attribute_cache: true,
            attribute_times: AttributeTimes::default(),
            close_to_open: true,
            readdirplus: true,
            connections: 1,
            sync: false,
            writeback: false,
            recovery: Recovery::Hard,
            timeout: Duration::from_secs(60),
            retrans: 2,
            port: 0,
            mount_port: 0,
            mount_transport: Transport::Tcp,
            reserved_port: None,
            max_requests: DEFAULT_TCP_REQUESTS,
            call_delays: CallDelays::default(),
            adjustments: Vec::new(),
        }
    }
}

impl MountOptions {
    /// Reads a comma-separated list as mount(8) passes it; an empty text gives the defaults.
    ///
    /// ```
    /// let options = client::MountOptions::parse("proto=tcp,rsize=64k,noac")?;
    /// assert_eq!(options.read_size_bytes, 65_536);
    /// assert!(options.sync, "noac implies sync (nfs(5))");
    /// # Ok::<(), client::OptionError>(())
    /// ```
    ///
    /// # Errors
    /// [`OptionError`] for the first option that is unknown, has a bad value, or contradicts
    /// another.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        parsing::parse(text)
    }

    /// What was replaced or rounded on the way, one sentence each; nothing is changed silently.
    pub fn adjustments(&self) -> &[String] {
        &self.adjustments
    }

    /// Settles the sizes with the server's FSINFO: those not given become the preferred ones, none
    /// stays above the server's most (Linux `nfs_server_set_fsinfo`). A server that states 0 for
    /// either is taken to have no opinion.
    pub fn negotiate(&mut self, info: &wire::nfs3::FSINFO3resok) {
        let limit = self.size_limit_bytes();
        let settle = |asked: u32, given: bool, preferred: u32, most: u32| {
            let mut size = if given || preferred == 0 {
                asked
            } else {
                preferred.clamp(MIN_SIZE_BYTES, limit)
            };
            if most != 0 && size > most {
                size = most.max(1);
            }
            if size > MIN_SIZE_BYTES {
                size -= size % MIN_SIZE_BYTES;
            }
            size
        };
        let read = settle(
            self.read_size_bytes,
            self.read_size_given,
            info.rtpref,
            info.rtmax,
        );
        let write = settle(
            self.write_size_bytes,
            self.write_size_given,
            info.wtpref,
            info.wtmax,
        );
        if self.read_size_given && read != self.read_size_bytes {
            let asked = self.read_size_bytes;
            self.adjustments.push(format!(
                "rsize={asked} lowered to the server's most, {read}"
            ));
        }
        if self.write_size_given && write != self.write_size_bytes {
            let asked = self.write_size_bytes;
            self.adjustments.push(format!(
                "wsize={asked} lowered to the server's most, {write}"
            ));
        }
        (self.read_size_bytes, self.write_size_bytes) = (read, write);
    }

    /// Largest size that the transport carries.
    pub fn size_limit_bytes(&self) -> u32 {
        match self.transport {
            Transport::Tcp => MAX_SIZE_BYTES,
            Transport::Udp => MAX_UDP_SIZE_BYTES,
        }
    }

    /// Every option in effect, defaults included, under its nfs(5) name: what results keep.
    ///
    /// [`MountOptions::parse`] of the list gives the same options again.
    pub fn effective(&self) -> Vec<(&'static str, String)> {
        let transport = |transport, family| {
            match (transport, family) {
                (Transport::Tcp, Family::Any) => "tcp",
                (Transport::Tcp, Family::V6) => "tcp6",
                (Transport::Udp, Family::Any) => "udp",
                (Transport::Udp, Family::V6) => "udp6",
            }
            .to_owned()
        };
        let flag = |on: bool, yes, no| (if on { yes } else { no }, String::new());
        let times = &self.attribute_times;
        let seconds = |time: Duration| time.as_secs().to_string();
        let mut list = vec![
            ("vers", "3".to_owned()),
            ("proto", transport(self.transport, self.family)),
            ("rsize", self.read_size_bytes.to_string()),
            ("wsize", self.write_size_bytes.to_string()),
            flag(self.attribute_cache, "ac", "noac"),
            ("acregmin", seconds(times.file_min)),
            ("acregmax", seconds(times.file_max)),
            ("acdirmin", seconds(times.directory_min)),
            ("acdirmax", seconds(times.directory_max)),
            flag(self.close_to_open, "cto", "nocto"),
            flag(self.readdirplus, "rdirplus", "nordirplus"),
            ("nconnect", self.connections.to_string()),
            flag(self.sync, "sync", "async"),
        ];
        if self.writeback {
            list.push(("writeback", String::new()));
        }
        let recovery = match self.recovery {
            Recovery::Hard => "hard",
            Recovery::Soft => "soft",
            Recovery::SoftErr => "softerr",
        };
        list.push((recovery, String::new()));
        list.extend([
            ("timeo", (self.timeout.as_millis() / 100).to_string()),
            ("retrans", self.retrans.to_string()),
            ("port", self.port.to_string()),
            ("mountport", self.mount_port.to_string()),
            ("mountproto", transport(self.mount_transport, self.family)),
            flag(
                self.reserved_port.unwrap_or_else(is_root),
                "resvport",
                "noresvport",
            ),
            ("max_requests", self.max_requests.to_string()),
            ("nolock", String::new()),
            ("sec", "sys".to_owned()),
        ]);
        if !self.call_delays.is_none() {
            list.push(("call_delay", self.call_delays.to_text()));
        }
        list
    }

    /// The options in effect as one text, as `/proc/mounts` would show them.
    pub fn to_text(&self) -> String {
        let words = self.effective().into_iter().map(|(name, value)| {
            if value.is_empty() {
                name.to_owned()
            } else {
                format!("{name}={value}")
            }
        });
        words.collect::<Vec<_>>().join(",")
    }
}
