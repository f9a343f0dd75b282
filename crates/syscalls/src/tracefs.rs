//! Tracefs, where the kernel tells its tracepoints, without mounting it for others to see.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{fsconfig_create, fsmount, fsopen};

/// Where tracepoints are read.
#[derive(Debug)]
pub struct Tracefs {
    root: OwnedFd,
}

impl Tracefs {
    /// As it is mounted below `root`, or else by a mount that nobody else sees and that ends with
    /// this object.
    pub fn open(root: &Path) -> Result<Self, String> {
        Self::mounted(root).or_else(|mut tried| {
            let own = unseen().map_err(io::Error::from).and_then(Self::usable);
            own.map_err(|error| {
                tried.push(format!("a mount of its own: {error}"));
                tried.join("; ")
            })
        })
    }

    /// As it is mounted; each place that was tried, and what came of it.
    pub fn mounted(root: &Path) -> Result<Self, Vec<String>> {
        let mut tried = Vec::new();
        for place in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
            let place = root.join(place);
            let opened = openat(CWD, &place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            match opened.map_err(io::Error::from).and_then(Self::usable) {
                Ok(tracefs) => return Ok(tracefs),
                Err(error) => tried.push(format!("{}: {error}", place.display())),
            }
        }
        Err(tried)
    }

    fn usable(root: OwnedFd) -> io::Result<Self> {
        let tracefs = Tracefs { root };
        tracefs.number("syscalls", "sys_enter_fsync")?;
        Ok(tracefs)
    }

    /// The number of a tracepoint.
    pub fn number(&self, category: &str, name: &str) -> io::Result<u64> {
        let text = self.read(category, name, "id")?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// How its records are laid out.
    pub fn format(&self, category: &str, name: &str) -> io::Result<String> {
        self.read(category, name, "format")
    }

    fn read(&self, category: &str, name: &str, what: &str) -> io::Result<String> {
        let path = format!("events/{category}/{name}/{what}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.root, path, flags, Mode::empty())?;
        io::read_to_string(std::fs::File::from(file))
    }
}

fn unseen() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
}
