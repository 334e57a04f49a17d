//! Nodes with several addresses: over loopback, and over cables of which one is cut.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::cables::{Cable, are_here, stuck};
use clump_process_tests::stall::{counted, sort};
use clump_process_tests::{Finished, Folder, Job, Running, until};
use clump_test_tier::first_of;
use std::time::Duration;

/// Longest stall allowed when a cable is cut: ten times the goal of 300 ms.
const STALL: Duration = Duration::from_secs(3);

/// Node timeout where it is not what is tested, in milliseconds.
const PATIENT: u64 = 60_000;

fn by_path(ended: &Finished) -> [u64; 2] {
    ["net.path.0.sent", "net.path.1.sent"].map(|name| counted(ended, name))
}

#[test]
fn a_job_uses_all_addresses_of_its_nodes() {
    for &options in first_of(2, &["", "--ni proxy:2", "--security crc", "--ni proxy:1"]) {
        let addresses = "--addresses 127.0.0.1,127.0.0.2";
        let job = Job::of(&format!("-n 4 --nodes 2 --json {addresses} {options}"), "talk 200");
        let ended = job.finish();
        assert_eq!(ended.code, 0, "{options}: {}", ended.err);
        let sent = by_path(&ended);
        match options {
            // Between two proxies there is one channel, which uses one path.
            "--ni proxy:1" => assert!(sent.iter().sum::<u64>() > 50, "{options}: {sent:?}"),
            "--ni proxy:2" => assert!(sent.iter().all(|&sent| sent > 25), "{options}: {sent:?}"),
            _ => assert!(sent.iter().all(|&sent| sent > 200), "{options}: {sent:?}"),
        }
        let report = Job::of(&format!("-n 4 --nodes 2 --stats {addresses} {options}"), "talk 200");
        let report = report.finish();
        let line = report.err.lines().find(|line| line.contains("packets by address"));
        assert_eq!(line.map(|line| line.matches(", ").count()), Some(1), "{}", report.err);
    }
}

#[test]
fn addresses_that_are_none_of_this_machine_are_refused() {
    let away = "-n 2 --nodes 2 --addresses 127.0.0.1,203.0.113.7";
    let ended = Job::of(away, "talk 5").finish();
    let advice = "`ip -brief address` shows those that it has";
    ended.expect(2, &["203.0.113.7 is no address of this machine (--addresses)", advice]);
    for (wrong, why) in [("127.0.0.1,", "is no IP address"), ("0.0.0.0", "names no interface")] {
        let ended = Job::of(&format!("-n 2 --nodes 2 --addresses {wrong}"), "talk 5").finish();
        assert!(ended.code != 0 && ended.err.contains(why), "{}", ended.err);
    }
}

#[test]
fn a_sort_whose_cable_is_cut_ends_without_error_and_hardly_stalls() {
    if !are_here() {
        return;
    }
    for options in first_of(1, &["--driver udp", "--driver packet", "--ni proxy:2"]) {
        // Twice as many if all had crossed before the cable was cut.
        let sizes = [1, 2, 4, 8, 16].map(|millions| millions * 1_000_000);
        let seen = sizes.into_iter().map(|records| sort(records, options, true)).find(|seen| {
            assert!(seen.longest < STALL, "{options}: {:?}", seen.longest);
            counted(&seen.ended, "net.paths.out") > 0
        });
        assert!(seen.is_some(), "{options}: the cut cable was never missed");
    }
}

/// Starts a job of four ranks on two nodes with two cables that communicate until the file
/// `folder/end` exists; nodes may be silent for `timeout_ms`.
fn talking(folder: &Folder, options: &str, timeout_ms: u64) -> Running {
    let path = folder.path().display();
    let args = format!("talk 0 --ready {path} --until {path}/end");
    let job = Job::of(&format!("-n 4 --nodes 2 --netns --cables 2 --json {options}"), &args);
    let job = job.with(|command| {
        command.env("CLUMP_NODE_TIMEOUT_MS", timeout_ms.to_string());
    });
    let job = job.start();
    job.await_ready(folder.path(), 0..4);
    job
}

/// Returns the sum of a counter over the ranks of a running job.
fn now(job: &Running, counter: &str) -> u64 {
    let read = Job::command(&format!("stats --json --pid {}", job.launcher())).finish();
    counted(&read, counter)
}

#[test]
fn a_cable_that_was_cut_is_used_again_once_it_is_mended() {
    if !are_here() {
        return;
    }
    for options in first_of(1, &["--driver udp", "--driver packet", "--ni proxy:2"]) {
        let folder = Folder::new();
        let job = talking(&folder, options, PATIENT);
        for (cable, name) in [(0, "net.path.0.sent"), (1, "net.path.1.sent")] {
            let [end, _] = Cable::both_of(&job, cable);
            let before = ["net.paths.out", "net.paths.back"].map(|name| now(&job, name));
            end.does(&["cut"]);
            until("paths to be taken out", || {
                (now(&job, "net.paths.out") >= before[0] + 2).then_some(())
            });
            end.does(&["mend", "0"]);
            until("paths to come back", || {
                (now(&job, "net.paths.back") >= before[1] + 2).then_some(())
            });
            let sent = now(&job, name);
            until("their use", || (now(&job, name) > sent + 1000).then_some(()));
        }
        std::fs::write(folder.path().join("end"), "").unwrap();
        let ended = job.finish();
        assert_eq!(ended.code, 0, "{options}: {}", ended.err);
    }
}

#[test]
fn a_node_is_lost_with_its_last_cable_and_not_before() {
    if !are_here() {
        return;
    }
    for options in first_of(1, &["", "--ni proxy:1"]) {
        let folder = Folder::new();
        let timeout = 1000;
        let job = talking(&folder, options, timeout);
        let [first, _] = Cable::both_of(&job, 0);
        first.does(&["cut"]);
        // Longer than nodes may be silent.
        let start = clump_os::clock::instant();
        until("more than the node timeout", || {
            (start.elapsed() > Duration::from_millis(3 * timeout)).then_some(())
        });
        std::fs::write(folder.path().join("end"), "").unwrap();
        let ended = job.finish();
        assert_eq!(ended.code, 0, "{options}: {}", ended.err);
    }
    let folder = Folder::new();
    let job = stuck(&folder, "--netns --cables 2", "");
    for cable in [0, 1] {
        Cable::both_of(&job, cable)[1].does(&["cut"]);
    }
    let ended = job.finish();
    ended.expect(125, &["node 1 was lost: its agent was not heard by node 0 any more"]);
}
