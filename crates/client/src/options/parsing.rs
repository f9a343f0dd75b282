//! From text to [`MountOptions`]: names, values, contradictions.
//!
//! Options are put into [`Given`] one by one, in any order; a second value for the same thing is
//! an error unless it says the same. What they mean together is worked out at the end, in
//! [`Given::settle`].

use std::sync::LazyLock;
use std::time::Duration;

use super::{
    AttributeTimes, CallDelays, DEFAULT_TCP_REQUESTS, DEFAULT_UDP_REQUESTS, Family, MAX_CACHE_S,
    MAX_CONNECTIONS, MAX_REQUESTS_LIMIT, MAX_RETRANS, MAX_TCP_TIMEOUT, MIN_SIZE_BYTES,
    MountOptions, REPLACEMENT_SIZE_BYTES, Recovery, Transport,
};

/// Every option name that is understood.
pub static KNOWN: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "vers nfsvers proto tcp udp rsize wsize ac noac acregmin acregmax acdirmin acdirmax actimeo \
     cto nocto rdirplus nordirplus nconnect sync async writeback hard soft softerr timeo \
     retrans port mountport mountproto mountvers resvport noresvport max_requests call_delay \
     nolock lock sec"
        .split(' ')
        .collect()
});

/// Longest text of options, bytes (a page, as mount(2) takes it).
const MAX_TEXT_BYTES: usize = 4096;

/// An option that cannot be taken as it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mount option '{option}': {why}{}", suggestion(.nearest))]
pub struct OptionError {
    /// The option as it was given.
    pub option: String,
    /// For an unknown name, the known one that is nearest.
    pub nearest: Option<&'static str>,
    /// What is wrong, and what would be right.
    pub why: String,
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

fn bad(option: &str, why: impl Into<String>) -> OptionError {
    OptionError {
        option: option.to_owned(),
        nearest: None,
        why: why.into(),
    }
}

/// A value and the option that it came from, for saying what contradicts what.
type Source<T> = Option<(T, String)>;

#[derive(Default)]
struct Given {
    transport: Source<(Transport, Family)>,
    mount_transport: Source<(Transport, Family)>,
    read_size: Source<u64>,
    write_size: Source<u64>,
    attribute_cache: Source<bool>,
    file_min: Source<u64>,
    file_max: Source<u64>,
    directory_min: Source<u64>,
    directory_max: Source<u64>,
    all_times: Source<u64>,
    close_to_open: Source<bool>,
    readdirplus: Source<bool>,
    connections: Source<u64>,
    sync: Source<bool>,
    writeback: Source<bool>,
    recovery: Source<Recovery>,
    timeout: Source<u64>,
    retrans: Source<u64>,
    port: Source<u64>,
    mount_port: Source<u64>,
    reserved_port: Source<bool>,
    max_requests: Source<u64>,
    call_delays: Source<CallDelays>,
}

/// Keeps a value; another one for the same thing is a contradiction.
fn set<T: PartialEq>(place: &mut Source<T>, value: T, option: &str) -> Result<(), OptionError> {
    match place {
        Some((before, from)) if *before != value => {
            Err(bad(option, format!("contradicts '{from}'")))
        }
        Some(_) => Ok(()),
        None => {
            *place = Some((value, option.to_owned()));
            Ok(())
        }
    }
}

pub(super) fn parse(text: &str) -> Result<MountOptions, OptionError> {
    if text.len() > MAX_TEXT_BYTES {
        let why = format!("all options together exceed {MAX_TEXT_BYTES} bytes");
        return Err(bad(text.get(..40).unwrap_or_default(), why));
    }
    let mut given = Given::default();
    for option in text.split(',').map(str::trim).filter(|o| !o.is_empty()) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        if !KNOWN.contains(&name) {
            return Err(OptionError {
                option: option.to_owned(),
                nearest: nearest(name),
                why: "unknown".to_owned(),
            });
        }
        match value {
            Some(value) => given.take_value(option, name, value)?,
            None => given.take_flag(option)?,
        }
    }
    given.settle()
}

