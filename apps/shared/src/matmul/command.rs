//! `clump app matmul`.

use crate::matmul::check;
use crate::run::SharedRun;
use anyhow::Result;
use clap::Args;
use clump::svm::{Home, SharedMatrix};
use clump_app_frame::InputSize;
use std::ops::Range;
use std::process::ExitCode;

/// Options of `clump app matmul`.
#[derive(Debug, Args)]
pub struct MatmulArgs {
    /// Size of the input: matrices of order 128, 2048 or 384
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Order of the matrices, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub order: Option<u32>,
    /// Rows and columns of the blocks that are multiplied at a time
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub block: u32,
    /// Seed of the elements
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Copies a block out, row by row.
fn read_block(
    matrix: &SharedMatrix<f64>,
    rows: Range<usize>,
    columns: Range<usize>,
    into: &mut Vec<f64>,
) {
    into.resize(rows.len() * columns.len(), 0.0);
    for (row, to) in rows.zip(into.chunks_exact_mut(columns.len())) {
        matrix.elements().read(row * matrix.columns() + columns.start, to);
    }
}

/// Multiplies rows of the left factor with all of the right one, block by block.
fn multiply([left, right, product]: [&SharedMatrix<f64>; 3], own: &Range<usize>, block: usize) {
    let n = product.columns();
    let blocks = |all: Range<usize>| {
        let end = all.end;
        all.step_by(block).map(move |from| from..end.min(from + block))
    };
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for rows in blocks(own.clone()) {
        for columns in blocks(0..n) {
            let mut sums = vec![0.0; rows.len() * columns.len()];
            for inner in blocks(0..n) {
                read_block(left, rows.clone(), inner.clone(), &mut one);
                read_block(right, inner.clone(), columns.clone(), &mut other);
                for (row, sums) in
                    one.chunks_exact(inner.len()).zip(sums.chunks_exact_mut(columns.len()))
                {
                    for (factor, values) in row.iter().zip(other.chunks_exact(columns.len())) {
                        sums.iter_mut().zip(values).for_each(|(sum, b)| *sum += factor * b);
                    }
                }
            }
            for (row, sums) in rows.clone().zip(sums.chunks_exact(columns.len())) {
                product.elements().write(row * n + columns.start, sums);
            }
        }
    }
}

/// Multiplies matrices on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &MatmulArgs) -> Result<ExitCode> {
    let n = args.order.map_or(args.size.of(128, 2048, 384), |order| order as usize);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "matmul", args.size);
    run.report().count("order", n as u64);
    run.report().count("order of a block", u64::from(args.block));
    let matrix = || svm.matrix::<f64>(n, n, Home::Block);
    let (left, right, product) = (matrix()?, matrix()?, matrix()?);
    let own = n * svm.rank() / svm.nranks()..n * (svm.rank() + 1) / svm.nranks();
    let row_of = |factor: u64, row: usize| -> Vec<f64> {
        (row * n..(row + 1) * n).map(|at| check::element(args.seed, factor, at)).collect()
    };
    for row in own.clone() {
        left.write_row(row, &row_of(1, row));
        right.write_row(row, &row_of(2, row));
    }
    run.phase("product", || {
        multiply([&left, &right, &product], &own, args.block as usize);
        Ok(())
    })?;
    let all = |factor: u64| (0..n).flat_map(|row| row_of(factor, row)).collect::<Vec<_>>();
    let factors = if svm.rank() == 0 { [all(1), all(2)] } else { [Vec::new(), Vec::new()] };
    run.finish(
        args.json,
        || check::product((n, args.block as usize), &factors[0], &factors[1]),
        |serial, report| {
            let mut found = vec![0.0; n * n];
            found.chunks_exact_mut(n).enumerate().for_each(|(row, to)| product.read_row(row, to));
            let other = found.iter().zip(&serial).filter(|(found, due)| found != due).count();
            let rows = check::rows_wrong(args.seed, n, [&factors[0], &factors[1], &found]);
            report.count("elements other than serially", other as u64);
            report.count("rows that Freivalds' check finds wrong", rows);
            other as u64 + rows
        },
    )
}
