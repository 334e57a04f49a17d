//! Scenarios of dying: named, timed by hand, asserted by actions.
use super::*;
use ProcessEnd::{Exit, Signal};
use RankStatus::{Absent, Finalized, Joined};

fn watch(ranks: u32) -> RankSupervisor {
    RankSupervisor::new(ranks, OnDeath::End, None)
}

fn joined(ranks: u32) -> RankSupervisor {
    let mut watch = watch(ranks);
    (0..ranks).for_each(|rank| watch.handle_joined(rank, 0));
    assert_eq!(actions(&mut watch), []);
    watch
}

fn actions(watch: &mut RankSupervisor) -> Vec<SupervisorAction> {
    std::iter::from_fn(|| watch.poll_action()).collect()
}

/// Jumps to the next deadline and returns its time and its actions.
fn next(watch: &mut RankSupervisor) -> (u64, Vec<SupervisorAction>) {
    let at = watch.next_deadline_ns().expect("a deadline");
    watch.handle_timeout(at);
    (at / MS, actions(watch))
}

fn ended(end: ProcessEnd, clean: bool, killed: bool) -> RankEnd {
    RankEnd { end: Some(end), clean, killed }
}

fn death(rank: u32, manner: DeathManner) -> SupervisorAction {
    SupervisorAction::Declare(RankDeath { rank, manner })
}

#[test]
fn everybody_finalizes_and_leaves() {
    let mut w = joined(2);
    w.handle_ended(1, Exit(0), Finalized(7), 10);
    assert_eq!(actions(&mut w), []);
    w.handle_ended(0, Exit(0), Finalized(7), 20);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert_eq!((w.first_death(), w.next_deadline_ns()), (None, None));
    assert_eq!(w.end_of(0), ended(Exit(0), true, false));
}

#[test]
fn programs_that_never_join_are_nobody_s_dead() {
    let mut w = watch(2);
    w.handle_ended(0, Exit(0), Absent, 10);
    w.handle_ended(1, Exit(0), Absent, 10);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
}

#[test]
fn every_wrong_way_to_leave_is_a_death() {
    let cases = [
        (Signal(9), Joined, DeathManner::Signal(9)),
        (Signal(11), Finalized(7), DeathManner::Signal(11)),
        (Exit(3), Absent, DeathManner::Exit(3)),
        (Exit(3), Finalized(7), DeathManner::Exit(3)),
        (Exit(0), Joined, DeathManner::NoFinalize),
    ];
    for (end, status, manner) in cases {
        let mut w = watch(3);
        w.handle_joined(0, 0);
        w.handle_ended(1, end, status, 7 * MS);
        assert_eq!(actions(&mut w), [death(1, manner)]);
        assert_eq!(
            next(&mut w),
            (257, vec![SupervisorAction::Kill]),
            "grace for the others, then the end"
        );
        w.handle_ended(0, Signal(9), Joined, 300 * MS);
        w.handle_ended(2, Signal(9), Joined, 300 * MS);
        assert_eq!(
            actions(&mut w),
            [SupervisorAction::Finished],
            "the killed are no deaths of their own"
        );
        assert_eq!(w.first_death(), Some(RankDeath { rank: 1, manner }));
        assert_eq!(w.end_of(2), ended(Signal(9), false, true));
    }
}

#[test]
fn a_rank_whose_program_was_replaced_dies_once() {
    let mut w = RankSupervisor::new(2, OnDeath::Continue, None);
    (0..2).for_each(|rank| w.handle_joined(rank, 0));
    w.handle(Event::Replaced(1), 5 * MS);
    assert_eq!(actions(&mut w), [death(1, DeathManner::Replaced)]);
    w.handle_replaced(1, 6 * MS);
    w.handle_ended(0, Exit(0), Finalized(7), 7 * MS);
    // However the other program ends, that is not the rank's end.
    w.handle_ended(1, Exit(0), RankStatus::Dead, 8 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert!(!w.end_of(1).clean);
}

#[test]
fn survivors_that_return_their_errors_end_the_job_early() {
    let mut w = joined(3);
    w.handle_ended(2, Signal(6), Joined, 0);
    w.handle_ended(0, Exit(1), Joined, MS);
    w.handle_ended(1, Exit(1), Joined, 2 * MS);
    let expected = [
        death(2, DeathManner::Signal(6)),
        death(0, DeathManner::Exit(1)),
        death(1, DeathManner::Exit(1)),
        SupervisorAction::Finished,
    ];
    assert_eq!(actions(&mut w), expected);
    assert_eq!(w.first_death(), Some(RankDeath { rank: 2, manner: DeathManner::Signal(6) }));
    assert_eq!(w.end_of(0), ended(Exit(1), false, false));
}

#[test]
fn leaving_without_joining_is_a_death_as_soon_as_somebody_joins() {
    let mut w = watch(3);
    w.handle_ended(1, Exit(0), Absent, 0);
    assert_eq!(actions(&mut w), []);
    w.handle_joined(2, MS);
    assert_eq!(actions(&mut w), [death(1, DeathManner::NeverJoined)]);
    let mut w = watch(2);
    w.handle_joined(0, 0);
    w.handle_ended(1, Exit(0), Absent, MS);
    assert_eq!(actions(&mut w), [death(1, DeathManner::NeverJoined)]);
}

#[test]
fn survivors_go_on_where_the_user_says_so() {
    let mut w = RankSupervisor::new(3, OnDeath::Continue, None);
    (0..3).for_each(|rank| w.handle_joined(rank, 0));
    w.handle_ended(1, Signal(9), Joined, 0);
    assert_eq!(actions(&mut w), [death(1, DeathManner::Signal(9))]);
    assert_eq!(w.next_deadline_ns(), None);
    w.handle_ended(0, Exit(0), Finalized(7), 900 * MS);
    w.handle_ended(2, Exit(0), Finalized(7), 901 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert!(w.first_death().is_some());
}

#[test]
fn one_interrupt_asks_and_a_second_kills() {
    let mut w = joined(2);
    w.handle_interrupt(2, 0);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(2)]);
    w.handle_ended(0, Signal(2), Joined, MS);
    assert_eq!(actions(&mut w), [], "who obeys does not die");
    assert_eq!(next(&mut w), (300, vec![SupervisorAction::Kill]));
    let mut w = joined(2);
    w.handle_interrupt(15, 0);
    w.handle_interrupt(2, MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(15), SupervisorAction::Kill]);
    assert_eq!(w.interrupted(), Some(15));
    let mut w = joined(2);
    w.handle_ended(0, Signal(9), Joined, 0);
    w.handle_interrupt(2, MS);
    assert_eq!(
        actions(&mut w),
        [death(0, DeathManner::Signal(9)), SupervisorAction::Kill],
        "impatient in the grace"
    );
}

