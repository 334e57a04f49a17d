//! Sweeps in virtual time: the same in every run, and slowdowns as the papers have them.

use clump_process_tests::{Finished, Folder, Job, program};
use serde_json::Value;
use std::path::Path;

/// Sweeps an application of clump on so many ranks, each a node of its own. Each small operation is
/// a message, as in paper 001.
fn sweep(options: &str, journal: &Path, (ranks, app): (u32, &str)) -> Finished {
    let words = format!("lab sweep --virtual now1997 {options} --out {}", journal.display());
    let clump = program("clump-under-test").display().to_string();
    let alone = "--env CLUMP_PGAS_AGGREGATE=0";
    let run = format!("-- -n {ranks} --nodes {ranks} {alone} {clump} app {app} --json");
    let run: Vec<&str> = run.split_whitespace().collect();
    let ended = Job::command(&words).with_args(&run).finish();
    ended.expect_clean();
    ended
}

/// Returns a figure of a report by its row and its column.
fn figure(report: &Value, row: &str, column: &str) -> f64 {
    let found = report["tables"].as_array().unwrap().iter().find_map(|table| {
        let at = table["columns"].as_array()?.iter().position(|of| of["name"] == column)?;
        let row = table["rows"].as_array()?.iter().find(|of| of["name"] == row)?;
        row["figures"][at]["value"].as_f64()
    });
    found.unwrap_or_else(|| panic!("no {row}, {column} in {report}"))
}

/// Returns the runs of a journal.
fn runs(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn computation_is_recorded_once_and_each_sweep_that_replays_it_has_the_same_times() {
    let folder = Folder::new();
    let [first, again] = ["first.jsonl", "again.jsonl"].map(|name| folder.path().join(name));
    let of = (8, "sample --keys 4001");
    let knobs = "--knob o=+10us,+100us --knob L=+100us";
    let report = sweep(&format!("{knobs} --json"), &first, of).json();
    sweep(&format!("{knobs} --cpu replay:{}.cpu", first.display()), &again, of);
    assert_eq!(runs(&first).len(), 4, "each setting once, and none");
    assert_eq!(runs(&first), runs(&again));
    for setting in ["none", "o=+10us", "o=+100us", "L=+100us"] {
        let share = figure(&report, setting, "not recorded");
        assert!(share < 5.0, "{setting}: {share} % of {report}");
    }
    let [o, more, latency] =
        ["o=+10us", "o=+100us", "L=+100us"].map(|text| figure(&report, text, "slowdown"));
    // Paper 001, figures 5 and 7: each key is a message, and none is waited for.
    assert!(more > 2.0 * o && o > 1.0 && latency < more / 2.0, "{report}");
}

#[test]
fn a_trace_predicts_what_virtual_time_shows() {
    let folder = Folder::new();
    let journal = folder.path().join("em3d.jsonl");
    let knobs = "--knob o=+20us,+100us --knob L=+20us,+100us --cpu fixed:100";
    sweep(knobs, &journal, (4, "em3d --manner read --steps 1"));
    let report = Job::command(&format!("lab report {} --json", journal.display())).finish();
    report.expect_clean();
    let report = report.json();
    // Each read is waited for: paper 001, figure 7. The critical path is computed another way.
    for setting in ["o=+20us", "o=+100us", "L=+20us", "L=+100us"] {
        let [slowdown, m5] = ["slowdown", "M5"].map(|column| figure(&report, setting, column));
        assert!(slowdown > 2.0 && (m5 / slowdown - 1.0).abs() < 0.05, "{setting}: {report}");
    }
    let said = report["findings"][0].as_str().unwrap();
    assert!(said.starts_with("em3d is sensitive to o (") && said.contains(" and L ("), "{said}");
}

#[test]
fn a_trace_predicts_stores_that_no_rank_waits_for() {
    let folder = Folder::new();
    let journal = folder.path().join("sample.jsonl");
    // Each key is a store to another rank, and all ranks store at once.
    let knobs = "--knob o=+20us,+100us --knob o_r=+20us --knob g=55us,105us --knob L=+100us";
    sweep(&format!("{knobs} --cpu fixed:100"), &journal, (4, "sample --keys 4001"));
    let text = std::fs::read_to_string(folder.path().join("sample.jsonl.replay.json")).unwrap();
    let replay: Value = serde_json::from_str(&text).unwrap();
    let plan = std::fs::read_to_string(&journal).unwrap();
    let plan: Value = serde_json::from_str(plan.lines().next().unwrap()).unwrap();
    let took = |run: &Value| run["end"]["took"].as_f64().unwrap() * 1e9;
    let runs = runs(&journal);
    let base = runs.iter().find(|run| run["setting"] == 0).unwrap();
    let phases = |run: &Value| run["phases_s"].as_f64().unwrap() * 1e9;
    // As the program reports them, but for the rounding of its report.
    let traced_ns = replay["phases_ns"].as_f64().unwrap();
    assert!((traced_ns / phases(base) - 1.0).abs() < 1e-3, "{traced_ns} ns, {base}");
    let base_ns = took(base);
    for run in runs.iter().filter(|run| run["setting"] != 0) {
        let setting = plan["settings"][run["setting"].as_u64().unwrap() as usize].as_str().unwrap();
        // Of the whole job, and of its phases.
        let longer_ns = [took(run) - base_ns, phases(run) - phases(base)];
        assert!(longer_ns[0] > 0.5 * base_ns, "{setting}: {longer_ns:?} ns longer than {base_ns}");
        let m5_ns = ["m5_ns", "m5_phases_ns"].map(|of| replay["settings"][setting][of].as_f64());
        // A slower executor stores more behind the phase than it did: not so in the replay.
        let of_phases = if setting.starts_with("o_r") { 0.5 } else { 0.1 };
        for ((longer_ns, m5_ns), most) in longer_ns.into_iter().zip(m5_ns).zip([0.05, of_phases]) {
            let error = m5_ns.unwrap() / longer_ns - 1.0;
            assert!(error.abs() < most, "{setting}: {longer_ns} ns longer, M5 says {m5_ns:?}");
        }
    }
    assert_eq!((runs.len(), replay["unexplained_ns"].as_u64()), (7, Some(0)));
}

#[test]
fn what_differs_from_run_to_run_is_refused() {
    let words = "lab sweep --virtual now1997 --knob o=+1us --out f --cpu measured -- -n 2 p";
    Job::command(words).finish().expect(2, &["`fixed:NS`"]);
    let words = "lab sweep --virtual now1997 --knob o=1us --out f -- -n 2 p";
    Job::command(words).finish().expect(2, &["takes 2900 ns anyway"]);
}
