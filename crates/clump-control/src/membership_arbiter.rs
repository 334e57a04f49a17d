//! Eviction of nodes when nodes do not hear each other. Pure.
//!
//! Agents report suspicions: "I do not hear node 2". After the first report the arbiter waits for
//! as long as others may take to notice the same, and then evicts nodes until no suspicion is left
//! among those that stay. Each turn evicts, of the suspected nodes, the one with which most
//! suspicions go, by it and of it (a node that is cut off suspects many of which each is suspected
//! by it alone); of several, the one that most others suspect; of these, the last.
//!
//! A node is *new* if it has been part of a suspicion for less than that time: it may only have
//! paused, and is not evicted yet. Then a node that is not new goes in its place if one that nobody
//! suspects suspects it; if only suspected ones do, it may be the new one that is to blame.
//!
//! A node whose agent is known to be *starved* (it could run, but its machine gives it no
//! processor, or keeps it waiting for a disk) is evicted only when it has been suspected for
//! [`PUT_OFF`] times as long. One that runs again has time to be heard. A node that only starved
//! ones suspect is spared as long: they may have heard it since.
//!
//! It decides only once all that had arrived by the end of the weighing time was handled: for a
//! launcher that did not run meanwhile, word that the node was heard may still wait.

use std::collections::{BTreeMap, BTreeSet};

/// Multiple of the weighing time for which the eviction of a starved node is put off.
pub const PUT_OFF: u64 = 36;
/// Multiple of the weighing time in which a node that was starved is to be heard. One that suspects
/// it may die before it hears it; that is known by then.
const RECOVERY: u64 = 7;

