//! Limits on notices: hundreds of nodes may report one trouble in as many lines.

use crate::frame::Stream;
use crate::print::Printer;
use std::collections::BTreeMap;

/// Notices of one kind that are shown.
const SHOWN: u64 = 4;
/// Kinds that are distinguished.
const MAX_KINDS: usize = 64;

/// Notices seen, by kind: their text without its numbers.
#[derive(Debug, Default)]
pub(crate) struct NoticeFilter {
    seen: BTreeMap<String, u64>,
}

impl NoticeFilter {
    /// Takes a notice. Returns the text to show, if it is to be shown.
    fn admit(&mut self, text: &str) -> Option<String> {
        let mut kind: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.seen.len() >= MAX_KINDS && !self.seen.contains_key(&kind) {
            kind = String::new();
        }
        let count = self.seen.entry(kind).or_default();
        *count += 1;
        let count = *count;
        debug_assert!(self.seen.len() <= MAX_KINDS + 1, "memory is bounded");
        match count {
            ..SHOWN => Some(text.to_owned()),
            SHOWN => Some(format!("{text} (further notices of this kind are only counted)")),
            _ => None,
        }
    }

    /// Shows a notice, unless there were many like it.
    pub(crate) fn show(&mut self, text: &str, printer: &Printer) {
        if let Some(text) = self.admit(text) {
            printer.say(Stream::Errors, &format!("clump: {text}\n"));
        }
    }

    /// Returns the number of notices that were not shown.
    pub(crate) fn hidden(&self) -> u64 {
        self.seen.values().map(|seen| seen.saturating_sub(SHOWN)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_of_many_nodes_is_a_few_lines() {
        let mut filter = NoticeFilter::default();
        let notices = (0..100).map(|node| format!("node {node} hears nothing"));
        let shown: Vec<_> = notices.filter_map(|text| filter.admit(&text)).collect();
        assert_eq!(shown.len() as u64, SHOWN);
        assert_eq!(shown[0], "node 0 hears nothing");
        assert!(shown[3].starts_with("node 3 hears nothing (further"), "{shown:?}");
        assert_eq!(filter.hidden(), 96);
        let other = "node 7 is slow";
        assert_eq!(filter.admit(other).as_deref(), Some(other), "another kind");
    }

    #[test]
    fn kinds_take_bounded_memory_and_the_first_of_them_are_kept() {
        let mut filter = NoticeFilter::default();
        let kind = |n: usize| "x".repeat(n + 1);
        for n in 0..1000 {
            filter.admit(&kind(n));
        }
        assert_eq!(filter.seen.len(), MAX_KINDS + 1);
        assert_eq!(filter.admit(&kind(0)), Some(kind(0)));
    }
}
