//! Paths that have a length as an instrument: the simulator's plan of them, in virtual time.

use super::instrument::{FigureSource, Instrument};
use super::results::Goal;
use crate::command::{self, cargo};
use crate::host;
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const TABLE: &str = "paths-with-distance";
/// First word of its command line.
const SOAK: &str = "soak";
const PLAN: &str = "crates/clump-sim/plans/distance.toml";
/// Longest time of a build, and of the plan.
const LIMIT: Duration = Duration::from_secs(3600);

/// Links, the goal on them as a part of the payload that they carry, and the longest round trip
/// for which that goal holds.
const LINKS: [(&str, f64, usize); 4] =
    [("1G", 0.9, 4), ("10G", 0.9, 4), ("25G", 0.9, 4), ("100G", 0.8, 2)];
/// Round trips, by column of the table from 1 on.
const ROUND_TRIPS: [&str; 6] = ["20 us", "100 us", "500 us", "2 ms", "10 ms", "50 ms"];

/// Returns the instrument.
pub fn instrument() -> Instrument {
    let mut figures = Vec::new();
    for (link, goal, last) in LINKS {
        for (index, trip) in ROUND_TRIPS.into_iter().enumerate() {
            let column = index + 1;
            // On the longest path of all a window of 64 MiB is the limit of the design.
            let least = if index <= last { goal } else { 0.8 };
            let mut figure = |what: &str, goal| {
                let row = format!("{link}-{what}").leak();
                let path = format!("/{link}, {trip}/{what}").leak();
                figures.push(FigureSource::new((TABLE, row, column), path, (1.0, "", 2), goal));
            };
            figure("mediums", Some(Goal::AtLeast(least)));
            figure("longs", Some(Goal::AtLeast(least)));
            figure("gets", Some(Goal::AtLeast(least)));
            figure("least-share", Some(Goal::AtLeast(0.8)));
            figure("most-share", Some(Goal::AtMost(1.2)));
        }
    }
    Instrument {
        name: "distance".into(),
        words: vec![SOAK, "--plan", PLAN].into(),
        settings: Vec::new().into(),
        figures: figures.into(),
    }
}

/// Returns true if an instrument is this one.
pub fn is_soak(instrument: &Instrument) -> bool {
    instrument.words.first() == Some(&SOAK)
}

/// Builds the simulator, runs the plan and returns its figures by name of the path: goodput as a
/// part of the payload that the link carries, and shares of eight senders.
///
/// # Errors
/// Fails if the simulator does not build, or if the plan does not run to its end.
pub fn report(root: &Path) -> Result<Value> {
    let args = ["build", "--release", "--package", "clump-sim", "--bin", SOAK];
    let built = command::run(&mut cargo(root, &args), LIMIT)?;
    if !built.success {
        bail!("building the simulator: {}", built.why);
    }
    let target = host::target(root);
    let file = target.join("bench-distance.json");
    let mut soak = Command::new(target.join("release").join(SOAK));
    soak.args(["--plan", PLAN, "--json"]).arg(&file).current_dir(root);
    let ended = command::run_quiet(&mut soak, LIMIT)?;
    if !ended.success {
        bail!("{}: {}", command::shown(&soak), ended.why);
    }
    let text = std::fs::read_to_string(&file).context("reading the simulator's report")?;
    let report: Value = serde_json::from_str(&text).context("reading the simulator's report")?;
    let networks = report.get("networks").and_then(Value::as_array);
    let mut paths = Map::new();
    for network in networks.context("the report has no networks")? {
        let name = network.get("network").and_then(Value::as_str).context("a path has no name")?;
        let number = |key: &str| network.pointer(key).and_then(Value::as_f64);
        let share = |key| Some(number(key)? / number("/capacity_bytes_per_s")?);
        let figures = json!({
            "mediums": share("/goodput_bytes_per_s"),
            "longs": share("/long_bytes_per_s"),
            "gets": share("/gets_bytes_per_s"),
            "least-share": number("/incast_shares/0"),
            "most-share": number("/incast_shares/1"),
        });
        paths.insert(name.to_owned(), figures);
    }
    Ok(Value::Object(paths))
}
