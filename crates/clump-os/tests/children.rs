//! Children and adopted orphans. A process of its own, with one test: [`process::changed`] reaps
//! any child, and [`descendants`] finds any, also those of other tests.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_os::process::{self, ChildEvent, ChildEvents, Exit, Program, own_pid};
use clump_os::procfs::{Process, descendants, with_variable};
use clump_os::{clock, signal};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Programs whose names are text, half a character at the end, and Latin-1 with the bytes that
/// the format uses.
fn sleepers(folder: &Path) -> [OsString; 3] {
    let names: [&[u8]; 3] = [b"sleep", "berechnungs-gr\u{f6}\u{df}e".as_bytes(), b"\xe4) S 1\n (b"];
    names.map(|name| {
        let to = folder.join(OsStr::from_bytes(name));
        fs::copy("/bin/sleep", &to).unwrap();
        to.into_os_string()
    })
}

#[test]
fn children_and_theirs_are_found_and_killed_whatever_their_names() {
    process::adopt_orphans().unwrap();
    let mark = format!("{}", process::random().unwrap());
    let folder = std::env::temp_dir().join(format!("clump-procfs-{mark}"));
    fs::create_dir(&folder).unwrap();
    let mut started = Vec::new();
    for sleeper in sleepers(&folder) {
        let script = "setsid \"$0\" 1000 & exec \"$0\" 1000";
        let mut program = Program::new("sh", ["-c".into(), script.into(), sleeper]);
        program.variable("CLUMP_TEST_MARK", &mark);
        started.push(process::start(&program).unwrap().pid);
    }
    let named = |p: &Process| p.name != "sh" && p.name != "setsid";
    let deadline = clock::now_ns() + 20_000_000_000;
    while descendants(own_pid()).iter().filter(|p| named(p)).count() < 2 * started.len() {
        assert!(clock::now_ns() < deadline, "sleeping: {:?}", descendants(own_pid()));
        clock::yield_now();
    }
    assert_eq!(with_variable("CLUMP_TEST_MARK", &mark).len(), 2 * started.len());
    for &pid in &started {
        process::signal_group(pid, signal::KILL).unwrap();
    }
    let mut ended = Vec::new();
    loop {
        match process::changed().unwrap() {
            ChildEvents::Of(pid, change) => ended.push((pid, change)),
            ChildEvents::Childless => break,
            ChildEvents::Nothing => {
                for process in descendants(own_pid()) {
                    process.kill().unwrap();
                }
                clock::yield_now();
            }
        }
        assert!(clock::now_ns() < deadline, "all gone: {ended:?}");
    }
    for pid in started {
        assert!(ended.contains(&(pid, ChildEvent::Ended(Exit::Signal(9)))), "{ended:?}");
    }
    assert!(with_variable("CLUMP_TEST_MARK", &mark).is_empty());
    let missing = process::start(&Program::new("/nonexistent/program", [])).unwrap_err();
    assert_eq!(missing.errno, rustix::io::Errno::NOENT);
    fs::remove_dir_all(&folder).unwrap();
}
