//! One-sided operations in whole jobs: served while every rank of the target's node computes.

use clump_process_tests::{Folder, Job, program, signals};
use std::ffi::OsString;

fn onesided(options: &str, what: &str) -> Job {
    Job::of_program(options, program("onesided"), [OsString::from(what)])
}

#[test]
fn ranks_that_never_call_are_served() {
    for options in ["-n 2 --nodes 2", "-n 4 --nodes 2 --security crc", "-n 3 --nodes 3", "-n 2"] {
        let ended = onesided(options, "deaf").finish();
        ended.expect_clean();
        assert!(ended.out.contains("all served"), "{options}: {}", ended.out);
    }
}

#[test]
fn ranks_that_never_call_are_served_over_a_network_that_loses_packets() {
    let job = onesided("-n 3 --nodes 3", "deaf").with(|command| {
        command.env("CLUMP_NET_FAULTS", "loss=2%,duplicate=2%,reorder=5%");
    });
    let ended = job.finish();
    ended.expect_clean();
    assert!(ended.out.contains("all served"), "{}", ended.out);
}

#[test]
fn the_counter_service_hands_out_each_ticket_once() {
    for options in ["-n 4 --nodes 2", "-n 3"] {
        let ended = Job::of_program(options, program("counter"), [OsString::from("500")]).finish();
        ended.expect_clean();
        assert!(ended.out.contains("tickets were taken, each by one"), "{}", ended.out);
    }
}

#[test]
fn a_dead_owner_and_a_dead_holder_are_reported_and_others_are_served() {
    for nodes in [2, 4] {
        let options = format!("-n 4 --nodes {nodes} --on-death continue");
        let ended = onesided(&options, "widow").finish();
        ended.expect(137, &["rank 2 of `onesided` was killed by signal 9"]);
        assert_eq!(ended.out.matches("goes on").count(), 2, "{}\n{}", ended.out, ended.err);
    }
}

#[test]
fn waits_for_a_word_of_the_dead_end_with_an_error() {
    for options in ["--nodes 2", "--nodes 4", "--nodes 2 --ni proxy:1", "--nodes 1"] {
        let options = format!("-n 4 {options} --on-death continue");
        let ended = onesided(&options, "hopes").finish();
        ended.expect(137, &["rank 2 of `onesided` was killed by signal 9"]);
        let on = ended.out.matches("has seen 7 and goes on").count();
        assert_eq!(on, 3, "{options}: {}\n{}", ended.out, ended.err);
    }
}

#[test]
fn operations_on_a_lost_node_end() {
    for waits_for in ["flag", "word"] {
        let folder = Folder::new();
        let job = onesided("-n 2 --nodes 2 --on-death continue", "lost");
        let job = job.with_args(&[&folder.path().display().to_string(), waits_for]).start();
        job.await_ready(folder.path(), 0..1);
        job.signal(job.agents(2)[1], signals::KILL);
        let ended = job.finish();
        assert_ne!(ended.code, 0, "{}", ended.err);
        assert!(ended.out.contains("rank 0 goes on"), "{}\n{}", ended.out, ended.err);
    }
}

#[test]
fn the_monitor_shows_what_interfaces_execute() {
    let tickets = [OsString::from("1000")];
    let ended = Job::of_program("-n 4 --nodes 2 --json", program("counter"), tickets).finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let outcome = ended.json();
    let all = outcome["interfaces"].as_array().unwrap();
    let busiest = all.iter().max_by_key(|one| one["executed"].as_u64()).unwrap();
    assert!(busiest["executed"].as_u64().unwrap() >= 1000, "{outcome}");
    assert_eq!((&busiest["taken"], &busiest["carries"]), (&0.into(), &false.into()));
    let delivery = busiest["stages"].as_array().unwrap();
    let delivery = delivery.iter().find(|times| times["stage"] == "delivery").unwrap();
    assert!(delivery["mean_us"].as_f64().unwrap() > 0.0, "{delivery}");
    // One operation in eight is timed, so that a pause of the machine may count for more or for
    // less.
    let little = busiest["little"].as_f64().unwrap();
    assert!(little > 0.02 && little < 50.0, "{busiest}");
    assert!(busiest["network"]["net.packets.sent"].as_u64().unwrap() > 100, "{busiest}");
    // It uses no service; global memory does, at the interfaces of both nodes.
    let services = |one: &serde_json::Value| one["network"]["rma.services"].as_u64().unwrap_or(0);
    assert!(all.iter().all(|one| services(one) == 0), "{outcome}");
    let histogram = program("example-histogram");
    let ended = Job::of_program("-n 4 --nodes 2 --json", histogram, []).finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let outcome = ended.json();
    let all = outcome["interfaces"].as_array().unwrap();
    assert!(all.len() == 2 && all.iter().all(|one| services(one) > 0), "{outcome}");
}
