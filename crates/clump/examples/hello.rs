//! Hello from all ranks: `clump run -n 4 --nodes 2 target/release/examples/hello`.
//!
//! An array has one element for each rank, at rank 0. Every rank writes its node there, wherever it
//! runs; rank 0 reads them as memory of its own.

use clump::pgas::Layout;

fn main() -> clump::Result<()> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let ranks = cl.nranks();
    // One block holds all elements, so they are at rank 0.
    let nodes = gas.spread::<u64>(ranks, Layout::BlockCyclic(ranks))?;
    let mine = cl.node_of(cl.rank()).unwrap_or(0) as u64;
    nodes.at(cl.rank()).put(mine + 1)?;
    // What every rank has begun before has happened, everywhere.
    gas.all_store_sync()?;
    if cl.rank() == 0 {
        for (rank, node) in nodes.local().to_vec()?.into_iter().enumerate() {
            println!("hello from rank {rank} of {ranks}, on node {}", node - 1);
        }
    }
    // Nobody's part of the array goes while another rank uses it.
    Ok(gas.barrier()?)
}
