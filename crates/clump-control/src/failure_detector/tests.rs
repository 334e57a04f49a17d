use super::*;
use crate::coordinator::WEIGHING_SHARE;
use crate::membership_arbiter::PUT_OFF;

const MS: u64 = 1_000_000;
const SILENCE: u64 = 1200 * MS;
const PERIOD: u64 = SILENCE / BEATS;

fn detector(nodes: u32) -> FailureDetector {
    FailureDetector::new((0, nodes), SILENCE, 7, 0)
}

fn actions(detector: &mut FailureDetector) -> Vec<DetectorAction> {
    std::iter::from_fn(|| detector.poll_action()).collect()
}

/// Runs to `until`, with pings answered at once by these peers; returns what was reported, and
/// when.
fn run(detector: &mut FailureDetector, alive: &[u32], until: u64) -> Vec<(u64, DetectorAction)> {
    let mut said = Vec::new();
    while detector.next_deadline_ns() <= until {
        let now = detector.next_deadline_ns();
        detector.handle_timeout(now);
        for action in actions(detector) {
            match action {
                DetectorAction::Send(to, Heartbeat::Ping) if alive.contains(&to) => {
                    detector.handle_probe(to, Heartbeat::Ack, now + 1);
                }
                DetectorAction::Send(..) => {}
                report => said.push((now, report)),
            }
        }
        said.extend(actions(detector).into_iter().map(|report| (now, report)));
    }
    said
}

#[test]
fn one_peer_a_period_is_pinged_whatever_their_number() {
    for nodes in [2, 3, 50, 200] {
        let mut detector = detector(nodes);
        for period in 0..100 {
            assert_eq!(detector.next_deadline_ns(), period * PERIOD);
            detector.handle_timeout(period * PERIOD);
            let sent = actions(&mut detector);
            let [DetectorAction::Send(to, Heartbeat::Ping)] = sent[..] else { panic!("{sent:?}") };
            detector.handle_probe(to, Heartbeat::Ack, period * PERIOD + 1);
        }
        detector.handle_timeout(99 * PERIOD + 1);
        assert_eq!(actions(&mut detector), [], "too early");
    }
}

#[test]
fn a_peer_that_stops_is_said_to_be_silent_once_and_in_time() {
    let mut detector = detector(2);
    assert_eq!(run(&mut detector, &[1], 1000 * MS), []);
    let said = run(&mut detector, &[], 60_000 * MS);
    assert_eq!(said, [(1100 * MS + MISSED * PERIOD, DetectorAction::Silent(1))]);
    detector.handle_probe(1, Heartbeat::Ping, 60_001 * MS);
    let heard = [DetectorAction::Heard(1), DetectorAction::Send(1, Heartbeat::Ack)];
    assert_eq!(actions(&mut detector), heard);
    assert_eq!(run(&mut detector, &[1], 61_000 * MS), []);
}

#[test]
fn a_peer_that_may_still_be_starting_is_waited_for_longer_but_not_for_ever() {
    let said = run(&mut detector(2), &[], 60_000 * MS);
    assert_eq!(said, [(STARTING * SILENCE + MISSED * PERIOD, DetectorAction::Silent(1))]);
}

#[test]
fn others_are_asked_before_a_peer_is_suspected_and_their_word_counts() {
    let mut detector = detector(4);
    assert_eq!(run(&mut detector, &[1, 2, 3], 2000 * MS), []);
    let mut asked = false;
    for _ in 0..200 {
        let now = detector.next_deadline_ns();
        detector.handle_timeout(now);
        for action in actions(&mut detector) {
            match action {
                DetectorAction::Send(to @ (1 | 2), Heartbeat::Ping) => {
                    detector.handle_probe(to, Heartbeat::Ack, now);
                }
                DetectorAction::Send(to, Heartbeat::Ask(3)) => {
                    asked = true;
                    detector.handle_probe(to, Heartbeat::Vouch(3), now);
                }
                DetectorAction::Send(..) => {}
                report => panic!("{report:?}"),
            }
        }
        detector.check_invariants();
    }
    assert!(asked);
}

#[test]
fn whoever_is_asked_pings_and_vouches_once_it_has_heard() {
    let mut detector = detector(4);
    detector.handle_probe(1, Heartbeat::Ask(2), 5);
    detector.handle_probe(3, Heartbeat::Ask(2), 5);
    let ping = DetectorAction::Send(2, Heartbeat::Ping);
    assert_eq!(actions(&mut detector), [ping, ping]);
    detector.handle_probe(2, Heartbeat::Ack, 9);
    let vouched = [1, 3].map(|asker| DetectorAction::Send(asker, Heartbeat::Vouch(2)));
    assert_eq!(actions(&mut detector), vouched);
    detector.handle_probe(2, Heartbeat::Ack, 10);
    assert_eq!(actions(&mut detector), [], "once");
    for nonsense in [Heartbeat::Ask(0), Heartbeat::Ask(1), Heartbeat::Ask(4), Heartbeat::Vouch(9)] {
        detector.handle_probe(1, nonsense, 11);
        assert_eq!(actions(&mut detector), []);
    }
    detector.handle_probe(77, Heartbeat::Ping, 12);
    assert_eq!(actions(&mut detector), [], "of no node of the job");
}

