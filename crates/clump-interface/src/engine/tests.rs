//! Tests of the engine alone: good requests, nonsense, and lack of room.

mod forwarding;
mod schedule;
mod services;
mod waits;

use super::execution_context::queue_lock;
use super::{Engine, ReplySink};
use crate::memory::Memory;
use clump_net::REQUEST_COST;
use clump_onesided::protocol::{MAX_PIECE, TAG, ask, atomic_handler, how, tell};
use clump_onesided::{AtomicOp, LockTurn, Refusal, TurnStatus, Width};
use clump_os::map::{Mapping, sealed_memory};
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, OwnedMessage, SendResult};
use proptest::prelude::*;
use std::collections::VecDeque;

const SEGMENT: u64 = 4000;
const RANKS: u32 = 4;
const CREDIT: u64 = 1 << 16;
/// Name of the engine: that of the first interface behind the ranks.
fn engine_name() -> Name {
    Name::new(RANKS, 0, 1)
}

/// Two adjacent segments of rank 0, and bytes around them that belong to no segment.
struct Bench {
    cells: Cells,
    woken: Vec<u32>,
    dead: Vec<u32>,
    watched: u64,
}

impl Bench {
    fn new() -> Self {
        let fd = sealed_memory("bench", 4 * 4096).unwrap();
        let cells = Cells::over(Mapping::shared(&fd, 0, 4 * 4096).unwrap());
        Self { cells, woken: Vec::new(), dead: Vec::new(), watched: 0 }
    }
}

