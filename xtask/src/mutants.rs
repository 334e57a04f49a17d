//! `cargo xtask mutants`: bugs planted by hand, one at a time, in a copy of the tree. Each names
//! the test that must fail; a mutant that survives is a hole in the tests. One that was caught is
//! not planted again before something changes that its test depends on ([`verdicts`]).

mod mutant;
mod verdicts;

use crate::{command, host};
use anyhow::{Context, Result, anyhow, bail};
use mutant::{Mutant, words};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use verdicts::Verdicts;

/// Path of the list from the root.
pub const LIST: &str = "xtask/mutants.toml";
/// Verdicts, kept with the tree: a new machine need not plant again what was caught in the same
/// sources. No package has it among its files, so it changes no fingerprint.
const VERDICTS: &str = ".ci/verdicts.json";
/// Time of the first build in the copy on top of a test's own limit.
const FIRST_BUILD: Duration = Duration::from_secs(1200);

/// The list's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    #[serde(default)]
    /// Its entries.
    pub mutant: Vec<Mutant>,
}

/// The result of one mutant.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// The test failed, as it must.
    Caught,
    /// It did in an earlier run, of sources that the test cannot tell from these.
    CaughtBefore,
    /// The test passed: the bug was not caught.
    Survived,
    /// The change did not compile or the test did not pass before it: no result.
    Void(String),
}

impl Fate {
    fn is_caught(&self) -> bool {
        matches!(self, Self::Caught | Self::CaughtBefore)
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught => f.write_str("caught"),
            Self::CaughtBefore => f.write_str("caught before, in the same sources"),
            Self::Survived => f.write_str("SURVIVED"),
            Self::Void(why) => write!(f, "VOID: {why}"),
        }
    }
}

/// Most copies of the tree at once: each has a build of its own, of some gigabytes.
const MAX_COPIES: usize = 4;

/// Plants every mutant whose name is in `names`, or all, and prints their results; returns false
/// if one was not caught. `--fresh` among the names: also those that were caught before. Each
/// processor, up to [`MAX_COPIES`], works in a copy of its own, on the mutants of one package at a
/// time: they share a build.
///
/// # Errors
/// Fails if the list cannot be read, a name is unknown, or a copy cannot be made.
pub fn run(root: &Path, words: &[String]) -> Result<bool> {
    let (flags, names): (Vec<_>, Vec<_>) = words.iter().cloned().partition(|w| w == "--fresh");
    let text =
        std::fs::read_to_string(root.join(LIST)).with_context(|| format!("reading {LIST}"))?;
    let list: List = toml::from_str(&text).with_context(|| format!("reading {LIST}"))?;
    if let Some(unknown) = names.iter().find(|n| list.mutant.iter().all(|m| m.name != **n)) {
        bail!("no mutant is called `{unknown}` in {LIST}");
    }
    let known: BTreeSet<&str> = list.mutant.iter().map(|mutant| mutant.name.as_str()).collect();
    let verdicts = Verdicts::open(root, root.join(VERDICTS), &known)?;
    let chosen = |m: &&Mutant| names.is_empty() || names.contains(&m.name);
    let (kept, chosen): (Vec<_>, Vec<_>) = list
        .mutant
        .iter()
        .filter(chosen)
        .partition(|mutant| flags.is_empty() && verdicts.holds(mutant));
    let mut groups: BTreeMap<String, Vec<&Mutant>> = BTreeMap::new();
    for mutant in chosen {
        groups.entry(built_for(&mutant.test)).or_default().push(mutant);
    }
    let mut groups: Vec<Vec<&Mutant>> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.len()));
    let copies = std::thread::available_parallelism().map_or(1, usize::from);
    let copies: Vec<PathBuf> = (0..copies.min(MAX_COPIES).min(groups.len()))
        .map(|n| host::target(root).join(format!("mutants-{n}")))
        .collect();
    let tried = in_copies(&copies, &groups, |copy, group| try_group(root, copy, group, &verdicts))?;
    let kept = kept.into_iter().map(|mutant| (mutant, Fate::CaughtBefore));
    let fates: Vec<_> = kept.chain(tried).collect();
    println!("{}", table(&fates));
    Ok(fates.iter().all(|(_, fate)| fate.is_caught()))
}

/// Returns the part of a test's command that decides what is built: variables and the package.
fn built_for(test: &str) -> String {
    let words = words(test);
    let variables = words.iter().take_while(|word| word.contains('='));
    let package = words.iter().skip_while(|word| *word != "--package").take(2);
    variables.chain(package).cloned().collect::<Vec<_>>().join(" ")
}

