//! Elimination in shared virtual memory, in its shortest form: rows are dealt out to ranks one by
//! one, and a flag says when a row is final. Rank 0 compares with the serial program, bit by bit.
//! (`clump app lu` works by blocks.)
//!
//! ```text
//! clump run -n 4 --nodes 2 lu [ORDER]
//! ```
#![forbid(unsafe_code)]

use clump::svm::Home;

/// Element of the input: the diagonal is so large that no pivot is needed.
fn element(n: usize, row: usize, column: usize) -> f64 {
    let mixed = (row * n + column + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as f64 / f64::from(1 << 24) + if row == column { n as f64 } else { 0.0 }
}

/// Eliminates column `k` of a row with the row of its pivot.
fn eliminate(row: &mut [f64], pivot: &[f64], k: usize) {
    row[k] /= pivot[k];
    let factor = row[k];
    row.iter_mut().zip(pivot).skip(k + 1).for_each(|(value, other)| *value -= factor * other);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let order = std::env::args_os().nth(1).map(|word| word.to_string_lossy().parse());
    let n: usize = order.transpose()?.unwrap_or(128);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let matrix = svm.matrix::<f64>(n, n, Home::Cyclic)?;
    let finals = svm.flags(n)?;
    let is_mine = |row: usize| row % cl.nranks() == cl.rank();
    let (mut row, mut pivot) = (vec![0.0; n], vec![0.0; n]);
    for own in (0..n).filter(|&row| is_mine(row)) {
        row.iter_mut().enumerate().for_each(|(at, value)| *value = element(n, own, at));
        matrix.write_row(own, &row);
    }
    svm.barrier()?;
    for k in 0..n {
        if is_mine(k) {
            finals.set(k, 1)?;
        } else {
            finals.wait(k, 1)?;
        }
        matrix.read_row(k, &mut pivot);
        for own in (k + 1..n).filter(|&row| is_mine(row)) {
            matrix.read_row(own, &mut row);
            eliminate(&mut row, &pivot, k);
            matrix.write_row(own, &row);
        }
    }
    svm.barrier()?;
    if cl.rank() == 0 {
        let mut serial: Vec<Vec<f64>> =
            (0..n).map(|row| (0..n).map(|column| element(n, row, column)).collect()).collect();
        for k in 0..n {
            let (above, below) = serial.split_at_mut(k + 1);
            below.iter_mut().for_each(|row| eliminate(row, &above[k], k));
        }
        for (at, expected) in serial.iter().enumerate() {
            matrix.read_row(at, &mut row);
            let same = row.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "row {at} differs");
        }
        println!("the factors of order {n} are those of the serial program");
    }
    svm.barrier()?;
    Ok(())
}
