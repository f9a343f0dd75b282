//! What this kernel lets us do: tried, not guessed, and what is in the way.
//!
//! Linux shows itself in files (types, lockdown, tracefs, capabilities) below a root, which is "/"
//! but in tests.

use std::fs;
use std::path::Path;

use crate::error::WatchError;
use crate::tracefs::Tracefs;

use super::Grants;
use super::kernel;

const BTF: &str = "sys/kernel/btf/vmlinux";
const LOCKDOWN: &str = "sys/kernel/security/lockdown";
const STATUS: &str = "proc/self/status";
/// The tracepoint tried: a call that hardly anybody makes.
const TRIED: &str = "sys_enter_syncfs";
/// Numbers of capabilities (linux/capability.h): any of these sets lets one load and attach.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// Tries to load a program that does nothing and to open a tracepoint.
pub fn grants() -> Grants {
    let root = Path::new("/");
    let refused = tried(root).map_err(|error| explained(error, root)).err();
    Grants {
        blocks: refused.is_none() && has_block_tracepoints(root),
        refused,
    }
}

fn tried(root: &Path) -> Result<(), WatchError> {
    may_load()?;
    has_types(root)?;
    let tracefs = Tracefs::open(root).map_err(|why| WatchError::Tracefs { why })?;
    let number = tracefs
        .number("syscalls", TRIED)
        .map_err(|error| WatchError::Tracefs {
            why: format!("{TRIED}: {error}"),
        })?;
    // Nothing is attached: to detach it would take Linux a tenth of a second.
    let opened = kernel::open_tracepoint(number);
    opened.map_err(|error| refused("open a tracepoint", error))?;
    Ok(())
}

/// Does the kernel say how its structures are laid out?
pub fn has_types(root: &Path) -> Result<(), WatchError> {
    let path = root.join(BTF);
    match fs::File::open(&path) {
        Ok(_) => Ok(()),
        Err(error) => Err(WatchError::Btf {
            why: format!("{}: {error}", path.display()),
        }),
    }
}

/// Loads a program that does nothing.
pub fn may_load() -> Result<(), WatchError> {
    let loaded = kernel::load_nothing();
    loaded.map_err(|error| refused("load an eBPF program", error))?;
    Ok(())
}

fn refused(step: &str, error: std::io::Error) -> WatchError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => WatchError::Permission {
            step: step.to_owned(),
            source: error,
        },
        _ => WatchError::Bpf {
            step: step.to_owned(),
            why: error.to_string(),
        },
    }
}

/// An error as the state of this machine explains it: a lockdown, or a filter of a container,
/// shows itself as a refusal that no capability helps against.
pub fn explained(error: WatchError, root: &Path) -> WatchError {
    let denied = matches!(
        error,
        WatchError::Permission { .. } | WatchError::Tracefs { .. }
    );
    let Some(mode) = lockdown(root).filter(|_| denied || matches!(error, WatchError::Bpf { .. }))
    else {
        return match error {
            WatchError::Permission { step, source } if has_capabilities(root) => WatchError::Bpf {
                step: format!("let this user {step}"),
                why: format!(
                    "{source}, although the process has the capabilities: a seccomp filter or a \
                     security module refuses it"
                ),
            },
            other => other,
        };
    };
    WatchError::Lockdown { mode }
}

/// The mode of lockdown when it is one that refuses reading the kernel.
fn lockdown(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(LOCKDOWN)).ok()?;
    let mode = chosen(&text)?;
    (mode == "confidentiality").then(|| mode.to_owned())
}

/// "none [integrity] confidentiality": the one in brackets.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

fn has_capabilities(root: &Path) -> bool {
    let status = fs::read_to_string(root.join(STATUS)).unwrap_or_default();
    effective(&status).is_some_and(|set| {
        set & CAP_SYS_ADMIN != 0 || (set & CAP_BPF != 0 && set & CAP_PERFMON != 0)
    })
}

