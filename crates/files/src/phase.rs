//! The phases of the workload, by the names users give them.

use serde::{Deserialize, Serialize};

/// One phase. The order here is the default order, that of Bonnie's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Sequential output to new files, one character at a time through stdio.
    CharWrite,
    /// Sequential output to new files, block by block.
    BlockWrite,
    /// Read a block, change it, write it back in place; sequentially.
    Rewrite,
    /// Sequential input, one character at a time through stdio.
    CharRead,
    /// Sequential input, block by block.
    BlockRead,
    /// Bonnie's seeks: read a random block, write a share of them back.
    Seeks,
    /// Read random blocks.
    RandomRead,
    /// Write random blocks, with a sync after each N.
    RandomWrite,
    /// Write the blocks in order, again from the first after the last, with a sync after each N:
    /// as a database fills a log whose files it uses again.
    LogWrite,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 9] = [
        Self::CharWrite,
        Self::BlockWrite,
        Self::Rewrite,
        Self::CharRead,
        Self::BlockRead,
        Self::Seeks,
        Self::RandomRead,
        Self::RandomWrite,
        Self::LogWrite,
    ];

    /// Runs where no phases are named.
    #[must_use]
    pub const fn by_default(self) -> bool {
        !matches!(self, Self::LogWrite)
    }

    /// The name in configurations and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CharWrite => "char_write",
            Self::BlockWrite => "block_write",
            Self::Rewrite => "rewrite",
            Self::CharRead => "char_read",
            Self::BlockRead => "block_read",
            Self::Seeks => "seeks",
            Self::RandomRead => "random_read",
            Self::RandomWrite => "random_write",
            Self::LogWrite => "log_write",
        }
    }

    /// Starts from new, empty files.
    #[must_use]
    pub const fn makes_files(self) -> bool {
        matches!(self, Self::CharWrite | Self::BlockWrite)
    }

    /// Goes through stdio.
    #[must_use]
    pub const fn by_character(self) -> bool {
        matches!(self, Self::CharWrite | Self::CharRead)
    }

    /// Writes anything.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::CharRead | Self::BlockRead | Self::RandomRead)
    }

    /// Reads anything.
    #[must_use]
    pub const fn reads(self) -> bool {
        !self.makes_files() && !self.syncs()
    }

    /// Syncs its writes as `sync_every` and `sync_kind` say.
    #[must_use]
    pub const fn syncs(self) -> bool {
        matches!(self, Self::RandomWrite | Self::LogWrite)
    }
}

/// How `random_write` and `log_write` make their writes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncKind {
    /// fsync(2) after each N writes.
    Fsync,
    /// fdatasync(2) after each N writes.
    Fdatasync,
    /// Files opened with `O_DSYNC`: each write returns when its data is durable.
    Dsync,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_serialised_ones() {
        for phase in Phase::ALL {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
    }
}
