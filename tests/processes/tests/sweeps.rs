//! Sweeps whose reports have what a traced run predicts, and their counts of failed attempts at
//! locks.

use clump_process_tests::{Finished, Folder, Job, program};
use serde_json::Value;
use std::path::Path;

fn sweep(options: &str, journal: &Path, run: &str, what: &str) -> Finished {
    let words = format!("lab sweep {options} --rounds 3 --out {} -- {run}", journal.display());
    let serial = program("serial").display().to_string();
    Job::command(&words).with_args(&[&serial, what]).finish()
}

/// Returns a figure of a report by its row and its column.
fn figure(report: &Value, row: &str, column: &str) -> Option<f64> {
    report["tables"].as_array().unwrap().iter().find_map(|table| {
        let columns = table["columns"].as_array()?;
        let at = columns.iter().position(|of| of["name"] == column)?;
        let row = table["rows"].as_array()?.iter().find(|of| of["name"] == row)?;
        row["figures"][at]["value"].as_f64()
    })
}

#[test]
fn a_serial_phase_is_what_m1_misses_and_m1b_has() {
    let folder = Folder::new();
    let journal = folder.path().join("phase.jsonl");
    let run = |knobs: &str| sweep(knobs, &journal, "-n 3 --nodes 3", "phase");
    let knobs = "--knob o=+200us --with scope=net";
    run(knobs).expect_clean();
    let replay = folder.path().join("phase.jsonl.replay.json");
    let made = std::fs::read(&replay).unwrap();
    let again = run(knobs);
    again.expect_clean();
    assert!(!again.err.contains("traced"), "it is there: {}", again.err);
    assert_eq!(std::fs::read(&replay).unwrap(), made);
    let reported = Job::command(&format!("lab report {} --json", journal.display())).finish();
    reported.expect_clean();
    let report = reported.json();
    let n = figure(&report, "phase", "n between").unwrap();
    // Those of the phase; when ranks leave the job, one may send some while the others wait.
    assert!((250.0..=262.0).contains(&n), "{n}: {report}");
    let of = |model| figure(&report, "o=+200us,scope=net", model).unwrap() - 1.0;
    let [m1, m1b, m5] = ["M1", "M1b", "M5"].map(of);
    // 2 * 300 overheads at once and 250 in turn; some more are those of barriers.
    assert!(m1 < 0.8 * m5, "M1 {m1}, M5 {m5}: {report}");
    assert!((m1b / m5 - 1.0).abs() < 0.1, "M1b {m1b}, M5 {m5}: {report}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 3, "the journal, its profile and its replay; no traces");
}

#[test]
fn a_job_says_what_the_knobs_of_its_environment_are_set_beside() {
    let folder = Folder::new();
    let machine = folder.path().join("machine.json");
    let job = |options: &str, knobs: Option<&str>| {
        let machine = machine.clone();
        let job = Job::of(options, "barrier 1").with(move |job| {
            job.env("CLUMP_LAB_MACHINE", machine);
        });
        let job = match knobs {
            Some(knobs) => {
                let knobs = knobs.to_owned();
                job.with(move |job| {
                    job.env("CLUMP_EMU", knobs);
                })
            }
            None => job,
        };
        let ended = job.finish();
        ended.expect_clean();
        let said = ended.err.lines().filter(|line| line.starts_with("emu: knobs"));
        said.map(str::to_owned).collect::<Vec<_>>()
    };
    let by_option = job("-n 2 --emu L=+1us", None);
    assert!(by_option.len() == 1 && by_option[0].contains("machine.json"), "{by_option:?}");
    assert_eq!(job("-n 2", Some("L=+1us")), by_option);
    assert_eq!(job("-n 2", None), [] as [String; 0], "no knob is turned");
}

#[test]
fn a_sweep_says_why_nothing_is_known_of_a_trace_without_room() {
    let folder = Folder::new();
    let journal = folder.path().join("phase.jsonl");
    let words =
        format!("lab sweep --knob L=+1ms --rounds 3 --out {} -- -n 3 --nodes 3", journal.display());
    let serial = program("serial").display().to_string();
    let job = Job::command(&words).with_args(&[&serial, "phase"]).with(|command| {
        command.env("CLUMP_TRACE_EVENTS", "100");
    });
    job.finish().expect_clean();
    let reported = Job::command(&format!("lab report {}", journal.display())).finish();
    reported.expect_clean();
    let out = &reported.out;
    assert!(out.contains("neither M5 nor M1b") && out.contains("had no room"), "{out}");
}

#[test]
fn failed_attempts_at_locks_are_counted_also_of_a_run_that_is_stopped() {
    let folder = Folder::new();
    for nodes in ["-n 2", "-n 2 --nodes 2"] {
        let journal = folder.path().join(format!("locks{}.jsonl", nodes.len()));
        let ended = sweep("--knob L=+1us", &journal, nodes, "locks");
        ended.expect_clean();
        let line = ended.out.lines().find(|line| line.starts_with("L=+1us: ")).unwrap();
        // Each of three runs has two acquired locks.
        let failed: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(failed >= 3 * 20 && line.contains("per acquired lock"), "{}", ended.out);
    }
    let journal = folder.path().join("livelock.jsonl");
    let ended = sweep("--knob L=+1us --limit 8", &journal, "-n 2", "livelock");
    ended.expect_clean();
    let stopped = ended.out.contains("L=+1us: did not finish in 8 s");
    assert!(stopped && ended.out.contains("L=+1us: "), "{}", ended.out);
    let notes: Vec<_> =
        ended.out.lines().filter(|line| line.contains("attempts at locks")).collect();
    assert_eq!(notes.len(), 2, "of none, and of the one that was stopped: {}", ended.out);
}
