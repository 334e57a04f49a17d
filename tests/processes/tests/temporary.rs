//! Temporary folders of commands: removed however these end, and nothing else is.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::{Folder, Job, Running, signals, until};
use std::path::PathBuf;

/// Returns the content of a folder.
fn inside(folder: &Folder) -> Vec<PathBuf> {
    std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Starts a comparison, and returns it once it has its temporary folder in `folder`.
fn comparing(folder: &Folder) -> Running {
    let before = inside(folder).len();
    let job = Job::command("lab compare --rounds 100").with(|command| {
        command.env("TMPDIR", folder.path());
    });
    let job = job.start();
    until("a temporary folder", || (inside(folder).len() == before + 1).then_some(()));
    job
}

#[test]
fn an_interrupted_comparison_leaves_nothing() {
    for (signal, code) in [(signals::INTERRUPT, 130), (signals::TERMINATE, 143)] {
        // At once, and when a job of it runs.
        for processes in [1, 4] {
            let folder = Folder::new();
            let compare = comparing(&folder);
            until("its processes", || (compare.processes().len() >= processes).then_some(()));
            compare.signal(compare.launcher(), signal);
            // Also checks that no process is left.
            let ended = compare.finish();
            ended.expect(code, &["the measurement was interrupted"]);
            assert_eq!(inside(&folder), [] as [PathBuf; 0]);
        }
    }
}

#[test]
fn what_a_killed_command_left_goes_when_the_next_starts() {
    let folder = Folder::new();
    let killed = comparing(&folder);
    let left = inside(&folder);
    until("a job of it", || (killed.processes().len() >= 4).then_some(()));
    killed.signal(killed.launcher(), signals::KILL);
    // No process is left all the same: the kernel kills its programs.
    assert_eq!(killed.finish().code, -i32::from(signals::KILL));
    assert_eq!(inside(&folder), left);
    let others = folder.path().join("clump-demo-of-mine");
    std::fs::create_dir(&others).unwrap();
    let demo = |options: &str| {
        let place = folder.path().display();
        Job::command(&format!("demo --folder {place} {options}"))
    };
    // A wrong command line creates nothing and removes nothing.
    demo("--records none").finish().expect(2, &[]);
    assert_eq!(inside(&folder).len(), 2);
    let demo = demo("--records 300000").start();
    until("what was left to go", || (!left[0].exists()).then_some(()));
    until("its own folder", || (inside(&folder).len() == 2).then_some(()));
    demo.signal(demo.launcher(), signals::INTERRUPT);
    assert_eq!(demo.finish().code, 130);
    assert_eq!(inside(&folder), [others]);
}

#[test]
fn who_is_there_keeps_his_folder() {
    let folder = Folder::new();
    let first = comparing(&folder);
    let own = inside(&folder);
    let second = comparing(&folder);
    second.signal(second.launcher(), signals::INTERRUPT);
    assert_eq!(second.finish().code, 130);
    assert_eq!(inside(&folder), own);
    first.signal(first.launcher(), signals::HANGUP);
    assert_eq!(first.finish().code, 129);
    assert_eq!(inside(&folder), [] as [PathBuf; 0]);
}
