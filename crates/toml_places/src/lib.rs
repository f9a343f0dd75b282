//! Where each key and value of a TOML text stands, so that an error can name its line.
//!
//! Values are read elsewhere (Python's `tomllib` is the authority on them); this only gives
//! places. Every entry of the text yields one [`Place`]: keys of tables, of dotted keys, of inline
//! tables, elements of arrays and of arrays of tables. Lines are counted from 1.
//!
//! Limits: texts up to [`MAX_BYTES`]; nesting up to the parser's own limit of 80.

use std::ops::Range;

use toml_edit::{Array, Document, Item, Key, TableLike, Value};

/// Longest text accepted; an experiment file is some kilobytes.
pub const MAX_BYTES: usize = 4 << 20;

/// One step of a path into a TOML document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A key of a table.
    Key(String),
    /// A position in an array, from 0.
    Index(usize),
}

/// A path with the lines (from 1) where its key and its value start.
///
/// For `[a.b]` the key line and the value line are the header's. An element of an array has no
/// key: both lines are the element's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Steps from the root.
    pub path: Vec<Step>,
    /// Line of the key.
    pub key_line: usize,
    /// Line of the value.
    pub value_line: usize,
}

/// Why a text has no places.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlacesError {
    /// Not TOML.
    #[error("line {line}, column {column}: {message}")]
    Invalid {
        /// Line from 1.
        line: usize,
        /// Column in characters from 1.
        column: usize,
        /// The parser's words.
        message: String,
    },
    /// Longer than [`MAX_BYTES`].
    #[error("{size_bytes} bytes, more than the {MAX_BYTES} accepted")]
    TooLong {
        /// Its length.
        size_bytes: usize,
    },
}

/// All places of `text`, in the order of the document's tables.
///
/// # Errors
/// [`PlacesError::Invalid`] with line and column if `text` is not TOML.
pub fn places(text: &str) -> Result<Vec<Place>, PlacesError> {
    if text.len() > MAX_BYTES {
        return Err(PlacesError::TooLong {
            size_bytes: text.len(),
        });
    }
    let document = Document::parse(text).map_err(|error| {
        let offset = error.span().map_or(text.len(), |span| span.start);
        let (line, column) = position(text, offset);
        let message = error
            .message()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        PlacesError::Invalid {
            line,
            column,
            message,
        }
    })?;
    let mut walk = Walk {
        lines: Lines::new(text),
        path: Vec::new(),
        places: Vec::new(),
    };
    walk.table(document.as_table(), 1);
    Ok(walk.places)
}

/// Line and column (characters), both from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let offset = (0..=offset.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at));
    let before = &text[..offset.unwrap_or(0)];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        before.matches('\n').count() + 1,
        before[start..].chars().count() + 1,
    )
}

/// Offsets at which lines start, for look-ups in O(log n).
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(starts).collect())
    }

    fn of(&self, span: Option<Range<usize>>) -> Option<usize> {
        span.map(|span| self.0.partition_point(|&start| start <= span.start))
    }
}

struct Walk {
    lines: Lines,
    path: Vec<Step>,
    places: Vec<Place>,
}

impl Walk {
    fn table(&mut self, table: &dyn TableLike, table_line: usize) {
        for (name, item) in table.iter() {
            let key_line = table
                .key(name)
                .and_then(|key| self.key_line(key))
                .unwrap_or(table_line);
            self.path.push(Step::Key(name.to_owned()));
            self.item(item, key_line);
            self.path.pop();
        }
    }

    fn key_line(&self, key: &Key) -> Option<usize> {
        self.lines.of(key.span())
    }

    fn item(&mut self, item: &Item, key_line: usize) {
        match item {
            Item::None => {}
            Item::Value(value) => self.value(value, key_line),
            Item::Table(table) => {
                // A table that exists only through [a.b] has no span of its own: its key has.
                let line = self.lines.of(table.span()).unwrap_or(key_line);
                self.keep(key_line, line);
                self.table(table, line);
            }
            Item::ArrayOfTables(tables) => {
                let first = tables
                    .iter()
                    .next()
                    .and_then(|table| self.lines.of(table.span()));
                self.keep(key_line, first.unwrap_or(key_line));
                for (index, table) in tables.iter().enumerate() {
                    let line = self.lines.of(table.span()).unwrap_or(key_line);
                    self.path.push(Step::Index(index));
                    self.keep(line, line);
                    self.table(table, line);
                    self.path.pop();
                }
            }
        }
    }