impl Given {
    fn take_flag(&mut self, option: &str) -> Result<(), OptionError> {
        match option {
            "tcp" => set(&mut self.transport, (Transport::Tcp, Family::Any), option),
            "udp" => set(&mut self.transport, (Transport::Udp, Family::Any), option),
            "ac" | "noac" => set(&mut self.attribute_cache, option == "ac", option),
            "cto" | "nocto" => set(&mut self.close_to_open, option == "cto", option),
            "rdirplus" | "nordirplus" => set(&mut self.readdirplus, option == "rdirplus", option),
            "sync" | "async" => set(&mut self.sync, option == "sync", option),
            "writeback" => set(&mut self.writeback, true, option),
            "hard" => set(&mut self.recovery, Recovery::Hard, option),
            "soft" => set(&mut self.recovery, Recovery::Soft, option),
            "softerr" => set(&mut self.recovery, Recovery::SoftErr, option),
            "resvport" | "noresvport" => set(&mut self.reserved_port, option == "resvport", option),
            "nolock" => Ok(()),
            "lock" => Err(bad(option, "this client has no NLM; say 'nolock'")),
            _ => Err(bad(option, format!("needs a value: {option}=..."))),
        }
    }

    fn take_value(&mut self, option: &str, name: &str, value: &str) -> Result<(), OptionError> {
        let number = |lowest, highest| number(option, value, lowest, highest);
        match name {
            "vers" | "nfsvers" => version(option, value),
            "mountvers" if value == "3" => Ok(()),
            "mountvers" => Err(bad(option, "MOUNT version 3 goes with NFSv3")),
            "sec" if value == "sys" => Ok(()),
            "sec" => Err(bad(option, "only 'sys' (AUTH_SYS) is there")),
            "proto" => set(&mut self.transport, netid(option, value)?, option),
            "mountproto" => set(&mut self.mount_transport, netid(option, value)?, option),
            "rsize" => set(&mut self.read_size, size(option, value)?, option),
            "wsize" => set(&mut self.write_size, size(option, value)?, option),
            "acregmin" => set(&mut self.file_min, number(0, MAX_CACHE_S)?, option),
            "acregmax" => set(&mut self.file_max, number(0, MAX_CACHE_S)?, option),
            "acdirmin" => set(&mut self.directory_min, number(0, MAX_CACHE_S)?, option),
            "acdirmax" => set(&mut self.directory_max, number(0, MAX_CACHE_S)?, option),
            "actimeo" => set(&mut self.all_times, number(0, MAX_CACHE_S)?, option),
            "nconnect" => {
                let count = number(1, u64::from(MAX_CONNECTIONS))?;
                set(&mut self.connections, count, option)
            }
            "timeo" => {
                let tenths = number(1, MAX_TCP_TIMEOUT.as_secs() * 10)?;
                set(&mut self.timeout, tenths, option)
            }
            "retrans" => {
                let count = number(0, u64::from(MAX_RETRANS))?;
                set(&mut self.retrans, count, option)
            }
            "port" => set(&mut self.port, number(0, 65_535)?, option),
            "mountport" => set(&mut self.mount_port, number(0, 65_535)?, option),
            "max_requests" => {
                let count = number(1, u64::from(MAX_REQUESTS_LIMIT))?;
                set(&mut self.max_requests, count, option)
            }
            "call_delay" => {
                let delays = CallDelays::parse(value).map_err(|why| bad(option, why))?;
                set(&mut self.call_delays, delays, option)
            }
            _ => Err(bad(option, format!("'{name}' takes no value"))),
        }
    }

