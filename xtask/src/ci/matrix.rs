//! The step that runs every application on ranks and nodes of many shapes; each checks itself
//! against its oracle.

use super::apps::clump_with;
use super::step::{Site, StepOutcome, plain};
use super::tier::Tier;
use anyhow::{Context, Result};
use serde_json::Value;

/// Faults of the network between nodes.
const NET_FAULTS: &str = "loss=1%";
/// Settings of the shared virtual memory's protocol but the last, which all shapes run.
const PROTOCOLS: [&str; 4] = ["base", "dw", "rf", "dd"];

/// Applications on global memory, with the ways in which they run.
const GLOBAL: [(&str, &[&str]); 20] = [
    ("gups", &[]),
    ("histo", &[]),
    ("indexgather", &[]),
    ("sample", &[]),
    ("radix", &[]),
    ("radb", &[]),
    ("em3d", &[]),
    ("em3d", &["--manner", "read"]),
    ("em3d", &["--layout", "naive"]),
    ("connect", &[]),
    ("fft3d", &[]),
    ("barnes", &[]),
    ("barnes", &["--bodies", "512", "--locks", "naive"]),
    ("pray", &[]),
    ("pray", &["--scene", "flake", "--cache", "8", "--balance", "blocks"]),
    ("pray", &["--scene", "apps/global/scenes/kinds.nff", "--tile", "7"]),
    ("murphi", &[]),
    ("murphi", &["msi", "--symmetry", "exact"]),
    ("murphi", &["hanoi", "--compact"]),
    ("murphi", &["german", "--order", "asynchronous", "--compiled"]),
];

/// Applications on shared virtual memory.
const SHARED: [&str; 14] = [
    "jacobi",
    "matmul",
    "gauss",
    "lu",
    "radix-svm",
    "fft",
    "ocean",
    "water-nsq",
    "water-spatial",
    "raytrace",
    "barnes-svm",
    "volrend",
    "tsp",
    "unstructured",
];

/// A run of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppRun {
    ranks: &'static str,
    nodes: &'static str,
    ni: &'static str,
    /// Beside the faults.
    setting: Option<(&'static str, &'static str)>,
}

impl AppRun {
    const fn of(ranks: &'static str, nodes: &'static str, ni: &'static str) -> Self {
        Self { ranks, nodes, ni, setting: None }
    }

    fn set(self, name: &'static str, value: &'static str) -> Self {
        Self { setting: Some((name, value)), ..self }
    }
}

/// Returns shapes of ranks on nodes, by the driver of the network where there are several.
fn shapes(tier: Tier) -> Vec<AppRun> {
    let few = [("4", "1"), ("4", "2"), ("4", "4")];
    let all = [
        ("1", "1"),
        ("2", "1"),
        ("2", "2"),
        ("3", "1"),
        ("3", "2"),
        ("4", "1"),
        ("4", "2"),
        ("4", "4"),
        ("8", "1"),
        ("8", "2"),
        ("8", "4"),
    ];
    let night = tier == Tier::Night;
    let shapes = if night { &all[..] } else { &few[..] };
    let direct = shapes.iter().map(|(ranks, nodes)| AppRun::of(ranks, nodes, "direct"));
    let proxied = shapes.iter().filter(|(_, nodes)| *nodes != "1" && (night || *nodes == "2"));
    direct.chain(proxied.map(|(ranks, nodes)| AppRun::of(ranks, nodes, "proxy:1"))).collect()
}

/// Returns the runs of an application on global memory: at night also without aggregation.
fn global_runs(tier: Tier) -> Vec<AppRun> {
    let shapes = shapes(tier);
    let alone = shapes.iter().filter(|it| tier == Tier::Night && it.nodes != "1");
    let alone = alone.map(|it| it.set("CLUMP_PGAS_AGGREGATE", "0"));
    shapes.iter().copied().chain(alone).collect()
}

/// Returns the runs of an application on shared virtual memory: at night also by each protocol.
fn shared_runs(tier: Tier) -> Vec<AppRun> {
    let mut runs = shapes(tier);
    if tier == Tier::Night {
        let protocols = PROTOCOLS.map(|it| AppRun::of("4", "2", "direct").set("CLUMP_SVM", it));
        runs.extend(protocols);
    }
    runs
}

/// Runs the applications on global and shared memory, each checked by its own oracle.
///
/// # Errors
/// Fails if a program cannot be started.
pub fn applications(site: &Site) -> Result<StepOutcome> {
    let global = GLOBAL.into_iter().map(|(app, words)| (app, words, global_runs(site.tier)));
    let shared = SHARED.into_iter().map(|app| (app, &[][..], shared_runs(site.tier)));
    let mut count = 0;
    for (app, words, runs) in global.chain(shared) {
        for run in runs {
            if let Some(why) = failure(site, (app, words), run)? {
                return Ok(plain(false, &format!("{app} {words:?}, {run:?}: {why}")));
            }
            count += 1;
        }
    }
    println!("{count} runs were verified");
    Ok(plain(count > 0, "no application ran"))
}

/// Runs an application. Returns what went wrong, if anything.
fn failure(site: &Site, (app, words): (&str, &[&str]), run: AppRun) -> Result<Option<String>> {
    let AppRun { ranks, nodes, ni, setting } = run;
    let first = ["app", app, "-n", ranks, "--nodes", nodes, "--ni", ni, "--json"];
    let settings: Vec<_> = setting.into_iter().chain([("CLUMP_NET_FAULTS", NET_FAULTS)]).collect();
    let ended = clump_with(site, &[&first, words].concat(), &settings)?;
    if !ended.success {
        return Ok(Some(ended.why));
    }
    let report: Value = serde_json::from_str(&ended.stdout).context("reading its report")?;
    Ok((report["verified"] != true).then(|| "it is not verified".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{AppRun, global_runs, shapes, shared_runs};
    use crate::ci::tier::Tier;

    #[test]
    fn a_merge_runs_few_shapes_and_a_night_all() {
        assert_eq!(shapes(Tier::Merge).len(), 4);
        assert_eq!(global_runs(Tier::Merge).len(), 4);
        assert_eq!(shapes(Tier::Night).len(), 11 + 6);
        assert_eq!(global_runs(Tier::Night).len(), 17 + 12);
        assert_eq!(shared_runs(Tier::Night).len(), 17 + 4);
        assert!(shapes(Tier::Night).contains(&AppRun::of("8", "4", "proxy:1")));
    }
}
