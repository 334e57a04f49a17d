//! Jobs whose nodes have proxies run, sort, die and end as those whose ranks drive the network
//! themselves.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::cables::stuck;
use clump_process_tests::proxy_starts::proxy_starts;
use clump_process_tests::{Folder, Job, program, signals};
use std::ffi::OsString;

/// Jobs of several nodes, with various numbers of proxies and dispatch policies.
const SHAPES: [(&str, &str); 4] = [
    ("-n 2 --nodes 2 --ni proxy:1", "fixed"),
    ("-n 5 --nodes 2 --ni proxy:2", "fixed"),
    ("-n 4 --nodes 4 --ni proxy:2 --security crc", "round-robin"),
    ("-n 6 --nodes 2 --ni proxy:3", "least-loaded"),
];

fn job((options, dispatch): (&str, &str), program: &str) -> Job {
    Job::of(&format!("{options} --lab net.dispatch={dispatch}"), program)
}

#[test]
fn barriers_and_messages() {
    for shape in SHAPES {
        job(shape, "barrier 50").finish().expect_clean();
        job(shape, "talk 10").finish().expect_clean();
    }
}

#[test]
fn starts_of_random_shapes_end_beside_load_and_pauses() {
    let pauses = proxy_starts(10, 37, |what| println!("{what}"));
    println!("{pauses:?}");
    assert!(pauses.threads + pauses.refused > 0, "no thread was there to be paused");
}

#[test]
fn a_sort_over_a_network_that_loses_is_right() {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (records, sorted) = (path("records"), path("sorted"));
    Job::command(&format!("app gensort 200000 {records}")).finish().expect_clean();
    for (proxies, dispatch) in [(1, "fixed"), (2, "round-robin")] {
        let sort = format!(
            "app sort -n 4 --nodes 2 --ni proxy:{proxies} --lab net.dispatch={dispatch} --force \
             -i {records} -o {sorted}"
        );
        let troubled = Job::command(&sort).with(|command| {
            command.env("CLUMP_NET_FAULTS", "loss=1%");
        });
        troubled.finish().expect_clean();
        let check = format!("app valsort {sorted} --input {records}");
        Job::command(&check).finish().expect_clean();
    }
}

#[test]
fn the_death_of_a_rank_is_known_on_all_nodes() {
    for (rank, node) in [(2, 1), (1, 0)] {
        let ended =
            job(("-n 4 --nodes 2 --ni proxy:2", "fixed"), &format!("die 9 {rank}")).finish();
        let how = format!("rank {rank} of `prog` was killed by signal 9");
        ended.expect(137, &[&how, &format!("node {node} ("), "others:"]);
        let errors = ended.err.lines().filter(|line| line.starts_with("prog:"));
        let named = errors.filter(|line| line.contains(&format!("rank {rank} was killed"))).count();
        assert_eq!(named, 3, "every survivor gets an error that names the dead\n{}", ended.err);
    }
}

#[test]
fn a_stopped_rank_does_not_hold_the_others() {
    for (options, rank) in [("-n 2 --nodes 2", 1), ("-n 4 --nodes 2 --on-death continue", 0)] {
        let options = format!("{options} --ni proxy:1");
        let ended = Job::of(&options, &format!("stop-self {rank} --requests 100")).finish();
        let who = format!("rank {rank} of `prog` is stopped (SIGSTOP) while all others have ended");
        ended.expect(137, &[&who]);
    }
}

#[test]
fn survivors_go_on_without_a_rank_and_without_a_node() {
    let folder = Folder::new();
    let args = format!("forever 0 --ready {}", folder.path().display());
    let job = Job::of("-n 4 --nodes 2 --ni proxy:1 --on-death continue", &args).start();
    job.await_ready(folder.path(), 0..1);
    job.signal(job.rank(0), signals::KILL);
    job.finish().expect(137, &["rank 0 of `prog` was killed", "--on-death continue"]);
}

#[test]
fn with_an_agent_its_proxies_and_its_node_are_lost() {
    for (signal, how) in
        [(signals::KILL, "was killed by signal 9"), (signals::STOP, "was not heard by node 0")]
    {
        let folder = Folder::new();
        let job = stuck(&folder, "--ni proxy:2", "--deaf");
        job.signal(job.agents(2)[1], signal);
        job.finish().expect(125, &[&format!("node 1 was lost: its agent {how}"), "ranks 2, 3"]);
    }
}