#[test]
fn a_rank_stopped_while_all_others_have_ended_dies() {
    let mut w = joined(3);
    w.handle_stopped(1, true, 0);
    w.handle_ended(0, Exit(0), Finalized(7), MS);
    assert_ne!(w.next_deadline_ns(), Some(MS + STOPPED_NS), "rank 2 still runs");
    w.handle_ended(2, Exit(0), Finalized(7), 2 * MS);
    w.handle_stopped(1, false, 100 * MS);
    assert_ne!(w.next_deadline_ns(), Some(2 * MS + STOPPED_NS), "it was only a moment");
    w.handle_stopped(1, true, 200 * MS);
    assert_eq!(next(&mut w), (500, vec![death(1, DeathManner::Stopped), SupervisorAction::Kill]));
    w.handle_ended(1, Signal(9), Joined, 501 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
}

#[test]
fn a_rank_stopped_while_others_wait_for_it_to_leave_dies_and_they_end_by_themselves() {
    let mut w = joined(3);
    w.handle_leaving(0, 0);
    assert_eq!(w.next_deadline_ns(), None, "nobody is stopped");
    w.handle_stopped(1, true, MS);
    assert_eq!(w.next_deadline_ns(), None, "rank 2 has things to do");
    w.handle_leaving(2, 2 * MS);
    assert_eq!(next(&mut w), (302, vec![death(1, DeathManner::Stopped)]));
    w.handle_ended(0, Exit(0), Finalized(7), 303 * MS);
    w.handle_ended(2, Exit(0), Finalized(7), 304 * MS);
    assert_eq!(next(&mut w), (302 + GRACE_NS / MS, vec![SupervisorAction::Kill]));
    w.handle_ended(1, Signal(9), Joined, 600 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert!(w.end_of(0).clean && w.end_of(2).clean && !w.end_of(1).clean);
}

#[test]
fn ranks_that_are_stopped_while_they_leave_go_on_together() {
    let mut w = joined(2);
    w.handle_leaving(0, 0);
    w.handle_leaving(1, 0);
    w.handle_stopped(0, true, MS);
    w.handle_stopped(1, true, 2 * MS);
    assert_eq!(w.next_deadline_ns(), None, "the whole job is stopped");
    w.handle_stopped(0, false, 500 * MS);
    assert_eq!(w.next_deadline_ns(), Some(500 * MS + STOPPED_NS));
    w.handle_stopped(1, false, 501 * MS);
    assert_eq!(w.next_deadline_ns(), None);
}

#[test]
fn a_rank_that_is_stopped_when_the_user_ends_the_job_is_not_to_blame() {
    let mut w = joined(2);
    w.handle_stopped(1, true, 0);
    w.handle_interrupt(2, MS);
    w.handle_ended(0, Signal(2), Joined, 2 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(2)]);
    assert_eq!(next(&mut w), (301, vec![SupervisorAction::Kill]));
    assert_eq!(w.first_death(), None);
}

#[test]
fn a_job_that_is_stopped_as_a_whole_is_left_alone() {
    let mut w = joined(2);
    w.handle_stopped(0, true, 0);
    w.handle_stopped(1, true, 0);
    assert_eq!(w.next_deadline_ns(), None);
}

#[test]
fn running_on_alone_is_noticed_once_and_bounded_on_request() {
    let mut w = joined(2);
    w.handle_ended(0, Exit(0), Finalized(7), 1000 * MS);
    let (at, said) = next(&mut w);
    let left = RanksLeft { ranks: vec![1], linger_ns: None };
    assert_eq!((at, said), (6000, vec![SupervisorAction::Notice(left)]));
    assert_eq!(w.next_deadline_ns(), None, "a long computation is legitimate");

    let mut w = RankSupervisor::new(2, OnDeath::End, Some(2000));
    w.handle_joined(0, 0);
    w.handle_joined(1, 0);
    w.handle_ended(0, Exit(0), Finalized(7), 1000 * MS);
    assert_eq!(next(&mut w), (3000, vec![death(1, DeathManner::Lingered)]));
    assert_eq!(next(&mut w), (3250, vec![SupervisorAction::Kill]));

    let mut w = RankSupervisor::new(2, OnDeath::End, Some(2000));
    w.handle_joined(0, 0);
    w.handle_joined(1, 0);
    w.handle_ended(0, Exit(0), Finalized(7), 1000 * MS);
    w.handle_resumed(40_000 * MS);
    assert_eq!(next(&mut w), (43_000, vec![death(1, DeathManner::Lingered)]), "it was suspended");
}

#[test]
fn with_a_node_all_its_ranks_die_that_had_not_ended() {
    let mut w = joined(5);
    w.handle_ended(3, Exit(0), Finalized(7), 0);
    w.handle_node_lost(2..5, MS);
    assert_eq!(actions(&mut w), [death(2, DeathManner::NodeLost), death(4, DeathManner::NodeLost)]);
    assert_eq!(w.end_of(3), ended(Exit(0), true, false));
    assert_eq!(w.end_of(4), ended(ProcessEnd::Unknown, false, false));
    w.handle_ended(4, Signal(9), Joined, 2 * MS);
    assert_eq!(actions(&mut w), [], "what is heard of it afterwards changes nothing");
    assert_eq!(next(&mut w), (251, vec![SupervisorAction::Kill]));
    w.handle_node_lost(0..2, 300 * MS);
    assert_eq!(
        actions(&mut w),
        [SupervisorAction::Finished],
        "a node lost while everything is killed"
    );
    assert_eq!(w.first_death(), Some(RankDeath { rank: 2, manner: DeathManner::NodeLost }));
    assert_eq!(w.first_death_ns(), Some(MS));
}

#[test]
fn survivors_of_a_lost_node_go_on_where_the_user_says_so() {
    let mut w = RankSupervisor::new(2, OnDeath::Continue, None);
    w.handle_node_lost(1..2, 0);
    assert_eq!(actions(&mut w), [death(1, DeathManner::NodeLost)]);
    assert_eq!(w.next_deadline_ns(), None);
    w.handle_ended(0, Exit(0), Finalized(7), MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
}

#[test]
fn every_rank_that_left_without_joining_dies_once() {
    let mut w = RankSupervisor::new(4, OnDeath::Continue, None);
    w.handle_ended(0, Exit(0), Absent, 0);
    w.handle_ended(2, Exit(0), Absent, 0);
    w.handle_joined(1, MS);
    let both = [0, 2].map(|rank| death(rank, DeathManner::NeverJoined));
    assert_eq!(actions(&mut w), both);
    w.handle_joined(3, 2 * MS);
    assert_eq!(actions(&mut w), [], "they have been declared");
    assert!(!w.end_of(0).clean && !w.end_of(2).clean);
}

#[test]
fn a_rank_declared_dead_does_not_die_again_when_it_ends() {
    let mut w = RankSupervisor::new(2, OnDeath::Continue, Some(1000));
    (0..2).for_each(|rank| w.handle_joined(rank, 0));
    w.handle_ended(0, Exit(0), Finalized(7), 0);
    assert_eq!(next(&mut w), (1000, vec![death(1, DeathManner::Lingered)]));
    w.handle_ended(1, Exit(3), Joined, 1001 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert_eq!(w.verdict().exit_code(), 124);
}

#[test]
fn after_the_user_has_ended_the_job_no_rank_is_to_blame() {
    let mut w = watch(2);
    w.handle_ended(0, Exit(0), Absent, 0);
    w.handle_interrupt(2, MS);
    w.handle_joined(1, 2 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(2)]);
    assert_eq!(w.verdict(), JobVerdict::Interrupted(2));

    // The rank had been stopped for a while when the user lost patience.
    let mut w = joined(2);
    w.handle_ended(0, Exit(0), Finalized(7), 0);
    w.handle_stopped(1, true, MS);
    w.handle_interrupt(2, 200 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(2)]);
    assert_eq!(next(&mut w), (500, vec![SupervisorAction::Kill]));
    assert_eq!(w.verdict().exit_code(), 130);
}

#[test]
fn an_agent_without_its_launcher_waits_for_its_own_ranks_alone() {
    let mut w = RankSupervisor::of_orphaned_node(4, OnDeath::End, |rank| rank >= 2, 0);
    w.handle_interrupt(15, MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(15)]);
    w.handle_ended(2, Signal(15), Joined, 2 * MS);
    w.handle_ended(3, Signal(15), Joined, 2 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
}
