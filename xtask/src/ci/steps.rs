//! The steps of `ci`, in the order in which they run: the quick ones that fail most often first.

use super::{Outcome, Site, Step};
use crate::command::{self, Counts, Ended, cargo};
use crate::{host, icount, tidy};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Every step. clippy and tests build in one target folder, so dependencies are built once each.
pub const STEPS: &[Step] = &[
    Step { name: "format", what: "rustfmt has nothing to change", run: format },
    Step { name: "tidy", what: "house rules hold", run: house_rules },
    Step { name: "clippy", what: "no lint fires in any target", run: clippy },
    Step { name: "tests", what: "README's test command passes", run: tests },
    Step { name: "loom", what: "queues and parking are right in every interleaving", run: loom },
    Step { name: "demo", what: "README's first command works from start to end", run: demo },
    Step {
        name: "oracles",
        what: "the independent checkers check, and find planted defects",
        run: oracles,
    },
    Step {
        name: "sort",
        what: "clump app sort under a small memory cap, judged by clump app valsort",
        run: sort,
    },
    Step { name: "icount", what: "hot paths cost the instructions they did", run: instructions },
];

/// Longest time for anything that may have to build the whole tree.
const BUILD: Duration = Duration::from_secs(1200);
/// Longest time for one run of a program that is built already.
const RUN: Duration = Duration::from_secs(180);

fn outcome(ended: Ended) -> Outcome {
    if ended.success {
        Outcome::Passed(ended.counts)
    } else {
        Outcome::Failed(ended.why, ended.counts)
    }
}

fn plain(passed: bool, why: &str) -> Outcome {
    let none = Counts::default();
    if passed { Outcome::Passed(none) } else { Outcome::Failed(why.to_owned(), none) }
}

fn format(site: &Site) -> Result<Outcome> {
    let args = ["fmt", "--all", "--check"];
    Ok(outcome(command::run(&mut cargo(&site.root, &args), RUN)?))
}

fn house_rules(site: &Site) -> Result<Outcome> {
    Ok(plain(tidy::run(&site.root, tidy::Ratchet::Compare)?, "see the findings above"))
}

fn clippy(site: &Site) -> Result<Outcome> {
    let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    Ok(outcome(command::run(&mut cargo(&site.root, &args), BUILD)?))
}

fn tests(site: &Site) -> Result<Outcome> {
    Ok(outcome(command::run(&mut cargo(&site.root, &["test", "--workspace"]), BUILD)?))
}

fn loom(site: &Site) -> Result<Outcome> {
    if files(&site.root.join("crates/clump-shm/tests"), "loom_", ".rs").is_empty() {
        return Ok(Outcome::Skipped("crates/clump-shm/tests holds no loom_*.rs".into()));
    }
    let args = ["test", "--package", "clump-shm", "--release", "--test", "loom_*"];
    let mut command = cargo(&site.root, &args);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", site.target.join("loom"));
    Ok(outcome(command::run(&mut command, BUILD)?))
}

fn demo(site: &Site) -> Result<Outcome> {
    let args = ["run", "--release", "--", "demo"];
    Ok(outcome(command::run(&mut cargo(&site.root, &args), BUILD)?))
}

