//! Outputs of commands with `--json` have the forms that `clump schema` prints.

use clump_process_tests::schemas::{self, assert_fits};
use clump_process_tests::{Folder, Job, signals, until};
use serde_json::{Value, json};

/// Runs a command, and checks what it prints last.
fn fits(schema: &str, words: &str) -> Value {
    let ended = Job::command(words).finish();
    ended.expect_clean();
    assert_fits(schema, &ended.json());
    ended.json()
}

#[test]
fn applications_and_outcomes_of_jobs() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let [records, sorted] = ["records", "sorted"].map(at);
    fits("gensort", &format!("app gensort 3000 {records} --json"));
    fits("sort", &format!("app sort -n 2 -i {records} -o {sorted} --json"));
    fits("valsort", &format!("app valsort {sorted} --input {records} --json"));
    fits("app", "app gups --log-words 10 -n 2 --json");
    fits("app", "app jacobi -n 2 --json");
    for options in ["-n 2 --json", "-n 2 --nodes 2 --json --stats", "-n 2 --virtual now1997 --json"]
    {
        let ended = Job::of(options, "talk 3").finish();
        ended.expect_clean();
        assert_fits("run", &ended.json());
    }
    let killed = Job::of("-n 3 --json", "exit 5 1").finish();
    assert_fits("run", &killed.json());
}

#[test]
fn views_of_a_running_job() {
    let folder = Folder::new();
    let words = format!("talk 0 --ready {}", folder.path().display());
    let job = Job::of("-n 3 --nodes 2", &words).start();
    job.await_ready(folder.path(), 0..3);
    let pid = job.launcher();
    fits("stats", &format!("stats --json --pid {pid}"));
    fits("stats-list", "stats --json");
    fits("stats-where", &format!("stats --where --json --stacks 1 --pid {pid}"));
    fits("top", &format!("top --once --interval 0.05 --json --pid {pid}"));
    let view = Job::command(&format!("top --json --interval 0.02 --pid {pid}")).start();
    let first = |view: &str| view.lines().next().map(str::to_owned);
    let line = until("a view", || first(&view.so_far()).filter(|line| line.ends_with('}')));
    assert_fits("top", &serde_json::from_str(&line).unwrap());
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
    view.finish().expect(0, &[]);
}

#[test]
fn a_view_of_a_job_in_virtual_time_has_both_clocks() {
    for (options, is_virtual) in [("-n 2", false), ("-n 2 --nodes 2 --virtual now1997", true)] {
        let folder = Folder::new();
        let words = format!("talk 0 --ready {}", folder.path().display());
        let job = Job::of(options, &words).start();
        job.await_ready(folder.path(), 0..2);
        let view =
            fits("top", &format!("top --once --interval 0.1 --json --pid {}", job.launcher()));
        let time = &view["rates"]["virtual_time"];
        assert_eq!(time["ns"].as_u64().is_some_and(|ns| ns > 0), is_virtual, "{view}");
        assert_eq!(time["by_second"].as_f64().is_some_and(|by| by > 0.0), is_virtual, "{view}");
        job.signal(job.launcher(), signals::INTERRUPT);
        job.finish().expect(130, &[]);
    }
}

#[test]
fn doctor_and_the_laboratory() {
    for (schema, words) in [
        ("doctor", "doctor --json"),
        ("doctor-config", "doctor --config --json"),
        ("doctor-lab", "doctor --config --lab --json"),
    ] {
        let printed = Job::command(words).finish().out;
        assert_fits(schema, &serde_json::from_str(&printed).unwrap());
    }
    let folder = Folder::new();
    let traces = folder.path().display();
    Job::of(&format!("-n 2 --nodes 2 --trace {traces}"), "talk 3").finish().expect_clean();
    fits("lab", &format!("lab trace {traces} --json"));
    fits("lab", &format!("lab predict {traces} --knob L=+5us --json"));
}

#[test]
fn what_does_not_fit_is_named() {
    let schema = json!({
        "type": "object",
        "properties": {
            "many": {"type": "array", "items": {"$ref": "#/$defs/One"}},
            "maybe": {"anyOf": [{"$ref": "#/$defs/One"}, {"type": "null"}]},
        },
        "required": ["many"],
        "$defs": {"One": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    });
    let faults = |value: Value| schemas::faults(&schema, "it", &value).join("; ");
    assert_eq!(faults(json!({"many": [{"n": 1}, {}], "maybe": null})), "");
    assert_eq!(faults(json!({"maybe": {"n": 2}})), "it: no `many`");
    assert_eq!(faults(json!({"many": [], "more": 1})), "it.more is not described");
    assert_eq!(faults(json!({"many": [{"n": 0.5}]})), r#"it.many[0].n: 0.5 is no ["integer"]"#);
    assert!(faults(json!({"many": [], "maybe": 3})).starts_with("it.maybe: 3 is none of"));
    assert!(faults(json!([])).starts_with("it: [] is no"));
}
