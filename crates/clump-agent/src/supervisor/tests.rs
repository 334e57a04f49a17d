//! Scenarios of dying: named, timed by hand, asserted by actions.
use super::*;
use RankState::{Absent, Finalized, Joined};

fn watch(ranks: u32) -> RankSupervisor {
    RankSupervisor::new(ranks, OnDeath::End, None)
}

fn joined(ranks: u32) -> RankSupervisor {
    let mut watch = watch(ranks);
    (0..ranks).for_each(|rank| watch.on_joined(rank, 0));
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

fn death(rank: u32, how: DeathCause) -> SupervisorAction {
    SupervisorAction::Declare(Death { rank, how })
}

#[test]
fn everybody_finalizes_and_leaves() {
    let mut w = joined(2);
    w.on_ended(1, Exit::Code(0), Finalized, 10);
    assert_eq!(actions(&mut w), []);
    w.on_ended(0, Exit::Code(0), Finalized, 20);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert_eq!((w.first_death(), w.next_deadline_ns()), (None, None));
    assert_eq!(w.end_of(0), (Some(ProcessEnd::Exit(0)), true, false));
}

#[test]
fn programs_that_never_join_are_nobody_s_dead() {
    let mut w = watch(2);
    w.on_ended(0, Exit::Code(0), Absent, 10);
    w.on_ended(1, Exit::Code(0), Absent, 10);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
}

#[test]
fn every_wrong_way_to_leave_is_a_death() {
    let cases = [
        (Exit::Signal(9), Joined, DeathCause::Signal(9)),
        (Exit::Signal(11), Finalized, DeathCause::Signal(11)),
        (Exit::Code(3), Absent, DeathCause::Exit(3)),
        (Exit::Code(3), Finalized, DeathCause::Exit(3)),
        (Exit::Code(0), Joined, DeathCause::NoFinalize),
    ];
    for (exit, state, how) in cases {
        let mut w = watch(3);
        w.on_joined(0, 0);
        w.on_ended(1, exit, state, 7 * MS);
        assert_eq!(actions(&mut w), [death(1, how)]);
        assert_eq!(
            next(&mut w),
            (257, vec![SupervisorAction::Kill]),
            "grace for the others, then the end"
        );
        w.on_ended(0, Exit::Signal(9), Joined, 300 * MS);
        w.on_ended(2, Exit::Signal(9), Joined, 300 * MS);
        assert_eq!(
            actions(&mut w),
            [SupervisorAction::Finished],
            "the killed are no deaths of their own"
        );
        assert_eq!(w.first_death(), Some(Death { rank: 1, how }));
        assert_eq!(w.end_of(2), (Some(ProcessEnd::Signal(9)), false, true));
    }
}

#[test]
fn a_rank_whose_program_was_replaced_dies_once() {
    let mut w = RankSupervisor::new(2, OnDeath::Continue, None);
    (0..2).for_each(|rank| w.on_joined(rank, 0));
    w.handle(Event::Replaced(1), 5 * MS);
    assert_eq!(actions(&mut w), [death(1, DeathCause::Replaced)]);
    w.on_replaced(1, 6 * MS);
    w.on_ended(0, Exit::Code(0), Finalized, 7 * MS);
    // However the other program ends, that is not the rank's end.
    w.on_ended(1, Exit::Code(0), RankState::Dead, 8 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert!(!w.end_of(1).1);
}

#[test]
fn survivors_that_return_their_errors_end_the_job_early() {
    let mut w = joined(3);
    w.on_ended(2, Exit::Signal(6), Joined, 0);
    w.on_ended(0, Exit::Code(1), Joined, MS);
    w.on_ended(1, Exit::Code(1), Joined, 2 * MS);
    let expected = [
        death(2, DeathCause::Signal(6)),
        death(0, DeathCause::Exit(1)),
        death(1, DeathCause::Exit(1)),
        SupervisorAction::Finished,
    ];
    assert_eq!(actions(&mut w), expected);
    assert_eq!(w.first_death(), Some(Death { rank: 2, how: DeathCause::Signal(6) }));
    assert_eq!(w.end_of(0), (Some(ProcessEnd::Exit(1)), false, false));
}

#[test]
fn leaving_without_joining_is_a_death_as_soon_as_somebody_joins() {
    let mut w = watch(3);
    w.on_ended(1, Exit::Code(0), Absent, 0);
    assert_eq!(actions(&mut w), []);
    w.on_joined(2, MS);
    assert_eq!(actions(&mut w), [death(1, DeathCause::NeverJoined)]);
    let mut w = watch(2);
    w.on_joined(0, 0);
    w.on_ended(1, Exit::Code(0), Absent, MS);
    assert_eq!(actions(&mut w), [death(1, DeathCause::NeverJoined)]);
}

#[test]
fn survivors_go_on_where_the_user_says_so() {
    let mut w = RankSupervisor::new(3, OnDeath::Continue, None);
    (0..3).for_each(|rank| w.on_joined(rank, 0));
    w.on_ended(1, Exit::Signal(9), Joined, 0);
    assert_eq!(actions(&mut w), [death(1, DeathCause::Signal(9))]);
    assert_eq!(w.next_deadline_ns(), None);
    w.on_ended(0, Exit::Code(0), Finalized, 900 * MS);
    w.on_ended(2, Exit::Code(0), Finalized, 901 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert!(w.first_death().is_some());
}

#[test]
fn one_interrupt_asks_and_a_second_kills() {
    let mut w = joined(2);
    w.on_interrupt(2, 0);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(2)]);
    w.on_ended(0, Exit::Signal(2), Joined, MS);
    assert_eq!(actions(&mut w), [], "who obeys does not die");
    assert_eq!(next(&mut w), (300, vec![SupervisorAction::Kill]));
    let mut w = joined(2);
    w.on_interrupt(15, 0);
    w.on_interrupt(2, MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(15), SupervisorAction::Kill]);
    assert_eq!(w.interrupted(), Some(15));
    let mut w = joined(2);
    w.on_ended(0, Exit::Signal(9), Joined, 0);
    w.on_interrupt(2, MS);
    assert_eq!(
        actions(&mut w),
        [death(0, DeathCause::Signal(9)), SupervisorAction::Kill],
        "impatient in the grace"
    );
}

