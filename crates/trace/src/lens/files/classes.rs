//! Classes of files: which glob pattern a path matches first.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::TraceError;

/// Patterns of all classes together.
pub const MAX_PATTERNS: usize = 2000;
/// Class of files whose path matches no pattern.
const OTHER: &str = "other";
/// Class of files whose path is not known.
const UNKNOWN: &str = "path not known";

/// The classes, in their order, with the two that have no pattern behind them.
#[derive(Debug)]
pub struct Classes {
    names: Vec<String>,
    patterns: GlobSet,
    /// Class of each pattern.
    classes: Vec<u16>,
}

impl Classes {
    /// From (name, glob pattern); a name may come several times. `*` and `?` stay within a name,
    /// `**` crosses directories.
    pub fn new(given: &[(String, String)]) -> Result<Self, TraceError> {
        let refused = |class: &str, why: String| TraceError::Pattern {
            class: class.to_owned(),
            why,
        };
        let mut names: Vec<String> = Vec::new();
        let mut classes = Vec::new();
        let mut patterns = GlobSetBuilder::new();
        for (name, pattern) in given {
            if classes.len() >= MAX_PATTERNS {
                let why = format!("there are more than {MAX_PATTERNS} patterns");
                return Err(refused(name, why));
            }
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            patterns.add(glob.map_err(|error| refused(name, error.to_string()))?);
            let known = names.iter().position(|known| known == name);
            let place = known.unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            });
            classes.push(place as u16);
        }
        names.extend([OTHER.to_owned(), UNKNOWN.to_owned()]);
        let patterns = patterns
            .build()
            .map_err(|error| refused("all", error.to_string()))?;
        Ok(Classes {
            names,
            patterns,
            classes,
        })
    }

    /// Classes, those without a pattern included.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The class of a path (`None`: it is not known).
    pub fn of(&self, path: Option<&str>) -> u16 {
        let last = (self.names.len() - 1) as u16;
        let Some(path) = path else {
            return last;
        };
        self.matching(path).unwrap_or(last - 1)
    }

    /// The class of the first pattern that a path matches.
    pub fn matching(&self, path: &str) -> Option<u16> {
        let first = self.patterns.matches(path).into_iter().min();
        first.and_then(|pattern| self.classes.get(pattern).copied())
    }

    /// A class's name.
    pub fn name(&self, class: u16) -> &str {
        self.names
            .get(usize::from(class))
            .map_or("", String::as_str)
    }
}
