//! Waits of ranks of a job that hangs, read from outside, and at a time limit.

use clump_process_tests::{Folder, Job, Running, program, signals, until};
use serde_json::Value;
use std::ffi::OsString;

/// Starts a job that hangs in this way, and waits until it does.
fn hanging(options: &str, ranks: u32, what: &str) -> (Running, Folder) {
    let folder = Folder::new();
    let args = [OsString::from(what), folder.path().into()];
    let job = Job::of_program(options, program("hang"), args).start();
    job.await_ready(folder.path(), 0..ranks);
    (job, folder)
}

/// Returns what is seen of a job once that holds.
fn seen(job: &Running, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let words = format!("stats --where --json --stacks 0 --pid {}", job.launcher());
    until(what, || {
        let ended = Job::command(&words).finish();
        assert_eq!(ended.code, 0, "{}", ended.err);
        let seen = ended.json()["where"].clone();
        holds(&seen).then_some(seen)
    })
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect()
}

/// Returns true if each of these ranks has published a wait.
fn all_wait(seen: &Value, ranks: std::ops::Range<usize>) -> bool {
    let waits = |rank: usize| seen["ranks"][rank]["waits"].as_array().map_or(0, Vec::len);
    ranks.into_iter().all(|rank| waits(rank) > 0)
}

fn ended(job: Running) {
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}

#[test]
fn a_rank_that_never_joins_a_barrier_is_named() {
    for options in ["-n 4", "-n 4 --nodes 2"] {
        let (job, _folder) = hanging(options, 4, "barrier");
        let seen = seen(&job, "three ranks in the barrier", |seen| all_wait(seen, 1..4));
        let barrier = &seen["collectives"][0];
        assert_eq!(numbers(&barrier["at"]), [1, 2, 3], "{options}: {seen}");
        assert_eq!(numbers(&barrier["awaited"]), [0], "{options}: {seen}");
        let late = &seen["ranks"][0];
        assert_eq!(late["what"], "computing (in no blocking call)", "{seen}");
        assert_eq!(late["waits"].as_array().unwrap().len(), 0, "{seen}");
        let waits = &seen["ranks"][3]["waits"][0];
        assert_eq!(waits["kind"], "barrier", "{seen}");
        // The thread that waits is one of the process, and sleeps.
        let threads = seen["ranks"][3]["threads"].as_array().unwrap();
        assert!(threads.iter().any(|one| one["thread"] == waits["thread"]), "{seen}");
        assert_eq!(seen["ranks"][3]["pid"], job.rank(3), "{seen}");
        ended(job);
    }
}

#[test]
fn a_rank_that_never_joins_a_collective_is_named() {
    let (job, _folder) = hanging("-n 3 --nodes 2", 3, "collective");
    let seen = seen(&job, "two ranks in the collective", |seen| all_wait(seen, 1..3));
    let state = &seen["collectives"][0];
    assert_eq!(numbers(&state["at"]), [1, 2], "{seen}");
    assert_eq!(numbers(&state["awaited"]), [0], "{seen}");
    let what = seen["ranks"][1]["waits"][0]["what"].as_str().unwrap();
    assert!(what.contains("(all-reduce)"), "{seen}");
    ended(job);
}

#[test]
fn the_holder_of_a_lock_is_named_from_its_words() {
    for options in ["-n 3", "-n 3 --nodes 2"] {
        let (job, _folder) = hanging(options, 3, "lock");
        let seen = seen(&job, "two ranks that wait for the lock", |seen| {
            all_wait(seen, 1..3)
                && seen["locks"][0]["waiting"].as_array().is_some_and(|all| all.len() == 2)
        });
        let lock = &seen["locks"][0];
        assert_eq!(lock["holder"], 0, "{options}: {seen}");
        let mut waiting = numbers(&lock["waiting"]);
        waiting.sort_unstable();
        assert_eq!(waiting, [1, 2], "{options}: {seen}");
        ended(job);
    }
}

#[test]
fn the_holder_of_a_lock_of_shared_memory_is_named() {
    for options in ["-n 2", "-n 2 --nodes 2"] {
        let (job, _folder) = hanging(options, 2, "heap-lock");
        let seen = seen(&job, "a rank that waits for the lock", |seen| {
            all_wait(seen, 1..2) && seen["locks"][0]["holder"] == 0
        });
        assert_eq!(seen["ranks"][1]["waits"][0]["kind"], "shared lock", "{options}: {seen}");
        assert_eq!(numbers(&seen["locks"][0]["waiting"]), [1], "{options}: {seen}");
        ended(job);
    }
}

