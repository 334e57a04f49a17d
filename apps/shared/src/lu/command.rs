//! `clump app lu`.

use crate::lu::check::{factorise_serially, residual};
use crate::lu::kernels::{Block, SIDE, divide, factorise, solve, update};
use crate::lu::layout::BlockLayout;
use crate::lu::matrix::element;
use anyhow::Result;
use clap::Args;
use clump::svm::{Breakdown, Svm};
use clump::{Clump, Max, Sum, TimedPhase};
use clump_app_frame::{AppReport, InputSize, Lap};
use std::process::ExitCode;

/// Options of `clump app lu`.
#[derive(Debug, Args)]
pub struct LuArgs {
    /// Size of the input: matrices of order 256, 2048 or 4096
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Order of the matrix, instead of the size's; a multiple of 32
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(32..=65536))]
    pub order: Option<u32>,
    /// Seed of the matrix
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Largest scaled residual that is accepted.
const MAX_RESIDUAL: f64 = 50.0;
/// A block before it is read.
const EMPTY: Block = [0.0; SIDE * SIDE];

/// Factorises a matrix on all ranks of the job that this process belongs to, and checks it.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &LuArgs) -> Result<ExitCode> {
    let n = args.order.map_or(args.size.of(256, 2048, 4096), |order| order as usize);
    anyhow::ensure!(n.is_multiple_of(SIDE), "the order is {n}; give a multiple of {SIDE}");
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut report = AppReport::of("lu", args.size, (cl.nranks(), cl.nnodes()));
    report.count("order", n as u64);
    let matrix = BlockLayout::allocate(&cl, &svm, n / SIDE)?;
    fill(&matrix, args.seed, n);
    svm.barrier()?;
    let before = svm.breakdown();
    let phase = TimedPhase::begin(svm.team(), "factorisation");
    decompose(&svm, &matrix)?;
    let seconds = cl.all_reduce(phase.end(), Max)?;
    let flop = 2.0 / 3.0 * (n as f64).powi(3);
    report.phase("factorisation", seconds);
    report.figure("Gflop/s", flop / seconds / 1e9);
    breakdown(&cl, &before, &svm.breakdown(), &mut report)?;

    let passed = cl.rank() != 0 || check(&matrix, args.seed, n, seconds, &mut report);
    let failed = cl.all_reduce(u64::from(!passed), Sum)?;
    report.verify(failed == 0);
    let code = report.finish(cl.rank() == 0, args.json)?;
    svm.barrier()?;
    Ok(code)
}

/// Fills the blocks of this rank.
fn fill(matrix: &BlockLayout, seed: u64, n: usize) {
    each_own(matrix, 0, 0, |row, column| {
        let value = |at: usize| element(seed, n, row * SIDE + at / SIDE, column * SIDE + at % SIDE);
        matrix.write(row, column, &std::array::from_fn(value));
    });
}

/// Runs `work` on each block of this rank from a row and a column on.
fn each_own(matrix: &BlockLayout, row: usize, column: usize, mut work: impl FnMut(usize, usize)) {
    for row in row..matrix.blocks() {
        for column in column..matrix.blocks() {
            if matrix.is_own(row, column) {
                work(row, column);
            }
        }
    }
}

/// Factorises the matrix: a block of the diagonal, its row and column, the rest, and so on.
fn decompose(svm: &Svm, matrix: &BlockLayout) -> clump::Result<()> {
    let (mut block, mut diagonal, mut left, mut above) = (EMPTY, EMPTY, EMPTY, EMPTY);
    for k in 0..matrix.blocks() {
        if matrix.is_own(k, k) {
            matrix.read(k, k, &mut block);
            factorise(&mut block);
            matrix.write(k, k, &block);
        }
        svm.barrier()?;
        let beside = (k + 1..matrix.blocks()).flat_map(|at| [(at, k), (k, at)]);
        let own: Vec<_> = beside.filter(|&(row, column)| matrix.is_own(row, column)).collect();
        if !own.is_empty() {
            matrix.read(k, k, &mut diagonal);
        }
        for (row, column) in own {
            matrix.read(row, column, &mut block);
            if column == k {
                divide(&mut block, &diagonal);
            } else {
                solve(&mut block, &diagonal);
            }
            matrix.write(row, column, &block);
        }
        svm.barrier()?;
        let mut of_row = None;
        each_own(matrix, k + 1, k + 1, |row, column| {
            if of_row.replace(row) != Some(row) {
                matrix.read(row, k, &mut left);
            }
            matrix.read(k, column, &mut above);
            matrix.read(row, column, &mut block);
            update(&mut block, &left, &above);
            matrix.write(row, column, &block);
        });
    }
    svm.barrier()?;
    Ok(())
}

/// Reports what ranks waited for, in shares of all their time (paper 003, figure 3).
fn breakdown(
    cl: &Clump,
    before: &Breakdown,
    after: &Breakdown,
    report: &mut AppReport,
) -> clump::Result<()> {
    let elapsed = cl.all_reduce(after.elapsed_ns - before.elapsed_ns, Sum)?.max(1) as f64;
    let share = |of: fn(&Breakdown) -> u64| -> clump::Result<f64> {
        Ok(100.0 * cl.all_reduce(of(after) - of(before), Sum)? as f64 / elapsed)
    };
    report.figure("compute, % of time", share(Breakdown::compute_ns)?);
    report.figure("data wait, % of time", share(|b| b.data.ns)?);
    report.figure("barrier, % of time", share(|b| b.barrier.ns)?);
    report.figure("protection, % of time", share(|b| b.protection.ns)?);
    report.count("page faults", cl.all_reduce(after.data.count - before.data.count, Sum)?);
    Ok(())
}

/// Compares the factors with those of a serial factorisation, bit by bit.
fn check(matrix: &BlockLayout, seed: u64, n: usize, seconds: f64, report: &mut AppReport) -> bool {
    let original = |row: usize, column: usize| element(seed, n, row, column);
    let mut serial: Vec<f64> = (0..n * n).map(|at| original(at / n, at % n)).collect();
    let lap = Lap::begin();
    factorise_serially(&mut serial, n);
    report.phase("serial version", lap.seconds());
    report.figure("times as fast as serial", lap.seconds() / seconds);
    let found: Vec<f64> = (0..n * n).map(|at| matrix.element(at / n, at % n)).collect();
    let differs = |(found, serial): &(&f64, &f64)| found.to_bits() != serial.to_bits();
    let wrong = found.iter().zip(&serial).filter(differs).count();
    let residual = residual(original, &found, n);
    report.count("elements other than serially", wrong as u64);
    report.figure("scaled residual", residual);
    wrong == 0 && residual < MAX_RESIDUAL
}
