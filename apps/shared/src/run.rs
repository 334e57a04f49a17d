//! A run of an application in shared virtual memory: phases, breakdown, and the report.

use anyhow::Result;
use clump::svm::{Breakdown, Svm};
use clump::{Max, Sum, TimedPhase};
use clump_app_frame::{AppReport, InputSize, Lap};
use std::process::ExitCode;

/// A run of an application in shared virtual memory, as one rank sees it. Its methods are
/// collectives, but for those that return parts of it.
#[derive(Debug)]
pub struct SharedRun {
    svm: Svm,
    report: AppReport,
    /// Seconds of the phases.
    parallel: f64,
    /// Times of this rank in phases.
    waited: Breakdown,
}

/// Adds what was waited for from one moment to another.
fn add(sum: &mut Breakdown, before: &Breakdown, after: &Breakdown) {
    (sum.woken, sum.sent) = (after.woken, after.sent);
    sum.elapsed_ns += after.elapsed_ns - before.elapsed_ns;
    sum.threads_ns += after.threads_ns - before.threads_ns;
    for (sum, before, after) in [
        (&mut sum.data, before.data, after.data),
        (&mut sum.lock, before.lock, after.lock),
        (&mut sum.release, before.release, after.release),
        (&mut sum.barrier, before.barrier, after.barrier),
        (&mut sum.protection, before.protection, after.protection),
        (&mut sum.flag, before.flag, after.flag),
        (&mut sum.others, before.others, after.others),
    ] {
        sum.ns += after.ns - before.ns;
        sum.count += after.count - before.count;
    }
}

impl SharedRun {
    /// Begins a run on all ranks that share the heap.
    pub fn begin(svm: &Svm, app: &'static str, size: InputSize) -> Self {
        let report = AppReport::of(app, size, (svm.nranks(), svm.nnodes()));
        Self { svm: svm.clone(), report, parallel: 0.0, waited: Breakdown::default() }
    }

    /// Returns the heap.
    pub fn svm(&self) -> &Svm {
        &self.svm
    }

    /// Returns the report, to add to it.
    pub fn report(&mut self) -> &mut AppReport {
        &mut self.report
    }

    /// Returns the seconds of the phases so far.
    pub fn seconds(&self) -> f64 {
        self.parallel
    }

    /// Runs a phase of the parallel program on all ranks, with a barrier at its end. Its time is
    /// that of the slowest.
    ///
    /// # Errors
    /// Fails as `work` does, or if a rank is lost.
    pub fn phase<R>(&mut self, name: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.svm.barrier()?;
        let (before, phase) = (self.svm.breakdown(), TimedPhase::begin(self.svm.team(), name));
        let result = work()?;
        self.svm.barrier()?;
        let seconds = self.svm.team().all_reduce(phase.end(), Max)?;
        add(&mut self.waited, &before, &self.svm.breakdown());
        self.report.phase(name, seconds);
        self.parallel += seconds;
        Ok(result)
    }

    /// Reports what ranks waited for in the phases so far, in shares of all their time (paper 003,
    /// figure 3).
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn breakdown(&mut self) -> Result<()> {
        let total = |number: u64| self.svm.team().all_reduce(number, Sum);
        let all = total(self.waited.threads_ns)?.max(1) as f64;
        let waited = &self.waited;
        for (name, ns) in [
            ("compute, % of time", waited.compute_ns()),
            ("data wait, % of time", waited.data.ns),
            ("lock, % of time", waited.lock.ns),
            ("release, % of time", waited.release.ns),
            ("barrier, % of time", waited.barrier.ns),
            ("protection, % of time", waited.protection.ns),
            ("flags within lock, % of time", waited.flag.ns),
            ("others within barrier, % of time", waited.others.ns),
        ] {
            let share = 100.0 * total(ns)? as f64 / all;
            self.report.figure(name, share);
        }
        let faults = total(waited.data.count)?;
        self.report.count("page faults", faults);
        let woken = total(self.waited.woken.total())?;
        self.report.count("requests that woke a thread", woken);
        let (sent, diffs) = (total(self.waited.sent.all)?, total(self.waited.sent.diffs)?);
        self.report.count("messages between nodes", sent);
        self.report.count("messages with diffs", diffs);
        Ok(())
    }

    /// Reports the breakdown, runs the serial version and the check at rank 0 alone, which returns
    /// the number of what is wrong, adds what ranks found wrong themselves, and prints the report.
    /// Returns the exit code once all ranks are done.
    ///
    /// # Errors
    /// Fails if the report cannot be written, or if a rank is lost.
    pub fn finish<S>(
        mut self,
        json: bool,
        serial: impl FnOnce() -> S,
        check: impl FnOnce(S, &mut AppReport) -> u64,
    ) -> Result<ExitCode> {
        self.breakdown()?;
        let lead = self.svm.rank() == 0;
        let mut wrong = 0;
        if lead {
            let lap = Lap::begin();
            let result = serial();
            let seconds = lap.seconds();
            self.report.phase("serial version", seconds);
            self.report.figure("times as fast as serial", seconds / self.parallel.max(1e-9));
            wrong = check(result, &mut self.report);
            self.report.count("wrong", wrong);
        }
        let wrong = self.svm.team().all_reduce(wrong, Sum)?;
        self.report.verify(wrong == 0);
        let code = self.report.finish(lead, json)?;
        self.svm.barrier()?;
        Ok(code)
    }
}
