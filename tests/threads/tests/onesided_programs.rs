//! Random programs of all ranks against a model: every rank makes the same random choices for all
//! ranks, so it knows the expected result.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests give up where something fails")]

use clump_rma::{Comparison, Pending, Rma, Strides, Target};
use clump_test_bed::{Sampler, Seat, Shape, run};
use clump_test_tier::pick;
use clump_transport::Dispatch;
use std::time::Duration;

const WORDS: u64 = 24;
/// Offset of the first rank's part, and the bytes of each part.
const PARTS: u64 = 1 << 10;
const PART: u64 = 1 << 15;
const PHASES: usize = 6;
const STEPS: usize = 60;

/// The use of a word during a phase: operations of one kind, which commute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Add,
    Or,
    Xor,
    Max,
    Min,
}

const USES: [Use; 5] = [Use::Add, Use::Or, Use::Xor, Use::Max, Use::Min];

fn combine(kind: Use, word: u64, operand: u64) -> u64 {
    match kind {
        Use::Add => word.wrapping_add(operand),
        Use::Or => word | operand,
        Use::Xor => word ^ operand,
        Use::Max => word.max(operand),
        Use::Min => word.min(operand),
    }
}

fn silently(target: &Target, kind: Use, at: u64, operand: u64) {
    match kind {
        Use::Add => target.add(at, operand),
        Use::Or => target.or(at, operand),
        Use::Xor => target.xor(at, operand),
        Use::Max => target.max(at, operand),
        Use::Min => target.min(at, operand),
    }
    .unwrap();
}

fn aloud(target: &Target, kind: Use, at: u64, operand: u64) -> u64 {
    match kind {
        Use::Add => target.fetch_add(at, operand),
        Use::Or => target.fetch_or(at, operand),
        Use::Xor => target.fetch_xor(at, operand),
        Use::Max => target.fetch_max(at, operand),
        Use::Min => target.fetch_min(at, operand),
    }
    .unwrap()
}

/// One step of one rank.
#[derive(Debug, Clone, Copy)]
struct Step {
    what: u64,
    target: usize,
    word: u64,
    operand: u64,
    at: u64,
    len: u64,
}

fn step(sampler: &mut Sampler, ranks: usize) -> Step {
    let len = match sampler.below(4) {
        0 => sampler.below(9),
        1 => sampler.below(300),
        2 => 3500 + sampler.below(1500),
        _ => sampler.below(PART),
    };
    Step {
        what: sampler.below(9),
        target: sampler.below(ranks as u64) as usize,
        word: sampler.below(WORDS),
        operand: sampler.number() >> sampler.below(60),
        at: sampler.below(PART - len + 1),
        len,
    }
}

/// The expected values of all words and all parts.
struct Model {
    words: Vec<Vec<u64>>,
    /// By target, then by the owner of the part.
    parts: Vec<Vec<Vec<u8>>>,
    locked: u64,
    flag: u64,
}

impl Model {
    fn apply(&mut self, rank: usize, kinds: &[Vec<Use>], step: &Step) {
        let Step { what, target, word, operand, at, len } = *step;
        match what {
            0..=2 => {
                let kind = kinds[target][word as usize];
                let word = &mut self.words[target][word as usize];
                *word = combine(kind, *word, operand);
            }
            3..=5 => {
                let part = &mut self.parts[target][rank];
                part[at as usize..(at + len) as usize].copy_from_slice(&bytes(operand, len));
            }
            7 => self.locked += 1,
            8 => self.flag += operand & 0xff,
            _ => {}
        }
    }
}

fn bytes(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| (seed.wrapping_mul(i | 1) >> 7) as u8 ^ i as u8).collect()
}