#[test]
fn a_rank_stopped_while_all_others_have_ended_dies() {
    let mut w = joined(3);
    w.on_stopped(1, 0);
    w.on_ended(0, Exit::Code(0), Finalized, MS);
    assert_ne!(w.next_deadline_ns(), Some(MS + STOPPED_NS), "rank 2 still runs");
    w.on_ended(2, Exit::Code(0), Finalized, 2 * MS);
    w.on_continued(1, 100 * MS);
    assert_ne!(w.next_deadline_ns(), Some(2 * MS + STOPPED_NS), "it was only a moment");
    w.on_stopped(1, 200 * MS);
    assert_eq!(next(&mut w), (500, vec![death(1, DeathCause::Stopped), SupervisorAction::Kill]));
    w.on_ended(1, Exit::Signal(9), Joined, 501 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
}

#[test]
fn a_rank_stopped_while_others_wait_for_it_to_leave_dies_and_they_end_by_themselves() {
    let mut w = joined(3);
    w.on_leaving(0, 0);
    assert_eq!(w.next_deadline_ns(), None, "nobody is stopped");
    w.on_stopped(1, MS);
    assert_eq!(w.next_deadline_ns(), None, "rank 2 has things to do");
    w.on_leaving(2, 2 * MS);
    assert_eq!(next(&mut w), (302, vec![death(1, DeathCause::Stopped)]));
    w.on_ended(0, Exit::Code(0), Finalized, 303 * MS);
    w.on_ended(2, Exit::Code(0), Finalized, 304 * MS);
    assert_eq!(next(&mut w), (302 + GRACE_NS / MS, vec![SupervisorAction::Kill]));
    w.on_ended(1, Exit::Signal(9), Joined, 600 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
    assert!(w.end_of(0).1 && w.end_of(2).1 && !w.end_of(1).1);
}

#[test]
fn ranks_that_are_stopped_while_they_leave_go_on_together() {
    let mut w = joined(2);
    w.on_leaving(0, 0);
    w.on_leaving(1, 0);
    w.on_stopped(0, MS);
    w.on_stopped(1, 2 * MS);
    assert_eq!(w.next_deadline_ns(), None, "the whole job is stopped");
    w.on_continued(0, 500 * MS);
    assert_eq!(w.next_deadline_ns(), Some(500 * MS + STOPPED_NS));
    w.on_continued(1, 501 * MS);
    assert_eq!(w.next_deadline_ns(), None);
}

#[test]
fn a_rank_that_is_stopped_when_the_user_ends_the_job_is_not_to_blame() {
    let mut w = joined(2);
    w.on_stopped(1, 0);
    w.on_interrupt(2, MS);
    w.on_ended(0, Exit::Signal(2), Joined, 2 * MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Signal(2)]);
    assert_eq!(next(&mut w), (301, vec![SupervisorAction::Kill]));
    assert_eq!(w.first_death(), None);
}

#[test]
fn a_job_that_is_stopped_as_a_whole_is_left_alone() {
    let mut w = joined(2);
    w.on_stopped(0, 0);
    w.on_stopped(1, 0);
    assert_eq!(w.next_deadline_ns(), None);
}

#[test]
fn running_on_alone_is_noticed_once_and_bounded_on_request() {
    let mut w = joined(2);
    w.on_ended(0, Exit::Code(0), Finalized, 1000 * MS);
    let (at, said) = next(&mut w);
    let [SupervisorAction::Notice(text)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(at, 6000);
    assert!(text.contains("rank 1 is still running") && text.contains("--linger"), "{text}");
    assert_eq!(w.next_deadline_ns(), None, "a long computation is legitimate");

    let mut w = RankSupervisor::new(2, OnDeath::End, Some(2000));
    w.on_joined(0, 0);
    w.on_joined(1, 0);
    w.on_ended(0, Exit::Code(0), Finalized, 1000 * MS);
    assert_eq!(next(&mut w), (3000, vec![death(1, DeathCause::Lingered)]));
    assert_eq!(next(&mut w), (3250, vec![SupervisorAction::Kill]));
}

#[test]
fn with_a_node_all_its_ranks_die_that_had_not_ended() {
    let mut w = joined(5);
    w.on_ended(3, Exit::Code(0), Finalized, 0);
    w.on_node_lost(2..5, MS);
    assert_eq!(actions(&mut w), [death(2, DeathCause::NodeLost), death(4, DeathCause::NodeLost)]);
    assert_eq!(w.end_of(3), (Some(ProcessEnd::Exit(0)), true, false));
    assert_eq!(w.end_of(4), (Some(ProcessEnd::Unknown), false, false));
    w.on_ended(4, Exit::Signal(9), Joined, 2 * MS);
    assert_eq!(actions(&mut w), [], "what is heard of it afterwards changes nothing");
    assert_eq!(next(&mut w), (251, vec![SupervisorAction::Kill]));
    w.on_node_lost(0..2, 300 * MS);
    assert_eq!(
        actions(&mut w),
        [SupervisorAction::Finished],
        "a node lost while everything is killed"
    );
    assert_eq!(w.first_death(), Some(Death { rank: 2, how: DeathCause::NodeLost }));
    assert_eq!(w.first_death_ns(), Some(MS));
}

#[test]
fn survivors_of_a_lost_node_go_on_where_the_user_says_so() {
    let mut w = RankSupervisor::new(2, OnDeath::Continue, None);
    w.on_node_lost(1..2, 0);
    assert_eq!(actions(&mut w), [death(1, DeathCause::NodeLost)]);
    assert_eq!(w.next_deadline_ns(), None);
    w.on_ended(0, Exit::Code(0), Finalized, MS);
    assert_eq!(actions(&mut w), [SupervisorAction::Finished]);
}
