//! Shared virtual memory in virtual time: exact results and times on more nodes than this machine
//! has processors.

use crate::svm::svm;
use crate::virtual_time::{ends, job, summary};
use clump_process_tests::{Folder, Job, program};
use clump_test_tier::first_of;

/// Costs of pages, in ns: of different lengths, so that a sum tells what it is of.
const FAULT: u64 = 100_000;
const PROTECT: u64 = 1_000_000;
const TWIN: u64 = 10_000_000;
const DIFF: u64 = 100_000_000;

/// Returns the time at which the last rank ends that runs a program, on as many nodes.
fn end(programs: [&str; 2]) -> u64 {
    let folder = Folder::new();
    let path = folder.path().join("machine.toml");
    let costs = "o_send_us = 3\no_receive_us = 3\ng_us = 6\nL_us = 5\nmb_per_s = 1000\n";
    let pages = "fault_us = 100\nprotect_us = 1000\ntwin_us = 10000\ndiff_us = 100000\n";
    let file = format!("execute_us = 2\n[node]\n{costs}[network]\n{costs}[pages]\n{pages}");
    std::fs::write(&path, file).unwrap();
    let options = "--nodes 2 --cpu fixed:0 --lab svm.ahead=none";
    let done = job(path.to_str().unwrap(), options, &programs).finish();
    assert_eq!(done.code, 0, "{programs:?}: {}", done.err);
    ends(&done)[1]
}

#[test]
fn an_access_costs_its_fault_its_messages_and_what_the_kernel_does() {
    // Page 0 and 2 are at home on the other node, page 1 on that of the rank that uses them, well
    // behind the barrier.
    let uses = |words: &str| end(["W0 W1 W2 B", &format!("B c900000000 {words}")]);
    let nothing = uses("");
    assert_eq!(uses("R1") - nothing, FAULT + PROTECT, "a page that is here");
    assert_eq!(uses("W1") - nothing, 2 * (FAULT + PROTECT), "homes have no twins");
    // The count of those who share it, a gap behind it the request, and the answer.
    let first = uses("R0") - nothing - FAULT - PROTECT;
    let messages = 3 + 6 + (5 + 3) + 2 + (3 + 5 + 3);
    assert!((messages * 1000 + 4096..messages * 1000 + 4296).contains(&first), "{first}");
    assert_eq!(uses("R0 R0"), uses("R0"), "it is fetched once");
    assert_eq!(uses("R0 R2") - nothing, 2 * (uses("R0") - nothing), "each page is fetched");
    assert_eq!(uses("W0") - uses("R0"), FAULT + PROTECT + TWIN, "a store to what was read");
}

#[test]
fn a_release_costs_a_comparison_for_each_written_page() {
    let released = |words: &str| end(["B B B", &format!("B {words} B B")]);
    // A page of the own node that nobody shares costs nothing. The other one gets a twin, is
    // compared, protected, and gets a new twin; it is fetched, and its bytes are sent.
    let [own, other] = ["W1", "W0"].map(released);
    let least = 2 * TWIN + DIFF + PROTECT;
    assert!((least..least + 200_000).contains(&(other - own)), "{other} {own}");
}

#[test]
fn random_programs_have_the_serial_result_on_many_nodes() {
    let shapes = ["-n 12 --nodes 3", "-n 8 --nodes 8", "-n 16 --nodes 4", "-n 32 --nodes 8"];
    for (seed, shape) in (1..).zip(first_of(2, &shapes)) {
        for machine in ["vmmc1999", "100gbe"] {
            let options = format!("{shape} --virtual {machine} --cpu fixed:100");
            let run = || {
                let done = svm(&options, &format!("random {seed} 5")).finish();
                assert_eq!(done.code, 0, "{options}: {}", done.err);
                assert!(done.out.contains("gave the serial result"), "{options}: {}", done.out);
                summary(&done)
            };
            assert_eq!(run(), run(), "{options}");
        }
    }
}

#[test]
fn applications_are_verified_on_sixteen_processors_and_say_where_time_went() {
    let applications = [
        "water-nsq --molecules 64 --steps 6",
        "fft --log 10",
        "barnes-svm --bodies 256 --steps 1",
        "radix-svm --keys 20011",
        "volrend --side 24 --frames 1",
        "ocean --side 32 --cycles 4",
        "tsp --cities 8",
    ];
    for words in first_of(3, &applications) {
        let machine = "--virtual vmmc1999,cpu=20 --cpu fixed:200 -n 16 --nodes 4";
        let done = Job::command(&format!("app {words} {machine} --json")).finish();
        assert_eq!(done.code, 0, "{words}: {}", done.err);
        let report = done.json();
        assert_eq!(report["verified"], true, "{words}: {}", done.out);
        let share = |part: &str| report["figures"][format!("{part}, % of time")].as_f64().unwrap();
        let parts = ["compute", "data wait", "lock", "release", "barrier"].map(share);
        let sum: f64 = parts.iter().sum();
        assert!((sum - 100.0).abs() < 0.01 && parts[0] > 0.0, "{words}: {parts:?}");
    }
}

#[test]
fn a_recording_of_one_node_is_charged_in_full_on_several() {
    let folder = Folder::new();
    let clump = program("clump-under-test").display().to_string();
    let computed = |app: &str, nodes: u32, cpu: &str| {
        let recording = folder.path().join(app.split(' ').next().unwrap());
        let options = format!("--cpu {cpu}:{} -n 8 --nodes {nodes}", recording.display());
        let run = format!("run --virtual vmmc1999,cpu=7 {options} --json");
        let done = Job::command(&format!("{run} {clump} app {app} --json")).finish();
        done.expect_clean();
        let time = done.json()["virtual_time"].clone();
        assert_eq!(time["diverged_ns"].as_u64(), Some(0), "{app}, {nodes}: {time}");
        (time["computed_ns"].as_u64().unwrap(), time["digest"].clone())
    };
    let applications =
        ["fft --log 10", "water-nsq --molecules 64 --steps 6", "ocean --side 32 --cycles 4"];
    for app in first_of(2, &applications) {
        let (recorded, _) = computed(app, 1, "record");
        for nodes in [2, 8] {
            let replayed = computed(app, nodes, "replay");
            assert_eq!(replayed.0, recorded, "{app} on {nodes} nodes");
            assert_eq!(replayed, computed(app, nodes, "replay"), "{app} on {nodes} nodes");
        }
    }
}

#[test]
fn on_one_virtual_node_the_heap_costs_no_messages() {
    let run = || {
        let options = "-n 8 --nodes 1 --virtual vmmc1999 --cpu fixed:100";
        let done = svm(options, "random 3 5").finish();
        assert_eq!(done.code, 0, "{}", done.err);
        summary(&done)
    };
    assert_eq!(run(), run());
}

#[test]
fn other_threads_of_a_rank_are_refused_by_name() {
    let done = svm("-n 2 --nodes 2 --virtual vmmc1999", "thread").finish();
    assert_ne!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("in virtual time only the thread that has joined"), "{}", done.err);
}

#[test]
fn a_rank_that_is_killed_beside_the_heap_ends_the_job_as_usual() {
    let programs = ["L W0 U B", "kill B", "L W0 U B"];
    let done = job("vmmc1999", "--nodes 3 --cpu fixed:0", &programs).finish();
    done.expect(137, &["rank 1 of `virtual-time` was killed by signal 9 (SIGKILL)"]);
}