/// The oracles' own tests.
fn oracles(site: &Site) -> Result<Outcome> {
    if files(&site.root.join("oracles"), "test_", ".py").is_empty() {
        return Ok(Outcome::Skipped("oracles/ holds no test_*.py".into()));
    }
    let python = match python(site)? {
        Ok(python) => python,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    // unittest reports on standard error, where its counts would pass unseen.
    const RUNNER: &str = "import sys, unittest\n\
        runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)\n\
        unittest.main(module=None, argv=['oracles', 'discover', '-s', 'oracles'], testRunner=runner)";
    let mut command = Command::new(python);
    // -B: no __pycache__ in the tree, which may not be ours to write.
    let mut ended = command::run(command.args(["-B", "-c", RUNNER]).current_dir(&site.root), RUN)?;
    ended.counts = unittest_counts(&ended.stdout);
    Ok(outcome(ended))
}

/// What Python's unittest counted: `Ran 5 tests in 0.1s`, then `OK (skipped=1)` or
/// `FAILED (failures=1, errors=1)`.
fn unittest_counts(report: &str) -> Counts {
    let ran = report.lines().rev().find_map(|line| line.strip_prefix("Ran "));
    let ran: u64 = ran.and_then(|n| n.split(' ').next()?.parse().ok()).unwrap_or(0);
    let last = report.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    let number = |what: &str| {
        let (_, rest) = last.split_once(what)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let failed = number("failures=").unwrap_or(0) + number("errors=").unwrap_or(0);
    let ignored = number("skipped=").unwrap_or(0);
    Counts { passed: ran.saturating_sub(failed + ignored), failed, ignored }
}

/// A Python that has numpy, or why there is none: the one on the path, else an environment of our own.
fn python(site: &Site) -> Result<std::result::Result<PathBuf, String>> {
    let Some(system) = host::program("python3") else {
        return Ok(
            Err("there is no python3 (Debian: apt-get install python3 python3-venv)".into()),
        );
    };
    let quiet = |program: &Path, args: &[&str], limit| {
        command::run_quiet(Command::new(program).args(args).current_dir(&site.root), limit)
    };
    let has_numpy = ["-c", "import numpy"];
    if quiet(&system, &has_numpy, RUN)?.success {
        return Ok(Ok(system));
    }
    let venv = site.target.join("oracles-venv");
    let own = venv.join("bin/python");
    if own.is_file() && quiet(&own, &has_numpy, RUN)?.success {
        return Ok(Ok(own));
    }
    let folder = venv.to_string_lossy();
    if !quiet(&system, &["-m", "venv", "--clear", &folder], RUN)?.success {
        return Ok(Err("python3 cannot make a venv (Debian: apt-get install python3-venv)".into()));
    }
    if !quiet(&own, &["-m", "pip", "install", "--quiet", "numpy"], BUILD)?.success {
        return Ok(
            Err("pip cannot install numpy: no network, and no numpy on this machine".into()),
        );
    }
    Ok(Ok(own))
}

/// Generates, sorts and validates records in CI size.
fn sort(site: &Site) -> Result<Outcome> {
    let folder = site.target.join("ci-sort");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let checked = sort_in(site, &folder);
    std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    checked
}

fn sort_in(site: &Site, folder: &Path) -> Result<Outcome> {
    let (records, sorted) = (folder.join("records"), folder.join("sorted"));
    let (records, sorted) = (records.to_string_lossy(), sorted.to_string_lossy());
    let commands: [&[&str]; 3] = [
        &["gensort", "200000", &records],
        &["sort", "-n", "4", "--input", &records, "--output", &sorted, "--memory", "4M"],
        &["valsort", &sorted, "--input", &records],
    ];
    for words in commands {
        let args = [&["run", "--quiet", "--release", "--", "app"], words].concat();
        let ended = command::run(&mut cargo(&site.root, &args), BUILD)?;
        if !ended.success {
            return Ok(Outcome::Failed(
                format!("app {}: {}", words[0], ended.why),
                Counts::default(),
            ));
        }
    }
    Ok(Outcome::Passed(Counts::default()))
}

fn instructions(site: &Site) -> Result<Outcome> {
    if let Some(reason) = icount::missing(&site.root) {
        return Ok(Outcome::Skipped(reason));
    }
    Ok(plain(icount::run(&site.root, icount::Mode::Compare)?, "see the table above"))
}

/// Files in `dir` whose names begin and end like this.
fn files(dir: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(end)
    };
    entries.map(|entry| entry.path()).filter(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracles_own_counts_are_read() {
        let counts = |passed, failed, ignored| Counts { passed, failed, ignored };
        let good = "test_a ... ok\n\nRan 3 tests in 0.1s\n\nOK\n";
        assert_eq!(unittest_counts(good), counts(3, 0, 0));
        let bad = "Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n";
        assert_eq!(unittest_counts(bad), counts(5, 3, 1));
        assert_eq!(unittest_counts("no such module"), Counts::default());
    }
}
