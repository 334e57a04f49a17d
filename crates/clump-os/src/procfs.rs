//! Readers of `/proc`: descendants of a process, and the memory that a process has open.

use crate::error::Result;
use crate::process;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str;

/// A process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process number.
    pub pid: u32,
    /// The number of its parent.
    pub parent: u32,
    /// The first 15 bytes of its program's name: any bytes, also half a character at the end.
    pub name: OsString,
    /// One letter: R, S, D, T (stopped), Z (ended, not yet reaped), ...
    pub state: char,
    /// Time at which it started, in clock ticks since boot: with `pid` it names a process for ever.
    pub started: u64,
}

impl Process {
    /// Reads one process; returns `None` when it has ended.
    pub fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads one thread of a process; returns `None` when it has ended.
    pub fn read_thread(pid: u32, thread: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
    }

    /// Reads the format of proc_pid_stat(5). The name is in parentheses and may itself contain any
    /// byte: only the part behind the last parenthesis is text.
    fn parse(stat: &[u8]) -> Option<Self> {
        let open = stat.windows(2).position(|two| two == b" (")?;
        let close = stat.windows(2).rposition(|two| two == b") ")?;
        let name = stat.get(open + 2..close)?;
        let mut fields = str::from_utf8(&stat[close + 2..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        // Fields 3 and 4 are taken; the start is field 22.
        let started = fields.nth(22 - 5)?.parse().ok()?;
        let pid = str::from_utf8(&stat[..open]).ok()?.parse().ok()?;
        Some(Self { pid, parent, name: OsString::from_vec(name.to_vec()), state, started })
    }

    /// Returns true if it could run but does not, or only now: it has a processor, or waits for one
    /// or for a disk. One that is stopped, or waits for something to happen, is not.
    pub fn is_runnable(&self) -> bool {
        matches!(self.state, 'R' | 'D')
    }

    /// Returns true if it is stopped, by a signal or a debugger.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Kills it, unless its number belongs to another process by now.
    ///
    /// # Errors
    /// This process may not.
    pub fn kill(&self) -> Result<()> {
        let Ok(pidfd) = process::pidfd(self.pid) else { return Ok(()) };
        match Self::read(self.pid) {
            Some(now) if now.started == self.started => {
                process::signal_by_fd(&pidfd, crate::signal::KILL)
            }
            _ => Ok(()),
        }
    }
}

/// Returns the time in ns for which the first thread of process `pid` could have run but waited for
/// a processor; `None` if it has ended, or this kernel does not report it.
pub fn waited_ns(pid: u32) -> Option<u64> {
    // proc(5): time on a processor, time waiting for one, number of turns.
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The times that all processors have spent so far, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTimes {
    busy: u64,
    all: u64,
    processors: u32,
}

impl ProcessorTimes {
    /// Reads them; `None` where the kernel does not report them.
    pub fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the format of proc_stat(5): user, nice, system, idle, waiting for input, and more.
    fn parse(text: &str) -> Option<Self> {
        let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = all.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        // Times of guests are in those of users.
        let all = ticks.iter().take(8).sum::<u64>();
        let lines = text.lines().filter(|line| line.starts_with("cpu")).count();
        let processors = u32::try_from(lines - 1).ok().filter(|&number| number > 0)?;
        Some(Self { busy: all.checked_sub(idle)?, all, processors })
    }

    /// Returns how many processors were busy since `before`, on average.
    pub fn busy_since(&self, before: &Self) -> f64 {
        let [busy, all] =
            [self.busy - before.busy.min(self.busy), self.all - before.all.min(self.all)];
        #[expect(clippy::cast_precision_loss, reason = "ticks of a measurement are few")]
        let share = busy as f64 / all.max(1) as f64;
        share * f64::from(self.processors)
    }
}

/// Returns how often the kernel took the processor from the first thread of process `pid`; `None`
/// if it has ended.
pub fn preemptions(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line?.trim().parse().ok()
}

/// Returns the threads of process `pid`, each with the first 15 bytes of its name; none when it has
/// ended.
pub fn threads(pid: u32) -> Vec<(u32, String)> {
    let Ok(list) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let named = |thread: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).ok()?;
        Some((thread, name.trim_end().to_owned()))
    };
    list.filter_map(|entry| named(number(entry.ok()?)?)).collect()
}

/// Returns the children of the first thread of process `pid`; none where the kernel does not list
/// them.
pub fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Returns every process that this one can see.
pub fn processes() -> Vec<Process> {
    pids().filter_map(Process::read).collect()
}

/// Returns the processes below `ancestor`, nearest first, without `ancestor`. Those that have ended
/// and wait to be reaped are left out too.
pub fn descendants(ancestor: u32) -> Vec<Process> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    for process in processes() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = children.remove(&ancestor).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(&process.pid).unwrap_or_default());
        next += 1;
    }
    found.retain(|process| process.state != 'Z' && process.state != 'X');
    found
}

