//! Attacks by dispositions of signals that a job inherits.

use super::errand;
use super::event::{Event, What, When};
use super::job::{Job, Promise};
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;

const SIGNALS: &[&str] = &["CHLD", "PIPE", "INT", "TERM", "HUP", "QUIT", "XFSZ", "USR1", "ALRM"];
/// Signals by which a user ends a job, and its exit codes.
const ENDS: &[(&str, i32)] = &[("INT", 130), ("TERM", 143), ("HUP", 129)];

/// Draws a job.
///
/// # Errors
/// Fails if the folder or the records cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let mut ignored = Vec::new();
    let mut conditions = Vec::new();
    for _ in 0..=sampler.below(3) {
        let signal = sampler.one_of(SIGNALS);
        let option = sampler.one_of(&["--ignore", "--block"]);
        if option == "--ignore" {
            ignored.push(signal);
        }
        conditions.push((option, signal));
    }
    let heard: Vec<_> = ENDS.iter().filter(|(name, _)| !ignored.contains(name)).collect();
    let mut job = if sampler.once_in(3) && !heard.is_empty() {
        let mut job = errand::endless(sampler).job(place)?;
        let (signal, code) = *sampler.one_of(&heard);
        let when = When::Ready(vec![job.folder.work().join("ready-0")]);
        job.event = Some(Event { when, what: What::Signal(signal) });
        job.promise = Promise::exactly(&[code]);
        job.promise.words.push("interrupted".to_owned());
        job
    } else {
        errand::any(sampler).job(place)?
    };
    for (option, signal) in conditions {
        job.condition(option, signal);
    }
    Ok(job)
}
