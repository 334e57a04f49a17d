//! `clump app sample`.

use crate::run::{AppRun, Manner};
use crate::sample::outgoing::OutgoingKeys;
use crate::sample::splitters::{Splitters, sample};
use crate::sorted::wrong_keys;
use anyhow::Result;
use clap::Args;
use clump::pgas::Layout;
use clump::{Clump, Sum};
use clump_app_frame::InputSize;
use clump_app_frame::keys::{KeyKind, Keys, sort_keys};
use std::process::ExitCode;

/// Options of `clump app sample`.
#[derive(Debug, Args)]
pub struct SampleArgs {
    /// Size of the input: 2^20 keys, or 2^25 (measure and paper)
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Keys of all ranks together, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1 << 32))]
    pub keys: Option<u64>,
    /// Distribution of the keys
    #[arg(long, value_enum, default_value = "uniform")]
    pub input: KeyKind,
    /// Keys that each rank draws for the choice of splitters
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub oversample: u32,
    /// Manner of the stores, one for each key
    #[arg(long, value_enum, default_value = "aggregated")]
    pub manner: Manner,
    /// Store the keys for one rank at once instead
    #[arg(long, conflicts_with = "manner")]
    pub packed: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Seed of the keys.
const SEED: u64 = 0x5a3f1e;

/// Sorts keys on all ranks of the job that this process belongs to, and checks them.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &SampleArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let node_of = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let mut run = AppRun::begin(&gas, "sample", args.size, node_of);
    let count = args.keys.unwrap_or_else(|| 1 << args.size.of(20, 25, 25));
    let keys = Keys { kind: args.input, count, ranks: cl.nranks() as u64, seed: SEED };
    run.report().count("keys", count);
    run.report().count("keys drawn by each rank", args.oversample.into());
    run.report().choice("input", args.input.name());
    let manner = (!args.packed).then_some(args.manner);
    run.report().choice("manner", manner.map_or("packed", Manner::name));

    let me = cl.rank() as u64;
    let first = keys.part(me).start;
    let mine: Vec<u32> = keys.of(me).collect();
    let mut traffic = run.traffic();
    let splitters = run.phase("splitters", || splitters(&cl, &keys, args.oversample as usize))?;
    let (outgoing, begins, held, sorted) = run.phase("places", || {
        let (outgoing, mut counts) =
            OutgoingKeys::of(&mine, first, (&splitters, cl.nranks()), manner);
        let mut begins = counts.clone();
        // Rank 0 has none before it; the scan leaves its slice as it is.
        cl.exclusive_scan_slice(&mut begins, Sum)?;
        if cl.rank() == 0 {
            begins.fill(0);
        }
        cl.all_reduce_slice(&mut counts, Sum)?;
        let longest = counts.iter().max().copied().unwrap_or(0);
        let sorted = gas.spread::<u32>(longest as usize * cl.nranks(), Layout::Block)?;
        Ok((outgoing, begins, counts, sorted))
    })?;
    let longest = sorted.len() / cl.nranks();
    run.phase("distribution", || {
        outgoing.store(&sorted, (longest, &begins), &mut traffic)?;
        // Every key that this rank gets has landed: no barrier.
        Ok(gas.store_sync(held[cl.rank()] as usize * size_of::<u32>())?)
    })?;
    run.phase("local sort", || {
        let local = sorted.local();
        let mut got = vec![0; held[cl.rank()] as usize];
        local.copy_to(0, &mut got)?;
        sort_keys(&mut got);
        Ok(local.copy_from(0, &got)?)
    })?;
    gas.all_store_sync()?;
    run.report_traffic(&traffic)?;

    let most = held.iter().max().copied().unwrap_or(0);
    let balance = most as f64 * cl.nranks() as f64 / count.max(1) as f64;
    run.report().figure("keys of the fullest rank over the average", balance);
    let bound = balance_bound(count, cl.nranks(), args.oversample);
    run.report().figure("bound of that", bound);
    let serial = if cl.rank() == 0 { 0..keys.ranks } else { 0..0 };
    let mut all: Vec<u32> = serial.flat_map(|rank| keys.of(rank)).collect();
    run.serial(|| sort_keys(&mut all))?;
    drop(all);
    let unbalanced = u64::from(balance > bound);
    let wrong_here = if cl.rank() == 0 { unbalanced } else { 0 };
    run.check(wrong_here, |gas| Ok(wrong_keys(gas, &keys, &sorted, &held)?))?;
    run.finish(args.json)
}

/// Agrees on splitters.
fn splitters(cl: &Clump, keys: &Keys, oversample: usize) -> Result<Splitters> {
    let drawn = sample(keys, cl.rank() as u64, oversample);
    let bytes: Vec<u8> = drawn.iter().flat_map(|word| word.to_le_bytes()).collect();
    let gathered = cl.gather_bytes(0, &bytes)?;
    let mut splitters = Splitters::unknown(cl.nranks());
    if let Some(all) = gathered {
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let samples = all.iter().flat_map(|part| part.chunks(8).map(word)).collect();
        splitters = Splitters::of(samples, cl.nranks());
    }
    cl.broadcast(0, splitters.words())?;
    Ok(splitters)
}

/// Stores a key at its place.
#[inline(always)]
/// Returns the most that the fullest rank may have over the average: the share of a rank is that of
/// `oversample` stretches of the sample, whose deviation is the root of that; six of them, and the
/// rounding of few keys.
fn balance_bound(count: u64, ranks: usize, oversample: u32) -> f64 {
    let rounding = 2.0 * ranks as f64 * ranks as f64 / count.max(1) as f64;
    1.0 + 6.0 / f64::from(oversample).sqrt() + rounding
}