/// Opens, read-only, the first memory file named `label` that process `pid` has open for writing;
/// returns `None` when it has none or may not be inspected. One that has opened it as this does is
/// an observer, and has no part in it.
pub fn open_memory(pid: u32, label: &str) -> Option<OwnedFd> {
    let wanted = format!("/memfd:{label}");
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        let is_it = fs::read_link(entry.path())
            .is_ok_and(|target| target.as_os_str().as_bytes().starts_with(wanted.as_bytes()));
        // The kernel shows the access of a descriptor as the permissions of its link (proc(5)).
        let writes = || entry.metadata().is_ok_and(|link| link.mode() & 0o200 != 0);
        if is_it
            && writes()
            && let Ok(file) = fs::File::open(entry.path())
        {
            return Some(file.into());
        }
    }
    None
}

/// Returns the file that process `pid` has mapped and whose name begins with `name`; `None` if
/// there is none or the process may not be inspected.
pub fn mapped_file(pid: u32, name: &str) -> Option<PathBuf> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    maps.split(|&byte| byte == b'\n').find_map(|line| {
        let at = line.iter().position(|&byte| byte == b'/')?;
        let path = Path::new(OsStr::from_bytes(&line[at..]));
        let file = path.file_name()?.as_bytes();
        file.starts_with(name.as_bytes()).then(|| path.to_owned())
    })
}

/// Returns true if process `pid` has the memory file named `label` mapped; `None` when it has ended
/// or is ending, has no memory any more, or may not be inspected.
pub fn maps_memory(pid: u32, label: &str) -> Option<bool> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok().filter(|maps| !maps.is_empty())?;
    let wanted = format!("/memfd:{label}");
    Some(maps.windows(wanted.len()).any(|bytes| bytes == wanted.as_bytes()))
}

/// Returns the identity of the running kernel: processes with the same one share processors and
/// memory, whatever namespaces they are in. Empty where the kernel does not report it.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Returns the wait status of a process that has ended and that its parent has not waited for.
pub(crate) fn zombie_status(pid: u32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = stat.windows(2).rposition(|two| two == b") ")?;
    let mut fields = str::from_utf8(&stat[close + 2..]).ok()?.split_ascii_whitespace();
    // The first is field 3; the status is field 52.
    fields.next().filter(|&state| state == "Z")?;
    fields.nth(52 - 4)?.parse().ok()
}

/// Returns the bytes of the command line of a process, with spaces between the arguments; empty
/// when it has ended.
pub fn command_line(pid: u32) -> OsString {
    let bytes = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
    let bytes = bytes.unwrap_or_default();
    let parts: Vec<_> = bytes.split(|&byte| byte == 0).filter(|part| !part.is_empty()).collect();
    OsString::from_vec(parts.join(&b' '))
}

/// Returns the value that `variable` had in the environment of a process at its start; `None` when
/// it had none, or may not be inspected.
pub fn variable(pid: u32, variable: &str) -> Option<OsString> {
    let all = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |one: &[u8]| {
        let rest = one.strip_prefix(variable.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(rest).to_owned())
    };
    all.split(|&byte| byte == 0).find_map(value)
}

