//! Runs by hand, played on slower networks.

use super::*;
use crate::knobs::{KnobClass, KnobScope};

const ROW: (KnobScope, KnobClass) = (KnobScope::Net, KnobClass::Short);

fn play(ranks: &[Vec<Step>], knobs: &str) -> Replay {
    let knobs = KnobTable::parse(knobs, &Default::default()).unwrap();
    let runs = (0..).zip(ranks).map(|(rank, steps)| Run { rank, nic: rank, steps });
    replay(&runs.collect::<Vec<_>>(), &knobs)
}

/// Rank 0 sends `rounds` requests and waits for each answer; rank 1 waits for each request.
fn ping_pong(rounds: u64) -> Vec<Vec<Step>> {
    let [mut zero, mut one] = [Vec::new(), Vec::new()];
    for key in 0..rounds {
        let send = |to| Step::Send { to, key, bytes: 8, row: ROW, waits: true, bytes_ns: None };
        let receive = |from| Step::Receive { from, key, transit_ns: 1_000 };
        zero.extend([Step::Compute { ns: 50 }, send(1), Step::Wait, receive(1)]);
        zero.extend([Step::Compute { ns: 10 }, Step::Handled, Step::WaitEnd]);
        one.extend([Step::Wait, receive(0), Step::Compute { ns: 10 }, send(0)]);
        one.extend([Step::Handled, Step::WaitEnd]);
    }
    vec![zero, one]
}

#[test]
fn round_trips_take_what_they_took_and_more_by_each_parameter() {
    // By hand: 50 + 1000 + 10 + 1000 + 10 a round.
    let base = play(&ping_pong(7), "");
    assert_eq!((base.end().ns, base.unmatched), (7 * 2_070, 0));
    let counts = base.end().counts;
    assert_eq!((counts.overheads, counts.latencies), (7 * 4, 7 * 2));
    assert_eq!(play(&ping_pong(7), "L=+5us").end().ns, 7 * (2_070 + 10_000));
    assert_eq!(play(&ping_pong(7), "o=+3us").end().ns, 7 * (2_070 + 12_000));
    // Two sends of a rank are 2,070 ns apart.
    assert_eq!(play(&ping_pong(7), "g=+1us").end().ns, 7 * 2_070);
}

#[test]
fn a_burst_is_limited_by_the_gap_and_hides_latency() {
    // Rank 0 sends ten messages in 1 us and computes for 100 us; rank 1 waits for all.
    let mut zero = Vec::new();
    let mut one = vec![Step::Wait];
    let send = |key| Step::Send { to: 1, key, bytes: 8, row: ROW, waits: true, bytes_ns: None };
    for key in 0..10 {
        zero.extend([Step::Compute { ns: 100 }, send(key)]);
        one.extend([Step::Receive { from: 0, key, transit_ns: 2_000 }, Step::Handled]);
    }
    zero.push(Step::Compute { ns: 100_000 });
    one.push(Step::WaitEnd);
    let ends = |knobs: &str| {
        let played = play(&[zero.clone(), one.clone()], knobs);
        played.ends.iter().map(|end| end.ns).collect::<Vec<_>>()
    };
    assert_eq!(ends(""), [101_000, 3_000]);
    // The first is sent at 100 ns; each further one 4 us later.
    let gap = KnobTable::parse("g=+4us", &Default::default()).unwrap();
    let gap = gap.get(ROW.0, ROW.1).gap_ns;
    assert_eq!(ends("g=+4us"), [101_000, 100 + 9 * gap + 2_000]);
    assert_eq!(ends("L=+50us"), [101_000, 53_000]);
}

