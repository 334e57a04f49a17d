//! Other programs: found, run within a time limit, and always ended with this one.

use anyhow::{Context, Result, bail};
use clump_os::bound_child::BoundChild;
use clump_os::{clock, signal, thread};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time limit of a workload; the slowest known is MPICH's crowd with 16 ranks on 2 cores, about 3
/// s.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Returns the program of that name in the usual folders.
pub fn find(name: &str) -> Option<PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/bin", "/opt/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

/// A program that ends with its guard.
#[derive(Debug)]
pub struct Guard {
    program: BoundChild,
    output: Option<Reader>,
    complaint: Option<Reader>,
}

/// Thread that reads a child's output while it runs: a pipe holds 64 KiB, a report can be longer.
type Reader = JoinHandle<std::io::Result<String>>;

fn reader(mut pipe: impl Read + Send + 'static) -> clump_os::Result<Reader> {
    thread::spawn("clump-reader", move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text)?;
        Ok(text)
    })
}

fn read(reader: Option<Reader>) -> Result<String> {
    match reader.map(JoinHandle::join) {
        None => Ok(String::new()),
        Some(Ok(text)) => text.context("reading what a peer printed"),
        Some(Err(_)) => bail!("the thread that read what a peer printed panicked"),
    }
}

impl Guard {
    /// Starts the program.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = BoundChild::start(command)
            .with_context(|| format!("starting {:?}", command.get_program()))?;
        let output = program.child().stdout.take().map(reader).transpose()?;
        let complaint = program.child().stderr.take().map(reader).transpose()?;
        Ok(Self { program, output, complaint })
    }

    /// Waits for its end, at most until `limit` or, where signals are left pending, until the user
    /// interrupts. Returns its output.
    ///
    /// # Errors
    /// Fails if it did not end in time, was interrupted, or reported failure.
    pub fn finish(mut self, limit: Duration) -> Result<String> {
        let deadline = clock::now_ns() + u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 2);
        let Some(status) = self.await_end(deadline)? else {
            match signal::pending(&signal::ENDS) {
                Some(signal) => bail!("interrupted ({})", signal::name(signal)),
                None => bail!("it did not end within {} s and was stopped", limit.as_secs()),
            }
        };
        let text = read(self.output.take())?;
        if !status.success() {
            let complaint = read(self.complaint.take())?;
            let last = complaint.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("");
            bail!("it ended with {status}: {last}");
        }
        Ok(text)
    }

    fn await_end(&mut self, deadline_ns: u64) -> Result<Option<ExitStatus>> {
        let may_go_on =
            || clock::now_ns() <= deadline_ns && signal::pending(&signal::ENDS).is_none();
        Ok(self.program.wait_while(may_go_on)?)
    }
}

/// Returns a command that runs the same program with a view of `/sys` of its own network namespace:
/// UCX searches there for interfaces.
pub fn with_own_sys(command: &Command) -> Command {
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--mount", "sh", "-c", "mount -t sysfs sysfs /sys && exec \"$0\" \"$@\""]);
    wrapped.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        wrapped.env(name, value.unwrap_or_default());
    }
    wrapped
}

/// Runs a program to its end. Returns its output.
///
/// # Errors
/// Fails if it cannot be started, does not end in time, or reports failure.
pub fn run(command: &mut Command) -> Result<String> {
    Guard::start(command)?.finish(LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_failure_and_overtime() {
        assert_eq!(run(Command::new("echo").arg("a b")).unwrap().trim(), "a b");
        let failed = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(failed.to_string().contains('3') && failed.to_string().contains("why"));
        let endless =
            Guard::start(Command::new("sh").args(["-c", "read never < /dev/zero"])).unwrap();
        assert!(endless.finish(Duration::ZERO).unwrap_err().to_string().contains("did not end"));
        assert!(run(&mut Command::new("/no/such/program")).is_err());
        assert!(find("sh").is_some() && find("no-such-program-anywhere").is_none());
    }
}