/// CapEff of /proc/self/status.
fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Are the types of the block tracepoints in the kernel's BTF? The name alone is looked for: to
/// read all of it takes longer than the answer is worth.
fn has_block_tracepoints(root: &Path) -> bool {
    let wanted = b"\0btf_trace_block_rq_complete\0";
    fs::read(root.join(BTF)).is_ok_and(|btf| {
        btf.windows(wanted.len())
            .any(|part| part[1] == b'b' && part == wanted)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ALL: &str = "Name:\tx\nCapEff:\t000001ffffffffff\n";
    const NONE: &str = "Name:\tx\nCapEff:\t0000000000000000\n";

    /// A tree with these files in it.
    fn planted(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn denied() -> WatchError {
        let error = std::io::Error::from_raw_os_error(libc::EPERM);
        refused("load an eBPF program", error)
    }

    /// What is said of an error: what, why, and the word of its kind.
    fn said(error: &WatchError) -> (String, String, &'static str) {
        assert!(!error.fix().is_empty());
        (error.to_string(), error.why(), error.kind())
    }

    #[test]
    fn without_types_it_is_said_which_file_is_missing() {
        let root = planted(&[]);
        let error = has_types(root.path()).unwrap_err();
        let path = root.path().join("sys/kernel/btf/vmlinux");
        let why = format!("{}: No such file or directory (os error 2)", path.display());
        let what = "the kernel's type information (BTF) cannot be read".to_owned();
        assert_eq!(said(&error), (what, why, "btf"));
        assert!(error.fix().contains("CONFIG_DEBUG_INFO_BTF"));
        // A lockdown does not take them away.
        let root = planted(&[(LOCKDOWN, "none integrity [confidentiality]\n")]);
        let error = explained(has_types(root.path()).unwrap_err(), root.path());
        assert_eq!(error.kind(), "btf");
        assert!(has_types(planted(&[(BTF, "")]).path()).is_ok());
        assert!(!has_block_tracepoints(root.path()));
    }

    #[test]
    fn a_refusal_under_lockdown_is_the_lockdowns() {
        let root = planted(&[
            (LOCKDOWN, "none integrity [confidentiality]\n"),
            (STATUS, ALL),
        ]);
        let tracefs = WatchError::Tracefs {
            why: "x".to_owned(),
        };
        for error in [denied(), tracefs] {
            let what = "the kernel is locked down (\"confidentiality\")".to_owned();
            let why = "it then refuses programs that read its memory, and its tracepoints";
            let error = explained(error, root.path());
            assert_eq!(said(&error), (what, why.to_owned(), "lockdown"));
        }
        // The milder mode refuses none of what is needed.
        let root = planted(&[
            (LOCKDOWN, "none [integrity] confidentiality\n"),
            (STATUS, NONE),
        ]);
        assert_eq!(explained(denied(), root.path()).kind(), "permission");
    }

    #[test]
    fn a_refusal_without_capabilities_is_told_from_one_with_them() {
        let without = explained(denied(), planted(&[(STATUS, NONE)]).path());
        let what = "Linux does not let this user load an eBPF program".to_owned();
        let why = "Operation not permitted (os error 1)".to_owned();
        assert_eq!(said(&without), (what, why, "permission"));
        let with = explained(denied(), planted(&[(STATUS, ALL)]).path());
        let what = "Linux did not let this user load an eBPF program".to_owned();
        assert_eq!((with.to_string(), with.kind()), (what, "bpf"));
        assert!(with.why().contains("a seccomp filter or a security module"));
    }

    #[test]
    fn tracefs_is_found_where_it_is_mounted_and_else_all_places_are_named() {
        let id = "events/syscalls/sys_enter_fsync/id";
        for place in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
            let root = planted(&[(&format!("{place}/{id}"), "712\n")]);
            let tracefs = Tracefs::mounted(root.path()).unwrap();
            assert_eq!(tracefs.number("syscalls", "sys_enter_fsync").unwrap(), 712);
        }
        let root = planted(&[("sys/kernel/tracing/README", "")]);
        let tried = Tracefs::mounted(root.path()).unwrap_err();
        let missing = "No such file or directory (os error 2)";
        let at = |place: &str| format!("{}: {missing}", root.path().join(place).display());
        let places = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];
        assert_eq!(tried, places.map(at), "the first is there, and empty");
    }

    #[test]
    fn the_mode_of_lockdown_is_the_one_in_brackets() {
        assert_eq!(
            chosen("none [integrity] confidentiality\n"),
            Some("integrity")
        );
        assert_eq!(chosen("[none] integrity confidentiality\n"), Some("none"));
        assert_eq!(chosen("none"), None);
    }

    #[test]
    fn capabilities_are_read() {
        let status = "Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(effective(status), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("Name:\tx\n"), None);
    }
}