    /// Puts defaults in and looks at what the options mean together.
    fn settle(self) -> Result<MountOptions, OptionError> {
        let mut options = MountOptions::default();
        let (transport, family) = value(&self.transport).unwrap_or((Transport::Tcp, Family::Any));
        options.transport = transport;
        options.family = family;
        let mount = value(&self.mount_transport).unwrap_or((transport, family));
        options.mount_transport = mount.0;
        if let Some((_, from)) = self.mount_transport.as_ref().filter(|_| mount.1 != family) {
            return Err(bad(from, "asks for another IP version than 'proto'"));
        }
        let udp = transport == Transport::Udp;
        if let Some((count, from)) = &self.connections {
            if udp && *count > 1 {
                return Err(bad(
                    from,
                    "UDP has one socket; nconnect goes with proto=tcp",
                ));
            }
            options.connections = u32_of(*count);
        }
        let requests = if udp {
            DEFAULT_UDP_REQUESTS
        } else {
            DEFAULT_TCP_REQUESTS
        };
        options.max_requests = value(&self.max_requests).map_or(requests, u32_of);
        options.call_delays = value(&self.call_delays).unwrap_or_default();
        // nfs(5): timeo is 600 over TCP; over UDP "after 1.1 seconds", three tries.
        let tenths = value(&self.timeout).unwrap_or(if udp { 11 } else { 600 });
        options.timeout = Duration::from_millis(tenths * 100);
        options.retrans = value(&self.retrans).map_or(if udp { 3 } else { 2 }, u32_of);
        options.recovery = value(&self.recovery).unwrap_or(Recovery::Hard);
        options.close_to_open = value(&self.close_to_open).unwrap_or(true);
        options.readdirplus = value(&self.readdirplus).unwrap_or(true);
        options.reserved_port = value(&self.reserved_port);
        let port = |given: &Source<u64>| value(given).and_then(|port| u16::try_from(port).ok());
        options.port = port(&self.port).unwrap_or(0);
        options.mount_port = port(&self.mount_port).unwrap_or(0);
        let mut notes = Vec::new();
        let limit = options.size_limit_bytes();
        options.read_size_given = self.read_size.is_some();
        options.write_size_given = self.write_size.is_some();
        options.read_size_bytes = settled_size(&self.read_size, limit, &mut notes);
        options.write_size_bytes = settled_size(&self.write_size, limit, &mut notes);
        if options.timeout > super::MAX_UDP_TIMEOUT && udp {
            options.timeout = super::MAX_UDP_TIMEOUT;
            notes.push(format!(
                "timeo={tenths} lowered to 600: 60 seconds are the most over UDP"
            ));
        }
        options.adjustments = notes;
        self.settle_caching(&mut options)?;
        options.writeback = self.writeback.is_some();
        if options.writeback && options.sync {
            let why = "contradicts 'sync', which 'noac' is too: a write would not be on the server";
            return Err(bad("writeback", why));
        }
        Ok(options)
    }

    /// `noac` is `actimeo=0` and `sync` (nfs(5)); `actimeo` is all four times.
    fn settle_caching(&self, options: &mut MountOptions) -> Result<(), OptionError> {
        let defaults = AttributeTimes::default();
        let time = |own: &Source<u64>, default: Duration| match (own, &self.all_times) {
            (Some((one, from)), Some((all, other))) if one != all => {
                Err(bad(from, format!("contradicts '{other}'")))
            }
            (Some((seconds, _)), _) | (None, Some((seconds, _))) => {
                Ok(Duration::from_secs(*seconds))
            }
            (None, None) => Ok(default),
        };
        let mut times = AttributeTimes {
            file_min: time(&self.file_min, defaults.file_min)?,
            file_max: time(&self.file_max, defaults.file_max)?,
            directory_min: time(&self.directory_min, defaults.directory_min)?,
            directory_max: time(&self.directory_max, defaults.directory_max)?,
        };
        let (lowest, highest) = (&mut times.file_min, &mut times.file_max);
        order([&self.file_min, &self.file_max], "acreg", lowest, highest)?;
        let (lowest, highest) = (&mut times.directory_min, &mut times.directory_max);
        let given = [&self.directory_min, &self.directory_max];
        order(given, "acdir", lowest, highest)?;
        options.attribute_times = times;
        options.attribute_cache = value(&self.attribute_cache).unwrap_or(true);
        options.sync = value(&self.sync).unwrap_or(false);
        if options.attribute_cache {
            return Ok(());
        }
        let timed = [
            &self.all_times,
            &self.file_min,
            &self.file_max,
            &self.directory_min,
            &self.directory_max,
        ];
        for (seconds, from) in timed.into_iter().flatten() {
            if *seconds > 0 {
                return Err(bad(from, "contradicts 'noac', which is actimeo=0 and sync"));
            }
        }
        if let Some((false, from)) = &self.sync {
            return Err(bad(from, "contradicts 'noac', which is actimeo=0 and sync"));
        }
        options.attribute_times = AttributeTimes::OFF;
        options.sync = true;
        Ok(())
    }
}

/// Puts the times of a pair of options in order. One was given beyond the other's default: the
/// default gives way. Both: an error.
fn order(
    given: [&Source<u64>; 2],
    pair: &str,
    lowest: &mut Duration,
    highest: &mut Duration,
) -> Result<(), OptionError> {
    if *lowest > *highest {
        match given {
            [Some(_), None] => *highest = *lowest,
            [None, Some(_)] => *lowest = *highest,
            [min, _] => {
                let shown = min.as_ref().map_or(pair, |(_, from)| from.as_str());
                return Err(bad(shown, format!("is above {pair}max")));
            }
        }
    }
    Ok(())
}

