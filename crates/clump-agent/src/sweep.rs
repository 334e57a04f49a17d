//! Killing whatever is left below this process, however it tried to get away.
//!
//! Descendants whose parents end become children of this process (`adopt_orphans`), so "no child left"
//! means "nothing left"; until then all descendants are looked up and killed, again and again.

use clump_os::printable::printable;
use clump_os::process::{self, ChildEvents};
use clump_os::procfs::{self, Process};
use clump_os::{clock, epoll, signal};
use std::time::Duration;

/// Kills all descendants of this process except those that are spared, and what is below them; gives who
/// they were.
pub(crate) fn kill_below(spared: &[u32]) -> Vec<Process> {
    let mut safe = spared.to_vec();
    let mut doomed = procfs::descendants(process::own_pid());
    // Nearest first: a parent is judged before its children.
    doomed.retain(|p| {
        let is_safe = safe.contains(&p.pid) || safe.contains(&p.parent);
        if is_safe {
            safe.push(p.pid);
        }
        !is_safe
    });
    for process in &doomed {
        // Not being allowed to (a program with the set-user-id bit) is seen by who is left at the end.
        let _ = process.kill();
    }
    doomed
}

/// A process in a few words.
pub(crate) fn describe(process: &Process) -> String {
    format!("{} (pid {})", printable(&process.name), process.pid)
}

/// For the launcher, when the agent is gone: kills and reaps everything below this process within
/// `limit_ns`. Gives how many processes had to be killed, and who is still there.
pub(crate) fn sweep(spared: &[u32], limit_ns: u64) -> (Vec<Process>, Vec<Process>) {
    let deadline = clock::now_ns().saturating_add(limit_ns);
    let mut killed: Vec<Process> = Vec::new();
    let poller = epoll::Poller::new();
    let signals = signal::Signals::block(&[signal::CHILD]);
    if let (Ok(poller), Ok(signals)) = (&poller, &signals) {
        let _ = poller.add(signals, 0, epoll::Interest::Read);
    }
    loop {
        reap();
        let left = kill_below(spared);
        for process in &left {
            if !killed.iter().any(|k| k.pid == process.pid && k.started == process.started) {
                killed.push(process.clone());
            }
        }
        if left.is_empty() || clock::now_ns() >= deadline {
            reap();
            return (killed, left);
        }
        // The end of a child is a signal; that of a grandchild makes none here, so look now and then.
        if let (Ok(poller), Ok(signals)) = (&poller, &signals) {
            let _ = poller.wait(Some(Duration::from_millis(2)));
            while signals.next().is_some() {}
        } else {
            clock::yield_now();
        }
    }
}

/// Takes note of the end of all children that have ended.
fn reap() {
    while matches!(process::changed(), Ok(ChildEvents::Of(..))) {}
}
