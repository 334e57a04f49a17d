//! Tasks that make tasks: `clump run -n 4 --nodes 2 target/release/examples/work_queues [QUEENS]`.
//!
//! Queens are placed on a chess board, row by row, so that none attacks another. A task is a board
//! with some rows filled; it makes a task for each place of the next queen. All begin at rank 0;
//! ranks without tasks steal half of another's. The end is found when no rank has any.

use clump::Sum;
use clump::pgas::WorkQueues;

/// Rows filled; columns taken; diagonals taken, of both directions.
type Board = [u32; 4];

/// Returns the solutions of a board, counted without further tasks.
fn solutions([row, columns, left, right]: Board, queens: u32) -> u64 {
    if row == queens {
        return 1;
    }
    let free = (0..queens).filter(|at| (columns | left | right) >> at & 1 == 0);
    free.map(|at| solutions(next([row, columns, left, right], at, queens), queens)).sum()
}

/// Returns the board with a queen in column `at` of the next row.
fn next([row, columns, left, right]: Board, at: u32, queens: u32) -> Board {
    let (queen, all) = (1 << at, (1 << queens) - 1);
    [row + 1, columns | queen, (left | queen) << 1 & all, (right | queen) >> 1]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queens = std::env::args_os().nth(1);
    let queens = queens.map_or(Ok(9), |text| text.to_string_lossy().parse::<u32>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let queues = WorkQueues::<Board>::create(&gas, 256)?;
    if cl.rank() == 0 {
        queues.push([0; 4])?;
    }
    let mut found = 0;
    queues.run(|queues, board| {
        let [row, columns, left, right] = board;
        if row + 5 >= queens {
            found += solutions(board, queens);
            return Ok(());
        }
        let free = (0..queens).filter(|at| (columns | left | right) >> at & 1 == 0);
        let boards: Vec<Board> = free.map(|at| next(board, at, queens)).collect();
        queues.push_all(&boards)
    })?;
    let all = cl.all_reduce(found, Sum)?;
    assert_eq!(all, solutions([0; 4], queens), "as by one rank");
    let counts = queues.counts();
    let (done, stolen) = (cl.all_gather(counts.done)?, cl.all_reduce(counts.stolen, Sum)?);
    if cl.rank() == 0 {
        println!("{queens} queens: {all} solutions; tasks by rank {done:?}, {stolen} stolen");
    }
    Ok(gas.barrier()?)
}