/// Returns the processes whose environment at their start held `variable=value`; only those that
/// this user may inspect.
pub fn with_variable(variable: &str, value: &str) -> Vec<Process> {
    let has = |pid: &u32| self::variable(*pid, variable).is_some_and(|is| is == value);
    pids().filter(has).filter_map(Process::read).filter(|process| process.state != 'Z').collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::own_pid;

    #[test]
    fn busy_processors_are_those_that_neither_idle_nor_wait_for_input() {
        let text = |user: u64, idle: u64| {
            format!("cpu  {user} 0 10 {idle} 5 0 0 0 3 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n")
        };
        let [before, after] =
            [text(100, 400), text(160, 440)].map(|text| ProcessorTimes::parse(&text).unwrap());
        assert!((after.busy_since(&before) - 2.0 * 0.6).abs() < 1e-9);
        assert_eq!(before.busy_since(&before), 0.0);
        assert_eq!(ProcessorTimes::parse("intr 5\n"), None);
        assert!(ProcessorTimes::read().is_some());
    }

    #[test]
    fn a_library_that_is_mapped_is_found_by_the_beginning_of_its_name() {
        let found = mapped_file(own_pid(), "libc.so").unwrap();
        assert!(found.is_file(), "{}", found.display());
        assert_eq!(mapped_file(own_pid(), "libnone.so"), None);
        assert_eq!(mapped_file(0, "libc.so"), None);
    }

    #[test]
    fn names_of_any_bytes_are_read() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        let names: [&[u8]; 7] = [
            b"a) b (c",
            b"gr\xf6\xdfe",
            b"berechnungs-gr\xc3",
            b"",
            b" ",
            b"a\nb",
            b"x) S 9 9\n1 (y",
        ];
        for name in names {
            let stat = [b"42 (", name, b") ", rest.as_bytes()].concat();
            let process = Process::parse(&stat).unwrap();
            assert_eq!((process.pid, process.parent, process.started), (42, 1, 777));
            assert_eq!((process.name.as_bytes(), process.state), (name, 'S'));
        }
        for cut in ["42 (x", "", "42 (x) ", "42 ) (", "x (y) S 1"] {
            assert_eq!(Process::parse(cut.as_bytes()), None, "{cut}");
        }
    }

    fn own_thread() -> u32 {
        let link = fs::read_link("/proc/thread-self").unwrap();
        link.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    #[test]
    fn a_thread_that_computes_is_runnable_and_one_that_waits_is_not() {
        use crate::sync::{AtomicBool, Ordering};
        let done = AtomicBool::new(false);
        let (tell, told) = std::sync::mpsc::channel();
        let runnable = |thread| Process::read(thread).unwrap().is_runnable();
        std::thread::scope(|scope| {
            let done = &done;
            let tell_too = tell.clone();
            scope.spawn(move || {
                tell.send(own_thread()).unwrap();
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let spinning = told.recv().unwrap();
            // As long as it spins it is never anything else, but where its memory is waited for.
            assert!(runnable(spinning));
            let (wake, woken) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                tell_too.send(own_thread()).unwrap();
                let _ = woken.recv();
            });
            let waiting = told.recv().unwrap();
            while runnable(waiting) {
                std::thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
            drop(wake);
        });
    }

    #[test]
    fn this_process_is_there() {
        let own = Process::read(own_pid()).unwrap();
        assert!(processes().iter().any(|p| p.pid == own.pid && p.started == own.started));
        assert!(!command_line(own.pid).is_empty());
        assert!(open_memory(own.pid, "no such label").is_none());
        assert_eq!(maps_memory(own.pid, "no such label"), Some(false));
        assert_eq!(maps_memory(u32::MAX, "no such label"), None);
        let memory = crate::map::sealed_memory("clump-procfs-test", 4096).unwrap();
        let seen = open_memory(own.pid, "clump-procfs-test").unwrap();
        assert_eq!(crate::map::sealed_size(std::os::fd::AsFd::as_fd(&seen)).unwrap(), Some(4096));
        let mapped = crate::map::Mapping::shared(&memory, 0, 4096).unwrap();
        assert_eq!(maps_memory(own.pid, "clump-procfs-test"), Some(true));
        drop((mapped, memory));
    }
}
