//! Errors in the text of a model: a place, a sentence, and the line itself.

use std::fmt;

/// Place in the text of a model. Lines and columns begin with 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePosition {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// An error in the text of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Place.
    pub at: SourcePosition,
    /// One sentence.
    pub what: String,
}

/// Result of what reads a model.
pub type Checked<T> = Result<T, Diagnostic>;

impl Diagnostic {
    /// Creates an error.
    pub fn new(at: SourcePosition, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// Returns the error as users see it: with the line of the text, and a mark below the column.
    pub fn show(&self, file: &str, text: &str) -> String {
        let line = text.lines().nth(self.at.line.saturating_sub(1) as usize).unwrap_or("");
        // Tabs stay, so that the mark is below its character.
        let before = line.chars().take(self.at.column.saturating_sub(1) as usize);
        let pad: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        format!("{file}:{}: {}\n  {line}\n  {pad}^", self.at, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::{Diagnostic, SourcePosition};

    #[test]
    fn the_mark_is_below_the_column() {
        let error = Diagnostic::new(SourcePosition { line: 2, column: 3 }, "no");
        assert_eq!(error.show("m", "a\n\tbcd\n"), "m:2:3: no\n  \tbcd\n  \t ^");
    }
}
