//! `clump app gups`.

use crate::gups::check::wrong_words;
use crate::gups::stream::Stream;
use crate::run::{AppRun, MAX_SERIAL_WORDS, Manner};
use anyhow::Result;
use clap::Args;
use clump::pgas::{Layout, Pgas, Spread};
use clump::{Clump, Max, Sum, TimedPhase};
use clump_app_frame::{AppReport, InputSize, Lap};
use std::process::ExitCode;

/// Options of `clump app gups`.
#[derive(Debug, Args)]
pub struct GupsArgs {
    /// Size of the input: 2^18 words and 2^20 updates, or 2^24 and 2^26 (measure and paper)
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Words of the table, as a power of two, instead of the size's; four updates a word
    #[arg(long, value_name = "LOG2", value_parser = clap::value_parser!(u32).range(0..=34))]
    pub log_words: Option<u32>,
    /// Manner of the updates
    #[arg(long, value_enum, default_value = "aggregated")]
    pub manner: Manner,
    /// Measure the other manners too, with fewer updates
    #[arg(long)]
    pub compare: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Updates of each rank in a manner that is only compared with.
const COMPARED: u64 = 1 << 15;
/// Updates that are known before they are made: no more than the rules of HPCC's RandomAccess
/// allow.
const AHEAD: usize = 1024;

/// Updates a table on all ranks of the job that this process belongs to, and checks it.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &GupsArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let (me, ranks) = (cl.rank() as u64, cl.nranks() as u64);
    let words = 1_u64 << args.log_words.unwrap_or(args.size.of(18, 24, 24));
    let updates = words * 4;
    let table = gas.spread::<u64>(words as usize, Layout::Block)?;
    let node_of = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let mut run = AppRun::begin(&gas, "gups", args.size, node_of);
    run.report().count("words", words);
    run.report().count("updates", updates);
    run.report().choice("manner", args.manner.name());

    let local = table.local();
    (0..local.len()).try_for_each(|at| local.set(at, local.index(at).unwrap_or(0) as u64))?;
    let part = |rank: u64| (u128::from(updates) * u128::from(rank) / u128::from(ranks)) as u64;
    let (first, count) = (part(me), part(me + 1) - part(me));
    let seconds =
        measured(&cl, &gas, Some("updates"), || update(&table, first, count, args.manner))?;
    run.took("updates", seconds)?;
    run.report().figure("million updates a second", updates as f64 / seconds / 1e6);
    let mut traffic = run.traffic();
    for number in Stream::after(first).take(count as usize) {
        traffic.writes(table.owner(number as usize & (table.len() - 1)).unwrap_or(0), 1, 8);
    }
    run.report_traffic(&traffic)?;
    if args.compare {
        compare(&cl, &table, (first, count), run.report())?;
    }
    if words <= MAX_SERIAL_WORDS {
        let mut serial: Vec<u64> = if me == 0 { (0..words).collect() } else { Vec::new() };
        run.serial(|| update_serially(&mut serial, updates))?;
    }

    let phase = run.timed("check");
    let first_word = local.index(0).unwrap_or(0) as u64;
    let wrong = wrong_words(local.to_vec()?, first_word, words, updates);
    run.checked("wrong words", wrong, phase.end())?;
    run.finish(args.json)
}

/// Makes all updates in plain memory: the serial version.
fn update_serially(table: &mut [u64], updates: u64) {
    let mask = table.len() as u64 - 1;
    for number in Stream::after(0).take(updates as usize) {
        if let Some(word) = table.get_mut((number & mask) as usize) {
            *word ^= number;
        }
    }
    std::hint::black_box(table);
}

/// Makes some updates once in each manner that is compared, and once more: that undoes them.
fn compare(
    cl: &Clump,
    table: &Spread<u64>,
    (first, count): (u64, u64),
    report: &mut AppReport,
) -> Result<()> {
    let count = count.min(COMPARED);
    let total = cl.all_reduce(count, Sum)? as f64;
    let rate = |manner: Manner| -> Result<f64> {
        let seconds = measured(cl, table.pgas(), None, || update(table, first, count, manner))?;
        Ok(total / seconds / 1e6)
    };
    let aggregated = rate(Manner::Aggregated)?;
    let single = rate(Manner::Single)?;
    let blocking = rate(Manner::Blocking)?;
    rate(Manner::Aggregated)?;
    report.figure("compared: aggregated, million/s", aggregated);
    report.figure("compared: single, million/s", single);
    report.figure("compared: blocking, million/s", blocking);
    report.figure("aggregated, times single", aggregated / single);
    report.figure("aggregated, times blocking", aggregated / blocking);
    Ok(())
}

/// Returns the seconds in which all ranks have run `work`, and what it began has landed; `phase`:
/// the phase as which they are to be reported.
fn measured(
    cl: &Clump,
    gas: &Pgas,
    phase: Option<&str>,
    work: impl FnOnce() -> clump::Result<()>,
) -> Result<f64> {
    gas.barrier()?;
    let turn = phase.map(|name| TimedPhase::begin(gas.team(), name));
    let lap = Lap::begin();
    work()?;
    gas.all_store_sync()?;
    let seconds = lap.seconds();
    drop(turn);
    Ok(cl.all_reduce(seconds, Max)?)
}

/// Makes `count` updates behind the first `first`.
fn update(table: &Spread<u64>, first: u64, count: u64, manner: Manner) -> clump::Result<()> {
    let mask = table.len() - 1;
    let mut numbers = Stream::after(first).take(count as usize);
    let at = |number: u64| table.at(number as usize & mask);
    match manner {
        Manner::Aggregated => {
            let mut ahead = Vec::with_capacity(AHEAD);
            let mut indexes = Vec::with_capacity(AHEAD);
            loop {
                ahead.clear();
                ahead.extend(numbers.by_ref().take(AHEAD));
                if ahead.is_empty() {
                    break;
                }
                indexes.clear();
                indexes.extend(ahead.iter().map(|&number| number as usize & mask));
                table.each(&indexes, |position, element| element.xor(ahead[position]))?;
            }
        }
        Manner::Single => numbers.into_iter().try_for_each(|n| at(n).now().xor(n))?,
        Manner::Blocking => {
            for number in numbers {
                at(number).fetch_xor(number)?.wait()?;
            }
        }
    }
    Ok(())
}
