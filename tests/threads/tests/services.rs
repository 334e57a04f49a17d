//! Operations that services of interfaces execute: against a model, and waits for words.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests give up where something fails")]

use clump_rma::{
    AdvanceWord, AtomicOp, Comparison, Range, Refusal, RegionOptions, Rma, SegmentName,
    SpreadUpdate, Target, Update,
};
use clump_test_bed::{Sampler, Seat, Shape, run};
use clump_transport::Dispatch;
use std::time::Duration;

const WORDS: u64 = 512;
const BYTES: u64 = WORDS * 8;
const OPS: [AtomicOp; 9] = [
    AtomicOp::Store,
    AtomicOp::Add,
    AtomicOp::And,
    AtomicOp::Or,
    AtomicOp::Xor,
    AtomicOp::Min,
    AtomicOp::Max,
    AtomicOp::MinSigned,
    AtomicOp::MaxSigned,
];

fn shapes() -> Vec<Shape> {
    vec![
        Shape::of(2, 1),
        Shape::of(2, 2),
        Shape::of(3, 3).troubled(),
        Shape::of(3, 2).troubled(),
        Shape::of(3, 2).by_proxies(1, Dispatch::Fixed),
        Shape::of(4, 2).by_proxies(2, Dispatch::LeastLoaded),
    ]
}

fn everywhere(body: impl Fn(&Seat) + Clone + Send + 'static) {
    for (seed, shape) in (1..).zip(shapes()) {
        run(&shape, seed, body.clone());
    }
}

/// Bytes of a segment that one rank alone changes.
struct Model(Vec<u8>);

impl Model {
    fn get(&self, at: u64) -> u64 {
        let at = at as usize;
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.0[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn change(&mut self, op: AtomicOp, at: u64, by: u64) {
        let word = self.get(at);
        let word = match op {
            AtomicOp::Store => by,
            AtomicOp::Add => word.wrapping_add(by),
            AtomicOp::And => word & by,
            AtomicOp::Or => word | by,
            AtomicOp::Xor => word ^ by,
            AtomicOp::Min => word.min(by),
            AtomicOp::Max => word.max(by),
            AtomicOp::MinSigned if by as i64 > word as i64 => word,
            AtomicOp::MaxSigned if (by as i64) < word as i64 => word,
            AtomicOp::MinSigned | AtomicOp::MaxSigned => by,
            _ => panic!("has a result, or other numbers"),
        };
        self.write(at, &word.to_le_bytes());
    }
}

fn update(next: &Target, model: &mut Model, sampler: &mut Sampler) {
    let (base, mut op) = (sampler.below(WORDS), OPS[sampler.below(OPS.len() as u64) as usize]);
    let mut most = 40;
    if sampler.below(8) == 0 {
        // More than one request holds; no order among requests, so the operations commute.
        most = 3 * Update::MOST as u64;
        op = if op == AtomicOp::Store { AtomicOp::Add } else { op };
    }
    let mut all = Vec::new();
    for _ in 0..sampler.below(most) {
        let (index, by) = (sampler.below(WORDS - base), sampler.below(u64::MAX));
        all.push(Update::new(index as u32, by));
        model.change(op, (base + index) * 8, by);
    }
    next.update_many(base * 8, op, &all).unwrap();
}

fn apply(next: &Target, model: &mut Model, sampler: &mut Sampler) {
    let mut runs = Vec::new();
    for _ in 0..sampler.below(5) {
        let bytes = sampler.below(300);
        let at = sampler.below(BYTES - bytes);
        runs.push((at, vec![sampler.below(256) as u8; bytes as usize]));
    }
    let mut advances = Vec::new();
    runs.iter().for_each(|(at, bytes)| model.write(*at, bytes));
    for _ in 0..sampler.below(4) {
        let (at, value) = (sampler.below(WORDS) * 8, sampler.below(u64::MAX));
        let adds = sampler.below(2) == 0;
        let advance = if adds { AdvanceWord::by } else { AdvanceWord::to };
        advances.push(advance(at, value));
        model.change(if adds { AtomicOp::Add } else { AtomicOp::Store }, at, value);
    }
    let runs: Vec<_> = runs.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
    next.apply(&runs, &advances).unwrap();
}

fn read(next: &Target, model: &Model, sampler: &mut Sampler) {
    let base = sampler.below(WORDS);
    let count = if sampler.below(8) == 0 { 5000 } else { sampler.below(50) };
    let indexes: Vec<_> = (0..count).map(|_| sampler.below(WORDS - base) as u32).collect();
    let mut words = vec![0; indexes.len()];
    next.get_many(base * 8, &indexes, &mut words).unwrap();
    for (index, word) in indexes.iter().zip(words) {
        assert_eq!(word, model.get((base + u64::from(*index)) * 8), "{index} from {base}");
    }
}

fn gather(next: &Target, model: &Model, sampler: &mut Sampler) {
    let (mut ranges, mut expected) = (Vec::new(), Vec::new());
    let count = if sampler.below(8) == 0 { 1500 } else { sampler.below(20) };
    for _ in 0..count {
        let bytes = sampler.below(100);
        let at = sampler.below(BYTES - bytes);
        ranges.push(Range::new(at, bytes));
        expected.extend_from_slice(&model.0[at as usize..(at + bytes) as usize]);
    }
    let mut got = vec![0; expected.len()];
    next.gather(&ranges, &mut got).unwrap();
    assert!(got == expected, "{ranges:?}");
}

#[test]
fn random_programs_leave_what_the_model_has() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (_mine, all) = seat.allocate(&rma, BYTES);
        let next = &all[(seat.rank() + 1) % seat.ranks()];
        let mut sampler = Sampler::new(seat.rank() as u64 + 17);
        let mut model = Model(vec![0; BYTES as usize]);
        for _ in 0..clump_test_tier::pick(50, 150) {
            match sampler.below(6) {
                0 | 1 => update(next, &mut model, &mut sampler),
                2 => apply(next, &mut model, &mut sampler),
                3 => {
                    let at = sampler.below(WORDS) * 8;
                    // What was asked before is executed before.
                    let word = model.get(at);
                    assert_eq!(next.when(at, Comparison::Equal, word).unwrap(), word);
                }
                reading => {
                    rma.quiet().unwrap();
                    let look = if reading == 4 { read } else { gather };
                    look(next, &model, &mut sampler);
                }
            }
            rma.fence();
        }
        rma.quiet().unwrap();
        let mut got = vec![0; BYTES as usize];
        next.get_bytes(0, &mut got).unwrap();
        assert!(got == model.0);
        seat.meet();
    });
}

