//! Steps of the network path: sorts over nodes that lose packets, simulated clusters, the laboratory.

use super::apps::{self, SortRun, clump};
use super::steps::{BUILD, plain};
use super::{Site, StepOutcome};
use crate::command::{self, cargo};
use anyhow::{Context, Result};
use serde_json::Value;

/// One packet in a hundred is thrown away.
const LOSS_PPM: &str = "10000";
/// Seeds and hours of network time that every change has to stand.
const SEEDS: &str = "2000";
/// The same for clusters whose ranks use each other's memory.
const ONE_SIDED_SEEDS: &str = "1000";
const NETWORK_HOURS: &str = "10";

/// Sorts over two and over four nodes, under loss, and validates.
pub fn sorts(site: &Site) -> Result<StepOutcome> {
    for nodes in ["2", "4"] {
        let outcome = apps::in_folder(site, "nodes", |folder| {
            // What the network keeps counts as memory.
            let sort = SortRun { nodes, loss_ppm: LOSS_PPM, ..SortRun::on_one_node("4", "48M") };
            Ok(match apps::sort_and_validate(site, folder, &sort)? {
                None => plain(true, ""),
                Some(why) => plain(false, &format!("over {nodes} nodes: {why}")),
            })
        })?;
        if let StepOutcome::Failed(..) = outcome {
            return Ok(outcome);
        }
    }
    Ok(plain(true, ""))
}

/// Simulated clusters: the real stacks in virtual time.
pub fn simulation(site: &Site) -> Result<StepOutcome> {
    let run = ["run", "--quiet", "--release", "--package", "clump-sim", "--bin", "soak", "--"];
    let args = [&run[..], &["--seeds", SEEDS, "--network-hours", NETWORK_HOURS]].concat();
    let ended = command::run(&mut cargo(&site.root, &args), BUILD)?;
    if !ended.success {
        return Ok(plain(false, &ended.why));
    }
    let args = [&run[..], &["one-sided", "--seeds", ONE_SIDED_SEEDS]].concat();
    let ended = command::run(&mut cargo(&site.root, &args), BUILD)?;
    Ok(plain(ended.success, &ended.why))
}

/// What messages between two nodes cost, roughly: the program measures, its report can be read.
pub fn logp(site: &Site) -> Result<StepOutcome> {
    let words = ["lab", "logp", "--scope", "net", "--security", "aead", "--quick", "--json"];
    let ended = clump(site, &words)?;
    if !ended.success {
        return Ok(plain(false, &ended.why));
    }
    let report: Value = serde_json::from_str(&ended.stdout).context("reading the report")?;
    let round_trip = report["estimate"]["rtt"]["value"].as_f64();
    println!(
        "round trip of a short message between nodes: {:.0} ns",
        round_trip.unwrap_or(f64::NAN)
    );
    Ok(plain(round_trip.is_some_and(|ns| ns > 0.0), &format!("its rtt is {round_trip:?}")))
}
