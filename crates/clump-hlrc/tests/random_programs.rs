//! Random programs without races, many nodes, messages in any order.

use std::rc::Rc;

use clump_hlrc::testing::{Op, ProgramShape, random_programs};
use clump_hlrc::{Config, Consistency, FetchRule, NoticeTransfer, Placement, TwinTime};
use clump_test_tier::pick;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::every_interleaving::{TRANSFERS, explore};
use crate::world::{PAGE, World, settings};

/// Random numbers of a seed.
struct Sampler(Xoshiro256PlusPlus);

impl Sampler {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn programs(&mut self, shape: &ProgramShape) -> Vec<Vec<Op>> {
        random_programs(shape, &mut || self.0.next_u64())
    }
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
    let may_fetch = consistency != Consistency::Causal && move_after == 0;
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
    let shape = ProgramShape {
        ranks: usize::from(nodes) * usize::from(ranks),
        bytes: pages as usize * PAGE,
        locks: 1 + random.below(5) as u64,
        flags: 1 + random.below(4) as u64,
        phases,
    };
    let config = random_settings(&mut random, (nodes, ranks, pages));
    println!("{config:?}");
    let programs = Rc::new(random.programs(&shape));
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
        let shape = ProgramShape {
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
        let programs = random.programs(&shape);
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
