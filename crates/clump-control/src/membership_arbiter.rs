//! Eviction of nodes when nodes do not hear each other. Pure.
//!
//! Agents report suspicions: "I do not hear node 2". After the first report the arbiter waits for
//! as long as others may take to notice the same, and then evicts nodes until no suspicion is left
//! among those that stay. Each turn evicts, of the suspected nodes, the one with which most
//! suspicions go, by it and of it (a node that is cut off suspects many of which each is suspected
//! by it alone); of several, the one that most others suspect; of these, the last.

use std::collections::BTreeSet;

/// The standing suspicions, and the nodes to evict for them.
#[derive(Debug)]
pub struct MembershipArbiter {
    weighing_ns: u64,
    /// Reporter, suspected node.
    suspicions: BTreeSet<(u32, u32)>,
    decide_ns: Option<u64>,
}

/// A node to evict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The node.
    pub node: u32,
    /// Nodes that did not hear it.
    pub reporters: Vec<u32>,
}

impl MembershipArbiter {
    /// Weighs suspicions for `weighing_ns` after the first one.
    pub fn new(weighing_ns: u64) -> Self {
        Self { weighing_ns, suspicions: BTreeSet::new(), decide_ns: None }
    }

    /// Records that node `reporter` does not hear node `suspected`.
    pub fn handle_silent(&mut self, reporter: u32, suspected: u32, now_ns: u64) {
        debug_assert!(self.decide_ns.is_none_or(|at| at <= now_ns + self.weighing_ns));
        if reporter != suspected {
            self.suspicions.insert((reporter, suspected));
            self.decide_ns.get_or_insert(now_ns + self.weighing_ns);
        }
        self.check_invariants();
    }

    /// Records that `reporter` hears `suspected` again.
    pub fn handle_heard(&mut self, reporter: u32, suspected: u32) {
        self.suspicions.remove(&(reporter, suspected));
        if self.suspicions.is_empty() {
            self.decide_ns = None;
        }
        self.check_invariants();
    }

    /// Removes a node that is out of the job, with suspicions by it and of it.
    pub fn handle_gone(&mut self, node: u32) {
        let before = self.suspicions.len();
        self.suspicions.retain(|&(reporter, suspected)| reporter != node && suspected != node);
        debug_assert!(self.suspicions.len() <= before, "a node that is gone adds none");
        if self.suspicions.is_empty() {
            self.decide_ns = None;
        }
        self.check_invariants();
    }

    /// Returns true if a suspicion by a node or of it stands.
    pub fn concerns(&self, node: u32) -> bool {
        self.suspicions.iter().any(|&(reporter, suspected)| reporter == node || suspected == node)
    }

    /// Returns the time for the next call of [`MembershipArbiter::handle_timeout`].
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.decide_ns
    }

    /// Returns the nodes to evict now.
    pub fn handle_timeout(&mut self, now_ns: u64) -> Vec<Eviction> {
        let mut verdicts = Vec::new();
        if self.decide_ns.is_none_or(|at| at > now_ns) {
            return verdicts;
        }
        while let Some(verdict) = self.worst() {
            debug_assert!(!verdict.reporters.is_empty(), "an eviction has a reason");
            debug_assert!(!verdict.reporters.contains(&verdict.node));
            self.handle_gone(verdict.node);
            verdicts.push(verdict);
        }
        debug_assert!(self.suspicions.is_empty(), "5: those that stay hear each other");
        self.check_invariants();
        verdicts
    }

    /// Asserts what always holds; the number is the crate's invariant.
    pub fn check_invariants(&self) {
        debug_assert_eq!(self.suspicions.is_empty(), self.decide_ns.is_none(), "5: a deadline");
        debug_assert!(self.suspicions.iter().all(|(by, of)| by != of), "no node suspects itself");
    }

    fn worst(&self) -> Option<Eviction> {
        let suspected: BTreeSet<u32> =
            self.suspicions.iter().map(|&(_, suspected)| suspected).collect();
        let against =
            |node| self.suspicions.iter().filter(|&&(_, suspected)| suspected == node).count();
        let by = |node| self.suspicions.iter().filter(|&&(reporter, _)| reporter == node).count();
        let weight = |node: u32| (against(node) + by(node), against(node), node);
        let node = suspected.into_iter().max_by_key(|&node| weight(node))?;
        let reporters = self.suspicions.iter().filter(|&&(_, suspected)| suspected == node);
        debug_assert!(against(node) > 0, "an evicted node is suspected");
        Some(Eviction { node, reporters: reporters.map(|&(reporter, _)| reporter).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the nodes evicted after these suspicions.
    fn decided(suspicions: &[(u32, u32)]) -> Vec<u32> {
        let mut arbiter = MembershipArbiter::new(10);
        for (at, &(reporter, suspected)) in (100..).zip(suspicions) {
            arbiter.handle_silent(reporter, suspected, at);
        }
        assert!(arbiter.handle_timeout(109).is_empty(), "too early");
        let verdicts = arbiter.handle_timeout(110);
        assert_eq!(arbiter.next_deadline_ns(), None, "nothing is left to decide");
        verdicts.into_iter().map(|verdict| verdict.node).collect()
    }

    #[test]
    fn a_stopped_node_is_given_up() {
        assert_eq!(decided(&[(0, 1)]), [1]);
        assert_eq!(decided(&[(1, 0)]), [0]);
        assert_eq!(decided(&[(0, 2), (1, 2), (3, 2)]), [2]);
    }

    #[test]
    fn a_node_that_is_cut_off_accuses_all_and_is_given_up_alone() {
        assert_eq!(decided(&[(0, 1), (1, 0), (2, 1), (1, 2), (1, 3), (3, 1)]), [1]);
    }

    #[test]
    fn a_node_that_is_cut_off_is_given_up_though_few_look_at_it() {
        assert_eq!(decided(&[(3, 0), (3, 1), (3, 2), (0, 3)]), [3]);
        assert_eq!(decided(&[(0, 5), (0, 1), (1, 0), (0, 2)]), [0]);
    }

    #[test]
    fn of_two_that_do_not_hear_each_other_the_last_is_given_up() {
        assert_eq!(decided(&[(0, 1), (1, 0)]), [1]);
        assert_eq!(decided(&[(1, 2), (2, 1)]), [2]);
    }

    #[test]
    fn a_job_that_is_cut_in_two_keeps_one_part() {
        let halves = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1)];
        assert_eq!(decided(&halves), [3, 2]);
    }

    #[test]
    fn two_stopped_nodes_are_both_given_up() {
        assert_eq!(decided(&[(0, 1), (0, 3), (2, 1), (2, 3)]), [3, 1]);
    }

    #[test]
    fn who_is_heard_again_in_time_stays() {
        let mut arbiter = MembershipArbiter::new(10);
        arbiter.handle_silent(0, 1, 100);
        arbiter.handle_silent(0, 0, 100);
        arbiter.handle_heard(0, 1);
        assert_eq!(arbiter.next_deadline_ns(), None);
        assert!(arbiter.handle_timeout(200).is_empty());
        arbiter.handle_silent(0, 1, 300);
        assert_eq!(arbiter.next_deadline_ns(), Some(310));
        arbiter.handle_gone(1);
        assert!(arbiter.handle_timeout(400).is_empty());
    }
}
