//! Steps of the network path: sorts over nodes that lose packets, simulated clusters, the
//! laboratory.

use super::apps::{self, SortRun, clump_with};
use super::step::{BUILD, Site, StepOutcome, plain};
use super::tier::Tier;
use crate::command::{self, cargo};
use anyhow::{Context, Result};
use serde_json::Value;

/// Faults of the network: one packet in a hundred is dropped.
const NET_FAULTS: &str = "loss=1%";
/// Seeds, hours of network time, and seeds for clusters whose ranks use each other's memory and for
/// those whose ranks share a heap: what every change has to pass, and what is done at night.
const MERGE_AMOUNTS: [&str; 4] = ["300", "2", "150", "300"];
const NIGHT_AMOUNTS: [&str; 4] = ["2000", "10", "1000", "5000"];

/// Sorts over two and over four nodes, under loss, and validates.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn sorts(site: &Site) -> Result<StepOutcome> {
    for nodes in ["2", "4"] {
        let outcome = apps::in_folder(site, "nodes", |folder| {
            // Memory of the network counts too.
            let sort =
                SortRun { nodes, net_faults: NET_FAULTS, ..SortRun::on_one_node("4", "48M") };
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
    let [seeds, hours, one_sided_seeds, heap_seeds] = match site.tier {
        Tier::Edit | Tier::Merge => MERGE_AMOUNTS,
        Tier::Night => NIGHT_AMOUNTS,
    };
    let args = [&run[..], &["--seeds", seeds, "--network-hours", hours]].concat();
    let ended = command::run(&mut cargo(&site.root, &args), BUILD)?;
    if !ended.success {
        return Ok(plain(false, &ended.why));
    }
    for task in [["one-sided", "--seeds", one_sided_seeds], ["shared-heap", "--seeds", heap_seeds]]
    {
        let args = [&run[..], &task].concat();
        let ended = command::run(&mut cargo(&site.root, &args), BUILD)?;
        if !ended.success {
            return Ok(plain(false, &ended.why));
        }
    }
    Ok(plain(true, ""))
}

/// Measures the cost of messages between two nodes, roughly, as they are and while each packet is
/// late: the report can be parsed and is sane.
///
/// # Errors
/// Fails if the program cannot be started.
pub fn logp(site: &Site) -> Result<StepOutcome> {
    for late_ns in ["0", "50000"] {
        let words = ["lab", "logp", "--scope", "net", "--security", "aead", "--quick", "--json"];
        let ended =
            clump_with(site, &words, &[("CLUMP_NET_FAULTS", &format!("delay={late_ns}ns"))])?;
        if !ended.success {
            return Ok(plain(false, &ended.why));
        }
        let report: Value = serde_json::from_str(&ended.stdout).context("reading the report")?;
        let estimate = &report["data"]["estimate"];
        let round_trip = estimate["rtt"]["value"].as_f64().unwrap_or(f64::NAN);
        println!(
            "round trip of a short message between nodes, packets {late_ns} ns late: {round_trip:.0} ns"
        );
        if let Some(why) = implausible(estimate, late_ns.parse()?) {
            return Ok(plain(false, &format!("packets {late_ns} ns late: {why}")));
        }
    }
    Ok(plain(true, ""))
}

/// Returns what is wrong with the parameters of a path whose packets are late for so long, each
/// way. No time is too long: other programs may run here.
fn implausible(estimate: &Value, late_ns: f64) -> Option<String> {
    let bound = |name: &str, which: &str| estimate[name][which].as_f64().unwrap_or(f64::NAN);
    let [round_trip, one_way] = [
        bound("rtt", "value"),
        ["l", "o_s", "o_r"].map(|name| bound(name, "value")).iter().sum::<f64>(),
    ];
    if round_trip.is_nan() || one_way.is_nan() {
        return Some("its report lacks a parameter".into());
    }
    if round_trip <= 0.0 || round_trip < 2.0 * late_ns {
        return Some(format!("its round trip is {round_trip} ns"));
    }
    if one_way < late_ns {
        return Some(format!("L and both overheads are {one_way} ns"));
    }
    // What the model leaves of the round trip is no more than what the report does not know of it.
    let width = |name: &str| bound(name, "high") - bound(name, "low");
    let unknown = width("rtt") + 2.0 * ["l", "o_s", "o_r"].map(width).iter().sum::<f64>();
    let left = (round_trip - 2.0 * one_way).abs();
    (left.is_nan() || left > unknown + 1.0)
        .then(|| format!("{left} ns are left, {unknown} ns are unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate([rtt, l, o_s, o_r]: [f64; 4]) -> Value {
        let of = |value: f64| serde_json::json!({"value": value, "low": value - 5.0, "high": value + 5.0});
        serde_json::json!({"rtt": of(rtt), "l": of(l), "o_s": of(o_s), "o_r": of(o_r)})
    }

    #[test]
    fn a_path_is_as_long_as_its_packets_are_late_and_as_its_parts_together() {
        let good = estimate([120_000.0, 50_000.0, 4_000.0, 6_000.0]);
        assert_eq!(implausible(&good, 50_000.0), None);
        assert_eq!(implausible(&good, 0.0), None);
        // The packets of one direction only; L without its packets; a part is missing.
        for (bad, why) in [
            ([99_000.0, 45_000.0, 2_000.0, 2_500.0], "round trip"),
            ([120_000.0, 30_000.0, 4_000.0, 6_000.0], "overheads"),
            ([120_000.0, 50_000.0, 1_000.0, 1_000.0], "left"),
            ([120_000.0, f64::NAN, 1_000.0, 1_000.0], "lacks"),
        ] {
            let said = implausible(&estimate(bad), 50_000.0).unwrap();
            assert!(said.contains(why), "{said}");
        }
        assert!(implausible(&serde_json::json!({}), 0.0).unwrap().contains("lacks"));
    }
}
