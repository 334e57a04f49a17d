//! A sweep: one program at many settings of the knobs, with runs at no setting between them.
//!
//! The journal has a line for the plan and one for each run. It is all that a sweep knows, so one
//! that was killed goes on where its journal ends. The order of runs follows from the plan's seed
//! alone.

pub use crate::sweep_run::{LockCounts, RunEnd, SweepRun};
pub use crate::virtual_sweep::{VirtualRun, VirtualSweep};

use crate::knob_base::KnobBase;
use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable};
use anyhow::{Context, Result, ensure};
use clump_loggp::Median;
use clump_trace::line_state::alike;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of the journal's format.
const FORMAT: u32 = 1;
/// Runs at settings between two without any.
const BETWEEN: usize = 3;
/// Fewest runs of a setting.
const FEWEST: usize = 3;

/// Knobs that are turned to nothing: messages take the way of those that are delayed, so that its
/// own cost is in no slowdown.
pub const ARMED: &str = "L=+1ns";

/// The plan of a sweep: the first line of its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// Number of the journal's format.
    pub format: u32,
    /// Options of `clump run`, program and arguments.
    pub command: Vec<String>,
    /// Texts of the knobs; the first is empty, the baseline.
    pub settings: Vec<String>,
    /// Text of the knobs of the runs at no setting: [`ARMED`], but in virtual time and in journals
    /// of older builds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub baseline: String,
    /// Number from which the order of runs follows.
    pub seed: u64,
    /// Most runs of a setting.
    pub rounds: usize,
    /// Virtual time of the runs; `None`: the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<VirtualSweep>,
    /// The calibration beside which knobs are set; `None`: time is virtual, or the journal is of an
    /// older build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<KnobBase>,
}

/// Runs of a setting beside runs at none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown {
    /// Sum of the times over the sum of those of the runs at no setting beside them. Its interval
    /// is that of the ratios of single runs.
    pub ratio: Median,
    /// Mean time of the runs at no setting beside them, in s: what `ratio` divides by.
    pub base_s: f64,
}

impl SweepPlan {
    /// Creates a plan; `settings`: texts of the knobs, without the baseline.
    pub fn new(command: Vec<String>, settings: Vec<String>, seed: u64, rounds: usize) -> Self {
        let settings = [String::new()].into_iter().chain(settings).collect();
        let rounds = rounds.max(FEWEST);
        let (format, virtual_time, base) = (FORMAT, None, None);
        let baseline = String::new();
        Self { format, command, settings, baseline, seed, rounds, virtual_time, base }
    }

    /// Sets its knobs beside a calibration.
    #[must_use]
    pub fn beside(self, base: Option<KnobBase>) -> Self {
        Self { base, ..self }
    }

    /// Sets the text of the knobs of the runs at no setting.
    #[must_use]
    pub fn with_baseline(self, baseline: String) -> Self {
        Self { baseline, ..self }
    }

    /// Returns the text of the knobs of the runs of a setting.
    pub fn knobs(&self, setting: usize) -> &str {
        if setting == 0 { &self.baseline } else { &self.settings[setting] }
    }

    /// Checks that runs of `self` may be added to the journal of `found`.
    fn check_goes_on(&self, found: &Self) -> Result<()> {
        let beside = |plan: &Self| Self { base: None, ..plan.clone() };
        ensure!(
            beside(found) == beside(self),
            "it is of another sweep (`{}`, {} settings); name another file, or remove this one",
            found.command.join(" "),
            found.settings.len()
        );
        if let (Some(then), Some(now)) = (&found.base, &self.base) {
            ensure!(
                then.agrees(now, &self.settings),
                "its settings mean something else: {}, and now {}; name another file, or remove \
                 this one",
                then.basis,
                now.basis
            );
        }
        Ok(())
    }

    /// Makes time virtual: one run of each setting is all.
    #[must_use]
    pub fn in_virtual_time(self, time: VirtualSweep) -> Self {
        Self { rounds: 1, virtual_time: Some(time), ..self }
    }

