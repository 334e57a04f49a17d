//! Two users of one machine: neither sees, reads or joins the other's job.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::{Folder, Job, program, signals};
use std::os::unix::fs::PermissionsExt;

/// Numbers of users that the machine does not know.
const OWNER: u32 = 54_401;
const OTHER: u32 = 54_402;

/// Returns a command of one of them.
fn by(user: u32, words: &[&str]) -> Job {
    let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
    Job::any("setpriv").with_args(&[&[uid.as_str(), &gid, "--clear-groups"], words].concat())
}

#[test]
fn a_job_is_its_users_alone() {
    let [clump, prog] =
        ["clump-under-test", "prog"].map(|name| program(name).display().to_string());
    let tried = by(OTHER, &[&clump, "--version"]).finish();
    if tried.code != 0 {
        println!("SKIPPED: no other user can run this program here (as root): {}", tried.err);
        return;
    }
    let folder = Folder::inside(std::path::Path::new("/tmp"));
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), all).unwrap();
    let ready = folder.path().display().to_string();
    let words = ["run", "-n", "2", "--nodes", "2", &prog, "talk", "0", "--ready", &ready];
    let job = by(OWNER, &[&[clump.as_str()], &words[..]].concat()).start();
    job.await_ready(folder.path(), 0..2);
    let processes = job.processes();
    assert!(processes.len() >= 5, "launcher, agents and ranks: {processes:?}");
    for process in &processes {
        let pid = process.pid.to_string();
        let seen = by(OTHER, &[&clump, "stats", "--pid", &pid]).finish();
        seen.expect(125, &["has no part in a clump job of this user"]);
        // The memory of job and rank, and the environment, as files of the kernel.
        let look = format!(
            "cat /proc/{pid}/environ /proc/{pid}/mem; ls /proc/{pid}/fd /proc/{pid}/map_files"
        );
        let looked = by(OTHER, &["sh", "-c", &look]).finish();
        assert_eq!((looked.code != 0, looked.out.trim()), (true, ""), "{}", looked.err);
        // What everybody may read has no key: no word that is as long.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let is_key = |word: &[u8]| word.len() >= 32 && word.iter().all(u8::is_ascii_hexdigit);
        assert!(!line.split(|&byte| byte == 0).any(is_key), "{}", String::from_utf8_lossy(&line));
    }
    let list = by(OTHER, &[&clump, "stats", "--json"]).finish();
    let owned = by(OWNER, &[&clump, "stats", "--json"]).finish();
    let agents = job.processes().into_iter().map(|process| process.pid.to_string());
    let named = |text: &str| agents.clone().any(|pid| text.contains(&format!(":{pid},")));
    assert!(named(&owned.out), "its owner sees it: {}", owned.out);
    assert!(!named(&list.out), "{}", list.out);
    // Signals of the other do not reach it.
    let killed = by(OTHER, &["sh", "-c", &format!("kill -9 {}", job.launcher())]).finish();
    assert_ne!(killed.code, 0);
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}
