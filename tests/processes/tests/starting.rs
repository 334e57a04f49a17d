//! Requirements of a job before it starts, and the messages if they are not met.

use clump_os::signal::{CHILD, FILE_SIZE, Signals};
use clump_process_tests::{Folder, Job, program, signals};

const USER_1: u8 = 10;
const BROKEN_PIPE: u8 = 13;

/// Runs a job by a shell that first executes a command.
fn after(first: &str, job: &str) -> Job {
    let clump = program("clump-under-test");
    let line = format!("{first} && exec {} {job}", clump.display());
    Job::any("sh").with_args(&["-c", &line])
}

#[test]
fn too_few_open_files_are_named_with_a_remedy() {
    for files in [16, 20, 24] {
        let ended = after(&format!("ulimit -n {files}"), "run -n 8 --nodes 4 true").finish();
        // Depends on whether the agents can be started.
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
fn limits_that_are_too_low_are_named_with_a_remedy() {
    for (limit, said) in [
        ("-s 64", "ulimit -s"),
        // With less than the program itself takes, the kernel kills it before it begins.
        ("-d 4000", "ulimit -d"),
        ("-f 1000", "ulimit -f"),
        ("-f 100000000", "ulimit -f"),
        ("-v 60000", "ulimit -v"),
    ] {
        for nodes in [1, 2] {
            let job = format!("run -n 8 --nodes {nodes} {} talk 3", program("prog").display());
            let ended = after(&format!("ulimit -c 0 && ulimit {limit}"), &job).finish();
            let orderly = matches!(ended.code, 3 | 125 | 126);
            assert!(orderly, "{limit}: {}", ended.err);
            assert!(ended.err.contains(said), "{limit}: {}", ended.err);
            let bad = ["panicked", "overflowed", "memory allocation"];
            assert!(!bad.iter().any(|bad| ended.err.contains(bad)), "{limit}: {}", ended.err);
        }
    }
}

#[test]
fn a_limit_that_kills_a_rank_is_named() {
    let script = "ulimit -c 0; ulimit -f 1; [ $CLUMP_RANK = 0 ] || exec cat /dev/zero > $1";
    let folder = clump_process_tests::Folder::new();
    let file = folder.path().join("file");
    let words = ["-c".into(), script.into(), "sh".into(), file.into()];
    let ended = Job::of_program("-n 2", "sh", words).finish();
    ended.expect(153, &["was killed by signal 25 (SIGXFSZ)", "ulimit -f"]);
}

#[test]
fn too_few_processes_are_named_with_a_remedy() {
    let clump = program("clump-under-test").display().to_string();
    // The limit is per user, and root has none: a user without other processes.
    let limited = |processes: u32, command: &[&str]| {
        let limit = format!("--nproc={processes}");
        let user = ["--reuid=54321", "--regid=54321", "--clear-groups", "prlimit", &limit];
        Job::any("setpriv").with_args(&[&user[..], command].concat()).finish()
    };
    let tried = limited(100, &[&clump, "--version"]);
    if tried.code != 0 {
        println!(
            "SKIPPED: no other user can run this program here (as root, with setpriv): {}",
            tried.err
        );
        return;
    }
    let mut refused = 0;
    for processes in 1..=7 {
        let ended = limited(processes, &[&clump, "run", "-n", "2", "true"]);
        assert!(matches!(ended.code, 0 | 125 | 126), "{processes}: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{processes}: {}", ended.err);
        if ended.code != 0 {
            ended.expect(ended.code, &["ulimit -u", "pids limit"]);
            refused += 1;
        }
    }
    assert!(refused > 0, "a job of four processes under a limit of one");
}

#[test]
fn what_a_caller_ignores_and_blocks_does_not_hold_a_job_up() {
    let clump = program("clump-under-test");
    let line = format!(
        "trap '' CHLD PIPE XFSZ USR1; exec {} run -n 2 grep -E 'Sig(Blk|Ign)' /proc/self/status",
        clump.display()
    );
    let _blocked = Signals::block(&[signals::TERMINATE, CHILD]).unwrap();
    let ended = Job::any("sh").with_args(&["-c", &line]).finish();
    ended.expect_clean();
    let mask = |name: &str| -> Vec<u64> {
        let lines = ended.out.lines().filter_map(|line| line.strip_prefix(name));
        lines.map(|mask| u64::from_str_radix(mask.trim(), 16).unwrap()).collect()
    };
    assert_eq!(mask("SigBlk:"), [0, 0], "{}", ended.out);
    // Ranks ignore the caller's ignored signals, but not those that programs depend on.
    let bit = |signal: u8| 1_u64 << (signal - 1);
    for ignored in mask("SigIgn:") {
        assert_eq!(ignored & bit(USER_1), bit(USER_1), "{}", ended.out);
        assert_eq!(ignored & (bit(CHILD) | bit(BROKEN_PIPE) | bit(FILE_SIZE)), 0, "{}", ended.out);
    }
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
    for (ended, code) in [(program, 127), (input, 2), (value.finish(), 2)] {
        assert_eq!(ended.code, code, "{}", ended.err);
        let said = &ended.err;
        assert!(said.contains("\\x1b[31msuch\\x0d\\u{202e}name"), "{said:?}");
        assert!(!said.contains(['\u{1b}', '\r', '\u{202e}']), "{said:?}");
    }
}