#[test]
fn what_is_outside_is_refused_and_changes_nothing() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (_mine, all) = seat.allocate(&rma, 64);
        let next = &all[(seat.rank() + 1) % seat.ranks()];
        let why = |result: clump_rma::Result<()>| {
            let error = result.and_then(|()| rma.quiet()).unwrap_err();
            error.why().unwrap()
        };
        let both = [Update::new(0, 1), Update::new(1 << 30, 1)];
        assert_eq!(why(next.update_many(8, AtomicOp::Add, &both)), Refusal::OutOfBounds);
        assert_eq!(why(next.update_many(4, AtomicOp::Add, &both[..1])), Refusal::Misaligned);
        assert_eq!(why(next.update_many(8, AtomicOp::Swap, &both[..1])), Refusal::Unknown);
        assert_eq!(why(next.update_halves(8, AtomicOp::Add, &both)), Refusal::OutOfBounds);
        assert_eq!(why(next.update_halves(2, AtomicOp::Add, &both[..1])), Refusal::Misaligned);
        assert_eq!(why(next.update_halves(8, AtomicOp::Swap, &both[..1])), Refusal::Unknown);
        assert_eq!(why(next.get_many(0, &[0, 1 << 30], &mut [0; 2])), Refusal::OutOfBounds);
        let ranges = [Range::new(0, 8), Range::new(1 << 30, 8)];
        assert_eq!(why(next.gather(&ranges, &mut [0; 16])), Refusal::OutOfBounds);
        let runs: [(u64, &[u8]); 2] = [(0, &[1; 8]), (1 << 30, &[1; 8])];
        assert_eq!(why(next.apply(&runs, &[AdvanceWord::to(8, 1)])), Refusal::OutOfBounds);
        let odd = AdvanceWord::by(12, 1);
        assert_eq!(why(next.apply(&runs[..1], &[odd])), Refusal::Misaligned);
        assert_eq!(why(next.apply(&[(0, &[1; 1 << 14])], &[])), Refusal::Overloaded);
        let waited = next.when(1 << 30, Comparison::Equal, 0).map(drop);
        assert_eq!(why(waited), Refusal::OutOfBounds);
        let mut got = [1; 64];
        next.get_bytes(0, &mut got).unwrap();
        assert_eq!(got, [0; 64]);
        seat.meet();
    });
}

