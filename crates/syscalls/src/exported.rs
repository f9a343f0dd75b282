//! Where a process has what its program exports under a name.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use object::{Object, ObjectKind, ObjectSymbol};

/// Why it is not known.
#[derive(Debug)]
pub enum NotFound {
    /// Its program cannot be read: there is no such process, or it is another user's.
    Unread(io::Error),
    /// Its program has no such name.
    Absent(String),
}

/// The address in this process. Its children have it there, too.
pub fn address_of(pid: u32, symbol: &str) -> Result<u64, NotFound> {
    let absent = |why: &str| NotFound::Absent(why.to_owned());
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let image = fs::read(folder.join("exe")).map_err(NotFound::Unread)?;
    let file = object::File::parse(&*image).map_err(|error| NotFound::Absent(error.to_string()))?;
    let found = file.dynamic_symbols().find(|one| {
        one.is_definition() && one.name_bytes().is_ok_and(|name| name == symbol.as_bytes())
    });
    let found = found.ok_or_else(|| absent("its program exports no such name"))?;
    if file.kind() == ObjectKind::Executable {
        return Ok(found.address());
    }
    let maps = fs::read_to_string(folder.join("maps")).unwrap_or_default();
    let exe = fs::read_link(folder.join("exe")).unwrap_or_default();
    let begin = first_mapping(&maps, &exe.to_string_lossy());
    let begin = begin.ok_or_else(|| absent("it is not among its mappings"))?;
    Ok(begin + found.address())
}

/// Where a process has its program in memory, with its static objects.
pub fn image_of(pid: u32) -> io::Result<Range<u64>> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let exe = fs::read_link(folder.join("exe"))?;
    let maps = fs::read_to_string(folder.join("maps"))?;
    Ok(image_in(&maps, &exe.to_string_lossy()))
}

/// Its mappings, and those without a name right behind: what begins as zeros lies there.
fn image_in(maps: &str, path: &str) -> Range<u64> {
    let mut found = 0..0;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some((begin, end)) = fields.next().and_then(|place| place.split_once('-')) else {
            continue;
        };
        let (begin, end) = (u64::from_str_radix(begin, 16), u64::from_str_radix(end, 16));
        let (Ok(begin), Ok(end)) = (begin, end) else {
            continue;
        };
        let of_program = line.ends_with(&format!(" {path}"));
        let of_zeros = begin == found.end && fields.nth(4).is_none();
        if of_program && found.is_empty() {
            found = begin..end;
        } else if !found.is_empty() && (of_program || of_zeros) {
            found.end = end;
        }
    }
    found
}

/// Where a file's first byte is mapped (proc(5)).
fn first_mapping(maps: &str, path: &str) -> Option<u64> {
    let line = maps.lines().find(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(2) == Some("00000000") && line.ends_with(&format!(" {path}"))
    })?;
    u64::from_str_radix(line.split('-').next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mapping_is_that_of_the_whole_path_at_its_first_byte() {
        let maps = "\
5500000000-5500001000 r--p 00000000 fe:00 1   /opt/pg/bin/postgres.old
5600001000-5600002000 r-xp 00001000 fe:00 2   /opt/pg/bin/postgres
5600000000-5600001000 r--p 00000000 fe:00 2   /opt/pg/bin/postgres
";
        assert_eq!(
            first_mapping(maps, "/opt/pg/bin/postgres"),
            Some(0x56_0000_0000)
        );
        assert_eq!(first_mapping(maps, "postgres"), None);
    }

    #[test]
    fn a_program_lies_where_its_mappings_and_its_zeros_are() {
        let maps = "\
5500000000-5500001000 r--p 00000000 fe:00 1   /bin/other
5600000000-5600001000 r-xp 00000000 fe:00 2   /bin/server
5600002000-5600003000 rw-p 00001000 fe:00 2   /bin/server
5600003000-5600009000 rw-p 00000000 00:00 0
5600009000-5600019000 rw-p 00000000 00:00 0   [heap]
5600019000-5600020000 rw-p 00000000 00:00 0
";
        assert_eq!(
            image_in(maps, "/bin/server"),
            0x56_0000_0000..0x56_0000_9000
        );
        assert_eq!(image_in(maps, "/bin/none"), 0..0);
    }
}
