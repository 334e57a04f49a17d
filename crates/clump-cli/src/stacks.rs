//! Stacks of the threads of processes, read by a debugger of this machine.
//!
//! `eu-stack` is preferred to `gdb`: it stops a process for a shorter time. Both need the right to
//! trace the process: the same user and `kernel.yama.ptrace_scope` 0, or `CAP_SYS_PTRACE`.

use clump_os::{clock, procfs, thread};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest time for a process: a debugger reads the symbols of all its libraries.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Most bytes that are read of a debugger's output.
const MAX_BYTES: u64 = 4 << 20;
/// Most functions of a stack.
const MAX_DEPTH: usize = 24;

/// Stacks of the threads of a process, by thread.
pub(crate) type Stacks = BTreeMap<u32, Vec<String>>;

/// A debugger that prints stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Debugger {
    EuStack(PathBuf),
    Gdb(PathBuf),
}

impl Debugger {
    /// Finds one in the search path.
    #[allow(clippy::disallowed_methods, reason = "the user's search path is no setting of clump")]
    pub(crate) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let find = |name: &str| {
            std::env::split_paths(&path)
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join(name))
                .find(|file| file.is_file())
        };
        find("eu-stack").map(Self::EuStack).or_else(|| find("gdb").map(Self::Gdb))
    }

    /// Returns the stacks of the threads of a process, which is stopped meanwhile.
    ///
    /// # Errors
    /// The reason in a line.
    pub(crate) fn stacks(&self, pid: u32) -> Result<Stacks, String> {
        // A debugger may continue a process that a user has stopped.
        match procfs::Process::read(pid) {
            None => return Err("it has ended".into()),
            Some(process) if process.is_stopped() => return Err("it is stopped".into()),
            Some(_) => {}
        }
        let text = self.ask(pid)?;
        let found = parse(&text);
        if found.is_empty() {
            return Err(format!(
                "{} shows none; it needs the right to trace: the same user and \
                 kernel.yama.ptrace_scope 0, or CAP_SYS_PTRACE",
                self.name()
            ));
        }
        Ok(found)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::EuStack(_) => "eu-stack",
            Self::Gdb(_) => "gdb",
        }
    }

    fn command(&self, pid: u32) -> Command {
        let pid = pid.to_string();
        match self {
            Self::EuStack(program) => {
                let mut command = Command::new(program);
                command.args(["-n", "64", "-p", &pid]);
                command
            }
            Self::Gdb(program) => {
                let mut command = Command::new(program);
                // No scripts that come with a program's files are executed.
                command.args(["-nx", "-q", "-batch", "-iex", "set auto-load off"]);
                command.args(["-iex", "set debuginfod enabled off", "-p", &pid]);
                command.args([
                    "-ex",
                    "set print address off",
                    "-ex",
                    "thread apply all backtrace 64",
                ]);
                command
            }
        }
    }

    fn ask(&self, pid: u32) -> Result<String, String> {
        let mut command = self.command(pid);
        command.env("DEBUGINFOD_URLS", "").env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let failed = |why: &dyn std::fmt::Display| format!("{} fails: {why}", self.name());
        let mut child = command.spawn().map_err(|e| failed(&e))?;
        let mut pipe = child.stdout.take().ok_or_else(|| failed(&"no output"))?.take(MAX_BYTES);
        let reader = thread::spawn("clump-stacks", move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            bytes
        });
        let in_time = ended(&mut child);
        let bytes = reader.map_err(|e| failed(&e))?.join().unwrap_or_default();
        match in_time {
            true => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            false => Err(failed(&format!("no end within {} s", TIME_LIMIT.as_secs()))),
        }
    }
}

/// Waits for a process, and kills it after the time limit; returns true if it ended by itself. A
/// process that a killed debugger has traced continues.
fn ended(child: &mut Child) -> bool {
    let started = clock::instant();
    while matches!(child.try_wait(), Ok(None)) && started.elapsed() < TIME_LIMIT {
        clock::pass(Duration::from_millis(5));
    }
    let in_time = matches!(child.try_wait(), Ok(Some(_)));
    if !in_time {
        let _ = child.kill();
        let _ = child.wait();
    }
    in_time
}

/// Reads what either debugger prints: lines `Thread 2 (Thread 0x7f... (LWP 17) "name"):` or
/// `TID 17:`, each before lines `#0  function ...`.
fn parse(text: &str) -> Stacks {
    let mut found = Stacks::new();
    let mut thread = None;
    for line in text.lines() {
        if let Some(number) = thread_of(line) {
            thread = Some(number);
            found.insert(number, Vec::new());
        } else if line.starts_with('#')
            && let Some(stack) = thread.and_then(|thread| found.get_mut(&thread))
            && stack.len() < MAX_DEPTH
        {
            stack.push(line.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    found.retain(|_, stack| !stack.is_empty());
    found
}

fn thread_of(line: &str) -> Option<u32> {
    let digits = if let Some(rest) = line.strip_prefix("TID ") {
        rest.strip_suffix(':')?
    } else if line.starts_with("Thread ") {
        let rest = line.split_once("LWP ").or_else(|| line.split_once("process "))?.1;
        rest.split_once(|c: char| !c.is_ascii_digit())?.0
    } else {
        return None;
    };
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_debuggers_print_is_read() {
        let gdb = "warning: x\n[New LWP 18]\n\nThread 2 (Thread 0x7f01 (LWP 18) \"a (b\"):\n\
                   #0  futex_wait () at x.c:1\n#1  main   (argc=1)\n\nThread 1 (LWP 17 \"p\"):\n\
                   #0  read ()\nat top\n[Inferior 1 (process 17) detached]\n";
        let both: Stacks = [
            (18, vec!["#0 futex_wait () at x.c:1".to_owned(), "#1 main (argc=1)".to_owned()]),
            (17, vec!["#0 read ()".to_owned()]),
        ]
        .into();
        assert_eq!(parse(gdb), both);
        let eu = "PID 17 - process\nTID 17:\n#0  0x00007f read\nTID 18:\n";
        assert_eq!(parse(eu), [(17, vec!["#0 0x00007f read".to_owned()])].into());
        let deep = "TID 1:\n".to_owned() + &"#9 f\n".repeat(MAX_DEPTH + 5);
        assert_eq!(parse(&deep)[&1].len(), MAX_DEPTH);
        for none in ["", "#0 f", "TID x:\n#0 f", "Thread 99999999999 (LWP 99999999999):\n#0 f"] {
            assert_eq!(parse(none), Stacks::new(), "{none}");
        }
    }
}
