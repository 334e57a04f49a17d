//! Steps of the night: what takes too long for a merge.

use super::steps::{BUILD, RUN, plain};
use super::{Site, StepOutcome};
use crate::command::{self, cargo};
use crate::{attack, mutants, tsan};
use anyhow::Result;
use std::process::Command;

/// How long jobs are attacked, in seconds.
const ATTACK_SECONDS: &str = "900";
/// Random kills: of ranks on one node and on two, and of ranks and nodes that contend for locks.
const KILLS: &str = "200";

/// Jobs under random adverse conditions.
pub fn attacks(site: &Site) -> Result<StepOutcome> {
    let words = ["--seconds", ATTACK_SECONDS].map(str::to_owned);
    Ok(plain(attack::run(&site.root, &words)?, "see the jobs above"))
}

/// Many random kills.
pub fn storms(site: &Site) -> Result<StepOutcome> {
    let args = ["build", "--release", "--package", "clump-cluster-tests", "--bins"];
    let built = command::run(&mut cargo(&site.root, &args), BUILD)?;
    if !built.success {
        return Ok(plain(false, &built.why));
    }
    let storms = [
        ("kill-storm", vec![KILLS, "1", "1"]),
        ("kill-storm", vec![KILLS, "1", "2"]),
        ("lock-storm", vec![KILLS, "1"]),
    ];
    for (program, args) in storms {
        let mut storm = Command::new(site.target.join("release").join(program));
        storm.args(args).env("TMPDIR", site.scratch()?).current_dir(&site.root);
        let ended = command::run(&mut storm, RUN * 5)?;
        if !ended.success {
            return Ok(plain(false, &format!("{program}: {}", ended.why)));
        }
    }
    Ok(plain(true, ""))
}

/// Every planted bug.
pub fn planted(site: &Site) -> Result<StepOutcome> {
    Ok(plain(mutants::run(&site.root, &[])?, "see the mutants above"))
}

/// The sanitizer, where there is a nightly compiler.
pub fn sanitizer(site: &Site) -> Result<StepOutcome> {
    if let Some(reason) = tsan::missing(&site.root)? {
        return Ok(StepOutcome::Skipped(reason));
    }
    Ok(plain(tsan::run(&site.root)?, "see above"))
}
