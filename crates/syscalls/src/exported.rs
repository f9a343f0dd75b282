//! Where a process has what its program exports under a name.

use std::fs;
use std::io;
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
}