    /// Returns the settings of one round, in its order: all of them, with baselines between.
    fn round(&self, number: usize) -> Vec<usize> {
        if self.virtual_time.is_some() {
            // No run depends on those before it.
            return (0..self.settings.len()).collect();
        }
        let mut order: Vec<usize> = (1..self.settings.len()).collect();
        let mut numbers = SplitMix64::seed_from_u64(self.seed ^ (number as u64).rotate_left(32));
        for last in (1..order.len()).rev() {
            // That small numbers are a little more likely does not matter here.
            order.swap(last, (numbers.next_u64() % (last as u64 + 1)) as usize);
        }
        let chunks =
            order.chunks(BETWEEN).flat_map(|chunk| [0].into_iter().chain(chunk.iter().copied()));
        chunks.chain([0]).collect()
    }
}

/// A plan and the runs so far.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepJournal {
    /// The plan.
    pub plan: SweepPlan,
    /// Runs by turn.
    runs: BTreeMap<usize, SweepRun>,
    /// Half of an interval over its median below which a setting is known.
    precision: f64,
}

impl SweepJournal {
    /// Begins a journal.
    pub fn new(plan: SweepPlan, precision: f64) -> Self {
        Self { plan, runs: BTreeMap::new(), precision }
    }

    /// Reads a journal with the plan that it begins with.
    ///
    /// # Errors
    /// The journal is damaged.
    pub fn load(text: &str) -> Result<Self> {
        let first = text.lines().next().unwrap_or_default();
        let plan: SweepPlan = serde_json::from_str(first).context("it begins with no plan")?;
        ensure!(plan.format == FORMAT, "it is of another version");
        Self::read(text, plan, 0.0)
    }

    /// Returns the time of the runs at a setting, in s.
    pub fn time(&self, setting: usize) -> Option<Median> {
        Median::of(self.seconds(setting))
    }

    /// Reads a journal for `plan`. A line that was not written to its end is left out.
    ///
    /// # Errors
    /// The journal is of another plan, or damaged.
    pub fn read(text: &str, plan: SweepPlan, precision: f64) -> Result<Self> {
        let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let mut journal = Self::new(plan, precision);
        let Some(first) = lines.next() else { return Ok(journal) };
        let found: SweepPlan = serde_json::from_str(first)
            .context("it does not begin with a plan; name another file, or remove this one")?;
        journal.plan.check_goes_on(&found)?;
        journal.plan.base = found.base;
        for (number, line) in lines.enumerate() {
            let run: SweepRun = serde_json::from_str(line)
                .with_context(|| format!("line {} is no run", number + 2))?;
            ensure!(
                run.setting < journal.plan.settings.len(),
                "line {} has no setting",
                number + 2
            );
            journal.runs.insert(run.turn, run);
        }
        Ok(journal)
    }