/// Executes the rank's own side of a step.
#[allow(clippy::too_many_arguments, reason = "everything a step touches")]
fn perform(
    rma: &Rma,
    rank: usize,
    all: &[Target],
    kinds: &[Vec<Use>],
    model: &Model,
    (lock, flag): (&clump_rma::Lock, &clump_rma::Flag),
    handles: &mut Vec<Pending<()>>,
    step: &Step,
) {
    let Step { what, target: number, word, operand, at, len } = *step;
    let target = &all[number];
    let kind = kinds[number][word as usize];
    let mine = PARTS + rank as u64 * PART;
    match what {
        0 | 1 => silently(target, kind, word * 8, operand),
        2 => drop(aloud(target, kind, word * 8, operand)),
        3 => {
            // Puts of one rank to its own part overlap: this one comes after those before.
            rma.fence();
            target.put_bytes(mine + at, &bytes(operand, len)).unwrap();
        }
        4 => {
            rma.fence();
            handles.push(target.start_put(mine + at, &bytes(operand, len)).unwrap());
        }
        5 if len >= 16 && len.is_multiple_of(2) => {
            rma.fence();
            let half = len as usize / 2;
            let rows = Strides { offset: mine + at, block: half, stride: half as u64 };
            target.put_strided(rows, &bytes(operand, len)).unwrap();
        }
        5 => {
            rma.fence();
            target.put_bytes(mine + at, &bytes(operand, len)).unwrap();
        }
        6 => {
            // The rank reads back its own puts, once they are complete.
            rma.quiet().unwrap();
            let mut got = vec![0; len as usize];
            target.get_bytes(mine + at, &mut got).unwrap();
            let part = &model.parts[number][rank];
            assert!(got == part[at as usize..(at + len) as usize], "{step:?}");
        }
        7 => {
            let limit = Duration::from_secs(50);
            let mut guard =
                lock.acquire_within(limit).unwrap().expect("a lock is never given back");
            let word = guard.word();
            guard.set_word(word + 1);
        }
        _ => flag.add(operand & 0xff).unwrap(),
    }
}

fn program(seat: &Seat, seed: u64) {
    let (rank, ranks) = (seat.rank(), seat.ranks());
    let rma = Rma::open(&seat.context).unwrap();
    let (_mine, all) = seat.allocate(&rma, PARTS + PART * ranks as u64);
    let my_locks = rma.export_locks(1).unwrap();
    let locks = seat.exchange(my_locks.name());
    let my_flags = rma.export_flags(1).unwrap();
    let flags = seat.exchange(my_flags.name());
    let mut sampler = Sampler::new(seed);
    let lock = rma.lock(locks[sampler.below(ranks as u64) as usize], 0).unwrap();
    let flag = rma.flag(flags[sampler.below(ranks as u64) as usize], 0).unwrap();
    let mut model = Model {
        words: vec![vec![0; WORDS as usize]; ranks],
        parts: vec![vec![vec![0; PART as usize]; ranks]; ranks],
        locked: 0,
        flag: 0,
    };
    for phase in 0..PHASES {
        let kind = |sampler: &mut Sampler| USES[sampler.below(USES.len() as u64) as usize];
        let kinds: Vec<Vec<Use>> =
            (0..ranks).map(|_| (0..WORDS).map(|_| kind(&mut sampler)).collect()).collect();
        let mut handles = Vec::new();
        for _ in 0..STEPS {
            for who in 0..ranks {
                let step = step(&mut sampler, ranks);
                if who == rank {
                    let shared = (&lock, &flag);
                    perform(&rma, rank, &all, &kinds, &model, shared, &mut handles, &step);
                }
                model.apply(who, &kinds, &step);
            }
        }
        for handle in handles {
            handle.wait().unwrap();
        }
        rma.quiet().unwrap();
        assert_eq!(flag.wait(Comparison::AtLeast, model.flag).unwrap(), model.flag);
        seat.meet();
        let name = format!("seed {seed}, phase {phase}, rank {rank}");
        for (number, target) in all.iter().enumerate() {
            for word in 0..WORDS {
                let value = target.load::<u64>(word * 8).unwrap();
                let expected = model.words[number][word as usize];
                assert_eq!(value, expected, "{name}: word {word} of rank {number}");
            }
            for (owner, part) in model.parts[number].iter().enumerate() {
                let mut got = vec![0; PART as usize];
                target.get_bytes(PARTS + owner as u64 * PART, &mut got).unwrap();
                assert!(got == *part, "{name}: part of {owner} at rank {number}");
            }
        }
        assert_eq!(lock.acquire().unwrap().word(), model.locked, "{name}");
        rma.quiet().unwrap();
        seat.meet();
    }
}

#[test]
fn random_programs_do_what_the_model_says() {
    let mut shapes = vec![Shape::of(3, 1), Shape::of(3, 3)];
    shapes.extend(Shape::of(4, 2).every_way());
    for seed in 1..=pick(7, 14_u64) {
        let shape = &shapes[seed as usize % shapes.len()];
        run(shape, seed, move |seat| program(seat, seed));
    }
}

#[test]
fn random_programs_do_so_over_a_troubled_network() {
    for seed in 101..=pick(101, 103_u64) {
        let shape = Shape::of(2 + seed as usize % 3, 2).troubled();
        let shape = shape.by_proxies(seed as u32 % 3, Dispatch::RoundRobin);
        run(&shape, seed, move |seat| program(seat, seed));
    }
}
