//! Events in random order: what the rules of dying promise whatever happens.

use clump_control::{
    Decision, Event, JobCoordinator, JobVerdict, OnDeath, ProcessEnd, RankStatus, RankSupervisor,
    SupervisorAction,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

const RANKS: u32 = 4;
const MS: u64 = 1_000_000;

/// Something that happens to a job, after so many ms.
#[derive(Debug, Clone)]
enum Happening {
    Event(Event),
    NodeLost,
    Kill,
    Time,
}

fn happening() -> impl Strategy<Value = Happening> {
    let rank = || 0..RANKS + 1;
    let end = prop_oneof![
        4 => Just(ProcessEnd::Exit(0)),
        1 => (1_u8..4).prop_map(ProcessEnd::Exit),
        1 => Just(ProcessEnd::Signal(9)),
        1 => Just(ProcessEnd::Unknown),
    ];
    let status = prop_oneof![
        Just(RankStatus::Absent),
        Just(RankStatus::Joined),
        Just(RankStatus::Finalized(1)),
        Just(RankStatus::Dead),
    ];
    let ended = (rank(), end, status).prop_map(|(rank, end, standing)| Event::Ended {
        rank,
        end,
        standing,
    });
    let event = prop_oneof![
        4 => rank().prop_map(Event::Joined),
        4 => ended,
        2 => rank().prop_map(Event::Leaving),
        2 => rank().prop_map(Event::Stopped),
        2 => rank().prop_map(Event::Continued),
        1 => rank().prop_map(Event::Replaced),
        1 => (1_u8..16).prop_map(Event::Interrupted),
    ];
    prop_oneof![
        12 => event.prop_map(Happening::Event),
        1 => Just(Happening::NodeLost),
        1 => Just(Happening::Kill),
        6 => Just(Happening::Time),
    ]
}

/// Everything that a job received, with the rules about it.
#[derive(Default)]
struct Told {
    declared: BTreeSet<u32>,
    first: Option<u32>,
    killed: bool,
    signalled: bool,
    finished: bool,
}

impl Told {
    fn take(&mut self, watch: &mut RankSupervisor) {
        while let Some(action) = watch.poll_action() {
            match action {
                SupervisorAction::Declare(death) => {
                    assert!(self.declared.insert(death.rank), "a rank dies once");
                    assert!(!self.killed && !self.signalled, "nobody to blame by now");
                    self.first.get_or_insert(death.rank);
                }
                SupervisorAction::Signal(_) => {
                    assert!(!std::mem::replace(&mut self.signalled, true) && !self.killed);
                }
                SupervisorAction::Kill => {
                    assert!(!std::mem::replace(&mut self.killed, true) && !self.finished);
                }
                SupervisorAction::Notice(left) => assert!(!left.ranks.is_empty()),
                SupervisorAction::Finished => {
                    assert!(!std::mem::replace(&mut self.finished, true));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(clump_test_tier::pick(128, 512)))]

    #[test]
    fn a_rank_dies_once_and_the_job_ends_once(
        goes_on: bool,
        linger_ms in proptest::option::of(0_u64..2_000),
        plan in proptest::collection::vec((0_u64..400, happening()), 1..60),
    ) {
        let on_death = if goes_on { OnDeath::Continue } else { OnDeath::End };
        let mut watch = RankSupervisor::new(RANKS, on_death, linger_ms);
        let (mut told, mut now) = (Told::default(), 0);
        for (ms, what) in plan {
            now += ms * MS;
            match what {
                Happening::Event(event) => watch.handle(event, now),
                Happening::NodeLost => watch.handle_node_lost(2..RANKS, now),
                Happening::Kill => watch.handle_kill(),
                Happening::Time => watch.handle_timeout(now),
            }
            watch.check_invariants();
            told.take(&mut watch);
        }
        prop_assert_eq!(told.finished, watch.is_finished());
        prop_assert_eq!(watch.first_death().map(|death| death.rank), told.first);
        match watch.verdict() {
            JobVerdict::Death(death) => prop_assert_eq!(Some(death.rank), told.first),
            JobVerdict::Interrupted(_) => prop_assert!(told.declared.is_empty()),
            JobVerdict::Clean => prop_assert!(told.declared.is_empty() && !told.killed),
        }
    }

    #[test]
    fn a_job_that_is_to_end_ends_by_its_deadlines_alone(
        plan in proptest::collection::vec((0_u64..400, happening()), 1..40),
    ) {
        let mut watch = RankSupervisor::new(RANKS, OnDeath::End, None);
        let (mut told, mut now) = (Told::default(), 0);
        for (ms, what) in plan {
            now += ms * MS;
            if let Happening::Event(event) = what {
                watch.handle(event, now);
            }
        }
        watch.handle_interrupt(15, now);
        for _ in 0..3 {
            now = watch.next_deadline_ns().unwrap_or(now).max(now);
            watch.handle_timeout(now);
        }
        told.take(&mut watch);
        prop_assert!(watch.is_killing() || watch.is_finished());
        prop_assert_eq!(watch.next_deadline_ns(), None);
    }
}

/// The reports of a lost node about others stand no more.
#[test]
fn a_suspicion_ends_with_the_node_that_had_it() {
    for silent_first in [false, true] {
        let timeout = 2_000 * MS;
        let mut rules =
            JobCoordinator::new([0..1, 1..2, 2..3], (OnDeath::Continue, None), timeout, 0);
        (0..3).for_each(|node| rules.handle_reached(node, 1));
        (0..3).for_each(|rank| rules.handle_event(rank, Event::Joined(rank), 2));
        rules.handle_event(1, Event::Silent(2), 3);
        if silent_first {
            rules.handle_event(0, Event::Silent(1), 4);
        }
        rules.handle_lost(1, 5);
        rules.handle_timeout(10 * timeout, 10 * timeout, &|_| false);
        let decisions = std::iter::from_fn(|| rules.poll_decision());
        let cut: Vec<_> = decisions.filter(|what| matches!(what, Decision::CutOff(_))).collect();
        assert_eq!(cut, [], "nobody is left who does not hear another");
        rules.check_invariants();
    }
}

/// A launcher that did not run for ten seconds knows what had arrived until it last read.
#[test]
fn nothing_is_decided_before_what_had_arrived_is_read() {
    let ranks = [0..1, 1..2, 2..3, 3..4];
    let mut rules = JobCoordinator::new(ranks, (OnDeath::Continue, None), 2_000 * MS, 0);
    (0..4).for_each(|node| rules.handle_reached(node, 1));
    (0..4).for_each(|rank| rules.handle_event(rank, Event::Joined(rank), 2));
    rules.handle_event(0, Event::Silent(1), 100 * MS);
    rules.handle_event(2, Event::Silent(3), 200 * MS);
    let cut_off = |rules: &mut JobCoordinator| -> Vec<Decision> {
        let decisions = std::iter::from_fn(|| rules.poll_decision());
        decisions.filter(|what| matches!(what, Decision::CutOff(_))).collect()
    };
    let now = 10_000 * MS;
    rules.handle_timeout(now, 433 * MS, &|_| false);
    assert_eq!(cut_off(&mut rules), [], "word of node 1 may have arrived in time");
    rules.handle_timeout(now, 434 * MS, &|_| false);
    assert_eq!(cut_off(&mut rules), [Decision::CutOff(1)], "word of node 3 may have");
    rules.handle_event(2, Event::Heard(3), now);
    rules.handle_timeout(now, now, &|_| false);
    assert_eq!(cut_off(&mut rules), []);
    rules.handle_event(2, Event::Silent(3), now);
    rules.handle_timeout(2 * now, 2 * now, &|_| false);
    assert_eq!(cut_off(&mut rules), [Decision::CutOff(3)]);
}