    /// Adds a run.
    pub fn add(&mut self, run: SweepRun) {
        debug_assert!(run.setting < self.plan.settings.len(), "a setting of the plan");
        self.runs.insert(run.turn, run);
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns true if there are no runs yet.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns true if times are those of the program's phases, which all runs report; else they
    /// are those of whole jobs.
    pub fn is_of_phases(&self) -> bool {
        let mut clean = self.runs.values().filter(|run| matches!(run.end, RunEnd::Took(_)));
        let any = clean.clone().next().is_some();
        any && clean.all(|run| run.phases_s.is_some_and(|seconds| seconds > 0.0))
    }

    /// Returns the time of a run that ended cleanly.
    fn took(&self, run: &SweepRun) -> Option<f64> {
        match run.end {
            RunEnd::Took(_) if self.is_of_phases() => run.phases_s,
            RunEnd::Took(seconds) => Some(seconds),
            _ => None,
        }
    }

    fn seconds(&self, setting: usize) -> Vec<f64> {
        let of = self.runs.values().filter(|run| run.setting == setting);
        of.filter_map(|run| self.took(run)).collect()
    }

    /// Returns the time for which ranks waited for processors at a setting, in s.
    pub fn waited(&self, setting: usize) -> Option<f64> {
        let of = self.runs.values().filter(|run| run.setting == setting);
        Some(Median::of(of.filter_map(|run| run.waited_s))?.value)
    }

    /// Returns how often the kernel took the processor from a rank at a setting.
    pub fn preemptions(&self, setting: usize) -> Option<f64> {
        let of = self.runs.values().filter(|run| run.setting == setting);
        #[expect(clippy::cast_precision_loss, reason = "counts of runs are below 2^53")]
        Some(Median::of(of.filter_map(|run| Some(run.preemptions? as f64)))?.value)
    }

    /// Returns true if time is virtual: each run is the same.
    pub fn is_exact(&self) -> bool {
        self.plan.virtual_time.is_some()
    }

    /// Returns the run at a setting in virtual time, if it ended cleanly.
    pub fn virtual_run(&self, setting: usize) -> Option<&VirtualRun> {
        self.runs.values().find(|run| run.setting == setting)?.virtual_time.as_ref()
    }

    /// Returns the digits of times: virtual ones are exact, and may be short.
    fn digits(&self) -> usize {
        if self.is_exact() { 6 } else { 3 }
    }

    /// Returns true if the setting was run, however it ended.
    pub fn was_run(&self, setting: usize) -> bool {
        self.runs.values().any(|run| run.setting == setting)
    }

    /// Returns how the setting ended where it did not end cleanly.
    pub fn unclean(&self, setting: usize) -> Option<RunEnd> {
        let mut ends = self.runs.values().filter(|run| run.setting == setting).map(|run| run.end);
        ends.find(|end| !matches!(end, RunEnd::Took(_)))
    }

    /// Returns the attempts at locks of all runs at a setting.
    pub fn locks(&self, setting: usize) -> LockCounts {
        let runs = self.runs.values().filter(|run| run.setting == setting);
        runs.filter_map(|run| run.locks).fold(LockCounts::default(), |sum, run| LockCounts {
            acquired: sum.acquired + run.acquired,
            failed: sum.failed + run.failed,
        })
    }

    /// Returns true if a setting needs no further run.
    fn is_known(&self, setting: usize) -> bool {
        let samples = self.seconds(setting);
        if self.unclean(setting).is_some() || samples.len() >= self.plan.rounds {
            return true;
        }
        // Fewer than six have no interval of 95 %; all of them together bound it.
        samples.len() >= FEWEST
            && Median::of(samples).is_some_and(|median| median.spread() < self.precision)
    }

    /// Returns turn and setting of the next run; `None` when the sweep is complete.
    pub fn next(&self) -> Option<(usize, usize)> {
        let all = self.plan.settings.len();
        if all < 2 || (1..all).all(|setting| self.is_known(setting)) {
            return None;
        }
        let mut turn = 0;
        for round in 0..self.plan.rounds {
            for setting in self.plan.round(round) {
                let wanted = setting == 0 || !self.is_known(setting);
                if wanted && !self.runs.contains_key(&turn) {
                    return Some((turn, setting));
                }
                turn += 1;
            }
        }
        None
    }

    /// Returns the number of runs that are left at most.
    pub fn left(&self) -> usize {
        let each = |setting| self.plan.rounds.saturating_sub(self.seconds(setting).len());
        (1..self.plan.settings.len()).filter(|&s| !self.is_known(s)).map(each).sum()
    }

    /// Returns the slowdown of a setting: its runs over the baselines before and after each.
    pub fn slowdown(&self, setting: usize) -> Option<Slowdown> {
        // Runs of unlike states of the machine are compared only where there are no others.
        let steady = self.beside_baselines(setting, SweepRun::is_like);
        let any = |_: &SweepRun, _: &SweepRun| true;
        let beside = if steady.is_empty() { self.beside_baselines(setting, any) } else { steady };
        let ratios = Median::of(beside.iter().map(|(seconds, mean)| seconds / mean))?;
        let sum = |pick: fn(&(f64, f64)) -> f64| beside.iter().map(pick).sum::<f64>();
        let (times, bases) = (sum(|pair| pair.0), sum(|pair| pair.1));
        let value = times / bases;
        let (low, high) = (ratios.low.min(value), ratios.high.max(value));
        let ratio = Median { value, low, high, ..ratios };
        #[expect(clippy::cast_precision_loss, reason = "runs are few")]
        Some(Slowdown { ratio, base_s: bases / beside.len() as f64 })
    }

    /// Returns the time of each run at a setting that is like itself, with the mean of the
    /// baselines before and after it that are like it.
    fn beside_baselines(
        &self,
        setting: usize,
        like: impl Fn(&SweepRun, &SweepRun) -> bool,
    ) -> Vec<(f64, f64)> {
        let runs = self.runs.values().filter(|run| run.setting == setting && like(run, run));
        let beside = runs.filter_map(|run| {
            let seconds = self.took(run)?;
            let baseline = |(_, other): (_, &SweepRun)| {
                let is_base = other.setting == 0 && like(run, other);
                if is_base { self.took(other) } else { None }
            };
            let before = self.runs.range(..run.turn).rev().find_map(baseline);
            let after = self.runs.range(run.turn + 1..).find_map(baseline);
            let beside: Vec<f64> = before.into_iter().chain(after).collect();
            let mean = beside.iter().sum::<f64>() / f64::from(u32::try_from(beside.len()).ok()?);
            (mean > 0.0).then_some((seconds, mean))
        });
        beside.collect()
    }

    /// Returns a sentence about runs during which the machine changed, if there are any.
    pub fn line_note(&self) -> Option<String> {
        let changed = self.runs.values().filter(|run| !run.is_like(run)).count();
        let all: Vec<f64> =
            self.runs.values().filter_map(|run| Some(run.lines?.before_ns)).collect();
        let least = all.iter().copied().reduce(f64::min)?;
        let most = all.iter().copied().fold(least, f64::max);
        let range = format!("round trip between the processors: {least:.0} to {most:.0} ns");
        if changed == 0 && alike(least, most) {
            return Some(range);
        }
        Some(format!(
            "{range}; {changed} runs during a change are left out, others divided by their like"
        ))
    }

    /// Returns the report of the runs so far.
    ///
    /// # Errors
    /// Fails if the data have no JSON form.
    pub fn report(&self) -> Result<InstrumentReport> {
        let title = format!("Sweep of {}", self.plan.command.join(" "));
        let runs: Vec<&SweepRun> = self.runs.values().collect();
        let mut report = InstrumentReport::new("sweep", title, &(&self.plan, runs))?;
        let mut columns = vec![ReportColumn::ours("time"), ReportColumn::ratio("slowdown")];
        if self.is_exact() {
            columns.push(ReportColumn::baseline("computation, all ranks"));
            columns.push(ReportColumn::baseline("not recorded").in_unit("%", 2));
        }
        let mut table = ReportTable::new("setting", columns);
        for (setting, text) in self.plan.settings.iter().enumerate() {
            let name = if setting == 0 { "none" } else { text };
            let time = Median::of(self.seconds(setting)).map(Into::into);
            let slowdown = self.slowdown(setting).filter(|_| setting != 0);
            let slowdown = slowdown.map(|slowdown| slowdown.ratio.into());
            let mut figures = vec![time, slowdown];
            if self.is_exact() {
                let run = self.virtual_run(setting);
                figures.push(run.map(|run| Figure::from(run.computed_ns as f64 / 1e9)));
                figures.push(run.map(|run| run.diverged_percent().into()));
            }
            table.row(name, ("s", self.digits()), figures);
            match self.unclean(setting) {
                Some(RunEnd::DidNotFinish(seconds)) => {
                    table.notes.push(format!("{name}: did not finish in {seconds:.0} s"));
                }
                Some(RunEnd::Failed(code)) => {
                    table.notes.push(format!("{name}: ended with code {code}"));
                }
                Some(RunEnd::Took(_)) | None => {}
            }
            table.notes.extend(self.locks(setting).note().map(|note| format!("{name}: {note}")));
        }
        let (left, done) = (self.left(), self.runs.len());
        let rest = if left == 0 { "complete" } else { "the same command goes on with it" };
        table.notes.push(format!("{done} runs, {left} left at most: {rest}"));
        table.notes.push(self.time_note());
        table.notes.extend(self.base_note());
        table.notes.extend(self.line_note());
        report.tables.push(table);
        Ok(report)
    }
}

impl SweepJournal {
    /// Returns a sentence that says what its knobs are set beside, if that is known.
    pub fn base_note(&self) -> Option<String> {
        self.plan.base.as_ref().map(|base| base.basis.clone())
    }

    /// Returns a sentence that says what its times are of.
    pub fn time_note(&self) -> String {
        let of = match (self.is_of_phases(), &self.plan.virtual_time) {
            (true, _) => "times are those of the program's phases, without its serial version",
            (false, None) => "times are those of whole jobs, their start included",
            (false, Some(_)) => "times are those of whole jobs",
        };
        let virtual_time =
            self.plan.virtual_time.as_ref().map(|time| {
                format!("; virtual, on {}, computation {}", time.machine.name, time.cpu)
            });
        let armed = match &*self.plan.baseline {
            "" => String::new(),
            knobs => format!(
                "; runs at no setting have {knobs}: messages take the way of delayed ones, so that \
                 its own cost is in no slowdown"
            ),
        };
        of.to_owned() + &virtual_time.unwrap_or_default() + &armed
    }
}

#[cfg(test)]
mod tests;
