//! Command lines beside the words of a job: misspelt names, help, outputs that cannot be written.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::{Folder, Job, program};

#[test]
fn a_variable_that_is_no_setting_is_named_once() {
    let job = Job::of("-n 3 --nodes 2", "barrier 1").with(|command| {
        command.env("CLUMP_NET_FALTS", "loss=1%").env("CLUMP_LANES", "7");
    });
    let ended = job.finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let due = "clump: warning: the variable CLUMP_NET_FALTS is no setting, and is ignored; did \
               you mean CLUMP_NET_FAULTS?\n";
    assert_eq!(ended.err, due);
}

#[test]
fn options_of_a_run_are_in_groups() {
    let help = Job::command("run --help").finish();
    help.expect_clean();
    let at = |text: &str| help.out.find(text).unwrap_or_else(|| panic!("{text}: {}", help.out));
    let (nodes, machines) = (at("\nNodes and their network:\n"), at("\nMachines:\n"));
    let (ranks, output) = (at("\nRanks:\n"), at("\nOutput:\n"));
    assert!((nodes..machines).contains(&at("  --netns")), "{}", help.out);
    assert!((machines..ranks).contains(&at("  --hostfile")), "{}", help.out);
    assert!((ranks..output).contains(&at("  --on-death")), "{}", help.out);
    assert!(at("\nMeasurements:\n") < at("  --profile"), "{}", help.out);
}

#[test]
fn outputs_that_cannot_be_written_are_found_before_ranks_start() {
    let folder = Folder::new();
    let started = folder.path().join("started");
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let below = file.join("below").display().to_string();
    for option in ["--profile", "--trace", "--output"] {
        let words = format!("run -n 1 {option} {below} touch {}", started.display());
        let ended = Job::command(&words).finish();
        ended.expect(125, &[&below]);
        assert!(!started.exists(), "{option}: ranks ran");
    }
    for words in [
        "app raytrace -n 1 --side 16 --picture",
        "app volrend -n 1 --side 16 --picture",
        "lab logp --quick --svg",
        "lab calibrate --scope shm --force --save",
    ] {
        let ended = Job::command(&format!("{words} {below}")).finish();
        ended.expect(125, &[&file.display().to_string()]);
        assert_eq!(ended.out, "", "{words}: ranks ran");
    }
    // What is there stays as it is until there is something to write, and nothing is left of what
    // was not there.
    let profile = folder.path().join("profile.json");
    for path in [&file, &profile] {
        let words = format!("run -n 1 --profile {} no-such-program", path.display());
        assert_eq!(Job::command(&words).finish().code, 127);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    assert!(!profile.exists());
}

#[test]
fn inputs_without_an_end_are_refused() {
    for (words, code) in [
        ("run --hostfile /dev/zero true", 2),
        ("app connect -n 2 --edges /dev/zero", 1),
        ("app tsp -n 1 --file /dev/zero", 1),
        ("app murphi /dev/zero -n 1", 2),
        ("app barnes -n 1 --input /dev/zero", 1),
        ("app pray -n 2 --scene /dev/zero", 1),
        ("app volrend -n 1 --volume /dev/zero", 1),
        ("lab report /dev/zero", 125),
        ("lab compare /dev/zero /dev/zero", 125),
        ("lab trace /dev/zero", 125),
    ] {
        let ended = Job::command(words).finish();
        assert_eq!(ended.code, code, "{words}: {}", ended.err);
    }
    let job = Job::of("-n 1", "barrier 1").with(|command| {
        command.env("CLUMP_CONFIG", "/dev/zero");
    });
    job.finish().expect(2, &["the configuration file /dev/zero", "too many for such a file"]);
}

#[test]
fn a_stream_that_is_full_or_closed_is_no_fault() {
    let folder = Folder::new();
    let journal = |name: usize| folder.path().join(format!("{name}.jsonl")).display().to_string();
    let serial = program("serial").display().to_string();
    let clump = program("clump-under-test").display().to_string();
    for (name, (redirection, code)) in
        [("2>/dev/full", 0), (">/dev/full", 125), ("2>&-", 0), ("| true", 0)]
            .into_iter()
            .enumerate()
    {
        let line = format!(
            "{clump} lab sweep --knob L=+1us --rounds 3 --out {} -- -n 1 {serial} phase {redirection}",
            journal(name)
        );
        let ended = Job::any("sh").with_args(&["-c", &line]).finish();
        assert_eq!(ended.code, code, "{redirection}: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{redirection}: {}", ended.err);
    }
    // Commands that print at once what they have.
    for words in ["app", "doctor", "stats", "lab costs --help", "app gups --size ci", "lab steps"] {
        for redirection in [">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full", ">&-"] {
            let line = format!("{clump} {words} {redirection}; echo code $?");
            let ended = Job::any("sh").with_args(&["-c", &line]).finish();
            let fine = ["code 0\n", "code 1\n", "code 125\n"];
            assert!(
                fine.iter().any(|code| ended.out.ends_with(code))
                    && !ended.err.contains("panicked"),
                "{line}: {}{}",
                ended.out,
                ended.err
            );
        }
    }
}
