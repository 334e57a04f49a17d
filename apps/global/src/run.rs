//! A run of an application on all ranks: phases, traffic, and the report; how small operations are
//! made, and memory that is there before it is used.

use crate::traffic::{Traffic, TrafficCounts};
use anyhow::Result;
use clap::ValueEnum;
use clump::pgas::{Element, Layout, Pgas, Spread};
use clump::{Max, Sum, TimedPhase};
use clump_app_frame::{AppReport, InputSize, Lap};
use clump_os::map::PAGE;
use std::process::ExitCode;

/// Words of a table in the memory of one rank at most, for a serial version: larger ones may fit
/// into the memory of all ranks alone.
pub const MAX_SERIAL_WORDS: u64 = 1 << 26;

/// A run of an application, as one rank sees it. Its methods are collectives, but for those that
/// return parts of it.
#[derive(Debug)]
pub struct AppRun {
    gas: Pgas,
    report: AppReport,
    nodes: Vec<usize>,
    /// Seconds of the phases that are the parallel program.
    parallel: f64,
}

impl AppRun {
    /// Begins a run on the ranks of `gas`, whose nodes are `node_of`.
    pub fn begin(gas: &Pgas, app: &'static str, size: InputSize, node_of: Vec<usize>) -> Self {
        debug_assert_eq!(node_of.len(), gas.nranks(), "a node for each rank");
        let nodes = node_of.iter().max().map_or(1, |last| last + 1);
        let report = AppReport::of(app, size, (gas.nranks(), nodes));
        Self { gas: gas.clone(), report, nodes: node_of, parallel: 0.0 }
    }

    /// Returns the global address space.
    pub fn gas(&self) -> &Pgas {
        &self.gas
    }

    /// Returns the report, to add to it.
    pub fn report(&mut self) -> &mut AppReport {
        &mut self.report
    }

    /// Returns counts of messages, all zero.
    pub fn traffic(&self) -> Traffic {
        Traffic::new(self.gas.rank(), self.nodes.clone())
    }

    /// Runs a phase of the parallel program on all ranks. Its time is that of the slowest.
    ///
    /// # Errors
    /// Fails as `work` does, or if a rank is lost.
    pub fn phase<R>(&mut self, name: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.gas.barrier()?;
        let phase = self.timed(name);
        let result = work()?;
        self.took(name, phase.end())?;
        Ok(result)
    }

    /// Begins a turn of a phase that is to be reported by this name. It is no collective.
    pub fn timed(&self, name: &str) -> TimedPhase {
        TimedPhase::begin(self.gas.team(), name)
    }

