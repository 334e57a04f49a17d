//! Measured times of one collective at one size, as ranks and peers print them.

use anyhow::{Context, Result};
use serde::Serialize;

/// A line that a rank or a peer prints.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedCell {
    /// The operation.
    pub operation: String,
    /// Bytes of a contribution or of a part.
    pub bytes: usize,
    /// Algorithm of clump; empty for a peer.
    pub algorithm: String,
    /// True if clump chooses this algorithm by itself.
    pub chosen: bool,
    /// Time of a call in ns.
    pub ns: f64,
}

/// Times of one implementation for one operation, size and algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredCell {
    /// The implementation.
    pub implementation: String,
    /// The operation.
    pub operation: String,
    /// Bytes of a contribution or of a part.
    pub bytes: usize,
    /// Algorithm of clump; empty for a peer.
    pub algorithm: String,
    /// True if clump chooses this algorithm by itself.
    pub chosen: bool,
    /// Time of a call in ns, by round.
    pub rounds_ns: Vec<f64>,
}

impl MeasuredCell {
    /// Returns the median over rounds.
    pub fn ns(&self) -> f64 {
        clump_loggp::Median::of(self.rounds_ns.iter().copied()).map_or(f64::NAN, |it| it.value)
    }
}

impl TimedCell {
    /// Returns the line for it.
    pub fn line(&self) -> String {
        let Self { operation, bytes, algorithm, chosen, ns } = self;
        let chosen = if *chosen { "chosen" } else { "forced" };
        format!("{operation} {bytes} {algorithm} {chosen} {ns:.1}\n")
    }
}

/// Reads what clump's rank 0 printed.
///
/// # Errors
/// Fails on a line that is none.
pub fn of_clump(text: &str) -> Result<Vec<TimedCell>> {
    let read = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [operation, bytes, algorithm, chosen, ns] => {
            cell((operation, bytes, ns), (algorithm, chosen == "chosen"))
        }
        _ => None,
    };
    read_lines(text, read)
}

/// Reads what a peer printed.
///
/// # Errors
/// Fails on a line that is none.
pub fn of_peer(text: &str) -> Result<Vec<TimedCell>> {
    let read = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [operation, bytes, ns] => cell((operation, bytes, ns), ("", true)),
        _ => None,
    };
    read_lines(text, read)
}

fn cell(
    (operation, bytes, ns): (&str, &str, &str),
    (algorithm, chosen): (&str, bool),
) -> Option<TimedCell> {
    let (bytes, ns) = (bytes.parse().ok()?, ns.parse().ok()?);
    Some(TimedCell { operation: operation.into(), bytes, algorithm: algorithm.into(), chosen, ns })
}

fn read_lines(text: &str, read: impl Fn(&str) -> Option<TimedCell>) -> Result<Vec<TimedCell>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| read(line).with_context(|| format!("`{line}` is no result"))).collect()
}

/// Adds the cells of a turn.
pub fn add(all: &mut Vec<MeasuredCell>, implementation: &str, turn: Vec<TimedCell>) {
    for TimedCell { operation, bytes, algorithm, chosen, ns } in turn {
        let same = |known: &&mut MeasuredCell| {
            known.implementation == implementation
                && (&known.operation, known.bytes, &known.algorithm)
                    == (&operation, bytes, &algorithm)
        };
        if let Some(known) = all.iter_mut().find(same) {
            known.rounds_ns.push(ns);
            continue;
        }
        let implementation = implementation.to_owned();
        let rounds_ns = vec![ns];
        all.push(MeasuredCell { implementation, operation, bytes, algorithm, chosen, rounds_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written_and_rounds_are_collected() {
        let cell = TimedCell {
            operation: "scan".into(),
            bytes: 8,
            algorithm: "staged".into(),
            chosen: true,
            ns: 12.5,
        };
        let text = cell.line();
        assert_eq!(of_clump(&text).unwrap(), [cell]);
        let mut all = Vec::new();
        for ns in [3.0, 1.0, 2.0] {
            add(&mut all, "MPICH", of_peer(&format!("scan 8 {ns}\n\n")).unwrap());
        }
        add(&mut all, "clump", of_clump(&text).unwrap());
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].ns(), all[1].ns()), (2.0, 12.5));
        assert!(of_peer("scan 8").is_err() && of_clump("scan 8 3.0").is_err());
    }
}