#[test]
fn a_wait_ends_once_the_word_changes_in_any_way() {
    let turns = clump_test_tier::pick(40, 120);
    everywhere(move |seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (_mine, all) = seat.allocate(&rma, BYTES);
        let (own, next) = (&all[seat.rank()], &all[(seat.rank() + 1) % seat.ranks()]);
        let before = &all[(seat.rank() + seat.ranks() - 1) % seat.ranks()];
        let change = |turn: u64| match turn % 5 {
            0 => own.apply(&[(64, &[turn as u8; 100])], &[AdvanceWord::to(0, turn)]).unwrap(),
            1 => own.signal(0, turn, false).unwrap(),
            2 => {
                own.put(0, turn).unwrap();
                own.notify(0);
            }
            // By the interface, unless it is near.
            3 => before.update_many(8, AtomicOp::Max, &[Update::new(0, turn)]).unwrap(),
            _ => before.put(8, turn).unwrap(),
        };
        let wait = |turn: u64| match turn % 5 {
            3 | 4 => {
                let at_least = Comparison::AtLeast;
                // Plain stores of ranks of its node are not noticed: it looks again.
                let limit = Some(Duration::from_millis(5));
                while own.when_within(8, at_least, turn, limit).unwrap().is_none() {}
            }
            _ => assert!(next.when(0, Comparison::AtLeast, turn).unwrap() >= turn),
        };
        for turn in 1..=turns {
            if (turn + seat.rank() as u64).is_multiple_of(2) && seat.rank() > 0 {
                wait(turn);
                change(turn);
            } else {
                change(turn);
                wait(turn);
            }
            if turn % 5 == 0 {
                let mut got = [0; 100];
                next.get_bytes(64, &mut got).unwrap();
                assert!(got.iter().all(|byte| u64::from(*byte) >= turn), "turn {turn}");
            }
            rma.fence();
        }
        rma.quiet().unwrap();
        seat.meet();
    });
}

#[test]
fn a_wait_with_a_limit_ends_and_leaves_nothing() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (_mine, all) = seat.allocate(&rma, 64);
        let next = &all[(seat.rank() + 1) % seat.ranks()];
        // More of them than the interface keeps of one endpoint at one time.
        for _ in 0..150 {
            let limit = Some(Duration::from_micros(200));
            let seen = next.when_within(8, Comparison::NotEqual, 0, limit).unwrap();
            assert_eq!(seen, None);
        }
        rma.quiet().unwrap();
        seat.meet();
        next.apply(&[], &[AdvanceWord::by(8, 3)]).unwrap();
        assert_eq!(next.when(8, Comparison::NotEqual, 0).unwrap(), 3);
        seat.meet();
    });
}

