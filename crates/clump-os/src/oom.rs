//! Kills by the kernel's out-of-memory killer, distinguished from other SIGKILLs by the kernel's
//! counters.
//!
//! The kernel counts a kill before it sends the signal, in the memory control group of the victim:
//! `memory.events` (version 2) or `memory.oom_control` (version 1). A process in no such group is
//! counted for the whole machine (`/proc/vmstat`). wait(2) reports the signal only.

use std::fs;
use std::path::{Path, PathBuf};

/// Counter of the whole machine.
const OF_MACHINE: &str = "/proc/vmstat";
/// Name of the count in all of these files.
const COUNT: &str = "oom_kill";

/// Counters of the groups of some processes, from the time when each was first watched.
#[derive(Debug, Default)]
pub struct OomCounters {
    groups: Vec<Group>,
    /// Processes, and the index of their group.
    processes: Vec<(u32, usize)>,
}

/// One counter, and the part of it that is accounted for.
#[derive(Debug)]
struct Group {
    file: PathBuf,
    accounted: u64,
}

impl OomCounters {
    /// Begins to watch living process `pid`. Nothing is known of it where the kernel does not
    /// count.
    pub fn watch(&mut self, pid: u32) {
        let file = counter_of(pid);
        let known = self.groups.iter().position(|group| group.file == file);
        let at = known.unwrap_or_else(|| {
            let accounted = count(&file).unwrap_or(0);
            self.groups.push(Group { file, accounted });
            self.groups.len() - 1
        });
        debug_assert!(at < self.groups.len(), "a process is counted in a group");
        self.processes.push((pid, at));
    }

    /// Returns true if the kernel has killed a process of the group of `pid` for memory that no
    /// earlier call has accounted for. Called once for each watched process that ended by SIGKILL.
    pub fn account(&mut self, pid: u32) -> bool {
        let found = self.processes.iter().find(|(watched, _)| *watched == pid);
        let group = found.and_then(|&(_, at)| self.groups.get_mut(at));
        group.is_some_and(|group| {
            let has_risen = count(&group.file).is_some_and(|now| now > group.accounted);
            group.accounted += u64::from(has_risen);
            has_risen
        })
    }
}

/// Returns the file that counts kills of `pid`'s group.
fn counter_of(pid: u32) -> PathBuf {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let files = counters(&read("cgroup"), &read("mountinfo"));
    let counts = files.into_iter().find(|file| count(file).is_some());
    counts.unwrap_or_else(|| OF_MACHINE.into())
}

/// Returns the files that may count kills of a process, by its control groups and its mounts as
/// `/proc` lists them.
fn counters(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let of_group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (kind, name) = match controllers {
            "" => ("cgroup2", "memory.events"),
            list if list.split(',').any(|one| one == "memory") => ("cgroup", "memory.oom_control"),
            _ => return None,
        };
        mounts.lines().find_map(|mount| {
            let (before, after) = mount.split_once(" - ")?;
            let mut after = after.split(' ');
            let is_it = after.next() == Some(kind)
                && (kind == "cgroup2" || after.nth(1)?.split(',').any(|one| one == "memory"));
            let mut before = before.split(' ').skip(3);
            let (root, at) = (before.next()?, before.next()?);
            let below = Path::new(path).strip_prefix(root).ok().filter(|_| is_it)?;
            Some(Path::new(at).join(below).join(name))
        })
    };
    groups.lines().filter_map(of_group).collect()
}

/// Returns the count of kills in a file of the kernel.
fn count(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(COUNT)?.trim_start().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_both_versions_and_below_the_root_of_a_mount() {
        let second = "25 21 0:22 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";
        let paths = |groups, mounts| {
            let found = counters(groups, mounts);
            found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths("0::/a/b\n", second), ["/sys/fs/cgroup/a/b/memory.events"]);
        let first = "31 25 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     32 25 0:29 /docker/1 /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup rw,memory\n";
        let groups = "2:cpu:/docker/1\n4:memory:/docker/1/x\n0::/\n";
        assert_eq!(paths(groups, first), ["/sys/fs/cgroup/memory/x/memory.oom_control"]);
        // A group outside the mount cannot be read.
        assert!(paths("4:memory:/elsewhere\n", first).is_empty());
        assert!(paths("nonsense\n::\n4:memory\n", "nonsense - \n").is_empty());
    }

    #[test]
    fn kills_are_accounted_for_once_and_by_group() {
        let folder = std::env::temp_dir().join(format!("clump-oom-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, kills| {
            let file = folder.join(name);
            fs::write(&file, format!("low 0\noom 9\noom_kill {kills}\noom_group_kill 7\n"))
                .unwrap();
            file
        };
        let (one, other) = (write("one", 5), write("other", 0));
        let group = |file: &Path, accounted| Group { file: file.into(), accounted };
        let mut counters = OomCounters {
            groups: vec![group(&one, 5), group(&other, 0)],
            processes: vec![(10, 0), (11, 0), (20, 1)],
        };
        assert!(!counters.account(10), "killed by somebody");
        write("one", 6);
        assert!(!counters.account(20), "another group");
        assert!(counters.account(11));
        assert!(!counters.account(10), "that kill was another's");
        assert!(!counters.account(99), "never watched");
        fs::remove_dir_all(&folder).unwrap();
        assert!(!counters.account(11), "the group is gone");
    }

    #[test]
    fn this_process_is_counted_somewhere() {
        let file = counter_of(std::process::id());
        assert!(count(&file).is_some(), "{}", file.display());
    }
}
