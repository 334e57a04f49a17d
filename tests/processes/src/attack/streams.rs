//! Attacks by standard streams: every kind of input, output and errors, under every kind of errand.

use super::errand::{self, Amount, Errand};
use super::event::{Event, What, When};
use super::job::Job;
use super::place::AttackPlace;
use super::stream::{INPUTS, Input, OUTPUTS, Output};
use anyhow::Result;
use clump_test_tier::Sampler;
use std::time::Duration;

/// Time after which a blocked job is asked to end.
const NUDGE: Duration = Duration::from_secs(2);
/// Exit codes of a job that was asked to end, and of one whose terminal hung up.
const TERMINATED: i32 = 143;
const HUNG_UP: i32 = 129;
const UNREAD: i32 = 141;
/// Exit code of a launcher that could not write what it was asked for.
const UNREPORTED: i32 = 125;

/// Draws a job.
///
/// # Errors
/// Fails if the folder or the records cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    if sampler.once_in(12) {
        return hang_up(sampler, place);
    }
    let errand = errand::any(sampler);
    let mut job = errand.job(place)?;
    // One or two strange streams: with three of them little can be checked.
    let mut strange = [false; 3];
    for _ in 0..2 {
        strange[sampler.one_of(&[0_usize, 1, 1, 2])] = true;
    }
    if strange[0] {
        job.input = sampler.one_of(INPUTS);
    }
    if strange[1] {
        // Two strange ones would share nothing.
        job.output = sampler.one_of(OUTPUTS);
        if job.output == Output::Same {
            job.output = Output::Pipe;
            job.errors = Output::Same;
        }
    }
    if strange[2] {
        job.errors = sampler.one_of(OUTPUTS);
    }
    promise(&mut job, &errand);
    Ok(job)
}

/// Sets a job's promise under its streams.
fn promise(job: &mut Job, errand: &Errand) {
    let (output, errors) = (job.output, job.errors);
    let same = errors == Output::Same;
    let empty = errand.reads && !job.input.holds_text();
    let writes = (errand.amount != Amount::Nothing && !empty) || (same && errand.code != 0);
    let mut nudged = false;
    if writes && (output.fails() || output == Output::Closed) {
        job.promise.may_refuse = true;
        if output.is_gone() {
            // As with every program: there is no reader to be told.
            job.promise.codes.push(UNREAD);
            job.promise.may_be_silent = true;
        } else if output == Output::Full && errand.code == 0 {
            // Output that could not be written is no success. (The standard library treats a
            // descriptor that is closed, or not for writing, as one that discards.)
            job.promise.codes.clear();
        }
        job.promise.words.clear();
        // A report that nobody gets says nothing about files that were complete before.
        job.promise.absent.clear();
    }
    let reports = if same { output } else { errors };
    if reports.fails() && job.command.iter().any(|word| word == "--stats") {
        // The statistics that were asked for could not be written.
        job.promise.codes.push(UNREPORTED);
        job.promise.may_be_silent = true;
    }
    if writes && output.is_stuck() && errand.amount == Amount::Much {
        nudged = true;
    }
    if errand.reads {
        match job.input {
            Input::PipeHeld | Input::Full => nudged = true,
            // `cat` itself cannot read there.
            Input::Folder | Input::TerminalGone | Input::Closed => job.promise.may_refuse = true,
            _ => {}
        }
    }
    if nudged {
        job.event = Some(Event { when: When::After(NUDGE), what: What::Signal("TERM") });
        job.promise.codes.push(TERMINATED);
        job.promise.words.clear();
    }
}

/// Draws a terminal that hangs up on a job that would go on for ever.
fn hang_up(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let mut job = errand::endless(sampler).job(place)?;
    job.input = Input::Terminal;
    job.condition("--terminal", "0");
    if sampler.once_in(2) {
        job.output = Output::TerminalUnread;
    }
    let when = if sampler.once_in(2) {
        When::Ready(vec![job.folder.work().join("ready-0")])
    } else {
        When::After(Duration::from_millis(sampler.below(300)))
    };
    job.event = Some(Event { when, what: What::HangUp });
    // So early the launcher may not handle signals yet; then the kernel ends it.
    job.promise.codes = vec![HUNG_UP, -1];
    job.promise.may_be_silent = true;
    Ok(job)
}
