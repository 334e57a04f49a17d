//! The global address space: random programs against a sequential model, with aggregation and
//! without; completion; errors.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_coll::Team;
use clump_pgas::{AtomicElement, Bits, ErrorKind, GlobalPtr, Layout, Pgas, PgasOptions, Spread};
use clump_rma::{AtomicOp, Refusal, RegionOptions, SegmentName};
use clump_shm::job::{Death, DeathCause};
use clump_test_bed::{Sampler, Seat, Shape, run};
use clump_test_tier::pick;
use clump_transport::Dispatch;
use std::sync::Arc;
use std::time::Duration;

fn shapes() -> Vec<Shape> {
    vec![
        Shape::of(1, 1),
        Shape::of(3, 1),
        Shape::of(2, 2),
        Shape::of(4, 2).troubled(),
        Shape::of(4, 4),
        Shape::of(4, 2).by_proxies(1, Dispatch::Fixed),
        Shape::of(5, 3).by_proxies(2, Dispatch::LeastLoaded),
    ]
}

/// Aggregation as it is by default, with batches that are always in each other's way and travel
/// over a grid, with batches that are old at once and are not combined by proxies, and none.
fn bounds() -> [PgasOptions; 4] {
    let usual = PgasOptions::default();
    let crowded =
        PgasOptions { batch_updates: 5, memory_bytes: 120, delay: Duration::MAX, ..usual };
    let crowded = PgasOptions { grid_nodes: 1, ..crowded };
    [
        usual,
        crowded,
        PgasOptions { delay: Duration::ZERO, combines: false, ..usual },
        PgasOptions { aggregates: false, ..usual },
    ]
}

/// Runs `body` in all shapes, with all bounds.
pub(crate) fn everywhere(body: impl Fn(&Seat, &Pgas) + Clone + Send + 'static) {
    for (seed, shape) in (1..).zip(shapes()) {
        for options in bounds() {
            let body = body.clone();
            run(&shape, seed, move |seat| body(seat, &open(seat, &options)));
        }
    }
}

fn open(seat: &Seat, options: &PgasOptions) -> Pgas {
    Pgas::with(&seat.context, &Arc::new(Team::form(&seat.context).unwrap()), options).unwrap()
}

const OPS: [AtomicOp; 7] = [
    AtomicOp::Store,
    AtomicOp::Add,
    AtomicOp::And,
    AtomicOp::Or,
    AtomicOp::Xor,
    AtomicOp::Min,
    AtomicOp::Max,
];

/// One step of one rank: an element and an operand. Which operation a round has on an element, and
/// what it writes there, does not depend on the rank: operations of one round have no order.
struct Step {
    index: usize,
    op: AtomicOp,
    operand: u64,
    manner: usize,
}

fn steps(seed: u64, round: u64, rank: usize, len: usize) -> impl Iterator<Item = Step> {
    let mut sampler = Sampler::new(seed ^ round << 32 ^ (rank as u64) << 48);
    let count = if len == 0 { 0 } else { sampler.index(120) };
    (0..count).map(move |_| {
        let index = sampler.index(len);
        let mut of_element = Sampler::new(seed ^ round << 20 ^ index as u64);
        let op = OPS[of_element.index(OPS.len())];
        let operand = if op == AtomicOp::Store { of_element.number() } else { sampler.number() };
        Step { index, op, operand, manner: sampler.index(8) }
    })
}

/// Executes a step on the model.
fn expect<T: Bits + Ord + Number>(model: &mut [T], step: &Step) {
    let (word, by) = (&mut model[step.index], T::of(step.operand));
    *word = match step.op {
        AtomicOp::Store => by,
        AtomicOp::Add => word.plus(by),
        AtomicOp::And => T::of(word.bits() & by.bits()),
        AtomicOp::Or => T::of(word.bits() | by.bits()),
        AtomicOp::Xor => T::of(word.bits() ^ by.bits()),
        AtomicOp::Min => by.min(*word),
        AtomicOp::Max => by.max(*word),
        _ => unreachable!(),
    };
}

/// Number of a test, with its arithmetic written down once more.
trait Number: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn plus(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($t:ty)+) => {$(
        impl Number for $t {
            fn of(bits: u64) -> Self { bits as $t }
            fn bits(self) -> u64 { i128::from(self) as u64 }
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
        }
    )+};
}
numbers!(u8 i8 u16 i16 u32 i32 u64 i64);

