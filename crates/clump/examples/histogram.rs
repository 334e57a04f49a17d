//! A histogram over all ranks: `clump run -n 4 --nodes 2 target/release/examples/histogram [N]`.
//!
//! The bins are spread over the memories of all ranks. Each rank throws dice and adds one to the
//! bin of each sum. An addition is one line, whatever rank its bin is on. Those for other nodes are
//! collected, sent many at a time, and executed by the other node's interface; the rank that a bin
//! is on does not take part.

use clump::Sum;
use clump::pgas::Layout;

/// Dice of a throw, and their sides.
const DICE: usize = 8;
const SIDES: u64 = 6;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let throws = std::env::args_os()
        .nth(1)
        .map_or(Ok(1_000_000), |text| text.to_string_lossy().parse::<u64>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let bins = gas.spread::<u64>(DICE * SIDES as usize + 1, Layout::Cyclic)?;

    let mut state = 0x9e37_79b9_7f4a_7c15 ^ cl.rank() as u64;
    for _ in 0..throws {
        let mut sum = 0;
        for _ in 0..DICE {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            sum += state % SIDES + 1;
        }
        bins.at(sum as usize).add(1)?;
    }
    // Every addition of every rank has landed.
    gas.all_store_sync()?;

    let mine = bins.local().to_vec()?;
    let total = cl.all_reduce(mine.iter().sum::<u64>(), Sum)?;
    assert_eq!(total, throws * cl.nranks() as u64, "each throw is in one bin");
    if cl.rank() == 0 {
        let all: Vec<_> = (0..bins.len()).collect();
        let mut counts = vec![0; all.len()];
        bins.gather(&all, &mut counts)?;
        let most = counts.iter().max().copied().unwrap_or(0).max(1);
        for (sum, count) in counts.iter().enumerate().skip(DICE) {
            println!("{sum:3} {count:9} {}", "#".repeat((count * 60 / most) as usize));
        }
        println!("{total} throws of {} ranks", cl.nranks());
    }
    // Nobody's bins go while another rank reads them.
    gas.barrier()?;
    Ok(())
}
