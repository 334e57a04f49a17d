//! `clump app fft3d`.

use crate::fft3d::check::errors;
use crate::fft3d::decomposition::Decomposition;
use crate::fft3d::input::number;
use crate::fft3d::serial;
use crate::fft3d::transform::{
    ComplexWords, Exchanges, along_x, along_y, along_z, complex, own_numbers,
};
use crate::run::{AppRun, spread_touched};
use anyhow::Result;
use clap::Args;
use clump::pgas::{Pgas, Spread};
use clump_app_frame::InputSize;
use rustfft::num_complex::Complex64;
use std::process::ExitCode;

/// Options of `clump app fft3d`.
#[derive(Debug, Args)]
pub struct Fft3dArgs {
    /// Size of the input: 64^3 complex numbers, or 256^3 (measure and paper)
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Numbers in each direction, instead of the size's: one for all, or three
    #[arg(long, value_name = "N", num_args = 1..=3,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub sides: Vec<u32>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Transforms a cuboid on all ranks of the job that this process belongs to, and checks it.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &Fft3dArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let node_of = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let mut run = AppRun::begin(&gas, "fft3d", args.size, node_of);
    let side = args.size.of(64, 256, 256);
    let sides = match *args.sides.as_slice() {
        [x, y, z] => [x, y, z],
        [x, y] => [x, y, 1],
        [one] => [one; 3],
        _ => [side; 3],
    };
    let sides = sides.map(|side| side as usize);
    let parts = Decomposition::new(sides, cl.rank(), cl.nranks());
    for (name, side) in ["numbers along x", "numbers along y", "numbers along z"].iter().zip(sides)
    {
        run.report().count(name, side as u64);
    }
    let is_slab = parts.grid[0] == 1;
    run.report().choice("decomposition", if is_slab { "slabs" } else { "pencils" });
    run.report().choice("transforms of lines", "rustfft");

    let exchanges = Exchanges::new(&gas, &parts)?;
    let most = parts.sides[0].div_ceil(parts.grid[0])
        * parts.sides[1].div_ceil(parts.grid[1])
        * parts.sides[2];
    let result = spread_touched(&gas, most * cl.nranks())?;
    let mut traffic = run.traffic();
    let own = own_numbers(&parts);
    run.phase("along x, and exchange", || along_x(&parts, own, &exchanges, &mut traffic))?;
    run.phase("along y, and exchange", || along_y(&parts, &exchanges, &mut traffic))?;
    run.phase("along z", || along_z(&parts, &result, &exchanges))?;
    gas.all_store_sync()?;
    run.report_traffic(&traffic)?;
    let total: usize = sides.iter().product();
    let mut numbers: Vec<Complex64> = match cl.rank() {
        0 => (0..total).map(number).collect(),
        _ => Vec::new(),
    };
    run.serial(|| serial::transform(&mut numbers, sides))?;
    drop(numbers);
    let mut found = None;
    // Relative errors grow as the number of additions that lead to a result.
    let bound = 1e-14 * (total as f64).log2().max(1.0);
    run.check(0, |gas| {
        let errors = errors(&collect(gas, &parts, &result)?, sides);
        found = Some(errors);
        // Not a number is wrong, too.
        let right = errors.difference < bound && errors.parseval < bound;
        Ok(u64::from(!right))
    })?;
    if let Some(found) = found {
        run.report().figure("relative difference, 1e-15", found.difference * 1e15);
        run.report().figure("relative error of Parseval's sum, 1e-15", found.parseval * 1e15);
        run.report().figure("bound of both, 1e-15", bound * 1e15);
    }
    run.finish(args.json)
}

/// Reads the whole result: numbers in order of z, y and x.
fn collect(
    gas: &Pgas,
    parts: &Decomposition,
    result: &Spread<ComplexWords>,
) -> Result<Vec<Complex64>> {
    let [x, y, z] = parts.sides;
    let mut all = vec![Complex64::default(); x * y * z];
    for rank in 0..gas.nranks() {
        let of = parts.of([rank % parts.grid[0], rank / parts.grid[0]]);
        let (columns, rows) = (of.x(), of.y_of_z_lines());
        let mut lines = vec![[0.0; 2]; columns.len() * rows.len() * z];
        if let Some(from) = result.on(rank) {
            gas.bulk_get(from, &mut lines)?;
        }
        let places = columns.flat_map(|column| rows.clone().map(move |row| column + x * row));
        for (place, line) in places.zip(lines.chunks(z)) {
            line.iter().enumerate().for_each(|(n, it)| all[place + n * x * y] = complex(*it));
        }
    }
    Ok(all)
}
