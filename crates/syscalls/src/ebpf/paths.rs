//! Paths of files as programs see them: what the kernel sends ends at a mount's root, and the
//! place of the mount is put before it here.
//!
//! A mount is known by its number, so that a file system that is mounted twice (a bind mount) or
//! seen through an overlay gets the name by which it was opened. Mounts are looked up in the
//! mountinfo of the process that used the file, hence as that process sees them: relative to its
//! root, in its mount namespace.
//!
//! Limits. A file whose mount cannot be found (a process that is gone from a namespace of its own,
//! memfd_create(2), a descriptor passed from elsewhere) has a path that is not absolute. `..` in
//! the path of unlink and rename is taken away by its letters, not through symbolic links, and
//! links in such paths stay as the program wrote them.

use std::collections::{BTreeMap, HashMap};
use std::fs;

/// Mounts that are remembered.
const MOUNTS_MAX: usize = 4096;
/// Goes before a path whose begin was too long to be sent.
const TRUNCATED: &[u8] = b"[...]";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// Of the file system: a number of a mount is used again.
    device: (u32, u32),
    /// What of the file system is mounted: "/" for all.
    root: Vec<u8>,
    /// Where.
    point: Vec<u8>,
}

/// Mounts by number.
#[derive(Debug, Default)]
pub struct Mounts {
    known: HashMap<i32, Option<Mount>>,
    /// Asked after the process itself.
    others: Vec<u32>,
}

impl Mounts {
    /// `others`: processes to ask when the one that used a file is gone.
    pub fn new(others: &[u32]) -> Self {
        Mounts {
            known: HashMap::new(),
            others: others.to_vec(),
        }
    }

    /// The path of what lies at `leaf_first` in the mount: absolute if the mount is found.
    /// `device`: that of the file, when it is known.
    pub fn path(
        &mut self,
        (number, device): (i32, Option<(u32, u32)>),
        pid: u32,
        leaf_first: &[u8],
        truncated: bool,
    ) -> Vec<u8> {
        let mut names: Vec<&[u8]> = leaf_first
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty() && *name != b"/")
            .collect();
        names.reverse();
        let inside = names.join(&b'/');
        if truncated {
            return [TRUNCATED, b"/", &inside].concat();
        }
        match self.mount(number, device, pid) {
            Some(mount) => mount.place(&inside).unwrap_or(inside),
            None => inside,
        }
    }

    fn mount(&mut self, number: i32, device: Option<(u32, u32)>, pid: u32) -> Option<Mount> {
        match self.known.get(&number) {
            // Another file system has the number now: look again.
            Some(Some(mount)) if device.is_some_and(|device| device != mount.device) => {}
            Some(mount) => return mount.clone(),
            None => {}
        }
        self.known.remove(&number);
        if self.known.len() >= MOUNTS_MAX {
            self.known.clear();
        }
        let mut processes = vec![format!("/proc/{pid}/mountinfo")];
        processes.extend(
            self.others
                .iter()
                .map(|pid| format!("/proc/{pid}/mountinfo")),
        );
        processes.push("/proc/self/mountinfo".to_owned());
        for path in processes {
            let Ok(text) = fs::read(path) else { continue };
            for (found, mount) in text.split(|byte| *byte == b'\n').filter_map(parse) {
                self.known.insert(found, Some(mount));
            }
            if self.known.contains_key(&number) {
                break;
            }
        }
        self.known.entry(number).or_default().clone()
    }
}

impl Mount {
    /// Where something lies that has this path in the file system, begun without a slash.
    fn place(&self, inside: &[u8]) -> Option<Vec<u8>> {
        let root = self.root.strip_prefix(b"/").unwrap_or(&self.root);
        let below = if root.is_empty() {
            inside
        } else {
            let rest = inside.strip_prefix(root)?;
            match rest.first() {
                None => rest,
                Some(b'/') => &rest[1..],
                Some(_) => return None,
            }
        };
        let point = self.point.strip_suffix(b"/").unwrap_or(&self.point);
        Some(match below {
            b"" if point.is_empty() => b"/".to_vec(),
            b"" => point.to_vec(),
            _ => [point, b"/", below].concat(),
        })
    }
}

/// A line of mountinfo (proc_pid_mountinfo(5)): number, parent, device, root, point, ...
fn parse(line: &[u8]) -> Option<(i32, Mount)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = std::str::from_utf8(fields.nth(1)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let root = unescaped(fields.next()?);
    let point = unescaped(fields.next()?);
    let mount = Mount {
        device,
        root,
        point,
    };
    Some((number, mount))
}

/// Spaces and the like are written as \040.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                text.push(byte);
                rest = &after[3..];
            }
            _ => {
                text.push(*first);
                rest = after;
            }
        }
    }
    text
}

/// A path of a program, told from the folder that it is relative to.
pub fn joined(folder: &[u8], path: &[u8]) -> Vec<u8> {
    if !path.starts_with(b"/") && !folder.starts_with(b"/") {
        return path.to_vec();
    }
    let base: &[u8] = if path.starts_with(b"/") { b"" } else { folder };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in base.split(|b| *b == b'/').chain(path.split(|b| *b == b'/')) {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            _ => names.push(name),
        }
    }
    [b"/", names.join(&b'/').as_slice()].concat()
}