#[test]
fn locks_taken_in_a_circle_are_seen_as_one() {
    let (job, _folder) = hanging("-n 3", 3, "circle");
    let seen = seen(&job, "the circle", |seen| seen["circles"].as_array().unwrap().len() == 1);
    assert_eq!(numbers(&seen["circles"][0]), [0, 1, 2], "{seen}");
    ended(job);
}

#[test]
fn a_request_that_is_not_handled_is_counted_at_its_target() {
    let (job, _folder) = hanging("-n 2", 2, "reply");
    let seen = seen(&job, "an unhandled request", |seen| {
        all_wait(seen, 1..2) && seen["ranks"][0]["unhandled"] == 1
    });
    assert_eq!(seen["ranks"][1]["waits"][0]["kind"], "condition", "{seen}");
    let words = format!("stats --where --stacks 0 --pid {}", job.agent());
    let text = Job::command(&words).finish();
    text.expect_clean();
    for part in [
        "rank 1: in poll_until, for a condition of the program",
        "rank 0: 1 message to it is not handled",
        "stacks: none were requested",
    ] {
        assert!(text.out.contains(part), "{part}: {}", text.out);
    }
    ended(job);
}

/// A stopped rank cannot help, and a debugger that is there shows its functions.
#[test]
fn stacks_are_read_where_a_debugger_may() {
    let (job, _folder) = hanging("-n 2", 2, "barrier");
    let words = format!("stats --where --json --pid {}", job.agent());
    let seen = Job::command(&words).finish().json();
    let note = seen["stacks"].as_str();
    match note {
        None => {
            let rank = &seen["where"]["ranks"][0];
            let stacks = rank["threads"].as_array().unwrap().iter();
            let frames = stacks.flat_map(|one| one["stack"].as_array().unwrap());
            let computes = |frame: &Value| frame.as_str().unwrap().contains("compute");
            assert!(frames.into_iter().any(computes), "{seen}");
        }
        Some(why) => println!("SKIPPED: {why}"),
    }
    job.signal(job.rank(0), signals::STOP);
    let stopped = self::seen(&job, "a stopped rank", |seen| {
        let threads = seen["ranks"][0]["threads"].as_array().unwrap();
        threads.iter().any(|thread| thread["state"] == "T")
    });
    assert_eq!(stopped["ranks"][0]["what"], "computing (in no blocking call)", "{stopped}");
    job.signal(job.rank(0), signals::CONTINUE);
    ended(job);
}

#[test]
fn a_time_limit_ends_a_job_and_says_where_it_hung() {
    for options in ["-n 3", "-n 3 --nodes 2"] {
        let folder = Folder::new();
        let args = [OsString::from("barrier"), folder.path().into()];
        let options = format!("{options} --time-limit 5");
        let ended = Job::of_program(&options, program("hang"), args).finish();
        ended.expect(124, &["was ended at its time limit of 5.000 s (--time-limit)"]);
        let are = "ranks 1, 2 are there, rank 0 is not (it was last at barrier ";
        assert!(ended.err.contains(are), "{}", ended.err);
        assert!(ended.err.contains("\nthreads:\n"), "{}", ended.err);
    }
}

#[test]
fn a_batch_system_that_ends_a_job_that_hangs_is_told_where() {
    let (job, _folder) = hanging("-n 2", 2, "barrier");
    seen(&job, "a rank that has waited for a second", |seen| {
        seen["ranks"][1]["waits"][0]["for_ms"].as_u64().is_some_and(|ms| ms >= 1000)
    });
    job.signal(job.launcher(), signals::TERMINATE);
    let ended = job.finish();
    ended.expect(143, &["was interrupted (SIGTERM)"]);
    assert!(ended.err.contains("rank 1 is there, rank 0 is not"), "{}", ended.err);
}

#[test]
fn a_time_limit_that_is_not_reached_changes_nothing() {
    Job::of("-n 2 --time-limit 90", "barrier 3").finish().expect_clean();
    let none = Job::of("-n 2 --time-limit soon", "barrier 3").finish();
    assert_eq!(none.code, 2, "{}", none.err);
}