/// The engine's view of a segment: an extent of its own in a longer mapping.
impl Memory for Bench {
    fn segment(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<&Cells, Refusal> {
        let end = offset.checked_add(bytes).ok_or(Refusal::OutOfBounds)?;
        match (name.rank(), name.index(), name.generation()) {
            (0, 0, 1) if end <= SEGMENT => Ok(&self.cells),
            (0, 0, 1) => Err(Refusal::OutOfBounds),
            _ => Err(Refusal::NoSuchSegment),
        }
    }

    fn wake(&mut self, rank: u32) {
        self.woken.push(rank);
    }

    fn wake_all(&mut self) {
        self.woken.push(u32::MAX);
    }

    fn dead(&self) -> Vec<u32> {
        self.dead.clone()
    }

    fn port(&self, port: u64) -> u64 {
        if port == 80 { Name::new(0, 5, 1).to_bits() } else { 0 }
    }

    fn home(&self, name: SegmentName) -> (u32, bool) {
        let rank = name.rank();
        (rank, rank == 0)
    }

    fn watch(&mut self, bit: u32, watched: bool) {
        let mask = 1 << bit;
        self.watched = if watched { self.watched | mask } else { self.watched & !mask };
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    to: Name,
    handler: u8,
    words: Vec<u64>,
    payload: Vec<u8>,
}

#[derive(Default)]
struct Wire {
    answers: Vec<Answer>,
    reports: Vec<(Name, [u64; 2])>,
    asked: Vec<(u32, u8, Vec<u64>, Vec<u8>)>,
    ask_room: usize,
    /// Number of answers that find room before one does not; `None`: all do.
    room: Option<usize>,
}

impl ReplySink for Wire {
    fn answer(&mut self, answer: &Message<'_>) -> bool {
        if let Some(room) = &mut self.room {
            if *room == 0 {
                return false;
            }
            *room -= 1;
        }
        assert_eq!(answer.route.from, engine_name().to_bits());
        let to = Name::from_bits(answer.route.to);
        let OwnedMessage { handler, words, payload, .. } = answer.to_owned();
        self.answers.push(Answer { to, handler, words, payload });
        true
    }

    fn report(&mut self, to: Name, consumed: [u64; 2]) {
        self.reports.push((to, consumed));
    }

    fn ask(&mut self, node: u32, handler: u8, words: &[u64], payload: &[u8]) -> SendResult {
        if self.asked.len() >= self.ask_room {
            return SendResult::Full;
        }
        self.asked.push((node, handler, words.to_vec(), payload.to_vec()));
        SendResult::Sent
    }
}

fn engine() -> Engine<Bench> {
    Engine::new(engine_name(), Bench::new(), RANKS, CREDIT)
}

fn own() -> u64 {
    SegmentName::new(0, 0, 1).to_bits()
}

fn asker(rank: u32) -> Name {
    Name::new(rank, 3, 1)
}

/// Returns the message that carries a request; `deposited` bytes are in the segment already.
fn request(
    from: Name,
    (handler, words): (u8, &[u64]),
    payload: &[u8],
    deposited: u64,
) -> OwnedMessage {
    let route = Route { from: from.to_bits(), to: engine_name().to_bits(), tag: TAG };
    let long = [&[0, deposited], words].concat();
    let (kind, words) = match (deposited, payload.is_empty()) {
        (0, true) => (FrameKind::Short, words),
        (0, false) => (FrameKind::Medium, words),
        _ => (FrameKind::Long, &long[..]),
    };
    Message::request((kind, handler), route, (words, payload)).to_owned()
}

/// Has the engine execute a request of any endpoint.
fn give(
    engine: &mut Engine<Bench>,
    wire: &mut Wire,
    from: Name,
    (handler, words): (u8, &[u64]),
    payload: &[u8],
) {
    engine.handle_request(&request(from, (handler, words), payload, 0).message(), wire);
    engine.check_invariants();
}

fn send(engine: &mut Engine<Bench>, wire: &mut Wire, handler: u8, words: &[u64], payload: &[u8]) {
    give(engine, wire, asker(1), (handler, words), payload);
}

fn add() -> u8 {
    atomic_handler(AtomicOp::Add, Width::Word, true)
}

#[test]
fn who_listens_at_a_port_is_told() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    for (cookie, port) in [(1, 80), (2, 81), (3, u64::MAX)] {
        send(&mut engine, &mut wire, ask::PORT, &[cookie, port], &[]);
    }
    send(&mut engine, &mut wire, ask::PORT, &[4], &[]);
    let told: Vec<_> = wire.answers.iter().map(|a| (a.handler, a.words.clone())).collect();
    let value = |cookie, name| (tell::VALUE, vec![cookie, name]);
    assert_eq!(told, [value(1, Name::new(0, 5, 1).to_bits()), value(2, 0), value(3, 0)]);
}

#[test]
fn a_release_of_a_dead_rank_comes_too_late_once_others_know() {
    for known in [false, true] {
        let (mut engine, mut wire) = (engine(), Wire::default());
        send(&mut engine, &mut wire, ask::LOCK, &[own(), 0, 5, how::WAITS], &[]);
        assert_eq!(wire.answers.pop().map(|answer| answer.handler), Some(tell::GRANTED));
        engine.memory.dead.push(1);
        let turn = |engine: &mut Engine<Bench>, rank| {
            let at = SegmentName::new(0, 0, 1);
            let lock = queue_lock(&mut engine.memory, RANKS, at, 0).unwrap();
            LockTurn::new(rank, 0).poll(lock, |rank| rank == 1)
        };
        if known {
            assert_eq!(turn(&mut engine, 2), TurnStatus::HolderDied);
        }
        send(&mut engine, &mut wire, ask::UNLOCK, &[own(), 0, 0, 0, 9, 0], &[]);
        let after = turn(&mut engine, 3);
        if known {
            assert_eq!(after, TurnStatus::HolderDied);
        } else {
            assert_eq!(after, TurnStatus::Taken(1, 9));
        }
    }
}

#[test]
fn what_is_held_waits_for_as_many_as_it_says_and_no_longer() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let after = |n: u64| [own(), 8, 77, n, n];
    send(&mut engine, &mut wire, add() | ask::AFTER, &after(3), &[]);
    send(&mut engine, &mut wire, add() | ask::AFTER, &after(2), &[]);
    send(&mut engine, &mut wire, ask::QUIET | ask::AFTER, &[5, 4], &[]);
    assert!(wire.answers.is_empty());
    send(&mut engine, &mut wire, add(), &[own(), 8, 1, 10], &[]);
    assert_eq!(wire.answers.len(), 1);
    // The second releases the first, and both release the quiet request.
    send(&mut engine, &mut wire, add(), &[own(), 8, 2, 100], &[]);
    let told: Vec<_> = wire.answers.iter().map(|a| (a.handler, a.words.clone())).collect();
    let quiet = (tell::QUIET, vec![5, 4, 0, Refusal::Unknown as u64, 0, 0]);
    let value = |cookie, value| (tell::VALUE, vec![cookie, value]);
    assert_eq!(told, [value(1, 0), value(2, 10), value(77, 110), value(77, 112), quiet]);
}

#[test]
fn while_an_answer_waits_nothing_more_of_that_endpoint_is_executed() {
    let (mut engine, mut wire) = (engine(), Wire { room: Some(1), ..Wire::default() });
    for cookie in 1..=20 {
        send(&mut engine, &mut wire, add(), &[own(), 0, cookie, 1], &[]);
    }
    assert_eq!((wire.answers.len(), engine.wants_room()), (1, true));
    // Executed: the one that was answered and the one whose answer waits.
    assert_eq!(engine.memory.cells.word(0).unwrap().load(clump_os::sync::Ordering::SeqCst), 2);
    // Another endpoint is not delayed by that.
    wire.room = Some(1);
    give(&mut engine, &mut wire, asker(2), (add(), &[own(), 8, 9, 1]), &[]);
    assert_eq!(wire.answers.last().unwrap().to, asker(2));
    wire.room = None;
    engine.handle_room(&mut wire);
    assert!(!engine.wants_room() && engine.memory_bytes() == 0);
    let cookies: Vec<u64> =
        wire.answers.iter().filter(|a| a.to == asker(1)).map(|a| a.words[0]).collect();
    assert_eq!(cookies, (1..=20).collect::<Vec<u64>>());
}

