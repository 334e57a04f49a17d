//! Work dealt by what it costs: `clump run -n 4 target/release/examples/cost_zones [NUMBERS]`.
//!
//! Steps of Collatz's sequence from each of some numbers. In a first round each rank has as many
//! numbers as any other; the steps that a number took are its cost in the second, in which each
//! rank has numbers of as many steps.

use clump::op::{Max, Sum};
use clump::pgas::CostZones;
use std::ops::Range;

/// Returns the steps of a number's sequence to 1.
fn steps(number: u64) -> u64 {
    let next = |n: &u64| (*n != 1).then(|| if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(number), next).count() as u64
}

/// Returns the steps of numbers.
fn all(numbers: Range<u64>) -> Vec<u64> {
    numbers.map(|number| steps(number + 1)).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers = std::env::args_os().nth(1);
    let numbers = numbers.map_or(Ok(20_000), |text| text.to_string_lossy().parse::<u64>())?;
    let cl = clump::init()?;
    let (me, ranks) = (cl.rank(), cl.nranks());
    let even = CostZones::new(numbers, ranks).zone(me);
    let costs = all(even);
    // Costs of all numbers before mine, and of all.
    let mine: u64 = costs.iter().sum();
    let sums = cl.all_gather(mine)?;
    let zones = CostZones::new(sums.iter().sum(), ranks);
    let mut before: u64 = sums[..me].iter().sum();
    let mut counts = vec![0_u64; ranks];
    for cost in &costs {
        counts[zones.owner(before)] += 1;
        before += cost;
    }
    let mut first = 0;
    let mut zone = 0..0;
    for (rank, count) in counts.into_iter().enumerate() {
        let count = cl.all_reduce(count, Sum)?;
        if rank == me {
            zone = first..first + count;
        }
        first += count;
    }
    let again: u64 = all(zone.clone()).iter().sum();
    assert_eq!(cl.all_reduce(again, Sum)?, cl.all_reduce(mine, Sum)?, "each number is somebody's");
    let [evenly, by_cost] = [cl.all_reduce(mine, Max)?, cl.all_reduce(again, Max)?];
    assert!(by_cost <= evenly, "the rank with most has no more than before");
    if me == 0 {
        println!("most steps of a rank: {evenly} by numbers, {by_cost} by costs");
    }
    Ok(())
}
