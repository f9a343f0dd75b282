//! Why eBPF cannot watch here: what, why, and what to do about it.

#[cfg(ebpf)]
use std::error::Error;
use std::io;

/// Why watching by eBPF did not begin.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Built for a platform without it, or without it by intent.
    #[error("eBPF was left out when nfslab was built")]
    LeftOut {
        /// What the build said.
        why: &'static str,
    },
    /// Linux grants it to others only.
    #[error("Linux does not let this user {step}")]
    Permission {
        /// What was refused.
        step: String,
        /// As Linux said it.
        #[source]
        source: io::Error,
    },
    /// The kernel does not say how its structures are laid out.
    #[error("the kernel's type information (BTF) cannot be read")]
    Btf {
        /// What was wrong with it.
        why: String,
    },
    /// The kernel is locked down.
    #[error("the kernel is locked down (\"{mode}\")")]
    Lockdown {
        /// As /sys/kernel/security/lockdown says it.
        mode: String,
    },
    /// bpf(2) was refused, or a program was.
    #[error("Linux did not {step}")]
    Bpf {
        /// What was tried.
        step: String,
        /// As Linux or the loader said it.
        why: String,
    },
    /// The numbers of tracepoints cannot be read.
    #[error("the tracepoints of the kernel cannot be reached")]
    Tracefs {
        /// What was tried and what came of it.
        why: String,
    },
    /// A process that was to be watched is not there.
    #[error("there is no process {pid}")]
    Gone {
        /// Its number.
        pid: u32,
    },
    /// An option is out of its bounds.
    #[error("{what}")]
    Config {
        /// Which, and what its bounds are.
        what: String,
    },
}

impl WatchError {
    /// Stable word that programs may compare.
    pub fn kind(&self) -> &'static str {
        match self {
            WatchError::LeftOut { .. } => "left_out",
            WatchError::Permission { .. } => "permission",
            WatchError::Btf { .. } => "btf",
            WatchError::Lockdown { .. } => "lockdown",
            WatchError::Bpf { .. } => "bpf",
            WatchError::Tracefs { .. } => "tracefs",
            WatchError::Gone { .. } => "gone",
            WatchError::Config { .. } => "config",
        }
    }

    /// Why.
    pub fn why(&self) -> String {
        match self {
            WatchError::LeftOut { why } => (*why).to_owned(),
            WatchError::Permission { source, .. } => source.to_string(),
            WatchError::Btf { why } | WatchError::Bpf { why, .. } => why.clone(),
            WatchError::Tracefs { why } => why.clone(),
            WatchError::Lockdown { .. } => {
                "it then refuses programs that read its memory, and its tracepoints".to_owned()
            }
            WatchError::Gone { .. } => "it ended, or it never was; a thread is none".to_owned(),
            WatchError::Config { .. } => String::new(),
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            WatchError::LeftOut { .. } => {
                "Build nfslab on Linux, for a little-endian processor, without NFSLAB_EBPF=0."
            }
            WatchError::Permission { .. } => {
                "Run as root, or with the capabilities CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN."
            }
            WatchError::Btf { .. } => {
                "Use a kernel built with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux is there \
                 then), Linux 5.11 or later."
            }
            WatchError::Lockdown { .. } => {
                "Boot without lockdown (no Secure Boot, or lockdown=none), or watch by a preloaded \
                 shim."
            }
            WatchError::Bpf { .. } => {
                "In a container: allow bpf(2) and perf_event_open(2) in its seccomp filter \
                 (--privileged does). Otherwise use Linux 5.11 or later."
            }
            WatchError::Tracefs { .. } => {
                "As root: mount -t tracefs nodev /sys/kernel/tracing. The kernel needs \
                 CONFIG_FTRACE_SYSCALLS."
            }
            WatchError::Gone { .. } => "Name a process that runs (its number, not a thread's).",
            WatchError::Config { .. } => "Choose a value within these bounds.",
        }
    }
}

/// The system's error at the bottom of a chain of causes, if there is one.
#[cfg(ebpf)]
pub(crate) fn system_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<io::Error>()
            && found.raw_os_error().is_some()
        {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// A chain of causes as one text.
#[cfg(ebpf)]
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let further = error.to_string();
        if !text.contains(&further) {
            text.push_str(": ");
            text.push_str(&further);
        }
        cause = error.source();
    }
    text
}
