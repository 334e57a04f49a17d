//! Steps that run the built program in a small size: the sort, the laboratory.

use super::processor_times::ProcessorTimes;
use super::step::{BUILD, Site, StepOutcome, plain};
use crate::command::{self, Ended, cargo};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// Records of a sort in this size, 20 MB: five times the smaller caps below.
const RECORDS: &str = "200000";

/// The parameters of a sort.
#[derive(Debug)]
pub struct SortRun {
    /// Number of ranks.
    pub ranks: &'static str,
    /// Memory cap of all ranks together.
    pub memory: &'static str,
    /// True if some keys are much more frequent.
    pub skew: bool,
    /// True if this must not fit into memory.
    pub two_pass: bool,
    /// Nodes that the ranks are spread over.
    pub nodes: &'static str,
    /// Faults of the network between nodes.
    pub net_faults: &'static str,
}

impl SortRun {
    /// Returns a sort on one node.
    pub const fn on_one_node(ranks: &'static str, memory: &'static str) -> Self {
        Self { ranks, memory, skew: false, two_pass: true, nodes: "1", net_faults: "" }
    }
}

/// Generates, sorts in two passes, and validates with the built-in commands.
///
/// # Errors
/// Fails if a program cannot be started or the folder cannot be made.
pub fn sort(site: &Site) -> Result<StepOutcome> {
    in_folder(site, "sort", |folder| {
        Ok(match sort_and_validate(site, folder, &SortRun::on_one_node("4", "4M"))? {
            None => plain(true, ""),
            Some(why) => plain(false, &why),
        })
    })
}

/// Generates, sorts and validates with any parameters; returns what went wrong, if anything.
///
/// # Errors
/// Fails if a program cannot be started.
pub fn sort_and_validate(site: &Site, folder: &Path, sort: &SortRun) -> Result<Option<String>> {
    if let Some(why) = make_and_sort(site, folder, sort)? {
        return Ok(Some(why));
    }
    let (records, sorted) = (text(folder, "records"), text(folder, "sorted"));
    let check = clump(site, &["app", "valsort", &sorted, "--input", &records])?;
    Ok((!check.success).then(|| format!("app valsort: {}", check.why)))
}

/// Makes `records` and `sorted` in `folder`; returns what went wrong, if anything.
///
/// # Errors
/// Fails if a program cannot be started.
pub fn make_and_sort(site: &Site, folder: &Path, sort: &SortRun) -> Result<Option<String>> {
    let (records, sorted) = (text(folder, "records"), text(folder, "sorted"));
    let mut words = vec!["app", "gensort", RECORDS, &records];
    words.extend(sort.skew.then_some("--skew"));
    let made = clump(site, &words)?;
    if !made.success {
        return Ok(Some(format!("app gensort: {}", made.why)));
    }
    let words = ["app", "sort", "-n", sort.ranks, "--nodes", sort.nodes];
    let more = ["--memory", sort.memory, "--json", "--input", &records, "--output", &sorted];
    let faults = [("CLUMP_NET_FAULTS", sort.net_faults)];
    let done = clump_with(site, &[&words[..], &more].concat(), &faults)?;
    if !done.success {
        return Ok(Some(format!("app sort: {}", done.why)));
    }
    let report: Value = serde_json::from_str(&done.stdout).context("reading the sort's report")?;
    let passes = report["two_pass"].as_bool();
    Ok((passes != Some(sort.two_pass)).then(|| format!("two_pass is {passes:?} in its report")))
}

/// Runs `work` with an empty folder, and removes that.
///
/// # Errors
/// Fails if the folder cannot be made or removed, or if `work` fails.
pub fn in_folder(
    site: &Site,
    name: &str,
    work: impl FnOnce(&Path) -> Result<StepOutcome>,
) -> Result<StepOutcome> {
    let folder = site.scratch()?.join(name);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let outcome = work(&folder);
    std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    outcome
}

/// Measures the LogP signature of this machine, roughly: its report can be parsed and is sane.
///
/// # Errors
/// Fails if the program cannot be started.
pub fn logp(site: &Site) -> Result<StepOutcome> {
    let ended = clump(site, &["lab", "logp", "--quick", "--json"])?;
    if !ended.success {
        return Ok(plain(false, &ended.why));
    }
    let report: Value = serde_json::from_str(&ended.stdout).context("reading the report")?;
    let round_trip = report["data"]["estimate"]["rtt"]["value"].as_f64();
    println!("round trip of a short message: {:.0} ns", round_trip.unwrap_or(f64::NAN));
    // No time is a bound here; a machine without any noise or with much of it gives numbers all
    // the same.
    Ok(plain(round_trip.is_some_and(|ns| ns > 0.0), &format!("its rtt is {round_trip:?}")))
}

/// Turns the knobs of the laboratory on each path. What fails is measured again; what fails each
/// time is a failure, unless other programs had the processors meanwhile: then it says nothing.
///
/// # Errors
/// Fails if the program cannot be started, or if the times of processors cannot be read.
pub fn verify(site: &Site) -> Result<StepOutcome> {
    /// Share of the processors' time that others may take.
    const OTHERS: f64 = 0.05;
    /// Paths, and movement in ns that is none: on two virtual processors, messages that are rare
    /// cost more.
    const PATHS: [(&str, &str); 2] = [("shm", "3000"), ("net", "8000")];
    // Building is no part of it.
    let built = clump(site, &["--version"])?;
    if !built.success {
        return Ok(plain(false, &built.why));
    }
    let before = ProcessorTimes::now()?;
    let mut failed = None;
    for (scope, still) in PATHS {
        let words = ["lab", "verify", "--scope", scope, "--assert", "5%", "--still", still];
        let ended = clump(site, &[&words[..], &["--settings", "2", "--tries", "3"]].concat())?;
        if !ended.success {
            failed.get_or_insert(ended.why);
        }
    }
    let others = ProcessorTimes::now()?.share_of_others(&before);
    if failed.is_some() && others > OTHERS {
        let busy = format!(
            "cells fail, but other programs had {:.0} % of the processors' time: run it alone",
            others * 100.0
        );
        return Ok(StepOutcome::Skipped(busy));
    }
    Ok(plain(failed.is_none(), &failed.unwrap_or_default()))
}

/// Runs the program of this tree.
///
/// # Errors
/// Fails if the program cannot be started.
pub fn clump(site: &Site, words: &[&str]) -> Result<Ended> {
    clump_with(site, words, &[])
}

/// Runs the program of this tree with settings.
///
/// # Errors
/// Fails if it cannot be started.
pub fn clump_with(site: &Site, words: &[&str], settings: &[(&str, &str)]) -> Result<Ended> {
    let args = [&["run", "--quiet", "--release", "--"], words].concat();
    let mut command = cargo(&site.root, &args);
    command.env("TMPDIR", site.scratch()?).envs(settings.iter().copied());
    // A report in JSON is for the caller; it would fill the screen.
    let run = if words.contains(&"--json") { command::run_read } else { command::run };
    run(&mut command, BUILD)
}

fn text(folder: &Path, name: &str) -> String {
    folder.join(name).to_string_lossy().into_owned()
}
