//! Traces of whole jobs: every message has both ends, and the run played again takes as long.

use clump_process_tests::{Folder, Job};
use serde_json::Value;

/// Runs an application traced, and returns what `clump lab COMMAND` says of the traces.
fn told(app: &str, command: &str, more: &str) -> Value {
    let folder = Folder::new();
    let traces = folder.path().join("traces");
    let job = Job::command(&format!("app {app} --json")).with(|command| {
        command.env("CLUMP_TRACE", &traces).env("CLUMP_TRACE_EVENTS", "200000");
    });
    job.finish().expect_clean();
    let ended = Job::command(&format!("lab {command} {} {more} --json", traces.display())).finish();
    ended.expect_clean();
    ended.json()
}

/// Returns a figure of a report's table.
fn figure(report: &Value, table: usize, row: usize, column: usize) -> f64 {
    let at = format!("/tables/{table}/rows/{row}/figures/{column}/value");
    report.pointer(&at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at} of {report}"))
}

#[test]
fn every_message_of_a_traced_job_has_both_ends() {
    for app in ["em3d -n 4 --nodes 2", "sample --keys 5003 -n 3 --nodes 3"] {
        let report = told(app, "trace", "");
        let messages = report["tables"][1]["rows"].as_array().unwrap();
        assert!(!messages.is_empty(), "{report}");
        for (row, message) in messages.iter().enumerate() {
            let [sent, handled] = [0, 1].map(|column| figure(&report, 1, row, column));
            // Interfaces, which execute what needs no answer, write no trace.
            let posts = message["name"].as_str().unwrap().contains("interfaces");
            let handled = if posts { sent } else { handled };
            assert!(sent > 0.0 && sent == handled, "{app}: {report}");
        }
    }
}

#[test]
fn each_store_is_in_the_trace_of_the_rank_that_sends_it() {
    let report = told("radix --manner single --keys 3001 -n 2 --nodes 2", "trace", "");
    let rows = report["tables"][1]["rows"].as_array().unwrap();
    let posts = rows.iter().position(|row| row["name"].as_str().unwrap().contains("interfaces"));
    let sent = posts.map_or(0.0, |row| figure(&report, 1, row, 0));
    // Each pass sends each key, about half of them to the other node.
    assert!(sent > 3001.0, "{report}");
}

#[test]
fn a_run_that_is_played_again_takes_as_long_and_longer_with_latency() {
    let report = told("gups --log-words 10 -n 2 --nodes 2", "predict", "--knob L=+0us,+100us");
    let notes = report["tables"][0]["notes"].as_array().unwrap();
    assert!(notes[0].as_str().unwrap().contains("(+0.000 %)"), "{report}");
    let [base, slower] = [0, 1].map(|row| figure(&report, 0, row, 0));
    assert!(base > 0.0 && slower > base, "{report}");
}

#[test]
fn a_folder_with_a_missing_or_damaged_trace_is_an_error_that_names_it() {
    let folder = Folder::new();
    let traces = folder.path().join("t");
    let job = Job::command("app gups --log-words 10 -n 2 --json").with(|command| {
        command.env("CLUMP_TRACE", &traces).env("CLUMP_TRACE_EVENTS", "5000");
    });
    job.finish().expect_clean();
    let look = || Job::command(&format!("lab trace {}", traces.display())).finish();
    look().expect_clean();
    let second = traces.join("rank-00001.trace");
    let whole = std::fs::read(&second).unwrap();
    std::fs::write(&second, &whole[..4200]).unwrap();
    look().expect(125, &["rank-00001.trace", "ends after"]);
    std::fs::remove_file(&second).unwrap();
    look().expect(125, &["rank 1"]);
}
