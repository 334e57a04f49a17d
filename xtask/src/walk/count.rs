//! Counts of a step, and those that ARCHITECTURE.md has for it.

use std::fmt;

/// Differences that count as none: the number of functions of one step varies by this much from run
/// to run, since a socket is ready at once or not, and a packet acknowledges something or nothing.
const TOLERANCE: usize = 15;

/// Functions and files that a message passes in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCount {
    /// Name of the step.
    pub step: String,
    /// Functions of more than three lines, and their files.
    pub longer: [usize; 2],
    /// All functions, accessors and conversions too, and their files.
    pub all: [usize; 2],
}

impl fmt::Display for StepCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, longer, all } = self;
        write!(
            f,
            "{step}: {} functions in {} files, with accessors {} in {}",
            longer[0], longer[1], all[0], all[1]
        )
    }
}

impl StepCount {
    /// Reads a row of the table: the step, and four numbers.
    fn read(line: &str) -> Option<Self> {
        let mut cells = line.strip_prefix("| `walk_")?.split('|').map(str::trim);
        let step = format!("walk_{}", cells.next()?.strip_suffix('`')?);
        let mut number = || cells.next()?.parse().ok();
        Some(Self { step, longer: [number()?, number()?], all: [number()?, number()?] })
    }

    /// Returns true if no number differs by more than [`TOLERANCE`], or twice that where accessors
    /// count too.
    fn is_like(&self, other: &Self) -> bool {
        let near = |now: [usize; 2], then: [usize; 2], most: usize| {
            now.iter().zip(&then).all(|(a, b)| a.abs_diff(*b) <= most)
        };
        near(self.longer, other.longer, TOLERANCE) && near(self.all, other.all, 2 * TOLERANCE)
    }
}

/// Compares what was counted with the table in `page`. Returns a text for each step whose row is
/// missing or differs.
pub fn differences(page: &str, counted: &[StepCount]) -> Vec<String> {
    let written: Vec<StepCount> = page.lines().filter_map(StepCount::read).collect();
    let differs = |now: &StepCount| match written.iter().find(|row| row.step == now.step) {
        None => Some(format!("no row of the table in ARCHITECTURE.md is for {now}")),
        Some(row) if row.is_like(now) => None,
        Some(row) => Some(format!("{now}; ARCHITECTURE.md has {row}: correct its table")),
    };
    counted.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "words\n\n| step | functions | files |\n|---|---|---|\n\
                        | `walk_out` | 70 | 30 | 199 | 60 |\n";

    fn counted(step: &str, functions: usize) -> StepCount {
        StepCount { step: step.into(), longer: [functions, 31], all: [200, 60] }
    }

    #[test]
    fn counts_that_differ_from_the_page_are_named() {
        assert_eq!(differences(PAGE, &[counted("walk_out", 85)]), Vec::<String>::new());
        for far in [54, 86] {
            let said = differences(PAGE, &[counted("walk_out", far)]);
            assert!(
                said[0].starts_with(&format!("walk_out: {far} functions in 31 files")),
                "{said:?}"
            );
            assert!(said[0].contains("has walk_out: 70 functions in 30 files"), "{said:?}");
        }
        let said = differences(PAGE, &[counted("walk_out", 70), counted("walk_in", 70)]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("no row") && said[0].contains("walk_in"));
    }
}
