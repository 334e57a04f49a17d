//! A breach of a rule, and its place.

use std::fmt;

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the tree.
    pub path: String,
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The defect and its remedy.
    pub what: String,
}

impl Finding {
    /// Creates a finding at `line` (from 0) of `path`.
    pub fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: line + 1, what: what.into() }
    }

    /// Creates a finding about `path` as a whole.
    pub fn of(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 0, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}
