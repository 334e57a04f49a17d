//! `clump app fft`.

use crate::fft::check::{by_definition, energy};
use crate::fft::row::{Complex, roots, transform};
use crate::fft::six_steps::SixSteps;
use crate::run::SharedRun;
use anyhow::Result;
use clap::Args;
use clump_app_frame::InputSize;
use clump_app_frame::random::Random;
use std::process::ExitCode;

/// Options of `clump app fft`.
#[derive(Debug, Args)]
pub struct FftArgs {
    /// Size of the input: vectors of 2^14, 2^22 or 2^22 numbers
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Logarithm of the numbers of the vector, instead of the size's; even
    #[arg(long, value_name = "LOG", value_parser = clap::value_parser!(u32).range(2..=28))]
    pub log: Option<u32>,
    /// Seed of the vector
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Values that are calculated by the definition.
const SAMPLES: usize = 12;
/// Largest error that is accepted, in parts of the root of the vector's energy.
const MAX_ERROR: f64 = 1e-12;

fn value(seed: u64, at: usize) -> Complex {
    let mut random = Random::from(seed, 2 * at as u64);
    std::array::from_fn(|_| (random.number() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)
}

/// Transforms a vector on all ranks of the job that this process belongs to, and checks it.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &FftArgs) -> Result<ExitCode> {
    let log = args.log.unwrap_or(args.size.of(14, 22, 22));
    anyhow::ensure!(log.is_multiple_of(2), "the logarithm is {log}; give an even one");
    let side = 1_usize << (log / 2);
    let count = side * side;
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "fft", args.size);
    run.report().count("numbers", count as u64);
    let steps = SixSteps::allocate(&svm, side)?;
    steps.fill(|at| value(args.seed, at));
    run.phase("transform", || Ok(steps.run()?))?;
    let flop = 5.0 * count as f64 * f64::from(log);
    let seconds = run.seconds();
    run.report().figure("Gflop/s", flop / seconds / 1e9);
    let given = || -> Vec<Complex> { (0..count).map(|at| value(args.seed, at)).collect() };
    let serial = || {
        let mut whole = given();
        transform(&mut whole, &roots(count));
        whole
    };
    run.finish(args.json, serial, |serial, report| {
        let (given, found) = (given(), steps.result());
        let size = energy(&given).sqrt();
        let far = |a: Complex, b: Complex| ((a[0] - b[0]).abs() + (a[1] - b[1]).abs()) / size;
        let mut random = Random::from(args.seed, 1 << 60);
        let mut worst = (energy(&found) / count as f64 / energy(&given) - 1.0).abs();
        for _ in 0..SAMPLES {
            let k = random.below(count);
            worst = worst.max(far(found[k], by_definition(&given, k)));
        }
        let others = found.iter().zip(&serial).map(|(&a, &b)| far(a, b)).fold(0.0, f64::max);
        report.figure("largest error", worst);
        report.figure("largest difference to serial", others);
        u64::from(worst > MAX_ERROR || worst.is_nan())
            + u64::from(others > MAX_ERROR || others.is_nan())
    })
}
