//! Machines whose names resolve late: a name server does not know a machine at once that was set up
//! a moment ago, as a worker of Kubernetes. What was to reach one is started again. Pure.

use std::collections::BTreeMap;

/// Times between tries, while the answer is that there is no such name; after the last it counts.
const PAUSES_NS: [u64; 3] = [300_000_000, 700_000_000, 1_500_000_000];
/// Times between tries while the name server gives no answer.
const UNANSWERED_NS: [u64; 5] = [1_000_000_000; 5];

/// Machines to be tried again.
#[derive(Debug, Default)]
pub(super) struct LateNames {
    /// By node: the number of tries so far, and the time of the next.
    next: BTreeMap<usize, (usize, Option<u64>)>,
}

impl LateNames {
    /// Returns true if the machine of a node will be tried again.
    pub(super) fn awaits(&self, node: usize) -> bool {
        self.next.get(&node).is_some_and(|(_, at)| at.is_some())
    }

    /// Returns the time of the next try of any.
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.next.values().filter_map(|(_, at)| *at).min()
    }

    /// Plans the next try of a machine, of which `said` is what was heard instead.
    pub(super) fn plan(&mut self, node: usize, said: &str, now_ns: u64) {
        let (tries, at) = self.next.entry(node).or_default();
        if at.is_none() {
            let is_unanswered = said.contains("temporary failure");
            let pauses = if is_unanswered { &UNANSWERED_NS[..] } else { &PAUSES_NS };
            *at = pauses.get(*tries).map(|pause| now_ns.saturating_add(*pause));
            *tries += 1;
        }
    }

    /// Returns the nodes whose time has come.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<usize> {
        let due = self.next.iter_mut().filter(|(_, (_, at))| at.is_some_and(|at| at <= now_ns));
        due.map(|(&node, (_, at))| {
            *at = None;
            node
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_tried_some_times_and_an_unanswered_question_longer() {
        let mut names = LateNames::default();
        let mut now_ns = 0;
        for _ in 0..PAUSES_NS.len() {
            names.plan(1, "name or service not known", now_ns);
            assert!(names.awaits(1) && !names.awaits(0));
            assert_eq!(names.due(now_ns), [0_usize; 0]);
            now_ns = names.next_deadline_ns().unwrap();
            assert_eq!(names.due(now_ns), [1]);
        }
        names.plan(1, "name or service not known", now_ns);
        assert!(!names.awaits(1));
        let mut tries = 0;
        loop {
            names.plan(2, "temporary failure in name resolution", now_ns);
            let Some(next_ns) = names.next_deadline_ns() else { break };
            now_ns = next_ns;
            assert_eq!(names.due(now_ns), [2]);
            tries += 1;
        }
        assert_eq!(tries, UNANSWERED_NS.len());
    }
}