/// Executes a step in one of several manners, all of which mean the same.
fn execute<T: Bits + Number>(table: &Spread<T>, step: &Step) {
    let by = T::of(step.operand);
    let at = || if step.manner == 0 { table.at(step.index).now() } else { table.at(step.index) };
    if step.manner == 1 {
        let pointer = table.ptr(step.index).unwrap();
        let back = pointer.offset_by(-7).offset_by(7);
        let at = table.pgas().at(back).unwrap();
        return match step.op {
            AtomicOp::Store => at.store(by).unwrap(),
            AtomicOp::Add => at.add(by).unwrap(),
            _ => execute(table, &Step { manner: 2, ..*step }),
        };
    }
    let fetched = step.manner == 3;
    match step.op {
        AtomicOp::Store if fetched => at().write(by).unwrap(),
        AtomicOp::Store => at().put(by).unwrap(),
        AtomicOp::Add if fetched => drop(at().fetch_add(by).unwrap().wait().unwrap()),
        AtomicOp::Add => at().add(by).unwrap(),
        AtomicOp::And => at().and(by).unwrap(),
        AtomicOp::Or => at().or(by).unwrap(),
        AtomicOp::Xor if fetched => drop(at().fetch_xor(by).unwrap()),
        AtomicOp::Xor => at().xor(by).unwrap(),
        AtomicOp::Min => at().min(by).unwrap(),
        AtomicOp::Max => at().max(by).unwrap(),
        _ => unreachable!(),
    }
}

/// Reads elements in every manner, and compares them with the model.
fn compare<T: Bits + Number + std::fmt::Debug>(
    table: &Spread<T>,
    model: &[T],
    sampler: &mut Sampler,
) {
    if model.is_empty() {
        return;
    }
    let indexes: Vec<_> = (0..sampler.index(200)).map(|_| sampler.index(model.len())).collect();
    let wanted: Vec<_> = indexes.iter().map(|&index| model[index]).collect();
    let mut gathered = vec![T::of(0); indexes.len()];
    table.gather(&indexes, &mut gathered).unwrap();
    assert_eq!(gathered, wanted, "gathered");
    let mut got = vec![T::of(0); indexes.len()];
    table
        .pgas()
        .phase(|ph| got.iter_mut().zip(&indexes).try_for_each(|(to, &i)| ph.get(table.at(i), to)))
        .unwrap();
    assert_eq!(got, wanted, "in a phase");
    for (&index, &wanted) in indexes.iter().zip(&wanted).take(4) {
        assert_eq!(table.at(index).read().unwrap(), wanted, "read");
    }
    for (local, value) in table.local().to_vec().unwrap().into_iter().enumerate() {
        assert_eq!(value, model[table.local().index(local).unwrap()], "here");
    }
}

fn program<T: Bits + Ord + Number + std::fmt::Debug>(pgas: &Pgas, seed: u64, layout: Layout) {
    let len = Sampler::new(seed).index(90);
    let table = pgas.spread::<T>(len, layout).unwrap();
    let (mut model, mut sampler) = (vec![T::of(0); len], Sampler::new(seed ^ pgas.rank() as u64));
    for round in 0..3 {
        steps(seed, round, pgas.rank(), len).for_each(|step| execute(&table, &step));
        for rank in 0..pgas.nranks() {
            steps(seed, round, rank, len).for_each(|step| expect(&mut model, &step));
        }
        pgas.all_store_sync().unwrap();
        compare(&table, &model, &mut sampler);
        pgas.barrier().unwrap();
    }
}

#[test]
fn random_programs_agree_with_a_sequential_model() {
    everywhere(|_, pgas| {
        program::<u64>(pgas, 75, Layout::Cyclic);
        program::<i32>(pgas, 78, Layout::Block);
        if pick(false, true) {
            program::<u64>(pgas, 76, Layout::BlockCyclic(3));
            program::<i64>(pgas, 74, Layout::Block);
            program::<u32>(pgas, 77, Layout::Cyclic);
            program::<u16>(pgas, 79, Layout::BlockCyclic(5));
            program::<i8>(pgas, 80, Layout::Cyclic);
        }
    });
}

