//! Kills every descendant of this process, however it tried to get away.
//!
//! Descendants whose parents end become children of this process (`adopt_orphans`), so "no child
//! left" means "nothing left"; until then all descendants are searched and killed, again and
//! again.

use clump_os::printable::printable;
use clump_os::process::{self, ChildEvents};
use clump_os::procfs::{self, Process};
use clump_os::{clock, epoll, signal};
use std::time::Duration;

/// Returns the living descendants of this process, which adopts orphans. Looks at all processes of
/// the machine only if it has a child.
pub(crate) fn own_descendants() -> Vec<Process> {
    if process::is_childless() { Vec::new() } else { procfs::descendants(process::own_pid()) }
}

/// Kills all descendants of this process except those that are spared, and their descendants;
/// returns the killed.
pub(crate) fn kill_below(spared: &[u32]) -> Vec<Process> {
    let mut safe = spared.to_vec();
    let mut doomed = own_descendants();
    // Nearest first: a parent is classified before its children.
    doomed.retain(|p| {
        let is_safe = safe.contains(&p.pid) || safe.contains(&p.parent);
        if is_safe {
            safe.push(p.pid);
        }
        !is_safe
    });
    for process in &doomed {
        // A process that may not be killed (a program with the set-user-id bit) is among those
        // left at the end.
        let _ = process.kill();
    }
    doomed
}

/// Describes a process in a few words.
pub(crate) fn describe(process: &Process) -> String {
    format!("{} (pid {})", printable(&process.name), process.pid)
}

/// Kills and reaps every descendant of this process within `limit_ns`, for the launcher, when the
/// agent is gone. Returns the processes that had to be killed, and those still there.
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
        // The end of a child is a signal; that of a grandchild sends none here, so search now and
        // then.
        if let (Ok(poller), Ok(signals)) = (&poller, &signals) {
            let _ = poller.wait(Some(Duration::from_millis(2)));
            while signals.next().is_some() {}
        } else {
            clock::yield_now();
        }
    }
}

/// Reaps all children that have ended.
fn reap() {
    while matches!(process::changed(), Ok(ChildEvents::Of(..))) {}
}
