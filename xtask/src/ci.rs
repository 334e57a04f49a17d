//! `cargo xtask ci`: every check in one go, each step with its time, one line of counts at the end.
//!
//! The list of steps is [`steps::STEPS`]; to add one, add a line there. A step that cannot run
//! here is skipped loudly, with the reason, and counted as skipped; it never passes silently. One
//! failing step does not keep the later ones from running: a failed run should report everything
//! it found.
//!
//! One list serves all tiers ([`tier::Tier`]): each step names those in which it runs. The default
//! is the middle one; `--only` selects any step.

mod aarch64;
mod apps;
mod c;
mod matrix;
mod net;
mod night;
mod oracles;
mod packages;
mod printed;
mod processor_times;
mod python;
mod site;
mod step;
mod steps;
mod tier;

use crate::command::Counts;
use crate::host;
use anyhow::{Result, bail};
use std::path::Path;
use std::time::Duration;
use step::{Site, Step, StepOutcome};
use tier::Tier;

/// A finished step.
#[derive(Debug)]
struct Done {
    name: &'static str,
    outcome: StepOutcome,
    wall: Duration,
}

/// Runs the steps that `options` select; returns false if one failed.
///
/// # Errors
/// Fails on an unknown option or step.
pub fn run(root: &Path, options: &[String]) -> Result<bool> {
    let Some(chosen) = choose(options)? else { return Ok(true) };
    let tier = tier_of(options)?.unwrap_or(Tier::Merge);
    let site = Site { root: root.to_owned(), target: host::target(root), tier };
    // Remains of an interrupted run are not this run's.
    let _ = std::fs::remove_dir_all(site.scratch()?);
    let mut all = Vec::new();
    for step in chosen {
        println!("\n=== {}: {}", step.name, step.what);
        let started = host::now();
        let outcome = (step.run)(&site)
            .unwrap_or_else(|error| StepOutcome::Failed(format!("{error:#}"), Counts::default()));
        let done = Done { name: step.name, outcome, wall: started.elapsed() };
        println!("{}", line(&done));
        all.push(done);
    }
    println!("\n=== summary");
    for done in &all {
        println!("{}", line(done));
    }
    println!("\n{}", closing(&all));
    Ok(all.iter().all(|done| !matches!(done.outcome, StepOutcome::Failed(..))))
}

/// Returns the steps to run, or `None` when only their list was asked for.
fn choose(options: &[String]) -> Result<Option<Vec<&'static Step>>> {
    let mut chosen: Vec<&Step> = steps::STEPS.iter().collect();
    let mut named = false;
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        if option == "--list" {
            for step in steps::STEPS {
                println!("{:10}  {:16}  {}", step.name, tier::shown(step.tiers), step.what);
            }
            return Ok(None);
        }
        let known = ["--only", "--skip", "--tier"].contains(&option.as_str());
        let Some(value) = rest.next().filter(|_| known) else {
            bail!("`{option}`: ci takes --tier TIER, --list, --only A,B and --skip A,B");
        };
        if option == "--tier" {
            continue;
        }
        named |= option == "--only";
        let names: Vec<&str> = value.split(',').collect();
        if let Some(unknown) = names.iter().find(|n| steps::STEPS.iter().all(|s| s.name != **n)) {
            bail!("no step is called `{unknown}`; `cargo xtask ci --list` names them");
        }
        chosen.retain(|step| names.contains(&step.name) == (option == "--only"));
    }
    // Steps selected by name run, whatever their tier.
    if let Some(tier) = tier_of(options)?.or((!named).then_some(Tier::Merge)) {
        chosen.retain(|step| step.tiers.contains(&tier));
    }
    Ok(Some(chosen))
}

/// Returns the tier that options name; the last one counts.
fn tier_of(options: &[String]) -> Result<Option<Tier>> {
    let at = options.iter().rposition(|option| option == "--tier");
    at.and_then(|at| options.get(at + 1)).map(|name| name.parse()).transpose()
}

fn line(done: &Done) -> String {
    let wall = done.wall.as_secs_f64();
    let (word, rest) = match &done.outcome {
        StepOutcome::Passed(counts) if *counts == Counts::default() => ("ok", String::new()),
        StepOutcome::Passed(counts) => ("ok", format!("{} tests", counts.passed)),
        StepOutcome::Failed(why, _) => ("FAILED", why.clone()),
        StepOutcome::Skipped(why) => ("SKIPPED", why.clone()),
    };
    format!("{word:8}{:10} {wall:7.1} s  {rest}", done.name).trim_end().to_owned()
}

/// Formats `N passed, N failed, N skipped`: tests, and steps that are no test suites as one each.
fn closing(all: &[Done]) -> String {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for done in all {
        match &done.outcome {
            StepOutcome::Passed(counts) => {
                passed += counts.passed.max(1);
                skipped += counts.ignored;
            }
            StepOutcome::Failed(_, counts) => {
                passed += counts.passed;
                skipped += counts.ignored;
                failed += counts.failed.max(1);
            }
            StepOutcome::Skipped(_) => skipped += 1,
        }
    }
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(outcome: StepOutcome) -> Done {
        Done { name: "step", outcome, wall: Duration::from_millis(1500) }
    }

    #[test]
    fn the_closing_line_counts_tests_and_steps() {
        let counts = |passed, failed| Counts { passed, failed, ignored: 0 };
        let all = [
            done(StepOutcome::Passed(counts(0, 0))),
            done(StepOutcome::Passed(counts(40, 0))),
            done(StepOutcome::Failed("exit status: 101".into(), counts(7, 2))),
            done(StepOutcome::Failed("does not build".into(), counts(0, 0))),
            done(StepOutcome::Skipped("no valgrind".into())),
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
        let tier = |options: &[&str]| {
            let options: Vec<String> = options.iter().map(ToString::to_string).collect();
            tier_of(&options).unwrap().unwrap_or(Tier::Merge).name()
        };
        assert_eq!([tier(&["--only", "tests"]), tier(&["--tier", "edit"])], ["merge", "edit"]);
        assert!(names(&["--tier"]).is_err() && names(&["--tier", "noon"]).is_err());
    }

    #[test]
    fn each_tier_holds_what_the_one_before_it_makes_sure_of() {
        let names = |tier: &str| {
            let steps = choose(&["--tier".to_owned(), tier.to_owned()]).unwrap().unwrap();
            steps.iter().map(|step| step.name).collect::<Vec<_>>()
        };
        let [edit, merge, night] = ["edit", "merge", "night"].map(names);
        // clippy checks the same as `check`, and `tests` runs the quick ones too.
        let quick = ["check", "units"];
        assert!(edit.iter().all(|name| quick.contains(name) || merge.contains(name)));
        assert!(merge.iter().all(|name| night.contains(name)));
        assert!(merge.contains(&"tests") && !merge.contains(&"mutants"));
        for name in ["mutants", "storms", "tsan"] {
            assert!(night.contains(&name) && !edit.contains(&name), "{name}");
        }
        let default: Vec<_> = choose(&[]).unwrap().unwrap().iter().map(|s| s.name).collect();
        assert_eq!(default, merge);
        let only = choose(&["--only".to_owned(), "mutants,units".to_owned()]).unwrap().unwrap();
        assert_eq!(only.len(), 2, "whatever the tier");
        assert_eq!(steps::STEPS.last().map(|step| step.name), Some("remains"), "looks at all");
    }
}
