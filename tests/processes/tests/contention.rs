//! A lock that ranks contend for where messages are expensive (paper 001, section 5.1).

use clump_process_tests::{Finished, Job, program};

/// Ranks of which one serves the others, who ask for several times as much as it can serve.
const MANY: usize = 12;
/// Ranks of which one asks the other, which has served all when it has served one request.
const FEW: usize = 2;
/// A setting at which messages are expensive.
const OVERHEAD: &str = "o=+4ms";

fn run(way: &str, ranks: usize, knobs: &str) -> Finished {
    let livelock = program("livelock").display().to_string();
    let words = format!("run -n {ranks} --nodes 2 --");
    let job = Job::command(&words).with_args(&[&livelock, way]);
    job.with(|command| {
        command.env("CLUMP_EMU", knobs);
    })
    .finish()
}

#[test]
fn who_asks_for_a_lock_again_and_again_keeps_its_holder_from_going_on() {
    run("naive", FEW, OVERHEAD).expect_clean();
    // Other programs may keep the processor from all who ask, and then the holder goes on.
    let stopped =
        (0..3).map(|_| run("naive", MANY, OVERHEAD)).find(|ended| ended.code != 0).unwrap();
    assert_eq!(stopped.code, 1, "{}{}", stopped.out, stopped.err);
    assert!(stopped.err.contains("livelock: requests for the lock never end"), "{}", stopped.err);
}

#[test]
fn who_waits_in_the_queue_of_a_lock_keeps_nobody_from_going_on() {
    for knobs in ["", OVERHEAD] {
        run("queue", MANY, knobs).expect_clean();
    }
}

/// Runs Barnes on eight ranks, which all begin at the root of the tree.
fn run_barnes(locks: &str, limit: u64, knobs: &str) -> Finished {
    let app = format!("app barnes --bodies 60 --steps 1 --locks {locks} --lock-limit {limit}");
    let job = Job::command(&format!("{app} -n 8 --nodes 2 --json"));
    job.with(|command| {
        command.env("CLUMP_EMU", knobs);
    })
    .finish()
}

/// Paper 001, section 5.1: with more overhead, attempts at locks multiply, and the run does not
/// end.
#[test]
fn barnes_ends_with_queues_and_not_with_naive_locks() {
    let overhead = "o=+2ms";
    let failed = |ended: &Finished| {
        ended.expect_clean();
        ended.json()["counts"]["attempts at locks that failed"].as_u64().unwrap()
    };
    let before = failed(&run_barnes("naive", 1_000_000, ""));
    assert!(before > 0, "ranks meet at the root");
    assert_eq!(failed(&run_barnes("queue", 1, overhead)), 0, "a rank in a queue asks once");
    // Attempts of a step, all of which one rank serves on end.
    let limit = clump_test_tier::pick(10, 100) * before;
    let stopped = (0..12)
        .map(|_| run_barnes("naive", limit, overhead))
        .find(|ended| ended.code != 0)
        .expect("of a dozen runs one ends without a tree");
    assert_eq!(stopped.code, 1, "{}{}", stopped.out, stopped.err);
    let said = stopped.err.split_once("livelock: ").unwrap_or_else(|| panic!("{}", stopped.err)).1;
    let attempts: u64 = said.split(' ').next().unwrap().parse().unwrap();
    assert!(attempts >= limit && said.contains("on end, and no progress"), "{said}");
}