#[test]
fn stores_are_counted_where_they_land() {
    everywhere(|_, pgas| {
        let (me, ranks) = (pgas.rank(), pgas.nranks());
        let table = pgas.spread::<u64>(ranks * 67, Layout::Block).unwrap();
        let next = (me + 1) % ranks;
        for epoch in 0..clump_test_tier::pick(3, 60_u64) {
            for half in 0..2 {
                let value = |i: usize| epoch << 32 | i as u64;
                let here = half * 32..half * 32 + 32;
                here.clone().for_each(|i| table.at(next * 67 + i).store(value(i)).unwrap());
                pgas.store_sync(32 * 8).unwrap();
                for i in here {
                    assert_eq!(table.local().get(i).unwrap(), value(i), "{i} of epoch {epoch}");
                }
            }
            // Counted, and never waited for.
            let pointer = table.on(next).unwrap().offset_by(64);
            pgas.bulk_store(pointer, &[epoch << 32; 3]).unwrap();
            pgas.all_store_sync().unwrap();
            assert_eq!(table.local().get(66).unwrap(), epoch << 32);
            pgas.barrier().unwrap();
        }
    });
}

fn tickets<T: AtomicElement + Number + Ord>(pgas: &Pgas, each: usize) {
    let counter = pgas.spread::<T>(3, Layout::Cyclic).unwrap();
    let take = || counter.at(1).fetch_add(T::of(1)).unwrap().wait().unwrap();
    let mine: Vec<_> = (0..each).map(|_| take()).collect();
    assert!(mine.is_sorted(), "later tickets have higher numbers");
    pgas.all_store_sync().unwrap();
    let all = (pgas.nranks() * each) as u64;
    assert_eq!(counter.at(1).read().unwrap().bits(), all);
    assert_eq!(counter.at(0).read().unwrap().bits(), 0, "its neighbours are as they were");
    assert_eq!(counter.at(2).read().unwrap().bits(), 0, "its neighbours are as they were");
    pgas.barrier().unwrap();
}

#[test]
fn atomics_give_what_was_before() {
    everywhere(|_, pgas| {
        tickets::<u64>(pgas, 20);
        tickets::<u32>(pgas, 20);
        tickets::<i64>(pgas, 20);
        tickets::<i16>(pgas, 20);
        tickets::<u8>(pgas, 20);
        let word = pgas.spread::<i16>(2, Layout::Block).unwrap();
        pgas.barrier().unwrap();
        let won = word.at(1).compare_swap(0, -1 - pgas.rank() as i16).unwrap();
        pgas.barrier().unwrap();
        let winner = -1 - word.at(1).read().unwrap();
        assert_eq!(won == 0, winner == pgas.rank() as i16, "one of them has won");
        pgas.barrier().unwrap();
    });
}

#[test]
fn floats_are_added_and_compared() {
    everywhere(|_, pgas| {
        let sums = pgas.spread::<f64>(4, Layout::Cyclic).unwrap();
        let halves = pgas.spread::<f32>(4, Layout::Cyclic).unwrap();
        for _ in 0..5 {
            sums.scatter_add(&[0, 1, 3], 0.5).unwrap();
            halves.at(3).add(0.25).unwrap();
        }
        sums.at(2).min(-1.5 - pgas.rank() as f64).unwrap();
        halves.at(1).max(-0.5 * pgas.rank() as f32).unwrap();
        let before = sums.at(0).fetch_max(pgas.rank() as f64).unwrap().wait().unwrap();
        assert!(before >= 0.0, "sums were added, and are at least nothing");
        halves.at(2).fetch_min(f32::NAN).unwrap().wait().unwrap();
        pgas.all_store_sync().unwrap();
        let ranks = pgas.nranks() as f64;
        assert_eq!(halves.at(1).read().unwrap(), 0.0);
        assert_eq!(halves.at(2).read().unwrap(), 0.0, "of a number and a NaN, the number");
        assert_eq!(sums.at(3).read().unwrap(), 2.5 * ranks);
        assert_eq!(sums.at(2).read().unwrap(), -0.5 - ranks);
        assert_eq!(f64::from(halves.at(3).read().unwrap()), 1.25 * ranks);
        pgas.barrier().unwrap();
    });
}