#[test]
fn what_others_ask_for_is_bounded() {
    let mut detector = detector(300);
    for asker in 2..300 {
        detector.handle_probe(asker, Heartbeat::Ask(1), 5);
        detector.check_invariants();
    }
    actions(&mut detector);
    detector.handle_probe(1, Heartbeat::Ack, 6);
    assert_eq!(actions(&mut detector).len(), RELAYS);
}

#[test]
fn who_hears_none_of_many_sends_no_more_than_a_bound() {
    let mut detector = detector(4096);
    (1..4096).for_each(|node| detector.handle_probe(node, Heartbeat::Ack, 1));
    let (mut most, mut suspected) = (0, 0);
    while detector.next_deadline_ns() <= 60_000 * MS {
        detector.handle_timeout(detector.next_deadline_ns());
        let all = actions(&mut detector);
        let sent = all.iter().filter(|one| matches!(one, DetectorAction::Send(..))).count();
        suspected += all.len() - sent;
        most = most.max(sent);
        detector.check_invariants();
    }
    assert_eq!(most, MAX_ASKING + 1, "and the ping of the period");
    assert!(suspected > 500, "it goes on to look at others: {suspected}");
}

#[test]
fn who_was_not_scheduled_itself_accuses_nobody() {
    let mut detector = detector(2);
    assert_eq!(run(&mut detector, &[1], 1000 * MS), []);
    // Almost suspected; then this agent stops for ten seconds.
    assert_eq!(run(&mut detector, &[], 2050 * MS), []);
    detector.handle_timeout(12_000 * MS);
    assert!(!actions(&mut detector).contains(&DetectorAction::Silent(1)));
    assert_eq!(run(&mut detector, &[], 12_450 * MS), [], "the peer's answer is on its way");
    assert_eq!(run(&mut detector, &[1], 20_000 * MS), []);
    // If the peer has gone meanwhile, that is found out soon.
    detector.handle_timeout(31_000 * MS);
    let said = run(&mut detector, &[], 40_000 * MS);
    assert_eq!(said.len(), 1);
    assert!(said[0].0 <= 32_600 * MS, "{said:?}");
}

#[test]
fn who_hears_none_of_several_peers_waits_for_them_to_report_it() {
    let mut detector = detector(3);
    assert_eq!(run(&mut detector, &[1, 2], 2000 * MS), []);
    let said = run(&mut detector, &[], 60_000 * MS);
    assert_eq!(said[0].0, 2000 * MS + PERIOD + (MISSED + ALONE) * PERIOD);
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn periods_that_all_come_late_make_no_false_alarm() {
    let mut detector = detector(2);
    detector.handle_probe(1, Heartbeat::Ping, 0);
    for look in 1..2000 {
        detector.handle_timeout(look * 250 * MS);
    }
    assert!(!actions(&mut detector).contains(&DetectorAction::Silent(1)));
}

#[test]
fn a_suspected_peer_is_asked_for_as_long_as_its_eviction_may_be_put_off() {
    let mut detector = detector(4);
    assert_eq!(run(&mut detector, &[1, 2, 3], 1_000 * MS), []);
    let put_off = PUT_OFF * SILENCE / WEIGHING_SHARE;
    let (mut suspected, mut asked) = (None, 0);
    while suspected.is_none_or(|at| detector.next_deadline_ns() < at + put_off) {
        let now = detector.next_deadline_ns();
        detector.handle_timeout(now);
        for action in actions(&mut detector) {
            match action {
                DetectorAction::Send(3, Heartbeat::Ping) => asked += u64::from(suspected.is_some()),
                DetectorAction::Send(to, Heartbeat::Ping) => {
                    detector.handle_probe(to, Heartbeat::Ack, now + 1);
                }
                DetectorAction::Silent(3) => suspected = Some(now),
                _ => {}
            }
        }
    }
    let periods = put_off / PERIOD;
    assert!(asked + MISSED >= periods, "asked {asked} times in {periods} periods");
    detector.handle_probe(3, Heartbeat::Ack, detector.next_deadline_ns());
    assert!(actions(&mut detector).contains(&DetectorAction::Heard(3)));
}
