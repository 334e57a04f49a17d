//! The parallel transform: lines along x, then y, then z, and an exchange before each of the last
//! two.
//!
//! A block of an exchange holds what one rank has for another of one plane, in the order in which
//! the other needs it. Blocks lie one after the other in the other's memory, by sender and plane,
//! so nothing but numbers travels.

use crate::decomposition::Decomposition;
use crate::input::number;
use anyhow::Result;
use clump::pgas::{GlobalPtr, Layout, Pgas, Spread};
use clump_app_frame::Traffic;
use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

/// Numbers of a bulk store: 4 KiB.
const STORED: usize = 256;

/// Number as it lies in global memory.
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
        Ok(Self { to_y: gas.spread(to_y, Layout::Block)?, to_z: gas.spread(to_z, Layout::Block)? })
    }
}

/// Transforms this rank's lines along x, plane by plane, and sends each plane to the ranks that
/// have its lines along y.
///
/// # Errors
/// Fails if a rank is lost.
pub fn along_x(parts: &Decomposition, exchanges: &Exchanges, traffic: &mut Traffic) -> Result<()> {
    let [x, y, _] = parts.sides;
    let (own_y, own_z) = (parts.y_of_x_lines(), parts.z());
    let fft = FftPlanner::new().plan_fft_forward(x);
    let mut block = Vec::new();
    for (plane, z) in own_z.clone().enumerate() {
        let places = own_y.clone().flat_map(|row| (0..x).map(move |n| n + x * (row + y * z)));
        let mut lines: Vec<Complex64> = places.map(number).collect();
        fft.process(&mut lines);
        for first in 0..parts.grid[0] {
            let other = parts.of([first, parts.at[1]]);
            block.clear();
            for column in other.x() {
                block.extend((0..own_y.len()).map(|row| pair(lines[row * x + column])));
            }
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
    let got = exchanges.to_y.local().to_vec()?;
    let fft = FftPlanner::new().plan_fft_forward(y);
    let mut lines = vec![Complex64::default(); y * own_z.len()];
    let mut block = Vec::new();
    for column in 0..own_x.len() {
        for first in 0..parts.grid[0] {
            let rows = parts.of([first, parts.at[1]]).y_of_x_lines();
            for plane in 0..own_z.len() {
                let before = rows.start * own_z.len() + rows.len() * plane;
                let from = before * own_x.len() + column * rows.len();
                let to = &mut lines[plane * y..][rows.clone()];
                let both = to.iter_mut().zip(&got[from..from + rows.len()]);
                both.for_each(|(to, from)| *to = complex(*from));
            }
        }
        fft.process(&mut lines);
        for second in 0..parts.grid[1] {
            let other = parts.of([parts.at[0], second]);
            let rows = other.y_of_z_lines();
            block.clear();
            for row in rows.clone() {
                block.extend((0..own_z.len()).map(|plane| pair(lines[plane * y + row])));
            }
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
/// Fails if memory has gone.
pub fn along_z(
    parts: &Decomposition,
    result: &Spread<ComplexWords>,
    exchanges: &Exchanges,
) -> Result<()> {
    let z = parts.sides[2];
    let (own_x, own_y) = (parts.x(), parts.y_of_z_lines());
    let got = exchanges.to_z.local().to_vec()?;
    let fft = FftPlanner::new().plan_fft_forward(z);
    let mut lines = vec![Complex64::default(); own_y.len() * z];
    let gas = result.pgas();
    for column in 0..own_x.len() {
        for second in 0..parts.grid[1] {
            let planes = parts.of([parts.at[0], second]).z();
            let before = planes.start * own_x.len() + planes.len() * column;
            for row in 0..own_y.len() {
                let from = before * own_y.len() + row * planes.len();
                let to = &mut lines[row * z..][planes.clone()];
                let both = to.iter_mut().zip(&got[from..from + planes.len()]);
                both.for_each(|(to, from)| *to = complex(*from));
            }
        }
        fft.process(&mut lines);
        let numbers: Vec<ComplexWords> = lines.iter().copied().map(pair).collect();
        if let Some(to) = result.on(gas.rank()).filter(|_| !numbers.is_empty()) {
            gas.bulk_put(to.offset_by((column * lines.len()) as isize), &numbers)?;
        }
    }
    Ok(())
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

/// Returns a number as it lies in global memory.
pub fn pair(number: Complex64) -> ComplexWords {
    [number.re, number.im]
}

/// Returns the number that lies in global memory.
pub fn complex([re, im]: ComplexWords) -> Complex64 {
    Complex64::new(re, im)
}