#[test]
fn what_is_outside_is_an_error_before_anything_is_sent() {
    everywhere(|_, pgas| {
        let table = pgas.spread::<u64>(10, Layout::Cyclic).unwrap();
        let beyond = |error: clump_pgas::Error| {
            matches!(error.kind(), ErrorKind::NoSuchElement { index: 10, len: 10 })
        };
        assert!(beyond(table.at(10).add(1).unwrap_err()));
        assert!(beyond(table.at(10).read().unwrap_err()));
        assert!(beyond(table.scatter_add(&[10], 1).unwrap_err()));
        assert!(beyond(table.gather(&[10], &mut [0]).unwrap_err()));
        assert!(table.ptr(10).is_none() && table.on(pgas.nranks()).is_none());
        let bad = |error: clump_pgas::Error| matches!(error.kind(), ErrorKind::BadPointer { .. });
        for rank in 0..pgas.nranks() {
            let first = table.on(rank).unwrap();
            let count = table.layout().count(rank);
            assert!(bad(pgas.at(first.offset_by(-1)).unwrap_err()));
            assert!(bad(pgas.at(first.offset_by(count as isize)).unwrap_err()));
            assert!(bad(pgas.at(first.offset_by(isize::MAX)).unwrap_err()));
            assert!(bad(pgas.at(first.cast::<u8>().offset_by(1).cast::<u32>()).unwrap_err()));
            assert!(bad(pgas.bulk_get(first, &mut vec![0; count + 1]).unwrap_err()));
            assert!(bad(pgas.bulk_put(first.offset_by(1), &vec![0; count]).unwrap_err()));
        }
        assert!(pgas.spread::<[u8; 0]>(3, Layout::Block).is_err());
        assert!(pgas.spread::<u64>(usize::MAX, Layout::Block).is_err());
        assert!(pgas.spread::<u8>(1, Layout::BlockCyclic(0)).is_err());
        let (len, sized) = (4 + pgas.rank(), pgas.nranks() > 1);
        let unequal = pgas.spread::<u8>(len, Layout::Block);
        assert_eq!(unequal.is_err(), sized, "ranks ask for different arrays");
        pgas.all_store_sync().unwrap();
        let mut sum = vec![1; 10];
        table.gather(&(0..10).collect::<Vec<_>>(), &mut sum).unwrap();
        assert_eq!(sum, vec![0; 10], "nothing was changed");
        pgas.barrier().unwrap();
    });
}

/// Updates elements of both ranks of the other node; returns the counters.
fn updated(options: PgasOptions, each: usize) -> clump_pgas::Aggregation {
    let counts = run(&Shape::of(4, 2), 9, move |seat| {
        let pgas = open(seat, &options);
        let table = pgas.spread::<u64>(64, Layout::Cyclic).unwrap();
        let far = if pgas.rank() < 2 { 2 } else { 0 };
        for i in 0..each {
            let index = i % 16 * 4 + far + i / 16 % 2;
            table.at(index).add(1).unwrap();
            table.at(index + 1 - i / 16 % 2 * 2).now().xor(1 << 40).unwrap();
        }
        pgas.all_store_sync().unwrap();
        let sum: u64 = table.local().to_vec().unwrap().iter().map(|word| word & 0xff_ffff).sum();
        let team_sum: u64 = each as u64 * 4;
        let sums = pgas.spread::<u64>(1, Layout::Block).unwrap();
        let counts = pgas.aggregation();
        sums.at(0).add(sum).unwrap();
        pgas.all_store_sync().unwrap();
        assert_eq!(sums.at(0).read().unwrap(), team_sum, "each update once");
        pgas.barrier().unwrap();
        counts
    });
    counts[3]
}

