//! The driver over loopback: packet sockets while few of them listen, else UDP.

use clump_process_tests::{Finished, Job, cables, program};

/// Creates a job in a network namespace of its own, in which so many other sockets receive frames.
fn beside(listeners: usize, options: &str, args: &str) -> Finished {
    let [clump, prog] =
        ["clump-under-test", "prog"].map(|name| program(name).display().to_string());
    let line = format!("{listeners} {clump} run --nodes 2 --json {options} {prog} {args}");
    let words: Vec<&str> = line.split_whitespace().collect();
    Job::any(program("crowded")).with_args(&words).finish()
}

#[track_caller]
fn expect_driver(ended: &Finished, driver: &str) {
    assert_eq!((ended.code, ended.driver()), (0, driver.to_owned()), "{}", ended.err);
}

#[test]
fn auto_takes_frames_while_few_sockets_hear_them() {
    if !cables::are_here() {
        return;
    }
    // Sockets of this job: one for each rank, and one for the interface of each node.
    expect_driver(&beside(0, "-n 2", "talk 50"), "packet");
    expect_driver(&beside(8, "-n 4 --security crc", "talk 50"), "packet");
    expect_driver(&beside(0, "-n 4 --ni proxy:1", "talk 50"), "packet");
    expect_driver(&beside(15, "-n 2", "talk 50"), "udp");
    expect_driver(&beside(0, "-n 16", "talk 5"), "udp");
    expect_driver(&beside(0, "-n 2 --driver udp", "talk 5"), "udp");
    // A job that names the driver gets it.
    expect_driver(&beside(40, "-n 2 --driver packet", "talk 50"), "packet");
}

#[test]
fn nodes_with_different_drivers_talk() {
    if !cables::are_here() {
        return;
    }
    // Three sockets of node 0, two of node 1, and room for two.
    for security in ["aead", "crc"] {
        let options = format!("-n 3 --security {security}");
        expect_driver(&beside(14, &options, "talk 200"), "udp, packet");
    }
    expect_driver(&beside(14, "-n 3", "barrier 50"), "udp, packet");
}

#[test]
fn jobs_that_start_at_one_time_end_well() {
    if !cables::are_here() {
        return;
    }
    let start = |_| Job::of("-n 2 --nodes 2 --json", "talk 20").start();
    let jobs: Vec<_> = (0..10).map(start).collect();
    for job in jobs {
        let ended = job.finish();
        let driver = ended.driver();
        assert_eq!(ended.code, 0, "{}", ended.err);
        // The order of starts decides which of them.
        assert!(["udp", "packet", "udp, packet", "packet, udp"].contains(&&*driver), "{driver}");
    }
}
