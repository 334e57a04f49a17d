//! Task queues with stealing: `clump run -n 4 --nodes 2 target/release/examples/task_queue [N]`.
//!
//! Every rank has a queue of tasks, and a word that counts those that were taken from it. A rank
//! takes its own tasks first, then those of others: one remote atomic each, and no lock. Here rank
//! 0 begins with all the tasks, so all others steal.

use clump::Sum;
use clump::pgas::Layout;

/// Returns the number of steps that a number takes to get down to 1 (Collatz).
fn steps(mut number: u64) -> u64 {
    let mut steps = 0;
    while number > 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tasks = std::env::args_os().nth(1);
    let tasks = tasks.map_or(Ok(2000), |text| text.to_string_lossy().parse::<u64>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let (me, ranks) = (cl.rank(), cl.nranks());
    let taken = gas.spread::<u64>(ranks, Layout::Block)?;
    let queued = cl.all_gather(if me == 0 { tasks } else { 0 })?;
    let times = gas.spread::<u64>(tasks as usize, Layout::Cyclic)?;
    gas.barrier()?;

    let (mut done, mut sum) = (0_u64, 0);
    let victims = (0..ranks).map(|n| (me + n) % ranks);
    for victim in victims.filter(|&victim| queued[victim] > 0) {
        loop {
            let task = taken.at(victim).fetch_add(1)?.wait()?;
            if task >= queued[victim] {
                break;
            }
            sum += steps(task + 1);
            times.at(task as usize).add(1)?;
            done += 1;
        }
    }
    gas.all_store_sync()?;
    let once = times.local().to_vec()?.into_iter().all(|times| times == 1);
    assert!(once, "every task was done once");
    let (done, sum) = (cl.all_gather(done)?, cl.all_reduce(sum, Sum)?);
    if me == 0 {
        println!("{tasks} tasks, {sum} steps; done by each rank: {done:?}");
    }
    Ok(gas.barrier()?)
}
