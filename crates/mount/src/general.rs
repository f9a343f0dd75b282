//! Options that every file system has (mount(8)), apart from those of nfs(5).

use rustix::mount::MountFlags;

/// Options of the mount point itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GeneralOptions {
    /// `ro`: nothing may be changed through this mount.
    pub read_only: bool,
    /// `suid`: set-user-id programs work. Off unless asked for, as FUSE has it.
    pub suid: bool,
    /// `dev`: device files work. Off unless asked for, as FUSE has it.
    pub devices: bool,
    /// `noexec`: no programs are run from here.
    pub no_exec: bool,
}

impl GeneralOptions {
    /// Splits a comma-separated list into these options and what is left of it.
    ///
    /// ```
    /// let (general, rest) = mount::GeneralOptions::split("ro,rsize=64k,defaults");
    /// assert!(general.read_only);
    /// assert_eq!(rest, "rsize=64k");
    /// ```
    pub fn split(text: &str) -> (Self, String) {
        let mut options = GeneralOptions::default();
        let mut rest = Vec::new();
        for option in text.split(',') {
            match option.trim() {
                "ro" => options.read_only = true,
                "rw" => options.read_only = false,
                "suid" => options.suid = true,
                "nosuid" => options.suid = false,
                "dev" => options.devices = true,
                "nodev" => options.devices = false,
                "noexec" => options.no_exec = true,
                "exec" => options.no_exec = false,
                // The server keeps times of access; nothing here updates them.
                "defaults" | "atime" | "noatime" | "relatime" | "nodiratime" | "" => {}
                other => rest.push(other),
            }
        }
        (options, rest.join(","))
    }

    /// As mount(2) takes them.
    pub(crate) fn flags(self) -> MountFlags {
        let flag = |on: bool, flag| if on { flag } else { MountFlags::empty() };
        flag(self.read_only, MountFlags::RDONLY)
            | flag(!self.suid, MountFlags::NOSUID)
            | flag(!self.devices, MountFlags::NODEV)
            | flag(self.no_exec, MountFlags::NOEXEC)
    }

    /// As `/proc/mounts` shows them.
    pub fn effective(self) -> Vec<(&'static str, String)> {
        let flag = |on: bool, yes, no| (if on { yes } else { no }, String::new());
        vec![
            flag(self.read_only, "ro", "rw"),
            flag(self.suid, "suid", "nosuid"),
            flag(self.devices, "dev", "nodev"),
            flag(self.no_exec, "noexec", "exec"),
        ]
    }

    /// [`GeneralOptions::effective`] as one text.
    pub(crate) fn to_text(self) -> String {
        let names: Vec<&str> = self.effective().into_iter().map(|(name, _)| name).collect();
        names.join(",")
    }
}