#[test]
fn what_is_held_is_executed_when_room_comes_though_nothing_else_does() {
    let (mut engine, mut wire) = (engine(), Wire { room: Some(0), ..Wire::default() });
    send(&mut engine, &mut wire, ask::QUIET | ask::AFTER, &[5, 1], &[]);
    send(&mut engine, &mut wire, add(), &[own(), 8, 1, 10], &[]);
    assert!(wire.answers.is_empty() && engine.wants_room());
    wire.room = None;
    engine.handle_room(&mut wire);
    let told: Vec<u64> = wire.answers.iter().map(|a| a.words[0]).collect();
    assert_eq!((told, engine.wants_room()), (vec![1, 5], false));
}

#[test]
fn refusals_without_an_answer_are_counted_and_the_first_is_named() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let silent = atomic_handler(AtomicOp::Add, Width::Word, false);
    send(&mut engine, &mut wire, silent, &[own(), 8, 1], &[]);
    send(&mut engine, &mut wire, silent, &[own(), 12, 1], &[]);
    send(&mut engine, &mut wire, silent, &[own() + 1, 8, 1], &[]);
    send(&mut engine, &mut wire, ask::QUIET | ask::AFTER, &[7, 3], &[]);
    let misaligned = Refusal::Misaligned as u64;
    assert_eq!(wire.answers[0].words, [7, 3, 2, misaligned, own(), 12]);
}

#[test]
fn consumption_is_reported_by_itself_and_when_asked() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let each = REQUEST_COST + 1000;
    let due = CREDIT / 4 / each + 1;
    for _ in 0..due {
        send(&mut engine, &mut wire, ask::PUT, &[own(), 0, 0], &[1; 1000]);
    }
    assert_eq!(wire.reports, [(asker(1), [due * each, 0])]);
    engine.handle_credit_request(asker(1), ((due + 1) * each, 0), &mut wire);
    assert_eq!(wire.reports.len(), 1);
    send(&mut engine, &mut wire, ask::PUT, &[own(), 0, 0], &[1; 1000]);
    assert_eq!(wire.reports.last().unwrap().1, [(due + 1) * each, 0]);
}

#[test]
fn credit_is_granted_and_comes_back_from_requesters_that_do_nothing() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let (all, total) = (96 << 20, u64::MAX);
    for (asker_of, granted) in [(1, CREDIT + all), (2, 0), (2, CREDIT + all)] {
        engine.handle_credit_request(asker(asker_of), (total, CREDIT + all), &mut wire);
        let last = wire.reports.iter().rfind(|(to, _)| *to == asker(asker_of));
        assert_eq!(last.map_or(0, |(_, words)| words[1]), granted, "{:?}", wire.reports);
    }
    assert!(wire.reports.contains(&(asker(1), [0, CREDIT])), "{:?}", wire.reports);
    // An endpoint that opens anew leaves what its place had.
    let anew = Name::new(asker(2).rank(), asker(2).index(), asker(2).generation() + 1);
    give(&mut engine, &mut wire, anew, (add(), &[own(), 0, 1, 1]), &[]);
    engine.handle_credit_request(asker(1), (total, CREDIT + all), &mut wire);
    assert_eq!(wire.reports.last(), Some(&(asker(1), [0, CREDIT + all])));
}

#[test]
fn an_endpoint_that_opens_anew_begins_anew_and_strangers_leave_nothing() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let mut ask = |from: Name, handler: u8, words: &[u64]| {
        give(&mut engine, &mut wire, from, (handler, words), &[]);
        (engine.accounts.len(), engine.memory_bytes())
    };
    assert_eq!(ask(Name::new(1, 3, 1), ask::QUIET | ask::AFTER, &[1, 9]), (1, 16));
    assert_eq!(ask(Name::new(1, 3, 2), add(), &[own(), 0, 1, 1]), (1, 0));
    assert_eq!(ask(Name::new(1, 3, 1), add(), &[own(), 0, 1, 1]), (1, 0));
    assert_eq!(ask(Name::new(RANKS, 3, 1), add(), &[own(), 0, 1, 1]), (1, 0));
    assert_eq!(ask(Name::new(1, 32, 1), add(), &[own(), 0, 1, 1]), (1, 0));
    assert_eq!(wire.answers.len(), 1);
}

