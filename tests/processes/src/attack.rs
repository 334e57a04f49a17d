//! Jobs under random adverse conditions, each of which must end in bounded time with the right code
//! and words, and leave nothing behind.
//!
//! Each file holds one class of attacks, and draws its jobs; one supervisor runs them, one judge
//! checks their ends. A seed determines a job of a class, so that each can be repeated alone.
//!
//! # Invariants
//! 1. Every process of a job has the path of the job's own folder in its environment; while
//!    attacks run, orphans become children of this process. So none escapes.
//! 2. The actions of a job depend on its seed alone; the times of attacks depend on the machine
//!    too.

pub mod class;
mod errand;
pub mod event;
mod forks;
mod inputs;
pub mod job;
mod limits;
mod memory;
mod names;
mod outputs;
mod paths;
mod pending;
pub mod place;
mod quoting;
mod refusals;
pub mod remains;
mod signals;
mod stops;
pub mod stream;
mod streams;
pub mod supervisor;
pub mod variables;
pub mod verdict;

use anyhow::{Context, Result};
use class::Class;
use clump_os::clock;
use clump_test_tier::Sampler;
use place::AttackPlace;
use supervisor::Supervisor;
use verdict::Verdict;

/// Draws a job of a class from a seed, runs it, judges its end, and prints a line about it.
///
/// # Errors
/// Fails if it cannot be drawn or started.
pub fn attack(supervisor: &Supervisor<'_>, class: &Class, seed: u64) -> Result<Verdict> {
    let job = (class.draw)(&mut Sampler::new(seed), supervisor.place)
        .with_context(|| format!("drawing a job of {} from {seed}", class.name))?;
    let shown = job.shown();
    let started = clock::instant();
    let ended = supervisor.run(&job).with_context(|| format!("{}: {shown}", class.name))?;
    let mut verdict = verdict::judge(&job, &ended);
    if verdict == Verdict::Kept && ended.code == Some(0) {
        verdict = check(supervisor.place, &job)?;
    }
    let word = match &verdict {
        Verdict::Kept => "ok",
        Verdict::Impossible(why) => {
            println!("SKIPPED: {why}");
            "SKIPPED"
        }
        Verdict::Broken(_) => "FAILED",
    };
    let wall = started.elapsed().as_secs_f64();
    let code = ended.code.map_or("-".to_owned(), |code| code.to_string());
    println!("{word:7} {:8} {seed} {wall:5.1} s {code:>4}  {shown}", class.name);
    Ok(verdict)
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

/// While this lives, orphans below this process become its children.
#[derive(Debug)]
pub struct Adopting;

impl Adopting {
    /// Starts to adopt orphans.
    ///
    /// # Errors
    /// Fails if the system refuses it.
    pub fn start() -> Result<Self> {
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
