//! `clump app radix` and `clump app radb`.

use crate::radix::distribution::{by_key, digit, in_bulk};
use crate::radix::ranking::{DIGITS, Ring};
use crate::run::{AppRun, Manner, spread_touched};
use crate::sorted::wrong_keys;
use anyhow::Result;
use clap::Args;
use clump_app_frame::InputSize;
use clump_app_frame::keys::{KeyKind, Keys, sort_keys};
use std::process::ExitCode;

/// Options of `clump app radix`.
#[derive(Debug, Args)]
pub struct RadixArgs {
    #[command(flatten)]
    input: RadixInput,
    /// Manner of the stores, one for each key and pass
    #[arg(long, value_enum, default_value = "aggregated")]
    manner: Manner,
}

/// Options of `clump app radb`.
#[derive(Debug, Args)]
pub struct RadbArgs {
    #[command(flatten)]
    input: RadixInput,
}

/// The input of both.
#[derive(Debug, Args)]
struct RadixInput {
    /// Size of the input: 2^18 keys for each rank, or 2^24 of all together (measure and paper)
    #[arg(long, value_enum, default_value = "ci")]
    size: InputSize,
    /// Keys of all ranks together, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1 << 32))]
    keys: Option<u64>,
    /// Distribution of the keys
    #[arg(long, value_enum, default_value = "uniform")]
    input: KeyKind,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Seed of the keys.
const SEED: u64 = 0x2ad1;

/// Sorts keys on all ranks of the job that this process belongs to, each key a message of its own.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &RadixArgs) -> Result<ExitCode> {
    sort("radix", &args.input, Some(args.manner))
}

/// Sorts keys, those for one rank in one message.
///
/// # Errors
/// Fails as [`run`] does.
pub fn run_in_bulk(args: &RadbArgs) -> Result<ExitCode> {
    sort("radb", &args.input, None)
}

/// Sorts keys; in bulk without a manner.
fn sort(app: &'static str, args: &RadixInput, manner: Option<Manner>) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let node_of = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let mut run = AppRun::begin(&gas, app, args.size, node_of);
    let ranks = cl.nranks() as u64;
    let count = args.keys.unwrap_or_else(|| args.size.of(ranks << 18, 1 << 24, 1 << 24));
    let keys = Keys { kind: args.input, count, ranks, seed: SEED };
    run.report().count("keys", count);
    run.report().choice("input", args.input.name());
    run.report().choice("manner", manner.map_or("bulk", Manner::name));

    // The keys, the result of the first pass, and what bulk messages are put into.
    let spread = || spread_touched::<u32>(&gas, count as usize);
    let (sorted, other, inbox) = (spread()?, spread()?, spread()?);
    let ring = Ring::new(&gas)?;
    let mut traffic = run.traffic();
    let mut mine: Vec<u32> = keys.of(cl.rank() as u64).collect();
    let names = [
        ("first pass: counts", "first pass: sums of counts", "first pass: distribution"),
        ("second pass: counts", "second pass: sums of counts", "second pass: distribution"),
    ];
    for (pass, (counting, ranking, distribution)) in (0..).zip(names) {
        let to = if pass == 0 { &other } else { &sorted };
        let counts = run.phase(counting, || {
            let mut counts = vec![0; DIGITS];
            mine.iter().for_each(|&key| counts[digit(key, pass)] += 1);
            Ok(counts)
        })?;
        let places = run.phase(ranking, || ring.places(&counts, &mut traffic))?;
        run.phase(distribution, || match manner {
            Some(manner) => by_key(&mine, pass, &places, to, (manner, &mut traffic)),
            None => in_bulk(&cl, &mine, pass, &places, (&inbox, to), &mut traffic),
        })?;
        mine = to.local().to_vec()?;
    }
    run.report_traffic(&traffic)?;
    let serial = if cl.rank() == 0 { 0..ranks } else { 0..0 };
    let mut all: Vec<u32> = serial.flat_map(|rank| keys.of(rank)).collect();
    run.serial(|| sort_keys(&mut all))?;
    drop(all);
    let held: Vec<_> = (0..ranks).map(|rank| keys.part(rank)).map(|p| p.end - p.start).collect();
    run.check(0, |gas| Ok(wrong_keys(gas, &keys, &sorted, &held)?))?;
    run.finish(args.json)
}
