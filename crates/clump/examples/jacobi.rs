//! Relaxation of a grid in shared virtual memory: each rank updates a block of rows, and reads the
//! rows beside it, which another rank has written. Rank 0 computes the same serially and compares.
//!
//! ```text
//! clump run -n 4 --nodes 2 jacobi [ORDER [ITERATIONS]]
//! ```
#![forbid(unsafe_code)]

use clump::Max;
use clump::svm::Home;

/// Returns a row of the grid at the beginning: hot at one edge.
fn start(row: usize, n: usize) -> Vec<f64> {
    (0..n).map(|j| if row == 0 { 1.0 + j as f64 / n as f64 } else { 0.0 }).collect()
}

/// Returns the row between three others, and its largest change.
fn relax([above, here, below]: [&[f64]; 3]) -> (Vec<f64>, f64) {
    let (mut new, mut change) = (here.to_vec(), 0_f64);
    for j in 1..here.len() - 1 {
        new[j] = 0.25 * (above[j] + below[j] + here[j - 1] + here[j + 1]);
        change = change.max((new[j] - here[j]).abs());
    }
    (new, change)
}

/// Returns the grid after so many iterations, and its last change.
fn serial(n: usize, iterations: usize) -> (Vec<Vec<f64>>, f64) {
    let (mut grid, mut last): (Vec<_>, _) = ((0..n).map(|row| start(row, n)).collect(), 0.0);
    for _ in 0..iterations {
        let three = |rows: &[Vec<f64>]| relax([&rows[0], &rows[1], &rows[2]]);
        let (inner, changes): (Vec<_>, Vec<_>) = grid.windows(3).map(three).unzip();
        grid.splice(1..n - 1, inner);
        last = changes.into_iter().fold(0.0, f64::max);
    }
    (grid, last)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let n: usize = words.next().map_or(Ok(256), |word| word.parse())?;
    let iterations: usize = words.next().map_or(Ok(20), |word| word.parse())?;
    let cl = clump::init()?;
    let svm = cl.svm()?;
    // Rows lie one behind the other, so that a page may hold the rows of two ranks.
    let mut from = svm.matrix::<f64>(n, n, Home::Block)?;
    let mut to = svm.matrix::<f64>(n, n, Home::Block)?;
    let first_row = |rank: usize| 1 + rank * (n - 2) / cl.nranks();
    let rows = first_row(cl.rank())..first_row(cl.rank() + 1);
    for row in (0..n).filter(|_| cl.rank() == 0) {
        from.write_row(row, &start(row, n));
        to.write_row(row, &start(row, n));
    }
    svm.barrier()?;
    let (mut three, mut change) = ([(); 3].map(|()| vec![0.0; n]), 0_f64);
    for _ in 0..iterations {
        change = 0.0;
        for row in rows.clone() {
            (0..3).for_each(|at| from.read_row(row - 1 + at, &mut three[at]));
            let (new, most) = relax(three.each_ref().map(|row| &row[..]));
            to.write_row(row, &new);
            change = change.max(most);
        }
        svm.barrier()?;
        std::mem::swap(&mut from, &mut to);
    }
    let change = cl.all_reduce(change, Max)?;
    if cl.rank() == 0 {
        let (expected, last) = serial(n, iterations);
        assert_eq!(change.to_bits(), last.to_bits(), "the last change");
        for (row, values) in expected.iter().enumerate() {
            from.read_row(row, &mut three[0]);
            assert_eq!(three[0], *values, "row {row}");
        }
        println!("{iterations} iterations of {n} x {n} are those of the serial program");
    }
    svm.barrier()?;
    Ok(())
}
