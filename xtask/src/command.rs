//! Starts programs: echoed, with no standard input, with a deadline after which the whole process
//! tree is killed, and with the counts of `cargo test` parsed from the output.

use crate::host;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Variable by which tests know how many cases to run (`tests/tier`); unset is the edit tier.
pub const TEST_TIER: &str = "CLUMP_TEST_TIER";

/// The counts of `cargo test`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that were filtered out by an attribute.
    pub ignored: u64,
}

impl Counts {
    /// Adds the counts of a line such as `test result: ok. 3 passed; 0 failed; 0 ignored; ...`.
    pub fn take(&mut self, line: &str) {
        let Some((_, counts)) = line.split_once("test result: ") else { return };
        let counts = counts.split_once(". ").map_or(counts, |(_, rest)| rest);
        for part in counts.split("; ") {
            let Some((number, what)) = part.trim().split_once(' ') else { continue };
            let number: u64 = number.parse().unwrap_or(0);
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, Self { passed, failed, ignored }: Self) {
        self.passed += passed;
        self.failed += failed;
        self.ignored += ignored;
    }
}

/// The end of a program.
#[derive(Debug)]
pub struct Ended {
    /// True if its exit status was 0, in time.
    pub success: bool,
    /// The reason of its failure; empty on success.
    pub why: String,
    /// Its standard output.
    pub stdout: String,
    /// The counts of `cargo test` in it.
    pub counts: Counts,
}

/// Returns `cargo ARGS` in `root`, without the environment set by the cargo that runs this xtask
/// (otherwise build scripts see other variables and everything is built twice).
pub fn cargo(root: &Path, args: &[&str]) -> Command {
    let program = host::env("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root);
    clean(&mut command);
    command
}

/// Returns `cargo ARGS` of the nightly toolchain.
pub fn cargo_nightly(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(args).current_dir(root);
    clean(&mut command);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let inherited = name.to_string_lossy();
        if inherited.starts_with("CARGO_PKG_")
            || inherited.starts_with("CARGO_MANIFEST_")
            || inherited == "CARGO_BIN_NAME"
            || inherited == "CARGO_CRATE_NAME"
        {
            command.env_remove(&name);
        }
    }
}

/// Runs `command`, passing its output on, for at most `limit`.
///
/// # Errors
/// Fails if the program cannot be started; its own failure is in the result.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended> {
    println!("$ {}", shown(command));
    watch(command, limit, Show::Everything)
}

/// Runs `command` for at most `limit`, with its standard output captured for the caller only.
///
/// # Errors
/// Fails if the program cannot be started; its own failure is in the result.
pub fn run_read(command: &mut Command, limit: Duration) -> Result<Ended> {
    println!("$ {}", shown(command));
    watch(command, limit, Show::Errors)
}

/// Runs `command` without showing anything for at most `limit`; its error stream is dropped.
///
/// # Errors
/// Fails if the program cannot be started; its own failure is in the result.
pub fn run_quiet(command: &mut Command, limit: Duration) -> Result<Ended> {
    watch(command, limit, Show::Nothing)
}

/// Runs `command`, which makes `what`, for at most `limit`.
///
/// # Errors
/// Fails if the program cannot be started, or fails.
pub fn make(command: &mut Command, limit: Duration, what: &str) -> Result<()> {
    let ended = run(command, limit)?;
    ensure!(ended.success, "{what}: {}", ended.why);
    Ok(())
}

/// Formats the command as a user would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    // A script on the command line would fill the screen.
    shown.join(" ").lines().next().unwrap_or_default().to_owned()
}

/// The part of a program's output that is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Everything,
    Errors,
    Nothing,
}

fn watch(command: &mut Command, limit: Duration, show: Show) -> Result<Ended> {
    let name = shown(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let errors = if show == Show::Nothing { Stdio::null() } else { Stdio::inherit() };
    command.stderr(errors);
    let started = host::now();
    let mut child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
    let stdout = child.stdout.take().context("standard output was asked for")?;
    let reader = std::thread::spawn(move || {
        let (mut all, mut counts) = (String::new(), Counts::default());
        let mut lines = BufReader::new(stdout);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
            let text = String::from_utf8_lossy(&line);
            if show == Show::Everything {
                print!("{text}");
            }
            counts.take(text.trim_end());
            all.push_str(&text);
            line.clear();
        }
        (all, counts)
    });
    let status = loop {
        if let Some(status) = child.try_wait().with_context(|| format!("waiting for `{name}`"))? {
            break Some(status);
        }
        if started.elapsed() > limit {
            kill_tree(&mut child);
            break None;
        }
        host::pause();
    };
    let (stdout, counts) = reader.join().unwrap_or_default();
    let success = status.is_some_and(|s| s.success());
    Ok(Ended { success, why: reason(status, limit), stdout, counts })
}

fn reason(status: Option<ExitStatus>, limit: Duration) -> String {
    match status {
        Some(status) if status.success() => String::new(),
        Some(status) => status.to_string(),
        None => format!("killed: not done after {} s", limit.as_secs()),
    }
}

/// Kills a child and all its descendants. They are stopped first, until no new one turns up: a
/// parent killed before its child is found would leave that child behind.
fn kill_tree(child: &mut Child) {
    let signal = |signal: &str, pids: &[u32]| {
        // The shell's own `kill`: a small machine has no program of that name.
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill \"$@\"", "sh", signal]).args(pids.iter().map(u32::to_string));
        let _ = kill.stderr(Stdio::null()).status();
    };
    let mut doomed = vec![child.id()];
    signal("-STOP", &doomed);
    loop {
        let mut fresh = descendants(child.id());
        fresh.retain(|pid| !doomed.contains(pid));
        if fresh.is_empty() {
            break;
        }
        signal("-STOP", &fresh);
        doomed.append(&mut fresh);
    }
    signal("-KILL", &doomed);
    let _ = child.wait();
}

/// Returns processes below `root`, parents before children.
fn descendants(root: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let parents: Vec<(u32, u32)> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            // A name is any bytes; what is behind it is text.
            let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parent(&String::from_utf8_lossy(&stat))?))
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        found.extend(parents.iter().filter(|(_, p)| *p == above).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// Returns the parent's id: the second field after the name, which is in parentheses and may hold
/// anything.
fn parent(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_test_binaries() {
        let mut counts = Counts::default();
        counts.take("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out");
        counts
            .take("test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        counts.take("running 9 tests");
        assert_eq!(counts, Counts { passed: 7, failed: 2, ignored: 1 });
    }

    #[test]
    fn a_program_past_its_deadline_is_killed_with_its_children() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 600 & sleep 600"]);
        let ended = run_quiet(&mut shell, Duration::from_millis(100)).unwrap();
        // The call returned, so no process holds the pipe any more: the children are gone too.
        assert!(!ended.success && ended.why.contains("killed"), "{}", ended.why);
    }

    #[test]
    fn a_process_name_with_parentheses_does_not_confuse() {
        assert_eq!(parent("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent("garbled"), None);
    }

    #[test]
    fn failure_is_told_in_words() {
        let ended = run_quiet(Command::new("sh").args(["-c", "exit 3"]), Duration::from_secs(60));
        let ended = ended.unwrap();
        assert_eq!((ended.success, ended.why.as_str()), (false, "exit status: 3"));
        assert!(run_quiet(&mut Command::new("/no/such/program"), Duration::from_secs(1)).is_err());
    }
}