    /// Reports a phase of the parallel program whose turns, each [`AppRun::timed`], took this rank
    /// so long.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn took(&mut self, name: &'static str, seconds: f64) -> Result<()> {
        let seconds = self.largest(seconds)?;
        self.report.phase(name, seconds);
        self.parallel += seconds;
        Ok(())
    }

    /// Returns the seconds of the phases of the parallel program so far.
    pub fn seconds(&self) -> f64 {
        self.parallel
    }

    /// Runs the serial version at rank 0 alone, and reports the speed-up of the phases so far.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn serial<R>(&mut self, work: impl FnOnce() -> R) -> Result<Option<R>> {
        self.gas.barrier()?;
        let lap = Lap::begin();
        let result = (self.gas.rank() == 0).then(work);
        self.serial_took(lap.seconds())?;
        Ok(result)
    }

    /// Reports a serial version that took rank 0 so long.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn serial_took(&mut self, seconds: f64) -> Result<()> {
        let seconds = self.largest(if self.gas.rank() == 0 { seconds } else { 0.0 })?;
        self.report.phase("serial version", seconds);
        if self.parallel > 0.0 {
            self.report.figure("speed-up", seconds / self.parallel);
        }
        Ok(())
    }

    /// Reports what all ranks found wrong, after checks, [`AppRun::timed`] as `check`, that took
    /// this rank so long.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn checked(&mut self, what: &'static str, wrong: u64, seconds: f64) -> Result<()> {
        let (wrong, seconds) = (self.total(wrong)?, self.largest(seconds)?);
        self.report.phase("check", seconds);
        self.report.count(what, wrong);
        self.report.verify(wrong == 0);
        Ok(())
    }

    /// Runs the check at rank 0 alone, which returns the number of what is wrong, and adds what
    /// the other ranks found wrong themselves.
    ///
    /// # Errors
    /// Fails as `work` does, or if a rank is lost.
    pub fn check(
        &mut self,
        wrong_here: u64,
        work: impl FnOnce(&Pgas) -> Result<u64>,
    ) -> Result<u64> {
        self.gas.barrier()?;
        let phase = self.timed("check");
        let more = if self.gas.rank() == 0 { work(&self.gas)? } else { 0 };
        let wrong = self.total(wrong_here + more)?;
        let seconds = self.largest(phase.end())?;
        self.report.phase("check", seconds);
        self.report.count("wrong", wrong);
        self.report.verify(wrong == 0);
        Ok(wrong)
    }

    /// Returns the sum of all ranks' numbers.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn total(&self, number: u64) -> Result<u64> {
        Ok(self.gas.team().all_reduce(number, Sum)?)
    }

    /// Returns the largest of all ranks' numbers.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn largest(&self, number: f64) -> Result<f64> {
        Ok(self.gas.team().all_reduce(number, Max)?)
    }

    /// Reports the remote accesses of all ranks (paper 001, table 4; paper 000, table 4), and the
    /// batches that the runtime made of them. What left as messages is in the profile of the run.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn report_traffic(&mut self, traffic: &Traffic) -> Result<()> {
        let all = self.gas.team().all_gather(traffic.counts().to_words())?;
        let all: Vec<_> = all.into_iter().map(TrafficCounts::from_words).collect();
        let sum = |of: fn(&TrafficCounts) -> u64| all.iter().map(of).sum::<u64>();
        let most = all.iter().map(TrafficCounts::messages).max().unwrap_or(0);
        let (messages, ranks) = (sum(TrafficCounts::messages), all.len().max(1) as f64);
        let average = messages as f64 / ranks;
        let percent = |part: u64| 100.0 * part as f64 / messages.max(1) as f64;
        let report = &mut self.report;
        report.count("remote accesses, rank with most", most);
        report.count("remote accesses to other nodes", sum(|one| one.far));
        report.count("remote accesses within nodes", sum(|one| one.near));
        report.count("accesses of own memory", sum(|one| one.own));
        report.figure("remote accesses per rank", average);
        if messages > 0 {
            report.figure("balance of remote accesses", most as f64 / average);
            report.figure("% of accesses within nodes", percent(sum(|one| one.near)));
            report.figure("% of accesses that are bulk", percent(sum(|one| one.bulk)));
            report.figure("% of accesses that are reads", percent(sum(|one| one.reads)));
        }
        if messages > 0 && self.parallel > 0.0 {
            let seconds = self.parallel;
            report.figure("microseconds per remote access", seconds * 1e6 / average);
            report.figure("remote accesses per rank and ms", average / seconds / 1e3);
            let per_rank = |bytes: u64| bytes as f64 / 1e3 / seconds / ranks;
            report.figure("kB/s per rank, small", per_rank(sum(|one| one.small_bytes)));
            report.figure("kB/s per rank, bulk", per_rank(sum(|one| one.bulk_bytes)));
        }
        let batches = self.gas.aggregation();
        let (updates, batches) = (self.total(batches.updates)?, self.total(batches.batches())?);
        self.report.count("updates in batches", updates);
        self.report.count("batches", batches);
        Ok(())
    }

    /// Prints the report at rank 0, and returns the exit code once all ranks are done.
    ///
    /// # Errors
    /// Fails if the report cannot be written, or if a rank is lost.
    pub fn finish(self, json: bool) -> Result<ExitCode> {
        let code = self.report.finish(self.gas.rank() == 0, json)?;
        self.gas.barrier()?;
        Ok(code)
    }
}

/// Manner of small remote operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Manner {
    /// Collected, and sent many at a time
    Aggregated,
    /// Each sent by itself, and waited for at the end
    Single,
    /// Each sent by itself, and waited for before the next
    Blocking,
}

impl Manner {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aggregated => "aggregated",
            Self::Single => "single",
            Self::Blocking => "blocking",
        }
    }
}

/// Spreads an array in blocks, and touches all pages of this rank's elements: phases are not to
/// wait for the kernel.
///
/// # Errors
/// Fails if memory has run out, or if a rank is lost.
pub fn spread_touched<T: Element + Default>(gas: &Pgas, count: usize) -> Result<Spread<T>> {
    let spread = gas.spread(count, Layout::Block)?;
    let (local, step) = (spread.local(), (PAGE / size_of::<T>()).max(1));
    (0..local.len()).step_by(step).try_for_each(|at| local.set(at, T::default()))?;
    Ok(spread)
}
