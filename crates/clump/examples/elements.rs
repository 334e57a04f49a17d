//! Times of operations on elements of an array that is spread over all ranks, by random indexes:
//! `clump run -n 2 target/release/examples/elements`. Prints a line of JSON, in seconds.

use clump::RankClock;
use clump::pgas::{Layout, Pgas, Spread};
use std::hint::black_box;

/// Elements of the array.
const ELEMENTS: usize = 1 << 20;
/// Indexes of a vector.
const INDEXES: usize = 1_000_000;
/// Operations on one element.
const SINGLE: usize = 100_000;
const ROUNDS: usize = 5;

type Failed = Box<dyn std::error::Error>;

/// Returns the median time of a round, which begins with a barrier.
fn timed(
    (clock, gas): (&RankClock, &Pgas),
    mut round: impl FnMut() -> Result<(), Failed>,
) -> Result<f64, Failed> {
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        gas.all_store_sync()?;
        let began_ns = clock.now_ns();
        round()?;
        seconds.push((clock.now_ns() - began_ns) as f64 * 1e-9);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[ROUNDS / 2])
}

/// Returns random indexes.
fn indexes(mut state: u64) -> Vec<usize> {
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % ELEMENTS
    };
    (0..INDEXES).map(|_| next()).collect()
}

/// Prints the times of vectors of indexes, and of single elements at this rank.
fn measure(cl: &clump::Clump, gas: &Pgas, table: &Spread<i64>) -> Result<(), Failed> {
    let (rank, timer) = (cl.rank(), (cl.clock(), gas));
    let all = indexes(0x9e37_79b9_7f4a_7c15 ^ rank as u64);
    let mut out = vec![0; INDEXES];
    let add = timed(timer, || Ok(table.scatter_add(&all, 1)?))?;
    let gather = timed(timer, || Ok(table.gather(&all, &mut out)?))?;
    let scatter = timed(timer, || {
        table.scatter(&all, &out)?;
        Ok(gas.sync()?)
    })?;
    // An element of this rank.
    let near = rank;
    let read = timed(timer, || {
        for _ in 0..SINGLE {
            black_box(table.at(black_box(near)).read()?);
        }
        Ok(())
    })?;
    let one = timed(timer, || {
        for _ in 0..SINGLE {
            table.at(black_box(near)).add(1)?;
        }
        Ok(())
    })?;
    gas.all_store_sync()?;
    if rank == 0 {
        let [read, one] = [read, one].map(|seconds| seconds / SINGLE as f64);
        println!(
            "{{\"add of 1 M\": {add}, \"gather of 1 M\": {gather}, \"scatter of 1 M\": {scatter}, \
             \"scalar read\": {read}, \"scalar add\": {one}}}"
        );
    }
    Ok(())
}

fn main() -> Result<(), Failed> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let table = gas.spread::<i64>(ELEMENTS, Layout::Cyclic)?;
    measure(&cl, &gas, &table)?;
    gas.barrier()?;
    Ok(())
}
