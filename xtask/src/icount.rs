//! `cargo xtask icount`: instructions per operation of the hot paths, counted by callgrind.
//!
//! Instruction counts repeat on a noisy machine where nanoseconds do not, so they can fail a build.
//! The program to count is an example with functions `icount_<path>`, each a loop over one
//! operation; it prints `icount_<path> <iterations>` for each. The stored numbers are in
//! `xtask/icount.json`.

use crate::{callgrind, command, host};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The use of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Fail if a path costs more than before.
    Compare,
    /// Store them as the new reference.
    Update,
}

/// Relative growth of a path above which it fails; the same binary repeats exactly, another
/// compiler does not.
const TOLERANCE: f64 = 0.03;
const STORED: &str = "xtask/icount.json";
const PACKAGE: &str = "clump-am";
const EXAMPLE: &str = "icount";

/// Instructions per operation by path.
type Counts = BTreeMap<String, f64>;

/// The stored file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    /// The compiler that made the numbers: another one may give others.
    compiler: String,
    /// Instructions per operation.
    instructions: Counts,
}

/// Returns the reason why this machine cannot count, if any.
pub fn missing(root: &Path) -> Option<String> {
    if host::program("valgrind").is_none() {
        return Some("valgrind is not installed (Debian: apt-get install valgrind)".into());
    }
    let example = format!("crates/{PACKAGE}/examples/{EXAMPLE}.rs");
    (!root.join(&example).is_file()).then(|| format!("{example} does not exist"))
}

/// Returns the reason why the stored numbers do not apply to this compiler, if they do not.
///
/// # Errors
/// Fails if the compiler cannot be queried.
pub fn incomparable(root: &Path) -> Result<Option<String>> {
    let Ok(stored) = stored(root) else { return Ok(None) };
    let here = compiler(root)?;
    Ok((stored.compiler != here)
        .then(|| format!("counted with {here}, but {STORED} was with {}", stored.compiler)))
}

/// Counts, then compares with the stored numbers or replaces them.
///
/// # Errors
/// Fails if this machine cannot count, or if the program does not build or run.
pub fn run(root: &Path, mode: Mode) -> Result<bool> {
    if let Some(reason) = missing(root) {
        bail!("cannot count instructions: {reason}");
    }
    let compiler = compiler(root)?;
    let now = count(root)?;
    if mode == Mode::Update {
        let stored = Stored { compiler, instructions: now };
        std::fs::write(root.join(STORED), serde_json::to_string_pretty(&stored)? + "\n")?;
        println!("icount: {} paths stored in {STORED}", stored.instructions.len());
        return Ok(true);
    }
    let stored = stored(root)?;
    let rows = compare(&stored.instructions, &now);
    print!("{}", table(&rows));
    if stored.compiler != compiler {
        println!("stored with {}, counted with {compiler}", stored.compiler);
    }
    let worse = rows.iter().filter(|row| row.verdict.fails()).count();
    println!("icount: {} paths, {worse} worse than stored", rows.len());
    if worse > 0 {
        println!(
            "if the cost is meant, say why in the commit and run `cargo xtask icount --update`"
        );
    }
    Ok(worse == 0)
}

fn stored(root: &Path) -> Result<Stored> {
    let text = std::fs::read_to_string(root.join(STORED)).with_context(|| {
        format!("no stored counts in {STORED}; run `cargo xtask icount --update`")
    })?;
    serde_json::from_str(&text).with_context(|| format!("reading {STORED}"))
}

fn compiler(root: &Path) -> Result<String> {
    let rustc = command::run_quiet(
        Command::new("rustc").arg("--version").current_dir(root),
        Duration::from_secs(60),
    )?;
    Ok(rustc.stdout.trim().to_owned())
}

/// Builds the example, runs it under callgrind and divides.
fn count(root: &Path) -> Result<Counts> {
    let args = ["build", "--release", "--package", PACKAGE, "--example", EXAMPLE];
    let built = command::run(&mut command::cargo(root, &args), Duration::from_secs(1200))?;
    if !built.success {
        bail!("building {EXAMPLE}: {}", built.why);
    }
    let target = host::target(root);
    let profile = target.join("icount.callgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--dump-line=no"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(target.join("release/examples").join(EXAMPLE))
        .current_dir(root);
    let ran = command::run(&mut valgrind, Duration::from_secs(600))?;
    if !ran.success {
        bail!("{EXAMPLE} under valgrind: {}", ran.why);
    }
    let text = std::fs::read_to_string(&profile)
        .with_context(|| format!("reading {}", profile.display()))?;
    per_operation(&ran.stdout, &callgrind::inclusive(&text))
}

/// Returns instructions per iteration of every path that the program announced.
fn per_operation(announced: &str, costs: &BTreeMap<String, u64>) -> Result<Counts> {
    let mut counts = Counts::new();
    for line in announced.lines().filter(|line| line.starts_with("icount_")) {
        let (path, iterations) =
            line.split_once(' ').with_context(|| format!("`{line}` names no iterations"))?;
        let iterations: u64 = iterations.trim().parse().with_context(|| line.to_owned())?;
        let matching = costs.iter().filter(|(name, _)| callgrind::is_function(name, path));
        let total: u64 = matching.map(|(_, cost)| cost).sum();
        if total == 0 || iterations == 0 {
            bail!("{path} was announced but callgrind saw no call of it; is it #[inline(never)]?");
        }
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let each = total as f64 / iterations as f64;
        counts.insert(path.to_owned(), (each * 100.0).round() / 100.0);
    }
    if counts.is_empty() {
        bail!("{EXAMPLE} announced no path; it prints `icount_<path> <iterations>` lines");
    }
    Ok(counts)
}

/// The comparison of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Same,
    Better,
    Worse,
    New,
    Gone,
}

