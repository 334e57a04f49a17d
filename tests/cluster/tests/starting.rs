//! What a job wants of its machine before it starts, and what is said where that is missing.

use clump_cluster_tests::{Folder, Job, program};

/// Runs a job by a shell that first does something to it.
fn after(first: &str, job: &str) -> Job {
    let clump = program("clump-under-test");
    let line = format!("{first} && exec {} {job}", clump.display());
    Job::any("sh").with_args(&["-c", &line])
}

#[test]
fn too_few_open_files_are_named_with_a_remedy() {
    for files in [16, 20, 24] {
        let ended = after(&format!("ulimit -n {files}"), "run -n 8 --nodes 4 true").finish();
        // Which of the two depends on whether the agents can be started.
        assert!(matches!(ended.code, 125 | 126), "{}: {}", ended.code, ended.err);
        ended.expect(ended.code, &["Too many open files", "ulimit -Hn"]);
    }
}

#[test]
fn an_interface_that_is_down_is_seen_before_anything_starts() {
    let clump = program("clump-under-test").display().to_string();
    let without_network = |command: &[&str]| {
        // In a user namespace of its own, so that it takes no privilege.
        let arguments = [&["--user", "--map-root-user", "--net"], command].concat();
        Job::any("unshare").with_args(&arguments)
    };
    let tried = without_network(&["true"]).finish();
    if tried.code != 0 {
        println!("SKIPPED: no network namespace without privileges here: {}", tried.err);
        return;
    }
    for options in [&[][..], &["--addresses", "127.0.0.2"]] {
        let line = [&[&*clump, "run", "-n", "2", "--nodes", "2"], options, &["true"]].concat();
        let ended = without_network(&line).finish();
        ended.expect(2, &["127.0.0.", "interface is down", "ip link set lo up"]);
    }
    // One node needs no network.
    without_network(&[&clump, "run", "-n", "2", "true"]).finish().expect_clean();
}

#[test]
fn a_system_call_that_a_filter_refuses_is_no_panic_and_no_wait() {
    let clump = program("clump-under-test").display().to_string();
    let prog = program("prog").display().to_string();
    for refused in ["sched_yield=EPERM", "prlimit64=EACCES", "sendto=EACCES"] {
        let words = ["--refuse", refused, &clump, "run", "-n", "2", "--nodes", "2", &prog];
        let ended = Job::any(program("hinder")).with_args(&words).with_args(&["barrier", "3"]);
        let ended = ended.finish();
        assert!(!ended.err.contains("panicked"), "{refused}: {}", ended.err);
        assert!([0, 125].contains(&ended.code), "{refused}: {}: {}", ended.code, ended.err);
        assert!(ended.code == 0 || ended.err.contains("clump: "), "{refused}: {}", ended.err);
    }
}

#[test]
fn messages_that_quote_a_name_command_no_terminal() {
    let name = "no\u{1b}[31msuch\r\u{202e}name";
    let program = Job::of_program("-n 2", format!("./{name}"), []).finish();
    let folder = Folder::new();
    let sort = format!("app sort -n 2 -o {}/sorted -i", folder.path().display());
    let input = Job::command(&sort).with_args(&[name]).finish();
    let value = Job::of("-n 2", "barrier 1").with(|command| {
        command.env("CLUMP_LANES", name);
    });
    for (ended, code) in [(program, 127), (input, 1), (value.finish(), 2)] {
        assert_eq!(ended.code, code, "{}", ended.err);
        let said = &ended.err;
        assert!(said.contains("\\u{1b}[31msuch\\r\\u{202e}name"), "{said:?}");
        assert!(!said.contains(['\u{1b}', '\r', '\u{202e}']), "{said:?}");
    }
}