#[test]
fn batches_are_bounded_and_counted() {
    let usual = PgasOptions { delay: Duration::MAX, ..PgasOptions::default() };
    let counts = updated(usual, 320);
    assert_eq!((counts.updates, counts.most_open), (320, 2), "one for each rank of a node");
    assert_eq!((counts.flushed, counts.batches()), (2, 2), "sent as the rank waits");
    let counts = updated(PgasOptions { batch_updates: 8, ..usual }, 320);
    assert_eq!((counts.full, counts.batches()), (40, 40), "each is full");
    let counts = updated(PgasOptions { batch_updates: 100, memory_bytes: 1200, ..usual }, 320);
    assert_eq!((counts.most_open, counts.displaced), (1, 19), "there is memory for one");
    let counts = updated(PgasOptions { delay: Duration::ZERO, ..usual }, 320);
    assert_eq!((counts.old, counts.most_open), (320, 1), "each is old at once");
    let counts = updated(PgasOptions { aggregates: false, ..usual }, 320);
    assert_eq!(counts, clump_pgas::Aggregation::default());
}

#[test]
fn words_far_apart_in_one_segment_are_told_apart() {
    const FAR: u64 = 1 << 35;
    for options in bounds() {
        run(&Shape::of(2, 2), 4, move |seat| {
            let pgas = open(seat, &options);
            let region = pgas.rma().node_region(2, FAR * 2, RegionOptions::default()).unwrap();
            let other = SegmentName::of_node(1 - seat.node(), 2).to_bits();
            let at = |offset: u64| {
                pgas.at(GlobalPtr::<u64>::from_words([other, offset, FAR * 2])).unwrap()
            };
            pgas.barrier().unwrap();
            for round in 0..20_u64 {
                at(8).add(1).unwrap();
                at(FAR + 8).add(100).unwrap();
                at(FAR - 8 + round % 2 * 8).add(10_000).unwrap();
            }
            pgas.all_store_sync().unwrap();
            assert_eq!(region.get::<u64>(8).unwrap(), 20);
            assert_eq!(region.get::<u64>(FAR + 8).unwrap(), 2000);
            assert_eq!(region.get::<u64>(FAR - 8).unwrap(), 100_000);
            assert_eq!(region.get::<u64>(FAR).unwrap(), 100_000);
            let mut got = [0; 3];
            let offsets = [8, FAR + 8, FAR];
            let mut places = got.iter_mut().zip(offsets);
            pgas.phase(|ph| places.try_for_each(|(to, offset)| ph.get(at(offset), to))).unwrap();
            assert_eq!(got, [20, 2000, 100_000]);
            pgas.barrier().unwrap();
        });
    }
}

#[test]
fn a_poll_sends_what_is_old() {
    let counts = run(&Shape::of(2, 2), 3, |seat| {
        let options = PgasOptions { delay: Duration::from_nanos(1), ..Default::default() };
        let pgas = open(seat, &options);
        let table = pgas.spread::<u64>(2, Layout::Cyclic).unwrap();
        let far = table.at(1 - pgas.rank());
        far.add(1).unwrap();
        pgas.poll().unwrap();
        let counts = pgas.aggregation();
        pgas.all_store_sync().unwrap();
        assert_eq!(table.local().get(0).unwrap(), 1);
        pgas.barrier().unwrap();
        counts
    });
    assert!(counts.iter().all(|counts| (counts.updates, counts.old) == (1, 1)), "{counts:?}");
}

#[test]
fn a_dead_rank_is_an_error_of_those_that_use_its_memory() {
    for options in bounds() {
        for shape in [Shape::of(3, 3), Shape::of(3, 3).by_proxies(1, Dispatch::Fixed)] {
            run(&shape.surviving(), 5, move |seat| {
                let pgas = open(seat, &options);
                let table = pgas.spread::<u64>(3, Layout::Cyclic).unwrap();
                seat.meet();
                if seat.rank() == 2 {
                    seat.declare_dead(Death { rank: 2, how: DeathCause::Signal(9) });
                }
                seat.meet();
                if seat.rank() == 0 {
                    table.at(1).add(5).unwrap();
                    table.at(2).add(5).unwrap();
                    let why = |error: &clump_pgas::Error| match error.kind() {
                        ErrorKind::OneSided(error) => error.why(),
                        _ => None,
                    };
                    assert_eq!(why(&pgas.sync().unwrap_err()), Some(Refusal::OwnerDead));
                    assert_eq!(why(&table.at(2).read().unwrap_err()), Some(Refusal::OwnerDead));
                    assert_eq!(table.at(1).read().unwrap(), 5, "others go on");
                }
                seat.meet();
            });
        }
    }
}
