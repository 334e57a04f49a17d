//! A step: one check of a tree, and its outcome.

use super::tier::Tier;
use crate::command::{self, Counts, Ended};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The tree and the build that steps check.
#[derive(Debug)]
pub struct Site {
    /// Root of the tree.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Tier that was asked for: it says how much tests do.
    pub tier: Tier,
}

impl Site {
    /// Returns the folder for temporary files of all steps; it exists.
    ///
    /// # Errors
    /// Fails if the folder cannot be made.
    pub fn scratch(&self) -> Result<PathBuf> {
        let folder = self.target.join("ci-scratch");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Returns `cargo ARGS` that runs tests: as many cases as the tier has, temporary files in
    /// [`Self::scratch`].
    ///
    /// # Errors
    /// Fails if that folder cannot be made.
    pub fn tests(&self, args: &[&str]) -> Result<Command> {
        let mut command = command::cargo(&self.root, args);
        command.env(command::TEST_TIER, self.tier.name()).env("TMPDIR", self.scratch()?);
        Ok(command)
    }
}

/// One check.
#[derive(Debug)]
pub struct Step {
    /// Its name on the command line.
    pub name: &'static str,
    /// The property it checks.
    pub what: &'static str,
    /// The tiers that it is a part of.
    pub tiers: &'static [Tier],
    /// Runs it.
    pub run: fn(&Site) -> Result<StepOutcome>,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// All is well; with the tests that it ran, if any.
    Passed(Counts),
    /// Something is wrong: a description, and the tests that it ran.
    Failed(String, Counts),
    /// Could not run here: the reason, and a remedy.
    Skipped(String),
}

/// Longest time for anything that may have to build the whole tree: more than twice what two idle
/// processors take.
pub const BUILD: Duration = Duration::from_secs(2400);
/// Longest time for one run of a program that is built already.
pub const RUN: Duration = Duration::from_secs(180);

/// Returns the outcome of a step from the end of its program.
pub fn outcome(ended: Ended) -> StepOutcome {
    if ended.success {
        StepOutcome::Passed(ended.counts)
    } else {
        StepOutcome::Failed(ended.why, ended.counts)
    }
}

/// Returns passed, or failed for this reason, without tests to count.
pub fn plain(passed: bool, why: &str) -> StepOutcome {
    let none = Counts::default();
    if passed { StepOutcome::Passed(none) } else { StepOutcome::Failed(why.to_owned(), none) }
}

/// Returns files in `dir` whose names begin and end like this.
pub fn files(dir: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(end)
    };
    entries.map(|entry| entry.path()).filter(named).collect()
}
