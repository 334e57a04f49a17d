//! `cargo xtask attack`: jobs under random adverse conditions, each of which must end in bounded
//! time with the right code and words, and leave nothing behind.
//!
//! Each file holds one class of attacks, and draws its jobs; one supervisor runs them, one judge
//! checks their ends. A seed determines all jobs, that of job `k` being the first plus `k`: so
//! each can be repeated alone.
//!
//! # Invariants
//! 1. Every process of a job has the path of the job's own folder in its environment; while
//!    attacks run, orphans become children of this process. So none escapes.
//! 2. The actions of a job depend on its seed alone; the times of attacks depend on the machine
//!    too.

mod class;
mod errand;
mod event;
mod forks;
mod inputs;
mod job;
mod limits;
mod memory;
mod names;
mod options;
mod outputs;
mod paths;
mod pending;
mod place;
mod quoting;
mod refusals;
mod remains;
mod sampler;
mod signals;
mod stops;
mod stream;
mod streams;
mod supervisor;
#[cfg(test)]
mod tests;
mod variables;
mod verdict;

use crate::host;
use anyhow::{Context, Result};
use class::{CLASSES, Class};
use options::Options;
use place::AttackPlace;
use sampler::Sampler;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use supervisor::{Deadlines, Supervisor};
use verdict::Verdict;

/// A job that did not end as promised.
#[derive(Debug)]
struct Failure {
    class: &'static str,
    seed: u64,
    job: String,
    broken: Vec<String>,
}

impl Failure {
    /// Returns the command that repeats it.
    fn again(&self) -> String {
        format!("cargo xtask attack --class {} --seed {} --jobs 1", self.class, self.seed)
    }
}

/// Results of the jobs of a class.
#[derive(Debug, Default)]
struct Tally {
    jobs: u64,
    failed: u64,
    impossible: u64,
}

/// Results of all jobs.
#[derive(Debug, Default)]
struct Tallies {
    classes: BTreeMap<&'static str, Tally>,
    failures: Vec<Failure>,
    /// Classes that cannot be tried here, and the reasons.
    skipped: Vec<(&'static str, String)>,
}

/// Runs the attacks that `words` select; returns `false` when a job did not end as promised.
///
/// # Errors
/// Fails if the programs do not build, or if a job cannot be started.
pub fn run(root: &Path, words: &[String]) -> Result<bool> {
    let options = Options::read(words)?;
    if options.list {
        for class in CLASSES {
            println!("{:9}  {}", class.name, class.what);
        }
        return Ok(true);
    }
    let place = AttackPlace::prepare(root, options.release)?;
    let mut tallies = Tallies::default();
    let classes = possible(&options, &place, &mut tallies);
    println!("attack: seed {}, for {} s", options.seed, options.time.as_secs());
    let _adopting = Adopting::start()?;
    let supervisor = Supervisor { place: &place, deadlines: Deadlines::default(), adopts: true };
    let start = host::now();
    let mut number = 0;
    while !classes.is_empty() && number < options.jobs && start.elapsed() < options.time {
        let turn = usize::try_from(number).unwrap_or(0) % classes.len();
        let seed = options.seed.wrapping_add(number);
        attack(&supervisor, classes[turn], seed, &mut tallies)?;
        number += 1;
    }
    println!("{}", tallies.shown());
    if options.json {
        println!("{}", tallies.json(options.seed, start.elapsed().as_secs_f64()));
    }
    Ok(tallies.failures.is_empty())
}

/// Returns the classes that can be tried here; prints those that cannot.
fn possible(options: &Options, place: &AttackPlace, tallies: &mut Tallies) -> Vec<&'static Class> {
    let mut classes = options.classes.clone();
    classes.retain(|class| match (class.missing)(place) {
        None => true,
        Some(why) => {
            println!("SKIPPED {}: {why}", class.name);
            tallies.skipped.push((class.name, why));
            false
        }
    });
    classes
}