#[test]
fn an_interface_that_holds_all_it_can_holds_its_rank_up() {
    // Requests without an answer, at once; the interface holds 256 of them.
    let run = |messages: usize, class, waits| {
        let row = (KnobScope::Net, class);
        let send = Step::Send { to: NOBODY, key: 0, bytes: 8, row, waits, bytes_ns: None };
        play(&[vec![send; messages]], "g=+4us").end().ns
    };
    for class in [KnobClass::OneSided, KnobClass::Short] {
        assert_eq!([257, 300].map(|all| run(all, class, true)), [0, (299 - 256) * 4_000]);
    }
    assert_eq!(run(300, KnobClass::Short, false), 0, "replies wait for no room");
}

#[test]
fn bytes_that_hold_up_those_behind_them_are_on_the_path() {
    let row = (KnobScope::Net, KnobClass::Bulk);
    let send = |key| Step::Send { to: 1, key, bytes: 1_000, row, waits: true, bytes_ns: None };
    let receive = |key| Step::Receive { from: 0, key, transit_ns: 100 };
    let one = vec![Step::Wait, receive(1), receive(2), Step::Handled, Step::WaitEnd];
    let played = play(&[vec![send(1), send(2)], one], "G=+3ns/B");
    assert_eq!(played.end().ns, 2 * 3_000 + 100);
    assert_eq!(played.end().counts.bytes, 2 * 1_000);
}

#[test]
fn an_interface_whose_bytes_take_time_anyway_is_free_after_the_longer_of_these_and_a_gap() {
    let row = (KnobScope::Net, KnobClass::Bulk);
    let send =
        |key| Step::Send { to: 1, key, bytes: 1_000, row, waits: false, bytes_ns: Some(7_000) };
    let receive = |key| Step::Receive { from: 0, key, transit_ns: 100 };
    let one = vec![Step::Wait, receive(1), receive(2), Step::Handled, Step::WaitEnd];
    let end = |knobs: &str| {
        let played = play(&[vec![send(1), send(2)], one.clone()], knobs).end();
        (played.ns, played.counts.gaps, played.counts.bytes)
    };
    assert_eq!(end("").0, 7_000 + 100);
    assert_eq!(end("g=+5us"), (7_000 + 100, 0, 2_000));
    assert_eq!(end("g=+9us"), (9_000 + 100, 1, 1_000));
    // The first's bytes, and a second's latency.
    assert_eq!(end("G=+3ns/B"), (10_000 + 3_000 + 100, 0, 2_000));
    assert_eq!(end("g=+20us,G=+3ns/B"), (20_000 + 3_000 + 100, 1, 1_000));
}

#[test]
fn a_handler_that_nobody_waits_for_delays_what_depends_on_it_alone() {
    // Rank 1 computes for 10 us, handles a request at a poll in between, and answers.
    let send = |to, key| Step::Send { to, key, bytes: 8, row: ROW, waits: true, bytes_ns: None };
    let receive = |from, key| Step::Receive { from, key, transit_ns: 1_000 };
    let zero = vec![send(1, 1), Step::Wait, receive(1, 2), Step::Handled, Step::WaitEnd];
    let one = vec![
        Step::Compute { ns: 5_000 },
        receive(0, 1),
        Step::Compute { ns: 10 },
        send(0, 2),
        Step::Handled,
        Step::Compute { ns: 4_990 },
    ];
    let ends = |knobs: &str| {
        let played = play(&[zero.clone(), one.clone()], knobs);
        played.ends.iter().map(|end| end.ns).collect::<Vec<_>>()
    };
    assert_eq!(ends(""), [6_010, 10_000]);
    assert_eq!(ends("L=+20us"), [21_000 + 10 + 21_000, 10_000], "the rank computes on");
}

#[test]
fn ranks_meet_and_what_no_trace_has_stops_nobody() {
    let meet = Step::Meet { key: 3, ranks: 2 };
    let part = Step::Part { key: 3, after_ns: 30 };
    let slow = vec![Step::Compute { ns: 500 }, meet, part];
    let played = play(&[vec![meet, part], slow.clone()], "");
    assert_eq!(played.ends.iter().map(|end| end.ns).collect::<Vec<_>>(), [530, 530]);
    let lost = Step::Receive { from: 1, key: 9, transit_ns: 5 };
    let played = play(&[vec![Step::Wait, lost, Step::Handled, Step::WaitEnd], slow], "");
    assert_eq!(played.unmatched, 2, "a message, and rank 0 at the meeting");
}

