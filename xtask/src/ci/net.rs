//! Steps of the network path: sorts over nodes that lose packets, simulated clusters, the
//! laboratory.

use super::apps::{self, SortRun, clump};
use super::step::{BUILD, Site, StepOutcome, plain};
use crate::command::{self, cargo};
use anyhow::{Context, Result};
use serde_json::Value;

/// Loss rate: one packet in a hundred is dropped.
const LOSS_PPM: &str = "10000";
/// Seeds and hours of network time that every change has to pass.
const SEEDS: &str = "2000";
/// Seeds for clusters whose ranks use each other's memory.
const ONE_SIDED_SEEDS: &str = "1000";
const NETWORK_HOURS: &str = "10";

/// Sorts over two and over four nodes, under loss, and validates.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn sorts(site: &Site) -> Result<StepOutcome> {
    for nodes in ["2", "4"] {
        let outcome = apps::in_folder(site, "nodes", |folder| {
            // Memory of the network counts too.
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

/// Runs simulated clusters: the real stacks in virtual time.
///
/// # Errors
/// Fails if the simulation cannot be started.
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

/// Measures the cost of messages between two nodes, roughly: the report can be parsed.
///
/// # Errors
/// Fails if the program cannot be started.
pub fn logp(site: &Site) -> Result<StepOutcome> {
    let words = ["lab", "logp", "--scope", "net", "--security", "aead", "--quick", "--json"];
    let ended = clump(site, &words)?;
    if !ended.success {
        return Ok(plain(false, &ended.why));
    }
    let report: Value = serde_json::from_str(&ended.stdout).context("reading the report")?;
    let round_trip = report["data"]["estimate"]["rtt"]["value"].as_f64();
    println!(
        "round trip of a short message between nodes: {:.0} ns",
        round_trip.unwrap_or(f64::NAN)
    );
    Ok(plain(round_trip.is_some_and(|ns| ns > 0.0), &format!("its rtt is {round_trip:?}")))
}
