//! Ranks that do not hear each other though their nodes are there: no node is evicted, but the
//! user is told.

use clump_cluster_tests::{Folder, Job, signals, until};
use std::fs::File;
use std::process::Stdio;

#[test]
fn peers_whose_packets_are_all_lost_are_named() {
    // Each is silent to the other; the order of starts decides which is reported first.
    for (ni, who) in [("direct", "rank"), ("proxy:1", "the network interface of node")] {
        let folder = Folder::new();
        let errors = folder.path().join("errors");
        let job = Job::of(&format!("-n 2 --nodes 2 --ni {ni}"), "talk 5").with(|command| {
            command.env("CLUMP_NET_LOSS_PPM", "1000000").env("CLUMP_NODE_TIMEOUT_MS", "600");
            command.stderr(Stdio::from(File::create(&errors).unwrap()));
        });
        let job = job.start();
        let said = || std::fs::read_to_string(&errors).unwrap();
        until("the notice", || said().contains("has had no answer from").then_some(()));
        let named = |node| said().contains(&format!("no answer from {who} {node} for "));
        assert!(named(0) || named(1), "{}", said());
        job.signal(job.launcher(), signals::TERMINATE);
        assert_eq!(job.finish().code, 143);
        if ni == "direct" {
            let named = |rank| said().contains(&format!("; rank {rank} does not answer"));
            assert!(named(0) || named(1), "{}", said());
        }
    }
}
