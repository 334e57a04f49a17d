//! Progress of a command that runs several jobs: a bar on the error stream where that is a
//! terminal, else a line now and then. Standard output, and so `--json`, never has any of it.

use clump_os::{clock, console};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Time between two lines where there is no terminal: a log is to stay short.
const EVERY_NS: u64 = 60_000_000_000;
/// Time between two views of the clock on a terminal.
const TICK: Duration = Duration::from_millis(500);

/// Progress of a command.
#[derive(Debug)]
pub struct JobProgress {
    command: &'static str,
    bar: ProgressBar,
    all: usize,
    begun: usize,
    start_ns: u64,
    next_line_ns: u64,
}

impl JobProgress {
    /// Begins a command that runs `all` jobs, or that many at most.
    pub fn new(command: &'static str, all: usize) -> Self {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(all as u64),
            false => ProgressBar::hidden(),
        };
        let style =
            ProgressStyle::with_template("{prefix} [{bar:20}] {pos} of {len}, {elapsed}: {msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(command);
        bar.enable_steady_tick(TICK);
        let now = clock::now_ns();
        Self { command, bar, all, begun: 0, start_ns: now, next_line_ns: now + EVERY_NS }
    }

    /// Begins the next job, and says what it measures.
    pub fn next(&mut self, what: &str) {
        debug_assert!(self.begun < self.all, "more jobs than were announced");
        self.update(self.begun + 1, self.all, what);
    }

    /// Sets how many jobs have begun and how many there are, and says what runs.
    pub fn update(&mut self, begun: usize, all: usize, what: &str) {
        (self.begun, self.all) = (begun, all);
        self.bar.set_length(all as u64);
        self.bar.set_position(begun.saturating_sub(1) as u64);
        self.bar.set_message(what.to_owned());
        if !std::io::stderr().is_terminal() {
            self.say(what);
        }
    }

    /// Writes a line, if one is due.
    fn say(&mut self, what: &str) {
        let now_ns = clock::now_ns();
        if self.is_due(now_ns) {
            console::err(&self.line(what, now_ns.saturating_sub(self.start_ns)));
        }
    }

    /// Writes a line that stays, above the bar.
    pub fn note(&self, text: &str) {
        self.bar.suspend(|| console::err(text));
    }

    /// Returns true if a line is due: each minute.
    fn is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.next_line_ns;
        if due {
            self.next_line_ns = now_ns + EVERY_NS;
        }
        due
    }

    fn line(&self, what: &str, since_ns: u64) -> String {
        let Self { command, all, begun, .. } = self;
        format!("{command}: {begun} of {all}: {what}, {} s so far", since_ns / 1_000_000_000)
    }
}

impl Drop for JobProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_job_runs_and_for_how_long() {
        let mut progress = JobProgress::new("logp", 2);
        progress.next("shm");
        assert_eq!(progress.line("shm", 7_900_000_000), "logp: 1 of 2: shm, 7 s so far");
    }

    #[test]
    fn where_there_is_no_terminal_lines_are_rare() {
        let mut progress = JobProgress::new("logp", 2);
        let start = progress.start_ns;
        let due = [0, 1, 59, 60, 61, 119, 120].map(|s| progress.is_due(start + s * 1_000_000_000));
        assert_eq!(due, [false, false, false, true, false, false, true]);
    }
}
