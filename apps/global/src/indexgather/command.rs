//! `clump app indexgather`.

use crate::buckets::{Buckets, EXCHANGED, places};
use crate::random_access::{AccessArgs, share};
use crate::run::{MAX_SERIAL_WORDS, Manner};
use anyhow::Result;
use clap::Args;
use clump::pgas::{Layout, Spread};
use clump_app_frame::Lap;
use clump_app_frame::random::Random;
use std::process::ExitCode;

/// Options of `clump app indexgather`.
#[derive(Debug, Args)]
pub struct IndexgatherArgs {
    /// Words of the table, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 34))]
    pub words: Option<u64>,
    /// Reads of all ranks together, instead of the size's
    #[arg(long, value_name = "N")]
    pub reads: Option<u64>,
    /// Options of all such programs.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Seed of the indexes.
const SEED: u64 = 0x1d7e;

/// Returns the word of an index. No two indexes have the same, and none is 0.
fn word_of(index: usize) -> u64 {
    (index as u64 * 2 + 1).wrapping_mul(0xd129_9c8b_41d7_5e65)
}

/// Reads a table on all ranks of the job that this process belongs to, and checks what was read.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &IndexgatherArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let (me, ranks) = (cl.rank() as u64, cl.nranks() as u64);
    let access = &args.access;
    let (words, reads) = access.counts(args.words, args.reads);
    let table = gas.spread::<u64>(words as usize, Layout::Cyclic)?;
    let local = table.local();
    (0..local.len())
        .try_for_each(|at| local.set(at, word_of(local.index(at).unwrap_or(usize::MAX))))?;
    let counts = [("words", words), ("reads", reads)];
    let mut run = access.begin(&cl, &gas, "indexgather", counts);

    let (first, mut left) = share(reads, (me, ranks));
    let (mut random, mut wrong) = (Random::from(SEED, first), 0);
    let (mut reading, mut checking, mut traffic) = (0.0, 0.0, run.traffic());
    let rounds = Buckets::rounds(gas.team(), left)?;
    gas.barrier()?;
    for _ in 0..rounds {
        let count = left.min(EXCHANGED);
        left -= count;
        let indexes: Vec<_> = (0..count).map(|_| random.below(table.len())).collect();
        let mut values = vec![0; indexes.len()];
        let phase = run.timed("reads");
        if access.bucketed {
            read_bucketed(&table, &indexes, &mut values)?;
        } else {
            read(&table, &indexes, &mut values, access.manner)?;
        }
        reading += phase.end();
        let phase = run.timed("check");
        let is_wrong = |(index, value): &(&usize, &u64)| word_of(**index) != **value;
        wrong += indexes.iter().zip(&values).filter(is_wrong).count() as u64;
        checking += phase.end();
        indexes.iter().for_each(|&index| traffic.reads(table.owner(index).unwrap_or(0), 1, 8));
    }
    gas.all_store_sync()?;
    run.took("reads", reading)?;
    let seconds = run.seconds();
    run.report().figure("million reads a second", reads as f64 / seconds / 1e6);
    run.report_traffic(&traffic)?;
    if words <= MAX_SERIAL_WORDS {
        run.serial_took(if me == 0 { read_serially(words as usize, reads) } else { 0.0 })?;
    }
    run.checked("wrong values", wrong, checking)?;
    run.finish(access.json)
}

/// Reads all words in plain memory, the serial version. Returns the seconds, without those of
/// drawing the indexes.
fn read_serially(words: usize, reads: u64) -> f64 {
    let table: Vec<u64> = (0..words).map(word_of).collect();
    let (mut random, mut left, mut seconds) = (Random::from(SEED, 0), reads, 0.0);
    while left > 0 {
        let count = left.min(EXCHANGED);
        left -= count;
        let indexes: Vec<_> = (0..count).map(|_| random.below(words)).collect();
        let mut values = vec![0; indexes.len()];
        let lap = Lap::begin();
        for (value, &index) in values.iter_mut().zip(&indexes) {
            *value = table.get(index).copied().unwrap_or(0);
        }
        seconds += lap.seconds();
        std::hint::black_box(values);
    }
    seconds
}

/// Reads the words of `indexes`.
fn read(
    table: &Spread<u64>,
    indexes: &[usize],
    values: &mut [u64],
    manner: Manner,
) -> clump::Result<()> {
    let mut each = indexes.iter().zip(values.iter_mut());
    match manner {
        Manner::Aggregated => table.gather(indexes, values)?,
        Manner::Single => table
            .pgas()
            .phase(|ph| each.try_for_each(|(&index, to)| ph.get(table.at(index).now(), to)))?,
        Manner::Blocking => {
            for (&index, value) in each {
                *value = table.at(index).read()?;
            }
        }
    }
    Ok(())
}

/// Reads the words of `indexes`, of which ranks have up to as many each: indexes go to their ranks
/// by hand, and the words come back. A collective.
fn read_bucketed(table: &Spread<u64>, indexes: &[usize], values: &mut [u64]) -> Result<()> {
    let (local, team) = (table.local(), table.pgas().team());
    let mut buckets = Buckets::new(team, table.len())?;
    let ranks: Vec<usize> = indexes.iter().map(|&index| buckets.push(index)).collect();
    let mut answers = Vec::with_capacity(team.nranks());
    for given in buckets.exchange(team)? {
        let mut words = Vec::with_capacity(2 * given.len());
        for at in places(&given) {
            words.extend_from_slice(&local.get(at)?.to_le_bytes());
        }
        answers.push(words);
    }
    let read = team.all_to_all_bytes(&answers)?;
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let mut words: Vec<_> = read.iter().map(|bytes| bytes.chunks_exact(8).map(word)).collect();
    for (value, rank) in values.iter_mut().zip(ranks) {
        *value = words.get_mut(rank).and_then(Iterator::next).unwrap_or(0);
    }
    Ok(())
}
