//! The parallel transform: lines along x, then y, then z, and an exchange before each of the last
//! two.
//!
//! A block of an exchange holds what one rank has for another of one plane, in the order in which
//! the other needs it. Blocks are contiguous in the other's memory, by sender and plane, so only
//! numbers are sent.

use crate::fft3d::decomposition::Decomposition;
use crate::fft3d::input::number;
use crate::run::spread_touched;
use crate::traffic::Traffic;
use anyhow::Result;
use clump::pgas::{GlobalPtr, LocalPart, Pgas, Spread};
use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;
use std::ops::Range;

/// Numbers of a bulk store: 4 KiB.
const STORED: usize = 256;
/// Lines and columns that are transposed at a time.
const TILE: usize = 16;

/// Number as stored in global memory.
pub type ComplexWords = [f64; 2];

/// Memory of the exchanges.
#[derive(Debug)]
pub struct Exchanges {
    to_y: Spread<ComplexWords>,
    to_z: Spread<ComplexWords>,
}

impl Exchanges {
    /// Spreads the memory. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank is lost.
    pub fn new(gas: &Pgas, parts: &Decomposition) -> Result<Self> {
        let ranks = gas.nranks();
        let of = |rank: usize| parts.of([rank % parts.grid[0], rank / parts.grid[0]]);
        let most = |count: &dyn Fn(Decomposition) -> usize| {
            (0..ranks).map(|rank| count(of(rank))).max().unwrap_or(0) * ranks
        };
        let [_, y, z] = parts.sides;
        let to_y = most(&|it| it.x().len() * y * it.z().len());
        let to_z = most(&|it| it.x().len() * it.y_of_z_lines().len() * z);
        Ok(Self { to_y: spread_touched(gas, to_y)?, to_z: spread_touched(gas, to_z)? })
    }
}

/// Returns the numbers of this rank's lines along x, plane by plane.
pub fn own_numbers(parts: &Decomposition) -> Vec<Complex64> {
    let [x, y, _] = parts.sides;
    let rows = |z: usize| parts.y_of_x_lines().map(move |row| x * (row + y * z));
    parts.z().flat_map(rows).flat_map(|first| (first..first + x).map(number)).collect()
}

/// Transforms this rank's lines along x, plane by plane, and sends each plane to the ranks that
/// have its lines along y.
///
/// # Errors
/// Fails if a rank is lost.
pub fn along_x(
    parts: &Decomposition,
    mut numbers: Vec<Complex64>,
    exchanges: &Exchanges,
    traffic: &mut Traffic,
) -> Result<()> {
    let x = parts.sides[0];
    let (own_y, own_z) = (parts.y_of_x_lines(), parts.z());
    let fft = FftPlanner::new().plan_fft_forward(x);
    let mut scratch = vec![Complex64::default(); fft.get_inplace_scratch_len()];
    let mut block = Vec::new();
    for (plane, lines) in numbers.chunks_mut((own_y.len() * x).max(1)).enumerate() {
        fft.process_with_scratch(lines, &mut scratch);
        for first in 0..parts.grid[0] {
            let other = parts.of([first, parts.at[1]]);
            transpose(lines, x, other.x(), &mut block);
            // Blocks of the senders before this one have their share of y, of each plane.
            let before = own_y.start * own_z.len() + own_y.len() * plane;
            let rank = parts.rank(other.at);
            send(&exchanges.to_y, rank, before * other.x().len(), &block, traffic)?;
        }
    }
    Ok(exchanges.to_y.pgas().all_store_sync()?)
}