impl Verdict {
    fn fails(self) -> bool {
        !matches!(self, Self::Same | Self::Better)
    }

    fn shown(self) -> &'static str {
        match self {
            Self::Same => "",
            Self::Better => "better: take it with --update",
            Self::Worse => "WORSE",
            Self::New => "NOT STORED: run --update",
            Self::Gone => "GONE: run --update",
        }
    }
}

#[derive(Debug)]
struct Row {
    path: String,
    stored: Option<f64>,
    now: Option<f64>,
    verdict: Verdict,
}

fn compare(stored: &Counts, now: &Counts) -> Vec<Row> {
    let mut paths: Vec<&String> = stored.keys().chain(now.keys()).collect();
    paths.sort();
    paths.dedup();
    let row = |path: &String| {
        let (was, is) = (stored.get(path).copied(), now.get(path).copied());
        let verdict = match (was, is) {
            (Some(was), Some(is)) if is > was * (1.0 + TOLERANCE) => Verdict::Worse,
            (Some(was), Some(is)) if is < was * (1.0 - TOLERANCE) => Verdict::Better,
            (Some(_), Some(_)) => Verdict::Same,
            (None, _) => Verdict::New,
            (_, None) => Verdict::Gone,
        };
        Row { path: path.clone(), stored: was, now: is, verdict }
    };
    paths.into_iter().map(row).collect()
}

fn table(rows: &[Row]) -> String {
    let number = |n: Option<f64>| n.map_or_else(|| "-".to_owned(), |n| format!("{n:.2}"));
    let width = rows.iter().map(|row| row.path.len()).max().unwrap_or(0).max(12);
    let mut text =
        format!("{:width$}  {:>10}  {:>10}  {:>7}\n", "instructions", "stored", "now", "ratio");
    for row in rows {
        let ratio = match (row.stored, row.now) {
            (Some(was), Some(is)) if was > 0.0 => format!("{:.3}", is / was),
            _ => "-".to_owned(),
        };
        let line = format!(
            "{:width$}  {:>10}  {:>10}  {ratio:>7}  {}",
            row.path,
            number(row.stored),
            number(row.now),
            row.verdict.shown()
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, f64)]) -> Counts {
        pairs.iter().map(|(path, n)| ((*path).to_owned(), *n)).collect()
    }

    #[test]
    fn totals_are_divided_by_iterations() {
        let costs =
            [("icount::icount_a".to_owned(), 4_210_u64), ("icount::icount_ab".to_owned(), 9)];
        let found = per_operation("noise\nicount_a 100\n", &costs.into_iter().collect()).unwrap();
        assert_eq!(found, counts(&[("icount_a", 42.1)]));
    }

    #[test]
    fn a_path_that_was_inlined_away_is_an_error() {
        let error = per_operation("icount_a 100\n", &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("inline(never)"), "{error}");
        assert!(per_operation("nothing\n", &BTreeMap::new()).is_err());
    }

    #[test]
    fn only_growth_beyond_the_tolerance_and_unknown_paths_fail() {
        let stored = counts(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("gone", 1.0)]);
        let now = counts(&[("a", 102.9), ("b", 103.1), ("c", 90.0), ("new", 1.0)]);
        let rows = compare(&stored, &now);
        let verdicts: Vec<_> = rows.iter().map(|row| row.verdict).collect();
        use Verdict::{Better, Gone, New, Same, Worse};
        assert_eq!(verdicts, [Same, Worse, Better, Gone, New]);
        let failing: Vec<_> = rows.iter().filter(|r| r.verdict.fails()).map(|r| &r.path).collect();
        assert_eq!(failing, ["b", "gone", "new"]);
        assert!(table(&rows).contains("1.031  WORSE"), "{}", table(&rows));
    }
}