#[test]
fn ranks_that_only_compute_are_served() {
    for proxies in [1, 2] {
        let options = format!("-n 4 --nodes 2 --ni proxy:{proxies}");
        let ended =
            Job::of_program(&options, program("onesided"), [OsString::from("deaf")]).finish();
        ended.expect_clean();
        assert!(ended.out.contains("all served"), "{options}: {}", ended.out);
    }
}

#[test]
fn owners_and_holders_that_die_are_reported_and_operations_on_a_lost_node_end() {
    let options = "-n 4 --nodes 2 --ni proxy:2 --on-death continue";
    let ended = Job::of_program(options, program("onesided"), [OsString::from("widow")]).finish();
    ended.expect(137, &["rank 2 of `onesided` was killed by signal 9"]);
    assert_eq!(ended.out.matches("goes on").count(), 2, "{}\n{}", ended.out, ended.err);
    let folder = Folder::new();
    let options = "-n 2 --nodes 2 --ni proxy:1 --on-death continue";
    let job = Job::of_program(options, program("onesided"), [OsString::from("lost")]);
    let job = job.with_args(&[&folder.path().display().to_string()]).start();
    job.await_ready(folder.path(), 0..1);
    job.signal(job.agents(2)[1], signals::KILL);
    let ended = job.finish();
    assert!(ended.out.contains("rank 0 goes on"), "{}\n{}", ended.out, ended.err);
}

#[test]
fn the_monitor_shows_what_went_through() {
    let ended = Job::of("-n 4 --nodes 2 --ni proxy:2 --json", "talk 300").finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let outcome: serde_json::Value =
        serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    let interfaces = outcome["interfaces"].as_array().unwrap();
    assert_eq!(interfaces.len(), 4, "two nodes with two proxies each");
    let sum = |what: &str| interfaces.iter().map(|one| one[what].as_u64().unwrap()).sum::<u64>();
    assert!(sum("taken") >= 3000 && sum("brought") >= 3000, "{interfaces:?}");
    assert_eq!(sum("executed"), 0, "nothing one-sided was asked for");
    for one in interfaces {
        let elapsed = one["elapsed_ms"].as_f64().unwrap();
        assert!(
            elapsed > 0.0 && elapsed <= outcome["wall_ms"].as_f64().unwrap() + 5_000.0,
            "{one}"
        );
        let busy = one["utilisation"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&busy), "{one}");
        for times in one["stages"].as_array().unwrap() {
            let of = |what: &str| times[what].as_f64().unwrap();
            assert!(of("min_us") <= of("mean_us"), "{times}");
        }
    }
}

#[test]
fn the_monitor_shows_what_stacks_of_ranks_did() {
    let ended = Job::of("-n 4 --nodes 2 --ni direct --json --stats", "talk 500").finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("stacks of ranks") && ended.err.contains("rank 3"), "{}", ended.err);
    let outcome = ended.json();
    let stacks = outcome["stacks"].as_array().unwrap();
    assert_eq!(stacks.len(), 4, "each rank has one");
    for (rank, one) in stacks.iter().enumerate() {
        let count = |what: &str| one[what].as_u64().unwrap();
        let number = |what: &str| one[what].as_f64().unwrap();
        assert_eq!(count("rank"), rank as u64);
        assert!(count("taken") > 1000 && count("brought") > 1000, "{one}");
        assert!(number("queue_mean") > 0.0 && number("utilisation") > 0.0, "{one}");
        assert!(number("utilisation") <= 1.0 && number("elapsed_ms") > 0.0, "{one}");
        let stages = one["stages"].as_array().unwrap();
        for (stage, share) in [("source", 1024), ("to_wire", 1024), ("delivery", 65536)] {
            let of = stages.iter().filter(|times| times["stage"] == stage);
            let timed: u64 = of.clone().map(|times| times["timed"].as_u64().unwrap()).sum();
            assert!(timed >= 1 && timed >= count("taken") / share, "{stage}: {one}");
            assert!(timed <= count("taken").max(count("brought")) / 16, "a sample: {stage}: {one}");
            for times in of {
                let of = |what: &str| times[what].as_f64().unwrap();
                assert!(of("min_us") <= of("mean_us"), "{times}");
            }
        }
        assert!(stages.iter().any(|times| times["stage"] == "wire"), "{one}");
    }
    let proxied = Job::of("-n 2 --nodes 2 --ni proxy --json", "talk 300").finish();
    assert!(proxied.json()["stacks"].as_array().unwrap().is_empty(), "ranks have none there");
}
