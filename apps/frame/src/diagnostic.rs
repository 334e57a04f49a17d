//! Errors in the text of a model or a scene: a place, a sentence, and the line itself.

use std::fmt;

/// Characters of a line that are shown.
const SHOWN: usize = 120;

/// Place in a text. Lines and columns begin with 1.
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

/// An error in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Place.
    pub at: SourcePosition,
    /// One sentence.
    pub what: String,
}

/// Result of what reads a text.
pub type Checked<T> = Result<T, Diagnostic>;

impl Diagnostic {
    /// Creates an error.
    pub fn new(at: SourcePosition, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// Returns the error as users see it: with the line of the text, and a mark below the column.
    pub fn show(&self, file: &str, text: &str) -> String {
        let line = text.lines().nth(self.at.line.saturating_sub(1) as usize).unwrap_or("");
        let column = self.at.column.saturating_sub(1) as usize;
        let first = if column < SHOWN { 0 } else { column - SHOWN / 2 };
        // Tabs stay, so that the mark is below its character; a terminal obeys other controls.
        let shown = |c: char| if c.is_control() && c != '\t' { '?' } else { c };
        let line: String = line.chars().skip(first).take(SHOWN).map(shown).collect();
        let before = line.chars().take(column - first);
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

    #[test]
    fn a_part_of_a_long_line_is_shown_without_controls() {
        let error = Diagnostic::new(SourcePosition { line: 1, column: 301 }, "no");
        let text = format!("{}X{}", "\u{1b}".repeat(300), "y".repeat(300));
        let (line, mark) = (format!("{}X{}", "?".repeat(60), "y".repeat(59)), " ".repeat(60));
        assert_eq!(error.show("m", &text), format!("m:1:301: no\n  {line}\n  {mark}^"));
    }
}
