//! Tests of services at an engine: against a sequential model, without room, and with a service
//! that requests too much or never answers.

use super::{Bench, CREDIT, RANKS, SEGMENT, Wire, asker, engine, engine_name, give, own, send};
use crate::engine::{Engine, EngineCounts};
use crate::service::{
    Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Services, Ticket, Wakeup,
};
use clump_onesided::protocol::{FREE_CODE, MAX_PIECE, ask, atomic_handler, code, tell};
use clump_onesided::{AdvanceWord, AtomicOp, Comparison, Range, Refusal, Update, Width};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::export::{SegmentName, watch_bit};
use clump_shm::name::Name;
use proptest::prelude::*;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Words of the model: the whole words of the segment.
const WORDS: u64 = SEGMENT / 8;

pub(super) fn wire() -> Wire {
    Wire { ask_room: usize::MAX, ..Wire::default() }
}

fn none() -> EngineCounts {
    EngineCounts::default()
}

pub(super) fn word(engine: &Engine<Bench>, offset: u64) -> u64 {
    engine.memory.cells.word(offset).unwrap().load(Ordering::SeqCst)
}

/// Sends requests from another rank than [`send`] does, which watches nothing.
pub(super) fn by_other(
    engine: &mut Engine<Bench>,
    wire: &mut Wire,
    handler: u8,
    words: &[u64],
    load: &[u8],
) {
    give(engine, wire, asker(2), (handler, words), load);
}

fn when(engine: &mut Engine<Bench>, wire: &mut Wire, cookie: u64, offset: u64, value: u64) {
    let words = [own(), offset, cookie, Comparison::AtLeast as u64, value];
    send(engine, wire, code::WHEN, &words, &[]);
}

pub(super) fn told(wire: &mut Wire) -> Vec<(u8, Vec<u64>)> {
    wire.answers.drain(..).map(|answer| (answer.handler, answer.words)).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Update(usize, u64, Vec<(u32, u64)>),
    Read(u64, Vec<u32>),
    Gather(Vec<(u64, u64)>),
    Apply(Vec<(u64, Vec<u8>)>, Vec<(u64, u64, bool)>),
}

fn step() -> impl Strategy<Value = Step> {
    let index = || 0..WORDS as u32 + 4;
    let base = || prop_oneof![8 => (0..8_u64).prop_map(|n| n * 8), 1 => 1..16_u64];
    let at = || 0..SEGMENT + 8;
    let updates = prop::collection::vec((index(), any::<u64>()), 0..20);
    let advance = (
        prop_oneof![9 => (0..WORDS + 1).prop_map(|n| n * 8), 1 => at()],
        any::<u64>(),
        any::<bool>(),
    );
    prop_oneof![
        (0..12_usize, base(), updates).prop_map(|(op, base, all)| Step::Update(op, base, all)),
        (base(), prop::collection::vec(index(), 0..20))
            .prop_map(|(base, all)| Step::Read(base, all)),
        prop::collection::vec((at(), 0..64_u64), 0..6).prop_map(Step::Gather),
        (
            prop::collection::vec((at(), prop::collection::vec(any::<u8>(), 0..40)), 0..5),
            prop::collection::vec(advance, 0..4)
        )
            .prop_map(|(runs, advances)| Step::Apply(runs, advances)),
    ]
}

/// The segment as bytes, and what an operation does to them, one after the other.
struct Sequential(Vec<u8>);

