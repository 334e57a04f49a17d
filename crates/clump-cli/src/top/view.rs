//! Parts of the view: styles of lines, the order of ranks, a short history, the keys. Pure.

use std::fmt::Write;

/// Style of a line on a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineStyle {
    /// As it is.
    Plain,
    /// Headings.
    Head,
    /// A rank that waits for room or for others.
    Warning,
    /// A rank whose packets are lost.
    Bad,
}

impl LineStyle {
    /// Returns what begins and what ends it on a terminal.
    pub(crate) fn codes(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain => ("", ""),
            Self::Head => ("\x1b[7m", "\x1b[0m"),
            Self::Warning => ("\x1b[33m", "\x1b[0m"),
            Self::Bad => ("\x1b[31m", "\x1b[0m"),
        }
    }
}

/// A line of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ViewLine {
    pub(crate) style: LineStyle,
    pub(crate) text: String,
}

impl ViewLine {
    pub(crate) fn of(style: LineStyle, text: String) -> Self {
        Self { style, text }
    }
}

/// Number by which ranks are sorted, the largest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RankOrder {
    /// The rank itself, the smallest first.
    #[default]
    Rank,
    /// Messages sent.
    Sent,
    /// Bytes sent.
    Bytes,
    /// Times a sender found no room.
    Stalls,
    /// Packets sent again.
    Resent,
    /// Share of the time in barriers.
    Barrier,
}

impl RankOrder {
    /// Returns the order that follows this one.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Rank => Self::Sent,
            Self::Sent => Self::Bytes,
            Self::Bytes => Self::Stalls,
            Self::Stalls => Self::Resent,
            Self::Resent => Self::Barrier,
            Self::Barrier => Self::Rank,
        }
    }

    /// Returns the heading of its column.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Sent => "sent/s",
            Self::Bytes => "bytes/s",
            Self::Stalls => "stalls",
            Self::Resent => "resent",
            Self::Barrier => "barr%",
        }
    }
}

/// The last line of a screen.
pub(crate) const KEYS: &str =
    "rates by the second   s: sort by the next column   w: waits   q: end";

/// Most views in a history.
pub(crate) const HISTORY: usize = 60;

/// Returns bars for the last of these numbers, as many as fit, the highest for the largest.
pub(crate) fn spark(history: &[f64], columns: usize) -> String {
    const BARS: [char; 8] = [
        '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
        '\u{2588}',
    ];
    let shown = &history[history.len().saturating_sub(columns.min(HISTORY))..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let bar = |number: &f64| {
        let share = if most > 0.0 { (number / most).clamp(0.0, 1.0) } else { 0.0 };
        BARS[(share * 7.0).round() as usize % BARS.len()]
    };
    shown.iter().map(bar).collect()
}

/// Returns the list that a user chooses a job from.
pub(crate) fn choices(jobs: &[(u32, String)]) -> String {
    let mut text = String::from("several jobs run here:\n");
    for (at, (agent, program)) in jobs.iter().enumerate() {
        let _ = writeln!(text, "{:>4}  {program} (agent {agent})", at + 1);
    }
    text + "number of the job: "
}

/// Returns the agent of the job that the user has chosen.
pub(crate) fn chosen(jobs: &[(u32, String)], answer: &str) -> Option<u32> {
    let number: usize = answer.trim().parse().ok()?;
    Some(jobs.get(number.checked_sub(1)?)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_bars_up_to_the_largest() {
        assert_eq!(spark(&[0.0, 5.0, 10.0], 20), "\u{2581}\u{2585}\u{2588}");
        assert_eq!(spark(&[0.0, 5.0, 10.0], 2).chars().count(), 2, "what fits, the last");
        assert_eq!(spark(&[], 5), "");
        assert_eq!(spark(&[0.0], 5), "\u{2581}");
    }

    #[test]
    fn orders_follow_each_other_and_come_round() {
        let mut order = RankOrder::default();
        let mut heading = || {
            let now = order.heading();
            order = order.next();
            now
        };
        let headings: Vec<_> = (0..6).map(|_| heading()).collect();
        assert_eq!(headings, ["rank", "sent/s", "bytes/s", "stalls", "resent", "barr%"]);
        assert_eq!(order, RankOrder::Rank);
    }

    #[test]
    fn a_job_is_chosen_by_its_number() {
        let jobs = [(17, "./a".to_owned()), (23, "./b".to_owned())];
        assert!(choices(&jobs).contains("   2  ./b (agent 23)\n"));
        assert_eq!([chosen(&jobs, "2\n"), chosen(&jobs, " 1 ")], [Some(23), Some(17)]);
        for wrong in ["", "0", "3", "-1", "b"] {
            assert_eq!(chosen(&jobs, wrong), None, "{wrong}");
        }
        let (on, off) = LineStyle::Bad.codes();
        assert!(on.contains("31m") && off.contains("[0m"));
        assert_eq!(LineStyle::Plain.codes(), ("", ""));
    }
}
