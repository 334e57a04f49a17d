//! Stencil with halo rows: `clump run -n 4 --nodes 2 target/release/examples/stencil [STEPS]`.
//!
//! Heat spreads over a plate whose upper edge is hot. Each rank has some rows, and copies of the
//! rows next to them, which it exchanges with its neighbours before each step. Ranks wait for their
//! neighbours alone.

use clump::Max;
use clump::pgas::HaloNeighbour;

/// Numbers of a row, and rows of each rank.
const WIDTH: usize = 64;
const ROWS: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = std::env::args_os().nth(1);
    let steps = steps.map_or(Ok(200), |text| text.to_string_lossy().parse::<usize>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let (me, ranks) = (cl.rank(), cl.nranks());
    // The neighbour above comes first, the one below second; at the edges there is none.
    let (up, down) = (if me > 0 { WIDTH } else { 0 }, if me + 1 < ranks { WIDTH } else { 0 });
    let neighbours = [
        HaloNeighbour {
            rank: if up > 0 { me - 1 } else { me },
            entry: usize::from(up > 0),
            len: up,
        },
        HaloNeighbour {
            rank: if down > 0 { me + 1 } else { me },
            entry: usize::from(down == 0),
            len: down,
        },
    ];
    let halo = gas.halo::<f64>(&neighbours)?;
    let mut plate = vec![[0.0_f64; WIDTH]; ROWS + 2];
    if me == 0 {
        plate[0] = [100.0; WIDTH];
    }
    let mut change = 0.0;
    for _ in 0..steps {
        let (first, last) = (plate[1], plate[ROWS]);
        let (upper, lower) = plate.split_at_mut(ROWS + 1);
        let mut copies = [&mut upper[0][..up], &mut lower[0][..down]];
        halo.exchange(&[&first[..up], &last[..down]], &mut copies)?;
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