/// Tries mutants whose tests are of one package, first their tests without any bug.
///
/// # Errors
/// Fails if the copy cannot be made or a test cannot be started.
fn try_group<'m>(
    root: &Path,
    copy: &Path,
    group: &[&'m Mutant],
    verdicts: &Verdicts,
) -> Result<Vec<(&'m Mutant, Fate)>> {
    copy_tree(root, copy)?;
    let mut sound = BTreeMap::new();
    for mutant in group {
        if !sound.contains_key(&mutant.test) {
            let tested = baseline(copy, mutant)?;
            if let Err(why) = &tested {
                println!("{}: {why}", mutant.test);
            }
            sound.insert(&mutant.test, tested);
        }
    }
    let mut fates = Vec::new();
    for &mutant in group {
        let begun = host::now();
        let fate = match &sound[&mutant.test] {
            Ok(()) => {
                copy_tree(root, copy)?;
                plant(copy, mutant)?
            }
            Err(why) => Fate::Void(why.clone()),
        };
        println!("{} ({} s): {fate}: {}", mutant.name, begun.elapsed().as_secs(), mutant.why);
        if fate == Fate::Caught {
            verdicts.keep(mutant)?;
        }
        fates.push((mutant, fate));
    }
    Ok(fates)
}

/// Does `work` for every group, one at a time in each of `copies`, and returns all results.
///
/// # Errors
/// Fails as `work` does.
fn in_copies<'m, T: Send>(
    copies: &[PathBuf],
    groups: &[Vec<&'m Mutant>],
    work: impl Fn(&Path, &[&'m Mutant]) -> Result<Vec<T>> + Sync,
) -> Result<Vec<T>> {
    let (next, work) = (AtomicUsize::new(0), &work);
    let worker = |copy| {
        let mut done = Vec::new();
        while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.extend(work(copy, group)?);
        }
        Ok(done)
    };
    let worker = &worker;
    let results: Vec<Result<Vec<T>>> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            copies.iter().map(|copy| scope.spawn(move || worker(copy.as_path()))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(anyhow!("a worker panicked"))))
            .collect()
    });
    Ok(results.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Runs a mutant's test without the bug; the inner error says why it proves nothing.
///
/// # Errors
/// Fails if the test cannot be started.
fn baseline(copy: &Path, mutant: &Mutant) -> Result<Result<(), String>> {
    let limit = Duration::from_secs(mutant.limit_s) + FIRST_BUILD;
    let before = command::run(&mut test_command(copy, mutant), limit)?;
    // A renamed test would let every bug survive.
    Ok(if !before.success {
        Err(format!("fails without the bug: {}", before.why))
    } else if before.stdout.contains("test result: ") && before.counts.passed == 0 {
        Err(format!("`{}` runs no test", mutant.test))
    } else {
        Ok(())
    })
}

/// Plants one bug in `copy` and runs its test, which is known to pass without it.
///
/// # Errors
/// Fails if the file cannot be read or written or the test cannot be started.
fn plant(copy: &Path, mutant: &Mutant) -> Result<Fate> {
    let path = copy.join(&mutant.file);
    let original = std::fs::read_to_string(&path).with_context(|| mutant.file.clone())?;
    let changed = match mutant.planted_in(&original) {
        Ok(changed) => changed,
        Err(why) => return Ok(Fate::Void(why)),
    };
    let limit = Duration::from_secs(mutant.limit_s);
    std::fs::write(&path, changed)?;
    if words(&mutant.test).iter().any(|word| word == "cargo") {
        let built = command::run(&mut with_no_run(copy, mutant), limit + FIRST_BUILD)?;
        if !built.success {
            return Ok(Fate::Void(format!("does not compile: {}", built.why)));
        }
    }
    let after = command::run(&mut test_command(copy, mutant), limit)?;
    Ok(if after.success { Fate::Survived } else { Fate::Caught })
}

/// Returns the mutant's command; `VAR=value` words in front of it become environment variables.
fn test_command(copy: &Path, mutant: &Mutant) -> Command {
    assemble(copy, &words(&mutant.test))
}

/// Returns the mutant's command with `--no-run` before any `--`, to tell a bug that does not
/// compile from one that is caught.
fn with_no_run(copy: &Path, mutant: &Mutant) -> Command {
    let mut words = words(&mutant.test);
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.insert(end, "--no-run".to_owned());
    assemble(copy, &words)
}

fn assemble(copy: &Path, words: &[String]) -> Command {
    let first = words.iter().take_while(|word| word.contains('=')).count();
    let (variables, words) = words.split_at(first);
    let mut command = match words.split_first() {
        Some((program, args)) if program == "cargo" => {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            command::cargo(copy, &args)
        }
        Some((program, args)) => {
            let mut command = Command::new(program);
            command.args(args).current_dir(copy);
            command
        }
        None => Command::new("true"),
    };
    // A bug is searched for with all cases.
    command.env("CARGO_TARGET_DIR", copy.join("target")).env(command::TEST_TIER, "night");
    for (name, value) in variables.iter().filter_map(|word| word.split_once('=')) {
        command.env(name, value);
    }
    command
}

/// Brings `copy` up to date with the sources of `root`, its build output left in place. Unchanged
/// files are not touched, so that only the planted bug is built again.
fn copy_tree(root: &Path, copy: &Path) -> Result<()> {
    // Build output is at the top only: a module may be called `target` too.
    copy_but(root, copy, |name| name == ".git" || name.starts_with("target"))
}

fn copy_but(root: &Path, copy: &Path, leave: fn(&str) -> bool) -> Result<()> {
    std::fs::create_dir_all(copy)?;
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let (from, to) = (entry.path(), copy.join(entry.file_name()));
        if leave(&entry.file_name().to_string_lossy()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_but(&from, &to, |_| false)?;
        } else if entry.file_type()?.is_file() {
            let new = std::fs::read(&from)?;
            if std::fs::read(&to).ok().as_ref() != Some(&new) {
                std::fs::write(&to, new).with_context(|| to.display().to_string())?;
            }
        }
    }
    remove_vanished(root, copy, leave)
}