impl Sequential {
    fn get(&self, at: u64) -> u64 {
        let at = at as usize;
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    fn set(&mut self, at: u64, value: u64) {
        self.0[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn update(&mut self, op: AtomicOp, base: u64, all: &[(u32, u64)]) -> bool {
        let batched = !matches!(op, AtomicOp::Load | AtomicOp::Swap | AtomicOp::CompareSwap);
        let inside = |index: u32| base + u64::from(index) * 8 + 8 <= SEGMENT;
        let fits = all.iter().all(|(index, _)| inside(*index));
        if !batched || !all.is_empty() && (!fits || !base.is_multiple_of(8)) {
            return false;
        }
        for &(index, operand) in all {
            let at = base + u64::from(index) * 8;
            let was = self.get(at);
            let is = match op {
                AtomicOp::Store => operand,
                AtomicOp::Add => was.wrapping_add(operand),
                AtomicOp::And => was & operand,
                AtomicOp::Or => was | operand,
                AtomicOp::Xor => was ^ operand,
                AtomicOp::Min => was.min(operand),
                AtomicOp::Max => was.max(operand),
                AtomicOp::MinSigned if operand as i64 > was as i64 => was,
                AtomicOp::MaxSigned if (operand as i64) < was as i64 => was,
                _ => operand,
            };
            self.set(at, is);
        }
        true
    }

    fn read(&self, base: u64, all: &[u32]) -> Option<Vec<u8>> {
        let place = |index: &u32| base + u64::from(*index) * 8;
        if !base.is_multiple_of(8) || all.iter().any(|index| place(index) + 8 > SEGMENT) {
            return None;
        }
        Some(all.iter().flat_map(|index| self.get(place(index)).to_le_bytes()).collect())
    }

    fn gather(&self, all: &[(u64, u64)]) -> Option<Vec<u8>> {
        if all.iter().any(|(at, bytes)| at + bytes > SEGMENT) {
            return None;
        }
        let range = |(at, bytes): &(u64, u64)| *at as usize..(at + bytes) as usize;
        Some(all.iter().flat_map(|one| self.0[range(one)].to_vec()).collect())
    }

    fn apply(&mut self, runs: &[(u64, Vec<u8>)], advances: &[(u64, u64, bool)]) -> bool {
        let outside = |at: u64, bytes: usize| at + bytes as u64 > SEGMENT;
        if runs.iter().any(|(at, bytes)| outside(*at, bytes.len()))
            || advances.iter().any(|(at, ..)| outside(*at, 8) || !at.is_multiple_of(8))
        {
            return false;
        }
        for (at, bytes) in runs {
            self.0[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
        }
        for &(at, value, adds) in advances {
            let was = if adds { self.get(at) } else { 0 };
            self.set(at, was.wrapping_add(value));
        }
        true
    }
}

/// Runs a step at the engine and in the model; both must agree about result and refusal.
fn run(engine: &mut Engine<Bench>, wire: &mut Wire, model: &mut Sequential, step: &Step) {
    let name = own();
    let expected: Option<Vec<u8>> = match step {
        Step::Update(op, base, all) => {
            let op = AtomicOp::ALL[*op];
            let load: Vec<_> = all.iter().map(|(at, value)| Update::new(*at, *value)).collect();
            if op == AtomicOp::Load {
                return; // its payload would be indexes
            }
            send(engine, wire, code::BATCH, &[name, *base, 7, op as u64], load.as_bytes());
            model.update(op, *base, all).then(Vec::new)
        }
        Step::Read(base, all) => {
            let load = all.as_bytes();
            send(engine, wire, code::BATCH, &[name, *base, 7, AtomicOp::Load as u64], load);
            model.read(*base, all).filter(|_| base.is_multiple_of(8))
        }
        Step::Gather(all) => {
            let load: Vec<_> = all.iter().map(|(at, bytes)| Range::new(*at, *bytes)).collect();
            send(engine, wire, code::GATHER, &[name, 0, 7], load.as_bytes());
            model.gather(all)
        }
        Step::Apply(runs, advances) => {
            let ranges: Vec<_> =
                runs.iter().map(|(at, bytes)| Range::new(*at, bytes.len() as u64)).collect();
            let by = |&(at, value, adds): &(u64, u64, bool)| {
                if adds { AdvanceWord::by(at, value) } else { AdvanceWord::to(at, value) }
            };
            let all: Vec<_> = advances.iter().map(by).collect();
            let mut load = [ranges.as_bytes(), all.as_bytes()].concat();
            runs.iter().for_each(|(_, bytes)| load.extend_from_slice(bytes));
            let words = [name, 0, 7, runs.len() as u64, advances.len() as u64];
            send(engine, wire, code::APPLY, &words, &load);
            model.apply(runs, advances).then(Vec::new)
        }
    };
    let answer = wire.answers.pop().expect("each request has an answer");
    match expected {
        Some(bytes) => {
            assert_ne!(answer.handler, tell::FAILED, "{step:?}");
            assert_eq!(answer.payload, bytes, "{step:?}");
        }
        None => assert_eq!(answer.handler, tell::FAILED, "{step:?}"),
    }
}

proptest! {
    #[test]
    fn services_do_what_a_sequential_model_does(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (mut engine, mut wire) = (engine(), wire());
        let mut model = Sequential(vec![0; SEGMENT as usize]);
        for step in &steps {
            run(&mut engine, &mut wire, &mut model, step);
        }
        let mut all = vec![0; SEGMENT as usize];
        engine.memory.cells.read(0, &mut all);
        prop_assert_eq!(all, model.0);
    }

    #[test]
    fn nonsense_to_services_is_refused_and_counted(
        requests in prop::collection::vec(
            (0x60_u8..0x80, prop::collection::vec(any::<u64>(), 0..7),
             prop::collection::vec(any::<u8>(), 0..100)), 1..50),
    ) {
        let (mut engine, mut wire) = (engine(), wire());
        for (handler, words, payload) in &requests {
            send(&mut engine, &mut wire, *handler, words, payload);
        }
        send(&mut engine, &mut wire, ask::QUIET, &[5], &[]);
        let last = wire.answers.pop().unwrap();
        prop_assert_eq!(engine.counts().executed, requests.len() as u64 + 1);
        let quiet = (last.handler, last.words[1]);
        prop_assert_eq!(quiet, (tell::QUIET, requests.len() as u64));
    }
}

#[test]
fn each_kind_of_change_answers_who_waits_for_the_word() {
    let value = |cookie, value: u64| (tell::VALUE, vec![cookie, value]);
    let (mut engine, mut wire) = (engine(), wire());
    let silent = |op| atomic_handler(op, Width::Word, false);
    let update = [Update::new(0, 10)];
    let apply = [AdvanceWord::by(64, 10)];
    let put = 60_u64.to_le_bytes();
    type Change<'a> = (u8, Vec<u64>, &'a [u8]);
    let changes: [Change<'_>; 7] = [
        (silent(AtomicOp::Add), vec![own(), 64, 10], &[]),
        (code::BATCH, vec![own(), 64, 0, AtomicOp::Add as u64], update.as_bytes()),
        (code::APPLY, vec![own(), 0, 0, 0, 1], apply.as_bytes()),
        (ask::PUT, vec![own(), 8, 0, own(), 64, 10, 1], &[7]),
        (ask::SET, vec![own(), 64, 0, 1, 10], &[]),
        (ask::PUT, vec![own(), 64, 0], &put),
        (ask::PUT_STRIDED, vec![own(), 56, 0, 8, 8], &[70; 16]),
    ];
    for (n, (handler, words, load)) in (1..).zip(&changes) {
        let all = if n == 7 { u64::from_le_bytes([70; 8]) } else { n * 10 };
        when(&mut engine, &mut wire, n, 64, n * 10);
        // Changes of other words, and too small ones, cause no answer.
        by_other(&mut engine, &mut wire, silent(AtomicOp::Add), &[own(), 72, 1], &[]);
        by_other(&mut engine, &mut wire, silent(AtomicOp::Or), &[own(), 64, 0], &[]);
        assert!(told(&mut wire).is_empty() && engine.has_watches(), "change {n}");
        by_other(&mut engine, &mut wire, *handler, words, load);
        assert_eq!(told(&mut wire), [value(n, all)], "change {n}");
        assert!(!engine.has_watches() && engine.memory.watched == 0, "change {n}");
    }
    let counts = EngineCounts { executed: 28, refused: 0, services: 9, later: 7, ..none() };
    assert_eq!(engine.counts(), counts, "of each change, one wait and three others");
}

#[test]
fn a_rank_of_the_node_is_told_what_is_watched_and_what_it_changes_answers() {
    let (mut engine, mut wire) = (engine(), wire());
    when(&mut engine, &mut wire, 1, 64, 5);
    when(&mut engine, &mut wire, 2, 64, 6);
    let bit = watch_bit(SegmentName::new(0, 0, 1), 64);
    assert_eq!(engine.memory.watched, 1 << bit);
    engine.memory.cells.word(64).unwrap().store(5, Ordering::SeqCst);
    engine.handle_changes(!(1 << bit), &mut wire);
    assert!(told(&mut wire).is_empty());
    engine.handle_changes(1 << bit, &mut wire);
    assert_eq!(told(&mut wire), [(tell::VALUE, vec![1, 5])]);
    assert_eq!(engine.memory.watched, 1 << bit, "the other waits on");
    send(&mut engine, &mut wire, ask::CANCEL, &[2], &[]);
    let failed = vec![2, Refusal::TimedOut as u64, own(), 64];
    assert_eq!(told(&mut wire), [(tell::FAILED, failed)]);
    assert_eq!((engine.memory.watched, engine.memory_bytes()), (0, 0));
}

#[test]
fn an_endpoint_waits_for_few_words_and_a_dead_rank_for_none() {
    let (mut engine, mut wire) = (engine(), wire());
    for cookie in 1..=70 {
        when(&mut engine, &mut wire, cookie, 64, 5);
    }
    let refused = told(&mut wire);
    assert_eq!(refused.len(), 6);
    assert!(refused.iter().all(|(_, words)| words[1] == Refusal::Overloaded as u64));
    assert!(engine.memory_bytes() > 0);
    engine.forget(1);
    assert!(!engine.has_watches());
    assert_eq!((engine.memory.watched, engine.memory_bytes()), (0, 0));
    engine.memory.cells.word(64).unwrap().store(5, Ordering::SeqCst);
    engine.handle_changes(u64::MAX, &mut wire);
    assert!(told(&mut wire).is_empty());
    // An endpoint that opens anew takes the place of the one before, and of its requests.
    when(&mut engine, &mut wire, 1, 64, 9);
    let from = Name::new(1, 3, 2);
    give(&mut engine, &mut wire, from, (ask::QUIET, &[3]), &[]);
    assert!(!engine.has_watches());
}

/// A service that never answers by itself, and one that requests more than it may.
struct Odd(Arc<AtomicU64>);

impl Service for Odd {
    fn id(&self) -> ServiceId {
        ServiceId { name: "odd", version: 1, first: FREE_CODE, count: 3 }
    }

    fn handle(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        match request.code - FREE_CODE {
            0 => {
                self.0.fetch_add(1, Ordering::SeqCst);
                ServiceOutcome::Later
            }
            1 => {
                let place = (request.segment, 0);
                let mut ask = || context.ask(2, code::BATCH, place, &[4], Vec::new());
                let asked = (0..1000).map_while(|_| ask().ok()).count();
                self.0.fetch_add(1, Ordering::SeqCst);
                if asked == 1000 { ServiceOutcome::Done } else { ServiceOutcome::Later }
            }
            _ => {
                context.bytes().resize(MAX_PIECE, 1);
                ServiceOutcome::Bytes
            }
        }
    }

    fn resume(&mut self, _: Ticket, _: Wakeup<'_>, _: &mut ServiceContext<'_>) -> ServiceOutcome {
        ServiceOutcome::Later
    }

    fn forget(&mut self, _: Ticket) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn memory_bytes(&self) -> usize {
        self.0.load(Ordering::SeqCst) as usize
    }

    fn memory_bound(&self) -> usize {
        3
    }
}

fn odd() -> (Engine<Bench>, Arc<AtomicU64>) {
    let kept = Arc::new(AtomicU64::new(0));
    let mut services = Services::default();
    services.add(Box::new(Odd(kept.clone()))).unwrap();
    let engine =
        Engine::new(engine_name(), Bench::new(), RANKS, CREDIT).with_services(services, RANKS);
    (engine, kept)
}

#[test]
fn who_is_never_answered_can_cancel_and_quiet_does_not_wait_for_ever() {
    let ((mut engine, kept), mut wire) = (odd(), wire());
    for cookie in 1..=4 {
        send(&mut engine, &mut wire, FREE_CODE, &[own(), 8, cookie], &[]);
    }
    // The fourth is beyond the bound that the service states.
    let why = Refusal::Overloaded as u64;
    assert_eq!(told(&mut wire), [(tell::FAILED, vec![4, why, own(), 8])]);
    send(&mut engine, &mut wire, ask::QUIET | ask::AFTER, &[9, 4], &[]);
    assert_eq!(told(&mut wire)[0].0, tell::QUIET);
    send(&mut engine, &mut wire, ask::CANCEL, &[2], &[]);
    let failed = vec![2, Refusal::TimedOut as u64, own(), 8];
    assert_eq!(told(&mut wire), [(tell::FAILED, failed)]);
    assert_eq!(kept.load(Ordering::SeqCst), 2);
    // Without an answer it could not be cancelled: it is refused, and `quiet` reports that.
    send(&mut engine, &mut wire, FREE_CODE, &[own(), 8, 0], &[]);
    send(&mut engine, &mut wire, ask::QUIET | ask::AFTER, &[9, 5], &[]);
    assert_eq!(told(&mut wire), [(tell::QUIET, vec![9, 5, 1, why, own(), 8])]);
    engine.forget(1);
    assert_eq!((kept.load(Ordering::SeqCst), engine.memory_bytes()), (0, 0));
}

#[test]
fn a_service_that_asks_too_much_is_stopped_and_all_end_with_their_rank() {
    let ((mut engine, kept), mut wire) = (odd(), wire());
    send(&mut engine, &mut wire, FREE_CODE + 1, &[own(), 8, 1], &[]);
    assert_eq!((wire.asked.len(), kept.load(Ordering::SeqCst)), (256, 1));
    send(&mut engine, &mut wire, FREE_CODE + 1, &[own(), 8, 2], &[]);
    assert_eq!(wire.asked.len(), 256, "no more are under way");
    engine.forget(1);
    engine.check_invariants();
    assert_eq!(kept.load(Ordering::SeqCst), 0);
    let cookie = wire.asked[0].2[2];
    engine.handle_answer(cookie, Ok(&[]), &mut wire);
    assert!(told(&mut wire).is_empty());
}

#[test]
fn an_answer_without_room_is_kept_and_sent() {
    let ((mut engine, _), mut wire) = (odd(), Wire { room: Some(0), ..wire() });
    send(&mut engine, &mut wire, FREE_CODE + 2, &[own(), 8, 1], &[]);
    when(&mut engine, &mut wire, 2, 64, 0);
    assert!(engine.wants_room() && wire.answers.is_empty());
    wire.room = None;
    engine.handle_room(&mut wire);
    let all: Vec<_> = wire.answers.iter().map(|a| (a.words[0], a.payload.len())).collect();
    assert_eq!(all, [(1, MAX_PIECE), (2, 0)]);
}