#[test]
fn phases_take_the_time_of_the_slowest_rank_over_all_their_turns() {
    let turn = |name, ns| [Step::Phase { name }, Step::Compute { ns }, Step::PhaseEnd { name }];
    let send = Step::Send { to: NOBODY, key: 0, bytes: 8, row: ROW, waits: true, bytes_ns: None };
    let mut zero = vec![Step::Compute { ns: 70 }, send];
    zero.extend(turn(1, 100).into_iter().chain(turn(2, 5)).chain(turn(1, 40)));
    let one = turn(1, 120).into_iter().chain(turn(2, 30)).collect();
    let base = play(&[zero, one], "");
    assert_eq!(base.phases_ns, [(1, 140), (2, 30)].into());
    assert_eq!((base.of_phases_ns(), base.end().ns), (Some(170), 70 + 145));
    // One of the two messages is sent within a phase.
    let zero = vec![Step::Phase { name: 1 }, send, Step::PhaseEnd { name: 1 }, send];
    let slow = play(&[zero, Vec::new()], "o=+3us");
    assert_eq!((slow.of_phases_ns(), slow.end().ns), (Some(3_000), 6_000));
    assert_eq!(play(&[vec![send]], "").of_phases_ns(), None);
}

#[test]
fn the_tolerance_is_the_largest_value_within_the_bound() {
    assert_eq!(tolerance(1.01, 1_000_000, |x| 1_000_000 + 2 * x), Some(5_000));
    assert_eq!(tolerance(1.01, 1_000, |_| 77), None);
}

#[test]
fn runs_of_one_interface_send_through_it_in_the_order_of_their_times() {
    // Ranks 0 and 1 of one node send every 4 us, from 1 and 2 us on; rank 2 waits for all six.
    let row = ROW;
    let send = |key| Step::Send { to: 2, key, bytes: 8, row, waits: false, bytes_ns: None };
    let of = |first_ns: u64, keys: std::ops::Range<u64>| {
        let steps = keys.map(send).flat_map(|send| [send, Step::Compute { ns: 4_000 }]);
        std::iter::once(Step::Compute { ns: first_ns }).chain(steps).collect::<Vec<_>>()
    };
    let (zero, one) = (of(1_000, 0..3), of(2_000, 10..13));
    let receive = |(from, key)| Step::Receive { from, key, transit_ns: 500 };
    let all = [(0, 0), (1, 10), (0, 1), (1, 11), (0, 2), (1, 12)].map(receive);
    let mut two = vec![Step::Wait];
    two.extend(all.into_iter().flat_map(|receive| [receive, Step::Handled]));
    two.push(Step::WaitEnd);
    let end = |nics: [u32; 3], knobs: &str| {
        let knobs = KnobTable::parse(knobs, &Default::default()).unwrap();
        let steps = [&zero, &one, &two];
        let run = |rank: usize| Run { rank: rank as u32, nic: nics[rank], steps: steps[rank] };
        let played = replay(&[0, 1, 2].map(run), &knobs);
        assert_eq!(played.unmatched, 0);
        played.ends[2].ns
    };
    assert_eq!(end([0, 1, 2], ""), 10_000 + 500);
    // Each for itself: 1, 6, 11 and 2, 7, 12 us. Of one: 1, 6, 11, 16, 21, 26 us.
    assert_eq!(end([0, 1, 2], "g=+5us"), 12_000 + 500);
    assert_eq!(end([7, 7, 2], "g=+5us"), 26_000 + 500);
    // Rank 1's second and third leave at once: 1, 3, 5, 7, 9, 11 us.
    assert_eq!(end([7, 7, 2], "g=+2us"), 11_000 + 500);
}