fn value<T: Copy>(given: &Source<T>) -> Option<T> {
    given.as_ref().map(|(value, _)| *value)
}

fn u32_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn version(option: &str, value: &str) -> Result<(), OptionError> {
    match value {
        "3" => Ok(()),
        "2" | "4" | "4.0" | "4.1" | "4.2" => Err(bad(
            option,
            "this client speaks NFS version 3 only; say vers=3",
        )),
        _ => Err(bad(option, "is no version of NFS; say vers=3")),
    }
}

fn netid(option: &str, value: &str) -> Result<(Transport, Family), OptionError> {
    match value {
        "tcp" => Ok((Transport::Tcp, Family::Any)),
        "udp" => Ok((Transport::Udp, Family::Any)),
        "tcp6" => Ok((Transport::Tcp, Family::V6)),
        "udp6" => Ok((Transport::Udp, Family::V6)),
        "rdma" | "rdma6" => Err(bad(option, "RDMA is not there; say tcp or udp")),
        _ => Err(bad(option, "is no transport; say tcp, udp, tcp6 or udp6")),
    }
}

fn number(option: &str, value: &str, lowest: u64, highest: u64) -> Result<u64, OptionError> {
    let why = || {
        bad(
            option,
            format!("needs a whole number from {lowest} to {highest}"),
        )
    };
    // u64's own parser takes a leading plus, which nobody means.
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(why());
    }
    let number: u64 = value.parse().map_err(|_| why())?;
    (lowest..=highest)
        .contains(&number)
        .then_some(number)
        .ok_or_else(why)
}

/// Bytes, with `k` or `m` for multiples of 1024 (an addition to nfs(5)).
fn size(option: &str, value: &str) -> Result<u64, OptionError> {
    let (digits, scale) = match value.as_bytes().last() {
        Some(b'k' | b'K') => (value.get(..value.len() - 1).unwrap_or_default(), 1 << 10),
        Some(b'm' | b'M') => (value.get(..value.len() - 1).unwrap_or_default(), 1 << 20),
        _ => (value, 1),
    };
    let why = || {
        bad(
            option,
            "needs a size: bytes, or with k or m, as in rsize=64k",
        )
    };
    number(option, digits, 0, u64::from(u32::MAX))
        .map(|number| number.saturating_mul(scale))
        .map_err(|_| why())
}

/// Replaces and rounds a size as nfs(5) says, noting it.
fn settled_size(given: &Source<u64>, limit: u32, notes: &mut Vec<String>) -> u32 {
    let Some((asked, option)) = given else {
        return limit;
    };
    let (size, why) = if *asked < u64::from(MIN_SIZE_BYTES) {
        (
            REPLACEMENT_SIZE_BYTES,
            "replaced: sizes below 1024 are, nfs(5)",
        )
    } else if *asked > u64::from(limit) {
        (limit, "lowered to the largest that the transport carries")
    } else {
        let asked = u32_of(*asked);
        (
            asked - asked % MIN_SIZE_BYTES,
            "rounded down to a multiple of 1024, nfs(5)",
        )
    };
    if u64::from(size) != *asked {
        notes.push(format!("{option} is {size}: {why}"));
    }
    size
}

/// The known name with the fewest edits, if it is near enough to be meant.
fn nearest(name: &str) -> Option<&'static str> {
    let far = (name.len() / 2).clamp(1, 4);
    KNOWN
        .iter()
        .map(|known| (edits(name.as_bytes(), known.as_bytes()), *known))
        .filter(|(edits, _)| *edits <= far)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, known)| known)
}

/// Levenshtein distance, case ignored.
fn edits(left: &[u8], right: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = i;
        let mut previous = i + 1;
        if let Some(first) = row.first_mut() {
            *first = previous;
        }
        for (cell, b) in row.iter_mut().skip(1).zip(right) {
            let substituted = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = *cell;
            *cell = substituted.min(diagonal + 1).min(previous + 1);
            previous = *cell;
        }
    }
    row.last().copied().unwrap_or(left.len())
}