#[test]
fn a_release_that_is_refused_late_is_no_failure_of_the_endpoint_that_opened_anew() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let mut ask = |engine: &mut Engine<Bench>, from: Name, handler: u8, words: &[u64]| {
        give(engine, &mut wire, from, (handler, words), &[]);
        wire.answers.pop().map(|answer| answer.words)
    };
    // Rank 1 passes the lock to rank 2, which gives it back before the home has heard of it.
    ask(&mut engine, asker(1), ask::LOCK, &[own(), 64, 11, how::STAYS]);
    ask(&mut engine, asker(2), ask::LOCK, &[own(), 64, 12, how::STAYS]);
    ask(&mut engine, asker(2), ask::UNLOCK, &[own(), 64, 0, 1, 7, 0]);
    // Its endpoint opens anew, and the report of rank 1 dies with that rank.
    let anew = Name::new(2, 3, 2);
    assert!(ask(&mut engine, anew, add(), &[own(), 0, 1, 1]).is_some());
    engine.memory.dead.push(1);
    engine.forget(1);
    engine.check_invariants();
    let told = ask(&mut engine, anew, ask::QUIET | ask::AFTER, &[5, 1]);
    assert_eq!(told, Some(vec![5, 1, 0, Refusal::Unknown as u64, 0, 0]));
}

/// Words near valid ones, and far from them.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(own()),
        4 => (0..500_u64).prop_map(|at| at * 8),
        2 => 0..SEGMENT + 100,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        3 => 0..6_u64,
    ]
}

#[derive(Debug, Clone)]
struct Wild {
    from: Name,
    handler: u8,
    words: Vec<u64>,
    payload: usize,
    deposited: u64,
}

fn wild() -> impl Strategy<Value = Wild> {
    let from =
        prop_oneof![9 => (1..RANKS).prop_map(asker), 1 => any::<u64>().prop_map(Name::from_bits)];
    let handler = prop_oneof![4 => 0..12_u8, 4 => 0x20..0x60_u8, 1 => any::<u8>()];
    let words = proptest::collection::vec(word(), 0..9).prop_map(|mut words| {
        // Most name the segment first, as valid requests do.
        if words.len() > 2 && words.len() % 3 != 0 {
            words[0] = own();
        }
        words
    });
    let payload = prop_oneof![3 => 0..64_usize, 1 => 0..MAX_PIECE * 2];
    (from, handler, words, payload, any::<u64>()).prop_map(
        |(from, handler, words, payload, deposited)| Wild {
            from,
            handler,
            words,
            payload,
            deposited,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn nothing_outside_is_touched_and_all_is_counted(
        requests in proptest::collection::vec(wild(), 1..60),
        room in 0..8_usize,
    ) {
        let mut engine = engine();
        let outside = (SEGMENT..4 * 4096).collect::<Vec<u64>>();
        let bytes = [0xa5; 4 * 4096 - SEGMENT as usize];
        engine.memory.cells.write(SEGMENT, &bytes);
        let mut wire = Wire { room: Some(room), ..Wire::default() };
        let payload = [7; MAX_PIECE * 2];
        let mut kept = VecDeque::new();
        for wild in &requests {
            let Wild { from, handler, words, payload: len, deposited } = wild;
            let request = request(*from, (*handler, words), &payload[..*len], *deposited);
            engine.handle_request(&request.message(), &mut wire);
            engine.check_invariants();
            engine.handle_waits(&mut wire);
            engine.check_invariants();
            kept.push_back(engine.memory_bytes());
        }
        let sent: usize = requests.iter().map(|r| (r.words.len() + 2) * 8 + r.payload).sum();
        // At most the requested bytes are kept, and one answer for each requester.
        let most = sent + RANKS as usize * (MAX_PIECE + 64);
        prop_assert!(kept.iter().all(|kept| *kept <= most));
        wire.room = None;
        engine.handle_room(&mut wire);
        prop_assert!(!engine.wants_room());
        let mut after = vec![0; outside.len()];
        engine.memory.cells.read(SEGMENT, &mut after);
        prop_assert!(after == bytes, "something outside of the segment has changed");
        // The engine still serves, whatever it was sent.
        for rank in 1..RANKS {
            let words = [own(), 0, 0xdead_beef];
            let from = asker(rank);
            let handler = atomic_handler(AtomicOp::Load, Width::Word, true);
            give(&mut engine, &mut wire, from, (handler, &words), &[]);
            // Others may have waited for it.
            let mut late = wire.answers.drain(..);
            let served = late.any(|a| {
                (a.to, a.handler, a.words[0]) == (from, tell::VALUE, 0xdead_beef)
            });
            prop_assert!(served, "rank {} is not served any more", rank);
        }
        for rank in 0..RANKS {
            engine.forget(rank);
            engine.check_invariants();
        }
        prop_assert!(!engine.has_waits());
    }
}