/// The standing suspicions, and the nodes to evict for them.
#[derive(Debug)]
pub struct MembershipArbiter {
    weighing_ns: u64,
    /// Reporter and suspected node; the time of the report.
    suspicions: BTreeMap<(u32, u32), u64>,
    decide_ns: Option<u64>,
    /// Time of a report since which nobody has looked whether its nodes are starved: one that runs
    /// again would seem to have been idle.
    look_ns: Option<u64>,
    /// Nodes that are suspected or suspect others, and were starved; when they were so last.
    starved: BTreeMap<u32, u64>,
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
        let (suspicions, starved) = (BTreeMap::new(), BTreeMap::new());
        Self { weighing_ns, suspicions, decide_ns: None, look_ns: None, starved }
    }

    /// Records that node `reporter` does not hear node `suspected`.
    pub fn handle_silent(&mut self, reporter: u32, suspected: u32, now_ns: u64) {
        debug_assert!(self.decide_ns.is_none_or(|at| at <= now_ns + self.weighing_ns));
        if reporter != suspected {
            self.suspicions.entry((reporter, suspected)).or_insert(now_ns);
            self.decide_ns.get_or_insert(now_ns + self.weighing_ns);
            self.look_ns.get_or_insert(now_ns);
        }
        self.check_invariants();
    }

    /// Records that `reporter` hears `suspected` again.
    pub fn handle_heard(&mut self, reporter: u32, suspected: u32) {
        self.suspicions.remove(&(reporter, suspected));
        if self.suspicions.is_empty() {
            (self.decide_ns, self.look_ns) = (None, None);
        }
        self.check_invariants();
    }

    /// Removes a node that is out of the job, with suspicions by it and of it.
    pub fn handle_gone(&mut self, node: u32) {
        let before = self.suspicions.len();
        self.suspicions.retain(|&(reporter, suspected), _| reporter != node && suspected != node);
        debug_assert!(self.suspicions.len() <= before, "a node that is gone adds none");
        if self.suspicions.is_empty() {
            (self.decide_ns, self.look_ns) = (None, None);
        }
        self.check_invariants();
    }

    /// Returns the nodes that suspect others or are suspected.
    pub fn concerned(&self) -> impl Iterator<Item = u32> {
        self.suspicions.keys().flat_map(|&(reporter, suspected)| [reporter, suspected])
    }

    /// Returns the time for the next call of [`MembershipArbiter::handle_timeout`].
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.look_ns.or(self.decide_ns)
    }

    /// Returns the nodes to evict at `read_ns`, until which all that had arrived was handled;
    /// `is_starved` tells of a node whether its agent is starved.
    pub fn handle_timeout(
        &mut self,
        read_ns: u64,
        is_starved: &dyn Fn(u32) -> bool,
    ) -> Vec<Eviction> {
        let mut verdicts = Vec::new();
        let is_due = self.decide_ns.is_some_and(|at| at <= read_ns);
        if self.look_ns.take().is_some() || is_due {
            self.note_starved(read_ns, is_starved);
        }
        if !is_due {
            return verdicts;
        }
        let spared = self.spared(read_ns);
        while let Some(verdict) = self.worst(&spared, read_ns) {
            debug_assert!(!verdict.reporters.is_empty(), "an eviction has a reason");
            debug_assert!(!verdict.reporters.contains(&verdict.node));
            self.handle_gone(verdict.node);
            verdicts.push(verdict);
        }
        // New ones are decided about as soon as they are not, spared ones asked after again.
        let new = self.suspected().filter(|node| !spared.contains(node));
        let due = new.filter_map(|node| Some(self.since_ns(node, &spared)? + self.weighing_ns));
        let due_ns = due.filter(|&at| at > read_ns).min();
        self.decide_ns = (!self.suspicions.is_empty()).then(|| {
            due_ns.map_or(read_ns + self.weighing_ns, |at| at.min(read_ns + self.weighing_ns))
        });
        self.check_invariants();
        verdicts
    }

    fn suspected(&self) -> impl Iterator<Item = u32> {
        self.suspicions.keys().map(|&(_, suspected)| suspected)
    }

    /// Notes the nodes of suspicions that are starved; forgets those that have had time to recover.
    fn note_starved(&mut self, now_ns: u64, is_starved: &dyn Fn(u32) -> bool) {
        let concerned: BTreeSet<u32> = self.concerned().collect();
        self.starved.retain(|node, last| {
            concerned.contains(node) && now_ns < *last + RECOVERY * self.weighing_ns
        });
        let starved_now = concerned.into_iter().filter(|&node| is_starved(node));
        self.starved.extend(starved_now.map(|node| (node, now_ns)));
        debug_assert!(
            self.starved.keys().all(|&node| self.concerned().any(|one| one == node)),
            "of suspicions"
        );
    }

    /// Returns the suspected nodes that are not to be evicted yet: those that were starved a moment
    /// ago, or all of whose reporters were.
    fn spared(&self, now_ns: u64) -> BTreeSet<u32> {
        let suspected: BTreeSet<u32> = self.suspected().collect();
        let is_spared = |&node: &u32| {
            let of_it = || self.suspicions.iter().filter(move |&(&(_, of), _)| of == node);
            let since_ns = of_it().map(|(_, &since)| since).min();
            // One that came after the time of the decision is new.
            let age_ns = since_ns.map_or(0, |since| now_ns.saturating_sub(since));
            let excused = self.starved.contains_key(&node)
                || of_it().all(|(&(by, _), _)| self.starved.contains_key(&by));
            excused && age_ns < PUT_OFF * self.weighing_ns
        };
        suspected.into_iter().filter(is_spared).collect()
    }

    /// Asserts what always holds; the number is the crate's invariant.
    pub fn check_invariants(&self) {
        debug_assert_eq!(self.suspicions.is_empty(), self.decide_ns.is_none(), "5: a deadline");
        debug_assert!(self.suspicions.keys().all(|(by, of)| by != of), "no node suspects itself");
        debug_assert!(self.look_ns.is_none() || self.decide_ns.is_some(), "5: looks at suspicions");
    }

    /// Returns the time since which a node is part of a suspicion, by it or of it. That it suspects
    /// a node that is spared says nothing against it.
    fn since_ns(&self, node: u32, spared: &BTreeSet<u32>) -> Option<u64> {
        let part = |&(&(by, of), _): &(&(u32, u32), &u64)| {
            of == node || by == node && !spared.contains(&of)
        };
        self.suspicions.iter().filter(part).map(|(_, &since)| since).min()
    }

    /// Returns the node to evict next, if there is one.
    fn worst(&self, spared: &BTreeSet<u32>, now_ns: u64) -> Option<Eviction> {
        let all: BTreeSet<u32> = self.suspected().collect();
        let open = || all.iter().copied().filter(|node| !spared.contains(node));
        let is_new = |&node: &u32| {
            self.since_ns(node, spared).is_none_or(|since| now_ns < since + self.weighing_ns)
        };
        let of = |node: u32| self.suspicions.keys().filter(move |&&(_, of)| of == node);
        let by = |node: u32| self.suspicions.keys().filter(move |&&(by, _)| by == node);
        let weight = |&node: &u32| (of(node).count() + by(node).count(), of(node).count(), node);
        let node = open().max_by_key(weight).filter(|node| !is_new(node)).or_else(|| {
            let trusted = |&node: &u32| of(node).any(|(reporter, _)| !all.contains(reporter));
            open().filter(|node| !is_new(node) && trusted(node)).max_by_key(weight)
        })?;
        debug_assert!(of(node).count() > 0, "an evicted node is suspected");
        Some(Eviction { node, reporters: of(node).map(|&(reporter, _)| reporter).collect() })
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
        assert!(arbiter.handle_timeout(109, &|_| false).is_empty(), "too early");
        let mut nodes = Vec::new();
        while let Some(at) = arbiter.next_deadline_ns() {
            assert!(at < 100 + suspicions.len() as u64 + 10, "new ones wait no longer than others");
            let verdicts = arbiter.handle_timeout(at, &|_| false);
            nodes.extend(verdicts.into_iter().map(|verdict| verdict.node));
        }
        nodes
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
        assert_eq!(decided(&[(0, 1), (0, 3), (2, 1), (2, 3)]), [1, 3]);
    }

    #[test]
    fn one_that_paused_is_not_given_up_with_one_that_died() {
        let mut arbiter = MembershipArbiter::new(10);
        arbiter.handle_silent(0, 1, 100);
        arbiter.handle_silent(0, 2, 108);
        arbiter.handle_silent(3, 2, 109);
        // Two suspect the one that paused; the one that died is known all the same.
        let verdicts = arbiter.handle_timeout(110, &|_| false);
        assert_eq!(verdicts, [Eviction { node: 1, reporters: vec![0] }]);
        assert_eq!(arbiter.next_deadline_ns(), Some(118));
        arbiter.handle_heard(0, 2);
        arbiter.handle_heard(3, 2);
        assert_eq!(arbiter.next_deadline_ns(), None);
        // That a node suspects one that starves does not make it one for long.
        arbiter.handle_silent(4, 5, 200);
        assert!(arbiter.handle_timeout(210, &|node| node == 5).is_empty());
        arbiter.handle_silent(0, 4, 215);
        assert!(arbiter.handle_timeout(220, &|node| node == 5).is_empty());
        let verdicts = arbiter.handle_timeout(225, &|node| node == 5);
        assert_eq!(verdicts, [Eviction { node: 4, reporters: vec![0] }]);
    }

    #[test]
    fn who_is_heard_again_in_time_stays() {
        let mut arbiter = MembershipArbiter::new(10);
        arbiter.handle_silent(0, 1, 100);
        arbiter.handle_silent(0, 0, 100);
        arbiter.handle_heard(0, 1);
        assert_eq!(arbiter.next_deadline_ns(), None);
        assert!(arbiter.handle_timeout(200, &|_| false).is_empty());
        arbiter.handle_silent(0, 1, 300);
        assert_eq!(arbiter.next_deadline_ns(), Some(300), "it may be starved");
        assert!(arbiter.handle_timeout(300, &|_| false).is_empty());
        assert_eq!(arbiter.next_deadline_ns(), Some(310));
        arbiter.handle_gone(1);
        assert!(arbiter.handle_timeout(400, &|_| false).is_empty());
    }

    #[test]
    fn a_starved_node_is_given_up_late_and_alone() {
        let starved = |node| node == 1;
        let mut arbiter = MembershipArbiter::new(10);
        arbiter.handle_silent(0, 1, 100);
        arbiter.handle_silent(0, 2, 100);
        // The other goes at once.
        let verdicts = arbiter.handle_timeout(110, &starved);
        assert_eq!(verdicts, [Eviction { node: 2, reporters: vec![0] }]);
        let mut now = 110;
        while let Some(at) = arbiter.next_deadline_ns() {
            assert_eq!(at, now + 10, "it is asked after again");
            now = at;
            let verdicts = arbiter.handle_timeout(now, &starved);
            assert_eq!(verdicts.is_empty(), now < 100 + 10 * PUT_OFF, "{now}");
        }
        assert_eq!(now, 100 + 10 * PUT_OFF);
        // One that runs again is heard again.
        arbiter.handle_silent(0, 1, 500);
        assert!(arbiter.handle_timeout(510, &starved).is_empty());
        arbiter.handle_heard(0, 1);
        assert_eq!(arbiter.next_deadline_ns(), None);
        // A node that runs again but sends no heartbeat is given up after the timeout.
        arbiter.handle_silent(0, 1, 600);
        assert!(arbiter.handle_timeout(600, &starved).is_empty());
        for now in (610..670).step_by(10) {
            assert!(arbiter.handle_timeout(now, &|_| false).is_empty(), "{now}");
        }
        // One that is suspected meanwhile has as much time as any.
        arbiter.handle_silent(0, 3, 665);
        assert_eq!(arbiter.handle_timeout(670, &|_| false).len(), 1);
        assert_eq!(arbiter.handle_timeout(675, &|_| false).len(), 1);
        assert_eq!(arbiter.next_deadline_ns(), None);
    }
}
