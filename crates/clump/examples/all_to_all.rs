//! All to all: `clump run -n 4 --nodes 2 target/release/examples/all_to_all [NUMBERS]`.
//!
//! Every rank has a block of numbers for every other one. It stores each block where it belongs,
//! one-way; a rank goes on when it has counted as many bytes as it expects, whatever the others do.

use clump::pgas::Layout;

/// Returns a number that one rank has for another.
fn number(from: usize, to: usize, n: usize) -> u64 {
    (from * 1_000_000 + to * 1000 + n) as u64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args_os().nth(1);
    let count = count.map_or(Ok(4096), |text| text.to_string_lossy().parse::<usize>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let (me, ranks) = (cl.rank(), cl.nranks());
    // The inbox of a rank: a block from each.
    let inboxes = gas.spread::<u64>(ranks * ranks * count, Layout::Block)?;
    // Ranks begin with different ones, so that nobody gets everything at once.
    for to in (0..ranks).map(|n| (me + n) % ranks) {
        let block: Vec<u64> = (0..count).map(|n| number(me, to, n)).collect();
        if let Some(inbox) = inboxes.on(to) {
            gas.bulk_store(inbox.offset_by((me * count) as isize), &block)?;
        }
    }
    gas.store_sync(ranks * count * size_of::<u64>())?;
    for (place, found) in inboxes.local().to_vec()?.into_iter().enumerate() {
        let (from, n) = (place / count, place % count);
        assert_eq!(found, number(from, me, n), "number {n} from rank {from}");
    }
    gas.all_store_sync()?;
    if me == 0 {
        println!("{ranks} ranks have exchanged blocks of {count} numbers");
    }
    Ok(gas.barrier()?)
}
