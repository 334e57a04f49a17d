//! Relaxation of a grid in shared virtual memory: each rank updates a block of rows, and reads the
//! rows beside it, which another rank has written. Rank 0 computes the same serially and compares.
//!
//! ```text
//! clump run -n 4 --nodes 2 jacobi [ORDER [ITERATIONS]]
//! ```
#![forbid(unsafe_code)]

use clump::svm::Home;
use std::ops::Range;

type Grid = Vec<Vec<f64>>;

/// Returns the grid at the beginning: hot at one edge.
fn start(n: usize) -> Grid {
    let value =
        |row: usize, column: usize| if row == 0 { 1.0 + column as f64 / n as f64 } else { 0.0 };
    (0..n).map(|row| (0..n).map(|column| value(row, column)).collect()).collect()
}

/// Computes the row between three others.
fn relax([above, here, below]: [&[f64]; 3], into: &mut [f64]) -> f64 {
    let (n, mut change) = (here.len(), 0_f64);
    into.copy_from_slice(here);
    for j in 1..n - 1 {
        into[j] = 0.25 * (above[j] + below[j] + here[j - 1] + here[j + 1]);
        change = change.max((into[j] - here[j]).abs());
    }
    change
}

/// Returns the grid after so many iterations, and its last change.
fn serial(n: usize, iterations: usize) -> (Grid, f64) {
    let (mut from, mut to, mut change) = (start(n), start(n), 0.0);
    for _ in 0..iterations {
        change = 0_f64;
        for row in 1..n - 1 {
            let rows = [&from[row - 1][..], &from[row], &from[row + 1]];
            change = change.max(relax(rows, &mut to[row]));
        }
        std::mem::swap(&mut from, &mut to);
    }
    (from, change)
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
    let largest = svm.mutex::<f64>()?;
    let rows: Range<usize> = {
        let at = |rank: usize| 1 + rank * (n - 2) / cl.nranks();
        at(cl.rank())..at(cl.rank() + 1)
    };
    if cl.rank() == 0 {
        for (row, values) in start(n).iter().enumerate() {
            from.write_row(row, values);
            to.write_row(row, values);
        }
    }
    svm.barrier()?;
    let (mut above, mut here, mut below) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let mut new = vec![0.0; n];
    for iteration in 0..iterations {
        let mut change = 0_f64;
        from.read_row(rows.start - 1, &mut above);
        from.read_row(rows.start, &mut here);
        for row in rows.clone() {
            from.read_row(row + 1, &mut below);
            change = change.max(relax([&above, &here, &below], &mut new));
            to.write_row(row, &new);
            // The row that is read next takes the place of the first.
            std::mem::swap(&mut above, &mut here);
            std::mem::swap(&mut here, &mut below);
        }
        if iteration + 1 == iterations {
            let guard = largest.lock()?;
            guard.set(guard.get().max(change));
            guard.release()?;
        }
        svm.barrier()?;
        std::mem::swap(&mut from, &mut to);
    }
    let guard = largest.lock()?;
    let change = guard.get();
    guard.release()?;
    if cl.rank() == 0 {
        let (expected, last) = serial(n, iterations);
        assert_eq!(change.to_bits(), last.to_bits(), "the last change");
        for (row, values) in expected.iter().enumerate() {
            from.read_row(row, &mut here);
            let same = here.iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "row {row} differs");
        }
        println!("{iterations} iterations of {n} x {n} are those of the serial program");
    }
    svm.barrier()?;
    Ok(())
}