    fn value(&mut self, value: &Value, key_line: usize) {
        let line = self.lines.of(value.span()).unwrap_or(key_line);
        self.keep(key_line, line);
        match value {
            Value::Array(array) => self.array(array, line),
            Value::InlineTable(table) => self.table(table, line),
            _ => {}
        }
    }

    fn array(&mut self, array: &Array, array_line: usize) {
        for (index, value) in array.iter().enumerate() {
            let line = self.lines.of(value.span()).unwrap_or(array_line);
            self.path.push(Step::Index(index));
            self.value(value, line);
            self.path.pop();
        }
    }

    fn keep(&mut self, key_line: usize, value_line: usize) {
        self.places.push(Place {
            path: self.path.clone(),
            key_line,
            value_line,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, path: &str) -> (usize, usize) {
        let all = places(text).unwrap();
        let found = all.iter().find(|place| {
            let steps: Vec<String> = place
                .path
                .iter()
                .map(|step| match step {
                    Step::Key(key) => key.clone(),
                    Step::Index(index) => index.to_string(),
                })
                .collect();
            steps.join("/") == path
        });
        let place = found.unwrap_or_else(|| panic!("{path} in {all:#?}"));
        (place.key_line, place.value_line)
    }

    const TEXT: &str = r#"title = "x"
[targets.fast]
kind = "local"
path = '''
several
lines'''
[workload]
kind = "pgbench"
server.shared_buffers = [
  "1MB",
  { at = 1, of = [2,
     3] },
]
[[axes]]
name = "a"

[[axes]]
name = "b"
values = [1, 2]
"#;

    #[test]
    fn every_kind_of_entry_has_its_line() {
        for (path, lines) in [
            ("title", (1, 1)),
            ("targets", (2, 2)),
            ("targets/fast", (2, 2)),
            ("targets/fast/kind", (3, 3)),
            ("targets/fast/path", (4, 4)),
            ("workload/server/shared_buffers", (9, 9)),
            ("workload/server/shared_buffers/0", (10, 10)),
            ("workload/server/shared_buffers/1", (11, 11)),
            ("workload/server/shared_buffers/1/at", (11, 11)),
            ("workload/server/shared_buffers/1/of/1", (12, 12)),
            ("axes", (14, 14)),
            ("axes/0", (14, 14)),
            ("axes/1", (17, 17)),
            ("axes/1/name", (18, 18)),
            ("axes/1/values/1", (19, 19)),
        ] {
            assert_eq!(find(TEXT, path), lines, "{path}");
        }
    }

    #[test]
    fn windows_line_ends_and_other_letters_do_not_shift_lines() {
        assert_eq!(find("\"é\" = 1\r\n# ü\r\nb = 2\r\n", "b"), (3, 3));
    }

    #[test]
    fn invalid_text_names_line_and_column() {
        let error = places("a = 1\nüb = = 2\n").unwrap_err();
        assert!(
            matches!(error, PlacesError::Invalid { line: 2, .. }),
            "{error}"
        );
        let error = places("a = 1\nb = = 2\n").unwrap_err();
        assert!(
            matches!(
                error,
                PlacesError::Invalid {
                    line: 2,
                    column: 5,
                    ..
                }
            ),
            "{error}"
        );
        let error = places("a = 1\na = 2\n").unwrap_err();
        assert!(
            matches!(
                error,
                PlacesError::Invalid {
                    line: 2,
                    column: 1,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn too_long_and_too_deep_are_errors() {
        let long = "#".repeat(MAX_BYTES + 1);
        assert_eq!(
            places(&long),
            Err(PlacesError::TooLong {
                size_bytes: MAX_BYTES + 1
            })
        );
        let deep = format!("a = {}", "[".repeat(100_000));
        assert!(matches!(places(&deep), Err(PlacesError::Invalid { .. })));
    }

    fn arbitrary_char() -> impl proptest::strategy::Strategy<Value = char> {
        proptest::prelude::any::<char>()
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_places_or_an_error(text in "\\PC*") {
            let _ = places(&text);
        }

        #[test]
        fn mutated_toml_never_panics(at in 0..TEXT.len(), with in arbitrary_char()) {
            let mut text = TEXT.to_owned();
            text.replace_range(at..=at, &with.to_string());
            if let Ok(all) = places(&text) {
                let lines = text.matches('\n').count() + 1;
                for place in all {
                    assert!((1..=lines).contains(&place.key_line), "{place:?}");
                    assert!((1..=lines).contains(&place.value_line), "{place:?}");
                }
            }
        }
    }
}
