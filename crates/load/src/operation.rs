//! The procedures that a mix may hold, and how they stand in tables.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wire::nfs3::procedure;

/// Places of a table by operation: the procedures' numbers (RFC 1813 section 3.3).
pub const OPERATIONS: usize = 22;

macro_rules! operations {
    ($($(#[$first:meta])? $name:ident = $number:ident, $text:literal;)*) => {
        /// An NFSv3 procedure that the generator can make.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Operation {
            $(#[doc = $text] $(#[$first])? $name,)*
        }

        impl Operation {
            /// All of them, by number.
            pub const ALL: &'static [Operation] = &[$(Operation::$name,)*];

            /// Number on the wire.
            #[inline]
            pub const fn procedure(self) -> u32 {
                match self { $(Operation::$name => procedure::$number,)* }
            }

            /// The RFC's name.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$name => stringify!($number),)* }
            }
        }
    };
}

operations! {
    #[default]
    Null = NULL, "Nothing.";
    GetAttr = GETATTR, "Attributes of a file.";
    SetAttr = SETATTR, "Size of a file that grew, else mode and time of any.";
    Lookup = LOOKUP, "A file's name, or one that is not there.";
    Access = ACCESS, "Rights on a file.";
    ReadLink = READLINK, "Text of a symbolic link.";
    Read = READ, "Bytes of a file.";
    Write = WRITE, "Bytes of a file, or behind its end.";
    Create = CREATE, "An empty file of the scratch directories.";
    Remove = REMOVE, "An empty file of the scratch directories.";
    ReadDir = READDIR, "First names of a directory.";
    ReadDirPlus = READDIRPLUS, "First names of a directory, with attributes and handles.";
    FsStat = FSSTAT, "Space of the file system.";
    FsInfo = FSINFO, "Limits of the server.";
    PathConf = PATHCONF, "Limits of names.";
    Commit = COMMIT, "Makes a file's unstable bytes safe.";
}

impl Operation {
    /// Place in a table of [`OPERATIONS`].
    #[inline]
    pub const fn index(self) -> usize {
        self.procedure() as usize
    }

    /// The operation of a name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        let same = |operation: &&Self| operation.name().eq_ignore_ascii_case(name);
        Self::ALL.iter().find(same).copied()
    }

    /// All names, for an error's text.
    pub fn names() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|operation| operation.name()).collect();
        names.join(", ")
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// As its name.
impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || serde::de::Error::custom(format!("no operation: {name}"));
        Self::parse(&name).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_numbers() {
        for operation in Operation::ALL {
            let number = operation.procedure();
            let name = wire::programs::procedure_name(wire::programs::NFS, 3, number);
            assert_eq!(name, Some(operation.name()));
            assert_eq!(
                Operation::parse(&operation.name().to_lowercase()),
                Some(*operation)
            );
            assert!(operation.index() < OPERATIONS);
        }
        assert_eq!(Operation::parse("MKNOD"), None);
    }
}
