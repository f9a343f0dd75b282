//! Classes of files: which glob pattern a path matches first.

use aho_corasick::AhoCorasick;
use fast_glob::{glob_match, validate};

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
    patterns: Vec<Pattern>,
    /// Finds what every path that matches a pattern has in it, for all patterns in one pass: most
    /// patterns are refused by it.
    parts: AhoCorasick,
    /// Pattern of each part.
    with_part: Vec<usize>,
    /// Patterns that have no such part.
    without_part: Vec<usize>,
}

#[derive(Debug)]
struct Pattern {
    glob: String,
    class: u16,
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
        let mut patterns = Vec::new();
        for (name, pattern) in given {
            if patterns.len() >= MAX_PATTERNS {
                let why = format!("there are more than {MAX_PATTERNS} patterns");
                return Err(refused(name, why));
            }
            // The library negates a pattern that begins so; here it is part of a name.
            let pattern = match pattern.starts_with('!') {
                true => format!("\\{pattern}"),
                false => pattern.clone(),
            };
            validate(&pattern).map_err(|error| refused(name, error.to_string()))?;
            let known = names.iter().position(|known| known == name);
            let place = known.unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            });
            patterns.push(Pattern {
                glob: pattern,
                class: place as u16,
            });
        }
        names.extend([OTHER.to_owned(), UNKNOWN.to_owned()]);
        let part = |at: &usize| longest_part(&patterns[*at].glob);
        let (without_part, with_part): (Vec<usize>, Vec<usize>) =
            (0..patterns.len()).partition(|at| part(at).is_empty());
        let parts = AhoCorasick::new(with_part.iter().map(part))
            .map_err(|error| refused("all", error.to_string()))?;
        Ok(Classes {
            names,
            patterns,
            parts,
            with_part,
            without_part,
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
        let found = self.parts.find_overlapping_iter(path);
        let found = found.map(|part| self.with_part[part.pattern()]);
        let mut possible: Vec<usize> = self.without_part.iter().copied().chain(found).collect();
        possible.sort_unstable();
        possible.dedup();
        let mut possible = possible.iter().map(|at| &self.patterns[*at]);
        let first = possible.find(|pattern| glob_match(&pattern.glob, path));
        first.map(|pattern| pattern.class)
    }

    /// A class's name.
    pub fn name(&self, class: u16) -> &str {
        self.names
            .get(usize::from(class))
            .map_or("", String::as_str)
    }
}

/// The longest part of a name that a pattern has in front of its first list of characters or of
/// alternatives, or behind its last one; empty where characters are escaped.
fn longest_part(pattern: &str) -> &str {
    if pattern.contains('\\') {
        return "";
    }
    let front = pattern.split(['[', '{']).next();
    let behind = pattern.rsplit([']', '}']).next();
    let parts = front.into_iter().chain(behind);
    let parts = parts.flat_map(|text| text.split(['*', '?', '/', '[', ']', '{', '}']));
    parts.max_by_key(|part| part.len()).unwrap_or_default()
}
