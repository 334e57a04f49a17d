//! The protocol that ranks carry out by themselves: random programs without races, with every
//! access to a word, every wait and every arrival of an operation at another node in random order.

mod cluster;
mod port;
mod rank;

use clump_hlrc::testing::{Op, ProgramShape, random_programs};
use clump_test_tier::pick;
use cluster::{Cluster, Placing};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rank::Rank;
use std::sync::Mutex;

/// Bytes of each page that programs use.
const USED: usize = 16;

fn programs(seed: u64, shape: &ProgramShape) -> Vec<Vec<Op>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut programs = random_programs(shape, &mut || random.next_u64());
    // Barriers of some ranks are not among what this protocol has.
    let all = shape.ranks as u32;
    for program in &mut programs {
        program.retain(|op| !matches!(op, Op::Barrier(_, members) if *members != all));
    }
    programs
}

fn run(seed: u64, (nodes, ranks): (u16, u32), pages: u32) -> cluster::Counts {
    let shape = ProgramShape {
        ranks: usize::from(nodes) * ranks as usize,
        bytes: pages as usize * USED,
        locks: 1 + seed % 3,
        flags: 1 + seed % 4,
        phases: 6,
    };
    let placing = [Placing::Cyclic, Placing::FirstUse, Placing::First][(seed % 3) as usize];
    let cluster = Cluster::new(seed, (nodes, ranks), pages, placing)
        .scanning(seed.is_multiple_of(2))
        .acquiring_at_faults((seed / 2).is_multiple_of(2))
        .with_slots([4, 1024][(seed / 7 % 2) as usize])
        .publishing_each([0, 2, 8, 1000][(seed / 4 % 4) as usize]);
    println!("seed {seed}, {nodes} nodes of {ranks} ranks, {pages} pages, {placing:?}");
    cluster.run(&programs(seed, &shape))
}

#[test]
fn ranks_read_what_one_memory_would_hold() {
    let mut all = cluster::Counts::default();
    for seed in 0..pick(300, 20_000) {
        let shape = [(2, 1), (2, 2), (3, 1), (3, 2), (2, 3)][(seed % 5) as usize];
        all.add(&run(seed, shape, 1 + (seed / 5 % 4) as u32));
    }
    println!("{all:?}");
    assert!(
        all.fetches > 1000
            && all.ahead > 1000
            && all.exclusive > 100
            && all.intervals > 1000
            && all.put_off > 1000
            && all.reads > 1000,
        "it did something"
    );
}

/// One rank publishes pages under a lock more often than another has room for notices, and waits
/// for nobody; the other sees all of it behind its acquire.
#[test]
fn notices_that_find_no_room_cost_copies_and_nothing_else() {
    let section =
        |value: u8| [Op::Lock(0), Op::Write(0, value), Op::Write(USED, value), Op::Unlock(0)];
    let many = (0..pick(300_u32, 2200)).flat_map(|turn| section(turn as u8));
    let barrier = Op::Barrier(0, 2);
    let writer: Vec<_> = [barrier].into_iter().chain(many).chain([barrier]).collect();
    let reader = vec![
        barrier,
        barrier,
        Op::Read(0),
        Op::Read(USED),
        Op::Lock(0),
        Op::Write(0, 1),
        Op::Unlock(0),
    ];
    let cluster = Cluster::new(1, (2, 1), 2, Placing::First).with_slots(64).seldom_switching();
    let counts = cluster.run(&[writer, reader]);
    assert!(counts.intervals >= 290, "{counts:?}");
}

/// A pointer that is published without a lock: a rank that reads it by a fault reads what it points
/// to.
#[test]
fn a_fault_acquires_what_the_bytes_depend_on() {
    for seed in 0..pick(20, 1000) {
        for (data, pointer) in [(0, 1), (1, 0), (1, 3), (0, 2)] {
            let (data, pointer) = (data * USED, pointer * USED);
            let writer = vec![
                Op::Read(data),
                Op::Write(data, 7),
                Op::Fence,
                Op::Write(pointer, 1),
                Op::Fence,
            ];
            let reader = vec![Op::Peek(data), Op::Peek(pointer), Op::Follow(data, 7)];
            let third = vec![Op::Peek(pointer), Op::Follow(data, 7)];
            let cluster = Cluster::new(seed, (3, 1), 4, Placing::Cyclic)
                .scanning(seed.is_multiple_of(2))
                .acquiring_at_faults(true);
            cluster.run(&[writer, reader, third]);
        }
    }
}

/// Two ranks of a node read pages of one home that a rank of a third node has just written: what
/// one of them learns of the home's bytes says nothing of a page that the other has fetched before.
#[test]
fn ranks_of_a_node_fetch_from_one_home_at_once() {
    for seed in 0..pick(60, 3000) {
        let rounds = 1..=6_u8;
        let write = |value: u8| {
            let heard = (1..3).map(move |flag| Op::Await(flag, u64::from(value)));
            let all = [
                Op::Write(0, value),
                Op::Write(USED, value),
                Op::Write(2 * USED, value),
                Op::Set(0, u64::from(value)),
            ];
            all.into_iter().chain(heard)
        };
        let read = |flag: u64, pages: [usize; 3]| {
            move |value: u8| {
                let reads = pages.map(|page| Op::Read(page * USED));
                let told = Op::Set(flag, u64::from(value));
                [Op::Await(0, u64::from(value))].into_iter().chain(reads).chain([told])
            }
        };
        let programs = vec![
            Vec::new(),
            Vec::new(),
            rounds.clone().flat_map(write).collect(),
            Vec::new(),
            rounds.clone().flat_map(read(1, [0, 1, 2])).collect(),
            rounds.flat_map(read(2, [2, 1, 0])).collect(),
        ];
        let cluster = Cluster::new(seed, (3, 2), 3, Placing::First)
            .scanning(seed.is_multiple_of(2))
            .acquiring_at_faults((seed / 2).is_multiple_of(2));
        cluster.run(&programs);
    }
}

/// A rank reads under a lock what another rank of its node has put off, and publishes a pointer to
/// it without a lock: a rank of another node that reads the pointer reads what it points to.
#[test]
fn a_fence_publishes_what_its_rank_has_read_of_others_of_its_node() {
    let (data, pointer) = (USED, 0);
    let followed = Mutex::new(0);
    for seed in 0..pick(200, 5000) {
        let cluster = Cluster::new(seed, (2, 2), 2, Placing::Cyclic)
            .scanning(seed.is_multiple_of(2))
            .acquiring_at_faults(true)
            .publishing_each(1000);
        let section = |rank: &mut Rank, op| {
            [Op::Lock(0), op, Op::Unlock(0)].into_iter().for_each(|op| rank.step(op));
        };
        cluster.run_each(|thread, rank| match thread {
            0 => {
                while rank.kept() == 0 {
                    section(rank, Op::Peek(data));
                }
                rank.step(Op::Fence);
                rank.step(Op::Write(pointer, 1));
            }
            1 => section(rank, Op::Write(data, 7)),
            2 => {
                (0..seed % 200).for_each(|_| rank.step(Op::Peek(data + 8)));
                rank.step(Op::Peek(pointer));
                *followed.lock().unwrap() += u32::from(rank.kept() != 0);
                rank.step(Op::Follow(data, 7));
            }
            _ => {}
        });
    }
    let followed = followed.into_inner().unwrap();
    assert!(followed > 10, "{followed} pointers were read");
}
