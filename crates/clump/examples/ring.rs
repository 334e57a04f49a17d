//! Ring: `clump run -n 4 --nodes 2 target/release/examples/ring [ROUNDS]`.
//!
//! A number goes from rank to rank; each adds itself, and stores it at the next. Stores are
//! one-way: the receiver counts the bytes that arrive, and waits for as many as it expects. Nobody
//! polls a flag, and nobody answers.

use clump::pgas::Layout;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args_os().nth(1);
    let rounds = rounds.map_or(Ok(1000), |text| text.to_string_lossy().parse::<u64>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let (me, ranks) = (cl.rank(), cl.nranks());
    let places = gas.spread::<u64>(ranks, Layout::Block)?;
    let next = places.at((me + 1) % ranks);
    let mut number = 0;
    for _ in 0..rounds {
        if me == 0 {
            next.store(number)?;
        }
        gas.store_sync(size_of::<u64>())?;
        number = places.local().get(0)? + me as u64;
        if me != 0 {
            next.store(number)?;
        }
    }
    gas.all_store_sync()?;
    if me == 0 {
        let expected = rounds * (ranks * (ranks - 1) / 2) as u64;
        assert_eq!(number, expected, "each rank has added itself in each round");
        println!("after {rounds} rounds over {ranks} ranks: {number}");
    }
    Ok(gas.barrier()?)
}
