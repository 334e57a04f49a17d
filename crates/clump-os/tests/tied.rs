//! Programs that end with the process that started them.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_os::bound_child::BoundChild;
use clump_os::procfs::Process;
use clump_os::{clock, signal};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Deadline: ten times what anything here may take.
const TIME_LIMIT_NS: u64 = 30_000_000_000;

/// Starts a shell that runs `script`; returns it and the first line that it prints.
fn shell(script: &str) -> (BoundChild, String) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped());
    let mut bound_child = BoundChild::start(&mut command).unwrap();
    let mut line = String::new();
    let pipe = bound_child.child().stdout.take().unwrap();
    BufReader::new(pipe).read_line(&mut line).unwrap();
    (bound_child, line.trim().to_owned())
}

/// Waits until a process has ended, or is a zombie.
fn await_end(process: &Process) {
    let give_up_ns = clock::now_ns() + TIME_LIMIT_NS;
    let runs = || {
        let now = Process::read(process.pid);
        now.is_some_and(|now| now.started == process.started && now.state != 'Z')
    };
    while runs() {
        assert!(clock::now_ns() < give_up_ns, "{process:?}");
        clock::yield_now();
    }
}

#[test]
fn one_that_ends_says_how() {
    let mut bound_child = BoundChild::start(Command::new("sh").args(["-c", "exit 3"])).unwrap();
    assert_eq!(bound_child.wait_while(|| true).unwrap().and_then(|status| status.code()), Some(3));
    assert!(BoundChild::start(&mut Command::new("/no/such/program")).is_err());
}

#[test]
fn one_that_is_dropped_ends_with_what_it_started() {
    // In a session of its own and ignoring requests to end, as some launchers start ranks.
    let script = "(trap '' TERM; exec setsid sh -c 'echo $$; exec sleep 1000') & wait";
    let (mut bound_child, below) = shell(script);
    assert!(bound_child.wait_while(|| false).unwrap().is_none());
    let below = Process::read(below.parse().unwrap()).unwrap();
    drop(bound_child);
    await_end(&below);
}

#[test]
fn one_that_is_deaf_or_stopped_is_ended_too() {
    for script in ["trap '' TERM; echo; exec sleep 1000", "echo; kill -STOP $$"] {
        let (mut bound_child, _) = shell(script);
        let whole = Process::read(bound_child.child().id()).unwrap();
        drop(bound_child);
        await_end(&whole);
    }
}

#[test]
fn signals_that_are_blocked_here_reach_it() {
    let signals = signal::Signals::block(&[signal::TERMINATE]).unwrap();
    // Prints if it gets SIGTERM, which a killed one cannot.
    let (mut bound_child, _) = shell("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done");
    clump_os::process::signal(bound_child.child().id(), signal::TERMINATE).unwrap();
    let ended = bound_child.wait_while(|| true).unwrap();
    assert_eq!((ended.and_then(|status| status.code()), signals.next()), (Some(7), None));
}

#[test]
fn one_whose_starter_is_gone_is_asked_to_end() {
    // The kernel's parent-death signal depends on the thread.
    let starter = std::thread::spawn(|| {
        let (mut bound_child, _) = shell("echo; exec sleep 1000");
        let process = Process::read(bound_child.child().id()).unwrap();
        (bound_child, process)
    });
    let (_tied, process) = starter.join().unwrap();
    await_end(&process);
}
