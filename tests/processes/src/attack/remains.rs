//! Remains of a job: processes, files, names.

use super::place::Folder;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A living process of a job.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The number of its parent.
    pub parent: u32,
    /// Its arguments, for display.
    pub command: String,
    /// Its state, and its wait channel in the kernel.
    pub state: String,
}

impl Process {
    /// Formats it in words.
    pub fn shown(&self) -> String {
        format!("{} `{}` ({})", self.pid, self.command, self.state)
    }

    /// Kills it.
    pub fn kill(&self) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns the living processes of a job: they have its folder in their environment or arguments,
/// or work in it.
pub fn processes(folder: &Folder) -> Vec<Process> {
    let mark = folder.path().as_os_str().as_bytes();
    let own = getpid().as_raw_nonzero().get().unsigned_abs();
    let all = pids().into_iter().filter(|&pid| pid != own);
    all.filter(|&pid| is_marked(pid, mark)).filter_map(living).collect()
}

/// Returns orphans that became children of this process, but not `spared`; reaps those that have
/// ended.
pub fn orphans(spared: u32) -> Vec<Process> {
    let own = getpid().as_raw_nonzero().get().unsigned_abs();
    let mut found = Vec::new();
    for pid in pids().into_iter().filter(|&pid| pid != spared) {
        let Some((state, parent)) = state(pid) else { continue };
        if parent != own {
            continue;
        }
        if state == 'Z' {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        } else {
            found.extend(living(pid));
        }
    }
    found
}

/// Returns the content of a job's temporary folder, and names of clump elsewhere that did not
/// exist `before`.
pub fn files(folder: &Folder, before: &[PathBuf]) -> Vec<PathBuf> {
    let own = entries(&folder.temporary());
    let named = names().into_iter().filter(|path| !before.contains(path));
    own.into_iter().chain(named).collect()
}

/// Returns names of clump in places that all jobs share: shared memory, interfaces, named
/// namespaces.
pub fn names() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (place, start) in
        [("/dev/shm", "clump"), ("/sys/class/net", "to-"), ("/run/netns", "clump")]
    {
        found.extend(entries(&PathBuf::from(place)).into_iter().filter(|path| {
            path.file_name().is_some_and(|name| name.as_bytes().starts_with(start.as_bytes()))
        }));
    }
    found
}

fn entries(folder: &std::path::Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn pids() -> Vec<u32> {
    let entries = entries(&PathBuf::from("/proc"));
    entries.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
}

fn is_marked(pid: u32, mark: &[u8]) -> bool {
    let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let holds = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
    let place = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    holds(place.as_os_str().as_bytes()) || holds(&read("environ")) || holds(&read("cmdline"))
}

fn living(pid: u32) -> Option<Process> {
    let (state, parent) = state(pid).filter(|(state, _)| !"ZX".contains(*state))?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = command
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| word.rsplit(|byte| *byte == b'/').next().unwrap_or(word))
        .map(|word| word.escape_ascii().to_string())
        .collect();
    let wchan = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    Some(Process { pid, parent, command: words.join(" "), state: format!("{state} {wchan}") })
}

/// Returns state and parent of a process: they follow its name, which is in parentheses and may
/// hold anything.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
