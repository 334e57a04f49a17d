//! Shared virtual memory in whole jobs: exact results, deaths, crashes.

use clump_process_tests::memory_group::MemoryGroup;
use clump_process_tests::{Finished, Folder, Job, program, signals};
use clump_test_tier::{first_of, pick};
use std::ffi::OsString;

/// Returns a job of the program `svm`.
pub fn svm(options: &str, words: &str) -> Job {
    let words = words.split_whitespace().map(OsString::from);
    Job::of_program(options, program("svm"), words)
}

/// Ways of finding accesses; `auto` is the best that the machine permits.
pub const ENGINES: [&str; 2] = ["auto", "protect"];

/// Ways of finding accesses for which the kernel has to permit something.
pub const OPTIONAL_ENGINES: [&str; 3] = ["userfault", "scan", "scan-own"];

/// Runs a job with a way of finding accesses; `None` where this machine does not permit it.
pub fn with_engine(options: &str, words: &str, engine: &str) -> Option<Finished> {
    let ended = svm(&format!("{options} --lab svm.faults={engine}"), words).finish();
    if ended.code != 0 && ended.err.contains("userfaultfd") {
        println!(
            "SKIPPED: {engine}: {}; a kernel that permits userfaultfd would run it",
            ended.err
        );
        return None;
    }
    Some(ended)
}

/// Asserts that a job ended well, and said so.
pub fn expect_said(ended: &Finished, what: &str) {
    ended.expect_clean();
    assert!(ended.out.contains(what), "{}\n{}", ended.out, ended.err);
}

#[test]
fn a_counter_under_a_lock_counts_on_any_nodes() {
    for options in ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 2", "-n 4 --nodes 4", "-n 3"]
    {
        let ranks: u64 = options[3..4].parse().unwrap();
        expect_said(&svm(options, "count 30").finish(), &format!("counted to {}", ranks * 30));
    }
}

#[test]
fn locks_that_ranks_keep_carry_what_was_written_under_them() {
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        for options in ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3"] {
            let Some(ended) = with_engine(options, "keep 200", engine) else { break };
            expect_said(&ended, "kept locks lost nothing");
        }
    }
    expect_said(&svm("-n 2", "keep 20").finish(), "kept locks lost nothing");
}

#[test]
fn locks_are_taken_from_ranks_that_publish_or_have_ended() {
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        for options in ["-n 2 --nodes 2", "-n 4 --nodes 2"] {
            let rounds = pick(300, 3000);
            let words = format!("take-back {rounds}");
            let Some(ended) = with_engine(options, &words, engine) else { break };
            expect_said(&ended, "locks that were taken back lost nothing");
        }
    }
}

#[test]
fn barriers_show_what_was_written_behind_any_number_without() {
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        for options in ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3"] {
            let words = format!("periods {}", pick(300, 3000));
            let Some(ended) = with_engine(options, &words, engine) else { break };
            expect_said(&ended, "every period was seen");
        }
    }
    let job = svm("-n 4 --nodes 3", "periods 60").with(|command| {
        command.env("CLUMP_NET_FAULTS", "loss=2%,reorder=5%");
    });
    expect_said(&job.finish(), "every period was seen");
}

#[test]
fn single_ranks_allocate_free_and_wait_for_conditions() {
    for engine in ENGINES {
        let shapes = ["-n 4 --nodes 2", "-n 2", "-n 2 --nodes 2", "-n 3 --nodes 3", "-n 1"];
        for options in first_of(2, &shapes) {
            let ended = with_engine(options, "alone", engine).expect("these work everywhere");
            expect_said(&ended, "what ranks allocate alone is right");
        }
    }
}

#[test]
fn random_programs_give_the_serial_result() {
    for seed in 0..pick(6, 60) {
        let options =
            ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3", "-n 5 --nodes 4", "-n 2"];
        let options = options[seed % options.len()];
        let faults = ENGINES[seed / 2 % ENGINES.len()];
        let ni = if seed % 7 == 3 { " --ni proxy" } else { "" };
        let options = format!("{options}{ni} --lab svm.faults={faults}");
        let ended = svm(&options, &format!("random {seed} 12")).finish();
        expect_said(&ended, &format!("seed {seed} gave the serial result"));
    }
}

