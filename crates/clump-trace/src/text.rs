//! Counters as a table for people.

use crate::counter::Counter;
use crate::snapshot::Snapshot;
use std::fmt;

/// Prints the counters of a job: the total, and where ranks differ the busiest one. Counters that
/// are zero everywhere are left out. Fits 100 columns.
#[derive(Debug)]
pub struct Table<'a> {
    /// Name of the owners, as in `rank`.
    pub what: &'static str,
    /// One snapshot of each, in order.
    pub all: &'a [Snapshot],
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, all } = self;
        let total: Snapshot = all.iter().sum();
        let sums = format!("all {what}s");
        writeln!(f, "{:<34}{sums:>24}   {:>24} at {what}", "counter", "most")?;
        for &counter in Counter::ALL.iter().filter(|&&c| total[c] != 0) {
            let unit = counter.unit().symbol();
            write!(f, "{:<34}{:>24} {unit:<2}", counter.name(), grouped(total[counter]))?;
            let most = all.iter().enumerate().max_by_key(|(rank, s)| {
                (s[counter], std::cmp::Reverse(*rank)) // of equal ones the lowest rank
            });
            match most {
                Some((rank, snapshot)) if all.len() > 1 => {
                    writeln!(f, "{:>24} {rank:>7}", grouped(snapshot[counter]))?;
                }
                _ => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// Formats a number in groups of three digits: 1234567 becomes `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_278_399, "1,278,399")];
        for (value, text) in cases {
            assert_eq!(grouped(value), text);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn table_names_the_busiest_rank_and_leaves_zeroes_out() {
        let mut ranks = vec![Snapshot::ZERO, Snapshot::ZERO, Snapshot::ZERO];
        ranks[1][Counter::Parks] = 1200;
        ranks[2][Counter::Parks] = 34;
        ranks[0][Counter::BarrierWait] = u64::MAX / 4;
        let text = Table { what: "rank", all: &ranks }.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        let parks = lines.iter().find(|l| l.starts_with("wait.parks")).unwrap();
        let words: Vec<_> = parks.split_whitespace().collect();
        assert_eq!(words, ["wait.parks", "1,234", "1,200", "1"]);
        assert!(lines.iter().all(|l| l.len() <= 100), "{text}");
    }
}