/// Removes from `copy` what `root` no longer has.
fn remove_vanished(root: &Path, copy: &Path, leave: fn(&str) -> bool) -> Result<()> {
    for entry in std::fs::read_dir(copy)? {
        let entry = entry?;
        let vanished = root.join(entry.file_name());
        if leave(&entry.file_name().to_string_lossy()) || vanished.exists() {
            continue;
        }
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn table(fates: &[(&Mutant, Fate)]) -> String {
    let width = fates.iter().map(|(mutant, _)| mutant.name.len()).max().unwrap_or(0).max(6);
    let mut text = format!("{:width$}  fate\n", "mutant");
    for (mutant, fate) in fates {
        let fate = match fate {
            Fate::Survived => format!("SURVIVED: `{}` did not notice", mutant.test),
            fate => fate.to_string(),
        };
        text.push_str(&format!("{:width$}  {fate}\n", mutant.name));
    }
    let caught = fates.iter().filter(|(_, fate)| fate.is_caught()).count();
    text.push_str(&format!("mutants: {caught} of {} caught", fates.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("clump-mutants-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("xtask")).unwrap();
        dir
    }

    fn mutant(test: &str) -> Mutant {
        Mutant {
            name: "m".into(),
            file: "answer".into(),
            find: "42".into(),
            replace: "41".into(),
            test: test.into(),
            why: "wrong answer".into(),
            limit_s: 60,
        }
    }

    #[test]
    fn a_bug_is_caught_survives_or_teaches_nothing() {
        let dir = tree("fates");
        let fate = |test: &str, answer: &str| {
            std::fs::write(dir.join("answer"), answer).unwrap();
            match baseline(&dir, &mutant(test)).unwrap() {
                Ok(()) => plant(&dir, &mutant(test)).unwrap(),
                Err(why) => Fate::Void(why),
            }
        };
        assert_eq!(fate("grep -q 42 answer", "42"), Fate::Caught);
        assert_eq!(fate("grep -q 4 answer", "42"), Fate::Survived);
        assert!(matches!(fate("grep -q 43 answer", "42"), Fate::Void(_)), "fails before");
        assert!(matches!(fate("grep -q 42 answer", "42 42"), Fate::Void(_)), "ambiguous");
        std::fs::write(dir.join("tests"), "test result: ok. 0 passed; 0 failed; 0 ignored")
            .unwrap();
        assert!(matches!(fate("cat tests", "42"), Fate::Void(_)), "nothing runs");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_copy_follows_the_tree_and_the_tree_is_left_alone() {
        let dir = tree("copy");
        let list = "[[mutant]]\nname='a'\nfile='answer'\nfind='42'\nreplace='41'\n\
                    test='grep -q 42 answer'\nwhy='w'\n";
        std::fs::write(dir.join(LIST), list).unwrap();
        std::fs::write(dir.join("answer"), "42").unwrap();
        let copy = dir.join("target/copy");
        copy_tree(&dir, &copy).unwrap();
        std::fs::write(copy.join("answer"), "41").unwrap();
        std::fs::write(copy.join("stale"), "x").unwrap();
        std::fs::create_dir(dir.join("src")).unwrap();
        std::fs::write(dir.join("src/target.rs"), "43").unwrap();
        copy_tree(&dir, &copy).unwrap();
        assert_eq!(std::fs::read_to_string(copy.join("answer")).unwrap(), "42");
        assert!(copy.join("src/target.rs").exists());
        assert!(!copy.join("stale").exists() && !copy.join("target").exists());
        assert!(run(&dir, &["b".into()]).is_err(), "unknown name");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn tests_of_one_package_share_a_build() {
        let sim = "cargo test --package clump-sim --test all onesided";
        assert_eq!(built_for(sim), built_for("cargo test --package clump-sim --lib"));
        assert_ne!(built_for(sim), built_for("cargo test --package clump-net --test all x"));
        let loom = "'RUSTFLAGS=--cfg loom' cargo test --release --package clump-sim";
        assert_ne!(built_for(sim), built_for(loom));
    }
}