#[test]
fn random_programs_give_the_serial_result_over_a_network_that_loses_packets() {
    for seed in 100..pick(102, 112) {
        let job = svm("-n 4 --nodes 3", &format!("random {seed} 8")).with(|command| {
            command.env("CLUMP_NET_FAULTS", "loss=2%,duplicate=2%,reorder=5%");
        });
        expect_said(&job.finish(), &format!("seed {seed} gave the serial result"));
    }
}

/// Steps of the protocol ladder.
const STEPS: [&str; 6] = ["base", "dw", "rf", "dd", "nil", "deposit"];

/// Runs a job on a step of the ladder.
fn on_step(step: &str, job: Job) -> Finished {
    job.with(|command| {
        command.env("CLUMP_SVM", step);
    })
    .finish()
}

#[test]
fn each_step_of_the_ladder_wakes_threads_for_one_kind_of_request_less() {
    for (number, step) in STEPS.into_iter().enumerate() {
        for options in ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3"] {
            let ended = on_step(step, svm(options, "ladder"));
            ended.expect_clean();
            let (said, counts) = ended.out.trim().split_once(": woken for ").expect(&ended.out);
            assert_eq!(said, step);
            let counts = counts.trim_matches(['[', ']']).split(", ");
            let counts: Vec<u64> = counts.map(|count| count.parse().unwrap()).collect();
            let woken: Vec<bool> = counts.iter().map(|&count| count > 0).collect();
            let due: Vec<bool> = (0..4).map(|kind| kind >= number).collect();
            assert_eq!(woken, due, "{step}: notices, fetches, diffs, locks {counts:?}");
        }
    }
    let alone = on_step("base", svm("-n 2", "ladder"));
    assert!(alone.out.contains("none: woken for [0, 0, 0, 0]"), "{}", alone.out);
}

#[test]
fn random_programs_give_the_serial_result_on_every_step_of_the_ladder() {
    for (number, step) in STEPS.into_iter().enumerate() {
        for seed in 300..pick(302, 320) {
            let options = ["-n 4 --nodes 2", "-n 3 --nodes 3", "-n 5 --nodes 4"];
            let options = options[(seed + number) % options.len()];
            let faults = ENGINES[(seed + number) % ENGINES.len()];
            let options = format!("{options} --lab svm.faults={faults}");
            let job = svm(&options, &format!("random {seed} 10")).with(|command| {
                if seed % 2 == 0 {
                    command.env("CLUMP_NET_FAULTS", "loss=1%,reorder=5%");
                }
            });
            expect_said(&on_step(step, job), &format!("seed {seed} gave the serial result"));
        }
    }
}

#[test]
fn applications_are_exact_on_every_step_of_the_ladder() {
    let applications = [
        "water-nsq --molecules 27 --steps 6 --forces locks",
        "lu --order 128",
        "radix-svm --keys 9001",
        "fft --log 8",
        "ocean --side 32 --cycles 6",
        "raytrace --side 24 --balls 20 --tile 6",
        "tsp --cities 8",
        "unstructured --points 80 --steps 2",
    ];
    for step in STEPS {
        for words in first_of(2, &applications) {
            let ended = on_step(step, Job::command(&format!("app {words} -n 3 --nodes 3 --json")));
            ended.expect_clean();
            assert_eq!(ended.json()["verified"], true, "{step}: {words}: {}", ended.out);
            let counts = &ended.json()["counts"];
            let woken = counts["requests that woke a thread"].as_u64();
            if step == "deposit" {
                // Interfaces execute one-sided operations, and no request of the protocol.
                let sent = counts["messages between nodes"].as_u64();
                assert!(sent.is_none_or(|sent| sent == 0), "{words}: {}", ended.out);
            }
            match (step, woken) {
                // Not all applications report it, and not all use locks.
                ("dd", _) | (_, None) => {}
                (_, Some(woken)) => {
                    let wakes = !["nil", "deposit"].contains(&step);
                    assert_eq!(woken != 0, wakes, "{step}: {words}: {}", ended.out);
                }
            }
        }
    }
}

