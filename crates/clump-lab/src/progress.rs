//! Progress of a command that runs several jobs: lines on the error stream, where that is a
//! terminal. Standard output, and so `--json`, never has any of them.

use anyhow::{Context, Result};
use clump_os::{clock, console};
use std::io::IsTerminal;
use std::process::Command;
use std::time::Duration;

/// Time between two lines about one job.
const EVERY_NS: u64 = 5_000_000_000;
/// Longest time between the end of a job and its notice.
const NAP: Duration = Duration::from_millis(50);

/// Progress of a command.
#[derive(Debug)]
pub struct JobProgress {
    command: &'static str,
    all: usize,
    begun: usize,
    start_ns: u64,
    shown: bool,
}

impl JobProgress {
    /// Begins a command that runs `all` jobs; it is silent where the error stream is no terminal.
    pub fn new(command: &'static str, all: usize) -> Self {
        let shown = std::io::stderr().is_terminal();
        Self { command, all, begun: 0, start_ns: clock::now_ns(), shown }
    }

    /// Begins the next job, and says what it measures.
    pub fn next(&mut self, what: &str) {
        debug_assert!(self.begun < self.all, "more jobs than were announced");
        self.begun += 1;
        self.say(what);
    }

    /// Runs the next job, which prints its output itself, and says every few seconds that it still
    /// runs. Returns its exit code.
    ///
    /// # Errors
    /// Fails if the job cannot be started.
    pub fn run(&mut self, what: &str, command: &mut Command) -> Result<u8> {
        self.next(what);
        if !self.shown {
            return crate::launch::code(command);
        }
        let mut job = command.spawn().context("starting a job of this program")?;
        let mut next_ns = clock::now_ns() + EVERY_NS;
        let status = loop {
            if let Some(status) = job.try_wait().context("waiting for a job of this program")? {
                break status;
            }
            if clock::now_ns() >= next_ns {
                next_ns += EVERY_NS;
                self.say(what);
            }
            clock::pass(NAP);
        };
        Ok(crate::launch::code_of(status))
    }

    fn say(&self, what: &str) {
        if self.shown {
            console::err(&self.line(what, clock::now_ns().saturating_sub(self.start_ns)));
        }
    }

    fn line(&self, what: &str, since_ns: u64) -> String {
        let Self { command, all, begun, .. } = self;
        format!("{command}: {begun} of {all}: {what}, {} s so far", since_ns / 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_job_runs_and_for_how_long() {
        let mut progress = JobProgress { shown: false, ..JobProgress::new("logp", 2) };
        progress.next("shm");
        assert_eq!(progress.line("shm", 7_900_000_000), "logp: 1 of 2: shm, 7 s so far");
        let code = |shown| {
            let mut progress = JobProgress { shown, ..JobProgress::new("test", 1) };
            progress.run("a job", Command::new("sh").args(["-c", "exit 7"])).unwrap()
        };
        assert_eq!((code(false), code(true)), (7, 7));
        assert!(JobProgress::new("logp", 1).run("none", &mut Command::new("/no/such")).is_err());
    }
}
