//! Random programs without races, many nodes, messages in any order.

use std::rc::Rc;

use clump_hlrc::{Config, Consistency, FetchRule, NoticeTransfer, Placement, TwinTime};
use clump_test_tier::pick;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::every_interleaving::{TRANSFERS, explore};
use crate::programs::Op;
use crate::world::{PAGE, World, settings};

/// Random numbers of a seed.
struct Sampler(Xoshiro256PlusPlus);

impl Sampler {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.0.next_u64() as u8
    }
}

/// Discipline by which a byte is used without races; neighbours have different ones, so that pages
/// are shared falsely.
#[derive(Clone, Copy)]
enum Discipline {
    /// Used under this lock only.
    Locked(u64),
    /// Written by one rank between two barriers, and read by nobody else.
    Owned,
    /// Written before this flag is set, and read behind it.
    Flagged(u64),
}

/// Shape of a random job.
struct Shape {
    ranks: usize,
    bytes: usize,
    locks: u64,
    flags: u64,
    phases: usize,
}

fn discipline(shape: &Shape, addr: usize) -> Discipline {
    match addr % 3 {
        0 => Discipline::Locked((addr / 3) as u64 % shape.locks),
        1 => Discipline::Owned,
        _ => Discipline::Flagged((addr / 3) as u64 % shape.flags),
    }
}

/// Rank that owns a byte, or sets a flag, in a phase.
fn owner(shape: &Shape, salt: u64, number: usize, phase: usize) -> usize {
    // Some owners stay for long, so that homes move to them.
    let turn = if number.is_multiple_of(2) { phase } else { phase / 4 };
    let mixed = (salt ^ (number as u64 * 0x9e37_79b9)).wrapping_add(turn as u64 * 0x85eb_ca6b);
    (mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 33) as usize % shape.ranks
}

fn addresses(shape: &Shape, wanted: impl Fn(Discipline, usize) -> bool) -> Vec<usize> {
    (0..shape.bytes).filter(|&addr| wanted(discipline(shape, addr), addr)).collect()
}

fn access(random: &mut Sampler, out: &mut Vec<Op>, from: &[usize], reads_only: bool) {
    if from.is_empty() {
        return;
    }
    let addr = from[random.below(from.len())];
    let write = !reads_only && random.below(2) == 0;
    out.push(if write { Op::Write(addr, random.byte()) } else { Op::Read(addr) });
}

/// Appends what one rank does between two barriers.
fn phase(shape: &Shape, random: &mut Sampler, salt: u64, at: (usize, usize), out: &mut Vec<Op>) {
    let (rank, number) = at;
    let owned = addresses(shape, |d, addr| {
        matches!(d, Discipline::Owned) && owner(shape, salt, addr, number) == rank
    });
    let value = number as u64 + 1;
    let mut flag = 0;
    for _ in 0..random.below(6) {
        match random.below(4) {
            0 => {
                let lock = random.below(shape.locks as usize) as u64;
                let under =
                    addresses(shape, |d, _| matches!(d, Discipline::Locked(l) if l == lock));
                out.push(Op::Lock(lock));
                for _ in 0..random.below(4) {
                    access(random, out, &under, false);
                    access(random, out, &owned, false);
                }
                out.push(Op::Unlock(lock));
            }
            1 if flag < shape.flags => {
                let behind =
                    addresses(shape, |d, _| matches!(d, Discipline::Flagged(f) if f == flag));
                let sets = owner(shape, salt, flag as usize + 1000, number) == rank;
                if !sets {
                    out.push(Op::Await(flag, value));
                }
                for _ in 0..random.below(4) {
                    access(random, out, &behind, !sets);
                }
                if sets {
                    out.push(Op::Set(flag, value));
                }
                flag += 1;
            }
            2 => out.push(Op::Fence),
            _ => access(random, out, &owned, false),
        }
    }
    // Each flag is set in the end, and flags are awaited in ascending order: nobody waits for ever.
    for late in flag..shape.flags {
        if owner(shape, salt, late as usize + 1000, number) == rank {
            out.push(Op::Set(late, value));
        }
    }
}

fn random_programs(shape: &Shape, random: &mut Sampler) -> Vec<Vec<Op>> {
    let salt = random.0.next_u64();
    let mut programs = vec![Vec::new(); shape.ranks];
    for number in 0..shape.phases {
        for (rank, program) in programs.iter_mut().enumerate() {
            phase(shape, random, salt, (rank, number), program);
            // A barrier of some, now and then, before that of all.
            let some = shape.ranks / 2 + 1;
            if number % 3 == 1 && rank < some && some < shape.ranks {
                program.push(Op::Barrier(7, some as u32));
            }
            program.push(Op::Barrier(number as u64 % 2, shape.ranks as u32));
        }
    }
    programs
}