#[test]
fn a_rank_that_dies_ends_the_job_on_other_steps_too() {
    for step in ["base", "deposit"] {
        let folder = Folder::new();
        let job = svm("-n 4 --nodes 2", &format!("forever lock {}", folder.path().display()));
        let job = job.with(|command| {
            command.env("CLUMP_SVM", step);
        });
        let running = job.start();
        running.await_ready(folder.path(), 0..4);
        running.signal(running.rank(2), signals::KILL);
        running.finish().expect(137, &["rank 2 of `svm` was killed by signal 9"]);
    }
}

#[test]
fn a_step_that_does_not_exist_is_named_and_the_summary_names_the_one_used() {
    let ended = on_step("magic", svm("-n 2 --nodes 2", "count 1"));
    assert_ne!(ended.code, 0);
    assert!(
        ended.err.contains("CLUMP_SVM") && ended.err.contains("base, dw, rf, dd, nil, deposit")
    );
    let ended = on_step("dd", svm("-n 2 --nodes 2 --stats", "count 3"));
    ended.expect_clean();
    let all = format!("{}{}", ended.out, ended.err);
    let line = all.lines().find(|line| line.contains("shared heap: protocol")).expect(&all);
    assert!(line.split_whitespace().any(|word| word == "dd"), "{line}");
}

#[test]
fn a_full_heap_is_an_error_and_an_untouched_one_costs_nothing() {
    for options in ["-n 2 --nodes 2", "-n 2"] {
        expect_said(&svm(options, "full").finish(), "a full heap is an error");
    }
}

#[test]
fn the_death_of_a_node_ends_all_ranks_and_is_named() {
    for what in ["lock", "barrier"] {
        let folder = Folder::new();
        let job = svm("-n 3 --nodes 3", &format!("forever {what} {}", folder.path().display()));
        let running = job.start();
        running.await_ready(folder.path(), 0..3);
        let agents = running.agents(3);
        running.signal(agents[1], signals::KILL);
        let ended = running.finish();
        assert_ne!(ended.code, 0, "{}", ended.err);
        let report = ended.report().join("\n");
        assert!(report.contains("node 1"), "the lost node is named:\n{}", ended.err);
        let lost = ended.err.lines().filter(|line| line.contains("was lost with its node"));
        assert!(lost.count() >= 2, "the others say so:\n{}", ended.err);
    }
}

#[test]
fn the_death_of_a_rank_ends_all_ranks_and_is_named() {
    let folder = Folder::new();
    let job = svm("-n 4 --nodes 2", &format!("forever lock {}", folder.path().display()));
    let running = job.start();
    running.await_ready(folder.path(), 0..4);
    running.signal(running.rank(2), signals::KILL);
    let ended = running.finish();
    ended.expect(137, &["rank 2 of `svm` was killed by signal 9"]);
}

#[test]
fn a_stack_overflow_looks_like_one() {
    let ended = svm("-n 2 --nodes 2", "overflow").finish();
    ended.expect(134, &["rank 1 of `svm` was killed by signal 6"]);
    assert!(ended.err.contains("has overflowed its stack"), "{}", ended.err);
}

#[test]
fn the_examples_give_the_serial_result() {
    let examples = [
        ("jacobi", "100 10", "10 iterations of 100 x 100 are those of the serial program"),
        ("lu", "70", "the factors of order 70 are those of the serial program"),
        ("bank", "40", "no money lost"),
    ];
    for (name, words, said) in examples {
        for options in ["-n 2 --nodes 2", "-n 5 --nodes 3", "-n 2"] {
            let words = words.split(' ').map(OsString::from);
            expect_said(&Job::of_program(options, program(name), words).finish(), said);
        }
    }
}

