//! `cargo xtask ci`: every check in one go, each step with its time, one line of counts at the end.
//!
//! Steps stand in [`steps::STEPS`]; to add one, add a line there. A step that cannot run here is skipped
//! loudly, with the reason, and counted as skipped; it never passes in silence. One failing step does not
//! keep the later ones from running: a red run should say everything it knows.

mod apps;
mod c;
mod net;
mod oracles;
mod steps;

use crate::command::Counts;
use crate::host;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a step may look at.
#[derive(Debug)]
pub struct Site {
    /// Root of the tree.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
}

impl Site {
    /// The folder for temporary files of everything that runs; exists.
    pub fn scratch(&self) -> Result<PathBuf> {
        let folder = self.target.join("ci-scratch");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}

/// One check.
#[derive(Debug)]
pub struct Step {
    /// What to call it on the command line.
    pub name: &'static str,
    /// What it makes sure of.
    pub what: &'static str,
    /// Does it.
    pub run: fn(&Site) -> Result<Outcome>,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All is well; tests that it ran, if it ran any.
    Passed(Counts),
    /// Something is wrong: what, and tests that it ran.
    Failed(String, Counts),
    /// Could not run here: why, and what would make it run.
    Skipped(String),
}

/// A finished step.
#[derive(Debug)]
struct Done {
    name: &'static str,
    outcome: Outcome,
    wall: Duration,
}

/// Runs the steps that `options` leave.
pub fn run(root: &Path, options: &[String]) -> Result<bool> {
    let Some(chosen) = choose(options)? else { return Ok(true) };
    let site = Site { root: root.to_owned(), target: host::target(root) };
    // What an interrupted run left is not this run's.
    let _ = std::fs::remove_dir_all(site.scratch()?);
    let mut all = Vec::new();
    for step in chosen {
        println!("\n=== {}: {}", step.name, step.what);
        let started = host::now();
        let outcome = (step.run)(&site)
            .unwrap_or_else(|error| Outcome::Failed(format!("{error:#}"), Counts::default()));
        let done = Done { name: step.name, outcome, wall: started.elapsed() };
        println!("{}", line(&done));
        all.push(done);
    }
    println!("\n=== summary");
    for done in &all {
        println!("{}", line(done));
    }
    println!("\n{}", closing(&all));
    Ok(all.iter().all(|done| !matches!(done.outcome, Outcome::Failed(..))))
}

/// The steps to run, or `None` when only their list was asked for.
fn choose(options: &[String]) -> Result<Option<Vec<&'static Step>>> {
    let mut chosen: Vec<&Step> = steps::STEPS.iter().collect();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        if option == "--list" {
            for step in steps::STEPS {
                println!("{:10}  {}", step.name, step.what);
            }
            return Ok(None);
        }
        let Some(names) = rest.next().filter(|_| option == "--only" || option == "--skip") else {
            bail!("`{option}`: ci takes --list, --only A,B and --skip A,B");
        };
        let names: Vec<&str> = names.split(',').collect();
        if let Some(unknown) = names.iter().find(|n| steps::STEPS.iter().all(|s| s.name != **n)) {
            bail!("no step is called `{unknown}`; `cargo xtask ci --list` names them");
        }
        chosen.retain(|step| names.contains(&step.name) == (option == "--only"));
    }
    Ok(Some(chosen))
}

fn line(done: &Done) -> String {
    let wall = done.wall.as_secs_f64();
    let (word, rest) = match &done.outcome {
        Outcome::Passed(counts) if *counts == Counts::default() => ("ok", String::new()),
        Outcome::Passed(counts) => ("ok", format!("{} tests", counts.passed)),
        Outcome::Failed(why, _) => ("FAILED", why.clone()),
        Outcome::Skipped(why) => ("SKIPPED", why.clone()),
    };
    format!("{word:8}{:10} {wall:7.1} s  {rest}", done.name).trim_end().to_owned()
}

/// `N passed, N failed, N skipped`: tests, and steps that are no test suites as one each.
fn closing(all: &[Done]) -> String {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for done in all {
        match &done.outcome {
            Outcome::Passed(counts) => {
                passed += counts.passed.max(1);
                skipped += counts.ignored;
            }
            Outcome::Failed(_, counts) => {
                passed += counts.passed;
                skipped += counts.ignored;
                failed += counts.failed.max(1);
            }
            Outcome::Skipped(_) => skipped += 1,
        }
    }
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(outcome: Outcome) -> Done {
        Done { name: "step", outcome, wall: Duration::from_millis(1500) }
    }

    #[test]
    fn the_closing_line_counts_tests_and_steps() {
        let counts = |passed, failed| Counts { passed, failed, ignored: 0 };
        let all = [
            done(Outcome::Passed(counts(0, 0))),
            done(Outcome::Passed(counts(40, 0))),
            done(Outcome::Failed("exit status: 101".into(), counts(7, 2))),
            done(Outcome::Failed("does not build".into(), counts(0, 0))),
            done(Outcome::Skipped("no valgrind".into())),
        ];
        assert_eq!(closing(&all), "48 passed, 3 failed, 1 skipped");
        assert_eq!(line(&all[4]), "SKIPPED step           1.5 s  no valgrind");
    }

    #[test]
    fn steps_are_chosen_by_name() {
        let names = |options: &[&str]| {
            let options: Vec<String> = options.iter().map(ToString::to_string).collect();
            choose(&options)
                .map(|c| c.map(|steps| steps.iter().map(|s| s.name).collect::<Vec<_>>()))
        };
        assert_eq!(names(&["--only", "tidy,format"]).unwrap().unwrap(), ["format", "tidy"]);
        assert!(!names(&["--skip", "tests"]).unwrap().unwrap().contains(&"tests"));
        assert!(names(&["--list"]).unwrap().is_none());
        assert!(names(&["--only", "nonsense"]).is_err());
        assert!(names(&["--wrong"]).is_err());
    }
}
