//! One-sided operations in whole jobs: served while every rank of the target's node computes.

use clump_cluster_tests::{Job, program};
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
        command.env("CLUMP_NET_LOSS_PPM", "20000").env("CLUMP_NET_DUPLICATE_PPM", "20000");
        command.env("CLUMP_NET_REORDER_PPM", "50000");
    });
    let ended = job.finish();
    ended.expect_clean();
    assert!(ended.out.contains("all served"), "{}", ended.out);
}