#[test]
fn every_way_of_finding_accesses_gives_the_serial_result() {
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        for seed in 200..pick(202, 220) {
            let options = ["-n 4 --nodes 2", "-n 3 --nodes 3"][seed % 2];
            let Some(ended) = with_engine(options, &format!("random {seed} 10"), engine) else {
                break;
            };
            expect_said(&ended, &format!("seed {seed} gave the serial result"));
        }
    }
}

#[test]
fn an_engine_that_does_not_exist_is_named() {
    let ended = with_engine("-n 2 --nodes 2", "count 1", "magic").expect("it is no skip");
    assert_ne!(ended.code, 0);
    assert!(ended.err.contains("svm.faults") && ended.err.contains("userfault, scan, scan-own"));
}

#[test]
fn pages_outlive_the_ranks_that_wrote_them() {
    for options in ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 2"] {
        expect_said(&svm(options, "leave").finish(), "read what others left");
    }
}

#[test]
fn random_programs_of_several_threads_a_rank_give_the_serial_result() {
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        for seed in 400..pick(402, 420) {
            let options = ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3", "-n 1"];
            let options = options[seed % options.len()];
            let words = format!("threads {seed} 8 {}", 2 + seed % 3);
            let Some(ended) = with_engine(options, &words, engine) else { break };
            expect_said(&ended, &format!("seed {seed} gave the serial result"));
        }
    }
}

#[test]
fn waits_of_threads_are_shares_of_the_time_of_all_threads() {
    for options in ["-n 2 --nodes 2", "-n 2"] {
        let ended = svm(&format!("{options} --json"), "threads 400 8 4").finish();
        assert_eq!(ended.code, 0, "{}", ended.err);
        let times = &ended.json()["summary"]["shared_memory"];
        let parts = ["compute", "data", "lock", "release", "barrier"];
        let shares = parts.map(|part| times[format!("{part}_percent")].as_f64().unwrap());
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.01, "{options}: {shares:?}");
    }
}

#[test]
fn a_page_that_several_threads_read_is_fetched_once() {
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        let job = svm(&format!("-n 2 --nodes 2 --lab svm.faults={engine}"), "fetch-once");
        let ended = on_step("base", job);
        if ended.code != 0 && ended.err.contains("userfaultfd") {
            println!("SKIPPED: {engine}; a kernel that permits userfaultfd would run it");
            continue;
        }
        expect_said(&ended, "64 fetches of 64 pages");
    }
}

#[test]
fn another_thread_than_the_one_that_opened_it_uses_the_heap() {
    for engine in ENGINES {
        let ended = with_engine("-n 4 --nodes 2", "thread", engine).expect("both work everywhere");
        expect_said(&ended, "threads took turns");
    }
}

#[test]
fn an_allocation_that_one_rank_gets_wrong_fails_at_all_and_the_next_is_right() {
    for options in ["-n 1", "-n 3", "-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3"] {
        let ended = svm(options, "one-wrong").finish();
        ended.expect_clean();
        assert_eq!(ended.out.lines().count(), options[3..4].parse::<usize>().unwrap());
    }
}

#[test]
fn more_than_the_memory_of_one_node_is_an_error_and_nobody_dies() {
    let Some(group) = MemoryGroup::make(300) else { return };
    let clump = program("clump-under-test").display().to_string();
    let svm = program("svm").display().to_string();
    for options in ["-n 1", "-n 4"] {
        // More than the group has, and more than any machine has.
        for bytes in [400_u64 << 20, 200 << 30] {
            let enter = group.enter();
            let job = format!("{enter} && exec {clump} run {options} {svm} too-much {bytes}");
            expect_said(&Job::any("sh").with_args(&["-c", &job]).finish(), "nobody died");
        }
    }
    assert_eq!(group.kills(), 0, "the kernel killed nobody");
}
