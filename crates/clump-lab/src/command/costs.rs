//! `clump lab costs`: options, jobs in turns, the ranks' work.

use crate::compare::process;
use crate::contrast::Contrast;
use crate::costs::{CostRun, LabCosts, count_ns};
use crate::launch::{self, JobShape};
use crate::measure::round_trips;
use crate::pair::meeting::{PairRole, meet};
use crate::pair::{Pair, Scope};
use crate::scratch_run;
use anyhow::{Context, Result};
use clump::Clump;
use clump_loggp::Median;
use clump_os::console;
use clump_trace::line_state::LineWatch;
use clump_trace::{Counter, Counters};
use clump_wire::Security;
use std::path::Path;

/// Round trips of one slice, and slices of a job.
const TRIPS: u32 = 2_000;
const SLICES: u32 = 11;

/// Options of `clump lab costs`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Jobs of two ranks of a node take turns, so that a machine that changes its speed changes both.\n\n\
    Example:  clump lab costs"
)]
pub struct CostsArgs {
    /// Turns
    #[arg(long, default_value = "21", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub turns: u32,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Ranks measure, and rank 0 prints the times.
    #[arg(long, hide = true)]
    pub measure: bool,
    /// Ranks turn a knob and turn it back before.
    #[arg(long, hide = true)]
    pub turn_back: bool,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a job cannot be run.
pub fn run(args: &CostsArgs) -> Result<u8> {
    if args.measure {
        return run_rank(args);
    }
    scratch_run::in_scratch("costs", |folder| {
        let watch = LineWatch::begin();
        let costs = measure(args.turns as usize, folder)?;
        crate::render::show(&costs.report()?.watched(watch), args.json)
    })
}

/// Runs jobs in turns; traces go to `folder`.
fn measure(turns: usize, folder: &Path) -> Result<LabCosts> {
    let trace = |_: &mut std::process::Command| {};
    let plain = || Ok(job(&[], trace)?.trip_ns);
    let turned_back =
        Contrast::measure(turns, || Ok(job(&["--turn-back"], trace)?.trip_ns), plain)?;
    let (mut trips, mut counted) = (1.0, 0.0);
    let traced = || {
        let run = job(&[], |command| {
            command.env("CLUMP_TRACE", folder);
        })?;
        (trips, counted) = (run.trips, run.counted);
        Ok(run.trip_ns)
    };
    let traced = Contrast::measure(turns, traced, plain)?;
    let mut events = 0.0;
    for mut file in clump_trace::trace_reader::open_folder(folder)? {
        while file.next_event()?.is_some() {
            events += 1.0;
        }
    }
    let count_ns = Median::of(count_ns()).context("a counter has no times")?;
    Ok(LabCosts { turned_back, traced, events: events / trips, counted, count_ns })
}

/// Runs a job of two ranks for its measurement.
fn job(options: &[&str], change: impl FnOnce(&mut std::process::Command)) -> Result<CostRun> {
    let mut command = launch::job(JobShape::node(2), 0)?;
    command.args(["lab", "costs", "--measure"]).args(options).env_remove("CLUMP_TRACE");
    change(&mut command);
    let printed = process::run(&mut command)?;
    serde_json::from_str(&printed).context("a job of this program printed something else")
}

fn run_rank(args: &CostsArgs) -> Result<u8> {
    let cl = clump::init()?;
    if args.turn_back {
        cl.emulate("L=+1us")?;
        cl.emulate("")?;
    }
    match &mut meet(&cl, Scope::Shm, Security::default())? {
        PairRole::Issuer(issuer) => {
            let run = trips(&mut **issuer, || counted(&cl))?;
            issuer.finish()?;
            console::out(&format!("{}\n", serde_json::to_string(&run)?))?;
        }
        PairRole::Server(server) => server.serve()?,
        PairRole::Onlooker => {}
    }
    cl.barrier()?;
    Ok(0)
}

/// Times round trips, and reads the counters around them.
fn trips<P: Pair>(pair: &mut P, counted: impl Fn() -> u64) -> Result<CostRun> {
    let clock_ns = pair.clock_cost_ns();
    round_trips(pair, TRIPS, clock_ns)?;
    let before = counted();
    let slices = (0..SLICES).map(|_| round_trips(pair, TRIPS, clock_ns));
    let times = Median::of(slices.collect::<Result<Vec<f64>>>()?).context("there are slices")?;
    let grown = counted().wrapping_sub(before) as f64 / f64::from(SLICES * TRIPS);
    let trips = f64::from((SLICES + 1) * TRIPS);
    Ok(CostRun { trip_ns: times.value, trips, counted: grown })
}

/// Returns how often counters of messages have grown in all endpoints of the node.
fn counted(cl: &Clump) -> u64 {
    let grown = |counter: Counter| match counter.name() {
        _ if counter == Counter::HandlerRuns => 1,
        // Its bytes are counted, too.
        name if name.ends_with(".sent") || name.ends_with(".received") => 2,
        _ => 0,
    };
    let counters: Vec<_> = Counter::ALL.iter().map(|one| (*one, grown(*one))).collect();
    let ranks = cl.node().local_ranks().filter_map(|rank| cl.node().endpoint_blocks(rank).ok());
    let mut sum = 0_u64;
    for block in ranks.flatten() {
        let cells = Counters::over(block.counters());
        let all = counters.iter().map(|&(counter, times)| times * cells.get(counter));
        sum = all.fold(sum, u64::wrapping_add);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, tests::parse};

    #[test]
    fn ranks_know_the_command_line_that_starts_them() {
        let words = ["lab", "costs", "--measure", "--turn-back"];
        let Command::Costs(args) = parse(&words) else { panic!("another command") };
        assert!(args.measure && args.turn_back);
    }

    #[test]
    fn round_trips_are_counted_besides_their_warming_up() {
        let mut pair = crate::pair::fake::FakePair::default();
        let calls = std::cell::Cell::new(0);
        let count = || {
            calls.set(calls.get() + 44_000);
            calls.get()
        };
        let run = trips(&mut pair, count).unwrap();
        assert!((run.counted - 2.0).abs() < 1e-9, "{run:?}");
        assert!(run.trip_ns > 0.0 && run.trips > 22_000.0);
    }
}