/// Draws one job, runs it, and judges its end.
fn attack(
    supervisor: &Supervisor,
    class: &'static Class,
    seed: u64,
    tallies: &mut Tallies,
) -> Result<()> {
    let mut sampler = Sampler::new(seed);
    let job = (class.draw)(&mut sampler, supervisor.place)
        .with_context(|| format!("drawing a job of {} from {seed}", class.name))?;
    let shown = job.shown();
    let ran = host::now();
    let ended = supervisor.run(&job).with_context(|| format!("{}: {shown}", class.name))?;
    let mut verdict = verdict::judge(&job, &ended);
    if verdict == Verdict::Kept && ended.code == Some(0) {
        verdict = check(supervisor.place, &job)?;
    }
    let tally = tallies.classes.entry(class.name).or_default();
    tally.jobs += 1;
    let wall = ran.elapsed().as_secs_f64();
    let word = match verdict {
        Verdict::Kept => "ok",
        Verdict::Impossible(why) => {
            tally.impossible += 1;
            println!("SKIPPED: {why}");
            "SKIPPED"
        }
        Verdict::Broken(broken) => {
            tally.failed += 1;
            tallies.failures.push(Failure { class: class.name, seed, job: shown.clone(), broken });
            "FAILED"
        }
    };
    let code = ended.code.map_or("-".to_owned(), |code| code.to_string());
    println!("{word:7} {:8} {seed} {wall:5.1} s {code:>4}  {shown}", class.name);
    if word == "FAILED"
        && let Some(failure) = tallies.failures.last()
    {
        for line in &failure.broken {
            println!("        {line}");
        }
        println!("        again: {}", failure.again());
    }
    Ok(())
}

/// Checks the products of a job with a clump command, if that was promised.
fn check(place: &AttackPlace, job: &job::Job) -> Result<Verdict> {
    let Some(words) = &job.promise.check else { return Ok(Verdict::Kept) };
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    Ok(match place.ask(&words, &job.folder)? {
        Some(_) => Verdict::Kept,
        None => Verdict::Broken(vec![format!("what it made is wrong: `{}`", words.join(" "))]),
    })
}

impl Tallies {
    /// Formats a table, after the commands that repeat the failures.
    fn shown(&self) -> String {
        let mut text = String::new();
        for failure in &self.failures {
            text += &format!("\n{}", failure.again());
        }
        text += "\n\nclass      jobs  failed  skipped\n";
        for (name, tally) in &self.classes {
            let Tally { jobs, failed, impossible } = tally;
            text += &format!("{name:9} {jobs:5} {failed:7} {impossible:8}\n");
        }
        for (name, why) in &self.skipped {
            text += &format!("{name:9} SKIPPED: {why}\n");
        }
        let jobs: u64 = self.classes.values().map(|tally| tally.jobs).sum();
        text + &format!("attack: {} of {jobs} jobs did not end as promised", self.failures.len())
    }

    fn json(&self, seed: u64, seconds: f64) -> serde_json::Value {
        let classes: serde_json::Map<_, _> = self
            .classes
            .iter()
            .map(|(name, tally)| {
                let Tally { jobs, failed, impossible } = tally;
                let value = json!({ "jobs": jobs, "failed": failed, "skipped": impossible });
                ((*name).to_owned(), value)
            })
            .collect();
        let failures = self.failures.iter().map(|failure| {
            json!({
                "class": failure.class, "seed": failure.seed, "job": failure.job,
                "broken": failure.broken, "again": failure.again(),
            })
        });
        json!({
            "seed": seed, "seconds": seconds, "classes": classes,
            "failures": failures.collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(|(name, why)| json!({ "class": name, "why": why }))
                .collect::<Vec<_>>(),
        })
    }
}

/// While this lives, orphans below this process become its children.
struct Adopting;

impl Adopting {
    fn start() -> Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .context("adopting orphans")?;
        Ok(Self)
    }
}

impl Drop for Adopting {
    fn drop(&mut self) {
        let _ = rustix::process::set_child_subreaper(None);
    }
}
