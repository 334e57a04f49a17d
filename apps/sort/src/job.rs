//! One sort, as each rank runs it: take in streams or make records, sample, exchange into runs,
//! merge, publish.
//!
//! Ranks decide together after every phase ([`agree`]): either all go on or all give up, and a
//! rank that gives up holds files without final names only.

use crate::agreement::given_up;
pub use crate::agreement::together;
use crate::budget::Budget;
use crate::exchange::{Exchange, agree};
use crate::input::Input;
use crate::intake::Intake;
use crate::manifest::{FORMAT, Manifest};
use crate::measure;
use crate::memory::MemoryWatch;
use crate::output::{self, Pending, scratch_file, shown};
use crate::pass_one::PassOne;
use crate::pass_two::PassTwo;
use crate::plan::SortPlan;
pub use crate::progress::{Progress, Silent};
use crate::record::{KEY, RECORD};
use crate::report::{RankReport, SortReport};
use crate::room;
use crate::sample::{sample, splitters};
pub use crate::spec::Spec;
use anyhow::{Context, Result, bail};
use clump_os::clock;
use clump_os::file::sync_dir;
use std::path::Path;

/// Sorts `spec` together with the other ranks. Collective: all ranks succeed or all fail.
///
/// # Errors
/// Fails on every rank if any rank fails.
pub fn sort(
    exchange: &mut dyn Exchange,
    spec: &Spec,
    progress: &mut dyn Progress,
) -> Result<SortReport> {
    let begin = clock::now_ns();
    let watch = MemoryWatch::start();
    let rank = exchange.rank();
    let scratch_folder = spec.scratch.clone().unwrap_or_else(|| spec.output.clone());
    let ready = || make_folders(spec, &scratch_folder);
    let intake = Intake::take(exchange, spec, &scratch_folder, progress, ready)?;
    let (input, plan) = prepare(exchange, spec, &scratch_folder, &intake)?;
    let streamed = intake.streamed.clone();
    // Every rank has opened the copies of streams: their names are removed.
    drop(intake);
    let budget = together(exchange, Budget::new(plan.budget))?;
    let mut mine = RankReport::default();

    let (first, count) = input.part(rank, exchange.nranks());
    let sampled =
        sample(&input, first, count, plan.sample_blocks).map(|entries| bytes_of(&entries));
    let samples = agree(exchange, sampled)?;
    let splitters =
        splitters(samples.iter().flat_map(|s| entries_of(s)).collect(), exchange.nranks());
    drop(samples);
    mine.sample_s = seconds_since(begin) - streamed.as_ref().map_or(0.0, |s| s.seconds);

    let at = clock::now_ns();
    progress.phase("read, send, sort runs", count * RECORD as u64);
    let mut pass = PassOne { exchange, plan: &plan, budget: &budget, watch: &watch, progress };
    let scratch = scratch_file(&scratch_folder, rank, spec.direct);
    let first_pass = pass.run(input.pieces(first, count), first, &splitters, scratch);
    let (collected, sum) = together(exchange, first_pass)?;
    (mine.records_in, mine.checksum_in) = (count, sum.hex());
    mine.pass_one_s = seconds_since(at);

    let at = clock::now_ns();
    let pass = PassTwo { plan: &plan, budget: &budget, watch: &watch, progress };
    let written = pass.run(spec, rank, collected);
    let (pending, part) = together(exchange, written)?;
    mine.part = part;
    mine.pass_two_s = seconds_since(at);
    mine.anonymous_peak = watch.peak();
    mine.budget_peak = budget.peak();
    let all = agree(exchange, mine.to_bytes())?;
    let one_process = exchange.one_process();
    let mut report = SortReport::gather(&all, &plan, one_process, streamed.as_ref())?;
    let at = clock::now_ns();
    publish(exchange, spec, pending, &report)?;
    report.publish_s = seconds_since(at);
    report.total_s = seconds_since(begin);
    if spec.measure_disk {
        let part = input.pieces(first, count);
        let raw = measure::disk(
            exchange,
            &part,
            &scratch_folder,
            plan.chunk,
            spec.direct,
            report.two_pass,
        )?;
        report.disk = Some(raw.against(report.total_s));
    }
    Ok(report)
}

/// Opens the input, checks the room on the disks, makes the folders, carves the memory. Collective.
fn prepare(
    exchange: &mut dyn Exchange,
    spec: &Spec,
    scratch: &Path,
    intake: &Intake,
) -> Result<(Input, SortPlan)> {
    let (rank, nranks) = (exchange.rank(), exchange.nranks());
    let opened = Input::open(&intake.files, spec.direct).and_then(|input| {
        let sizes = (exchange.max_batch(), exchange.network_bytes());
        let (records, two_pass) = (input.records(), spec.two_pass);
        let memory = match spec.memory_grows {
            true => SortPlan::ample(spec.memory, records, nranks, sizes, two_pass),
            false => spec.memory,
        };
        let plan = SortPlan::new(memory, records, nranks, sizes, two_pass)?;
        if rank == 0 {
            // If streams were taken in, the folders are ready and hold the copies.
            if intake.streamed.is_none() {
                make_folders(spec, scratch)?;
            }
            room::check(&spec.output, scratch, input.records() * RECORD as u64, plan.two_pass)?;
        }
        Ok((input, plan))
    });
    let (opened, all) = match opened {
        Ok(opened) => {
            let seen = opened.0.records().to_le_bytes().to_vec();
            (opened, agree(exchange, Ok(seen))?)
        }
        Err(error) => return given_up(exchange, error),
    };
    if all.iter().any(|seen| *seen != all[0]) {
        bail!(
            "ranks see inputs of different sizes: is it still being written, or not shared by all?"
        );
    }
    Ok(opened)
}

/// Makes the folders and removes files that a killed sort has left in them.
fn make_folders(spec: &Spec, scratch: &Path) -> Result<()> {
    room::keep_apart(&spec.inputs, &spec.output)?;
    output::prepare(&spec.output, spec.force)?;
    std::fs::create_dir_all(scratch)
        .with_context(|| format!("the scratch folder {} cannot be made", shown(scratch)))?;
    output::sweep(scratch)
}

/// Gives the files their names; the manifest comes last. Collective.
fn publish(
    exchange: &mut dyn Exchange,
    spec: &Spec,
    pending: Pending,
    report: &SortReport,
) -> Result<()> {
    let rank = exchange.rank();
    let retired = if rank == 0 { output::retire(&spec.output) } else { Ok(()) };
    together(exchange, retired)?;
    together(exchange, pending.publish())?;
    let finished = if rank == 0 {
        sync_dir(&spec.output).map_err(Into::into).and_then(|()| {
            let manifest = Manifest {
                format: FORMAT.into(),
                record_bytes: RECORD,
                key_bytes: KEY,
                records: report.records,
                checksum: report.checksum.clone(),
                parts: report.parts.clone(),
            };
            manifest.publish(&spec.output)
        })
    } else {
        Ok(())
    };
    let done = together(exchange, finished);
    if done.is_err() && rank == 0 {
        // Parts without a manifest are not complete; they must not be taken for an output.
        let _ = output::retire(&spec.output);
    }
    done
}

fn seconds_since(begin_ns: u64) -> f64 {
    (clock::now_ns() - begin_ns) as f64 / 1e9
}

fn bytes_of(entries: &[u128]) -> Vec<u8> {
    entries.iter().flat_map(|e| e.to_le_bytes()).collect()
}

fn entries_of(bytes: &[u8]) -> impl Iterator<Item = u128> {
    bytes.as_chunks::<16>().0.iter().map(|e| u128::from_le_bytes(*e))
}
