//! Programs by the macros of PARMACS as they are found: input before the macros begin, output that
//! nobody flushes, globals that are stored in while workers run.

use clump_process_tests::c_programs::{Linked, workshop};
use clump_process_tests::{Folder, Job};
use std::ffi::OsString;

const ON_CLUMP: [&str; 4] = ["-include", "clump/parmacs.h", "-fPIC", "-no-pie"];
const ON_THREADS: [&str; 3] = ["-include", "clump/parmacs.h", "-DCLUMP_PARMACS_THREADS"];

/// Runs a program of which a file is the input.
fn with_input(job: Job, input: &std::path::Path) -> clump_process_tests::Finished {
    job.with(|command| {
        command.stdin(std::fs::File::open(input).unwrap());
    })
    .finish()
}

/// Checks that `main` runs on rank 0 alone from its first line on, that workers begin with its
/// globals, streams among them, and that what they print is not lost.
#[test]
fn programs_as_splash_has_them() {
    let Some(shop) = workshop("programs as SPLASH has them") else { return };
    let folder = Folder::new();
    let input = folder.path().join("input");
    std::fs::write(&input, "41\n").unwrap();
    let source = "tests/c/parmacs_input.c";
    let own = [&ON_CLUMP[..], &["-DCLUMP_PARMACS_OWN_GLOBALS"]].concat();
    let nodes = shop.build_with(source, Linked::Shared, &own);
    for (options, workers) in [("-n 1", 1), ("-n 3", 3), ("-n 4 --nodes 2", 3)] {
        let words = [OsString::from(workers.to_string())];
        let done = with_input(Job::of_program(options, &nodes, words), &input);
        done.expect_clean();
        let lines = |text: &str| done.out.lines().filter(|line| line.ends_with(text)).count();
        assert_eq!(lines("main read 41"), 1, "{options}: {}", done.out);
        for worker in 1..=workers {
            for round in 1..=2 {
                let text = format!("worker {worker} of round {round}");
                assert_eq!(lines(&text), 1, "{options}: {text} of {}", done.out);
            }
        }
        let all = format!("{0} of {0} were right, 1", 2 * workers);
        assert_eq!(lines(&all), 1, "{options}: {}", done.out);
        assert!(!done.out.contains("pages were fetched"), "{options}: {}", done.out);
        // The same, if it ends before its macros begin.
        let words = ["early", "3"].map(OsString::from);
        let done = with_input(Job::of_program(options, &nodes, words), &input);
        done.expect_clean();
        assert!(done.out.ends_with("main read 41\n"), "{options}: {}", done.out);
    }
    let threads = shop.build_with(source, Linked::Shared, &ON_THREADS);
    let done = with_input(Job::any(threads).with_args(&["1"]), &input);
    done.expect_clean();
    assert!(done.out.ends_with("2 of 2 were right, 1\n"), "{}", done.out);
}

/// Checks that globals which ranks have stored in, each for itself, are named once, unless the
/// program means that.
#[test]
fn stores_in_globals_that_nobody_else_sees_are_named() {
    let Some(shop) = workshop("stores in globals") else { return };
    let source = "tests/c/parmacs_globals.c";
    let flags = [&ON_CLUMP[..], &["-DCLUMP_PARMACS_OWN_GLOBALS"]].concat();
    let [noticed, meant] =
        [&ON_CLUMP[..], &flags].map(|flags| shop.build_with(source, Linked::Shared, flags));
    for options in ["-n 3", "-n 3 --nodes 3"] {
        let done = Job::of_program(options, &noticed, [OsString::from("3")]).finish();
        assert_eq!(done.code, 0, "{}", done.err);
        let named: Vec<_> = done.err.lines().filter(|line| line.contains("in globals")).collect();
        assert_eq!(named.len(), 1, "{options}: {}", done.err);
        for part in [
            "`view` (rank ",
            "`finished_rounds` (rank 0)",
            "`of_each_rank` (ranks 0, 1, 2)",
            "--clump-threads -DCLUMP_PARMACS_THREADS",
        ] {
            assert!(named[0].contains(part), "{options}: {part} in {}", done.err);
        }
        for absent in ["`untouched`", "`workers`", "`gl`"] {
            assert!(!named[0].contains(absent), "{options}: {absent} in {}", done.err);
        }
        Job::of_program(options, &meant, [OsString::from("3")]).finish().expect_clean();
        // A worker that waits for main, which has ended, is reported.
        let left = Job::of_program(options, &meant, [OsString::from("leaves")]).finish();
        left.expect(1, &["rank 0", "without finalizing"]);
        // A worker that follows a pointer of main dies; pointers that main has are named.
        let died = Job::of_program(options, &noticed, [OsString::from("private")]).finish();
        died.expect(139, &["was killed by signal 11"]);
        for part in ["memory of rank 0 alone", "`out`", "`table`"] {
            assert!(died.err.contains(part), "{options}: {part} in {}", died.err);
        }
    }
}
