//! Errors of the C interface that take more than a wrong argument: each status that a program can
//! see is tested here, in `c_programs.rs`, or in a unit test of `clump-capi`.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::c_programs::{Linked, Workshop, capi, workshop};
use clump_process_tests::{Folder, Job, signals};

fn run(shop: &Workshop, options: &str, how: &str) -> Job {
    let program = shop.build("tests/c/errors.c", Linked::Shared);
    let job = if options.is_empty() {
        Job::any(&program)
    } else {
        Job::of_program(options, &program, [])
    };
    job.with_args(&[how])
}

/// Runs it with `setting`; `times` ranks print that they went on.
fn goes_on(job: Job, setting: Option<(&str, &str)>, times: usize) {
    let job = job.with(|command| {
        command.envs(setting);
    });
    let done = job.finish();
    done.expect_clean();
    assert_eq!(done.out.matches("goes on").count(), times, "{}\n{}", done.out, done.err);
}

#[test]
fn settings_that_mean_nothing_are_the_users_fault() {
    let Some(shop) = workshop("a bad setting from C") else { return };
    goes_on(run(&shop, "", "setting"), Some(("CLUMP_SEND_TIMEOUT_MS", "soon")), 1);
}

#[test]
fn what_the_system_refuses_is_an_error() {
    let Some(shop) = workshop("a poor system from C") else { return };
    goes_on(run(&shop, "", "files"), None, 1);
    goes_on(run(&shop, "", "memory"), None, 1);
}

#[test]
fn a_rank_that_left_is_not_waited_for() {
    let Some(shop) = workshop("a rank that leaves, from C") else { return };
    goes_on(run(&shop, "-n 3", "left"), None, 2);
    goes_on(run(&shop, "-n 3 --nodes 2", "left"), None, 2);
}

#[test]
fn messages_come_back_from_full_and_closed_endpoints() {
    let Some(shop) = workshop("messages that come back, from C") else { return };
    goes_on(run(&shop, "", "back"), Some(("CLUMP_SEND_TIMEOUT_MS", "50")), 1);
}

#[test]
fn the_dead_are_told_of() {
    let Some(shop) = workshop("deaths from C") else { return };
    for nodes in ["", "--nodes 2", "--nodes 4"] {
        let options = format!("-n 4 --on-death continue {nodes}");
        let done = run(&shop, &options, "deaths").finish();
        assert_ne!(done.code, 0, "{}", done.err);
        assert_eq!(done.out.matches("goes on").count(), 3, "{}\n{}", done.out, done.err);
    }
}

#[test]
fn a_lost_node_is_told_of() {
    let Some(shop) = workshop("a lost node from C") else { return };
    let folder = Folder::new();
    let job = run(&shop, "-n 2 --nodes 2 --on-death continue", "lost");
    let job = job.with_args(&[&folder.path().display().to_string()]).start();
    job.await_ready(folder.path(), 0..1);
    job.signal(job.agents(2)[1], signals::KILL);
    let done = job.finish();
    assert_ne!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("rank 0 goes on"), "{}\n{}", done.out, done.err);
}

#[test]
fn a_failure_that_nothing_asked_for_is_returned_at_the_end() {
    let Some(shop) = workshop("a failure of a handler, from C") else { return };
    goes_on(run(&shop, "-n 2", "unasked"), None, 2);
    goes_on(run(&shop, "-n 2 --nodes 2", "unasked"), None, 2);
}

#[test]
fn rubbish_in_memory_is_an_error_that_stays() {
    let Some(shop) = workshop("rubbish in memory from C") else { return };
    goes_on(run(&shop, "", "rubbish"), None, 1);
}

/// Finds statuses and reasons that no test names.
#[test]
fn every_status_and_reason_is_met() {
    let text = |path: &str| std::fs::read_to_string(capi().join(path)).unwrap();
    let tests = std::fs::read_dir(capi().join("tests/c")).unwrap();
    let mut met: String =
        tests.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    // Those that no C program can cause are covered by unit tests.
    for unit in ["../clump-ffi/src/fault.rs", "../clump-ffi/src/border.rs"] {
        met += text(unit).rsplit("mod tests").next().unwrap();
    }
    let names = |path: &str, prefix: &str| -> Vec<String> {
        let text = text(path);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with(prefix)).map(str::to_owned).collect()
    };
    let mut all = names("../clump-ffi/src/status.rs", "CLUMP_ERR_");
    all.extend(names("src/handler.rs", "CLUMP_RETURNED_"));
    all.sort();
    all.dedup();
    assert!(all.len() > 40, "{all:?}");
    let whole = |name: &String| {
        met.match_indices(name.as_str()).any(|(at, _)| {
            let next = met[at + name.len()..].chars().next();
            next.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
        })
    };
    all.retain(|name| !whole(name));
    assert!(all.is_empty(), "no test meets {all:?}");
}
