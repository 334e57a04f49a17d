//! Collectives of a team that its ranks do not agree about, kept until they are over at this rank.
//!
//! A rank that has begun a later collective asks for none before. So what is kept does not grow
//! with failures: one entry for each collective under way, and for each that others have begun.

use std::collections::BTreeMap;

/// Finding that ranks do not agree about a collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disagreement {
    /// Description for the user.
    pub(crate) why: String,
    /// True if another rank found it.
    pub(crate) was_told: bool,
}

/// Findings about collectives of a team, by number.
#[derive(Debug, Default)]
pub(crate) struct TeamDisagreements {
    found: BTreeMap<u64, Disagreement>,
    /// The collective that this rank has come to; those before are over, but for `open`.
    current: u64,
    /// Collectives before it that were under way when it began, in order.
    open: Vec<u64>,
}

impl TeamDisagreements {
    /// Keeps the first finding about a collective, unless that is over.
    pub(crate) fn add(&mut self, seq: u64, found: Disagreement) {
        if !self.is_over(seq) {
            self.found.entry(seq).or_insert(found);
        }
        debug_assert!(self.drops_parts_of(seq), "it takes no contributions");
    }

    /// Returns the finding about a collective.
    pub(crate) fn find(&self, seq: u64) -> Option<&Disagreement> {
        self.found.get(&seq)
    }

    /// Notes that this rank has come to a collective, and forgets those that are over.
    pub(crate) fn advance(&mut self, seq: u64, mut open: Vec<u64>) {
        debug_assert!(self.current <= seq, "numbers grow");
        open.sort_unstable();
        (self.current, self.open) = (seq, open);
        let mut found = std::mem::take(&mut self.found);
        found.retain(|&seq, _| !self.is_over(seq));
        self.found = found;
        debug_assert!(self.found.keys().all(|&seq| !self.is_over(seq)), "nothing else is kept");
    }

    /// Returns true if this rank waits for nothing of a collective any more.
    pub(crate) fn is_over(&self, seq: u64) -> bool {
        debug_assert!(self.open.is_sorted(), "they are searched");
        seq < self.current && self.open.binary_search(&seq).is_err()
    }

    /// Returns true if contributions to a collective are of no use.
    pub(crate) fn drops_parts_of(&self, seq: u64) -> bool {
        self.is_over(seq) || self.found.contains_key(&seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::{FragmentRange, Mailbox, PartId};
    use crate::signature::Signature;

    const TEAM: u64 = 7;

    fn found() -> Disagreement {
        Disagreement { why: "a planned one".into(), was_told: true }
    }

    fn put(mailbox: &mut Mailbox, seq: u64) -> bool {
        let part = PartId { team: TEAM, seq, from: 1, step: 0 };
        let place = FragmentRange { offset: 0, total: 8 };
        mailbox.put(part, place, (Signature::ANY, vec![1; 8])).unwrap();
        mailbox.take(part, Some(8)).unwrap().is_some()
    }

    #[test]
    fn one_entry_is_kept_however_many_collectives_fail() {
        let mut known = TeamDisagreements::default();
        for seq in 1..=10_000 {
            known.advance(seq, Vec::new());
            known.add(seq, found());
            assert_eq!((known.found.len(), known.find(seq)), (1, Some(&found())));
            assert!(known.find(seq - 1).is_none() && known.is_over(seq - 1));
        }
        // Another rank tells late.
        known.add(9_999, found());
        assert_eq!(known.found.len(), 1, "nothing asks any more");
        // It is ahead, and this rank will ask.
        known.add(10_002, found());
        known.advance(10_001, Vec::new());
        assert_eq!((known.found.len(), known.find(10_002)), (1, Some(&found())));
    }

    #[test]
    fn a_collective_under_way_is_kept_until_it_is_over() {
        let mut known = TeamDisagreements::default();
        for seq in [3, 5, 6] {
            known.add(seq, found());
        }
        known.advance(9, vec![6, 3]);
        assert!(known.find(3).is_some() && known.find(5).is_none() && known.find(6).is_some());
        known.advance(12, vec![6]);
        assert!(known.find(3).is_none() && known.find(6).is_some());
        known.advance(13, Vec::new());
        assert!(known.found.is_empty() && known.drops_parts_of(6) && !known.drops_parts_of(13));
    }

    #[test]
    fn contributions_to_what_is_over_are_dropped_and_to_others_kept() {
        let mut mailbox = Mailbox::default();
        assert!(!mailbox.has_disagreements(TEAM) && put(&mut mailbox, 1));
        mailbox.disagree((TEAM, 3), found());
        assert!(mailbox.has_disagreements(TEAM) && !put(&mut mailbox, 3) && put(&mut mailbox, 2));
        // Collective 2 is in two phases, and under way.
        mailbox.forget_disagreements(TEAM, 5, vec![2]);
        assert_eq!(mailbox.disagreement(TEAM, 3), None);
        let taken = [1, 2, 3, 4, 5, 6].map(|seq| put(&mut mailbox, seq));
        assert_eq!(taken, [false, true, false, false, true, true]);
        mailbox.disagree((TEAM, 4), found());
        assert_eq!(mailbox.disagreement(TEAM, 4), None);
        mailbox.close(TEAM);
        assert!(!mailbox.has_disagreements(TEAM) && !put(&mut mailbox, 6), "the team is gone");
    }
}