/// Which file has which name now, so that a rename moves them.
#[derive(Debug, Default)]
pub struct Names {
    by_path: BTreeMap<Vec<u8>, u32>,
    by_file: HashMap<u32, Named>,
}

/// What is known of a file besides its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name now.
    pub path: Vec<u8>,
    /// Inode.
    pub inode: u64,
    /// Device: major, minor.
    pub device: (u32, u32),
}

impl Names {
    /// The file has this name: false when that was known.
    pub fn put(&mut self, file_id: u32, named: Named) -> bool {
        let known = self.by_file.get(&file_id);
        if known == Some(&named) {
            return false;
        }
        if let Some(known) = known
            && self.by_path.get(&known.path) == Some(&file_id)
        {
            self.by_path.remove(&known.path);
        }
        self.by_path.insert(named.path.clone(), file_id);
        self.by_file.insert(file_id, named);
        true
    }

    /// The file that has this name.
    pub fn file(&self, path: &[u8]) -> Option<u32> {
        self.by_path.get(path).copied()
    }

    /// What has this name has it no longer.
    pub fn unlinked(&mut self, path: &[u8]) {
        self.by_path.remove(path);
    }

    /// Moves the file of this name, or all in the folder of this name: the files and how they are
    /// called now.
    pub fn renamed(&mut self, path: &[u8], new_path: &[u8]) -> Vec<(u32, Named)> {
        let mut folder = path.to_vec();
        folder.push(b'/');
        let mut moved: Vec<(Vec<u8>, u32)> = Vec::new();
        moved.extend(self.file(path).map(|file_id| (path.to_vec(), file_id)));
        let within = self.by_path.range(folder.clone()..);
        let within = within.take_while(|(path, _)| path.starts_with(&folder));
        moved.extend(within.map(|(path, file_id)| (path.clone(), *file_id)));
        let mut now = Vec::new();
        for (old, file_id) in moved {
            let rest = old.get(path.len()..).unwrap_or_default();
            let Some(known) = self.by_file.get(&file_id) else {
                continue;
            };
            let named = Named {
                path: [new_path, rest].concat(),
                ..known.clone()
            };
            if self.put(file_id, named.clone()) {
                now.push((file_id, named));
            }
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_understood() {
        let line = br"36 35 98:0 /mnt1 /a\040b rw,noatime master:1 - ext3 /dev/root rw";
        let mount = Mount {
            device: (98, 0),
            root: b"/mnt1".to_vec(),
            point: b"/a b".to_vec(),
        };
        assert_eq!(parse(line), Some((36, mount.clone())));
        assert_eq!(mount.place(b"mnt1/x/y"), Some(b"/a b/x/y".to_vec()));
        assert_eq!(mount.place(b"mnt1"), Some(b"/a b".to_vec()));
        assert_eq!(mount.place(b"mnt10/x"), None);
    }

    #[test]
    fn what_lies_in_the_root_file_system_begins_with_one_slash() {
        let mount = Mount {
            device: (8, 1),
            root: b"/".to_vec(),
            point: b"/".to_vec(),
        };
        assert_eq!(mount.place(b"etc/passwd"), Some(b"/etc/passwd".to_vec()));
        assert_eq!(mount.place(b""), Some(b"/".to_vec()));
    }

    #[test]
    fn a_mount_nobody_knows_leaves_the_path_without_a_slash() {
        let mut mounts = Mounts::new(&[]);
        assert_eq!(
            mounts.path((-7, None), 0, b"name\0folder\0", false),
            b"folder/name"
        );
        assert_eq!(mounts.path((-7, None), 0, b"memfd:x\0", false), b"memfd:x");
        assert_eq!(
            mounts.path((-7, None), 0, b"name\0folder\0", true),
            b"[...]/folder/name"
        );
    }

    #[test]
    fn relative_paths_are_joined() {
        assert_eq!(joined(b"/data", b"pg_wal/./a"), b"/data/pg_wal/a");
        assert_eq!(joined(b"/data/base", b"../x"), b"/data/x");
        assert_eq!(joined(b"/data", b"/tmp//y"), b"/tmp/y");
        assert_eq!(joined(b"", b"y"), b"y");
    }

    #[test]
    fn a_renamed_folder_takes_its_files_along() {
        let mut names = Names::default();
        let named = |path: &[u8]| Named {
            path: path.to_vec(),
            inode: 7,
            device: (8, 1),
        };
        assert!(names.put(1, named(b"/a/x")));
        assert!(!names.put(1, named(b"/a/x")));
        assert!(names.put(2, named(b"/ab")));
        assert_eq!(names.renamed(b"/a", b"/b"), [(1, named(b"/b/x"))]);
        assert_eq!((names.file(b"/b/x"), names.file(b"/a/x")), (Some(1), None));
        names.unlinked(b"/b/x");
        assert_eq!(names.renamed(b"/b/x", b"/c"), []);
    }
}
