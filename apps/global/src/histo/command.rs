//! `clump app histo`.

use crate::buckets::{Buckets, EXCHANGED, places};
use crate::histo::check::{SEED, wrong_bins};
use crate::random_access::{AccessArgs, share};
use crate::run::{MAX_SERIAL_WORDS, Manner};
use anyhow::Result;
use clap::Args;
use clump::pgas::{Layout, Spread};
use clump_app_frame::random::Random;
use std::process::ExitCode;

/// Options of `clump app histo`.
#[derive(Debug, Args)]
pub struct HistoArgs {
    /// Bins, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 34))]
    pub bins: Option<u64>,
    /// Samples of all ranks together, instead of the size's
    #[arg(long, value_name = "N")]
    pub samples: Option<u64>,
    /// Options of all such programs.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Makes a histogram on all ranks of the job that this process belongs to, and checks it.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &HistoArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let (me, ranks) = (cl.rank() as u64, cl.nranks() as u64);
    let access = &args.access;
    let (bins, samples) = access.counts(args.bins, args.samples);
    let table = gas.spread::<u64>(bins as usize, Layout::Cyclic)?;
    let counts = [("bins", bins), ("samples", samples)];
    let mut run = access.begin(&cl, &gas, "histo", counts);

    let (first, count) = share(samples, (me, ranks));
    run.phase("additions", || {
        if access.bucketed {
            add_bucketed(&table, (first, count))?;
        } else {
            add(&table, first, count, access.manner)?;
        }
        Ok(gas.all_store_sync()?)
    })?;
    let seconds = run.seconds();
    run.report().figure("million additions a second", samples as f64 / seconds / 1e6);
    let (mut traffic, mut random) = (run.traffic(), Random::from(SEED, first));
    for _ in 0..count {
        traffic.writes(table.owner(random.below(table.len())).unwrap_or(0), 1, 8);
    }
    run.report_traffic(&traffic)?;
    if bins <= MAX_SERIAL_WORDS {
        let mut serial = vec![0; if me == 0 { bins as usize } else { 0 }];
        run.serial(|| add_serially(&mut serial, samples))?;
    }

    let phase = run.timed("check");
    let wrong = wrong_bins(&table.local().to_vec()?, (me, ranks), bins, samples);
    run.checked("wrong bins", wrong, phase.end())?;
    run.finish(access.json)
}

/// Adds all samples in plain memory: the serial version.
fn add_serially(bins: &mut [u64], samples: u64) {
    let mut random = Random::from(SEED, 0);
    for _ in 0..samples {
        if let Some(bin) = bins.get_mut(random.below(bins.len())) {
            *bin += 1;
        }
    }
    std::hint::black_box(bins);
}

/// Adds one to the bins of the samples from `first` on.
fn add(table: &Spread<u64>, first: u64, count: u64, manner: Manner) -> clump::Result<()> {
    let mut random = Random::from(SEED, first);
    for _ in 0..count {
        let bin = table.at(random.below(table.len()));
        match manner {
            Manner::Aggregated => bin.add(1)?,
            Manner::Single => bin.now().add(1)?,
            Manner::Blocking => bin.fetch_add(1)?.wait().map(drop)?,
        }
    }
    Ok(())
}

/// Adds as [`add`] does: samples go to their ranks by hand, which count them.
fn add_bucketed(table: &Spread<u64>, (first, count): (u64, u64)) -> Result<()> {
    let (mut random, local, team) = (Random::from(SEED, first), table.local(), table.pgas().team());
    let mut buckets = Buckets::new(team, table.len())?;
    let mut left = count;
    for _ in 0..Buckets::rounds(team, count)? {
        let now = left.min(EXCHANGED);
        left -= now;
        (0..now).for_each(|_| _ = buckets.push(random.below(table.len())));
        for given in buckets.exchange(team)? {
            places(&given).try_for_each(|at| local.set(at, local.get(at)? + 1))?;
        }
    }
    debug_assert_eq!(left, 0, "all samples were exchanged");
    Ok(())
}
