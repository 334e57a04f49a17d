//! Nodes with a path between them that has a length. Every bound on time is a lower one, which no
//! load can break.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_os::clock;
use clump_process_tests::{Finished, Folder, Job, program, signals, until};
use std::path::PathBuf;
use std::time::Duration;

/// Returns the words that run a program of this package on two nodes.
fn job(options: &str, program_and_args: &str) -> String {
    let clump = program("clump-under-test").display().to_string();
    let (name, args) = program_and_args.split_once(' ').unwrap_or((program_and_args, ""));
    let file = program(name).display().to_string();
    format!("-- {clump} run -n 2 --nodes 2 {options} -- {file} {args}")
}

fn path(words: &str) -> Job {
    Job::command(&format!("lab path {words}"))
}

/// Returns true if there can be paths here; prints the reason if there cannot.
fn are_here() -> bool {
    let tried = path("-- true").finish();
    let why = tried.err.lines().find(|line| line.contains("no path can be made"));
    assert_eq!(tried.code == 0, why.is_none(), "{}", tried.err);
    if let Some(why) = why {
        println!("SKIPPED: {why}");
        assert!(why.contains("clump doctor"), "the remedy: {why}");
    }
    why.is_none()
}

/// Returns the relay's counts, the last line of the output.
fn counts(ended: &Finished) -> serde_json::Value {
    ended.expect_clean();
    serde_json::from_str(ended.out.lines().last().unwrap()).unwrap()
}

#[test]
fn a_program_takes_the_round_trips_of_its_barriers() {
    if !are_here() {
        return;
    }
    let begun = clock::instant();
    let words = format!("--rtt 100ms --json {}", job("", "prog barrier 10"));
    let counts = counts(&path(&words).finish());
    assert_eq!(counts["format"], clump_os::console::JSON_FORMAT, "{counts}");
    assert_eq!((&counts["code"], &counts["shape"]["rtt_ns"]), (&0.into(), &100_000_000.into()));
    assert!(begun.elapsed() >= Duration::from_millis(500), "half a round trip each");
    assert!(counts["packets"].as_u64().unwrap() >= 20, "{counts}");
    assert_eq!((&counts["lost"], &counts["dropped"]), (&0.into(), &0.into()));
}

#[test]
fn a_stream_takes_the_time_of_its_bytes_at_the_rate() {
    if !are_here() {
        return;
    }
    // 20 frames of 16 KiB each way at 8 Mbit/s are 0.32 s at least.
    let begun = clock::instant();
    let words = format!("--rate 8mbit --json {}", job("--driver udp", "timed stream 1 16384 20"));
    let counts = counts(&path(&words).finish());
    assert!(counts["bytes"].as_u64().unwrap() >= 20 * 16_384, "{counts}");
    assert!(begun.elapsed() >= Duration::from_millis(320), "{counts}");
}

#[test]
fn programs_stay_right_on_a_path_with_faults() {
    if !are_here() {
        return;
    }
    let faults = "--rtt 2ms --rate 1gbit --queue 64KiB --loss 2% --reorder 5% --jitter 200us --pause 20ms/100ms";
    let ended = path(&format!("--json {faults} {}", job("", "prog talk 5"))).finish();
    let counts = counts(&ended);
    assert!(counts["lost"].as_u64().unwrap() > 0, "{counts}");
    assert!(counts["reordered"].as_u64().unwrap() > 0, "{counts}");
    for security in ["aead", "crc"] {
        let options = format!("--security {security} --ni proxy:1");
        path(&format!("--rtt 1ms --loss 1% {}", job(&options, "prog talk 2")))
            .finish()
            .expect_clean();
    }
}

#[test]
fn records_are_sorted_over_2_ms() {
    if !are_here() {
        return;
    }
    let folder = Folder::new();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (records, sorted) = (file("records"), file("sorted"));
    Job::command(&format!("app gensort 30000 {records}")).finish().expect_clean();
    let clump = program("clump-under-test").display().to_string();
    for options in ["-n 2 --nodes 2", "-n 4 --nodes 4 --two-pass"] {
        let sort = format!("{clump} app sort {options} --force -i {records} -o {sorted}");
        let words = format!("--rtt 2ms --rate 1gbit --loss 0.1% --nodes 4 --json -- {sort}");
        let counts = counts(&path(&words).finish());
        assert!(counts["bytes"].as_u64().unwrap() >= 1_000_000, "half of the records: {counts}");
        let check = Job::command(&format!("app valsort {sorted} --input {records}")).finish();
        check.expect_clean();
        assert!(check.out.contains("SUCCESS"), "{}", check.out);
    }
}

#[test]
fn several_nodes_reach_each_other_and_no_more_than_there_are() {
    if !are_here() {
        return;
    }
    let clump = program("clump-under-test").display().to_string();
    let prog = program("prog").display().to_string();
    let of = |nodes: u32| {
        format!("--nodes 3 -- {clump} run -n {nodes} --nodes {nodes} -- {prog} barrier 5")
    };
    path(&of(3)).finish().expect_clean();
    path(&of(4)).finish().expect(125, &["the path joins 3 nodes, not 4", "lab path --nodes 4"]);
}

#[test]
fn clump_and_tcp_are_compared_on_one_path() {
    if !are_here() {
        return;
    }
    let words = "--rtt 1ms --rate 50mbit --compare --rounds 1 --span 300ms --json";
    let report = path(words).finish().json();
    let round = &report["data"]["rounds"][0];
    for flow in ["small", "large", "tcp"] {
        let rate = round[flow]["whole"].as_f64().unwrap();
        assert!(rate <= 50e6 / 8.0 * 1.1, "{flow}: {rate}");
    }
    assert!(report["data"]["counts"]["packets"].as_u64().unwrap() > 100, "{report}");
    for trip in ["trip_ns", "tcp_trip_ns"] {
        assert!(round[trip].as_f64().unwrap() >= 1e6, "{report}");
    }
}

#[test]
fn the_command_decides_about_the_exit_code() {
    if !are_here() {
        return;
    }
    assert_eq!(path("--").with_args(&["sh", "-c", "exit 7"]).finish().code, 7);
    path("-- /no/such/program").finish().expect(2, &["`/no/such/program` cannot be started"]);
}

#[test]
fn nothing_is_left_however_a_path_ends() {
    if !are_here() {
        return;
    }
    for victim in ["relay", "command", "nobody"] {
        let folder = Folder::new();
        let forever =
            format!("prog forever 0 --together --deaf --ready {}", folder.path().display());
        let running = path(&format!("--rtt 1ms {}", job("", &forever))).start();
        running.await_ready(folder.path(), 0..1);
        let relay = until("the relay", || {
            let all = running.processes();
            let of =
                |pid| clump_os::procfs::command_line(pid).to_string_lossy().contains("--relay");
            all.iter().map(|process| process.pid).find(|&pid| of(pid))
        });
        let inside = net_of(relay).unwrap();
        match victim {
            "relay" => running.signal(relay, signals::KILL),
            "command" => running.signal(running.launcher(), signals::KILL),
            _ => running.signal(running.launcher(), signals::INTERRUPT),
        }
        let ended = running.finish();
        if victim == "relay" {
            ended.expect(125, &["the relay of the path ended before"]);
        }
        // The namespace is gone with its device: no process is in it.
        until("the end of the namespaces", || {
            let left = clump_os::procfs::processes();
            (!left.iter().any(|p| net_of(p.pid).as_ref() == Some(&inside))).then_some(())
        });
    }
}

fn net_of(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}
