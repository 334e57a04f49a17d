//! Ranks that do not hear each other though their nodes are there: no node is evicted, but the
//! user is told.

use clump_process_tests::{Folder, Job, program, signals, until};
use std::fs::File;
use std::process::Stdio;

#[test]
fn peers_whose_packets_are_all_lost_are_named() {
    // Each is silent to the other; the order of starts decides which is reported first.
    for (ni, who) in [("direct", "rank"), ("proxy:1", "the network interface of node")] {
        let folder = Folder::new();
        let errors = folder.path().join("errors");
        let job = Job::of(&format!("-n 2 --nodes 2 --ni {ni}"), "talk 5").with(|command| {
            command.env("CLUMP_NET_FAULTS", "loss=100%").env("CLUMP_NODE_TIMEOUT_MS", "600");
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

#[test]
fn a_system_that_refuses_to_send_is_named() {
    let (folder, prog) = (Folder::new(), program("prog"));
    let errors = folder.path().join("errors");
    let words =
        ["--refuse".into(), "sendto=EPERM".into(), prog.into(), "barrier".into(), "5".into()];
    let hinder = program("hinder");
    let job = Job::of_program("-n 2 --nodes 2 --driver udp", hinder, words).with(|command| {
        command.env("CLUMP_NODE_TIMEOUT_MS", "600");
        command.stderr(Stdio::from(File::create(&errors).unwrap()));
    });
    let job = job.start();
    let said = || std::fs::read_to_string(&errors).unwrap();
    until("the notice", || said().contains("has had no answer from").then_some(()));
    assert!(said().contains("has refused to send") && said().contains("sendto"), "{}", said());
    job.signal(job.launcher(), signals::TERMINATE);
    assert_eq!(job.finish().code, 143);
}

#[test]
fn a_filter_that_refuses_to_receive_ends_the_job_and_is_named() {
    let path = |name: &str| program(name).display().to_string();
    let (hinder, clump, prog) = (path("hinder"), path("clump-under-test"), path("prog"));
    let run = |ni: &str| {
        let options = ["-n", "2", "--nodes", "2", "--driver", "udp", "--ni", ni];
        [&["run"][..], &options].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let refuse = |call: &str| [hinder.clone(), "--refuse".to_owned(), format!("{call}=EPERM")];
    let talk = [prog, "talk".to_owned(), "0".to_owned()];
    // A rank's own stack, and a proxy, which is the agent's.
    let of_ranks = |call| [&[clump.clone()][..], &run("direct"), &refuse(call), &talk].concat();
    let of_all =
        |call| [&refuse(call)[..], std::slice::from_ref(&clump), &run("proxy:1"), &talk].concat();
    for (words, who) in
        [(of_ranks("recvmmsg"), "rank "), (of_all("recvmmsg"), "the network interface of node ")]
    {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = Job::any(words[0]).with_args(&words[1..]).finish();
        let why = "can receive nothing from other nodes (recvmmsg: ";
        ended.expect(125, &[who, why, "os error 1", "allow recvmmsg"]);
        assert!(!ended.err.contains("firewall"), "{}", ended.err);
    }
}
