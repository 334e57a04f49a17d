//! Tests of [`Emulation`].

use super::*;
use crate::message::split_stamp;

/// A sender of this node.
fn from() -> (Name, bool) {
    (Name::new(1, 0, 1), true)
}

fn hidden(request: bool, handler: u8) -> Hidden {
    Hidden { message: local(request, handler), sent: None, continues: false }
}

fn local(request: bool, handler: u8) -> Delayed {
    let (kind, words, payload) = (MessageKind::Short, vec![1], Vec::new());
    let from = from().0;
    Delayed::Local(LocalMessage { from, lane: None, request, kind, handler, words, payload })
}

#[test]
fn messages_come_out_when_they_are_due_and_in_their_order() {
    let mut emulation = Emulation::default();
    let now = clock::now_ns();
    emulation.keep(now, hidden(true, 2));
    emulation.keep(now, hidden(true, 3));
    emulation.keep(now.saturating_sub(1), hidden(false, 1));
    emulation.keep(u64::MAX, hidden(true, 4));
    let mut handlers = Vec::new();
    while let Some((_, taken)) = emulation.take_due() {
        let Delayed::Local(message) = taken.message else { panic!("of this node") };
        handlers.push(message.handler);
    }
    assert_eq!(handlers, [1, 2, 3]);
    assert_eq!(emulation.first_due_ns(), Some(u64::MAX));
    assert_eq!((emulation.take_all().len(), emulation.requests), (1, 0));
}

/// Returns a short request of another node.
fn remote() -> Delayed {
    use clump_wire::frame::Route;
    let route = Route { from: from().0.to_bits(), to: 0, tag: 0 };
    let kind = FrameKind::Short;
    let (words, payload) = (vec![1], Default::default());
    Delayed::Remote(OwnedMessage { route, kind, handler: 1, reply: false, words, payload })
}

#[test]
fn a_clock_of_another_machine_says_nothing_of_how_long_a_path_takes() {
    const LATENCY_NS: u64 = 1_000_000_000;
    let table = KnobTable::parse("L=+1s", &[Default::default(); 2]).unwrap();
    // The sender's clock is far behind, far ahead, a little behind.
    for behind in [5_000_000_000, 5_000_000_000_u64.wrapping_neg(), 1_000_000] {
        let mut emulation = Emulation { table, ..Emulation::default() };
        let now = clock::now_ns();
        let stamp = Stamp::new(now.wrapping_sub(behind), 0, 1);
        assert!(emulation.hide((from().0, false), stamp, remote()));
        let due = emulation.first_due_ns().unwrap();
        assert!(
            due >= now + LATENCY_NS,
            "clock {behind} behind: due {} ns early",
            now + LATENCY_NS - due
        );
        // On one machine it would have been polled late.
        let mut emulation = Emulation { table, ..Emulation::default() };
        assert!(emulation.hide(from(), stamp, remote()));
        assert!(emulation.first_due_ns().unwrap() < now + LATENCY_NS);
    }
}

#[test]
fn requests_leave_room_for_replies() {
    let mut emulation = Emulation::default();
    for _ in 0..MAX_DELAYED {
        assert!(emulation.hide(from(), Stamp::new(0, 0, 1), local(true, 1)));
    }
    let stamp = Stamp::new(0, 0, 1);
    assert!(!emulation.hide(from(), stamp, local(true, 1)));
    assert!(emulation.hide(from(), stamp, local(false, 1)));
}

#[test]
fn further_fragments_and_attempts_of_a_request_leave_no_gap() {
    const GAP_NS: u64 = 10_000_000_000;
    let table = KnobTable::parse("g=10s,scope=net", &Default::default()).unwrap();
    let mut emulation = Emulation { table, on: true, ..Emulation::default() };
    let interfaces = Interfaces::default();
    let rank = EmulatedRank { interfaces: &interfaces, shares_processor: false };
    let mut held_ns = |continues, number| {
        let words = [number];
        let message = OutgoingMessage::short(Handler(9), &words);
        if continues {
            emulation.note_request(RequestNote::NextContinues);
        }
        let mut stamped = || {
            let given = (from().0, &message);
            let stamped = emulation.request(rank, given, KnobScope::Net, true).unwrap();
            Stamp::from_word(stamped.words[1]).held_ns
        };
        let first = stamped();
        assert!(stamped() <= first, "another attempt at the same message");
        emulation.sent(from().0, &message);
        emulation.note_request(RequestNote::AnsweredBy(number));
        first
    };
    assert_eq!((held_ns(false, 1), held_ns(true, 2), held_ns(true, 3)), (0, 0, 0));
    // Stamps round up, by less than a hundredth.
    assert!((1..=GAP_NS / 100 * 101).contains(&held_ns(false, 4)));
    let fragments = [2, 3].map(|name| emulation.held_answers[&name].continues);
    assert_eq!((fragments, emulation.held_answers.contains_key(&1)), ([true; 2], false));
    assert!(emulation.held_answers[&4].held_ns > 0);
}

#[test]
fn a_stamp_is_the_last_word() {
    let stamp = Stamp::new(clock::now_ns(), 0, 9);
    let words = [5, 6, stamp.to_word()];
    assert_eq!(split_stamp(MessageKind::Short, &words), Some((stamp, &words[..2])));
    assert_eq!(split_stamp(MessageKind::Returned, &words), None);
    assert_eq!(split_stamp(MessageKind::Short, &[]), None);
    assert_eq!(split_stamp(MessageKind::Short, &[7 << 8]), None);
}