#[test]
fn spread_updates_are_executed_once_each_wherever_they_belong() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (mine, all) = seat.allocate(&rma, BYTES);
        let own_node = seat.node();
        let nodes = seat.context.node().nnodes();
        for via in [own_node, nodes, u32::MAX] {
            let refused = rma.spread(via, AtomicOp::Add, &[]).unwrap_err();
            assert_eq!(refused.why(), Some(Refusal::Unknown));
        }
        let vias: Vec<u32> = (0..nodes).filter(|via| *via != own_node).collect();
        let turns = 30;
        for via in &vias {
            for turn in 0..turns {
                let update = |n: u32| {
                    let index = (n * 7 + turn) % WORDS as u32;
                    SpreadUpdate::new(all[n as usize % all.len()].name(), index, 1)
                };
                let updates: Vec<_> = (0..seat.ranks() as u32 * 40).map(update).collect();
                // Nothing was executed if the interface has too much under way.
                while let Err(error) = rma.spread(*via, AtomicOp::Add, &updates) {
                    assert_eq!(error.why(), Some(Refusal::Overloaded), "{error}");
                }
            }
        }
        seat.meet();
        let mut sum = 0;
        for at in 0..WORDS {
            sum += all[seat.rank()].get::<u64>(at * 8).unwrap();
        }
        let each = u64::from(turns) * 40 * seat.ranks() as u64 * vias.len() as u64;
        assert_eq!(sum, each, "{}", mine.name());
        seat.meet();
    });
}

/// Bytes of a run lie where words change: what comes last stays.
#[test]
fn words_of_an_apply_change_before_its_runs_or_behind_them() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let region = rma.node_region(3, 4096, RegionOptions::default()).unwrap();
        seat.meet();
        let next = (seat.node() + 1) % seat.context.node().nnodes();
        let there = rma.target_on(next, 3).unwrap();
        let at = seat.rank() as u64 * 16;
        let words = [
            AdvanceWord::to(at, 7),
            AdvanceWord::at_least(at + 8, 8).ahead(),
            AdvanceWord::by(at, 2),
        ];
        there.apply(&[(at, &[1; 16])], &words).unwrap();
        rma.fence();
        let (mut first, mut second) = (0_u64, 0_u64);
        rma.phase(|phase| {
            phase.get(&there, at, &mut first)?;
            phase.get(&there, at + 8, &mut second)
        })
        .unwrap();
        assert_eq!((first, second), (9, u64::from_le_bytes([1; 8])));
        seat.meet();
        drop(region);
    });
}

#[test]
fn regions_of_nodes_are_reached_where_they_have_memory_only() {
    const WHOLE: u64 = 1 << 40;
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let _region = rma.node_region(3, WHOLE, RegionOptions::default()).unwrap();
        seat.meet();
        let (me, nodes) = (seat.rank() as u64, seat.context.node().nnodes());
        let ranks = seat.ranks() as u64;
        for node in 0..nodes {
            let there = rma.target_on(node, 3).unwrap();
            let far = (WHOLE / 2) - 4096;
            let updates = [Update::new(0, 1), Update::new(u32::MAX, 2)];
            there.update_many(0, AtomicOp::Add, &updates).unwrap();
            let runs = [(me * 8 + 64, &[7_u8; 8][..]), (far + me * 8, &[9; 8])];
            there.apply(&runs, &[AdvanceWord::by(WHOLE - 8, 1)]).unwrap();
            let seen = there.when(WHOLE - 8, Comparison::AtLeast, 1).unwrap();
            assert!((1..=ranks).contains(&seen), "{seen}");
            // That may be of another rank's runs.
            rma.fence();
            let mut got = [0; 16];
            let ranges = [Range::new(me * 8 + 64, 8), Range::new(far + me * 8, 8)];
            there.gather(&ranges, &mut got).unwrap();
            assert_eq!(got, [[7; 8], [9; 8]].as_flattened());
            let beyond = there.get_many(WHOLE - 8, &[0, 1], &mut [0; 2]);
            assert_eq!(beyond.unwrap_err().why(), Some(Refusal::OutOfBounds));
        }
        let parts = (0..nodes).map(|node| SegmentName::of_node(node, 3));
        let updates: Vec<_> = parts.map(|name| SpreadUpdate::new(name, 1, 1)).collect();
        let via = (seat.node() + 1) % nodes;
        if nodes > 1 {
            rma.spread(via, AtomicOp::Add, &updates).unwrap();
        }
        rma.quiet().unwrap();
        seat.meet();
        let mut words = [0; 3];
        let there = rma.target_on(via, 3).unwrap();
        there.get_many(0, &[0, 1, u32::MAX], &mut words).unwrap();
        assert_eq!(words, [ranks, if nodes > 1 { ranks } else { 0 }, 2 * ranks]);
        seat.meet();
    });
}