fn random_settings(random: &mut Sampler, shape: (u16, u16, u32)) -> Config {
    let (nodes, ranks, pages) = shape;
    let homes: Box<[u16]> = (0..pages).map(|_| random.below(usize::from(nodes)) as u16).collect();
    let placement = match random.below(4) {
        0 => Placement::Block,
        1 => Placement::Cyclic,
        2 => Placement::FirstWrite,
        _ => Placement::Explicit(homes),
    };
    let consistency =
        [Consistency::Plain, Consistency::Fetch, Consistency::Causal][random.below(3)];
    let move_after = random.below(3) as u8;
    let may_fetch = consistency == Consistency::Plain && move_after == 0;
    Config {
        placement,
        consistency,
        notices: [NoticeTransfer::Push, NoticeTransfer::Pull][random.below(2)],
        fetch: [FetchRule::WaitAtHome, FetchRule::Retry][random.below(2)],
        twins: [TwinTime::AtWrite, TwinTime::AtFetch][random.below(2)],
        local_turns: random.below(3) as u32,
        max_notices: [3, 30, 1000][random.below(3)],
        move_after,
        own_fetches: may_fetch && random.below(4) != 0,
        ..settings(nodes, ranks, pages)
    }
}

/// Runs a job to its end, messages and ranks in random order.
fn run(seed: u64, nodes: u16, ranks: u16, pages: u32, phases: usize) {
    println!("seed {seed}, {nodes} nodes of {ranks} ranks, {pages} pages, {phases} phases");
    let mut random = Sampler(Xoshiro256PlusPlus::seed_from_u64(seed));
    let shape = Shape {
        ranks: usize::from(nodes) * usize::from(ranks),
        bytes: pages as usize * PAGE,
        locks: 1 + random.below(5) as u64,
        flags: 1 + random.below(4) as u64,
        phases,
    };
    let config = random_settings(&mut random, (nodes, ranks, pages));
    println!("{config:?}");
    let programs = Rc::new(random_programs(&shape, &mut random));
    let diffs = TRANSFERS[random.below(TRANSFERS.len())];
    println!("{diffs:?}");
    let mut world = World::new(&config, &programs).sending(diffs);
    if random.below(2) == 0 {
        world = world.keeping();
    }
    // Some networks deliver at once, some let messages pile up.
    let haste = 1 + random.below(8);
    loop {
        let runnable = world.runnable();
        let packets = world.packets();
        if runnable.is_empty() && packets == 0 {
            break;
        }
        if packets > 0 && (runnable.is_empty() || random.below(8) < haste) {
            let at = random.below(packets);
            if config.move_after == 0 && random.below(10) == 0 {
                world.duplicate(at);
            }
            world.deliver(at);
        } else {
            world.step(runnable[random.below(runnable.len())]);
        }
    }
    world.check_end();
    let bound = config.max_notices + pages as usize;
    assert!(world.most_notices() <= bound, "seed {seed}: {} notices", world.most_notices());
}

#[test]
fn tiny_jobs_in_every_order() {
    let mut whole = 0;
    let seeds = pick(60, 100);
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut random = Sampler(Xoshiro256PlusPlus::seed_from_u64(seed));
        let (nodes, ranks) = [(2, 1), (3, 1), (2, 2)][random.below(3)];
        let shape = Shape {
            ranks: usize::from(nodes * ranks),
            bytes: 2 * PAGE,
            locks: 1,
            flags: 1,
            phases: 1 + random.below(2),
        };
        let config = random_settings(&mut random, (nodes, ranks, 2));
        println!("{config:?}");
        let limit = pick(1_000, 3_000);
        let transfers = [TRANSFERS[random.below(TRANSFERS.len())]];
        let programs = random_programs(&shape, &mut random);
        let explored = explore(&config, &programs, &transfers, (true, limit));
        whole += usize::from(explored.moments < limit);
    }
    println!("{whole} of {seeds} jobs to their last moment");
    assert!(whole > 0, "some jobs are small enough");
}

#[test]
fn logs_stay_short_while_a_node_waits_in_a_barrier() {
    let section = [Op::Lock(1), Op::Write(0, 1), Op::Write(PAGE, 1), Op::Unlock(1)];
    let writer = [section.repeat(300), vec![Op::Barrier(0, 2)]].concat();
    let programs = Rc::new(vec![vec![Op::Barrier(0, 2)], writer]);
    for notices in [NoticeTransfer::Push, NoticeTransfer::Pull] {
        let config = Config { notices, max_notices: 10, ..settings(2, 1, 2) };
        // Were locks kept, the writer would publish nothing.
        let mut world = World::new(&config, &programs);
        while !world.runnable().is_empty() || world.packets() > 0 {
            if world.packets() > 0 {
                world.deliver(0);
            } else {
                world.step(world.runnable()[0]);
            }
            assert!(world.most_notices() <= 10 + 2, "{} notices", world.most_notices());
        }
        world.check_end();
    }
}

#[test]
fn small_jobs() {
    for seed in 0..pick(400, 8000) {
        run(seed, 1 + (seed % 4) as u16, 1 + (seed / 4 % 3) as u16, 1 + (seed % 5) as u32, 6);
    }
}

#[test]
fn jobs_of_many_nodes() {
    for seed in 0..pick(10, 400) {
        run(seed, 5 + (seed % 12) as u16, 1 + (seed % 4) as u16, 40, 8);
    }
}
