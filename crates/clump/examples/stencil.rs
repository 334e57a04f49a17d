//! Stencil with halo rows: `clump run -n 4 --nodes 2 target/release/examples/stencil [STEPS]`.
//!
//! Heat spreads over a plate whose upper edge is hot. Each rank has some rows, and copies of the
//! rows next to them: its neighbours store those there before each step. Two sets of copies take
//! turns, so one barrier a step is enough: nobody stores into copies that others still read.

use clump::Max;
use clump::pgas::Layout;

/// Numbers of a row, and rows of each rank.
const WIDTH: usize = 64;
const ROWS: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = std::env::args_os().nth(1);
    let steps = steps.map_or(Ok(200), |text| text.to_string_lossy().parse::<usize>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let (me, ranks) = (cl.rank(), cl.nranks());
    // For each rank two sets of two rows: the one above its own, and the one below.
    let copies = gas.spread::<f64>(ranks * 4 * WIDTH, Layout::Block)?;
    let place = |rank: usize, set: usize, below: bool| {
        copies.ptr((rank * 4 + set * 2 + usize::from(below)) * WIDTH)
    };
    let mut plate = vec![[0.0_f64; WIDTH]; ROWS + 2];
    if me == 0 {
        plate[0] = [100.0; WIDTH];
    }
    let mut change = 0.0;
    for step in 0..steps {
        let set = step % 2;
        if let Some(below_it) = (me > 0).then(|| place(me - 1, set, true)).flatten() {
            gas.bulk_store(below_it, &plate[1])?;
        }
        if let Some(above_it) = place(me + 1, set, false) {
            gas.bulk_store(above_it, &plate[ROWS])?;
        }
        gas.all_store_sync()?;
        let got = copies.local().to_vec()?;
        let row = |below: usize| &got[(set * 2 + below) * WIDTH..][..WIDTH];
        if me > 0 {
            plate[0].copy_from_slice(row(0));
        }
        if me + 1 < ranks {
            plate[ROWS + 1].copy_from_slice(row(1));
        }
        let old = plate.clone();
        change = 0.0_f64;
        for i in 1..=ROWS {
            for j in 1..WIDTH - 1 {
                let around = old[i - 1][j] + old[i + 1][j] + old[i][j - 1] + old[i][j + 1];
                change = change.max((around / 4.0 - old[i][j]).abs());
                plate[i][j] = around / 4.0;
            }
        }
    }
    let hottest = plate[1..=ROWS].iter().flatten().fold(0.0_f64, |most, &one| most.max(one));
    let (change, hottest) = (cl.all_reduce(change, Max)?, cl.all_gather(hottest)?);
    assert!(hottest.is_sorted_by(|above, below| above >= below), "heat comes from above");
    if me == 0 {
        println!("after {steps} steps: largest change {change:.6}, hottest by rank {hottest:.3?}");
    }
    Ok(gas.barrier()?)
}
