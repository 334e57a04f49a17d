//! Jobs whose network is to seem slower than it is: whole programs, unchanged, and the clock of
//! this test. Every bound is a lower one, which no load can break.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_os::clock;
use clump_process_tests::far::FakeShell;
use clump_process_tests::{Job, program};
use std::time::Duration;

/// Layouts of two ranks: on two nodes, driven by the ranks and by proxies.
const NODES: [&str; 2] = ["-n 2 --nodes 2", "-n 2 --nodes 2 --ni proxy:1"];

fn took(job: Job) -> Duration {
    let begun = clock::instant();
    job.finish().expect_clean();
    begun.elapsed()
}

#[test]
fn a_program_takes_the_latency_of_its_barriers() {
    for nodes in NODES {
        // A barrier between nodes is a message each way, and each waits for the other's.
        let job = Job::of(&format!("{nodes} --emu L=+50ms"), "barrier 10");
        assert!(took(job) >= Duration::from_millis(500), "{nodes}");
        let job = Job::of(nodes, "barrier 10").with(|job| {
            job.env("CLUMP_EMU", "L=+50ms,scope=net");
        });
        assert!(took(job) >= Duration::from_millis(500), "{nodes}, by the environment");
    }
}

/// Starts what is for machine `b` on another kernel, as far as the job can tell: with a clock that
/// is `$OFFSET` seconds ahead, and another identity of its boot.
const OTHER_CLOCK: &str = r#"
if [ "$machine" = b ] && [ -z "$APART" ]; then
    export APART=1
    exec unshare --time --mount --monotonic="$OFFSET" --fork --kill-child "$0" "$machine" "$command"
fi
if [ -n "$APART" ]; then
    echo another-boot >"${0%/*}/boot_id"
    mount --bind "${0%/*}/boot_id" /proc/sys/kernel/random/boot_id
fi"#;

#[test]
fn machines_whose_clocks_differ_delay_messages_for_as_long() {
    let probe = "mount --bind /proc/uptime /proc/sys/kernel/random/boot_id";
    let words = ["--time", "--mount", "--monotonic=5", "--fork", "sh", "-c", probe];
    let probed = Job::any("unshare").with_args(&words).finish();
    if probed.code != 0 {
        println!("skipped: no clock of its own for a process: {} (run as root)", probed.err);
        return;
    }
    for offset in ["5000", "1"] {
        let far = FakeShell::with_script(&format!("OFFSET={offset}\n{OTHER_CLOCK}"));
        let job = far.job("--hosts a:1,b:1 --emu L=+50ms", "barrier 10");
        assert!(took(job) >= Duration::from_millis(500), "{offset} s ahead");
    }
}

#[test]
fn a_program_of_many_kinds_of_messages_stays_right() {
    for nodes in ["-n 3", "-n 3 --nodes 2", "-n 3 --nodes 2 --ni proxy:1"] {
        let knobs = "o=+2us,g=5us,L=+100us,G=+1ns/B";
        Job::of(&format!("{nodes} --emu {knobs}"), "talk 3").finish().expect_clean();
        let command = format!("app histo {nodes} --size ci --emu {knobs}");
        Job::command(&command).finish().expect_clean();
    }
}

#[test]
fn a_page_of_another_node_takes_the_latency_of_both_directions() {
    for options in ["", "--ni proxy:1"] {
        let command = "app lu -n 2 --nodes 2 --size ci --order 128 --json --emu L=+20ms,scope=net";
        let ended = Job::command(&format!("{command} {options}")).finish();
        ended.expect_clean();
        let report = ended.json();
        assert_eq!(report["verified"], true, "{report}");
        // The second rank reads the block on the diagonal of every second step, and each is on a
        // page of its own, at the other node.
        let seconds = report["phases"][0][1].as_f64().unwrap();
        assert!(seconds >= 4.0 * 0.040, "{report}");
    }
}

#[test]
fn ranks_that_change_knobs_together_see_them_at_once() {
    const MS: u64 = 1_000_000;
    for options in ["-n 3", "-n 4 --nodes 2", "-n 4 --nodes 2 --ni proxy:1"] {
        let texts = ["", "L=+30ms", "L=+60ms", "o=+10ms", ""];
        let job = Job::of_program(
            options,
            program("timed"),
            ["emulate"].iter().chain(&texts).map(std::ffi::OsString::from),
        );
        let ended = job.finish();
        ended.expect_clean();
        let ranks = if options == "-n 3" { 3 } else { 4 };
        assert_eq!(ended.out.lines().count(), 5 * ranks, "{options}: {}", ended.out);
        for line in ended.out.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (epoch, took): (usize, u64) =
                (words[0].parse().unwrap(), words[1].parse().unwrap());
            assert!(epoch >= 2, "{options}: no change has come: {line}");
            assert_eq!(words[2], texts[epoch / 2 - 1], "{options}: a change is an epoch");
            let least = [0, 60 * MS, 120 * MS, 40 * MS, 0][epoch / 2 - 1];
            assert!(took + 1_000 >= least, "{options}: {line}");
        }
    }
}

#[test]
fn what_is_no_knob_is_refused_before_anything_starts() {
    for (option, remedy) in [
        ("--emu L=20", "write +5us"),
        ("--emu latency=+5us", "is no knob"),
        ("--emu L=5us", "clump lab calibrate"),
    ] {
        let job = Job::of(&format!("-n 2 {option}"), "barrier 1").with(|job| {
            job.env("CLUMP_LAB_MACHINE", "/nonexistent/machine.json");
        });
        let ended = job.finish();
        assert_eq!(ended.code, 2, "{option}: {}", ended.err);
        assert!(ended.err.contains(remedy), "{option}: {}", ended.err);
    }
    let job = Job::of("-n 2", "barrier 1").with(|job| {
        job.env("CLUMP_EMU", "speed=+5us");
    });
    job.finish().expect(2, &["CLUMP_EMU", "is no knob"]);
}

#[test]
fn a_sweep_shows_the_slowdown_and_goes_on_where_it_ended() {
    let folder = clump_process_tests::Folder::new();
    let journal = folder.path().join("sweep.jsonl");
    let sweep = |budget: &str| {
        let words = format!(
            "lab sweep --knob L=+20ms,+40ms --rounds 3 --budget {budget} --out {} -- -n 2 --nodes 2",
            journal.display()
        );
        let prog = clump_process_tests::program("prog").display().to_string();
        Job::command(&words).with_args(&[&prog, "barrier", "10"]).finish()
    };
    let none = sweep("0");
    none.expect_clean();
    assert!(none.out.contains("0 runs"), "{}", none.out);
    let all = sweep("600");
    all.expect_clean();
    let lines = std::fs::read_to_string(&journal).unwrap().lines().count();
    // A plan, three runs of two settings, and baselines.
    assert!((8..=14).contains(&lines) && all.out.contains("complete"), "{lines}: {}", all.out);
    let again = sweep("600");
    again.expect_clean();
    assert_eq!(std::fs::read_to_string(&journal).unwrap().lines().count(), lines, "nothing to run");
    let slowdown = |text: &str| {
        let line = again.out.lines().find(|line| line.starts_with(text)).unwrap();
        line.split_whitespace().last().unwrap().parse::<f64>().unwrap()
    };
    assert!(slowdown("L=+20ms") > 0.0 && slowdown("L=+40ms") > 0.0);
}
