//! `clump app radix-svm`.

use crate::radix_svm::passes::Passes;
use crate::run::SharedRun;
use anyhow::Result;
use clap::{Args, ValueEnum};
use clump_app_frame::InputSize;
use clump_app_frame::random::Random;
use std::process::ExitCode;

/// Way in which keys are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StoreWay {
    /// Key by key, straight into shared pages
    Original,
    /// In runs of equal digits, collected first
    Local,
}

/// Options of `clump app radix-svm`.
#[derive(Debug, Args)]
pub struct RadixSvmArgs {
    /// Size of the input: 256 K, 4 M or 4 M keys
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Number of keys, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub keys: Option<u32>,
    /// Bits of a digit
    #[arg(long, value_name = "BITS", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    pub digit_bits: u32,
    /// Way in which keys are stored
    #[arg(long, value_enum, default_value = "original")]
    pub store: StoreWay,
    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Sorts keys on all ranks of the job that this process belongs to, and checks the result.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &RadixSvmArgs) -> Result<ExitCode> {
    let count = args.keys.map_or(args.size.of(1 << 18, 4 << 20, 4 << 20), |keys| keys as usize);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "radix-svm", args.size);
    run.report().count("keys", count as u64);
    run.report().count("bits of a digit", u64::from(args.digit_bits));
    let local = args.store == StoreWay::Local;
    run.report().choice("store", if local { "local" } else { "original" });
    let passes = Passes::allocate(&svm, count, args.digit_bits)?;
    let key = |at: usize| (Random::from(args.seed, at as u64).number() >> 32) as u32;
    passes.fill(key);
    run.phase("sort", || {
        (0..passes.count()).try_for_each(|pass| passes.pass(pass, local))?;
        Ok(())
    })?;
    let serial = || {
        let mut keys: Vec<u32> = (0..count).map(key).collect();
        keys.sort_unstable();
        keys
    };
    run.finish(args.json, serial, |serial, _| {
        let mut found = vec![0; count];
        passes.sorted().read(0, &mut found);
        found.iter().zip(&serial).filter(|(found, due)| found != due).count() as u64
    })
}
