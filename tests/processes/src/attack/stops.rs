//! Attacks by signals that stop a launcher and let it go on, as a terminal and a batch system send
//! them, and by those that end it.

use super::errand;
use super::event::{Event, What, When};
use super::job::{Job, Promise};
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;
use std::time::Duration;

/// Signals that stop: Ctrl-Z, a read or a write in the background, and the one that is not handled.
const STOPS: &[&str] = &["TSTP", "TTIN", "TTOU", "STOP"];
/// Times in ms for which a launcher is stopped: shorter and longer than the timeout of a node.
const PAUSES: &[u64] = &[1, 300, 3500, 9000];
/// Signals that end a job, and the codes of its launcher.
const ENDS: &[(&str, i32)] = &[("INT", 130), ("TERM", 143), ("HUP", 129)];
/// Signals that a launcher has no use for, or passes on: it ends by them, or goes on.
const OTHERS: &[(&str, i32)] =
    &[("QUIT", 131), ("USR1", 138), ("USR2", 140), ("ALRM", 142), ("XCPU", 152), ("WINCH", 0)];

/// Draws a job.
///
/// # Errors
/// Fails if the folder cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let mut job = errand::endless(sampler).job(place)?;
    let when = When::Ready(vec![job.folder.work().join("ready-0")]);
    let (end, code) = sampler.one_of(ENDS);
    let (mut steps, mut codes) = (Vec::new(), vec![code]);
    if sampler.once_in(2) {
        let pause = Duration::from_millis(sampler.one_of(PAUSES));
        steps.push((sampler.one_of(STOPS), pause));
        // It has the time to be heard again before it is ended.
        steps.push(("CONT", Duration::from_secs(2)));
    } else {
        let (signal, code) = sampler.one_of(OTHERS);
        steps.push((signal, Duration::from_secs(1)));
        // By the code of the signal, or by the signal itself: its agents end the job either way.
        codes.extend(Some(code).filter(|code| *code != 0).into_iter().flat_map(|c| [c, 128 - c]));
    }
    steps.push((end, Duration::ZERO));
    job.event = Some(Event { when, what: What::Signals(steps) });
    job.promise = Promise::exactly(&codes);
    Ok(job)
}