/// Transforms this rank's lines along y, for one x after the other, and sends those to the ranks
/// that have their lines along z.
///
/// # Errors
/// Fails if a rank is lost.
pub fn along_y(parts: &Decomposition, exchanges: &Exchanges, traffic: &mut Traffic) -> Result<()> {
    let y = parts.sides[1];
    let (own_x, own_z) = (parts.x(), parts.z());
    let got = exchanges.to_y.local();
    let fft = FftPlanner::new().plan_fft_forward(y);
    let mut scratch = vec![Complex64::default(); fft.get_inplace_scratch_len()];
    let mut lines = vec![Complex64::default(); y * own_z.len()];
    let (mut block, mut run) = (Vec::new(), Vec::new());
    for column in 0..own_x.len() {
        for first in 0..parts.grid[0] {
            let rows = parts.of([first, parts.at[1]]).y_of_x_lines();
            for plane in 0..own_z.len() {
                let before = rows.start * own_z.len() + rows.len() * plane;
                let from = before * own_x.len() + column * rows.len();
                take(got, from, &mut lines[plane * y..][rows.clone()], &mut run)?;
            }
        }
        fft.process_with_scratch(&mut lines, &mut scratch);
        for second in 0..parts.grid[1] {
            let other = parts.of([parts.at[0], second]);
            let rows = other.y_of_z_lines();
            transpose(&lines, y, rows.clone(), &mut block);
            let before = own_z.start * own_x.len() + own_z.len() * column;
            let rank = parts.rank(other.at);
            send(&exchanges.to_z, rank, before * rows.len(), &block, traffic)?;
        }
    }
    Ok(exchanges.to_z.pgas().all_store_sync()?)
}

/// Transforms this rank's lines along z, and leaves them where they are: in order of x, y and z.
///
/// # Errors
/// Fails if memory was freed.
pub fn along_z(
    parts: &Decomposition,
    result: &Spread<ComplexWords>,
    exchanges: &Exchanges,
) -> Result<()> {
    let z = parts.sides[2];
    let (own_x, own_y) = (parts.x(), parts.y_of_z_lines());
    let (got, to) = (exchanges.to_z.local(), result.local());
    let fft = FftPlanner::new().plan_fft_forward(z);
    let mut scratch = vec![Complex64::default(); fft.get_inplace_scratch_len()];
    let mut lines = vec![Complex64::default(); own_y.len() * z];
    let mut run = Vec::new();
    for column in 0..own_x.len() {
        for second in 0..parts.grid[1] {
            let planes = parts.of([parts.at[0], second]).z();
            let before = planes.start * own_x.len() + planes.len() * column;
            for row in 0..own_y.len() {
                let from = before * own_y.len() + row * planes.len();
                take(got, from, &mut lines[row * z..][planes.clone()], &mut run)?;
            }
        }
        fft.process_with_scratch(&mut lines, &mut scratch);
        run.clear();
        run.extend(lines.iter().copied().map(pair));
        to.copy_from(column * lines.len(), &run)?;
    }
    Ok(())
}

/// Takes numbers of this rank's memory into `to`, by way of `run`.
fn take(
    got: LocalPart<'_, ComplexWords>,
    from: usize,
    to: &mut [Complex64],
    run: &mut Vec<ComplexWords>,
) -> Result<()> {
    run.resize(to.len(), [0.0; 2]);
    got.copy_to(from, run)?;
    to.iter_mut().zip(run).for_each(|(to, from)| *to = complex(*from));
    Ok(())
}

/// Fills `block` with columns of lines of `length`, one after the other; a few lines and columns at
/// a time, so that what is read and written stays in the cache.
fn transpose(
    lines: &[Complex64],
    length: usize,
    columns: Range<usize>,
    block: &mut Vec<ComplexWords>,
) {
    let height = lines.len() / length.max(1);
    block.resize(height * columns.len(), [0.0; 2]);
    for rows in (0..height).step_by(TILE) {
        for first in columns.clone().step_by(TILE) {
            for column in first..columns.end.min(first + TILE) {
                let to = &mut block[(column - columns.start) * height..][..height];
                for row in rows..height.min(rows + TILE) {
                    to[row] = pair(lines[row * length + column]);
                }
            }
        }
    }
}

/// Stores a block in pieces.
fn send(
    to: &Spread<ComplexWords>,
    rank: usize,
    place: usize,
    block: &[ComplexWords],
    traffic: &mut Traffic,
) -> Result<()> {
    let Some(begin) = to.on(rank) else { return Ok(()) };
    let begin: GlobalPtr<ComplexWords> = begin.offset_by(place as isize);
    for (n, piece) in block.chunks(STORED).enumerate() {
        to.pgas().bulk_store(begin.offset_by((n * STORED) as isize), piece)?;
        traffic.bulk(rank, size_of_val(piece) as u64);
    }
    Ok(())
}

/// Returns a number as stored in global memory.
pub fn pair(number: Complex64) -> ComplexWords {
    [number.re, number.im]
}

/// Returns the number stored in global memory.
pub fn complex([re, im]: ComplexWords) -> Complex64 {
    Complex64::new(re, im)
}
